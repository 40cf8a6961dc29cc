"""NumPy natives of the rows that are derivatives: in few passes over the data, and in place."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from intermodal.engines.numpy.arrays import take_along_axis
from intermodal.engines.numpy.natives import native
from intermodal.engines.numpy.nn import (
    COLUMNS,
    attention_shares,
    exchanged,
    mean,
    mean_product,
    padded,
    sliding_window,
    softmax,
    spread,
)

__all__: list[str] = []

_CACHED: Final = 1 << 15  # elements of each array that are worked on at a time: a few arrays of 128 kB lie in the second cache


@native
def conv_weight_grad(x: Any, gradient: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    rank, batch, out, counts = x.ndim - 2, x.shape[0], gradient.shape[1], gradient.shape[2:]
    found = padded(x, padding)
    for i in range(rank):
        found = sliding_window(found, 2 + i, kernel_size[i], stride[i], dilation[i])
    found = exchanged(found[(slice(None), slice(None), *map(slice, counts))], rank)
    depth, windows = x.shape[1] // groups * math.prod(kernel_size), math.prod(counts)
    rows = gradient.reshape(batch, groups, out // groups, windows)
    result = np.zeros((groups, out // groups, depth), x.dtype)
    chunk = max(1, COLUMNS // max(1, groups * depth * windows))
    for i in range(0, batch, chunk):
        part = found[i : i + chunk]
        columns = part.reshape(len(part), groups, depth, windows)
        result += np.matmul(rows[i : i + chunk], columns.swapaxes(-1, -2)).sum(0)
    return result.reshape(out, x.shape[1] // groups, *kernel_size)


_BITS = {2: np.int16, 4: np.int32, 8: np.int64}


@native
def relu_grad(gradient: Any, out: Any) -> Any:
    # A product of the bits with 0 or 1 is exact, also for an infinity, and a tenth of the time of np.where.
    chosen = np.logical_not(np.less_equal(out, 0))
    bits = np.multiply(gradient.view(_BITS.get(gradient.dtype.itemsize, np.int8)), chosen, out=...)
    return bits.view(gradient.dtype)


@native
def norm_grad(
    x: Any, gradient: Any, weight: Any, axis: tuple[int, ...], weight_axis: tuple[int, ...], centred: bool, eps: float
) -> Any:
    rows = math.prod(x.shape[: axis[0]]) if axis == weight_axis == tuple(range(x.ndim - len(axis), x.ndim)) else 0
    if rows * x.size:
        sizes = x.shape[axis[0] :]
        view = (-1, math.prod(sizes))
        factor = None if weight is None else weight.reshape(view)
        result, *sums = _norm_grad_of_rows(x.reshape(view), gradient.reshape(view), factor, centred, eps)
        return result.reshape(x.shape), *(a.reshape(sizes) for a in sums)
    others = tuple(a for a in range(x.ndim) if a not in weight_axis)
    factor = None if weight is None else spread(weight, weight_axis, x.ndim)
    result, normal = _norm_grad_by_x(x, gradient, factor, axis, centred, eps)
    by_weight = np.add.reduce(np.multiply(gradient, normal, out=normal), axis=others)
    return result, np.asarray(by_weight), np.asarray(np.add.reduce(gradient, axis=others))


def _norm_grad_of_rows(x: Any, gradient: Any, weight: Any, centred: bool, eps: float) -> tuple[Any, Any, Any]:
    """Rows a few at a time, so that what is computed on the way stays in the cache."""
    result, by_weight, by_bias = np.empty_like(x), np.zeros(x.shape[1:], x.dtype), np.zeros(x.shape[1:], x.dtype)
    step = max(1, _CACHED // x.shape[1])
    for i in range(0, len(x), step):
        part = slice(i, i + step)
        g = gradient[part]
        result[part], normal = _norm_grad_by_x(x[part], g, weight, (1,), centred, eps)
        by_weight += np.einsum("ij,ij->j", g, normal)
        by_bias += np.add.reduce(g, axis=0)
    return result, by_weight, by_bias


def _norm_grad_by_x(x: Any, gradient: Any, weight: Any, axis: tuple[int, ...], centred: bool, eps: float) -> tuple[Any, Any]:
    """The gradient by the input, and the normalized input."""
    normal = x - mean(x, axis) if centred else x.copy()
    scale = 1 / np.sqrt(mean_product(normal, normal, axis) + eps)
    normal *= scale
    inner = gradient if weight is None else gradient * weight
    result = normal * mean_product(inner, normal, axis)
    np.subtract(inner, result, out=result)
    if centred:
        result -= mean(inner, axis)
    result *= scale
    return result, normal


@native
def attention_grad(
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    gradient: Any,
    mask: Any,
    scale: float,
    softcap: float | None,
    is_causal: bool,
    causal_alignment: str,
) -> Any:
    how = (scale, softcap, is_causal, causal_alignment)
    (*batch, heads, queries, _), (kept, keys) = query.shape, key.shape[-3:-1]
    if queries * keys < _CACHED:
        return _attention_grad(query, key, value, out, gradient, mask, *how)
    # Head by head, so that the scores stay in the cache between one step and the next.
    results = np.empty(query.shape, query.dtype), np.empty(key.shape, key.dtype), np.empty(value.shape, value.dtype)
    seen = None if mask is None else np.broadcast_to(mask, (*batch, heads, queries, keys))
    group = heads // kept
    for place in np.ndindex(*batch, kept):
        one, many = (
            (*place[:-1], slice(place[-1], place[-1] + 1)),
            (*place[:-1], slice(place[-1] * group, (place[-1] + 1) * group)),
        )
        given = query[many], key[one], value[one], out[many], gradient[many], None if seen is None else seen[many]
        results[0][many], results[1][one], results[2][one] = _attention_grad(*given, *how)
    return results


def _attention_grad(
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    gradient: Any,
    mask: Any,
    scale: float,
    softcap: float | None,
    is_causal: bool,
    causal_alignment: str,
) -> Any:
    heads, kept = query.shape[-3], key.shape[-3]
    group, (queries, features) = heads // kept, query.shape[-2:]
    batch = query.shape[:-3]
    # The queries of a group one after the other: a product that sums over them sums over the group too.
    rows, one = (*batch, kept, group * queries), (*batch, heads, queries, key.shape[-2])
    q, g = query.reshape(*rows, features), gradient.reshape(*rows, value.shape[-1])
    held = np.matmul(q * scale, key.swapaxes(-1, -2)).reshape(one)
    if softcap is not None:
        held /= softcap
        np.tanh(held, out=held)
        scores = held * softcap
    else:
        scores = held
    shares = attention_shares(scores, mask, None, is_causal, causal_alignment).reshape(*rows, key.shape[-2])
    slope = np.matmul(g, value.swapaxes(-1, -2))
    slope -= np.vecdot(gradient, out).reshape(*rows, 1)
    slope *= shares
    if softcap is not None:
        np.multiply(held, held, out=held)
        slope *= np.subtract(1, held, out=held).reshape(slope.shape)
    by_query, by_key = np.matmul(slope, key), np.matmul(slope.swapaxes(-1, -2), q)
    by_query *= scale
    by_key *= scale
    return by_query.reshape(query.shape), by_key, np.matmul(shares.swapaxes(-1, -2), g)


@native
def cross_entropy_grad(x: Any, target: Any, factor: Any, axis: int) -> Any:
    result = softmax(x, axis)
    places = np.expand_dims(target, axis)
    true = take_along_axis(result, places, axis)  # which refuses a class that there is not
    np.put_along_axis(result, places, true - 1, axis)
    result *= np.expand_dims(factor, axis)
    return result
