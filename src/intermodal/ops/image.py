"""Interpolation: images (or lines, or volumes) of another size. Sampling at places that the data gives is in `sampling`.

Each axis is resized by itself: an output element is a weighted sum of a few neighbours. Where it lies among them is
computed in integers, so that no size is large enough to blur it, and every engine picks the same neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from intermodal.errors import InvalidValueError, ShapeError
from intermodal.ops import rules
from intermodal.ops.precision import narrow, wide
from intermodal.ops.rules import ANY, FLOAT
from intermodal.ops.table import Inferred, Shape, Spec, op, public_names
from intermodal.ops.windows import Sizes, per_axis, require_spatial

if TYPE_CHECKING:
    from intermodal.tensor import Tensor

# The names that users know, what each means, and the rank that its name implies.
_MODES: Final[dict[str, tuple[str, int | None]]] = {
    "nearest": ("nearest", None),
    "nearest_exact": ("nearest_exact", None),
    "linear": ("linear", None),
    "bilinear": ("linear", 2),
    "trilinear": ("linear", 3),
    "cubic": ("cubic", None),
    "bicubic": ("cubic", 2),
    "lanczos3": ("lanczos3", None),
}
_KEYS: Final = -0.75  # the cubic kernel's slope, as OpenCV and PyTorch have it


def _target(
    inputs: Shape, size: Sizes | None, scale_factor: float | Sequence[float] | None
) -> tuple[Shape, tuple[float, ...] | None]:
    """The new sizes, and the scales if they were given."""
    rank = len(inputs)
    if scale_factor is None:
        if size is None:
            raise InvalidValueError("neither size nor scale_factor is given. Give one of them.")
        return per_axis(size, rank, "size"), None
    given: tuple[Any, ...] = tuple(scale_factor) if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * rank
    if len(given) != rank or not all(isinstance(s, (int, float)) and 0 < s < math.inf for s in given):
        raise InvalidValueError(f"scale_factor {scale_factor} must be a number greater than 0, or one for each of {rank} axes.")
    scales = tuple(float(s) for s in given)
    sizes = tuple(math.floor(n * s) for n, s in zip(inputs, scales, strict=True))
    if size is not None and per_axis(size, rank, "size") != sizes:
        raise InvalidValueError(
            f"size {size} and scale_factor {scales} do not agree: the factor gives {sizes}. Give one of them."
        )
    if min(sizes) < 1:
        raise ShapeError(f"scale_factor {scales} makes sizes {sizes} of {inputs}. Each must be 1 or more.")
    return sizes, scales


def _infer_interpolate(
    x: Spec, *, size: Sizes | None, scale_factor: float | Sequence[float] | None, mode: str, align_corners: bool
) -> Inferred:
    rank = require_spatial(x)
    kind, implied = _MODES[rules.one_of(mode, "mode", tuple(_MODES))]
    if implied not in (None, rank):
        raise ShapeError(f"mode {mode!r} is for {implied} spatial axes, but the input has shape {x.shape}. Use mode {kind!r}.")
    rules.require(x.dtype, ANY if kind.startswith("nearest") else FLOAT)
    if align_corners and kind.startswith("nearest"):
        raise InvalidValueError(f"align_corners has no meaning for mode {mode!r}. Leave it out.")
    if 0 in x.shape[2:]:
        raise ShapeError(f"the input has shape {x.shape}, and an axis without elements cannot be resized.")
    sizes, scales = _target(x.shape[2:], size, scale_factor)
    attrs = {"size": sizes, "scale_factor": scales, "mode": kind, "align_corners": bool(align_corners)}
    return Inferred((Spec((*x.shape[:2], *sizes), x.dtype),), attrs)


def _interpolate_back(
    g: Tensor, x_spec: Spec, size: Shape, scale_factor: tuple[float, ...] | None, mode: str, align_corners: bool
) -> Tensor:
    """Each output element hands its gradient to the neighbours that it was made of, by their weights."""
    result = wide(g)
    for i, (n, out) in enumerate(zip(x_spec.shape[2:], size, strict=True)):
        place = _place(n, out, None if scale_factor is None else scale_factor[i], mode, align_corners)
        if place != _Place(1, 0, 1):
            result = _resize_axis_back(result, 2 + i, n, place, mode)
    return result


@op(infer=_infer_interpolate, namespace="nn", vjp={"x": _interpolate_back})
def interpolate(
    x: Tensor,
    /,
    *,
    size: Sizes | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
) -> Tensor:
    """The input at another size, over any number of spatial axes.

    Args:
        x: the input, (batch, channels, *spatial).
        size: the new size, one number or one for each axis.
        scale_factor: the new size over the old, instead of ``size``.
        mode: ``nearest`` (rounded down), ``nearest_exact`` (the nearest centre), ``linear``, ``cubic`` or ``lanczos3``; also
            ``bilinear``, ``trilinear``, ``bicubic``. Neighbours past the edge are the edge; ``lanczos3`` leaves them out.
        align_corners: whether the corner elements' centres stay in place, rather than their outer edges.

    Example:
        >>> import intermodal as im
        >>> im.nn.interpolate(im.asarray([[[0.0, 4.0]]]), size=4, mode="linear")
        Tensor([[[0., 1., 3., 4.]]], dtype=float32, device=numpy:cpu)
    """
    kind = _MODES[mode][0]
    sizes, scales = _target(x.shape[2:], size, scale_factor)
    result = x if kind.startswith("nearest") else wide(x)
    for i, out in enumerate(sizes):
        where_ = _place(x.shape[2 + i], out, None if scales is None else scales[i], kind, align_corners)
        if where_ != _Place(1, 0, 1):  # every element where it was
            result = _resize_axis(result, 2 + i, out, where_, kind)
    return narrow(result, x.dtype)


class _Place(NamedTuple):
    """Where output element i lies among the input's: at (factor * i + shift) / divisor, all integers."""

    factor: int
    shift: int
    divisor: int


