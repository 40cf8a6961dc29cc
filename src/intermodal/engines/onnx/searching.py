"""Lowerings of searching, sorting and indexing, and of the matrix product."""

from __future__ import annotations

import numpy as np

from intermodal import dtypes
from intermodal.engines.onnx.arrays import flat, put, shaped
from intermodal.engines.onnx.builder import Builder, Value
from intermodal.engines.onnx.elementwise import isnan, select
from intermodal.engines.onnx.lowering import lowering
from intermodal.engines.onnx.reduction import reduced
from intermodal.ops.rules import integer_range

__all__: list[str] = []


@lowering
def matmul(g: Builder, x1: Value, x2: Value) -> Value:
    return g.op("MatMul", x1, x2)


# --- extremes and order ------------------------------------------------------------------------------------------


def _extreme(g: Builder, operator: str, x: Value, axis: int | None, keepdims: bool) -> Value:
    if axis is None:
        found = _along(g, operator, flat(g, x), 0, keepdims)
        return shaped(g, found, (1,) * x.ndim) if keepdims else found
    return _along(g, operator, x, axis, keepdims)


def _along(g: Builder, operator: str, x: Value, axis: int, keepdims: bool) -> Value:
    place: Value = g.op(operator, x, axis=axis, keepdims=int(keepdims))
    if not x.dtype.is_floating:
        return place
    odd = g.cast(isnan(g, x), dtypes.int32)  # the first NaN is what NumPy finds
    first = g.op("ArgMax", odd, axis=axis, keepdims=int(keepdims))
    return select(g, g.cast(reduced(g, "ReduceMax", odd, (axis,), keepdims), dtypes.bool_), first, place)


@lowering
def argmax(g: Builder, x: Value, axis: int | None, keepdims: bool) -> Value:
    return _extreme(g, "ArgMax", x, axis, keepdims)


@lowering
def argmin(g: Builder, x: Value, axis: int | None, keepdims: bool) -> Value:
    return _extreme(g, "ArgMin", x, axis, keepdims)


def _key(g: Builder, x: Value) -> Value:
    """Integers in the order of the numbers: both zeros are one, and NaN comes last."""
    if not x.dtype.is_floating:
        return x
    x = g.cast(x, dtypes.float32) if x.dtype.bits == 16 else x
    zero = g.constant(0.0, x.dtype)
    x = select(g, g.op("Equal", x, zero), zero, x)  # a sum with 0 does it too, but ONNX Runtime takes such sums out
    integer = dtypes.int32 if x.dtype is dtypes.float32 else dtypes.int64
    bits, last = g.bitcast(x, integer), g.constant(integer_range(integer)[1], integer)
    ordered = select(g, g.op("Less", bits, g.constant(0, integer)), g.op("BitwiseXor", bits, last), bits)
    return select(g, isnan(g, x), last, ordered)


def _order(g: Builder, x: Value, axis: int, descending: bool) -> Value:
    count = g.op("Shape", x, start=axis, end=axis + 1)
    _, order = g.op_with_results(2, "TopK", _key(g, x), count, axis=axis, largest=int(descending), sorted=1)
    return Value(order.name, order.dtype, x.shape)


@lowering
def argsort(g: Builder, x: Value, axis: int, descending: bool, stable: bool) -> Value:
    return _order(g, x, axis, descending)


@lowering
def sort(g: Builder, x: Value, axis: int, descending: bool, stable: bool) -> Value:
    return g.op("GatherElements", x, _order(g, x, axis, descending), axis=axis, shape=x.shape)


@lowering
def nonzero(g: Builder, x: Value) -> tuple[Value, ...]:
    places = g.op("NonZero", g.cast(x, dtypes.bool_))
    return tuple(g.op("Gather", places, g.constant(i), axis=0) for i in range(x.ndim))


# --- gathering and scattering ------------------------------------------------------------------------------------


def _index(g: Builder, indices: Value) -> Value:
    """Indices as int64; one that is too large for it stays out of range."""
    if indices.dtype is dtypes.uint64:
        indices = g.op("Min", indices, g.constant(2**62, dtypes.uint64))
    return g.cast(indices, dtypes.int64)


@lowering
def take(g: Builder, x: Value, indices: Value, axis: int) -> Value:
    return g.op("Gather", x, _index(g, indices), axis=axis)


def _together(g: Builder, x: Value, indices: Value, axis: int) -> tuple[Value, Value]:
    """Both broadcast along every axis but one."""
    beside = [None if v.shape is None else (*v.shape[:axis], *v.shape[axis + 1 :]) for v in (x, indices)]
    if beside[0] is not None and beside[0] == beside[1]:  # names that are the same are sizes that are the same
        return x, _index(g, indices)
    sizes = [g.sizes(x), g.sizes(indices)]
    rest = np.broadcast_shapes(*((*s[:axis], 1, *s[axis + 1 :]) for s in sizes))
    both = []
    for value, s in zip((x, _index(g, indices)), sizes, strict=True):
        wanted = (*rest[:axis], s[axis], *rest[axis + 1 :])
        both.append(value if s == wanted else g.op("Expand", value, g.constant(np.asarray(wanted)), shape=wanted))
    return both[0], both[1]


@lowering
def take_along_axis(g: Builder, x: Value, indices: Value, axis: int) -> Value:
    x, places = _together(g, x, indices, axis)
    return g.op("GatherElements", x, places, axis=axis, shape=places.shape)


@lowering
def scatter(g: Builder, x: Value, indices: Value, values: Value, axis: int, mode: str) -> Value:
    _, places = _together(g, x, indices, axis)
    spread = g.op("Expand", g.cast(values, x.dtype), g.op("Shape", places), shape=places.shape)
    return put(g, x, places, spread, axis, mode)
