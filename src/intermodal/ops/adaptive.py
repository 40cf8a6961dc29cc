"""Adaptive pooling: maxima and means of the parts into which an axis falls, for an output of a given size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from intermodal.devices import Device
from intermodal.errors import InvalidValueError, ShapeError
from intermodal.ops import rules
from intermodal.ops.precision import narrow, wide
from intermodal.ops.rules import FLOAT, REAL
from intermodal.ops.table import Inferred, Shape, Spec, op, public_names
from intermodal.ops.windows import at_least, require_spatial

if TYPE_CHECKING:
    from intermodal.tensor import Tensor

Parts: TypeAlias = int | Sequence[int | None]


def _parts(sizes: Shape, output_size: Parts) -> Shape:
    """The number of parts of each axis; None keeps the axis as it is."""
    given = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * len(sizes)
    if len(given) != len(sizes):
        raise InvalidValueError(f"output_size {output_size} has {len(given)} numbers, but there are {len(sizes)} spatial axes.")
    return tuple(n if parts is None else at_least(1, parts, "output_size") for n, parts in zip(sizes, given, strict=True))


def _infer_adaptive(x: Spec, *, output_size: Parts, kinds: frozenset[str], rank: int | None = None) -> Inferred:
    rules.require(x.dtype, kinds)
    require_spatial(x, rank)
    if 0 in x.shape[2:]:
        raise ShapeError(f"the input has shape {x.shape}, and an axis without elements has no parts. Test the size first.")
    parts = _parts(x.shape[2:], output_size)
    return Inferred((Spec((*x.shape[:2], *parts), x.dtype),), {"output_size": parts})


class _Part(NamedTuple):
    """The elements of each part of one axis, (…, parts, elements, …), and how many there are."""

    elements: Tensor
    inside: Tensor | None  # None where all are the part's own
    length: Tensor | int


def _bounds(n: int, parts: int, device: Device) -> tuple[Tensor, Tensor]:
    """Where each part starts and ends."""
    k = positions(parts, device, (parts + 1) * (n + 1))
    return floor_divide(multiply(k, n), parts), floor_divide(add(multiply(add(k, 1), n), parts - 1), parts)


def _divided(x: Tensor, axis: int, parts: int) -> _Part:
    """Part k of n elements reaches from floor(k n / parts) to ceil((k + 1) n / parts): parts may share an element."""
    n, before, after = x.shape[axis], x.shape[:axis], x.shape[axis + 1 :]
    if n % parts == 0:
        return _Part(reshape(x, (*before, parts, n // parts, *after)), None, n // parts)
    start, end = _bounds(n, parts, x.device)
    longest = max(-(-(j + 1) * n // parts) - j * n // parts for j in range(parts))
    place = add(expand_dims(start, axis=-1), positions(longest, x.device, (parts + 1) * (n + 1)))
    # A part that is shorter than the longest repeats its last element.
    held = minimum(place, expand_dims(subtract(end, 1), axis=-1))
    elements = reshape(take(x, reshape(held, (-1,)), axis=axis), (*before, parts, longest, *after))
    ones = (1,) * len(after)
    return _Part(elements, reshape(equal(place, held), (parts, longest, *ones)), reshape(subtract(end, start), (parts, *ones)))


def _mean_back(g: Tensor, x_spec: Spec, output_size: Shape) -> Tensor:
    """Each element gets its share of the gradients of the parts that it belongs to."""
    result = wide(g)
    for i, (n, parts) in enumerate(zip(x_spec.shape[2:], output_size, strict=True)):
        before, after = result.shape[: 2 + i], result.shape[3 + i :]
        if n % parts == 0:
            share = divide(expand_dims(result, axis=3 + i), float(n // parts))
            result = reshape(broadcast_to(share, (*before, parts, n // parts, *after)), (*before, n, *after))
            continue
        start, end = (expand_dims(bound, axis=-1) for bound in _bounds(n, parts, g.device))
        j = positions(n, g.device, (parts + 1) * (n + 1))
        inside = logical_and(greater_equal(j, start), less(j, end))
        matrix = where(inside, divide(1.0, astype(subtract(end, start), result.dtype)), 0.0)
        # The axis in the middle is multiplied from the left, so that nothing has to be moved in memory.
        flat = reshape(result, (*before, parts, math.prod(after)))
        result = reshape(matmul(matrix_transpose(matrix), flat), (*before, n, *after))
    return narrow(result, g.dtype)


def _max_back(g: Tensor, x: Tensor, output_size: Shape) -> Tensor:
    """Each gradient to the first of its part's greatest elements, found one axis after the other as it is in the rows of memory."""
    found: list[tuple[int, int, Tensor]] = []
    for i, parts in reversed(list(enumerate(output_size))):
        axis, n = 2 + i, x.shape[2 + i]
        best = argmax(_divided(x, axis, parts).elements, axis=axis + 1)
        start = _bounds(n, parts, x.device)[0]
        place = add(best, reshape(start, (parts, *(1,) * (x.ndim - axis - 1))))
        found.append((axis, n, place))
        x = take_along_axis(x, place, axis=axis)
    result = wide(g)
    for axis, n, place in reversed(found):
        empty = full((*result.shape[:axis], n, *result.shape[axis + 1 :]), 0.0, dtype=result.dtype, device=g.device)
        result = scatter(empty, place, result, axis=axis, mode="add")
    return narrow(result, g.dtype)


