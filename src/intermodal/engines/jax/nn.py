"""JAX natives of neural network ops: one compiled function instead of an op after the other."""

from __future__ import annotations

import math
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from intermodal.engines.jax.linalg import EXACT
from intermodal.engines.jax.natives import compiled, quotient, wide
from intermodal.ops.windows import places, reach

__all__: list[str] = []


@compiled
@wide
def sigmoid(x: Any) -> Any:
    return jax.nn.sigmoid(x)


@compiled
@wide
def silu(x: Any) -> Any:
    return x * jax.nn.sigmoid(x)


@compiled
@wide
def softplus(x: Any, beta: float) -> Any:
    return _softplus(x) if beta == 1.0 else jnp.maximum(x, 0) + quotient(jnp.log1p(jnp.exp(-jnp.abs(x * beta))), beta)


def _softplus(x: Any) -> Any:
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


@compiled
@wide
def log_sigmoid(x: Any) -> Any:
    return -_softplus(-x)


@compiled
@wide
def gelu(x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * jax.scipy.special.erfc(-x * math.sqrt(0.5))


def _shifted(x: Any, axis: int) -> tuple[Any, Any]:
    """The line less its maximum, and the sum of the exponentials; a line of nothing but -inf stays as it is, its sum is 1."""
    high = jnp.max(x, axis=axis, keepdims=True)
    shifted = x - jnp.where(high == -jnp.inf, 0, high)
    total = jnp.sum(jnp.exp(shifted), axis=axis, keepdims=True)
    return shifted, jnp.where(total == 0, 1, total)


@compiled
@wide
def softmax(x: Any, axis: int) -> Any:
    if x.shape[axis] == 0:
        return x
    shifted, total = _shifted(x, axis)
    return quotient(jnp.exp(shifted), total)


@compiled
@wide
def log_softmax(x: Any, axis: int) -> Any:
    if x.shape[axis] == 0:
        return x
    shifted, total = _shifted(x, axis)
    return shifted - jnp.log(total)


# --- windows and convolution -------------------------------------------------------------------------------------


@compiled
def sliding_window(x: Any, axis: int, size: int, step: int, dilation: int) -> Any:
    count = (x.shape[axis] - reach(size, dilation)) // step + 1
    index = np.arange(count)[:, None] * step + np.arange(size) * dilation
    return jnp.moveaxis(jnp.take(x, index, axis=axis, mode="clip"), axis + 1, -1)


@compiled
def overlap_add(x: Any, axis: int, length: int, step: int, dilation: int) -> Any:
    result = jnp.zeros((*x.shape[:axis], length, *x.shape[axis + 1 : -1]), x.dtype)
    for k in range(x.shape[-1]):
        result = result.at[places(axis, k * dilation, step, x.shape[axis])].add(x[..., k])
    return result


_LETTERS: Final = "XYZUVW"


@compiled
@wide
def conv(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    axes = _LETTERS[: x.ndim - 2]
    result = jax.lax.conv_general_dilated(
        x,
        weight,
        stride,
        padding,
        rhs_dilation=dilation,
        dimension_numbers=(f"NC{axes}", f"OI{axes}", f"NC{axes}"),
        feature_group_count=groups,
        precision=EXACT,
    )
    return result if bias is None else result + bias.reshape(-1, *(1,) * (x.ndim - 2))
