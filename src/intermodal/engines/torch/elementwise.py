"""PyTorch natives of the elementwise family. Where PyTorch's function means the same, it is the native itself."""

from __future__ import annotations

from typing import Any, Final

import torch

from intermodal.engines.torch.natives import FLOATS, INEXACT, NATIVES, ONLY, TORCH, as_operand, lifting, native
from intermodal.engines.torch.unsigned import UNSIGNED
from intermodal.errors import ExecutionError

__all__: list[str] = []

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
    "tanh": torch.tanh, "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh, "atan2": torch.atan2,
    "erf": torch.erf, "erfc": torch.erfc, "signbit": torch.signbit, "copysign": torch.copysign, "nextafter": torch.nextafter,
    "isnan": torch.isnan, "isinf": torch.isinf, "isfinite": torch.isfinite, "complex": torch.complex,
}  # fmt: skip
NATIVES.update(_SAME)
for _name in (
    "maximum",
    "minimum",
    "logaddexp",
    "hypot",
    "atan2",
    "copysign",
    "nextafter",
    "logical_and",
    "logical_or",
    "logical_xor",
):
    NATIVES[_name] = lifting(_SAME[_name])


@native
def positive(x: Any) -> Any:
    return x


@native
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
    return x if decimals >= 0 else torch.round(x.to(torch.float64), decimals=decimals).to(x.dtype)


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


@native(only=frozenset(TORCH) - UNSIGNED)  # whose bounds may be of another dtype, and order differently
def clip(x: Any, min: Any, max: Any) -> Any:
    if not isinstance(min, torch.Tensor) and not isinstance(max, torch.Tensor):
        return x if min is None and max is None else torch.clamp(x, min, max)
    low = x if min is None else torch.maximum(x, as_operand(min, x))
    return (low if max is None else torch.minimum(low, as_operand(max, x))).to(x.dtype)


# --- complex edges -----------------------------------------------------------------------------------------------


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
    odd = torch.isinf(x1) | torch.isinf(x2)
    return torch.where(odd, torch.floor(torch.divide(x1, x2)), torch.floor_divide(x1, x2))


def _divide_integers(x1: Any, x2: Any) -> Any:
    """The quotient; 0 for a divisor of 0, as NumPy has it and where PyTorch raises."""
    return torch.where(x2 == 0, 0, torch.floor_divide(x1, torch.where(x2 == 0, 1, x2)))


@native
@lifting
def remainder(x1: Any, x2: Any) -> Any:
    if x1.dtype.is_floating_point:
        result = torch.remainder(x1, x2)
        return torch.where(result == 0, torch.copysign(result, x2), result)  # a zero has the divisor's sign
    return torch.where(x2 == 0, 0, torch.remainder(x1, torch.where(x2 == 0, 1, x2)))  # likewise


@native
def pow_(x1: Any, x2: Any) -> Any:
    like = x1 if isinstance(x1, torch.Tensor) else x2
    if not like.dtype.is_floating_point and not like.dtype.is_complex and like.dtype.is_signed:
        _check_exponent(x2)
    return torch.pow(x1, x2)


def _check_exponent(x2: Any) -> None:
    if bool((x2 < 0).any()) if isinstance(x2, torch.Tensor) else x2 < 0:
        raise ExecutionError("pow: an integer to a negative integer power is no integer. Cast the base to a float first.")


for _name in ("erf", "erfc", "signbit", "copysign", "nextafter", "hypot", "logaddexp", "atan2"):
    ONLY[_name] = FLOATS
ONLY["rsqrt"] = INEXACT
