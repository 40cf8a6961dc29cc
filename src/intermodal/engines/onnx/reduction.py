"""Lowerings of reductions and running totals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from intermodal import dtypes
from intermodal.dtypes import DType
from intermodal.engines.onnx.builder import Builder, Value
from intermodal.engines.onnx.elementwise import isnan, select
from intermodal.engines.onnx.lowering import lowering

__all__ = ["reduced"]

Axes = tuple[int, ...]


def reduced(g: Builder, operator: str, x: Value, axis: Axes, keepdims: bool) -> Value:
    """A reduction over axes; over none of them the value itself."""
    if not axis:
        return x
    shape = None
    if x.shape is not None:
        shape = tuple(1 if i in axis else n for i, n in enumerate(x.shape) if keepdims or i not in axis)
    return g.op(operator, x, g.constant(np.asarray(axis)), keepdims=int(keepdims), shape=shape)


def _lines(g: Builder, x: Value, axis: Axes) -> Value:
    """The elements that a reduction takes together along one last axis."""
    rest = [a for a in range(x.ndim) if a not in axis]
    shape = None if x.shape is None else tuple(x.shape[a] for a in (*rest, *axis))
    x = g.op("Transpose", x, perm=[*rest, *axis], shape=shape)
    if len(axis) == 1:
        return x
    count = g.op("ReduceProd", g.op("Shape", x, start=len(rest)), g.constant(np.asarray([0])), keepdims=1)
    sizes = g.op("Concat", g.op("Shape", x, start=0, end=len(rest)), count, axis=0)
    return g.op("Reshape", x, sizes, allowzero=1, shape=(*(x.shape or ())[: len(rest)], f"{x.name}_count"))


def _kept(g: Builder, x: Value, axis: Axes, keepdims: bool) -> Value:
    return g.op("Unsqueeze", x, g.constant(np.asarray(axis))) if keepdims else x


# ONNX Runtime's sums and products of integers go through float64, which has too few bits, and do not wrap. Products of matrices
# and running products are exact.
@lowering
def sum_(g: Builder, x: Value, axis: Axes, dtype: DType, keepdims: bool) -> Value:
    x = g.cast(x, dtype)
    if not dtype.is_integer or not axis:
        return reduced(g, "ReduceSum", x, axis, keepdims)
    lines = _lines(g, x, axis)
    ones = g.op("Expand", g.constant(1, dtype), g.op("Shape", lines, start=-1))
    return _kept(g, g.op("MatMul", lines, ones), axis, keepdims)


@lowering
def prod(g: Builder, x: Value, axis: Axes, dtype: DType, keepdims: bool) -> Value:
    x = g.cast(x, dtype)
    if not dtype.is_integer or not axis:
        return reduced(g, "ReduceProd", x, axis, keepdims)
    lines = _lines(g, x, axis)
    running = _running(g, "CumProd", lines, lines.ndim - 1, 1, include_initial=True)
    return _kept(g, g.op("Gather", running, g.constant(-1), axis=lines.ndim - 1), axis, keepdims)


def _extreme(g: Builder, operator: str, x: Value, axis: Axes, keepdims: bool) -> Value:
    found = reduced(g, operator, x, axis, keepdims)
    if not x.dtype.is_floating or not axis:
        return found
    odd = reduced(g, "ReduceMax", g.cast(isnan(g, x), dtypes.int32), axis, keepdims)  # ONNX Runtime passes NaN over
    return select(g, g.cast(odd, dtypes.bool_), g.constant(math.nan, x.dtype), found)


@lowering
def max_(g: Builder, x: Value, axis: Axes, keepdims: bool) -> Value:
    return _extreme(g, "ReduceMax", x, axis, keepdims)


@lowering
def min_(g: Builder, x: Value, axis: Axes, keepdims: bool) -> Value:
    return _extreme(g, "ReduceMin", x, axis, keepdims)


def _count(g: Builder, held: Value, axis: Axes, keepdims: bool) -> Value:
    return reduced(g, "ReduceSum", g.cast(held, dtypes.int64), axis, keepdims)


# Counted, because ONNX Runtime's extremes refuse to say anything of no elements.
@lowering
def all_(g: Builder, x: Value, axis: Axes, keepdims: bool) -> Value:
    return g.op("Equal", _count(g, g.op("Not", g.cast(x, dtypes.bool_)), axis, keepdims), g.constant(0))


@lowering
def any_(g: Builder, x: Value, axis: Axes, keepdims: bool) -> Value:
    return g.op("Greater", _count(g, g.cast(x, dtypes.bool_), axis, keepdims), g.constant(0))


@lowering
def count_nonzero(g: Builder, x: Value, axis: Axes, keepdims: bool) -> Value:
    return _count(g, g.cast(x, dtypes.bool_), axis, keepdims)


def _running(g: Builder, operator: str, x: Value, axis: int, first: int, include_initial: bool) -> Value:
    result: Value = g.op(operator, x, g.constant(axis))
    if not include_initial:
        return result
    pads = np.zeros(2 * x.ndim, np.int64)
    pads[axis] = 1
    return g.op("Pad", result, g.constant(pads), g.constant(first, x.dtype))


@lowering
def cumulative_sum(g: Builder, x: Value, axis: int, dtype: DType, include_initial: bool) -> Value:
    return _running(g, "CumSum", g.cast(x, dtype), axis, 0, include_initial)


@lowering
def cumulative_prod(g: Builder, x: Value, axis: int, dtype: DType, include_initial: bool) -> Value:
    return _running(g, "CumProd", g.cast(x, dtype), axis, 1, include_initial)


def _scan(g: Builder, operator: str, x: Value, axis: int) -> Value:
    """The extreme so far: each element meets the one 1, 2, 4 … places before it."""
    n, step = g.sizes(x)[axis], 1
    along = g.constant(np.asarray([axis]))

    def part(v: Value, start: int, stop: int) -> Any:
        sizes = tuple(stop - start if i == axis else m for i, m in enumerate(g.sizes(x)))
        return g.op("Slice", v, g.constant(np.asarray([start])), g.constant(np.asarray([stop])), along, shape=sizes)

    while step < n:
        met = g.op(operator, part(x, 0, n - step), part(x, step, n))
        x = g.op("Concat", part(x, 0, step), met, axis=axis, shape=x.shape)
        step *= 2
    return x


@lowering
def cumulative_max(g: Builder, x: Value, axis: int) -> Value:
    return _scan(g, "Max", x, axis)


@lowering
def cumulative_min(g: Builder, x: Value, axis: int) -> Value:
    return _scan(g, "Min", x, axis)
