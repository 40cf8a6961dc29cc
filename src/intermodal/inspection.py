"""The Array API's questions about dtypes and devices: limits, promotion, and what this namespace can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import ml_dtypes

from intermodal import config, dtypes
from intermodal.backend import DTypeUsage, backend_of, check_device
from intermodal.config import default_device
from intermodal.devices import Device, DeviceLike, as_device
from intermodal.dtypes import DType, DTypeLike, Scalar
from intermodal.errors import DTypeError, InvalidValueError
from intermodal.ops import rules
from intermodal.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["__array_namespace_info__", "broadcast_shapes", "can_cast", "finfo", "iinfo", "result_type"]


class FloatLimits(NamedTuple):
    """What `finfo` says of a floating dtype, in Python scalars."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerLimits(NamedTuple):
    """What `iinfo` says of an integer dtype, in Python scalars."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype_of(type: DTypeLike | Tensor) -> DType:
    return type.dtype if isinstance(type, Tensor) else dtypes.as_dtype(type)


def finfo(type: DTypeLike | Tensor, /) -> FloatLimits:
    """The limits of a floating dtype; of a complex one, those of its parts.

    Example:
        >>> finfo("float16").max
        65504.0
    """
    dtype = _dtype_of(type).component
    if not dtype.is_floating:
        raise DTypeError(f"finfo: {dtype} is not a floating dtype. Use im.iinfo for integers.")
    info = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]  # ml_dtypes does not annotate it
    return FloatLimits(dtype.bits, float(info.eps), float(info.max), float(info.min), float(info.smallest_normal), dtype)


def iinfo(type: DTypeLike | Tensor, /) -> IntegerLimits:
    """The limits of an integer dtype."""
    dtype = _dtype_of(type)
    if not dtype.is_integer:
        raise DTypeError(f"iinfo: {dtype} is not an integer dtype. Use im.finfo for floats.")
    low, high = rules.integer_range(dtype)
    return IntegerLimits(dtype.bits, high, low, dtype)


def can_cast(from_: DTypeLike | Tensor, to: DTypeLike, /) -> bool:
    """Whether a dtype, or a tensor's, promotes to another without loss."""
    return dtypes.can_cast(_dtype_of(from_), dtypes.as_dtype(to))


def result_type(*arrays_and_dtypes: DTypeLike | Tensor | Scalar) -> DType:
    """The dtype to which tensors, dtypes and Python scalars promote.

    Example:
        >>> import intermodal as im
        >>> im.result_type(im.int8, im.uint8), im.result_type(im.float32, 1.0)
        (intermodal.int16, intermodal.float32)
    """
    found: DType | None = None
    scalars = [x for x in arrays_and_dtypes if isinstance(x, (bool, int, float, complex))]
    for x in arrays_and_dtypes:
        if not isinstance(x, (bool, int, float, complex)):
            dtype = _dtype_of(x)
            found = dtype if found is None else dtypes.promote(found, dtype)
    if found is None:
        raise InvalidValueError("result_type: give at least one tensor or dtype.")
    for scalar in scalars:
        found = dtypes.promote_scalar(found, scalar)
    return found


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which all shapes broadcast."""
    return rules.broadcast(*(tuple(s) for s in shapes))


class NamespaceInfo:
    """What this namespace can do, as the Array API's inspection asks."""

    def capabilities(self) -> dict[str, object]:
        """Boolean indexing and data-dependent shapes work; the number of axes is NumPy's limit."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Where creation functions put new tensors."""
        return default_device()

    def devices(self) -> tuple[Device, ...]:
        """The devices of NumPy, which is always there, and those of the default device's engine."""
        return tuple(d for engine in dict.fromkeys(("numpy", default_device().engine)) for d in backend_of(engine).devices())

    def default_dtypes(self, *, device: DeviceLike | None = None) -> dict[str, DType]:
        """The dtypes that Python numbers get."""
        real = config.default_float.get()
        return {"real floating": real, "complex floating": real.as_complex, "integral": dtypes.int64, "indexing": dtypes.int64}

    def dtypes(self, *, device: DeviceLike | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """The standard's dtypes that a device computes with, all or of a kind."""
        target = default_device() if device is None else as_device(device)
        engine = check_device(target)
        return {
            d.name: d
            for d in dtypes.STANDARD
            if (kind is None or dtypes.isdtype(d, kind)) and DTypeUsage.GENERAL in engine.dtype_usage(target, d)
        }


def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807  # the standard's name
    """What this namespace can do: capabilities, devices, dtypes."""
    return NamespaceInfo()
