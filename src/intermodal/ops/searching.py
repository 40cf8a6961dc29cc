"""Searching, sorting, sets and indexing: extremes' places, order, membership, gathering and scattering."""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from intermodal import dtypes
from intermodal.errors import AxisError, DTypeError, IndexRangeError, InvalidValueError, ShapeError
from intermodal.ops import rules
from intermodal.ops.derivatives import DISCRETE
from intermodal.ops.reduction import reduced
from intermodal.ops.rules import ANY, BOOL, INTEGER, REAL
from intermodal.ops.table import Infer, Inferred, Shape, Spec, op, primitive, public_names
from intermodal.ops.writes import BASIC_PUT, SCATTER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intermodal.ops.table import Operand
    from intermodal.tensor import Tensor

MODES = ("assign", "add", "multiply", "minimum", "maximum")
"""What a scatter does with the element that is there already."""


# --- extremes and order ------------------------------------------------------------------------------------------


def _infer_argextreme(x: Spec, *, axis: int | None, keepdims: bool) -> Inferred:
    rules.require(x.dtype, REAL | BOOL)
    along = None if axis is None else rules.axis(axis, x.ndim)
    axes = tuple(range(x.ndim)) if along is None else (along,)
    if math.prod(x.shape[a] for a in axes) == 0:
        raise ShapeError(
            f"a tensor of shape {x.shape} has no elements along axis {axis}, and nothing is no extreme. Test the size first."
        )
    return Inferred((Spec(reduced(x.shape, axes, keepdims), dtypes.int64),), {"axis": along, "keepdims": bool(keepdims)})


@primitive(infer=_infer_argextreme, vjp=DISCRETE)
def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the greatest element, the first if there are several; a NaN counts as greatest."""


@primitive(infer=_infer_argextreme, vjp=DISCRETE)
def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the smallest element, the first if there are several; a NaN counts as smallest."""


def ordering(result_index: bool) -> Infer:
    def infer(x: Spec, *, axis: int, descending: bool, stable: bool) -> Inferred:
        rules.require(x.dtype, REAL | BOOL)
        along = rules.axis(axis, x.ndim)
        return Inferred(
            (Spec(x.shape, dtypes.int64 if result_index else x.dtype),),
            {"axis": along, "descending": bool(descending), "stable": bool(stable)},
        )

    return infer


def _sort_rule(g: Tensor, x: Tensor, axis: int, descending: bool) -> Tensor:
    # Of equal elements the order is that of `argsort`, as if the sort were stable.
    order = argsort(x, axis=axis, descending=descending)
    return scatter(zeros(g.shape, dtype=g.dtype, device=g.device), order, g, axis=axis)


@primitive(infer=ordering(False), vjp={"x": _sort_rule})
def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along an axis; NaN comes last, or first if descending."""


@primitive(infer=ordering(True), vjp=DISCRETE)
def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort an axis; equal elements keep their order."""


class SortResult(NamedTuple):
    """Sorted values and where they came from."""

    values: Any
    indices: Any


@op(result=SortResult)
def sort_with_indices(x: Tensor, /, *, axis: int = -1, descending: bool = False) -> SortResult:
    """The elements in order along an axis, and the indices they had."""
    order = argsort(x, axis=axis, descending=descending)
    return SortResult(take_along_axis(x, order, axis=axis), order)


@op(result=SortResult)
def topk(x: Tensor, k: int, /, *, axis: int = -1, largest: bool = True) -> SortResult:
    """The k greatest (or smallest) elements along an axis, in order, and their indices."""
    along, n = rules.axis(axis, x.ndim), rules.integer(k, "k")
    if not 0 <= n <= x.shape[along]:
        raise InvalidValueError(f"k {n} must lie in [0, {x.shape[along]}], the size of axis {along}.")
    order = argsort(x, axis=along, descending=largest)[(slice(None),) * along + (slice(0, n),)]
    return SortResult(take_along_axis(x, order, axis=along), order)


def _extreme_with_indices(x: Tensor, where: Tensor, axis: int, keepdims: bool) -> SortResult:
    values = take_along_axis(x, where, axis=axis)
    return SortResult(values, where) if keepdims else SortResult(squeeze(values, axis), squeeze(where, axis))