def _place(n: int, out: int, scale: float | None, kind: str, align_corners: bool) -> _Place:
    if align_corners:
        return _reduced(n - 1, 0, out - 1) if out > 1 else _Place(0, 0, 1)
    # A scale is the fraction that it was written as: 0.1 is a tenth, not the binary number next to it.
    from fractions import Fraction  # only resizing needs it, and its import costs as much as a family's

    step = Fraction(n, out) if scale is None else 1 / Fraction(scale).limit_denominator(1 << 20)
    a, b = step.numerator, step.denominator
    if kind == "nearest":
        return _reduced(a, 0, b)
    if kind == "nearest_exact":
        return _reduced(2 * a, a, 2 * b)
    return _reduced(2 * a, a - b, 2 * b)


def _reduced(factor: int, shift: int, divisor: int) -> _Place:
    common = math.gcd(factor, shift, divisor)
    return _Place(factor // common, shift // common, divisor // common)


class _Neighbours(NamedTuple):
    """For each output element the input elements that it is made of, and their weights; none where there is one neighbour."""

    indices: list[Tensor]
    weights: list[Tensor]


def _neighbours(n: int, out: int, place: _Place, kind: str, like: Tensor) -> _Neighbours:
    position = add(
        multiply(positions(out, like.device, out * place.factor + abs(place.shift) + place.divisor), place.factor), place.shift
    )
    base = floor_divide(position, place.divisor)
    if kind.startswith("nearest"):
        return _Neighbours([minimum(base, n - 1)], [])
    fraction = divide(astype(remainder(position, place.divisor), like.dtype), float(place.divisor))
    weights = _WEIGHTS[kind](fraction)
    first = -(len(weights) // 2 - 1)
    indices = [add(base, first + k) for k in range(len(weights))]
    if kind == "lanczos3":
        weights = _without_outside(weights, indices, n)
    return _Neighbours([clip(index, 0, n - 1) for index in indices], weights)


def _resize_axis(x: Tensor, axis: int, out: int, place: _Place, kind: str) -> Tensor:
    indices, weights = _neighbours(x.shape[axis], out, place, kind, x)
    if not weights:
        return take(x, indices[0], axis=axis)
    view = (-1, *(1,) * (x.ndim - axis - 1))
    result: Tensor | None = None
    for index, weight in zip(indices, weights, strict=True):
        term = multiply(take(x, index, axis=axis), reshape(weight, view))
        result = term if result is None else add(result, term)
    assert result is not None  # there are weights
    return result


def _resize_axis_back(g: Tensor, axis: int, n: int, place: _Place, kind: str) -> Tensor:
    """The adjoint of `_resize_axis`."""
    out, before, after = g.shape[axis], g.shape[:axis], g.shape[axis + 1 :]
    if kind == "nearest" and out == n * place.divisor and place.factor == 1:  # each element was repeated
        return total(reshape(g, (*before, n, place.divisor, *after)), axis=axis + 1)
    indices, weights = _neighbours(n, out, place, kind, g)
    result = full((*before, n, *after), 0.0, dtype=g.dtype, device=g.device)
    if not weights:
        return scatter_slices(result, indices[0], g, axis=axis, mode="add")
    view = (-1, *(1,) * len(after))
    for index, weight in zip(indices, weights, strict=True):
        result = scatter_slices(result, index, multiply(g, reshape(weight, view)), axis=axis, mode="add")
    return result


# --- the neighbours' weights, from the fraction of the way to the next element ------------------------------------


def _linear(t: Tensor) -> list[Tensor]:
    return [subtract(1.0, t), t]


def _cubic(t: Tensor) -> list[Tensor]:
    def near(d: Tensor) -> Tensor:  # up to 1 away
        return add(multiply(multiply(subtract(multiply(d, _KEYS + 2), _KEYS + 3), d), d), 1.0)

    def far(d: Tensor) -> Tensor:  # from 1 to 2 away
        return subtract(multiply(add(multiply(subtract(multiply(d, _KEYS), 5 * _KEYS), d), 8 * _KEYS), d), 4 * _KEYS)

    return [far(add(t, 1.0)), near(t), near(subtract(1.0, t)), far(subtract(2.0, t))]


def _lanczos3(t: Tensor) -> list[Tensor]:
    sine = sin(multiply(t, math.pi))
    weights = []
    for k in range(-2, 4):
        d = multiply(subtract(t, float(k)), math.pi)
        # sin(pi (t - k)) is the sine of pi t up to its sign, and exactly 0 where t is.
        product = multiply(multiply(sine, -3.0 if k % 2 else 3.0), sin(divide(d, 3.0)))
        zero = equal(d, 0.0)
        weights.append(where(zero, 1.0, divide(product, where(zero, 1.0, multiply(d, d)))))
    return weights


def _without_outside(weights: list[Tensor], neighbours: list[Tensor], n: int) -> list[Tensor]:
    """Neighbours past the edge weigh nothing, and the others add up to 1 again."""
    inside = [
        where(logical_and(greater_equal(index, 0), less(index, n)), weight, 0.0)
        for index, weight in zip(neighbours, weights, strict=True)
    ]
    whole = inside[0]
    for weight in inside[1:]:
        whole = add(whole, weight)
    return [divide(weight, whole) for weight in inside]


_WEIGHTS: Final = {"linear": _linear, "cubic": _cubic, "lanczos3": _lanczos3}


from intermodal.ops.creation import full, positions  # families use each other; bodies look names up when they run
from intermodal.ops.elementwise import (
    add,
    clip,
    divide,
    equal,
    floor_divide,
    greater_equal,
    less,
    logical_and,
    minimum,
    multiply,
    remainder,
    sin,
    subtract,
    where,
)
from intermodal.ops.manipulation import astype, reshape
from intermodal.ops.reduction import sum as total
from intermodal.ops.searching import scatter_slices, take

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
