"""NumPy natives of creation, manipulation, reduction, searching, sorting and indexing."""

from __future__ import annotations

import math
from typing import Any, Final, Literal, cast

import numpy as np

from intermodal import dtypes
from intermodal.dtypes import DType
from intermodal.engines.numpy import memory
from intermodal.engines.numpy.natives import native
from intermodal.errors import IndexRangeError
from intermodal.ops.manipulation import check_no_copy

__all__: list[str] = []

# --- creation ----------------------------------------------------------------------------------------------------


@native
def full(shape: tuple[int, ...], fill_value: Any, dtype: DType, device: object) -> Any:
    result = memory.empty(shape, dtype.numpy)
    result[...] = fill_value
    return result


@native
def empty(shape: tuple[int, ...], dtype: DType, device: object) -> Any:
    return memory.empty(shape, dtype.numpy)


@native
def arange(start: float, stop: float, step: float, dtype: DType, device: object) -> Any:
    if all(isinstance(v, int) for v in (start, stop, step)):
        return np.asarray(np.arange(start, stop, step)).astype(dtype.numpy, copy=False)
    # NumPy adds the step up; start + i * step has the standard's length for every step and no drift.
    count = max(0, int(np.ceil((stop - start) / step)))
    return (start + np.arange(count) * step).astype(dtype.numpy)


# --- manipulation ------------------------------------------------------------------------------------------------


_FOUR_BITS: Final = (dtypes.int4.numpy, dtypes.uint4.numpy)


@native
def astype(x: Any, dtype: DType, copy: bool, device: object) -> Any:
    if x.dtype == dtype.numpy:
        return memory.aligned_copy(x) if copy else x
    with np.errstate(all="ignore"):
        if dtype.bits == 8 and dtype.is_floating:
            return _saturating(x, dtype)
        if dtype.bits == 4 and x.dtype in _FOUR_BITS:
            x = x.astype(np.int8)  # ml_dtypes does not cast between int4 and uint4
        return x.astype(dtype.numpy)


def _saturating(x: Any, dtype: DType) -> Any:
    """To float8 as the spec has it: beyond the range means the largest number, not infinity or NaN."""
    from ml_dtypes import finfo

    limit = float(finfo(dtype.numpy).max)
    wide = x.astype(np.float32)
    inside = np.clip(wide, -limit, limit)
    return np.where(np.isinf(wide) & (dtype.name == "float8_e5m2"), wide, inside).astype(dtype.numpy)


@native
def reshape(x: Any, shape: tuple[int, ...], copy: bool | None) -> Any:
    result = np.reshape(x, shape, copy=True) if copy else np.reshape(x, shape)
    check_no_copy(copy, copy is not False or np.shares_memory(x, result) or x.size == 0, "reshape")
    return result


@native
def permute_dims(x: Any, axes: tuple[int, ...]) -> Any:
    return np.transpose(x, axes)


@native
def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(x, shape)


@native
def concat(arrays: Any, axis: int | None) -> Any:
    return np.concatenate(arrays, axis=axis)


@native
def stack(arrays: Any, axis: int) -> Any:
    return np.stack(arrays, axis=axis)


@native
def flip(x: Any, axis: tuple[int, ...]) -> Any:
    return np.asarray(np.flip(x, axis))


@native
def expand_dims(x: Any, axis: tuple[int, ...]) -> Any:
    return np.expand_dims(x, axis)


@native
def squeeze(x: Any, axis: tuple[int, ...]) -> Any:
    return np.squeeze(x, axis)


@native
def repeat(x: Any, repeats: Any, axis: int | None) -> Any:
    return np.repeat(x, repeats, axis=axis)


# --- reduction ---------------------------------------------------------------------------------------------------


@native
def sum_(x: Any, axis: tuple[int, ...], dtype: DType, keepdims: bool) -> Any:
    return np.add.reduce(x, axis=axis, dtype=dtype.numpy, keepdims=keepdims, out=...)


@native
def prod(x: Any, axis: tuple[int, ...], dtype: DType, keepdims: bool) -> Any:
    return np.multiply.reduce(x, axis=axis, dtype=dtype.numpy, keepdims=keepdims, out=...)