@op(result=SortResult)
def max_with_indices(x: Tensor, /, *, axis: int = -1, keepdims: bool = False) -> SortResult:
    """The greatest element along an axis and its index."""
    return _extreme_with_indices(x, argmax(x, axis=axis, keepdims=True), axis, keepdims)


@op(result=SortResult)
def min_with_indices(x: Tensor, /, *, axis: int = -1, keepdims: bool = False) -> SortResult:
    """The smallest element along an axis and its index."""
    return _extreme_with_indices(x, argmin(x, axis=axis, keepdims=True), axis, keepdims)


def _infer_searchsorted(x1: Spec, x2: Spec | float, sorter: Spec | None, *, side: str) -> Inferred:
    rules.one_of(side, "side", ("left", "right"))
    rules.require(x1.dtype, REAL, of="x1")
    if x1.ndim != 1:
        raise ShapeError(f"x1 has shape {x1.shape}, but a sorted sequence is 1-d.")
    if sorter is not None and (sorter.shape != x1.shape or not sorter.dtype.is_integer):
        raise ShapeError(
            f"sorter has shape {sorter.shape} and dtype {sorter.dtype}. It must hold one integer for each of the {x1.shape[0]} elements."
        )
    common = rules.require(rules.operand_dtype(x1, x2), REAL)
    return Inferred((Spec(rules.shape_of(x2), dtypes.int64),), {"side": side}, (common, common, None))


