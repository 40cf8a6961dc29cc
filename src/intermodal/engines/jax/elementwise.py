"""JAX natives of the elementwise family. Where JAX's function means the same, its compiled form is the native itself."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan, pi
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from intermodal.engines.jax import memory
from intermodal.engines.jax.logarithms import CAREFUL
from intermodal.engines.jax.natives import NATIVES, compiled, native, quotient, traced, wide
from intermodal.errors import ExecutionError

__all__: list[str] = []

# The compiled form is the fastest that JAX has, because its C++ call path skips the Python of jax.numpy. Measured for
# two float32 arrays of 10 elements on a CPU: jax.jit(jnp.add) 8.7 µs, jnp.add 11.4, operator.add 13.4, jax.lax.add 25.7.
_SAME: Final = (
    "add subtract multiply negative equal not_equal less less_equal greater greater_equal bitwise_and bitwise_or bitwise_xor "
    "bitwise_invert bitwise_left_shift bitwise_right_shift logical_and logical_or logical_xor logical_not maximum minimum "
    "square abs signbit copysign nextafter isnan isinf isfinite conj real imag"
)
_WIDE: Final = (
    "exp expm1 log log1p log2 log10 logaddexp sqrt hypot sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2"
)
# Where JAX's complex functions miss the standard's table at infinities and NaN: for the parts a and b of x, rows of a
# condition and the parts of the result there.
_EDGES: Final[dict[str, Callable[[Any, Any], list[tuple[Any, Any, Any]]]]] = {
    "exp": lambda a, b: [(_odd(b) & (a == -inf), 0, 0), (_odd(b) & (a == inf), inf, nan)],
    "expm1": lambda a, b: [(_odd(b) & (a == -inf), -1, 0), (_odd(b) & (a == inf), inf, nan)],
    "cosh": lambda a, b: [(_odd(b) & (a == 0), nan, 0), (_odd(b) & jnp.isinf(a), inf, nan)],
    "sinh": lambda a, b: [(_odd(b) & (a == 0), a, nan), (_odd(b) & jnp.isinf(a), a, nan)],
    "tanh": lambda a, b: [(_odd(b) & (a == 0), a, nan), (jnp.isinf(a) & jnp.isfinite(b), jnp.sign(a), jnp.copysign(0, b))],
    "sqrt": lambda a, b: [(jnp.isnan(b) & (a == -inf), nan, inf), (jnp.isnan(b) & (a == inf), inf, nan)],
    "log": lambda a, b: [(_infinite_and_nan(a, b), inf, nan)],
    "log1p": lambda a, b: [(_infinite_and_nan(a, b), inf, nan)],
    "acos": lambda a, b: [(jnp.isnan(b) & jnp.isfinite(a), jnp.where(a == 0, pi / 2, nan), nan)],
    "acosh": lambda a, b: [(jnp.isnan(b) & jnp.isfinite(a), nan, jnp.where(a == 0, pi / 2, nan))],
    "asinh": lambda a, b: [(jnp.isnan(a) & (b == 0), nan, b)],
    "atan": lambda a, b: [
        (jnp.isnan(a), nan, jnp.where((b == 0) | jnp.isinf(b), jnp.copysign(0, b), nan)),
        (jnp.isnan(b) & jnp.isfinite(a), nan, nan),
        (jnp.isinf(b) & (a == 0), jnp.copysign(pi / 2, a), jnp.copysign(0, b)),
    ],
    "atanh": lambda a, b: [
        (jnp.isnan(b), jnp.where((a == 0) | jnp.isinf(a), jnp.copysign(0, a), nan), nan),
        (jnp.isnan(a) & jnp.isfinite(b), nan, nan),
    ],
}


def _odd(x: Any) -> Any:
    return ~jnp.isfinite(x)


def _infinite_and_nan(a: Any, b: Any) -> Any:
    return (jnp.isinf(a) & jnp.isnan(b)) | (jnp.isnan(a) & jnp.isinf(b))


def _right(name: str) -> Callable[..., Any]:
    return CAREFUL.get(name) or getattr(jnp, name)


def _to_the_edges(name: str) -> Callable[[Any], Any]:
    function: Callable[[Any], Any] = _right(name)

    def complete(x: Any) -> Any:
        result = function(x)
        if jnp.iscomplexobj(x):
            for where, first, second in _EDGES[name](jnp.real(x), jnp.imag(x)):
                parts = (jnp.broadcast_to(jnp.asarray(p, result.real.dtype), result.shape) for p in (first, second))
                result = jnp.where(where, jax.lax.complex(*parts), result)
        return result

    return complete


for _name in _SAME.split():
    NATIVES[_name] = jax.jit(getattr(jnp, _name))
for _name in _WIDE.split():
    NATIVES[_name] = jax.jit(wide(_to_the_edges(_name) if _name in _EDGES else _right(_name)))


def _is_integer(x: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(x), jnp.integer))


@native
def positive(x: Any) -> Any:
    return x


def _rounding(name: str) -> None:
    function = jax.jit(getattr(jnp, name))
    NATIVES[name] = lambda x: x if _is_integer(x) else function(x)


for _name in ("floor", "ceil", "trunc"):
    _rounding(_name)


@compiled
def round_(x: Any, decimals: int) -> Any:
    if not _is_integer(x):
        return jnp.round(x, decimals)
    if decimals >= 0:
        return x
    unit = 10**-decimals
    if unit > jnp.iinfo(x.dtype).max:
        return jnp.zeros_like(x)
    below = jnp.floor_divide(x, unit)
    rest = x - below * unit
    up = (rest > unit - rest) | ((rest == unit - rest) & (below % 2 == 1))
    return (below + up) * unit


@compiled
def sign(x: Any) -> Any:
    if not jnp.iscomplexobj(x):
        return jnp.where(x == 0, jnp.zeros((), x.dtype), jnp.sign(x))  # of -0 it is 0
    # The length of large parts overflows, so they are brought to a size of 1; of infinite ones only the signs count.
    size = jnp.maximum(jnp.abs(x.real), jnp.abs(x.imag))
    scale = jnp.where(size == 0, 1, size)
    parts = (jnp.where(jnp.isinf(size), jnp.copysign(jnp.isinf(p).astype(p.dtype), p), p / scale) for p in (x.real, x.imag))
    unit = jax.lax.complex(*parts)
    return unit / jnp.where(size == 0, 1, jnp.abs(unit))


@compiled
def complex_(real: Any, imag: Any) -> Any:
    return jax.lax.complex(*jnp.broadcast_arrays(real, imag))


@compiled
def where(condition: Any, x1: Any, x2: Any) -> Any:
    return jnp.where(condition, x1, x2)


@compiled
def clip(x: Any, min: Any, max: Any) -> Any:
    result = x if min is None else jnp.maximum(x, min)
    return (result if max is None else jnp.minimum(result, max)).astype(x.dtype)


@compiled
@wide
def rsqrt(x: Any) -> Any:
    return 1 / jnp.sqrt(x)


@compiled
@wide
def erf(x: Any) -> Any:
    return jax.scipy.special.erf(x)


@compiled
@wide
def erfc(x: Any) -> Any:
    return jax.scipy.special.erfc(x)


# --- division ----------------------------------------------------------------------------------------------------


@compiled
@wide
def divide(x1: Any, x2: Any) -> Any:
    return quotient(x1, x2)


@compiled
@wide
def reciprocal(x: Any) -> Any:
    return 1 / x


@compiled
@wide
def remainder(x1: Any, x2: Any) -> Any:
    x1, x2 = _pair(x1, x2)
    if _is_integer(x1):
        return jnp.where(x2 == 0, 0, jnp.remainder(x1, jnp.where(x2 == 0, 1, x2)))  # NumPy's answer for a divisor of 0
    rest = jnp.remainder(x1, x2)
    return jnp.where(rest == 0, jnp.copysign(0, x2), rest)  # a remainder of nothing has the divisor's sign too


@compiled
@wide
def floor_divide(x1: Any, x2: Any) -> Any:
    x1, x2 = _pair(x1, x2)
    if _is_integer(x1):
        return jnp.where(x2 == 0, 0, jnp.floor_divide(x1, jnp.where(x2 == 0, 1, x2)))
    # The quotient is rounded from what is left without the remainder: floor(x1 / x2) is off by one where the division rounds up.
    rest = jax.lax.rem(x1, x2)
    parts = quotient(x1 - rest, x2) - ((rest != 0) & (jnp.signbit(rest) != jnp.signbit(x2)))
    below = jnp.floor(parts)
    below = below + (parts - below > 0.5)
    exact = quotient(x1, x2)
    below = jnp.where(parts == 0, jnp.copysign(0, exact), below)
    return jnp.where(jnp.isinf(x1) | jnp.isinf(x2) | (x2 == 0), jnp.floor(exact), below)


def _pair(x1: Any, x2: Any) -> tuple[Any, Any]:
    dtype = jnp.result_type(x1, x2)
    first, second = jnp.broadcast_arrays(jnp.asarray(x1, dtype), jnp.asarray(x2, dtype))
    return first, second


# --- powers ------------------------------------------------------------------------------------------------------


def _complete_power(x1: Any, x2: Any) -> Any:
    result = jnp.pow(x1, x2)
    if not jnp.iscomplexobj(result):
        return result
    return jnp.where((jnp.asarray(x1) == 0) & (jnp.real(x2) > 0), 0, result)  # a power of 0 with a complex exponent is 0 too


_power: Final = jax.jit(wide(_complete_power))


@native
def pow_(x1: Any, x2: Any) -> Any:
    signed = (isinstance(x2, int) and _is_integer(x1)) or (hasattr(x2, "dtype") and x2.dtype.kind == "i")
    computes = 0 not in np.broadcast_shapes(np.shape(x1), np.shape(x2))
    if signed and computes and not traced(x2) and np.min(x2 if isinstance(x2, int) else memory.read(x2), initial=0) < 0:
        raise ExecutionError(
            "pow: an integer to a negative power is no integer. Cast the base to a float first, with im.astype(x, im.float64)."
        )
    return _power(x1, x2)