@op(infer=partial(_infer_adaptive, kinds=FLOAT), namespace="nn", vjp={"x": _mean_back})
def adaptive_avg_pool(x: Tensor, /, *, output_size: Parts) -> Tensor:
    """The mean of each part, where each spatial axis falls into a number of parts of nearly equal length.

    Args:
        x: the input, (batch, channels, *spatial).
        output_size: the number of parts, one for all axes or one for each; None keeps an axis as it is.
    """
    result = wide(x)
    for i, parts in enumerate(_parts(x.shape[2:], output_size)):
        part = _divided(result, 2 + i, parts)
        held = part.elements if part.inside is None else where(part.inside, part.elements, 0.0)
        length = float(part.length) if isinstance(part.length, int) else astype(part.length, result.dtype)
        result = divide(total(held, axis=3 + i), length)
    return narrow(result, x.dtype)


@op(infer=partial(_infer_adaptive, kinds=REAL), namespace="nn", vjp={"x": _max_back})
def adaptive_max_pool(x: Tensor, /, *, output_size: Parts) -> Tensor:
    """The greatest element of each part; the parts are those of `adaptive_avg_pool`."""
    for i, parts in enumerate(_parts(x.shape[2:], output_size)):
        x = greatest(_divided(x, 2 + i, parts).elements, axis=3 + i)
    return x


# --- by rank -----------------------------------------------------------------------------------------------------


@op(infer=partial(_infer_adaptive, kinds=FLOAT, rank=1), namespace="nn", vjp={"x": _mean_back})
def adaptive_avg_pool1d(x: Tensor, /, *, output_size: Parts) -> Tensor:
    """`adaptive_avg_pool` over one spatial axis, (batch, channels, length)."""
    return adaptive_avg_pool(x, output_size=output_size)


@op(infer=partial(_infer_adaptive, kinds=FLOAT, rank=2), namespace="nn", vjp={"x": _mean_back})
def adaptive_avg_pool2d(x: Tensor, /, *, output_size: Parts) -> Tensor:
    """`adaptive_avg_pool` over images, (batch, channels, height, width)."""
    return adaptive_avg_pool(x, output_size=output_size)


@op(infer=partial(_infer_adaptive, kinds=FLOAT, rank=3), namespace="nn", vjp={"x": _mean_back})
def adaptive_avg_pool3d(x: Tensor, /, *, output_size: Parts) -> Tensor:
    """`adaptive_avg_pool` over volumes, (batch, channels, depth, height, width)."""
    return adaptive_avg_pool(x, output_size=output_size)


@op(infer=partial(_infer_adaptive, kinds=REAL, rank=1), namespace="nn", vjp={"x": _max_back})
def adaptive_max_pool1d(x: Tensor, /, *, output_size: Parts) -> Tensor:
    """`adaptive_max_pool` over one spatial axis, (batch, channels, length)."""
    return adaptive_max_pool(x, output_size=output_size)


@op(infer=partial(_infer_adaptive, kinds=REAL, rank=2), namespace="nn", vjp={"x": _max_back})
def adaptive_max_pool2d(x: Tensor, /, *, output_size: Parts) -> Tensor:
    """`adaptive_max_pool` over images, (batch, channels, height, width)."""
    return adaptive_max_pool(x, output_size=output_size)


@op(infer=partial(_infer_adaptive, kinds=REAL, rank=3), namespace="nn", vjp={"x": _max_back})
def adaptive_max_pool3d(x: Tensor, /, *, output_size: Parts) -> Tensor:
    """`adaptive_max_pool` over volumes, (batch, channels, depth, height, width)."""
    return adaptive_max_pool(x, output_size=output_size)


from intermodal.ops.creation import full, positions  # families use each other; bodies look names up when they run
from intermodal.ops.elementwise import (
    add,
    divide,
    equal,
    floor_divide,
    greater_equal,
    less,
    logical_and,
    minimum,
    multiply,
    subtract,
    where,
)
from intermodal.ops.linalg import matmul, matrix_transpose
from intermodal.ops.manipulation import astype, broadcast_to, expand_dims, reshape
from intermodal.ops.reduction import max as greatest, sum as total
from intermodal.ops.searching import argmax, scatter, take, take_along_axis

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
