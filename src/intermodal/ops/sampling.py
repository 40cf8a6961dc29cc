"""Sampling between the pixels, at places that the data gives: grid sampling and deformable convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from intermodal import dtypes
from intermodal.errors import ShapeError
from intermodal.ops import rules
from intermodal.ops.convolution import correlate, infer_conv
from intermodal.ops.precision import narrow, wide
from intermodal.ops.rules import FLOAT
from intermodal.ops.table import Inferred, Spec, op, public_names
from intermodal.ops.windows import Geometry, Padding, Sizes, at_least, require_spatial

if TYPE_CHECKING:
    from intermodal.tensor import Tensor


def bilinear(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Images (batch, channels, height, width) at places (batch, places), bilinear between the pixels and zero outside."""
    rows, columns = _held(rows, x.shape[2]), _held(columns, x.shape[3])
    result: Tensor | None = None
    for corner in _corners(rows, columns):
        values, inside = _at(x, corner.row, corner.column)
        part = multiply(values, expand_dims(where(inside, corner.weight, 0.0), axis=1))
        result = part if result is None else add(result, part)
    assert result is not None  # there are four corners
    return _with_nan(result, rows, columns)


class _Corner(NamedTuple):
    """A pixel next to a place, its weight, and how the weight grows along the rows and along the columns."""

    row: Tensor
    column: Tensor
    weight: Tensor
    down: Tensor
    right: Tensor


def _corners(rows: Tensor, columns: Tensor) -> list[_Corner]:
    top, left = floor(rows), floor(columns)
    down, right = subtract(rows, top), subtract(columns, left)
    up, back = subtract(1.0, down), subtract(1.0, right)
    bottom, beyond = add(top, 1.0), add(left, 1.0)
    return [
        _Corner(top, left, multiply(up, back), negative(back), negative(up)),
        _Corner(top, beyond, multiply(up, right), negative(right), up),
        _Corner(bottom, left, multiply(down, back), back, negative(down)),
        _Corner(bottom, beyond, multiply(down, right), right, down),
    ]


