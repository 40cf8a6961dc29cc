"""`OnnxBackend`: what the contract asks for besides the natives."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import numpy as np
import onnxruntime as ort

from intermodal import dtypes
from intermodal.backend import Backend, DTypeUsage, HostMemory, Native, Program
from intermodal.backend.memory import MemoryInfo, host_memory
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.engines.numpy.memory import aligned_copy
from intermodal.engines.onnx import memory
from intermodal.engines.onnx.exporting import save
from intermodal.engines.onnx.kernels import ONNX, OURS
from intermodal.engines.onnx.memory import CPU, FOUR_BITS, OnnxArray
from intermodal.engines.onnx.programs import compiled
from intermodal.engines.onnx.providers import DEVICES, provider_of
from intermodal.engines.onnx.running import SESSIONS, native_of
from intermodal.errors import CopyRequiredError, DTypeError, ExchangeError, ExecutionError, IndexRangeError, OutOfMemoryError
from intermodal.ops.table import Op, Spec

__all__ = ["OnnxBackend"]

for _family in ("analysis", "arrays", "elementwise", "nn", "reduction", "searching"):
    import_module(f"intermodal.engines.onnx.{_family}")  # which collects its lowerings

HostArray = np.ndarray[Any, Any]
_STORED_ONLY: Final = frozenset((dtypes.float8_e4m3fn, dtypes.float8_e5m2)) | FOUR_BITS
_OUTSIDE: Final = ("out of data bounds", "Out of range value in index")
_FAST: Final = frozenset((dtypes.float32, dtypes.float64))


class OnnxBackend(Backend):
    """Tensors as ONNX Runtime's OrtValues, ops as models of a few operators."""

    engine = "onnx"
    takes_scalars = True
    shares = HostMemory(strides="contiguous", alignment=1, other_form=FOUR_BITS)
    dlpack_kinds: ClassVar[Mapping[str, int]] = {"cuda": 2}

    # --- devices and dtypes --------------------------------------------------------------------------------------

    def devices(self) -> Sequence[Device]:
        return tuple(DEVICES)

    def name(self, device: Device) -> str:
        return f"ONNX Runtime {ort.__version__}" if device is CPU else f"ONNX Runtime {ort.__version__}, {device.kind}"

    def dtype_usage(self, device: Device, dtype: DType) -> DTypeUsage:
        if dtype not in ONNX:
            return DTypeUsage.NONE
        if dtype in _STORED_ONLY:
            return DTypeUsage.STORAGE
        return DTypeUsage.GENERAL | DTypeUsage.ACCELERATED if dtype in _FAST else DTypeUsage.GENERAL

    def advice(self, device: Device, dtype: DType) -> str:
        return "ONNX Runtime has no complex numbers. Keep real and imaginary parts apart, or use another engine."

    # --- data ----------------------------------------------------------------------------------------------------

    def shape(self, array: OnnxArray) -> tuple[int, ...]:
        return array.sizes

    def from_host(self, data: HostArray, device: Device, *, copy: bool | None = None) -> OnnxArray:
        here = provider_of(device).memory == "cpu"
        why = self.shares.obstacle(data, "ONNX Runtime") if here else f"{device} has memory of its own"
        if why and copy is False:
            raise CopyRequiredError(f"asarray: {why}, and copy=False forbids a copy.")
        if not here:
            return memory.send(data, device)
        return memory.enter(aligned_copy(data) if copy and not why else data, device)

    def to_host(self, array: OnnxArray) -> HostArray:
        return memory.host(array) if array.device_name() == "cpu" else memory.fetch(array)

    def host_view(self, array: OnnxArray) -> HostArray | None:
        return memory.host(array) if array.dtype not in FOUR_BITS and array.device_name() == "cpu" else None

    def adopt(self, array: object) -> tuple[OnnxArray, Device, DType] | None:
        if not isinstance(array, ort.OrtValue):
            return None
        if isinstance(array, OnnxArray):
            return array, array.device, array.dtype
        if not array.is_tensor():
            raise ExchangeError("asarray: the OrtValue holds a sequence or sparse numbers. Pass one that holds a tensor.")
        dtype = OURS.get(array.element_type())
        if dtype is None:
            raise DTypeError(f"asarray: an OrtValue of {array.data_type()} cannot become a tensor. Cast it in its model.")
        device = Device(f"onnx:{array.device_name()}")
        if device not in self.devices():
            raise ExchangeError(
                f"asarray: an OrtValue in the memory of {array.device_name()} cannot become a tensor. Copy it to the CPU."
            )
        return memory.wrap(array._ortvalue, device, array), device, dtype

    def dlpack_device(self, array: OnnxArray) -> tuple[int, int]:
        kind, index = array.__dlpack_device__()
        return int(kind), int(index)

    def to_dlpack(self, array: OnnxArray, **options: Any) -> object:
        if array.device_name() == "cpu" and array.dtype.numpy.isbuiltin == 1:
            return memory.host(array).__dlpack__(**options)  # ONNX Runtime's own says uint8 of bools
        try:
            return array.__dlpack__()
        except (RuntimeError, ValueError) as error:
            raise ExchangeError(
                f"__dlpack__: ONNX Runtime cannot export an array of {array.dtype}: {error}. Take the data with .numpy() instead."
            ) from error

    def from_dlpack(self, producer: Any, device: Device) -> OnnxArray:
        return memory.wrap(ort.OrtValue.from_dlpack(producer)._ortvalue, device, producer)

    # --- execution -----------------------------------------------------------------------------------------------

    def native(self, row: Op, dtype: DType) -> Native | None:
        return native_of(row, dtype)

    def execute(
        self, row: Op, arrays: Sequence[Any], attrs: Mapping[str, object], outputs: Sequence[Spec], native: Native
    ) -> Sequence[Any]:
        if outputs and all(None not in s.shape and 0 in s.shape for s in outputs):
            # Nothing is to be computed, and some kernels refuse to do it.
            device = next((a.device for a in arrays if isinstance(a, OnnxArray)), None) or cast(
                "Device", attrs.get("device", CPU)
            )
            return [self.from_host(np.empty(s.shape, s.dtype.numpy), device) for s in outputs]
        try:
            return super().execute(row, arrays, attrs, outputs, native)
        except ExecutionError as error:
            if "axis" in attrs and any(words in error.reason for words in _OUTSIDE):
                axis = cast("int", attrs["axis"])
                n, given = arrays[0].sizes[axis], self.to_host(arrays[1])
                wrong = given.min() if given.min() < -n else given.max()
                raise IndexRangeError(
                    f"{row.name}: index {wrong} is out of range for axis {axis} of size {n}. It must lie in [-{n}, {n - 1}]."
                ) from error.__cause__
            if "Failed to allocate memory" in error.reason or "bad_alloc" in error.reason:
                raise OutOfMemoryError(
                    f"{row.name}: ONNX Runtime has no memory for {', '.join(f'shape {s.shape} of {s.dtype}' for s in outputs)}. Free tensors or work in smaller pieces.",
                    reason=error.reason,
                ) from error.__cause__
            raise

    def compile(self, program: Program) -> Callable[..., Sequence[Any]]:
        return compiled(program)

    def save(self, program: Program, path: Path, names: tuple[list[str], list[str]], external: bool | None) -> None:
        """Write a program as an ONNX model, with these names of its inputs and outputs."""
        save(program, path, names, external)

    def memory_cleanup(self, device: Device) -> None:
        SESSIONS.clear()
        gc.collect()

    def memory_info(self, device: Device) -> MemoryInfo | None:
        return host_memory() if provider_of(device).memory == "cpu" else None
