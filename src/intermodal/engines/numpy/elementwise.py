"""NumPy natives of the elementwise family. Where NumPy's ufunc means the same, it is the native itself."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from intermodal.engines.numpy.natives import NATIVES, native

__all__: list[str] = []

_SAME: Final = (
    "abs sign add subtract multiply divide pow remainder negative equal not_equal less less_equal greater greater_equal bitwise_and bitwise_or bitwise_xor "
    "bitwise_invert bitwise_left_shift bitwise_right_shift logical_and logical_or logical_xor logical_not maximum minimum exp log log1p log2 log10 logaddexp sqrt square "
    "reciprocal hypot sin cos tan asin acos atan sinh cosh asinh acosh atanh atan2 signbit copysign nextafter isnan isinf isfinite"
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


# The error function: NumPy has none and SciPy is too heavy for the core, so these are W. J. Cody's rational
# approximations ("Rational Chebyshev approximation for the error function", 1969), to float64 precision.
_ERF_SMALL: Final = (
    (3.16112374387056560e00, 1.13864154151050156e02, 3.77485237685302021e02, 3.20937758913846947e03, 1.85777706184603153e-1),
    (2.36012909523441209e01, 2.44024637934444173e02, 1.28261652607737228e03, 2.84423683343917062e03),
)
_ERFC_MIDDLE: Final = (
    (5.64188496988670089e-1, 8.88314979438837594e00, 6.61191906371416295e01, 2.98635138197400131e02, 8.81952221241769090e02,
     1.71204761263407058e03, 2.05107837782607147e03, 1.23033935479799725e03, 2.15311535474403846e-8),
    (1.57449261107098347e01, 1.17693950891312499e02, 5.37181101862009858e02, 1.62138957456669019e03, 3.29079923573345963e03,
     4.36261909014324716e03, 3.43936767414372164e03, 1.23033935480374942e03),
)  # fmt: skip
_ERFC_LARGE: Final = (
    (
        3.05326634961232344e-1,
        3.60344899949804439e-1,
        1.25781726111229246e-1,
        1.60837851487422766e-2,
        6.58749161529837803e-4,
        1.63153871373020978e-2,
    ),
    (2.56852019228982242e00, 1.87295284992346725e00, 5.27905102951428412e-1, 6.05183413124413191e-2, 2.33520497626869185e-3),
)


def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], z: Any) -> Any:
    above, below = coefficients
    n, d = above[-1] * z, z
    for p, q in zip(above[:-2], below[:-1], strict=True):
        n, d = (n + p) * z, (d + q) * z
    return (n + above[-2]) / (d + below[-1])


@native
def erf(x: Any) -> Any:
    wide = x.astype(np.float64)
    y = np.abs(wide)
    with np.errstate(all="ignore"):
        squared = y * y
        small = wide * _ratio(_ERF_SMALL, squared)
        middle = 1 - np.exp(-squared) * _ratio(_ERFC_MIDDLE, np.minimum(y, 4.0))
        inverse = 1 / np.maximum(squared, 16.0)
        tail = np.exp(-squared) * (1 / np.sqrt(np.pi) - inverse * _ratio(_ERFC_LARGE, inverse)) / np.maximum(y, 4.0)
    outer = np.copysign(np.where(y <= 4.0, middle, 1 - tail), wide)
    return np.where(y <= 0.46875, small, np.where(np.isnan(wide), wide, outer)).astype(x.dtype)
