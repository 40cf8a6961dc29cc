"""Pooling: maxima and means of windows.

A window's maximum or sum is found one axis after the other. There is one row for all ranks (`max_pool`, `avg_pool` and
so on), which an engine may provide; `max_pool2d` and its kin only say how many spatial axes they expect.

The gradient of a maximum goes to the first of equal elements, where `max_pool_with_indices` found it. So a maximum that
is to be differentiated is computed with its index from the start, which costs less than to look for it again.
"""

from __future__ import annotations

import builtins
import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from intermodal import dtypes
from intermodal.dtypes import DType, Scalar
from intermodal.errors import InvalidValueError
from intermodal.ops import rules
from intermodal.ops.precision import narrow, wide
from intermodal.ops.rules import FLOAT, REAL
from intermodal.ops.table import TABLE, Inferred, Shape, Spec, op, public_names
from intermodal.ops.windows import Geometry, Padding, Pairs, Sizes, crop_spatial, require_spatial, window_count

if TYPE_CHECKING:
    from intermodal.tensor import Tensor


class Pooled(NamedTuple):
    """Maxima, and where they came from: indices into the input's spatial axes, flattened."""

    values: Any
    indices: Any


# --- how the windows lie -----------------------------------------------------------------------------------------


def pool_geometry(
    sizes: Shape, kernel_size: Sizes, stride: Sizes | None, padding: Padding, dilation: Sizes, ceil_mode: bool
) -> Geometry:
    """The windows as they are read: with ``ceil_mode`` the padding goes on until the last window is whole."""
    given = Geometry.of(len(sizes), kernel_size, kernel_size if stride is None else stride, padding, dilation)
    pairs: list[tuple[int, int]] = []
    for i, (n, span) in enumerate(zip(sizes, given.reach, strict=True)):
        step, gap, (before, after) = given.stride[i], given.dilation[i], given.padding[i]
        count = (n + before + after - span + (step - 1 if ceil_mode else 0)) // step + 1
        if ceil_mode and (count - 1) * step >= n + before:
            count -= 1  # a last window must start on the input, or before it
        if count < 1:
            window_count(n + before + after, given.kernel[i], step, gap, axis=2 + i, padded=bool(before + after))
        early = (o * step - before for o in range(builtins.min(count, -(-before // step))))
        if (count - 1) * step - before >= n or any(start % gap >= builtins.min(n, start + span) for start in early):
            raise InvalidValueError(
                f"padding {(before, after)} leaves a window of {given.kernel[i]} without any of the {n} elements of axis {2 + i}. Pad less."
            )
        pairs.append((before, builtins.max(after, (count - 1) * step + span - n - before)))
    return given._replace(padding=tuple(pairs))


def _infer_pool(
    x: Spec,
    *,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Padding,
    ceil_mode: bool,
    dilation: Sizes = 1,
    kinds: frozenset[str] = REAL,
    rank: int | None = None,
    indices: bool = False,
    **attrs: object,
) -> Inferred:
    rules.require(x.dtype, kinds)
    rank = require_spatial(x, rank)
    shape = (*x.shape[:2], *pool_geometry(x.shape[2:], kernel_size, stride, padding, dilation, ceil_mode).counts(x.shape[2:]))
    given = Geometry.of(rank, kernel_size, kernel_size if stride is None else stride, padding, dilation)
    normal = {"kernel_size": given.kernel, **given.attrs, "ceil_mode": bool(ceil_mode), **attrs}
    if kinds is FLOAT:
        del normal["dilation"]  # a mean has none
    outputs = (Spec(shape, x.dtype), Spec(shape, dtypes.int64)) if indices else (Spec(shape, x.dtype),)
    return Inferred(outputs, normal)


def lowest(dtype: DType) -> Scalar:
    """The number below which a dtype has none: padding that is never a maximum."""
    return -math.inf if dtype.is_floating else rules.integer_range(dtype)[0]


def _along(x: Tensor, i: int, geometry: Geometry, fill: Scalar) -> Tensor:
    """The windows of one spatial axis, padded for them."""
    pads = [(0, 0)] * x.ndim
    pads[2 + i] = geometry.padding[i]
    padded = pad(x, pads, value=fill) if any(geometry.padding[i]) else x
    return sliding_window(padded, axis=2 + i, size=geometry.kernel[i], step=geometry.stride[i], dilation=geometry.dilation[i])


def _line(x: Tensor, i: int, ndim: int) -> Tensor:
    """A vector that belongs to a spatial axis, in a shape that broadcasts."""
    return reshape(x, (-1, *(1,) * (ndim - 3 - i)))


# --- maxima ------------------------------------------------------------------------------------------------------


@op(infer=_infer_pool, namespace="nn")
def max_pool(
    x: Tensor,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The greatest element of each window, over any number of spatial axes; NaN if there is one. Padding never counts.

    Args:
        x: the input, (batch, channels, *spatial).
        kernel_size: the window's size, one number or one for each axis.
        stride: from one window to the next; the window's size by default.
        padding: how far windows reach over both ends of each axis, or (before, after) for each.
        dilation: from one element of a window to its next.
        ceil_mode: a last window that reaches past the end counts too.
    """
    if x.is_tracked:
        row = TABLE[f"max_pool{x.ndim - 2}d_with_indices" if x.ndim <= 5 else "max_pool_with_indices"]
        found: Pooled = row.function(
            x, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode
        )
        return cast("Tensor", found.values)
    geometry = pool_geometry(x.shape[2:], kernel_size, stride, padding, dilation, ceil_mode)
    for i in range(x.ndim - 2):
        x = max(_along(x, i, geometry, lowest(x.dtype)), axis=-1)
    return x


def _max_back(g: tuple[Tensor, Tensor], x_spec: Spec, indices: Tensor) -> Tensor:
    """Each gradient to the place of its maximum; one place may be the maximum of several windows."""
    rows, count = x_spec.shape[:2], math.prod(indices.shape[2:])
    values = wide(reshape(g[0], (*rows, count)))
    empty = full((*rows, math.prod(x_spec.shape[2:])), 0.0, dtype=values.dtype, device=values.device)
    flat = scatter(empty, reshape(indices, (*rows, count)), values, axis=2, mode="add")
    return narrow(reshape(flat, x_spec.shape), g[0].dtype)


@op(infer=partial(_infer_pool, indices=True), namespace="nn", result=Pooled, vjp={"x": _max_back})
def max_pool_with_indices(
    x: Tensor,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Pooled:
    """`max_pool`, and the index of each maximum in the flattened spatial axes; of equal elements the first."""
    geometry = pool_geometry(x.shape[2:], kernel_size, stride, padding, dilation, ceil_mode)
    index: Tensor | None = None
    scale = 1
    for i in reversed(range(x.ndim - 2)):
        found = _along(x, i, geometry, lowest(x.dtype))
        best = argmax(found, axis=-1, keepdims=True)
        n, step, gap, before = x.shape[2 + i], geometry.stride[i], geometry.dilation[i], geometry.padding[i][0]
        x, best = squeeze(take_along_axis(found, best, axis=-1), -1), squeeze(best, -1)
        start = subtract(multiply(arange(found.shape[2 + i], device=x.device), step), before)
        # Where all elements are the lowest, the first one found is padding: the window's first real element stands for it.
        first = floor_divide(add(negative(minimum(start, 0)), gap - 1), gap)
        place = add(_line(start, i, x.ndim), multiply(maximum(best, _line(first, i, x.ndim)), gap))
        within = multiply(place, scale)
        index = within if index is None else add(take_along_axis(index, place, axis=2 + i), within)
        scale *= n
    assert index is not None  # there is a spatial axis
    return Pooled(x, index)


# --- means -------------------------------------------------------------------------------------------------------


def _lengths(sizes: Shape, geometry: Geometry, pads: Pairs, count_include_pad: bool, like: Tensor) -> tuple[Tensor | None, int]:
    """How many elements count in each window, as a product: the axes along which that varies, and one number for the others."""
    shares: Tensor | None = None
    count = math.prod(geometry.kernel)
    for i, (n, (before, after)) in enumerate(zip(sizes, pads, strict=True)):
        low, high = (-before, n + after) if count_include_pad else (0, n)
        if (before and not count_include_pad) or geometry.padding[i][1] > high - n:
            windows = (geometry.padded(sizes)[i] - geometry.kernel[i]) // geometry.stride[i] + 1
            start = subtract(multiply(positions(windows, like.device, geometry.padded(sizes)[i]), geometry.stride[i]), before)
            length = subtract(minimum(add(start, geometry.kernel[i]), high), maximum(start, low))
            share = _line(length, i, 2 + len(sizes))
            shares, count = share if shares is None else multiply(shares, share), count // geometry.kernel[i]
    return shares, count


def _mean_of(total: Tensor, shares: Tensor | None, count: int) -> Tensor:
    return divide(total, float(count) if shares is None else astype(multiply(shares, count), total.dtype))


def _mean_back(
    g: Tensor, x_spec: Spec, kernel_size: Shape, stride: Shape, padding: Pairs, ceil_mode: bool, count_include_pad: bool
) -> Tensor:
    """Each element gets its share of the gradients of all windows that it lies in."""
    sizes = x_spec.shape[2:]
    geometry = pool_geometry(sizes, kernel_size, stride, padding, 1, ceil_mode)
    share = _mean_of(wide(g), *_lengths(sizes, geometry, padding, count_include_pad, g))
    for i, length in reversed(list(enumerate(geometry.padded(sizes)))):
        windows = broadcast_to(expand_dims(share, axis=-1), (*share.shape, kernel_size[i]))
        share = overlap_add(windows, axis=2 + i, length=length, step=stride[i])
    return narrow(crop_spatial(share, [before for before, _ in padding], sizes), g.dtype)


@op(infer=partial(_infer_pool, kinds=FLOAT), namespace="nn", vjp={"x": _mean_back})
def avg_pool(
    x: Tensor,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window, over any number of spatial axes.

    Args:
        x: the input, (batch, channels, *spatial).
        kernel_size: the window's size, one number or one for each axis.
        stride: from one window to the next; the window's size by default.
        padding: zeros at both ends of each axis, or (before, after) for each.
        ceil_mode: a last window that reaches past the end counts too, with the elements it has.
        count_include_pad: whether the padding's zeros count as elements.
    """
    sizes = x.shape[2:]
    geometry = pool_geometry(sizes, kernel_size, stride, padding, 1, ceil_mode)
    pads = Geometry.of(len(sizes), kernel_size, kernel_size if stride is None else stride, padding, 1).padding
    total = wide(x)
    for i in range(len(sizes)):
        total = sum(_along(total, i, geometry, 0.0), axis=-1)
    return narrow(_mean_of(total, *_lengths(sizes, geometry, pads, count_include_pad, x)), x.dtype)


# --- by rank -----------------------------------------------------------------------------------------------------


@op(infer=partial(_infer_pool, rank=1), namespace="nn")
def max_pool1d(
    x: Tensor,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """`max_pool` over one spatial axis, (batch, channels, length)."""
    return max_pool(x, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)


@op(infer=partial(_infer_pool, rank=2), namespace="nn")
def max_pool2d(
    x: Tensor,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """`max_pool` over images, (batch, channels, height, width).

    Example:
        >>> import intermodal as im
        >>> x = im.reshape(im.arange(16.0), (1, 1, 4, 4))
        >>> im.nn.max_pool2d(x, kernel_size=2)
        Tensor([[[[ 5.,  7.],
                  [13., 15.]]]], dtype=float32, device=numpy:cpu)
    """
    return max_pool(x, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)


@op(infer=partial(_infer_pool, rank=3), namespace="nn")
def max_pool3d(
    x: Tensor,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """`max_pool` over volumes, (batch, channels, depth, height, width)."""
    return max_pool(x, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)


@op(infer=partial(_infer_pool, rank=1, indices=True), namespace="nn", result=Pooled, vjp={"x": _max_back})
def max_pool1d_with_indices(
    x: Tensor,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Pooled:
    """`max_pool_with_indices` over one spatial axis, (batch, channels, length)."""
    return max_pool_with_indices(
        x, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode
    )


@op(infer=partial(_infer_pool, rank=2, indices=True), namespace="nn", result=Pooled, vjp={"x": _max_back})
def max_pool2d_with_indices(
    x: Tensor,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Pooled:
    """`max_pool_with_indices` over images, (batch, channels, height, width)."""
    return max_pool_with_indices(
        x, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode
    )


@op(infer=partial(_infer_pool, rank=3, indices=True), namespace="nn", result=Pooled, vjp={"x": _max_back})
def max_pool3d_with_indices(
    x: Tensor,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Pooled:
    """`max_pool_with_indices` over volumes, (batch, channels, depth, height, width)."""
    return max_pool_with_indices(
        x, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode
    )


@op(infer=partial(_infer_pool, kinds=FLOAT, rank=1), namespace="nn", vjp={"x": _mean_back})
def avg_pool1d(
    x: Tensor,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """`avg_pool` over one spatial axis, (batch, channels, length)."""
    return avg_pool(
        x,
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )


@op(infer=partial(_infer_pool, kinds=FLOAT, rank=2), namespace="nn", vjp={"x": _mean_back})
def avg_pool2d(
    x: Tensor,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """`avg_pool` over images, (batch, channels, height, width)."""
    return avg_pool(
        x,
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )


@op(infer=partial(_infer_pool, kinds=FLOAT, rank=3), namespace="nn", vjp={"x": _mean_back})
def avg_pool3d(
    x: Tensor,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """`avg_pool` over volumes, (batch, channels, depth, height, width)."""
    return avg_pool(
        x,
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )


from intermodal.ops.creation import arange, full, positions  # families use each other; bodies look names up when they run
from intermodal.ops.elementwise import (
    add,
    divide,
    floor_divide,
    maximum,
    minimum,
    multiply,
    negative,
    subtract,
)
from intermodal.ops.manipulation import astype, broadcast_to, expand_dims, pad, reshape, squeeze
from intermodal.ops.reduction import max, sum
from intermodal.ops.searching import argmax, scatter, take_along_axis
from intermodal.ops.windows import overlap_add, sliding_window

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