def nearest(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Images (batch, channels, height, width) at the pixel nearest to places (batch, places), zero outside."""
    rows, columns = _held(rows, x.shape[2]), _held(columns, x.shape[3])
    values, inside = _at(x, round(rows), round(columns))
    return _with_nan(where(expand_dims(inside, axis=1), values, 0.0), rows, columns)


def _held(place: Tensor, n: int) -> Tensor:
    """Places brought next to the image: one step outside all is zero, and what lies farther out, infinity too, is the same."""
    return clip(place, -1.0, float(n))


def _with_nan(result: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """What was sampled at a NaN is NaN: a NaN is on no side of the image, so it was taken for outside."""
    return add(result, expand_dims(multiply(add(rows, columns), 0.0), axis=1))


def _at(x: Tensor, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """The pixels at whole places, some pixel where there is none, and whether there is one."""
    batch, channels, height, width = x.shape
    index, inside = _index(rows, columns, height, width)
    return take_along_axis(reshape(x, (batch, channels, height * width)), index, axis=2), inside


def _index(rows: Tensor, columns: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """The index (batch, 1, places) of each whole place in the flat image, 0 outside of it, and whether it is inside."""
    inside = logical_and(
        logical_and(greater_equal(rows, 0.0), less(rows, float(height))),
        logical_and(greater_equal(columns, 0.0), less(columns, float(width))),
    )
    row, column = (astype(where(inside, place, 0.0), dtypes.int64) for place in (rows, columns))
    return expand_dims(add(multiply(row, width), column), axis=1), inside


# --- grid sampling -----------------------------------------------------------------------------------------------


def _infer_grid_sample(x: Spec, grid: Spec, *, mode: str, padding_mode: str, align_corners: bool) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x, grid), FLOAT)
    require_spatial(x, 2)
    if grid.ndim != 4 or grid.shape[-1] != 2:
        raise ShapeError(f"the grid has shape {grid.shape}, but (batch, height, width, 2) is needed: x and y of each place.")
    if grid.shape[0] != x.shape[0]:
        raise ShapeError(f"the input has a batch of {x.shape[0]}, the grid of {grid.shape[0]}. Both must be equal.")
    if 0 in x.shape[2:]:
        raise ShapeError(f"the input has shape {x.shape}, and an image without pixels has nothing to sample.")
    attrs = {
        "mode": rules.one_of(mode, "mode", ("bilinear", "nearest")),
        "padding_mode": rules.one_of(padding_mode, "padding_mode", ("zeros", "border", "reflection")),
        "align_corners": bool(align_corners),
    }
    return Inferred((Spec((*x.shape[:2], *grid.shape[1:3]), dtype),), attrs, dtype)


def _grid_by_x(g: Tensor, x_spec: Spec, grid: Tensor, mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    """Each sample hands its gradient to the pixels that it was made of."""
    batch, channels, height, width = x_spec.shape
    (rows, columns), flat = (
        _places(grid, x_spec, padding_mode, align_corners),
        wide(reshape(g, (*g.shape[:2], g.shape[2] * g.shape[3]))),
    )
    rows, columns = _held(rows, height), _held(columns, width)
    if mode == "nearest":
        one = full((), 1.0, dtype=rows.dtype, device=g.device)
        pixels = [(round(rows), round(columns), one)]
    else:
        pixels = [(corner.row, corner.column, corner.weight) for corner in _corners(rows, columns)]
    result = full((batch, channels, height * width), 0.0, dtype=flat.dtype, device=g.device)
    for row, column, weight in pixels:
        index, inside = _index(row, column, height, width)
        part = multiply(flat, expand_dims(where(inside, weight, 0.0), axis=1))
        result = scatter(result, broadcast_to(index, part.shape), part, axis=2, mode="add")
    return reshape(result, x_spec.shape)


def _grid_by_grid(g: Tensor, x: Tensor, grid: Tensor, mode: str, padding_mode: str, align_corners: bool) -> Tensor | None:
    """How the weights of the pixels move with the place; on the line between two pixels, to the right and down."""
    if mode == "nearest":
        return None
    height, width = x.shape[2:]
    (rows, columns), images = _places(grid, x, padding_mode, align_corners), wide(x)
    flat = wide(reshape(g, (*g.shape[:2], g.shape[2] * g.shape[3])))
    slopes: list[Tensor] = []
    for corner in _corners(_held(rows, height), _held(columns, width)):
        values, inside = _at(images, corner.row, corner.column)
        along = where(inside, sum(multiply(flat, values), axis=1), 0.0)
        terms = [multiply(along, corner.right), multiply(along, corner.down)]
        slopes = [add(slope, term) for slope, term in zip(slopes, terms, strict=True)] if slopes else terms
    places = wide(reshape(grid, (*rows.shape, 2)))
    parts = [
        multiply(slope, _pixel_slope(places[..., i], n, padding_mode, align_corners))
        for i, (slope, n) in enumerate(zip(slopes, (width, height), strict=True))
    ]
    return reshape(stack(parts, axis=-1), grid.shape)


def _places(grid: Tensor, x: Tensor | Spec, padding_mode: str, align_corners: bool) -> tuple[Tensor, Tensor]:
    """Rows and columns, (batch, places), in pixels."""
    places = wide(reshape(grid, (grid.shape[0], grid.shape[1] * grid.shape[2], 2)))
    rows = _pixel(places[..., 1], x.shape[2], padding_mode, align_corners)
    return rows, _pixel(places[..., 0], x.shape[3], padding_mode, align_corners)


@op(infer=_infer_grid_sample, namespace="nn", vjp={"x": _grid_by_x, "grid": _grid_by_grid})
def grid_sample_2d(
    x: Tensor,
    /,
    grid: Tensor,
    *,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """Images sampled at the places of a grid.

    Args:
        x: the images, (batch, channels, height, width).
        grid: (batch, height, width, 2): x and y of each place, from -1 (left, top) to 1 (right, bottom).
        mode: ``bilinear`` between the four nearest pixels, or the ``nearest`` one (halves to the even).
        padding_mode: outside the image are ``zeros``, its ``border``, or its ``reflection``.
        align_corners: whether -1 and 1 are the centres of the corner pixels, rather than their outer edges.
    """
    (rows, columns), images = _places(grid, x, padding_mode, align_corners), wide(x)
    result = bilinear(images, rows, columns) if mode == "bilinear" else nearest(images, rows, columns)
    return narrow(reshape(result, (*x.shape[:2], *grid.shape[1:3])), x.dtype)


def _pixel(place: Tensor, n: int, padding_mode: str, align_corners: bool) -> Tensor:
    """From -1 … 1 to pixels, brought into the image where the padding says so."""
    pixel = _unpadded(place, n, align_corners)
    if padding_mode == "zeros":
        return pixel
    if padding_mode == "reflection":
        low, span = _ends(n, align_corners)
        pixel = _reflected(pixel, low, span)
    return clip(pixel, 0.0, float(n - 1))


def _unpadded(place: Tensor, n: int, align_corners: bool) -> Tensor:
    if align_corners:
        return multiply(add(place, 1.0), (n - 1) / 2)
    return divide(subtract(multiply(add(place, 1.0), float(n)), 1.0), 2.0)


def _ends(n: int, align_corners: bool) -> tuple[float, float]:
    """Where an image that is reflected starts, and how long it is."""
    return (0.0, float(n - 1)) if align_corners else (-0.5, float(n))


def _reflected(x: Tensor, low: float, span: float) -> Tensor:
    """Folded at both ends of [low, low + span] until it lies inside."""
    if span == 0.0:
        return multiply(x, 0.0)
    turn = remainder(subtract(x, low), 2 * span)
    return add(where(greater(turn, span), subtract(2 * span, turn), turn), low)


def _pixel_slope(place: Tensor, n: int, padding_mode: str, align_corners: bool) -> Tensor:
    """How fast `_pixel` moves with the place: not at all where it is held at an edge, backwards where it is reflected."""
    pixel, slope = _unpadded(place, n, align_corners), (n - 1) / 2 if align_corners else n / 2
    low, high = (-1.0, float(n)) if padding_mode == "zeros" else (0.0, float(n - 1))
    sign: Tensor | float = slope
    if padding_mode == "reflection":
        start, span = _ends(n, align_corners)
        if span == 0.0:
            return multiply(place, 0.0)
        turn = remainder(subtract(pixel, start), 2 * span)
        sign = where(greater(turn, span), -slope, full((), slope, dtype=place.dtype, device=place.device))
        pixel = _reflected(pixel, start, span)
    inside = logical_and(greater_equal(pixel, low), less_equal(pixel, high))
    return where(inside, sign, full((), 0.0, dtype=place.dtype, device=place.device))


# --- deformable convolution --------------------------------------------------------------------------------------


def _infer_deform_conv2d(
    x: Spec,
    offset: Spec,
    weight: Spec,
    mask: Spec | None,
    bias: Spec | None,
    *,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
    offset_groups: int,
) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x, offset, weight, mask, bias), FLOAT)
    found = infer_conv(x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups, rank=2)
    parts = at_least(1, offset_groups, "offset_groups")
    if x.shape[1] % parts:
        raise ShapeError(f"the input has {x.shape[1]} channels, which do not divide into {parts} offset groups.")
    batch, out, *sizes = found.outputs[0].shape
    elements = parts * weight.shape[2] * weight.shape[3]
    for name, given, count in (("offset", offset, 2 * elements), ("mask", mask, elements)):
        wanted = (batch, count, *sizes)
        if given is not None and given.shape != wanted:
            raise ShapeError(
                f"the {name} has shape {given.shape}, but {wanted} is needed: for each place of the output, {count // elements} for each of {elements} kernel elements of all offset groups."
            )
    return Inferred((Spec((batch, out, *sizes), dtype),), {**found.attrs, "offset_groups": parts}, dtype)


@op(infer=_infer_deform_conv2d, namespace="nn")
def deform_conv2d(
    x: Tensor,
    /,
    offset: Tensor,
    weight: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    offset_groups: int = 1,
) -> Tensor:
    """A convolution whose windows are bent: each kernel element reads the image at a place of its own, between the pixels.

    Args:
        x: the images, (batch, in channels, height, width).
        offset: how far each element is moved, (batch, 2 * offset_groups * kernel elements, out height, out width); down, then right.
        weight: the kernels, (out channels, in channels / groups, height, width).
        mask: a factor for each element, (batch, offset_groups * kernel elements, out height, out width).
        bias: a number for each output channel.
        stride: from one window to the next.
        padding: zeros at both ends of each axis, or (before, after) for each.
        dilation: from one element of a window to its next.
        groups: parts into which the channels fall, each with its own kernels.
        offset_groups: parts into which the input channels fall, each with its own offsets.
    """
    batch, channels, height, width = x.shape
    kernel = weight.shape[2:]
    geometry = Geometry.of(2, kernel, stride, padding, dilation)
    counts = offset.shape[2:]
    moved = reshape(wide(offset), (batch * offset_groups, *kernel, 2, *counts))
    rows, columns = (add(moved[:, :, :, i], _grid(geometry, i, counts[i], moved)) for i in range(2))
    places = (batch * offset_groups, kernel[0] * kernel[1] * counts[0] * counts[1])
    images = reshape(wide(x), (batch * offset_groups, channels // offset_groups, height, width))
    found = bilinear(images, reshape(rows, places), reshape(columns, places))
    if mask is not None:
        found = multiply(found, reshape(wide(mask), (places[0], 1, places[1])))
    windows = reshape(found, (batch, channels, *kernel, *counts))
    return narrow(correlate(windows, wide(weight), None if bias is None else wide(bias), groups), x.dtype)


def _grid(geometry: Geometry, i: int, count: int, like: Tensor) -> Tensor:
    """Where an unbent window's elements lie along an axis: (kernel, counts), with axes of size 1 for the other."""
    starts = subtract(
        multiply(positions(count, like.device, count * geometry.stride[i]), geometry.stride[i]), geometry.padding[i][0]
    )
    elements = multiply(
        positions(geometry.kernel[i], like.device, geometry.kernel[i] * geometry.dilation[i]), geometry.dilation[i]
    )
    view = ((-1, 1, 1, 1), (1, -1, 1, 1))[i], ((-1, 1), (-1,))[i]
    return astype(add(reshape(elements, view[0]), reshape(starts, view[1])), like.dtype)


from intermodal.ops.creation import full, positions  # families use each other; bodies look names up when they run
from intermodal.ops.elementwise import (
    add,
    clip,
    divide,
    floor,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    multiply,
    negative,
    remainder,
    round,
    subtract,
    where,
)
from intermodal.ops.manipulation import astype, broadcast_to, expand_dims, reshape, stack
from intermodal.ops.reduction import sum
from intermodal.ops.searching import scatter, take_along_axis

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
