"""How a PyTorch native is written down: functions collected by name, dtypes by name, and scalars that are checked."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar, overload

import torch

from intermodal import dtypes
from intermodal.backend import Native
from intermodal.devices import Device
from intermodal.dtypes import DType

__all__ = [
    "FLOATS",
    "INEXACT",
    "NATIVES",
    "ONLY",
    "TORCH",
    "WIDE",
    "as_operand",
    "checked",
    "lifting",
    "native",
    "on",
    "through",
    "traced",
]

F = TypeVar("F", bound=Callable[..., Any])

TORCH: Final = {d: getattr(torch, d.name) for d in dtypes.ALL if hasattr(torch, d.name)}
"""Our dtypes as PyTorch's; older ones have no names for integers of 4 bits."""
FLOATS: Final = frozenset((dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64))
WIDE: Final = frozenset((dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128))
INEXACT: Final = FLOATS | WIDE

NATIVES: Final[dict[str, Native]] = {}
ONLY: Final[dict[str, frozenset[DType]]] = {}
"""The dtypes of a native that is not for all; elsewhere the row's decomposition serves."""


@overload
def native(function: F) -> F: ...
@overload
def native(*, only: frozenset[DType]) -> Callable[[F], F]: ...
def native(function: F | None = None, *, only: frozenset[DType] | None = None) -> F | Callable[[F], F]:
    """Add a function under its own name; a trailing underscore keeps it off a builtin's or keyword's name."""

    def collect(function: F) -> F:
        name = function.__name__.rstrip("_")
        NATIVES[name] = function
        if only is not None:
            ONLY[name] = only
        return function

    return collect if function is None else collect(function)


def traced(x: Any) -> bool:
    """Whether a compiler looks on: then there is no value to read, and a native takes the way that is right for all."""
    return type(x) is not torch.Tensor


def on(device: Device) -> str:
    """PyTorch's name of a device."""
    return device.kind if device.kind == "cpu" else f"{device.kind}:{device.index}"


def as_operand(value: Any, like: torch.Tensor) -> torch.Tensor:
    """A tensor as it is; a Python scalar as a 0-d tensor of another's dtype. One beyond a float's range is infinite."""
    if isinstance(value, torch.Tensor):
        return value
    try:
        return torch.scalar_tensor(value, dtype=like.dtype, device=like.device)
    except RuntimeError:
        if not like.dtype.is_floating_point and not like.dtype.is_complex:
            raise
        wide = torch.complex128 if like.dtype.is_complex else torch.float64
        return torch.scalar_tensor(value, dtype=wide).to(like.dtype).to(like.device)


def lifting(function: Native) -> Native:
    """A function of two tensors that takes a scalar in place of one."""

    @wraps(function)
    def lifted(x1: Any, x2: Any) -> Any:
        if type(x1) is torch.Tensor and type(x2) is torch.Tensor:
            return function(x1, x2)
        like = x1 if isinstance(x1, torch.Tensor) else x2
        return function(as_operand(x1, like), as_operand(x2, like))

    return lifted


def checked(function: Native, dtype: DType) -> Native:
    """An op of two integers that refuses a scalar its dtype cannot hold: PyTorch would wrap it without a word."""
    info = torch.iinfo(TORCH[dtype])
    low, high = info.min, info.max

    @wraps(function)
    def checking(x1: Any, x2: Any) -> Any:
        if (type(x2) is int and not low <= x2 <= high) or (type(x1) is int and not low <= x1 <= high):
            raise OverflowError(f"{x1 if type(x1) is int else x2} does not fit {dtype}")
        return function(x1, x2)

    return checking


def through(function: Native, narrow: torch.dtype, wide: torch.dtype) -> Native:
    """The function computed in a wider dtype and rounded back, for a dtype that PyTorch's kernels do not have."""

    def widen(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype is narrow:
            return value.to(wide)
        return [widen(v) for v in value] if isinstance(value, list) else value

    def back(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return tuple(back(v) for v in value)
        return value.to(narrow) if value.dtype is wide else value

    @wraps(function)
    def wide_function(*arrays: Any, **attrs: Any) -> Any:
        return back(function(*map(widen, arrays), **attrs))

    return wide_function
