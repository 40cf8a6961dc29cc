"""NumPy natives of neural network ops: where fewer passes over the data, or a wider dtype inside, beat the decomposition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from intermodal.engines.numpy.elementwise import erf
from intermodal.engines.numpy.natives import native

__all__: list[str] = []

# --- activation --------------------------------------------------------------------------------------------------
# `minimum` and `abs` run at the speed of memory; `where` on signs that alternate costs six times as much.


@native
def sigmoid(x: Any) -> Any:
    result = np.exp(np.minimum(x, 0), out=...)
    result /= _one_plus_small(x)
    return result


def _one_plus_small(x: Any) -> Any:
    """1 + exp(-abs(x)), which never overflows."""
    small = np.abs(x, out=...)
    np.negative(small, out=small)
    np.exp(small, out=small)
    small += 1
    return small


@native
def silu(x: Any) -> Any:
    result = sigmoid(x)
    result *= x
    return result


@native
def softplus(x: Any, beta: float) -> Any:
    z = x if beta == 1.0 else np.multiply(x, beta, out=...)
    result = np.abs(z, out=...)
    np.negative(result, out=result)
    np.exp(result, out=result)
    np.log1p(result, out=result)
    result += np.maximum(z, 0)
    if beta != 1.0:
        result /= beta
    return result


@native
def log_sigmoid(x: Any) -> Any:
    result = softplus(np.negative(x, out=...), 1.0)
    return np.negative(result, out=result)


@native
def gelu(x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        share = x * x
        share *= x
        share *= 0.044715
        share += x
        share *= math.sqrt(2 / math.pi)
        np.tanh(share, out=share)
    else:  # erf is computed in float64 anyway; 1 + erf loses the lower tail unless that is too
        share = erf(x.astype(np.float64) * math.sqrt(0.5))
    share += 1
    share *= 0.5
    share *= x
    return share.astype(x.dtype, copy=False)


def _shifted(x: Any, axis: int) -> Any:
    """The line less its maximum; a line of nothing but -inf stays as it is."""
    high = np.maximum.reduce(x, axis=axis, keepdims=True)
    high[high == -np.inf] = 0
    return x - high


@native
def softmax(x: Any, axis: int) -> Any:
    if x.shape[axis] == 0:
        return x
    result = _shifted(x, axis)
    np.exp(result, out=result)
    total = np.add.reduce(result, axis=axis, keepdims=True)
    total[total == 0] = 1
    result /= total
    return result


@native
def log_softmax(x: Any, axis: int) -> Any:
    if x.shape[axis] == 0:
        return x
    result = _shifted(x, axis)
    total = np.add.reduce(np.exp(result), axis=axis, keepdims=True)
    total[total == 0] = 1
    result -= np.log(total, out=total)
    return result
