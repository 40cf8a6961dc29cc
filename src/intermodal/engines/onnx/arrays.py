"""Lowerings of creation and manipulation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from ml_dtypes import finfo

from intermodal import dtypes
from intermodal.dtypes import DType
from intermodal.engines.onnx.builder import Builder, NamedSize, Shape, Value, spelled
from intermodal.engines.onnx.lowering import lowering

__all__ = ["flat", "put", "scalar", "shaped"]

_LOW, _HIGH = np.iinfo(np.int64).min, np.iinfo(np.int64).max
"""Before the first and behind the last element, for a slice."""


def shaped(g: Builder, x: Value, shape: Sequence[Any]) -> Value:
    """The elements in another shape."""
    named = [i for i, n in enumerate(shape) if not isinstance(n, int)]
    if len(named) == 1 and 0 not in shape:  # what one named size is follows from the others
        sizes = g.constant(np.asarray([-1 if i in named else n for i, n in enumerate(shape)], np.int64))
        return g.op("Reshape", x, sizes, shape=spelled(shape))
    return g.op("Reshape", x, g.dims(shape), allowzero=1, shape=spelled(shape))


def flat(g: Builder, x: Value) -> Value:
    """The elements along one axis."""
    size: Shape = (f"{x.name}_size",)
    if x.shape is not None and not any(isinstance(n, str) for n in x.shape):
        size = (math.prod(g.sizes(x)),)
    return g.op("Reshape", x, g.constant(np.asarray([-1])), shape=size)


def scalar(g: Builder, size: NamedSize, dtype: DType) -> Value:
    """A named size as one number without axes."""
    return g.cast(g.op("Squeeze", g.size(size), g.constant([0]), shape=()), dtype)


# --- creation ----------------------------------------------------------------------------------------------------


@lowering
def full(g: Builder, shape: tuple[int, ...], fill_value: Any, dtype: DType) -> Value:
    if isinstance(fill_value, Value):
        return broadcast_to(g, fill_value, shape)
    number = isinstance(fill_value, (bool, int, float))
    return broadcast_to(g, g.constant(fill_value, dtype) if number else scalar(g, fill_value, dtype), shape)


@lowering
def empty(g: Builder, shape: tuple[int, ...], dtype: DType) -> Value:
    return broadcast_to(g, g.constant(0, dtype), shape)


@lowering
def arange(g: Builder, start: Any, stop: Any, step: Any, dtype: DType) -> Value:
    if not all(isinstance(v, (int, float)) for v in (start, stop, step)):
        ends = [scalar(g, v, dtypes.int64) if not isinstance(v, int) else g.constant(v) for v in (start, stop, step)]
        return g.cast(g.op("Range", *ends), dtype)
    count = max(0, math.ceil((stop - start) / step))
    places = g.op("Range", g.constant(0), g.constant(count), g.constant(1), shape=(count,))
    wide = dtypes.int64 if all(isinstance(v, int) for v in (start, stop, step)) else dtypes.float64
    return g.cast(g.op("Add", g.op("Mul", g.cast(places, wide), g.constant(step, wide)), g.constant(start, wide)), dtype)


# --- manipulation ------------------------------------------------------------------------------------------------


@lowering
def astype(g: Builder, x: Value, dtype: DType) -> Value:
    if x.dtype is dtype:
        return x
    if x.dtype.bits == 4:
        x = g.cast(x, dtypes.int8 if x.dtype is dtypes.int4 else dtypes.uint8)
    if x.dtype.bits == 8 and x.dtype.is_floating:
        x = g.cast(x, dtypes.float32)  # whose kernels know of the zero with a sign
    if dtype.bits == 4:
        return g.cast(x if x.dtype.bits == 8 and x.dtype.is_integer else g.cast(x, dtypes.int8), dtype)
    if dtype.bits == 8 and dtype.is_floating:
        return _saturated(g, g.cast(x, dtypes.float32), dtype)
    return g.cast(x, dtype)


def _saturated(g: Builder, x: Value, dtype: DType) -> Value:
    """To float8: beyond the range is the largest number; infinity stays, where there is one."""
    limit = float(finfo(dtype.numpy).max)
    inside = g.op("Min", g.op("Max", x, g.constant(-limit)), g.constant(limit))
    return g.cast(g.op("Where", g.op("IsInf", x), x, inside) if dtype is dtypes.float8_e5m2 else inside, dtype)


@lowering
def reshape(g: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    return shaped(g, x, shape)


@lowering
def permute_dims(g: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    shape = None if x.shape is None else tuple(x.shape[a] for a in axes)
    return g.op("Transpose", x, perm=list(axes), shape=shape) if axes else x


@lowering
def broadcast_to(g: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    return g.op("Expand", x, g.dims(shape), shape=shape)


@lowering
def concat(g: Builder, arrays: list[Value], axis: int | None) -> Value:
    parts = [flat(g, x) for x in arrays] if axis is None else arrays
    return g.op("Concat", *parts, axis=axis or 0)


@lowering
def stack(g: Builder, arrays: list[Value], axis: int) -> Value:
    return g.op("Concat", *(expand_dims(g, x, (axis,)) for x in arrays), axis=axis)


@lowering
def expand_dims(g: Builder, x: Value, axis: tuple[int, ...]) -> Value:
    rest = iter(x.shape or ())
    shape = tuple(1 if i in axis else next(rest) for i in range(x.ndim + len(axis)))
    return g.op("Unsqueeze", x, g.constant(np.asarray(axis)), shape=shape) if axis else x


@lowering
def squeeze(g: Builder, x: Value, axis: tuple[int, ...]) -> Value:
    shape = None if x.shape is None else tuple(n for i, n in enumerate(x.shape) if i not in axis)
    return g.op("Squeeze", x, g.constant(np.asarray(axis)), shape=shape) if axis else x


@lowering
def pad(g: Builder, x: Value, pad_width: tuple[tuple[int, int], ...], mode: str, value: Any) -> Value:
    if not any(map(any, pad_width)):
        return x
    sides = g.dims([before for before, _ in pad_width] + [after for _, after in pad_width])
    return g.op("Pad", x, sides, g.constant_like(x, value) if mode == "constant" else None, mode=mode)


@lowering
def flip(g: Builder, x: Value, axis: tuple[int, ...]) -> Value:
    if not axis:
        return x
    backwards = [g.constant(np.full(len(axis), n)) for n in (-1, _LOW, -1)]
    return g.op("Slice", x, *backwards[:2], g.constant(np.asarray(axis)), backwards[2], shape=x.shape)


@lowering
def tril(g: Builder, x: Value, k: int) -> Value:
    return _triangle(g, x, k, upper=0)


@lowering
def triu(g: Builder, x: Value, k: int) -> Value:
    return _triangle(g, x, k, upper=1)


def _triangle(g: Builder, x: Value, k: int, upper: int) -> Value:
    held = max(-(2**62), min(k, 2**62))
    return g.op("Trilu", x, g.constant(held), upper=upper)


# --- parts of regular steps --------------------------------------------------------------------------------------


@lowering
def basic_index(g: Builder, x: Value, key: Sequence[Any]) -> Value:
    parts = _spelled(key, x.ndim)
    slices = [(a, *_bounds(g, p)) for a, p in enumerate(p for p in parts if p is not None) if p != slice(None)]
    if slices:
        axes, starts, stops, steps = (g.dims(c) for c in zip(*slices, strict=True))
        x = g.op("Slice", x, starts, stops, axes, steps, shape=tuple(f"{x.name}_part{a}" for a in range(x.ndim)))
    x = squeeze(g, x, tuple(a for a, p in enumerate(p for p in parts if p is not None) if not isinstance(p, slice)))
    return expand_dims(g, x, tuple(a for a, p in enumerate(p for p in parts if p is None or isinstance(p, slice)) if p is None))


def _spelled(key: Sequence[Any], ndim: int) -> list[Any]:
    """One integer or slice for each axis, None for new ones, in place of ``...`` and of what a key leaves out."""
    parts = list(key) if ... in key else [*key, ...]
    gap = ndim - sum(p is not None and p is not ... for p in parts)
    place = parts.index(...)
    return [*parts[:place], *[slice(None)] * gap, *parts[place + 1 :]]


def _bounds(g: Builder, part: Any) -> tuple[Any, Any, Any]:
    """Start, stop and step of a slice as ONNX has them: before the beginning is the least integer."""
    if isinstance(part, int):
        return part, part + 1 if part != -1 else _HIGH, 1
    if not isinstance(part, slice):
        return part, g.op("Add", g.size(part), g.constant([1])), 1
    step = 1 if part.step is None else part.step
    start = (0 if step > 0 else _HIGH) if part.start is None else part.start
    return start, (_HIGH if step > 0 else _LOW) if part.stop is None else part.stop, step


@lowering
def basic_put(g: Builder, x: Value, value: Value, key: Sequence[Any], mode: str) -> Value:
    sizes = g.sizes(x)
    reached = np.arange(math.prod(sizes)).reshape(sizes)[tuple(key)]
    lines = g.op(
        "Reshape",
        g.op("Expand", g.cast(value, x.dtype), g.constant(np.asarray(reached.shape, np.int64))),
        g.constant(np.asarray([-1])),
    )
    places = g.constant(reached.reshape(-1))
    return shaped(g, put(g, flat(g, x), places, lines, 0, mode), sizes)


_REDUCTION: Final = {"assign": "none", "add": "add", "multiply": "mul", "minimum": "min", "maximum": "max"}


def put(g: Builder, x: Value, places: Value, values: Value, axis: int, mode: str) -> Value:
    """Values written at indices along an axis, or combined with what is there."""
    dtype = x.dtype
    if mode != "assign" and (dtype.is_bool or (dtype.bits == 16 and dtype.is_floating)):
        wide = dtypes.uint8 if dtype.is_bool else dtypes.float32
        x, values = g.cast(x, wide), g.cast(values, wide)
        if dtype.is_bool:  # as NumPy adds and multiplies them
            mode = {"add": "maximum", "multiply": "minimum"}.get(mode, mode)
    return g.cast(g.op("ScatterElements", x, places, values, axis=axis, reduction=_REDUCTION[mode], shape=x.shape), dtype)
