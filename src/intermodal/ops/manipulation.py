"""Manipulation: ops that change shape, order or dtype and compute nothing."""

from __future__ import annotations

import builtins
import itertools
import math
from typing import TYPE_CHECKING

from intermodal import dtypes
from intermodal.dtypes import DTypeLike
from intermodal.errors import CopyRequiredError, DTypeError, InvalidValueError, ShapeError, ViewWriteError
from intermodal.ops import rules
from intermodal.ops.rules import AxisLike
from intermodal.ops.table import Inferred, Shape, Spec, op, primitive, public_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intermodal.devices import Device, DeviceLike
    from intermodal.ops.table import Operand
    from intermodal.tensor import Tensor


# How a write to a view reaches what it is a view of.


def _as_before(x: Tensor, value: Tensor, **_: object) -> Tensor:
    return reshape(value, x.shape)


def _put_permuted(x: Tensor, value: Tensor, *, axes: Sequence[int]) -> Tensor:
    return permute_dims(value, tuple(axes.index(a) for a in range(x.ndim)))


def _put_moved(x: Tensor, value: Tensor, *, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    return moveaxis(value, destination, source)


def _put_swapped(x: Tensor, value: Tensor, *, axis1: int, axis2: int) -> Tensor:
    return swapaxes(value, axis1, axis2)


def _put_flipped(x: Tensor, value: Tensor, *, axis: tuple[int, ...]) -> Tensor:
    return flip(value, axis=axis)


def _refuse_write(x: Tensor, value: Tensor, *, shape: Shape) -> Tensor:
    raise ViewWriteError(
        f"a tensor of shape {x.shape} broadcast to {shape} shows its elements more than once. Write to the original, or to a copy: im.asarray(x, copy=True)."
    )


def _infer_astype(x: Spec, *, dtype: DTypeLike, copy: bool, device: Device) -> Inferred:
    target = dtypes.as_dtype(dtype)
    if x.dtype.is_complex and not target.is_complex and not target.is_bool:
        raise DTypeError(
            f"{x.dtype} does not convert to {target}: the imaginary part would be lost. Take x.real or im.abs(x) first."
        )
    return Inferred((Spec(x.shape, target),), {"dtype": target, "copy": bool(copy), "device": device})


@primitive(infer=_infer_astype, movement=True, vjp={"x": lambda g: g})
def astype(x: Tensor, dtype: DTypeLike, /, *, copy: bool = True, device: DeviceLike | None = None) -> Tensor:
    """The tensor in another dtype. Floats become integers by truncation; small floats saturate.

    Example:
        >>> import intermodal as im
        >>> im.astype(im.asarray([1.9, -1.9]), im.int8)
        Tensor([ 1, -1], dtype=int8, device=numpy:cpu)
    """


def _infer_reshape(x: Spec, *, shape: object, copy: bool | None) -> Inferred:
    given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    sizes = [rules.integer(n, "shape") for n in given]
    unknown = [i for i, n in enumerate(sizes) if n == -1]
    known = math.prod(n for n in sizes if n != -1)
    if len(unknown) > 1 or any(n < -1 for n in sizes):
        raise ShapeError(f"shape {tuple(sizes)} is not valid. One size may be -1, the others are 0 or more.")
    if unknown:
        if known == 0 or x.size % known:
            raise ShapeError(f"a tensor of shape {x.shape} has {x.size} elements, which do not divide into {tuple(sizes)}.")
        sizes[unknown[0]] = x.size // known
    if math.prod(sizes) != x.size:
        raise ShapeError(
            f"a tensor of shape {x.shape} has {x.size} elements, shape {tuple(sizes)} needs {math.prod(sizes)}. Use -1 for a size to be computed."
        )
    if copy not in (None, True, False):
        raise InvalidValueError(f"copy must be True, False or None, not {copy!r}.")
    return Inferred((Spec(tuple(sizes), x.dtype),), {"shape": tuple(sizes), "copy": copy})


@primitive(infer=_infer_reshape, movement=True, view=_as_before, vjp={"x": lambda g, x_spec: g.reshape(x_spec.shape)})
def reshape(x: Tensor, /, shape: int | Sequence[int], *, copy: bool | None = None) -> Tensor:
    """The same elements in the same order in another shape; one size may be -1."""


def _infer_permute(x: Spec, *, axes: Sequence[int]) -> Inferred:
    order = rules.axes(tuple(axes), x.ndim, name="axes")
    if len(order) != x.ndim:
        raise ShapeError(f"axes {tuple(axes)} name {len(order)} of the {x.ndim} axes. Name each axis once.")
    return Inferred((Spec(tuple(x.shape[a] for a in order), x.dtype),), {"axes": order})


def _permute_rule(g: Tensor, axes: tuple[int, ...]) -> Tensor:
    return permute_dims(g, tuple(axes.index(a) for a in range(g.ndim)))


@primitive(infer=_infer_permute, movement=True, view=_put_permuted, vjp={"x": _permute_rule})
def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """The axes in another order."""


def _infer_broadcast_to(x: Spec, *, shape: object) -> Inferred:
    sizes = rules.shape(shape)
    if len(sizes) < x.ndim or rules.broadcast(x.shape, sizes) != sizes:
        raise ShapeError(f"a tensor of shape {x.shape} does not broadcast to {sizes}.")
    return Inferred((Spec(sizes, x.dtype),), {"shape": sizes})


@primitive(infer=_infer_broadcast_to, movement=True, view=_refuse_write, vjp={"x": lambda g: g})
def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """The tensor repeated along axes of size 1 and new leading axes until it has the shape."""


def _infer_broadcast_arrays(arrays: list[Spec]) -> tuple[Spec, ...]:
    out = rules.broadcast(*(x.shape for x in arrays))
    return tuple(Spec(out, x.dtype) for x in arrays)


@op(infer=_infer_broadcast_arrays, movement=True)
def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """All tensors broadcast to their common shape."""
    out = rules.broadcast(*(x.shape for x in arrays))
    return tuple(broadcast_to(x, out) for x in arrays)


def _joined(arrays: list[Spec], axis: int) -> Shape:
    if not arrays:
        raise InvalidValueError("there is nothing to join. Give at least one tensor.")
    first = arrays[0].shape
    for x in arrays[1:]:
        if x.ndim != len(first) or any(n != m for i, (n, m) in enumerate(zip(x.shape, first, strict=True)) if i != axis):
            raise ShapeError(f"shapes {first} and {x.shape} differ in more than axis {axis}. All other sizes must be equal.")
    return tuple(builtins.sum(x.shape[axis] for x in arrays) if i == axis else n for i, n in enumerate(first))


def _infer_concat(arrays: list[Spec], *, axis: int | None) -> Inferred:
    if axis is None:
        arrays = [Spec((x.size,), x.dtype) for x in arrays]
    elif arrays and arrays[0].ndim == 0:
        raise ShapeError("0-d tensors have no axis to join along. Use im.stack, or axis=None.")
    along = 0 if axis is None else rules.axis(axis, arrays[0].ndim if arrays else 1)
    dtype = rules.operand_dtype(*arrays) if arrays else None
    return Inferred((Spec(_joined(arrays, along), dtype),), {"axis": None if axis is None else along}, dtype)  # type: ignore[arg-type]  # _joined raises where there is none


def _concat_rule(g: Tensor, arrays_spec: list[Spec], axis: int | None) -> list[Tensor]:
    lead = (slice(None),) * (axis or 0)
    sizes = [x.size if axis is None else x.shape[axis] for x in arrays_spec]
    ends = list(itertools.accumulate(sizes))
    parts = [g[(*lead, slice(end - size, end))] for size, end in zip(sizes, ends, strict=True)]
    return parts if axis is not None else [p.reshape(x.shape) for p, x in zip(parts, arrays_spec, strict=True)]


@primitive(infer=_infer_concat, movement=True, vjp={"arrays": _concat_rule})
def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Tensors one after the other along an axis; flattened first where axis is None."""


def _infer_stack(arrays: list[Spec], *, axis: int) -> Inferred:
    if not arrays:
        raise InvalidValueError("there is nothing to stack. Give at least one tensor.")
    for x in arrays:
        if x.shape != arrays[0].shape:
            raise ShapeError(f"shapes {arrays[0].shape} and {x.shape} differ. Only equal shapes stack.")
    along = rules.axis(axis, arrays[0].ndim + 1)
    dtype = rules.operand_dtype(*arrays)
    return Inferred((Spec((*arrays[0].shape[:along], len(arrays), *arrays[0].shape[along:]), dtype),), {"axis": along}, dtype)


def _stack_rule(g: Tensor, axis: int) -> list[Tensor]:
    return list(unstack(g, axis=axis))


@op(infer=_infer_stack, movement=True, vjp={"arrays": _stack_rule})
def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Tensors side by side along a new axis."""
    return concat([expand_dims(x, axis=axis) for x in arrays], axis=axis)


def _infer_unstack(x: Spec, *, axis: int) -> Inferred:
    along = rules.axis(axis, x.ndim)
    part = Spec(x.shape[:along] + x.shape[along + 1 :], x.dtype)
    return Inferred((part,) * x.shape[along], {"axis": along})


# By the body, each slice would have a gradient of the whole tensor's size: the square of the work.
@op(infer=_infer_unstack, movement=True, vjp={"x": lambda g, axis: stack(g, axis=axis)})
def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, as a tuple."""
    along = rules.axis(axis, x.ndim)
    return tuple(x[(slice(None),) * along + (i,)] for i in range(x.shape[along]))


def _infer_split(x: Spec, *, sections: int | Sequence[int], axis: int) -> Inferred:
    along = rules.axis(axis, x.ndim)
    n = x.shape[along]
    if isinstance(sections, (tuple, list)):
        sizes = rules.shape(sections, name="sections")
        if builtins.sum(sizes) != n:
            raise ShapeError(f"sections {sizes} add up to {builtins.sum(sizes)}, but axis {along} has {n} elements.")
    else:
        parts = rules.integer(sections, "sections")
        if parts < 1 or n % parts:
            raise ShapeError(
                f"axis {along} of shape {x.shape} does not split into {parts} equal parts. Give the sizes as a tuple."
            )
        sizes = (n // parts,) * parts
    specs = tuple(Spec((*x.shape[:along], s, *x.shape[along + 1 :]), x.dtype) for s in sizes)
    return Inferred(specs, {"sections": sizes, "axis": along})


@op(infer=_infer_split, movement=True, vjp={"x": lambda g, axis: concat(g, axis=axis)})
def split(x: Tensor, /, sections: int | Sequence[int], *, axis: int = 0) -> tuple[Tensor, ...]:
    """The tensor in parts along an axis: a number of equal parts, or parts of the sizes given."""
    sizes = (x.shape[axis] // sections,) * sections if isinstance(sections, int) else tuple(sections)
    ends = itertools.accumulate(sizes)
    lead = (slice(None),) * rules.axis(axis, x.ndim)
    return tuple(x[(*lead, slice(end - size, end))] for size, end in zip(sizes, ends, strict=True))


def _infer_expand_dims(x: Spec, *, axis: AxisLike) -> Inferred:
    given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    places = rules.axes(given, x.ndim + len(given))
    rest = iter(x.shape)
    return Inferred(
        (Spec(tuple(1 if i in places else next(rest) for i in range(x.ndim + len(places))), x.dtype),), {"axis": places}
    )


@op(infer=_infer_expand_dims, movement=True, view=_as_before, vjp={"x": lambda g, x_spec: g.reshape(x_spec.shape)})
def expand_dims(x: Tensor, /, axis: int | Sequence[int] = 0) -> Tensor:
    """New axes of size 1 at the places given."""
    places = rules.axes(axis, x.ndim + (len(axis) if isinstance(axis, (tuple, list)) else 1))
    rest = iter(x.shape)
    return reshape(x, tuple(1 if i in places else next(rest) for i in range(x.ndim + len(places))))


def _infer_squeeze(x: Spec, *, axis: AxisLike) -> Inferred:
    gone = rules.axes(axis, x.ndim)
    for a in gone:
        if x.shape[a] != 1:
            raise ShapeError(f"axis {a} of shape {x.shape} has size {x.shape[a]}, only axes of size 1 can go.")
    return Inferred((Spec(tuple(n for i, n in enumerate(x.shape) if i not in gone), x.dtype),), {"axis": gone})


@op(infer=_infer_squeeze, movement=True, view=_as_before, vjp={"x": lambda g, x_spec: g.reshape(x_spec.shape)})
def squeeze(x: Tensor, /, axis: int | Sequence[int]) -> Tensor:
    """The tensor without the axes given, each of size 1."""
    gone = rules.axes(axis, x.ndim)
    return reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in gone))


def _infer_flip(x: Spec, *, axis: AxisLike) -> Inferred:
    return Inferred((x,), {"axis": rules.axes(axis, x.ndim)})


@primitive(infer=_infer_flip, movement=True, view=_put_flipped, vjp={"x": lambda g, axis: g.flip(axis=axis)})
def flip(x: Tensor, /, *, axis: AxisLike = None) -> Tensor:
    """The elements in reverse order along axes, all of them by default."""


@op(movement=True, view=_put_moved)
def moveaxis(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """Axes moved from some places to others, the rest in their order."""
    origin, target = rules.axes(source, x.ndim, name="source"), rules.axes(destination, x.ndim, name="destination")
    if len(origin) != len(target):
        raise InvalidValueError(
            f"source {source} and destination {destination} name {len(origin)} and {len(target)} axes. Name as many in both."
        )
    order = [a for a in range(x.ndim) if a not in origin]
    for place, a in sorted(zip(target, origin, strict=True)):
        order.insert(place, a)
    return permute_dims(x, tuple(order))


@op(movement=True, view=_put_swapped)
def swapaxes(x: Tensor, axis1: int, axis2: int, /) -> Tensor:
    """Two axes exchanged."""
    a, b = rules.axis(axis1, x.ndim), rules.axis(axis2, x.ndim)
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    return permute_dims(x, tuple(order))


@op(movement=True, view=_as_before)
def flatten(x: Tensor, /, *, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """Neighbouring axes joined into one."""
    if x.ndim == 0:
        return reshape(x, (1,))
    first, last = rules.axis(start_axis, x.ndim, name="start_axis"), rules.axis(end_axis, x.ndim, name="end_axis")
    return reshape(x, (*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


def _infer_roll(x: Spec, *, shift: int | Sequence[int], axis: AxisLike) -> Inferred:
    shifts = tuple(rules.integer(s, "shift") for s in (shift if isinstance(shift, (tuple, list)) else (shift,)))
    if axis is None:
        if len(shifts) != 1:
            raise InvalidValueError(f"shift {shift} needs axis to say which axes it is for.")
        return Inferred((x,), {"shift": shifts, "axis": None})
    places = rules.axes(axis, x.ndim)
    shifts = shifts if isinstance(shift, (tuple, list)) else shifts * len(places)
    if len(shifts) != len(places):
        raise InvalidValueError(f"shift {shift} and axis {axis} differ in length. Give one shift for each axis.")
    return Inferred((x,), {"shift": shifts, "axis": places})


def _roll_rule(g: Tensor, shift: tuple[int, ...], axis: tuple[int, ...] | None) -> Tensor:
    return roll(g, tuple(-s for s in shift), axis=axis)


@op(infer=_infer_roll, movement=True, vjp={"x": _roll_rule})
def roll(x: Tensor, /, shift: int | Sequence[int], *, axis: AxisLike = None) -> Tensor:
    """The elements moved along axes; what leaves at one end comes in at the other."""
    if axis is None:
        return reshape(roll(reshape(x, (-1,)), shift, axis=0), x.shape) if x.size else x
    for by, a in zip(shift, axis, strict=True):  # type: ignore[arg-type]  # the rule made tuples of them
        n = x.shape[a]
        if n and by % n:
            lead = (slice(None),) * a
            x = concat([x[(*lead, slice(n - by % n, None))], x[(*lead, slice(None, n - by % n))]], axis=a)
    return x


@op(movement=True)
def tile(x: Tensor, repetitions: Sequence[int], /) -> Tensor:
    """The whole tensor repeated along each axis."""
    times = rules.shape(repetitions, name="repetitions")
    ndim = max(x.ndim, len(times))
    times = (1,) * (ndim - len(times)) + times
    sizes = (1,) * (ndim - x.ndim) + x.shape
    spread = broadcast_to(
        reshape(x, tuple(m for n in sizes for m in (1, n))), tuple(m for r, n in zip(times, sizes, strict=True) for m in (r, n))
    )
    return reshape(spread, tuple(r * n for r, n in zip(times, sizes, strict=True)))


def _infer_repeat(x: Spec, repeats: Spec | int, *, axis: int | None) -> Inferred:
    along = None if axis is None else rules.axis(axis, x.ndim)
    n = x.size if along is None else x.shape[along]
    if isinstance(repeats, Spec):
        rules.require(repeats.dtype, rules.INTEGER, of="repeats")
        if repeats.shape not in ((), (1,), (n,)):
            raise ShapeError(
                f"repeats has shape {repeats.shape}, but there are {n} elements to repeat. Give one number for all, or one for each."
            )
        total = None
    else:
        total = n * rules.shape(repeats, name="repeats")[0]
    shape = (total,) if along is None else tuple(total if i == along else m for i, m in enumerate(x.shape))
    return Inferred((Spec(shape, x.dtype),), {"axis": along})


def _repeat_rule(g: Tensor, x_spec: Spec, repeats: Operand, axis: int | None) -> Tensor:
    shape = (x_spec.size,) if axis is None else x_spec.shape
    a = axis or 0
    if isinstance(repeats, int):
        found = sum(g.reshape((*shape[: a + 1], repeats, *shape[a + 1 :])), axis=a + 1)
    else:
        source = repeat(arange(shape[a], device=g.device), repeats, axis=0)
        found = scatter_slices(zeros(shape, dtype=g.dtype, device=g.device), source, g, axis=a, mode="add")
    return found.reshape(x_spec.shape)


@op(infer=_infer_repeat, movement=True, data_dependent=True, vjp={"x": _repeat_rule})
def repeat(x: Tensor, repeats: Operand, /, *, axis: int | None = None) -> Tensor:
    """Each element repeated, by one number for all or a number for each."""
    if axis is None:
        return repeat(reshape(x, (-1,)), repeats, axis=0)
    n = x.shape[axis]
    if isinstance(repeats, int):
        index = floor_divide(arange(n * repeats, device=x.device), max(repeats, 1))
        return take(x, index, axis=axis)
    ends = cumulative_sum(broadcast_to(reshape(repeats, (-1,)), (n,)), axis=0)  # type: ignore[arg-type]  # a scalar was an int
    total = int(ends[-1]) if n else 0
    return take(x, searchsorted(ends, arange(total, device=x.device), side="right"), axis=axis)


def _infer_pad(x: Spec, *, pad_width: object, mode: str, value: object) -> Inferred:
    rules.one_of(mode, "mode", ("constant", "reflect", "edge", "wrap"))
    widths = tuple(pad_width) if isinstance(pad_width, (tuple, list)) else ((pad_width, pad_width),) * x.ndim
    pairs = tuple(rules.shape(w if isinstance(w, (tuple, list)) else (w, w), name="pad_width") for w in widths)
    if len(pairs) != x.ndim or any(len(p) != 2 for p in pairs):
        raise ShapeError(f"pad_width {pad_width} does not fit {x.ndim} axes. Give (before, after) for each axis.")
    for (before, after), n in zip(pairs, x.shape, strict=True):
        if (mode == "reflect" and max(before, after) >= max(n, 1)) or (mode in ("edge", "wrap") and before + after and n == 0):
            raise ShapeError(f"pad_width {(before, after)} is too wide to {mode} an axis of size {n}.")
    shape = tuple(before + n + after for (before, after), n in zip(pairs, x.shape, strict=True))
    return Inferred((Spec(shape, x.dtype),), {"pad_width": pairs, "mode": mode, "value": rules.as_scalar(value, x.dtype)})  # type: ignore[arg-type]  # checked there


def _pad_rule(g: Tensor, x_spec: Spec, pad_width: tuple[tuple[int, int], ...], mode: str) -> Tensor:
    if mode == "constant":
        return g[tuple(slice(before, before + n) for (before, _), n in zip(pad_width, x_spec.shape, strict=True))]
    for a, (before, after) in enumerate(pad_width):
        if before or after:
            shape = (*g.shape[:a], x_spec.shape[a], *g.shape[a + 1 :])
            source = _pad_source(shape[a], before, after, mode, g.device)
            g = scatter_slices(zeros(shape, dtype=g.dtype, device=g.device), source, g, axis=a, mode="add")
    return g


@op(infer=_infer_pad, movement=True, vjp={"x": _pad_rule})
def pad(
    x: Tensor, /, pad_width: int | Sequence[tuple[int, int]], *, mode: str = "constant", value: bool | complex = 0.0
) -> Tensor:
    """The tensor with elements added before and after each axis.

    Args:
        x: the tensor.
        pad_width: (before, after) for each axis, or one number for all.
        mode: ``constant``, ``reflect`` (without the edge), ``edge``, or ``wrap``.
        value: the constant.
    """
    pairs = pad_width if isinstance(pad_width, (tuple, list)) else ((pad_width, pad_width),) * x.ndim
    for a, (before, after) in enumerate(pairs):
        if before or after:
            x = _pad_axis(x, a, before, after, mode, value)
    return x


def _pad_axis(x: Tensor, a: int, before: int, after: int, mode: str, value: bool | complex) -> Tensor:
    n = x.shape[a]
    if mode == "constant":
        sides = [full((*x.shape[:a], k, *x.shape[a + 1 :]), value, dtype=x.dtype, device=x.device) for k in (before, after)]
        return concat([sides[0], x, sides[1]], axis=a)
    return take(x, _pad_source(n, before, after, mode, x.device), axis=a)


def _pad_source(n: int, before: int, after: int, mode: str, device: Device) -> Tensor:
    """Which element stands at each place of a padded axis."""
    index = subtract(arange(before + n + after, device=device), before)
    if mode == "edge":
        return clip(index, 0, n - 1)
    if mode == "wrap":
        return remainder(index, n)
    return subtract(n - 1, abs(subtract(n - 1, abs(index))))


def _infer_diff(x: Spec, prepend: Spec | None, append: Spec | None, *, axis: int, n: int) -> Inferred:
    rules.require(x.dtype, rules.NUMERIC)
    along, times = rules.axis(axis, x.ndim), rules.integer(n, "n")
    if times < 0:
        raise InvalidValueError(f"n {n} must be 0 or more.")
    parts = [p for p in (prepend, x, append) if p is not None]
    joined = _joined(parts, along)
    dtype = rules.operand_dtype(*parts)
    return Inferred(
        (Spec(tuple(max(0, m - times) if i == along else m for i, m in enumerate(joined)), dtype),),
        {"axis": along, "n": times},
        dtype,
    )


@op(infer=_infer_diff)
def diff(x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """The n-th difference of neighbours along an axis."""
    parts = [p for p in (prepend, x, append) if p is not None]
    x = concat(parts, axis=axis) if len(parts) > 1 else x
    lead = (slice(None),) * rules.axis(axis, x.ndim)
    for _ in range(n):
        x = subtract(x[(*lead, slice(1, None))], x[(*lead, slice(None, -1))])
    return x


def check_no_copy(copy: bool | None, shared: bool, op: str) -> None:
    """For engines: honour ``copy=False`` where only a copy would do."""
    if copy is False and not shared:
        raise CopyRequiredError(
            f"{op}: the elements do not lie in memory so that a view would do, and copy=False forbids a copy."
        )


from intermodal.ops.creation import arange, full, zeros  # families use each other; bodies look names up when they run
from intermodal.ops.elementwise import abs, clip, floor_divide, remainder, subtract
from intermodal.ops.reduction import cumulative_sum, sum
from intermodal.ops.searching import scatter_slices, searchsorted, take

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
