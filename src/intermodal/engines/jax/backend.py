"""`JaxBackend`: what the contract asks for besides the natives."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, Final, TypeVar, cast

import jax
import numpy as np

from intermodal import config, dtypes
from intermodal.backend import Backend, DTypeUsage, HostMemory, Native, Program
from intermodal.backend.memory import MemoryInfo, host_memory
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.engines.jax import arrays, memory
from intermodal.engines.jax.natives import NATIVES, has_x64, in_range
from intermodal.engines.numpy.memory import aligned_copy
from intermodal.errors import CopyRequiredError, DTypeError, ExchangeError, ExecutionError, OutOfMemoryError, UnsupportedError
from intermodal.ops.rules import Elementwise
from intermodal.ops.table import Op, Spec

__all__ = ["JaxBackend"]

for _family in ("elementwise", "fft", "linalg", "nn", "random"):
    import_module(f"intermodal.engines.jax.{_family}")  # which collects its natives

T = TypeVar("T")
_WIDE: Final = frozenset((dtypes.int64, dtypes.uint64, dtypes.float64, dtypes.complex128))
_STORED_ONLY: Final = frozenset((dtypes.float8_e4m3fn, dtypes.float8_e5m2, dtypes.int4, dtypes.uint4))
_PACKED: Final = frozenset((dtypes.int4, dtypes.uint4))  # two to the byte
_FAST: Final = frozenset((dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128, dtypes.bfloat16))
_ADVICE: Final = (
    "JAX has 64-bit dtypes only where jax_enable_x64 is on. Set INTERMODAL_JAX_X64=1, or call im.config.set(jax_x64=True) "
    "before the first use of jax, or take a dtype of 32 bits."
)


class JaxBackend(Backend):
    """Tensors as JAX arrays. Ops are compiled by XLA on first use and run asynchronously where the device does."""

    engine = "jax"
    takes_scalars = True
    getitem = arrays.getitem
    natives = NATIVES
    shares = HostMemory(strides="contiguous", alignment=64, other_form=_PACKED)
    dlpack_kinds: ClassVar[Mapping[str, int]] = {"gpu": 2, "cuda": 2}

    def __init__(self) -> None:
        super().__init__()
        if config.jax_x64.get():  # it holds for all of the process's JAX, so only the user may ask for it
            jax.config.update("jax_enable_x64", True)

    # --- devices and dtypes --------------------------------------------------------------------------------------

    def devices(self) -> Sequence[Device]:
        return tuple(memory.devices())

    def name(self, device: Device) -> str:
        return f"JAX {jax.__version__} on {memory.devices()[device].device_kind}"

    def dtype_usage(self, device: Device, dtype: DType) -> DTypeUsage:
        if dtype in _WIDE and not has_x64():
            return DTypeUsage.NONE
        if dtype in _STORED_ONLY:
            return DTypeUsage.STORAGE
        return DTypeUsage.GENERAL | DTypeUsage.ACCELERATED if dtype in _FAST else DTypeUsage.GENERAL

    def advice(self, device: Device, dtype: DType) -> str:
        return _ADVICE if dtype in _WIDE else super().advice(device, dtype)

    def flushes_subnormals(self, device: Device) -> bool:
        return device.kind != "gpu"  # XLA sets the CPU to do so, and a TPU has none

    # --- data ----------------------------------------------------------------------------------------------------

    def shape(self, array: Any) -> tuple[int, ...]:
        return cast("tuple[int, ...]", array.shape)

    def from_host(self, data: np.ndarray[Any, Any], device: Device, *, copy: bool | None = None) -> Any:
        why = self.shares.obstacle(data, "JAX") if device.kind == "cpu" else f"{device} has memory of its own"
        if why and copy is False:
            raise CopyRequiredError(f"asarray: {why}, and copy=False forbids a copy.")
        # JAX shares what it can, even where it is asked not to; so the copy is made here, and it is JAX's from here on.
        return memory.enter(aligned_copy(data) if copy else data, device)

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        return _waited("to_host", lambda: memory.read(array))

    def host_view(self, array: Any) -> np.ndarray[Any, Any] | None:
        if memory.device_of(array).kind != "cpu":
            return None
        view = self.to_host(array)
        return view if memory.shares(array, view) else None  # integers of 4 bits are unpacked

    def adopt(self, array: object) -> tuple[Any, Device, DType] | None:
        if not isinstance(array, jax.Array):
            return None
        if isinstance(array, jax.core.Tracer):
            raise ExchangeError("asarray: JAX is tracing a function, and a traced value has no data. Convert outside of it.")
        if len(array.devices()) != 1:
            raise ExchangeError(
                f"asarray: a JAX array over {len(array.devices())} devices is no tensor. Bring it to one with jax.device_put."
            )
        try:
            device, dtype = memory.device_of(array), dtypes.as_dtype(array.dtype)
        except DTypeError as error:
            raise DTypeError(
                f"asarray: a JAX array of {array.dtype} cannot become a tensor. Cast it first, with x.astype(...)."
            ) from error
        return memory.settled(array, device), device, dtype

    def transaction(self, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        return _waited("read", lambda: list(jax.device_get(jax.block_until_ready(list(arrays)))))

    def dlpack_device(self, array: Any) -> tuple[int, int]:
        kind, index = array.__dlpack_device__()
        return int(kind), int(index)

    def to_dlpack(self, array: Any, **options: Any) -> object:
        if (options.get("max_version") or (1,))[0] < 1:
            options = {**options, "max_version": None}  # JAX has one form without a version and refuses to call it by a number
        _waited("__dlpack__", array.block_until_ready)
        try:
            return array.__dlpack__(**options)
        except (BufferError, RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            raise ExchangeError(
                f"__dlpack__: JAX cannot export this {array.dtype} array: {error}. Take the data with .numpy() instead."
            ) from error

    def from_dlpack(self, producer: object, device: Device) -> Any:
        return jax.dlpack.from_dlpack(producer)

    # --- execution -----------------------------------------------------------------------------------------------

    def native(self, row: Op, dtype: DType) -> Native | None:
        function = self.natives.get(row.name)
        if function is not None and dtype.is_integer and type(row.infer) is Elementwise and len(row.tensor_params) == 2:
            return in_range(function, dtype)
        return function

    def execute(
        self, row: Op, arrays: Sequence[Any], attrs: Mapping[str, object], outputs: Sequence[Spec], native: Native
    ) -> Sequence[Any]:
        x64 = has_x64()
        wanted = next((s.dtype for s in outputs if s.dtype in _WIDE), None)
        if wanted is not None and not x64:
            raise UnsupportedError(f"{row.name}: the result is {wanted}. {_ADVICE}")
        try:
            return super().execute(row, [_sized(a, x64) if type(a) is int else a for a in arrays], attrs, outputs, native)
        except ExecutionError as error:
            if _is_memory(error.reason):
                raise OutOfMemoryError(
                    f"{row.name}: JAX has no memory for {', '.join(f'shape {s.shape} of {s.dtype}' for s in outputs)}. Free tensors or work in smaller pieces.",
                    reason=error.reason,
                ) from error.__cause__
            raise

    def compile(self, program: Program) -> Callable[..., Sequence[Any]]:
        program.require_sizes()  # XLA compiles for sizes that it knows
        return cast("Callable[..., Sequence[Any]]", jax.jit(program.function(), donate_argnums=tuple(program.donated)))

    def sync(self, device: Device) -> None:
        there = memory.devices()[device]

        def wait() -> None:
            jax.effects_barrier()
            jax.block_until_ready([a for a in jax.live_arrays() if there in a.devices()])

        _waited("sync", wait)

    def memory_cleanup(self, device: Device) -> None:
        jax.clear_caches()  # compiled functions are most of what JAX keeps
        gc.collect()
        memory.trim()

    def memory_info(self, device: Device) -> MemoryInfo | None:
        if device.kind == "cpu":
            return host_memory()
        found = memory.devices()[device].memory_stats()
        if not found or "bytes_limit" not in found:
            return None
        return MemoryInfo(found["bytes_limit"], found["bytes_limit"] - found.get("bytes_in_use", 0))


def _sized(value: int, x64: bool) -> Any:
    """A compiled function takes a Python integer as JAX's default integer; one beyond it is an unsigned operand's."""
    bits = 63 if x64 else 31
    return value if -(2**bits) <= value < 2**bits else (np.uint64 if x64 else np.uint32)(value)


def _is_memory(reason: str) -> bool:
    return "RESOURCE_EXHAUSTED" in reason or "Out of memory" in reason  # an op that depends on the failed one has the text only


def _waited(what: str, read: Callable[[], T]) -> T:
    """Wait for results; work that failed on the device says so here."""
    try:
        return read()
    except jax.errors.JaxRuntimeError as error:
        kind = OutOfMemoryError if _is_memory(str(error)) else ExecutionError
        raise kind(f"{what}: jax failed to compute what is read: {error}", reason=str(error)) from error
