"""PyTorch natives of the elementwise family. Where PyTorch's function means the same, it is the native itself."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from intermodal import dtypes
from intermodal.engines.torch.natives import FLOATS, INEXACT, NATIVES, ONLY, TORCH, as_operand, lifting, native, traced
from intermodal.engines.torch.unsigned import UNSIGNED
from intermodal.errors import ExecutionError

__all__ = ["COMPLEX"]

_SAME: Final[dict[str, Any]] = {
    "add": torch.add, "subtract": torch.subtract, "multiply": torch.multiply, "divide": torch.divide,
    "equal": torch.eq, "not_equal": torch.ne, "less": torch.lt, "less_equal": torch.le, "greater": torch.gt,
    "greater_equal": torch.ge, "bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor, "bitwise_invert": torch.bitwise_not,
    "bitwise_left_shift": torch.bitwise_left_shift, "bitwise_right_shift": torch.bitwise_right_shift,
    "logical_and": torch.logical_and, "logical_or": torch.logical_or, "logical_xor": torch.logical_xor,
    "logical_not": torch.logical_not, "maximum": torch.maximum, "minimum": torch.minimum, "negative": torch.negative,
    "abs": torch.abs, "square": torch.square, "sqrt": torch.sqrt, "exp": torch.exp,
    "log": torch.log, "log2": torch.log2, "log10": torch.log10, "logaddexp": torch.logaddexp,
    "reciprocal": torch.reciprocal, "rsqrt": torch.rsqrt, "hypot": torch.hypot, "sin": torch.sin, "cos": torch.cos,
    "tan": torch.tan, "asin": torch.asin, "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh,
    "tanh": torch.tanh, "asinh": torch.asinh, "atanh": torch.atanh, "atan2": torch.atan2,
    "erf": torch.erf, "erfc": torch.erfc, "copysign": torch.copysign,     "isnan": torch.isnan, "isinf": torch.isinf, "isfinite": torch.isfinite, "complex": torch.complex,
}  # fmt: skip
NATIVES.update(_SAME)
for _name in (
    "maximum",
    "minimum",
    "logaddexp",
    "hypot",
    "atan2",
    "copysign",
    "logical_and",
    "logical_or",
    "logical_xor",
):
    NATIVES[_name] = lifting(_SAME[_name])


@native
def positive(x: Any) -> Any:
    return x


@native(only=frozenset(TORCH) - {dtypes.complex64, dtypes.complex128})  # whose length may overflow
def sign(x: Any) -> Any:
    return torch.where(x == x, torch.sgn(x), x) if x.dtype.is_floating_point else torch.sgn(x)  # noqa: PLR0124  # NaN has no sign


def _rounding(name: str) -> None:
    function = getattr(torch, name)
    NATIVES[name] = lambda x: function(x) if x.dtype.is_floating_point else x


for _name in ("floor", "ceil", "trunc"):
    _rounding(_name)


@native
def round_(x: Any, decimals: int) -> Any:
    if x.dtype.is_complex:
        return torch.view_as_complex(torch.round(torch.view_as_real(x), decimals=decimals))
    if x.dtype.is_floating_point:
        return torch.round(x, decimals=decimals)
    return x if decimals >= 0 else _to_unit(x, 10**-decimals)


def _to_unit(x: Any, unit: int) -> Any:
    """Integers rounded to a multiple of the unit, halves to the even one; float64 has too few bits for them."""
    if unit > torch.iinfo(x.dtype).max:
        return torch.zeros_like(x)
    below = torch.floor_divide(x, unit)
    rest = x - below * unit
    left = unit - rest
    return (below + ((rest > left) | ((rest == left) & (below % 2 == 1)))) * unit


@native
def conj(x: Any) -> Any:
    return torch.conj_physical(x) if x.dtype.is_complex else x  # PyTorch's `conj` only marks the tensor, which others do not know


@native
def real(x: Any) -> Any:
    return torch.real(x) if x.dtype.is_complex else x


@native
def imag(x: Any) -> Any:
    return torch.imag(x)


@native
def where(condition: Any, x1: Any, x2: Any) -> Any:
    like = x1 if isinstance(x1, torch.Tensor) else x2
    return torch.where(condition, as_operand(x1, like), as_operand(x2, like))


_WIDE_UNSIGNED: Final = frozenset(TORCH[d] for d in UNSIGNED)


@native(only=frozenset(TORCH) - UNSIGNED)  # whose bounds may be of another dtype, and order differently
def clip(x: Any, min: Any, max: Any) -> Any:
    if not isinstance(min, torch.Tensor) and not isinstance(max, torch.Tensor):
        return x if min is None and max is None else torch.clamp(x, min, max)
    if x.dtype is torch.uint8 and any(getattr(b, "dtype", None) in _WIDE_UNSIGNED for b in (min, max)):
        return _clip_unsigned(x, min, max)
    low = x if min is None else torch.maximum(*_together(x, as_operand(min, x)))
    return (low if max is None else torch.minimum(*_together(low, as_operand(max, x)))).to(x.dtype)


def _clip_unsigned(x: Any, min: Any, max: Any) -> Any:
    """Between bounds of wider unsigned dtypes, with which PyTorch does not compute: as int64, the first bit turned, they order alike."""

    def turned(value: Any) -> Any:
        found = as_operand(value, x)
        return (found.view(torch.int64) if found.dtype is torch.uint64 else found.to(torch.int64)) ^ -(2**63)

    result = turned(x)
    result = result if min is None else torch.maximum(result, turned(min))
    result = result if max is None else torch.minimum(result, turned(max))
    return (result ^ -(2**63)).to(torch.uint8)


def _together(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Both in the dtype that holds both; PyTorch would take that of the one that is not 0-d."""
    common = torch.promote_types(x1.dtype, x2.dtype)
    return x1.to(common), x2.to(common)