@op(infer=_infer_searchsorted, vjp=DISCRETE)
def searchsorted(x1: Tensor, x2: Operand, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Where each element of the second would go into the sorted first: before its equals (left) or after (right)."""
    x1 = x1 if sorter is None else take(x1, sorter, axis=0)
    wanted = full((), x2, dtype=x1.dtype, device=x1.device) if isinstance(x2, (bool, int, float, complex)) else x2
    n = x1.shape[0]
    low = zeros(wanted.shape, dtype=dtypes.int64, device=x1.device)
    if n == 0:
        return low
    high = add(low, n)
    for _ in range(n.bit_length()):  # a binary search of all elements at once
        middle = floor_divide(add(low, high), 2)
        there = reshape(take(x1, reshape(minimum(middle, n - 1), (-1,)), axis=0), middle.shape)
        after = _before(there, wanted) if side == "left" else logical_not(_before(wanted, there))
        open_ = less(low, high)
        low = where(logical_and(open_, after), add(middle, 1), low)
        high = where(logical_and(open_, logical_not(after)), middle, high)
    return low


def _before(x: Tensor, y: Tensor) -> Tensor:
    """X sorts before y; NaN comes after every number."""
    return less(x, y) if x.dtype.is_integer else logical_or(less(x, y), logical_and(logical_not(isnan(x)), isnan(y)))


# --- where they are ----------------------------------------------------------------------------------------------


def _infer_nonzero(x: Spec) -> tuple[Spec, ...]:
    if x.ndim == 0:
        raise ShapeError("a 0-d tensor has no axes to index. Reshape it to (1,) first.")
    return (Spec((None,), dtypes.int64),) * x.ndim


@primitive(infer=_infer_nonzero, data_dependent=True, vjp=DISCRETE)
def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are true or nonzero, one tensor for each axis."""


def _infer_argwhere(x: Spec) -> Spec:
    return Spec((None, x.ndim), dtypes.int64)


@op(infer=_infer_argwhere, data_dependent=True, vjp=DISCRETE)
def argwhere(x: Tensor, /) -> Tensor:
    """The indices of the elements that are true or nonzero, one row for each."""
    return stack(nonzero(x), axis=1) if x.ndim else zeros((int(count_nonzero(x)), 0), dtype=dtypes.int64, device=x.device)


# --- gathering ---------------------------------------------------------------------------------------------------


def _infer_take(x: Spec, indices: Spec, *, axis: int | None) -> Inferred:
    rules.require(indices.dtype, INTEGER, of="indices")
    if axis is None and x.ndim != 1:
        raise AxisError(
            f"a tensor of shape {x.shape} has {x.ndim} axes, so axis must say along which. Only a 1-d tensor needs none."
        )
    along = rules.axis(0 if axis is None else axis, x.ndim)
    return Inferred((Spec(x.shape[:along] + tuple(indices.shape) + x.shape[along + 1 :], x.dtype),), {"axis": along})


def _take_rule(g: Tensor, x_spec: Spec, indices: Tensor, axis: int) -> Tensor:
    slices = g.reshape((*x_spec.shape[:axis], indices.size, *x_spec.shape[axis + 1 :]))
    empty = zeros(x_spec.shape, dtype=g.dtype, device=g.device)
    return scatter_slices(empty, indices.reshape(-1), slices, axis=axis, mode="add")


@primitive(infer=_infer_take, movement=True, vjp={"x": _take_rule})
def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The elements at the indices along an axis; a negative index counts from the end, one outside raises."""


def _infer_along(x: Spec, indices: Spec, *, axis: int) -> Inferred:
    rules.require(indices.dtype, INTEGER, of="indices")
    along = rules.axis(axis, x.ndim)
    return Inferred((Spec(_along_shape(x, indices, along), x.dtype),), {"axis": along})


def _along_shape(x: Spec, indices: Spec, along: int) -> Shape:
    if indices.ndim != x.ndim:
        raise ShapeError(f"indices have shape {indices.shape}, the tensor {x.shape}. Both need the same number of axes.")
    rest = rules.broadcast(*(tuple(1 if i == along else n for i, n in enumerate(s.shape)) for s in (x, indices)))
    return tuple(indices.shape[i] if i == along else n for i, n in enumerate(rest))


def _take_along_rule(g: Tensor, x_spec: Spec, indices: Tensor, axis: int) -> Tensor:
    shape = (*g.shape[:axis], x_spec.shape[axis], *g.shape[axis + 1 :])  # x broadcasts with the indices along the other axes
    return scatter(zeros(shape, dtype=g.dtype, device=g.device), indices, g, axis=axis, mode="add")


@primitive(infer=_infer_along, movement=True, vjp={"x": _take_along_rule})
def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """For each line along an axis, the elements at that line's own indices."""


def basic_shape(shape: Shape, key: tuple[Any, ...]) -> Shape:
    """The shape after a basic index: integers, slices, None; the key covers all axes."""
    result: list[int] = []
    a = 0
    for part in key:
        if part is None:
            result.append(1)
            continue
        if a == len(shape):
            raise IndexRangeError(
                f"the key {key} has more parts than the {a} axes of shape {shape}. Name each axis once at most."
            )
        if isinstance(part, slice):
            result.append(len(range(*part.indices(shape[a]))))
        elif not -shape[a] <= part < shape[a]:
            raise IndexRangeError(
                f"index {part} is out of range for axis {a} of size {shape[a]}. It must lie in [-{shape[a]}, {shape[a] - 1}]."
            )
        a += 1
    return (*result, *shape[a:])


def _put_part(x: Tensor, value: Tensor, *, key: tuple[Any, ...]) -> Tensor:
    return basic_put(x, value, key=key)


def _infer_basic_index(x: Spec, *, key: tuple[Any, ...]) -> Spec:
    return Spec(basic_shape(x.shape, key), x.dtype)


def _basic_index_rule(g: Tensor, x_spec: Spec, key: tuple[Any, ...]) -> Tensor:
    return basic_put(zeros(x_spec.shape, dtype=g.dtype, device=g.device), g, key=key)


@primitive(infer=_infer_basic_index, movement=True, view=_put_part, vjp={"x": _basic_index_rule})
def basic_index(x: Tensor, /, *, key: tuple[int | slice | None, ...]) -> Tensor:
    """``x[key]`` for integers, slices and None: the part of the tensor that a regular step reaches."""


def _infer_basic_put(x: Spec, value: Spec | object, *, key: tuple[Any, ...], mode: str) -> Inferred:
    rules.one_of(mode, "mode", MODES)
    part = basic_shape(x.shape, key)
    _check_assignable(x, value, part)
    return Inferred((x,), {"key": key, "mode": mode}, (None, x.dtype))


def _check_assignable(x: Spec, value: Spec | object, part: Shape) -> None:
    shape = rules.shape_of(value)
    if rules.broadcast(shape, part) != part:
        raise ShapeError(f"a value of shape {shape} does not broadcast to the part's shape {part}.")
    dtype = value.dtype if isinstance(value, Spec) else x.dtype
    joint = rules.operand_dtype(x, value)
    if joint is not x.dtype and not (dtype.is_integer and x.dtype.is_inexact):
        raise DTypeError(
            f"a value of {dtype if isinstance(value, Spec) else repr(value)} does not fit a tensor of {x.dtype}. Cast the value, or the tensor, with im.astype."
        )


@primitive(infer=_infer_basic_put, movement=True, vjp=BASIC_PUT)
def basic_put(x: Tensor, value: Operand, /, *, key: tuple[int | slice | None, ...], mode: str = "assign") -> Tensor:
    """The tensor with the part that ``x[key]`` reaches replaced by (or combined with) a value."""


def _index_shape(x: Spec, indices: list[Spec]) -> Shape:
    if len(indices) > x.ndim:
        raise IndexRangeError(f"{len(indices)} indices are too many for a tensor of {x.ndim} dimensions.")
    for i in indices:
        rules.require(i.dtype, INTEGER, of="an index")
    return (*rules.broadcast(*(i.shape for i in indices)), *x.shape[len(indices) :])


def _infer_index(x: Spec, indices: list[Spec]) -> Spec:
    return Spec(_index_shape(x, indices), x.dtype)


def _linear(shape: Shape, indices: Sequence[Tensor]) -> Tensor:
    """Indices of the leading axes as one index into those axes flattened; each is checked against its own axis."""
    result: Tensor | None = None
    for n, index in zip(shape, indices, strict=False):
        index = astype(index, dtypes.int64)
        inside = logical_and(greater_equal(index, -n), less(index, n))
        # An index outside its axis must not reach a neighbour's row: it is sent past the end, where `take` refuses it.
        step = where(inside, remainder(index, n if n else 1), math.prod(shape))
        result = step if result is None else add(multiply(result, n), step)
    assert result is not None
    return result


def _index_rule(g: Tensor, x_spec: Spec, indices: list[Tensor]) -> Tensor:
    return index_put(zeros(x_spec.shape, dtype=g.dtype, device=g.device), indices, g, mode="add")


@op(infer=_infer_index, movement=True, vjp={"x": _index_rule})
def index(x: Tensor, indices: Sequence[Tensor], /) -> Tensor:
    """``x[i, j, …]`` for integer tensors over the leading axes; they broadcast together."""
    if len(indices) == 1:
        return take(x, indices[0], axis=0)
    count = len(indices)
    where_ = _linear(x.shape[:count], indices)
    flat = reshape(x, (math.prod(x.shape[:count]), *x.shape[count:]))
    return reshape(take(flat, reshape(where_, (-1,)), axis=0), (*where_.shape, *x.shape[count:]))


# --- scattering --------------------------------------------------------------------------------------------------


def _infer_put_along(x: Spec, indices: Spec, values: Spec | object, *, axis: int, mode: str) -> Inferred:
    rules.one_of(mode, "mode", MODES)
    rules.require(indices.dtype, INTEGER, of="indices")
    along = rules.axis(axis, x.ndim)
    part = _along_shape(x, indices, along)
    if builtins.any(n != m for i, (n, m) in enumerate(zip(part, x.shape, strict=True)) if i != along):
        raise ShapeError(f"indices of shape {indices.shape} reach past a tensor of shape {x.shape}.")
    _check_assignable(x, values, part)
    return Inferred((x,), {"axis": along, "mode": mode}, (None, None, x.dtype))


@primitive(infer=_infer_put_along, movement=True, vjp=SCATTER)
def scatter(x: Tensor, indices: Tensor, values: Operand, /, *, axis: int = -1, mode: str = "assign") -> Tensor:
    """The tensor with values written at each line's own indices along an axis.

    Args:
        x: the tensor.
        indices: where to, as in `take_along_axis`; an index may come more than once.
        values: what to write.
        axis: the axis.
        mode: ``assign`` (the last one wins), ``add``, ``multiply``, ``minimum`` or ``maximum``.
    """


@op()
def scatter_slices(x: Tensor, indices: Tensor, values: Tensor, /, *, axis: int = 0, mode: str = "assign") -> Tensor:
    """The tensor with slices written at indices along an axis: the counterpart of `take`."""
    along = rules.axis(axis, x.ndim)
    if indices.ndim != 1:
        raise ShapeError(f"indices have shape {indices.shape}, but one index for each slice is needed. Flatten them.")
    view = (1,) * along + (-1,) + (1,) * (x.ndim - along - 1)
    part = (*x.shape[:along], indices.shape[0], *x.shape[along + 1 :])
    return scatter(x, broadcast_to(reshape(indices, view), part), broadcast_to(values, part), axis=along, mode=mode)


def _infer_index_put(x: Spec, indices: list[Spec], value: Spec | object, *, mode: str) -> Inferred:
    rules.one_of(mode, "mode", MODES)
    _check_assignable(x, value, _index_shape(x, indices))
    return Inferred((x,), {"mode": mode}, (None, None, x.dtype))


@op(infer=_infer_index_put, movement=True)
def index_put(x: Tensor, indices: Sequence[Tensor], value: Operand, /, *, mode: str = "assign") -> Tensor:
    """The tensor with a value written at ``x[i, j, …]``: the counterpart of `index`."""
    count = len(indices)
    rest = x.shape[count:]
    where_ = _linear(x.shape[:count], indices)
    part = (*where_.shape, *rest)
    if isinstance(value, (bool, int, float, complex)):
        value = full((), value, dtype=x.dtype, device=x.device)
    flat = reshape(x, (math.prod(x.shape[:count]), math.prod(rest)))
    lines = broadcast_to(reshape(where_, (-1, 1)), (where_.size, math.prod(rest)))
    values = reshape(broadcast_to(value, part), lines.shape)
    return reshape(scatter(flat, lines, values, axis=0, mode=mode), x.shape)


@op(movement=True)
def gather_nd(x: Tensor, indices: Tensor, /) -> Tensor:
    """The slices at index tuples that lie along the last axis of ``indices``."""
    return index(x, _index_tuples(x, indices))


@op(movement=True)
def scatter_nd(x: Tensor, indices: Tensor, values: Tensor, /, *, mode: str = "assign") -> Tensor:
    """The tensor with slices written at index tuples that lie along the last axis of ``indices``."""
    return index_put(x, _index_tuples(x, indices), values, mode=mode)


def _index_tuples(x: Tensor, indices: Tensor) -> tuple[Tensor, ...]:
    if indices.ndim and indices.shape[-1] > x.ndim:  # before they are taken apart, for there may be very many
        raise IndexRangeError(f"an index tuple has {indices.shape[-1]} parts, but shape {x.shape} has {x.ndim} axes.")
    return unstack(indices, axis=-1)


# --- masks -------------------------------------------------------------------------------------------------------


def _infer_masked_select(x: Spec, mask: Spec) -> Spec:
    return Spec((None, *_mask_rest(x, mask)), x.dtype)


def _mask_rest(x: Spec, mask: Spec) -> Shape:
    rules.require(mask.dtype, BOOL, of="the mask")
    # The standard lets a mask be empty along an axis: it selects nothing.
    if mask.ndim > x.ndim or builtins.any(m not in (n, 0) for m, n in zip(mask.shape, x.shape, strict=False)):
        raise IndexRangeError(f"a mask of shape {mask.shape} does not fit the leading axes of shape {x.shape}.")
    return tuple(x.shape[mask.ndim :])


@op(infer=_infer_masked_select, movement=True, data_dependent=True)
def masked_select(x: Tensor, mask: Tensor, /) -> Tensor:
    """The elements where the mask holds, in order; the mask covers the leading axes."""
    if mask.ndim == 0:
        return expand_dims(x, axis=0)[slice(0, int(astype(mask, dtypes.int64)))]
    return index(x, nonzero(mask))


@op(movement=True)
def masked_fill(x: Tensor, mask: Tensor, value: Operand, /) -> Tensor:
    """The tensor with one value where the mask holds."""
    return where(mask, value, x)


def _infer_masked_put(x: Spec, mask: Spec, value: Spec | object) -> Inferred:
    rest = _mask_rest(x, mask)
    if isinstance(value, Spec) and value.ndim > len(rest) + 1:
        raise ShapeError(
            f"a value of shape {value.shape} does not fit what the mask selects, (count, {', '.join(map(str, rest))})."
        )
    _check_assignable(x, Spec((), value.dtype) if isinstance(value, Spec) else value, ())
    return Inferred((x,), {}, (None, None, x.dtype))


@op(infer=_infer_masked_put, movement=True)
def masked_put(x: Tensor, mask: Tensor, value: Operand, /) -> Tensor:
    """The tensor with a value written where the mask holds: one for all, or one for each in order."""
    if 0 in mask.shape:
        return x
    view = reshape(mask, (*mask.shape, *(1,) * (x.ndim - mask.ndim)))
    if isinstance(value, (bool, int, float, complex)) or value.ndim <= x.ndim - mask.ndim:
        return where(view, value, x)
    if value.shape[0] == 1:
        return where(view, value[0], x)
    if not mask._place.backend.holds_data:  # how many places there are is not known yet: each takes the value of its number
        if value.shape[0] == 0:
            return x
        number = cumulative_sum(astype(reshape(mask, (-1,)), dtypes.int32), dtype=dtypes.int32)
        picked = take(value, clip(subtract(number, 1), 0, value.shape[0] - 1), axis=0)
        return where(view, reshape(picked, (*mask.shape, *value.shape[1:])), x)
    count = int(count_nonzero(mask))
    if value.shape[0] != count:
        raise ShapeError(
            f"masked_put: the mask selects {count} places, the value has {value.shape[0]}. Give one for all, or one for each."
        )
    return index_put(x, nonzero(mask), value) if count else x


# --- sets --------------------------------------------------------------------------------------------------------


class UniqueAll(NamedTuple):
    """What `unique_all` finds."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What `unique_counts` finds."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What `unique_inverse` finds."""

    values: Any
    inverse_indices: Any


def _infer_unique_all(x: Spec) -> tuple[Spec, ...]:
    unknown = Spec((None,), dtypes.int64)
    return Spec((None,), x.dtype), unknown, Spec(x.shape, dtypes.int64), unknown


@op(infer=_infer_unique_all, data_dependent=True, result=UniqueAll)
def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct values in order, the first index of each, the way back, and how often each comes. NaNs are distinct."""
    flat = reshape(x, (-1,))
    order = _argsort_complex(flat) if flat.dtype.is_complex else argsort(flat)
    ordered = take(flat, order, axis=0)
    n = flat.shape[0]
    if n == 0:
        none = zeros((0,), dtype=dtypes.int64, device=x.device)
        return UniqueAll(flat, none, reshape(none, x.shape), none)
    first = concat([full((1,), True, dtype=dtypes.bool_, device=x.device), not_equal(ordered[1:], ordered[:-1])])
    starts = nonzero(first)[0]
    rank = subtract(cumulative_sum(astype(first, dtypes.int64), axis=0), 1)
    inverse = scatter_slices(zeros((n,), dtype=dtypes.int64, device=x.device), order, rank)
    counts = diff(starts, append=full((1,), n, dtype=dtypes.int64, device=x.device))
    return UniqueAll(take(ordered, starts, axis=0), take(order, starts, axis=0), reshape(inverse, x.shape), counts)


def _argsort_complex(x: Tensor) -> Tensor:
    """Order by real part, then imaginary part: two stable sorts."""
    minor = argsort(imag(x))
    return take(minor, argsort(take(real(x), minor, axis=0)), axis=0)


def _infer_unique_values(x: Spec) -> Spec:
    return Spec((None,), x.dtype)


@op(infer=_infer_unique_values, data_dependent=True)
def unique_values(x: Tensor, /) -> Tensor:
    """The distinct values in order; NaNs are distinct."""
    values: Tensor = unique_all(x).values
    return values


def _infer_unique_counts(x: Spec) -> tuple[Spec, ...]:
    return Spec((None,), x.dtype), Spec((None,), dtypes.int64)


@op(infer=_infer_unique_counts, data_dependent=True, result=UniqueCounts)
def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct values in order, and how often each comes."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def _infer_unique_inverse(x: Spec) -> tuple[Spec, ...]:
    return Spec((None,), x.dtype), Spec(x.shape, dtypes.int64)


@op(infer=_infer_unique_inverse, data_dependent=True, result=UniqueInverse)
def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct values in order, and the index of each element among them."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def _infer_isin(x1: Spec | object, x2: Spec | object, *, invert: bool) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x1, x2), ANY)
    return Inferred((Spec(rules.shape_of(x1), dtypes.bool_),), {"invert": bool(invert)}, dtype)


@op(infer=_infer_isin, vjp=DISCRETE)
def isin(x1: Operand, x2: Operand, /, *, invert: bool = False) -> Tensor:
    """Whether each element of the first is among those of the second; NaN is in nothing."""
    if isinstance(x2, (bool, int, float, complex)) or isinstance(x1, (bool, int, float, complex)):
        pairs = equal(x1, reshape(x2, (-1,))) if not isinstance(x2, (bool, int, float, complex)) else equal(x1, x2)
        found = any(pairs) if not isinstance(x2, (bool, int, float, complex)) else pairs
        return logical_not(found) if invert else found
    members = reshape(x2, (-1,))
    if members.shape[0] == 0:
        found = full(x1.shape, False, dtype=dtypes.bool_, device=x1.device)
    elif x1.dtype.is_complex or x1.dtype.is_bool:
        found = any(equal(expand_dims(x1, axis=-1), members), axis=-1)
    else:
        ordered = sort(members)
        place = minimum(searchsorted(ordered, x1), members.shape[0] - 1)
        found = equal(reshape(take(ordered, reshape(place, (-1,)), axis=0), x1.shape), x1)
    return logical_not(found) if invert else found


def _infer_bincount(x: Spec, weights: Spec | None, *, minlength: int) -> Inferred:
    rules.require(x.dtype, INTEGER)
    if x.ndim != 1 or (weights is not None and weights.shape != x.shape):
        raise ShapeError(
            f"x has shape {x.shape}{'' if weights is None else f' and weights {weights.shape}'}, but both must be 1-d and equally long."
        )
    out = dtypes.int64 if weights is None else weights.dtype
    return Inferred((Spec((None,), out),), {"minlength": rules.shape(minlength, name="minlength")[0]})


@op(infer=_infer_bincount, data_dependent=True)
def bincount(x: Tensor, /, weights: Tensor | None = None, *, minlength: int = 0) -> Tensor:
    """How often each number from 0 on comes, or the sum of its weights."""
    if x.size and int(min(x)) < 0:
        raise InvalidValueError(f"bincount: {int(min(x))} is negative, and bins start at 0.")
    n = builtins.max(minlength, int(max(x)) + 1 if x.size else 0)
    added = full(x.shape, 1, dtype=dtypes.int64, device=x.device) if weights is None else weights
    return scatter_slices(zeros((n,), dtype=added.dtype, device=x.device), astype(x, dtypes.int64), added, mode="add")


from intermodal.ops.creation import full, zeros  # families use each other; bodies look names up when they run
from intermodal.ops.elementwise import (
    add,
    clip,
    equal,
    floor_divide,
    greater_equal,
    imag,
    isnan,
    less,
    logical_and,
    logical_not,
    logical_or,
    minimum,
    multiply,
    not_equal,
    real,
    remainder,
    subtract,
    where,
)
from intermodal.ops.manipulation import astype, broadcast_to, concat, diff, expand_dims, reshape, squeeze, stack, unstack
from intermodal.ops.reduction import any, count_nonzero, cumulative_sum, max, min

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
