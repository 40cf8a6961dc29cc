"""NumPy natives of neural network ops: where fewer passes over the data, or a wider dtype inside, beat the decomposition."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from intermodal.engines.numpy.elementwise import erfc
from intermodal.engines.numpy.natives import native
from intermodal.ops.pooling import pool_geometry
from intermodal.ops.windows import Geometry, places, reach

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
    if beta != 1.0:
        result /= beta
    result += np.maximum(x, 0)  # the line itself is not scaled: that would overflow
    return result


@native
def log_sigmoid(x: Any) -> Any:
    result = softplus(np.negative(x, out=...), 1.0)
    return np.negative(result, out=result)


@native
def gelu(x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        share = np.multiply(x, x, out=...)  # an array also for a 0-d x
        share *= x
        share *= 0.044715
        share += x
        share *= math.sqrt(2 / math.pi)
        np.tanh(share, out=share)
        share += 1
    else:  # erfc computes in float64 anyway; its argument in float64 keeps the digits of the lower tail
        share = erfc(x.astype(np.float64) * -math.sqrt(0.5))
    share *= 0.5
    share *= x
    return share.astype(x.dtype, copy=False)


def _shifted(x: Any, axis: int, out: Any) -> Any:
    """The line less its maximum; a line of nothing but -inf stays as it is."""
    high = np.maximum.reduce(x, axis=axis, keepdims=True)
    high[high == -np.inf] = 0
    return np.subtract(x, high, out=out)


def _shares(x: Any, axis: int, out: Any) -> Any:
    """The softmax, which may be written over its input."""
    if x.shape[axis] == 0:
        return x
    result = _shifted(x, axis, out)
    np.exp(result, out=result)
    total = np.add.reduce(result, axis=axis, keepdims=True)
    total[total == 0] = 1
    result /= total
    return result


@native
def softmax(x: Any, axis: int) -> Any:
    return _shares(x, axis, None)


@native
def log_softmax(x: Any, axis: int) -> Any:
    if x.shape[axis] == 0:
        return x
    result = _shifted(x, axis, None)
    total = np.add.reduce(np.exp(result), axis=axis, keepdims=True)
    total[total == 0] = 1
    result -= np.log(total, out=total)
    return result


# --- windows and convolution -------------------------------------------------------------------------------------

COLUMNS: Final = 1 << 20  # elements of windows copied at a time: 4 MB of float32 stay near the cache, whatever the batch


@native
def sliding_window(x: Any, axis: int, size: int, step: int, dilation: int) -> Any:
    count = (x.shape[axis] - reach(size, dilation)) // step + 1
    by = x.strides[axis]
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :], size)
    strides = (*x.strides[:axis], by * step, *x.strides[axis + 1 :], by * dilation)
    if x.dtype.itemsize == 1:  # as_strided does not know float8; bytes lie as they do
        return as_strided(x.view(np.uint8), shape, strides, writeable=False).view(x.dtype)
    return as_strided(x, shape, strides, writeable=False)


@native
def overlap_add(x: Any, axis: int, length: int, step: int, dilation: int) -> Any:
    # Laid out in memory as the windows are, so that every addition runs along memory; in C order it took twice as long.
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 : -1])
    result = np.zeros_like(x[..., 0], shape=shape) if x.shape[-1] else np.zeros(shape, x.dtype)
    for k in range(x.shape[-1]):
        result[places(axis, k * dilation, step, x.shape[axis])] += x[..., k]
    return result


@native
def conv(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    rank, batch, out = x.ndim - 2, x.shape[0], weight.shape[0]
    found = padded(x, padding)
    for i in range(rank):
        found = sliding_window(found, 2 + i, weight.shape[2 + i], stride[i], dilation[i])
    counts = found.shape[2 : 2 + rank]
    found = exchanged(found, rank)
    depth, windows = math.prod(weight.shape[1:]), math.prod(counts)
    kernels = weight.reshape(groups, out // groups, depth)
    result = np.empty((batch, groups, out // groups, windows), x.dtype)
    chunk = max(1, COLUMNS // max(1, groups * depth * windows))
    for i in range(0, batch, chunk):
        part = found[i : i + chunk]
        np.matmul(kernels, part.reshape(len(part), groups, depth, windows), out=result[i : i + chunk])
    result = result.reshape(batch, out, *counts)
    if bias is not None:
        result += bias.reshape(-1, *(1,) * rank)
    return result


def exchanged(x: Any, rank: int) -> Any:
    return x.transpose(0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))


def padded(x: Any, padding: Any) -> Any:
    if not any(map(any, padding)):
        return x
    sizes = [n + before + after for n, (before, after) in zip(x.shape[2:], padding, strict=True)]
    result = np.zeros((*x.shape[:2], *sizes), x.dtype)
    inside = tuple(slice(before, before + n) for n, (before, _) in zip(x.shape[2:], padding, strict=True))
    result[(slice(None), slice(None), *inside)] = x
    return result


# --- pooling -----------------------------------------------------------------------------------------------------
# One pass for each element of a window: a reduction over the short axis of a strided view takes ten times as long.


def _elements(x: Any, i: int, geometry: Geometry, fill: Any) -> Iterator[Any]:
    """The first elements of all windows of a spatial axis, the second ones, and so on."""
    axis, (before, after), step = 2 + i, geometry.padding[i], geometry.stride[i]
    if before or after:
        wide = np.full((*x.shape[:axis], before + x.shape[axis] + after, *x.shape[axis + 1 :]), fill, x.dtype)
        wide[(slice(None),) * axis + (slice(before, before + x.shape[axis]),)] = x
        x = wide
    count = (x.shape[axis] - geometry.reach[i]) // step + 1
    return (x[places(axis, k * geometry.dilation[i], step, count)] for k in range(geometry.kernel[i]))


def _combined(ufunc: Any, elements: Iterator[Any]) -> Any:
    result = next(elements).copy()
    for more in elements:
        ufunc(result, more, out=result)
    return result


def _lowest(x: Any) -> Any:
    return -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min


@native
def max_pool(x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    geometry = pool_geometry(x.shape[2:], kernel_size, stride, padding, dilation, ceil_mode)
    for i in range(x.ndim - 2):
        x = _combined(np.maximum, _elements(x, i, geometry, _lowest(x)))
    return x


@native
def max_pool_with_indices(x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    geometry = pool_geometry(x.shape[2:], kernel_size, stride, padding, dilation, ceil_mode)
    values, indices = _indexed(x, geometry, _lowest(x))
    if x.dtype.kind == "f":
        holes = np.isnan(values)
        if holes.any():  # a NaN is not greater than anything; of ones in their places the first is found
            np.copyto(indices, _indexed(np.isnan(x).astype(np.int8), geometry, -1)[1], where=holes)
    return values, indices


def _indexed(x: Any, geometry: Geometry, fill: Any) -> tuple[Any, Any]:
    """Maxima one axis after the other, the last axis first, and where they were found."""
    small = np.int8 if max(geometry.kernel) < 128 else np.int64
    sizes = x.shape[2:]
    found: list[Any] = []  # for each axis, which element of its window it was: small numbers, which move fast
    for i in reversed(range(len(sizes))):
        elements = _elements(x, i, geometry, fill)
        others = [_elements(other, i, geometry, 0) for other in found]
        best, kept = next(elements).copy(), [next(other).copy() for other in others]
        which = np.zeros(best.shape, small)
        for k, more in enumerate(elements, 1):
            better = more > best
            np.maximum(best, more, out=best)
            np.maximum(which, np.multiply(better, k, dtype=small), out=which)  # k grows, so the last one better stays
            for one, other in zip(kept, others, strict=True):
                np.copyto(one, next(other), where=better)
        x, found = best, [*kept, which]
    index, scale = np.zeros(x.shape, np.int64), 1
    for i, which in zip(reversed(range(len(sizes))), found, strict=True):
        gap, start = geometry.dilation[i], np.arange(x.shape[2 + i]) * geometry.stride[i] - geometry.padding[i][0]
        # Where all elements are the lowest, the first one found is padding: the window's first real element stands for it.
        first = (-np.minimum(start, 0) + gap - 1) // gap
        line = (-1, *(1,) * (x.ndim - 3 - i))
        place = np.maximum(which, first.reshape(line)) if first.any() else which
        index += np.multiply(place, gap * scale, dtype=np.int64)
        index += start.reshape(line) * scale
        scale *= sizes[i]
    return x, index


@native
def avg_pool(x: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool) -> Any:
    geometry = pool_geometry(x.shape[2:], kernel_size, stride, padding, 1, ceil_mode)
    sizes = x.shape[2:]
    length: Any = 1
    for i, (before, after) in enumerate(padding):
        x = _combined(np.add, _elements(x, i, geometry, 0))
        low, high = (-before, sizes[i] + after) if count_include_pad else (0, sizes[i])
        start = np.arange(x.shape[2 + i]) * geometry.stride[i] - before
        own = np.minimum(start + geometry.kernel[i], high) - np.maximum(start, low)
        length = length * own.reshape(-1, *(1,) * (x.ndim - 3 - i))
    x /= length
    return x


# --- attention and normalization ---------------------------------------------------------------------------------
# Called once per layer and token: the decomposition's ten dispatches cost more than the arithmetic on small inputs.


@native
def attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    bias: Any,
    scale: float,
    softcap: float | None,
    is_causal: bool,
    causal_alignment: str,
) -> Any:
    heads, kept = query.shape[-3], key.shape[-3]
    group = heads // kept
    query = query * scale
    if group > 1:
        query = query.reshape(*query.shape[:-3], kept, group, *query.shape[-2:])
        key, value = key[..., None, :, :], value[..., None, :, :]
    scores = np.matmul(query, key.swapaxes(-1, -2))
    if group > 1:
        scores = scores.reshape(*scores.shape[:-4], heads, *scores.shape[-2:])
    if softcap is not None:
        scores /= softcap
        np.tanh(scores, out=scores)
        scores *= softcap
    shares = attention_shares(scores, mask, bias, is_causal, causal_alignment)
    if group == 1:
        return np.matmul(shares, value)
    result = np.matmul(shares.reshape(*shares.shape[:-3], kept, group, *shares.shape[-2:]), value)
    return result.reshape(*result.shape[:-4], heads, *result.shape[-2:])


def attention_shares(scores: Any, mask: Any, bias: Any, is_causal: bool, causal_alignment: str) -> Any:
    """The softmax of the scores that are seen, written over them where it can be."""
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = np.where(mask, scores, scores.dtype.type(-np.inf))
    if is_causal:
        queries, keys = scores.shape[-2:]
        offset = keys - queries if causal_alignment == "bottom_right" else 0
        np.copyto(scores, -np.inf, where=~np.tri(queries, keys, offset, dtype=np.bool_))
    return _shares(scores, -1, scores)


def spread(x: Any, axes: tuple[int, ...], ndim: int) -> Any:
    """A weight over some axes, in a shape that broadcasts; as it is where these are the last ones."""
    if axes == tuple(range(ndim - len(axes), ndim)):
        return x
    sizes = dict(zip(axes, x.shape, strict=True))
    return x.reshape([sizes.get(a, 1) for a in range(ndim)])


def mean(x: Any, axis: tuple[int, ...]) -> Any:
    count = math.prod(x.shape[a] for a in axis)
    return np.add.reduce(x, axis=axis, keepdims=True) / (count or np.nan)


def mean_product(x: Any, y: Any, axis: tuple[int, ...]) -> Any:
    """The mean of products; over the last axis without an array of them."""
    if axis == (x.ndim - 1,) and x.shape[-1]:
        return np.vecdot(x, y)[..., None] / x.shape[-1]
    return mean(x * y, axis)


@native
def layer_norm(x: Any, weight: Any, bias: Any, axis: tuple[int, ...], eps: float) -> Any:
    result = x - mean(x, axis)
    result /= np.sqrt(mean_product(result, result, axis) + eps)
    if weight is not None:
        result *= spread(weight, axis, x.ndim)
    if bias is not None:
        result += spread(bias, axis, x.ndim)
    return result


@native
def rms_norm(x: Any, weight: Any, axis: tuple[int, ...], eps: float) -> Any:
    result = x / np.sqrt(mean_product(x, x, axis) + eps)
    if weight is not None:
        result *= spread(weight, axis, x.ndim)
    return result
