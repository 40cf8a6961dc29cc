"""How a JAX native is written down: functions collected by name, compiled with their attributes, narrow floats computed wide.

A compiled function is kept for each combination of shapes, dtypes and attributes. What is kept is bounded by
`jax.jit` itself: its two caches hold 8192 entries each and drop the least recently used; `im.memory_cleanup` empties them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Final, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from intermodal import dtypes
from intermodal.backend import Native
from intermodal.ops.rules import integer_range
from intermodal.ops.table import TABLE, Role

__all__ = [
    "NARROW",
    "NATIVES",
    "compiled",
    "has_x64",
    "in_range",
    "index_dtype",
    "native",
    "quotient",
    "static",
    "traced",
    "wide",
]

F = TypeVar("F", bound=Callable[..., Any])
NATIVES: Final[dict[str, Native]] = {}
NARROW: Final = (np.dtype(np.float16), dtypes.bfloat16.numpy)


def _row_name(function: Callable[..., Any]) -> str:
    return function.__name__.rstrip("_")


def native(function: F) -> F:
    """Add a function under its own name; a trailing underscore keeps it off a builtin's or keyword's name."""
    NATIVES[_row_name(function)] = function
    return function


def compiled(function: F) -> F:
    """Add a function that XLA compiles for each combination of its row's attributes, and hand the compiled one back."""
    attributes = [p.name for p in TABLE[_row_name(function)].params if p.role is Role.ATTRIBUTE]
    NATIVES[_row_name(function)] = ready = cast("F", jax.jit(function, static_argnames=attributes))
    return ready


def static(*names: str) -> Callable[[F], F]:
    """Compile a function that natives share; the parameters named are part of what is compiled."""
    return cast("Callable[[F], F]", partial(jax.jit, static_argnames=names))


def wide(function: F) -> F:
    """For float16 and bfloat16, compute in float32 and round once: XLA's own way rounds after every step inside.

    It is decided while tracing, so the compiled function has no trace of it for other dtypes.
    """

    @wraps(function)
    def widened(*arrays: Any, **attrs: Any) -> Any:
        found = next((x.dtype for x in jax.tree.leaves(arrays) if getattr(x, "dtype", None) in NARROW), None)
        if found is None:
            return function(*arrays, **attrs)

        def widen(x: Any) -> Any:  # a scalar is first what it would have been beside the narrow tensor
            return jnp.asarray(x, found).astype(jnp.float32) if jnp.issubdtype(jnp.result_type(x), jnp.floating) else x

        result = function(*jax.tree.map(widen, arrays), **attrs)
        return jax.tree.map(lambda r: r.astype(found) if r.dtype == jnp.float32 else r, result)

    return cast("F", widened)


def in_range(function: Native, dtype: dtypes.DType) -> Native:
    """Refuse a Python integer that does not fit the operands' dtype: inside a compiled function it would wrap around."""
    low, high = integer_range(dtype)

    def checked(x1: Any, x2: Any) -> Any:
        for x in (x1, x2):
            if type(x) is int and not low <= x <= high:
                raise OverflowError(f"{x} does not fit {dtype}")
        return function(x1, x2)

    return checked


def index_dtype() -> Any:
    """The widest integer that JAX has in this process."""
    return jnp.int64 if has_x64() else jnp.int32


def traced(x: Any) -> bool:
    """Whether a compiler looks on: then there is no value to read."""
    return isinstance(x, jax.core.Tracer)


def has_x64() -> bool:
    """Whether JAX has 64-bit dtypes in this process, now."""
    return bool(jax.config.read("jax_enable_x64"))


def quotient(x1: Any, x2: Any) -> Any:
    """A division that stays one.

    XLA divides by a number that is the same for many elements by multiplying with its reciprocal, which rounds twice,
    and which is 0 where the reciprocal is subnormal. Behind the barrier it does not see that it is the same.
    """
    dtype = jnp.result_type(x1, x2)
    return jnp.asarray(x1, dtype) / jax.lax.optimization_barrier(
        jnp.broadcast_to(jnp.asarray(x2, dtype), jnp.broadcast_shapes(jnp.shape(x1), jnp.shape(x2)))
    )
