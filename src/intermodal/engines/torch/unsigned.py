"""Unsigned integers of 16, 32 and 64 bits, which PyTorch stores and hardly computes with: through int64.

The two small ones fit. The bits of a uint64 read as int64 add, multiply and shift alike; with the first bit turned they
order alike. Division and powers follow from that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import torch

from intermodal import dtypes
from intermodal.backend import Native
from intermodal.dtypes import DType
from intermodal.engines.torch.natives import TORCH

__all__ = ["UNSIGNED", "unsigned"]

UNSIGNED: Final = frozenset((dtypes.uint16, dtypes.uint32, dtypes.uint64))
_FIRST_BIT: Final = -(2**63)

# PyTorch has these kernels, or the native looks at the dtype itself.
_AS_IT_IS: Final = frozenset((
    "astype", "reshape", "permute_dims", "broadcast_to", "concat", "stack", "expand_dims", "squeeze", "flip", "repeat", "full",
    "empty", "arange", "basic_index", "take", "take_along_axis", "sliding_window", "diagonal", "positive", "conj", "real",
    "floor", "ceil", "trunc", "isnan", "isinf", "isfinite", "equal", "not_equal", "multiply", "bitwise_and", "bitwise_or",
    "bitwise_xor", "where", "all", "any", "count_nonzero", "sum", "prod", "cumulative_sum", "cumulative_prod", "randint",
))  # fmt: skip
_ORDERED: Final = frozenset((
    "less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "max", "min", "argmax", "argmin", "sort",
    "argsort", "searchsorted", "cumulative_max", "cumulative_min",
))  # fmt: skip
_COUNTS: Final = frozenset(("argmax", "argmin", "argsort", "searchsorted", "nonzero"))
_INDICES: Final = {"searchsorted": 2, "scatter": 1}
"""Which operand is no number to compute with, but says where."""


def unsigned(name: str, function: Native, dtype: DType) -> Native:
    """A native for unsigned integers, from the one for int64."""
    if name in _AS_IT_IS:
        return function
    if dtype is dtypes.uint64 and name in _OWN:
        function = _OWN[name]
    wanted = TORCH[dtype]
    narrow = dtype is not dtypes.uint64
    where = _INDICES.get(name, -1)

    def widen(value: Any, turn: bool, device: Any) -> Any:
        if type(value) is int:
            value = torch.full((), value, dtype=wanted, device=device)
        if not isinstance(value, torch.Tensor) or value.dtype is not wanted:
            return value
        wide = value.to(torch.int64) if narrow else value.view(torch.int64)
        return wide ^ _FIRST_BIT if turn else wide

    def back(value: Any, turn: bool) -> Any:
        if isinstance(value, tuple) or name in _COUNTS or value.dtype is not torch.int64:
            return value
        wide = value ^ _FIRST_BIT if turn else value
        return wide.to(wanted) if narrow else wide.view(torch.uint64)

    @wraps(function)
    def through_int64(*arrays: Any, **attrs: Any) -> Any:
        turn = not narrow and (name in _ORDERED or attrs.get("mode") in ("minimum", "maximum"))
        device = next(a.device for a in arrays if isinstance(a, torch.Tensor))
        wide = [widen(a, turn and i != where, device) for i, a in enumerate(arrays)]
        return back(function(*wide, **attrs), turn)

    return through_int64


# --- uint64 in the bits of int64 ---------------------------------------------------------------------------------


def _at_least(x1: Any, x2: Any) -> Any:
    return (x1 ^ _FIRST_BIT) >= (x2 ^ _FIRST_BIT)


def _quotient(x1: Any, x2: Any) -> Any:
    """The quotient; 0 for a divisor of 0."""
    small = torch.where(x2 > 0, x2, 1)  # a divisor with the first bit set goes into any number once at most
    half = torch.floor_divide((x1 >> 1) & ~_FIRST_BIT, small) << 1
    result = half + _at_least(x1 - half * small, small)
    return torch.where(x2 > 0, result, torch.where(x2 == 0, 0, _at_least(x1, x2).to(torch.int64)))


def _remainder(x1: Any, x2: Any) -> Any:
    return torch.where(x2 == 0, 0, x1 - _quotient(x1, x2) * x2)


def _power(x1: Any, x2: Any) -> Any:
    x1, x2 = torch.broadcast_tensors(x1, x2)
    result = torch.ones_like(x1)
    for bit in range(64):
        odd = (x2 >> bit) & 1
        result = torch.where(odd == 1, result * x1, result)
        x1 = x1 * x1
    return result


def _to_unit(x: Any, unit: int) -> Any:
    """Rounded to a multiple of the unit, halves to the even one."""
    if unit >= 2**64:
        return torch.zeros_like(x)
    wide = torch.full_like(x, unit if unit < 2**63 else unit - 2**64)
    below = _quotient(x, wide)
    rest = x - below * wide
    left = wide - rest
    up = _at_least(rest, left) & ((rest != left) | (below & 1 == 1))
    return (below + up) * wide


def _right_shift(x1: Any, x2: Any) -> Any:
    shifted = (x1 >> x2) & ~(torch.full_like(x2, _FIRST_BIT) >> (x2 - 1))
    return torch.where(x2 == 0, x1, torch.where((x2 < 0) | (x2 > 63), 0, shifted))


_OWN: Final[dict[str, Callable[..., Any]]] = {
    "floor_divide": _quotient,
    "remainder": _remainder,
    "pow": _power,
    "bitwise_right_shift": _right_shift,
    "abs": lambda x: x,
    "sign": lambda x: (x != 0).to(torch.int64),
    "round": lambda x, decimals: x if decimals >= 0 else _to_unit(x, 10**-decimals),
}
