"""NumPy natives of the elementwise family. Where NumPy's ufunc means the same, it is the native itself."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from intermodal.engines.numpy.natives import NATIVES, native
from intermodal.ops.approximation import ERF_SMALL, ERFC_LARGE, ERFC_MIDDLE, MIDDLE, SMALL, ratio

__all__: list[str] = []

_SAME: Final = (
    "abs sign add subtract multiply divide pow remainder negative equal not_equal less less_equal greater greater_equal bitwise_and bitwise_or bitwise_xor "
    "bitwise_invert bitwise_left_shift bitwise_right_shift logical_and logical_or logical_xor logical_not maximum minimum exp log log1p log2 log10 logaddexp sqrt square "
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
    return x if x.dtype.kind in "iub" and decimals >= 0 else np.asarray(np.round(x, decimals))


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
