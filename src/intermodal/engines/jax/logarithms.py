"""Logarithms that are right where XLA's are not.

On the CPU, XLA's log1p of float64 is off by up to 120 units in the last place between -0.4143 and -0.3598, where it still
takes a series that ends earlier. Its log of complex128 and its atanh are made of it, and are off where it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp

__all__ = ["CAREFUL", "log1p"]


def log1p(x: Any) -> Any:
    """The logarithm of 1 + x. Below -1/4 the sum rounds by no more than the logarithm does."""
    result = jnp.log1p(x)
    if result.dtype == jnp.float64:
        return jnp.where(x < -0.25, jnp.log(1 + x), result)
    return _by_length(1 + x, result) if result.dtype == jnp.complex128 else result


def log(x: Any) -> Any:
    """The natural logarithm."""
    result = jnp.log(x)
    return _by_length(x, result) if result.dtype == jnp.complex128 else result


def _by_length(x: Any, result: Any) -> Any:
    """A complex logarithm with its real part from the length, where XLA takes log1p(length**2 - 1) in the range above."""
    length = jnp.abs(x)  # 0.765 to 0.801 there: far enough from 1 for its logarithm to lose no bits
    return jnp.where((length > 0.75) & (length < 0.82), jax.lax.complex(jnp.log(length), result.imag), result)


def _to_base(base: int) -> Callable[[Any], Any]:
    function: Callable[[Any], Any] = getattr(jnp, f"log{base}")

    def logarithm(x: Any) -> Any:
        return log(x) / math.log(base) if jnp.result_type(x) == jnp.complex128 else function(x)

    return logarithm


def atanh(x: Any) -> Any:
    """The inverse of tanh, as a log1p of what is not negative."""
    if jnp.result_type(x) != jnp.float64:
        return jnp.atanh(x)
    size = jnp.abs(x)
    return jnp.copysign(0.5 * jnp.log1p(2 * size / (1 - size)), x)


CAREFUL: Final[dict[str, Callable[[Any], Any]]] = {
    "atanh": atanh,
    "log": log,
    "log10": _to_base(10),
    "log1p": log1p,
    "log2": _to_base(2),
}
"""By the name of the function in `jax.numpy` in whose place it stands."""
