"""Pooling: maxima and means of windows.

A window's maximum or sum is found one axis after the other. There is one row for all ranks (`max_pool`, `avg_pool` and
so on), which an engine may provide; `max_pool2d` and its kin only say how many spatial axes they expect.
"""

from __future__ import annotations

import builtins
import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from intermodal import dtypes
from intermodal.dtypes import DType, Scalar
from intermodal.errors import InvalidValueError
from intermodal.ops import rules
from intermodal.ops.precision import narrow, wide
from intermodal.ops.rules import FLOAT, REAL
from intermodal.ops.table import Inferred, Shape, Spec, op, public_names
from intermodal.ops.windows import Geometry, Padding, Sizes, require_spatial, window_count

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
    padded = pad(x, pads, value=fill) if any(geometry.padding[i]) else x  # type: ignore[arg-type]  # pad takes an integer for integers
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
    geometry = pool_geometry(x.shape[2:], kernel_size, stride, padding, dilation, ceil_mode)
    for i in range(x.ndim - 2):
        x = max(_along(x, i, geometry, lowest(x.dtype)), axis=-1)
    return x


@op(infer=partial(_infer_pool, indices=True), namespace="nn", result=Pooled)
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


@op(infer=partial(_infer_pool, kinds=FLOAT), namespace="nn")
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
    total, count = wide(x), math.prod(geometry.kernel)
    shares: Tensor | None = None
    for i, (n, (before, after)) in enumerate(zip(sizes, pads, strict=True)):
        found = _along(total, i, geometry, 0.0)
        total = sum(found, axis=-1)
        low, high = (-before, n + after) if count_include_pad else (0, n)
        if (before and not count_include_pad) or geometry.padding[i][1] > high - n:
            start = subtract(multiply(arange(total.shape[2 + i], device=x.device), geometry.stride[i]), before)
            length = subtract(minimum(add(start, geometry.kernel[i]), high), maximum(start, low))
            share = _line(length, i, x.ndim)
            shares, count = share if shares is None else multiply(shares, share), count // geometry.kernel[i]
    if shares is None:
        return narrow(divide(total, float(count)), x.dtype)
    return narrow(divide(total, astype(multiply(shares, count), total.dtype)), x.dtype)


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


@op(infer=partial(_infer_pool, rank=1, indices=True), namespace="nn", result=Pooled)
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


@op(infer=partial(_infer_pool, rank=2, indices=True), namespace="nn", result=Pooled)
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


@op(infer=partial(_infer_pool, rank=3, indices=True), namespace="nn", result=Pooled)
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


@op(infer=partial(_infer_pool, kinds=FLOAT, rank=1), namespace="nn")
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


@op(infer=partial(_infer_pool, kinds=FLOAT, rank=2), namespace="nn")
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


@op(infer=partial(_infer_pool, kinds=FLOAT, rank=3), namespace="nn")
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


from intermodal.ops.creation import arange  # families use each other; bodies look names up when they run
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
from intermodal.ops.manipulation import astype, pad, reshape, squeeze
from intermodal.ops.reduction import max, sum
from intermodal.ops.searching import argmax, take_along_axis
from intermodal.ops.windows import sliding_window

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