@native
def max_(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return np.maximum.reduce(_some(x, axis), axis=axis, keepdims=keepdims, out=...)


@native
def min_(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return np.minimum.reduce(_some(x, axis), axis=axis, keepdims=keepdims, out=...)


def _some(x: Any, axis: tuple[int, ...]) -> Any:
    """The array; one of no elements gets some along the axes, for of none NumPy refuses even to find no extremes."""
    return x if x.size else np.empty(tuple(1 if i in axis else n for i, n in enumerate(x.shape)), x.dtype)


@native
def all_(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return np.asarray(np.all(x, axis=axis, keepdims=keepdims))


@native
def any_(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return np.asarray(np.any(x, axis=axis, keepdims=keepdims))


def _running(ufunc: Any, x: Any, axis: int, dtype: Any) -> Any:
    return ufunc.accumulate(x, axis=axis, dtype=dtype)


def _running_total(ufunc: Any, x: Any, axis: int, dtype: DType, include_initial: bool) -> Any:
    result = _running(ufunc, x, axis, dtype.numpy)
    if include_initial:
        start = np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), ufunc.identity, dtype.numpy)
        return np.concatenate([start, result], axis=axis)
    return result


@native
def cumulative_sum(x: Any, axis: int, dtype: DType, include_initial: bool) -> Any:
    return _running_total(np.add, x, axis, dtype, include_initial)


@native
def cumulative_prod(x: Any, axis: int, dtype: DType, include_initial: bool) -> Any:
    return _running_total(np.multiply, x, axis, dtype, include_initial)


@native
def cumulative_max(x: Any, axis: int) -> Any:
    return _running(np.maximum, x, axis, None)


@native
def cumulative_min(x: Any, axis: int) -> Any:
    return _running(np.minimum, x, axis, None)


@native
def count_nonzero(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return np.asarray(np.count_nonzero(x, axis=axis, keepdims=keepdims), np.int64)


# --- searching and sorting ---------------------------------------------------------------------------------------


@native
def argmax(x: Any, axis: int | None, keepdims: bool) -> Any:
    return np.asarray(np.argmax(x, axis=axis, keepdims=keepdims), np.int64)


@native
def argmin(x: Any, axis: int | None, keepdims: bool) -> Any:
    return np.asarray(np.argmin(x, axis=axis, keepdims=keepdims), np.int64)


@native
def sort(x: Any, axis: int, descending: bool, stable: bool) -> Any:
    result = np.sort(x, axis=axis, stable=stable)
    return np.flip(result, axis) if descending else result


@native
def argsort(x: Any, axis: int, descending: bool, stable: bool) -> Any:
    if not descending:
        return np.argsort(x, axis=axis, stable=stable)
    # Sorting the reversed axis and counting from its end turns the order and keeps equal elements in theirs.
    order = np.flip(np.argsort(np.flip(x, axis), axis=axis, stable=True), axis)
    return x.shape[axis] - 1 - order


@native
def searchsorted(x1: Any, x2: Any, sorter: Any, side: str) -> Any:
    # NumPy's own sorter is looked at only where the search comes by, and must not be of uint64.
    ordered = x1 if sorter is None else take(x1, sorter, axis=0)
    return np.asarray(np.searchsorted(ordered, x2, side=cast("Literal['left', 'right']", side)), np.int64)


@native
def nonzero(x: Any) -> Any:
    return np.nonzero(x)


# --- indexing ----------------------------------------------------------------------------------------------------

_COMBINE: Final = {"add": np.add, "multiply": np.multiply, "minimum": np.minimum, "maximum": np.maximum}


@native
def take(x: Any, indices: Any, axis: int) -> Any:
    try:
        return np.asarray(np.take(x, indices, axis=axis))
    except IndexError as error:
        raise IndexRangeError(f"take: {error}. Indices must lie in [-{x.shape[axis]}, {x.shape[axis] - 1}].") from error


@native
def take_along_axis(x: Any, indices: Any, axis: int) -> Any:
    _check_range(indices, x.shape[axis], axis, "take_along_axis")
    return np.take_along_axis(*_together(x, indices, axis), axis=axis)


def _check_range(indices: Any, n: int, axis: int, op: str) -> None:
    if indices.size and not (-n <= indices.min() and indices.max() < n):
        wrong = indices.min() if indices.min() < -n else indices.max()
        raise IndexRangeError(f"{op}: index {wrong} is out of range for axis {axis} of size {n}. It must lie in [-{n}, {n - 1}].")


def _together(x: Any, indices: Any, axis: int) -> tuple[Any, Any]:
    """Both broadcast along every axis but one."""
    rest = np.broadcast_shapes(*((*a.shape[:axis], 1, *a.shape[axis + 1 :]) for a in (x, indices)))
    return tuple(np.broadcast_to(a, (*rest[:axis], a.shape[axis], *rest[axis + 1 :])) for a in (x, indices))  # type: ignore[return-value]


@native
def basic_index(x: Any, key: Any) -> Any:
    return np.asarray(x[key])


@native
def basic_put(x: Any, value: Any, key: Any, mode: str) -> Any:
    result = memory.aligned_copy(x)
    result[key] = value if mode == "assign" else _COMBINE[mode](result[key], value)
    return result


@native
def scatter(x: Any, indices: Any, values: Any, axis: int, mode: str) -> Any:
    _check_range(indices, x.shape[axis], axis, "scatter")
    result = memory.aligned_copy(x)
    _, places = _together(x, indices, axis)
    if mode == "assign":
        np.put_along_axis(result, places, values, axis)
    else:
        # Indices into the flat array: for one index NumPy has a loop of its own, which is five times as fast.
        flat = places.astype(np.int64)
        np.add(flat, x.shape[axis], out=flat, where=flat < 0)
        flat *= math.prod(x.shape[axis + 1 :])
        for i in range(x.ndim):
            if i != axis:
                flat += np.arange(flat.shape[i]).reshape(-1, *(1,) * (x.ndim - 1 - i)) * math.prod(x.shape[i + 1 :])
        full = np.broadcast_to(np.asarray(values, result.dtype), flat.shape)
        _COMBINE[mode].at(result.reshape(-1), flat.reshape(-1), full.reshape(-1))
    return result