# --- complex edges -----------------------------------------------------------------------------------------------


def _by_parts(function: Any) -> Any:
    """A sum or difference of complex numbers by their parts; PyTorch scales the second by 1 first, and infinity times 0 is NaN."""

    @lifting
    def parts(x1: Any, x2: Any) -> Any:
        return torch.view_as_complex(function(torch.view_as_real(x1), torch.view_as_real(x2)))

    return parts


COMPLEX: Final = {"add": _by_parts(torch.add), "subtract": _by_parts(torch.subtract)}
"""What takes the native's place for complex dtypes."""


@native
def expm1(x: Any) -> Any:
    result = torch.expm1(x)
    if not x.dtype.is_complex:
        return result
    # At infinite arguments PyTorch has NaN for both parts, where exp has the table of the standard; a zero real part has no sign there.
    result = torch.where(torch.isfinite(x), result, torch.exp(x) - 1)
    return torch.complex(torch.where(x == 0, 0.0, result.real), result.imag)


@native
def log1p(x: Any) -> Any:
    result = torch.log1p(x)
    return torch.where(torch.isfinite(x), result, torch.log(x + 1)) if x.dtype.is_complex else result  # as above


@native
def acos(x: Any) -> Any:
    result = torch.acos(x)
    if not x.dtype.is_complex:
        return result
    # The imaginary part has the opposite sign of the operand's, also where both are zero.
    return torch.complex(result.real, torch.where(x == 0, -x.imag, result.imag))


# --- division and powers -----------------------------------------------------------------------------------------


@native
@lifting
def floor_divide(x1: Any, x2: Any) -> Any:
    if not x1.dtype.is_floating_point:
        return _divide_integers(x1, x2)
    # PyTorch gives NaN where the quotient is infinite or an infinite divisor leaves -0 or -1; the standard rounds the quotient.
    quotient = torch.divide(x1, x2)
    odd = torch.isinf(x1) | torch.isinf(x2) | torch.isinf(quotient)
    return torch.where(odd, torch.floor(quotient), torch.floor_divide(x1, x2))


def _divide_integers(x1: Any, x2: Any) -> Any:
    """The quotient; 0 for a divisor of 0, as NumPy has it and where PyTorch raises."""
    return torch.where(x2 == 0, 0, torch.floor_divide(x1, torch.where(x2 == 0, 1, x2)))


