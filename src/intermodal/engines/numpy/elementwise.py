"""NumPy natives of the elementwise family. Where NumPy's ufunc means the same, it is the native itself."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from intermodal.engines.numpy.natives import NATIVES, native
from intermodal.ops.approximation import ERF_SMALL, ERFC_LARGE, ERFC_MIDDLE, MIDDLE, SMALL, ratio

__all__: list[str] = []

_SAME: Final = (
    "abs add subtract multiply divide remainder negative equal not_equal less less_equal greater greater_equal bitwise_and bitwise_or bitwise_xor "
    "bitwise_invert bitwise_left_shift bitwise_right_shift logical_and logical_or logical_xor logical_not maximum minimum exp log log2 log10 logaddexp sqrt square "
    "reciprocal hypot sin cos tan asin acos atan sinh cosh asinh acosh atanh atan2 signbit copysign isnan isinf isfinite"
)
for _name in _SAME.split():
    NATIVES[_name] = getattr(np, _name)


@native
def positive(x: Any) -> Any:
    return x


def _rounding(name: str) -> None:
    ufunc = getattr(np, name)
    NATIVES[name] = lambda x: x if x.dtype.kind in "iu" else ufunc(x)


for _name in ("floor", "ceil", "trunc"):
    _rounding(_name)


@native
def round_(x: Any, decimals: int) -> Any:
    if x.dtype.kind not in "iu":
        return np.asarray(np.round(x, decimals))
    return x if decimals >= 0 else _to_unit(x, 10**-decimals)


def _to_unit(x: Any, unit: int) -> Any:
    """Integers rounded to a multiple of the unit, halves to the even one; NumPy goes through float64, which has too few bits."""
    if unit > np.iinfo(x.dtype).max:
        return np.zeros_like(x)
    below, rest = np.divmod(x, x.dtype.type(unit))
    left = unit - rest
    up = (rest > left) | ((rest == left) & (below % 2 == 1))
    return np.asarray((below + up.astype(x.dtype)) * x.dtype.type(unit))


@native
def pow_(x1: Any, x2: Any) -> Any:
    result = np.pow(x1, x2, out=...)
    if result.dtype.kind != "f" or not np.any(np.equal(x2, 0.5)):
        return result
    # For this exponent NumPy takes the root, which is NaN of -inf and -0 of -0; the standard has inf and 0.
    half = np.equal(x2, 0.5)
    result = np.where(half & np.equal(x1, -math.inf), result.dtype.type(math.inf), result)
    return np.where(half & np.equal(x1, 0), result.dtype.type(0), result)


@native
def sign(x: Any) -> Any:
    if x.dtype.kind != "c":
        return np.sign(x, out=...)
    # NumPy divides by the length, which overflows for large parts. Of infinite parts only the signs count.
    size = np.maximum(np.abs(x.real), np.abs(x.imag))
    scale = np.where(size == 0, 1, size)
    parts = (np.where(np.isinf(size), np.copysign(np.isinf(p), p), p / scale) for p in (x.real, x.imag))
    unit = complex_(*parts)
    return np.asarray(unit / np.where(size == 0, 1, np.abs(unit))).astype(x.dtype, copy=False)


@native
def log1p(x: Any) -> Any:
    if x.dtype.kind != "c":
        return np.log1p(x, out=...)
    # NumPy's logarithm of the length of 1 + x has no digits left where x is small.
    a, b = x.real, x.imag
    small = np.maximum(np.abs(a), np.abs(b)) < 0.5
    a, b = np.where(small, a, 0), np.where(small, b, 0)
    return np.where(small, complex_(np.asarray(np.log1p(a * (a + 2) + b * b) / 2), np.asarray(np.arctan2(b, a + 1))), np.log1p(x))


@native
def conj(x: Any) -> Any:
    return np.conj(x, out=...) if x.dtype.kind == "c" else x


@native
def real(x: Any) -> Any:
    return np.real(x)


@native
def imag(x: Any) -> Any:
    return np.imag(x)


@native
def complex_(real: Any, imag: Any) -> Any:
    result = np.empty(np.broadcast_shapes(real.shape, imag.shape), np.result_type(real.dtype, np.complex64))
    result.real, result.imag = real, imag
    return result


@native
def where(condition: Any, x1: Any, x2: Any) -> Any:
    # NumPy lets a Python float widen the dtypes that it does not know itself, bfloat16 say; an array of the dtype does not.
    dtype = x1.dtype if isinstance(x1, (np.ndarray, np.generic)) else x2.dtype
    return np.where(condition, np.asarray(x1, dtype), np.asarray(x2, dtype))


@native
def nextafter(x1: Any, x2: Any) -> Any:
    dtype = x1.dtype if isinstance(x1, (np.ndarray, np.generic)) else x2.dtype
    return np.nextafter(np.asarray(x1, dtype), np.asarray(x2, dtype))


@native
def expm1(x: Any) -> Any:
    result = np.expm1(x, out=...)
    if x.dtype.kind == "c":
        # NumPy's complex expm1 mistreats infinite arguments, and keeps the sign of a zero real part; the standard's table does neither.
        with np.errstate(all="ignore"):
            result = np.where(np.isfinite(x), result, np.exp(x) - 1)
        result.real[x == 0] = 0.0
    return result


@native
def tanh(x: Any) -> Any:
    result = np.tanh(x, out=...)
    if x.dtype.kind == "c":
        # At an infinite real part NumPy gives the zero imaginary part the sign of sin(2y); the standard gives it that of y.
        edge = np.isinf(x.real) & np.isfinite(x.imag)
        result.imag[edge] = np.copysign(0.0, x.imag[edge])
    return result


@native
def floor_divide(x1: Any, x2: Any) -> Any:
    result = np.floor_divide(x1, x2, out=...)
    if result.dtype.kind != "f":
        return result
    # NumPy gives NaN where the quotient is infinite or an infinite divisor leaves -0 or -1; the standard rounds the quotient.
    odd = np.isinf(x1) | np.isinf(x2)
    if odd.any():
        with np.errstate(all="ignore"):
            result = np.where(odd, np.floor(np.divide(x1, x2)), result)
    return result


@native
def erf(x: Any) -> Any:
    wide = x.astype(np.float64)
    y = np.abs(wide)
    with np.errstate(all="ignore"):
        small = wide * ratio(ERF_SMALL, np.minimum(y * y, 1.0))
    return np.where(y <= SMALL, small, np.copysign(1 - _erfc_beyond(y), wide)).astype(x.dtype)


@native
def erfc(x: Any) -> Any:
    wide = x.astype(np.float64)
    y = np.abs(wide)
    beyond = _erfc_beyond(y)
    with np.errstate(all="ignore"):
        small = 1 - wide * ratio(ERF_SMALL, np.minimum(y * y, 1.0))
    return np.where(y <= SMALL, small, np.where(wide < 0, 2 - beyond, beyond)).astype(x.dtype)


def _erfc_beyond(y: Any) -> Any:
    """The complement of the error function for numbers that are not small."""
    with np.errstate(all="ignore"):
        squared = y * y
        middle = ratio(ERFC_MIDDLE, np.minimum(y, MIDDLE))
        inverse = 1 / np.maximum(squared, MIDDLE**2)
        large = (1 / math.sqrt(math.pi) - inverse * ratio(ERFC_LARGE, inverse)) / np.maximum(y, MIDDLE)
        return np.exp(-squared) * np.where(y <= MIDDLE, middle, large)
