"""`NumpyBackend`: what the contract asks for besides the natives."""

from __future__ import annotations

import gc
import operator
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, cast

import numpy as np

from intermodal import dtypes
from intermodal.backend import Backend, DTypeUsage, HostMemory, Native, Program
from intermodal.backend.memory import MemoryInfo, host_memory
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.engines.numpy import memory
from intermodal.engines.numpy.natives import NATIVES, through
from intermodal.errors import CopyRequiredError, ExchangeError
from intermodal.ops.rules import integer_range
from intermodal.ops.table import Op, Spec

__all__ = ["NumpyBackend"]

for _family in ("arrays", "elementwise", "fft", "gradients", "linalg", "nn", "optimization", "random"):
    import_module(f"intermodal.engines.numpy.{_family}")  # which collects its natives

_STORED_ONLY: Final = frozenset((dtypes.float8_e4m3fn, dtypes.float8_e5m2, dtypes.int4, dtypes.uint4))
_BLAS: Final = frozenset((dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128))
_CPU: Final = Device("numpy:cpu")


_COMPARISONS: Final = frozenset(("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"))


def _in_range(function: Native, dtype: DType) -> Native:
    """A comparison that refuses an integer which the dtype cannot hold: NumPy alone would answer, and no other op takes it."""
    low, high = integer_range(dtype)

    def compare(x1: Any, x2: Any) -> Any:
        for value in (x1, x2):
            if type(value) is int and not low <= value <= high:
                raise OverflowError(f"{value} does not fit {dtype}")
        return function(x1, x2)

    return compare


class NumpyBackend(Backend):
    """Tensors as NumPy arrays on the host."""

    engine = "numpy"
    takes_scalars = True
    getitem = operator.getitem
    natives = NATIVES
    shares = HostMemory(keeps_read_only=True)

    def devices(self) -> Sequence[Device]:
        return (_CPU,)

    def name(self, device: Device) -> str:
        return f"NumPy {np.__version__}"

    def dtype_usage(self, device: Device, dtype: DType) -> DTypeUsage:
        if dtype in _STORED_ONLY:
            return DTypeUsage.STORAGE
        return DTypeUsage.GENERAL | DTypeUsage.ACCELERATED if dtype in _BLAS else DTypeUsage.GENERAL

    def native(self, row: Op, dtype: DType) -> Native | None:
        function = self.natives.get(row.name)
        if function is None or row.movement or row.namespace == "random" or row.name == "nextafter":
            return function  # the natives of random numbers and of the next number know the steps of narrow dtypes themselves
        if dtype is dtypes.bfloat16 or (dtype is dtypes.float16 and row.namespace in ("linalg", "fft", "nn")):
            return through(function, dtype, dtypes.float32)
        return _in_range(function, dtype) if dtype.is_integer and row.name in _COMPARISONS else function

    def execute(
        self, row: Op, arrays: Sequence[Any], attrs: Mapping[str, object], outputs: Sequence[Spec], native: Native
    ) -> Sequence[Any]:
        # A ufunc answers 0-d operands with a NumPy scalar, and asking it for an array would cost every operator 0.2 µs.
        # So a 0-d tensor may hold a scalar; natives get arrays all the same.
        arrays = [np.asarray(a) if isinstance(a, np.generic) else a for a in arrays]
        return super().execute(row, arrays, attrs, outputs, native)

    def compile(self, program: Program) -> Callable[..., Sequence[Any]]:
        return program.function(_takes_arrays, _is_ufunc)

    def shape(self, array: np.ndarray[Any, Any]) -> tuple[int, ...]:
        return cast("tuple[int, ...]", array.shape)

    def from_host(self, data: np.ndarray[Any, Any], device: Device, *, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if not data.dtype.isnative:
            if copy is False:
                raise CopyRequiredError(
                    f"asarray: {data.dtype} is not in this machine's byte order, and copy=False forbids a copy."
                )
            return memory.aligned_copy(data.astype(data.dtype.newbyteorder("=")))
        return memory.aligned_copy(data) if copy else data

    def to_host(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(array)

    def host_view(self, array: Any) -> np.ndarray[Any, Any] | None:
        return None if isinstance(array, np.generic) else array  # a scalar has no memory that could be shared

    def dlpack_device(self, array: np.ndarray[Any, Any]) -> tuple[int, int]:
        return np.asarray(array).__dlpack_device__()

    def to_dlpack(self, array: np.ndarray[Any, Any], **options: Any) -> object:
        try:
            return np.asarray(array).__dlpack__(**options)
        except (BufferError, RuntimeError) as error:
            raise ExchangeError(
                f"__dlpack__: NumPy cannot export this {array.dtype} array: {error}. Take the data with .numpy() instead."
            ) from error

    def memory_cleanup(self, device: Device) -> None:
        gc.collect()  # NumPy keeps no pool of its own; arrays in reference cycles are all there is to free

    def memory_info(self, device: Device) -> MemoryInfo | None:
        return host_memory()


def _takes_arrays(step: Any) -> bool:
    """Whether no tensor of an op is 0-d: see `NumpyBackend.execute`."""
    return all(t.shape for t in (*step.operation.tensors(), *step.operation.outputs))


def _is_ufunc(step: Any) -> bool:
    return isinstance(step.native, np.ufunc) and _takes_arrays(step)