@native
@lifting
def remainder(x1: Any, x2: Any) -> Any:
    if x1.dtype.is_floating_point:
        if traced(x1):  # compiled, PyTorch's remainder is the dividend less a rounded multiple: NaN for an infinite divisor
            rest = torch.fmod(_nearer(x1, x2), x2)
            result = torch.where((rest != 0) & ((rest < 0) != (x2 < 0)), rest + x2, rest)
        else:
            result = torch.remainder(_nearer(x1, x2), x2)
        return torch.where(result == 0, torch.copysign(result, x2), result)  # a zero has the divisor's sign
    return torch.where(x2 == 0, 0, torch.remainder(x1, torch.where(x2 == 0, 1, x2)))  # likewise


@native
def signbit(x: Any) -> Any:
    if traced(x) and x.itemsize == 2:  # of which PyTorch's compiler has none
        return x.contiguous().view(torch.int16) < 0
    return torch.signbit(x)


@native
def nextafter(x1: Any, x2: Any) -> Any:
    like = x1 if isinstance(x1, torch.Tensor) else x2
    first, second = as_operand(x1, like), as_operand(x2, like)
    if not traced(like) or like.itemsize != 2:
        return torch.nextafter(first, second)
    # Compiled, PyTorch's takes the next number of 32 bits. As integers in the numbers' order it is the next integer.
    here, there = (_ordered(a) for a in torch.broadcast_tensors(first, second))
    moved = here + torch.sign(there - here)
    bits = torch.where(moved < 0, 0x8000 - moved, torch.where((moved == 0) & (first < 0), 0x8000, moved))
    found = torch.where(bits >= 0x8000, bits - 0x10000, bits).to(torch.int16).view(like.dtype)
    odd = first.isnan() | second.isnan()
    return torch.where(odd, math.nan, torch.where(first == second, second, found))


def _ordered(x: Any) -> Any:
    bits = x.contiguous().view(torch.int16).to(torch.int32)
    return torch.where(bits < 0, -(bits & 0x7FFF), bits)


@native
def acosh(x: Any) -> Any:
    if not traced(x) or x.dtype.is_complex:
        return torch.acosh(x)
    return torch.where(x > 1e9, torch.log(x) + math.log(2.0), torch.acosh(x))  # compiled, x * x overflows in it


def _nearer(x1: Any, x2: Any) -> Any:
    """The dividend without large multiples of the divisor: where the quotient overflows, PyTorch's remainder is NaN."""
    if not traced(x1) and not torch.isinf(torch.divide(x1, x2)).any():
        return x1
    step = 2.0**512 if x1.dtype is torch.float64 else 2.0**64  # a power of 2 is exact; an infinite divisor leaves the dividend
    once = x2 * step
    for multiple in (once * step * step, once * step, once):
        x1 = torch.where(torch.isinf(x1) | (x2 == 0), x1, torch.fmod(x1, multiple))
    return x1


@native
def pow_(x1: Any, x2: Any) -> Any:
    like = x1 if isinstance(x1, torch.Tensor) else x2
    if type(x2) is float and abs(x2) == 0.5:  # PyTorch takes a root then, which is NaN of -inf and has -0 of -0
        x2 = as_operand(x2, like)
    result = torch.pow(x1, x2)
    if like.dtype.is_complex:
        return _complex_edges(as_operand(x1, like), as_operand(x2, like), result)
    if not like.dtype.is_floating_point and like.dtype.is_signed and result.numel():
        _check_exponent(x2)
    return result


def _check_exponent(x2: Any) -> None:
    if (not traced(x2) and bool((x2 < 0).any())) if isinstance(x2, torch.Tensor) else x2 < 0:
        raise ExecutionError("pow: an integer to a negative integer power is no integer. Cast the base to a float first.")


def _complex_edges(x1: Any, x2: Any, result: Any) -> Any:
    """Powers of 0, and to the power of 0, as NumPy has them; PyTorch has NaN or half of one."""
    of_zero = torch.where(x2.real > 0, 0.0, torch.nan)
    result = torch.where(x1 == 0, torch.complex(of_zero, of_zero).to(result.dtype), result)
    return torch.where(x2 == 0, 1.0, result)


for _name in ("erf", "erfc", "signbit", "copysign", "nextafter", "hypot", "logaddexp", "atan2"):
    ONLY[_name] = FLOATS
ONLY["rsqrt"] = INEXACT
