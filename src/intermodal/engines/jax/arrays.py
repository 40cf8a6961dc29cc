"""JAX natives of creation, manipulation, reduction, searching, sorting and indexing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.engines.jax import memory
from intermodal.engines.jax.natives import NARROW, compiled, index_dtype, native, quotient, static, traced, wide
from intermodal.engines.numpy import memory as host_memory
from intermodal.errors import IndexRangeError
from intermodal.ops.manipulation import check_no_copy

__all__ = ["getitem"]

Shape = tuple[int, ...]

# --- creation ----------------------------------------------------------------------------------------------------
# On the CPU host memory is the device's: filling it takes 40 µs and no compilation, which each new shape would cost 30 ms.


@native
def full(shape: Shape, fill_value: Any, dtype: DType, device: Device) -> Any:
    if device.kind != "cpu":
        return jnp.full(shape, fill_value, dtype.numpy, device=memory.devices()[device])
    host = host_memory.empty(shape, dtype.numpy)
    host[...] = fill_value
    return memory.enter(host, device)


def _entered(values: Any, dtype: DType, device: Device) -> Any:
    with np.errstate(all="ignore"):
        return memory.enter(host_memory.aligned_copy(np.asarray(values).astype(dtype.numpy, copy=False)), device)


@native
def arange(start: float, stop: float, step: float, dtype: DType, device: Device) -> Any:
    # On the host the steps are exact in 64 bits, whatever JAX has in this process.
    if all(isinstance(v, int) for v in (start, stop, step)):
        return _entered(np.arange(start, stop, step), dtype, device)
    count = max(0, int(np.ceil((stop - start) / step)))
    return _entered(start + np.arange(count) * step, dtype, device)


@native
def linspace(start: complex, stop: complex, num: int, dtype: DType, endpoint: bool, device: Device) -> Any:
    weight = np.arange(num) / max(num - 1 if endpoint else num, 1)
    values = (1 - weight) * start + weight * stop  # both ends are weighted, so the last number is exactly `stop`
    return _entered(values if dtype.is_inexact else np.floor(values), dtype, device)


@native
def eye(n_rows: int, n_cols: int, k: int, dtype: DType, device: Device) -> Any:
    return _entered(np.eye(n_rows, n_cols, k, bool), dtype, device)


@compiled
def tril(x: Any, k: int) -> Any:
    return jnp.tril(x, k)


@compiled
def triu(x: Any, k: int) -> Any:
    return jnp.triu(x, k)


# --- manipulation ------------------------------------------------------------------------------------------------


@native
def astype(x: Any, dtype: DType, copy: bool, device: object) -> Any:
    if x.dtype == dtype.numpy:
        return jnp.array(x, copy=True) if copy else x  # the array may lie in memory that somebody else writes to
    return _cast(x, dtype=dtype)


@static("dtype")
def _cast(x: Any, dtype: DType) -> Any:
    if dtype.bits == 8 and dtype.is_floating:  # as the spec has it: beyond the range means the largest number
        limit = float(ml_dtypes.finfo(dtype.numpy).max)
        single = x.astype(jnp.float32)
        inside = jnp.clip(single, -limit, limit)
        return jnp.where(jnp.isinf(single) & (dtype.name == "float8_e5m2"), single, inside).astype(dtype.numpy)
    if dtype.is_bool:
        return x != jnp.zeros((), x.dtype)
    return x.astype(dtype.numpy)


@native
def reshape(x: Any, shape: Shape, copy: bool | None) -> Any:
    if x.shape == shape and not copy:
        return x
    check_no_copy(copy, False, "reshape")
    return _reshape(x, shape=shape)


@static("shape")
def _reshape(x: Any, shape: Shape) -> Any:
    return jnp.reshape(x, shape)


@compiled
def permute_dims(x: Any, axes: Shape) -> Any:
    return jnp.transpose(x, axes)


@compiled
def broadcast_to(x: Any, shape: Shape) -> Any:
    return jnp.broadcast_to(x, shape)


@compiled
def concat(arrays: Any, axis: int | None) -> Any:
    return jnp.concatenate(arrays, axis=axis)


@compiled
def stack(arrays: Any, axis: int) -> Any:
    return jnp.stack(arrays, axis=axis)


@compiled
def flip(x: Any, axis: Shape) -> Any:
    return jax.lax.rev(x, axis)


@compiled
def expand_dims(x: Any, axis: Shape) -> Any:
    return jnp.expand_dims(x, axis)


@compiled
def squeeze(x: Any, axis: Shape) -> Any:
    return jnp.squeeze(x, axis)


@native
def repeat(x: Any, repeats: Any, axis: int | None) -> Any:
    if axis is None:
        x, axis = _reshape(x, shape=(x.size,)), 0
    index = np.repeat(
        np.arange(x.shape[axis]), repeats if isinstance(repeats, int) else memory.read(repeats)
    )  # how many there are is known on the host only
    return _take(x, index.astype(index_dtype()), axis=axis)


@compiled
def pad(x: Any, pad_width: Any, mode: str, value: Any) -> Any:
    if mode == "constant":
        return jax.lax.pad(x, jnp.asarray(value, x.dtype), [(before, after, 0) for before, after in pad_width])
    for axis, ((before, after), n) in enumerate(zip(pad_width, x.shape, strict=True)):
        if before or after:
            index = np.arange(-before, n + after)
            index = {"edge": np.clip(index, 0, n - 1), "wrap": index % n, "reflect": n - 1 - abs(n - 1 - abs(index))}[mode]
            x = jnp.take(x, index, axis=axis, mode="clip")
    return x


# --- reduction ---------------------------------------------------------------------------------------------------


@compiled
def sum_(x: Any, axis: Shape, dtype: DType, keepdims: bool) -> Any:
    return _total(jnp.sum, x, axis, dtype, keepdims)


@compiled
def prod(x: Any, axis: Shape, dtype: DType, keepdims: bool) -> Any:
    return _total(jnp.prod, x, axis, dtype, keepdims)


def _total(function: Callable[..., Any], x: Any, axis: Shape, dtype: DType, keepdims: bool) -> Any:
    kind = jnp.float32 if dtype.numpy in NARROW else dtype.numpy
    return function(x.astype(kind), axis=axis, dtype=kind, keepdims=keepdims).astype(dtype.numpy)


@compiled
def max_(x: Any, axis: Shape, keepdims: bool) -> Any:
    return jnp.max(_some(x, axis), axis=axis, keepdims=keepdims)


@compiled
def min_(x: Any, axis: Shape, keepdims: bool) -> Any:
    return jnp.min(_some(x, axis), axis=axis, keepdims=keepdims)


def _some(x: Any, axis: Shape) -> Any:
    """The array; one of no elements gets some along the axes, for of none JAX refuses even to find no extremes."""
    return x if x.size else jnp.zeros(tuple(1 if i in axis else n for i, n in enumerate(x.shape)), x.dtype)


@compiled
def all_(x: Any, axis: Shape, keepdims: bool) -> Any:
    return jnp.all(x != 0, axis=axis, keepdims=keepdims)  # of a complex number jnp.all looks at the real part alone


@compiled
def any_(x: Any, axis: Shape, keepdims: bool) -> Any:
    return jnp.any(x != 0, axis=axis, keepdims=keepdims)


@compiled
@wide
def mean(x: Any, axis: Shape, keepdims: bool) -> Any:
    return _mean(x, axis, keepdims)


@compiled
@wide
def var(x: Any, axis: Shape, correction: float, keepdims: bool) -> Any:
    return _variance(x, axis, correction, keepdims)


@compiled
@wide
def std(x: Any, axis: Shape, correction: float, keepdims: bool) -> Any:
    return jnp.sqrt(_variance(x, axis, correction, keepdims))


def _mean(x: Any, axis: Shape, keepdims: bool) -> Any:
    return quotient(jnp.sum(x, axis=axis, keepdims=keepdims), float(math.prod(x.shape[a] for a in axis) or math.nan))


def _variance(x: Any, axis: Shape, correction: float, keepdims: bool) -> Any:
    count = math.prod(x.shape[a] for a in axis) - correction
    total = jnp.sum(jnp.square(jnp.abs(x - _mean(x, axis, True))), axis=axis, keepdims=keepdims)
    return quotient(total, float(count) if count > 0 else math.nan)


@compiled
def count_nonzero(x: Any, axis: Shape, keepdims: bool) -> Any:
    return jnp.sum(x != jnp.zeros((), x.dtype), axis=axis, keepdims=keepdims, dtype=jnp.int64)


def _running(function: Callable[..., Any], x: Any, axis: int, dtype: DType, include_initial: bool, first: int) -> Any:
    result = wide(function)(x.astype(dtype.numpy), axis=axis)
    start = jnp.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), first, dtype.numpy)
    return jnp.concatenate([start, result], axis=axis) if include_initial else result


@compiled
def cumulative_sum(x: Any, axis: int, dtype: DType, include_initial: bool) -> Any:
    return _running(jax.lax.cumsum, x, axis, dtype, include_initial, 0)


@compiled
def cumulative_prod(x: Any, axis: int, dtype: DType, include_initial: bool) -> Any:
    return _running(jax.lax.cumprod, x, axis, dtype, include_initial, 1)


@compiled
def cumulative_max(x: Any, axis: int) -> Any:
    return jax.lax.associative_scan(jnp.maximum, x, axis=axis)


@compiled
def cumulative_min(x: Any, axis: int) -> Any:
    return jax.lax.associative_scan(jnp.minimum, x, axis=axis)


# --- searching and sorting ---------------------------------------------------------------------------------------


@compiled
def argmax(x: Any, axis: int | None, keepdims: bool) -> Any:
    return jnp.argmax(x, axis=axis, keepdims=keepdims).astype(jnp.int64)


@compiled
def argmin(x: Any, axis: int | None, keepdims: bool) -> Any:
    return jnp.argmin(x, axis=axis, keepdims=keepdims).astype(jnp.int64)


@compiled
def sort(x: Any, axis: int, descending: bool, stable: bool) -> Any:
    result = jnp.sort(x, axis=axis, stable=stable)
    return jnp.flip(result, axis) if descending else result


@compiled
def argsort(x: Any, axis: int, descending: bool, stable: bool) -> Any:
    if not descending:
        return jnp.argsort(x, axis=axis, stable=stable).astype(jnp.int64)
    # Sorting the reversed axis and counting from its end turns the order and keeps equal elements in theirs.
    order = jnp.flip(jnp.argsort(jnp.flip(x, axis), axis=axis, stable=True), axis)
    return (x.shape[axis] - 1 - order).astype(jnp.int64)


@native
def searchsorted(x1: Any, x2: Any, sorter: Any, side: str) -> Any:
    return _searchsorted(x1 if sorter is None else take(x1, sorter, 0), x2, side=side)


@static("side")
def _searchsorted(x1: Any, x2: Any, side: str) -> Any:
    return jnp.searchsorted(x1, x2, side=side).astype(jnp.int64)


@native
def nonzero(x: Any) -> Any:
    # How many there are is known on the host only, and a compiled search would be another for every number.
    (device,) = x.devices()
    return tuple(jax.device_put(host_memory.aligned_copy(found), device) for found in np.nonzero(memory.read(x)))


# --- gathering ---------------------------------------------------------------------------------------------------
# JAX moves an index that lies outside to the nearest element; it is looked at on the host first, which waits for it.


def _check_range(indices: Any, n: int, axis: int, op: str) -> None:
    if traced(indices):
        return
    host = memory.read(indices)
    if host.size and not (-n <= host.min() and host.max() < n):
        wrong = host.min() if host.min() < -n else host.max()
        raise IndexRangeError(f"{op}: index {wrong} is out of range for axis {axis} of size {n}. It must lie in [-{n}, {n - 1}].")


def _from_front(indices: Any, n: int) -> Any:
    """Indices counted from the front, in a dtype that holds them all."""
    index = indices.astype(index_dtype())
    return jnp.where(index < 0, index + n, index)


@native
def take(x: Any, indices: Any, axis: int) -> Any:
    _check_range(indices, x.shape[axis], axis, "take")
    return _take(x, indices, axis=axis)


@static("axis")
def _take(x: Any, indices: Any, axis: int) -> Any:
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if 0 in shape:
        return jnp.zeros(shape, x.dtype)
    return jnp.take(x, _from_front(indices, x.shape[axis]), axis=axis, mode="clip")


@native
def take_along_axis(x: Any, indices: Any, axis: int) -> Any:
    _check_range(indices, x.shape[axis], axis, "take_along_axis")
    return _take_along(x, indices, axis=axis)


@static("axis")
def _take_along(x: Any, indices: Any, axis: int) -> Any:
    rest = jnp.broadcast_shapes(*((*a.shape[:axis], 1, *a.shape[axis + 1 :]) for a in (x, indices)))
    x, indices = (jnp.broadcast_to(a, (*rest[:axis], a.shape[axis], *rest[axis + 1 :])) for a in (x, indices))
    if indices.size == 0:
        return jnp.zeros(indices.shape, x.dtype)
    return jnp.take_along_axis(x, _from_front(indices, x.shape[axis]), axis=axis, mode="clip")


@native
def index(x: Any, indices: Sequence[Any]) -> Any:
    for axis, one in enumerate(indices):
        _check_range(one, x.shape[axis], axis, "index")
    return _index(x, tuple(indices))


@static()
def _index(x: Any, indices: tuple[Any, ...]) -> Any:
    where = jnp.broadcast_arrays(*(_from_front(one, n) for one, n in zip(indices, x.shape, strict=False)))
    shape = (*where[0].shape, *x.shape[len(indices) :])
    return x.at[tuple(where)].get(mode="clip") if 0 not in shape else jnp.zeros(shape, x.dtype)


# --- a part of regular steps -------------------------------------------------------------------------------------
# Where a part starts is an operand of the compiled function, how large it is belongs to it: x[0], x[1], … are one.


def _read(key: tuple[Any, ...], shape: Shape) -> tuple[Any, tuple[tuple[int, int], ...], Shape]:
    """Where the part starts along each axis, its count and step along each, and the shape that comes out."""
    starts: list[int] = []
    parts: list[tuple[int, int]] = []
    result: list[int] = []
    gap = len(shape) - sum(p is not None and p is not ... for p in key)
    dots = sum(p is ... for p in key)
    if gap < 0 or dots > 1:
        raise IndexError(f"{key} for {len(shape)} axes")
    if not dots:
        key = (*key, ...)
    for part in key:
        if part is None:
            result.append(1)
        elif part is ...:
            for n in shape[len(parts) : len(parts) + gap]:
                starts.append(0)
                parts.append((n, 1))
                result.append(n)
        else:
            n = shape[len(parts)]
            if isinstance(part, slice):
                first, last, step = part.indices(n)
                count = len(range(first, last, step))
                starts.append(first if step > 0 or not count else first + (count - 1) * step)
                result.append(count)
            else:
                if not -n <= part < n:
                    raise IndexError(f"{part} for an axis of {n}")
                starts.append(part % n)
                count, step = 1, 1
            parts.append((count, step))
    return np.asarray(starts, np.int32), tuple(parts), tuple(result)


def getitem(x: Any, key: Any) -> Any:
    """``x[key]`` for integers, slices, None and ..., in a quarter of the time of JAX's own."""
    starts, parts, shape = _read(key if type(key) is tuple else (key,), x.shape)
    return _part(x, starts, parts=parts, shape=shape)


@native
def basic_index(x: Any, key: Any) -> Any:
    return getitem(x, key)


def _window(x: Any, starts: Any, parts: tuple[tuple[int, int], ...]) -> tuple[Any, list[Any]]:
    """The elements from a part's first to its last, and where they start."""
    first = [starts[a] for a in range(x.ndim)]
    sizes = [(count - 1) * abs(step) + 1 for count, step in parts]
    return jax.lax.dynamic_slice(x, first, sizes) if x.ndim else x, first


def _turned(x: Any, parts: tuple[tuple[int, int], ...]) -> Any:
    """The axes along which the step is negative, in reverse."""
    return jax.lax.rev(x, [a for a, (_, step) in enumerate(parts) if step < 0])


@static("parts", "shape")
def _part(x: Any, starts: Any, parts: tuple[tuple[int, int], ...], shape: Shape) -> Any:
    if 0 in shape:
        return jnp.zeros(shape, x.dtype)
    window, _ = _window(x, starts, parts)
    strided = jax.lax.slice(window, [0] * x.ndim, window.shape, [abs(step) for _, step in parts])
    return _turned(strided, parts).reshape(shape)


@native
def basic_put(x: Any, value: Any, key: Any, mode: str) -> Any:
    starts, parts, shape = _read(key, x.shape)
    return _put_part(x, value, starts, parts=parts, shape=shape, mode=mode)


@static("parts", "shape", "mode")
def _put_part(x: Any, value: Any, starts: Any, parts: tuple[tuple[int, int], ...], shape: Shape, mode: str) -> Any:
    if 0 in shape:
        return x
    counts, gaps = [count for count, _ in parts], [abs(step) - 1 for _, step in parts]
    new = _turned(jnp.broadcast_to(jnp.asarray(value, x.dtype), shape).reshape(counts), parts)
    window, first = _window(x, starts, parts)
    if mode != "assign":
        there = jax.lax.slice(window, [0] * x.ndim, window.shape, [gap + 1 for gap in gaps])
        new = _COMBINE[mode](there, new)
    if any(gaps):  # elements between those that are reached stay
        spread = [(0, 0, gap) for gap in gaps]
        reached = jax.lax.pad(jnp.ones(counts, bool), False, spread)
        new = jnp.where(reached, jax.lax.pad(new, jnp.zeros((), x.dtype), spread), window)
    return jax.lax.dynamic_update_slice(x, new, first) if x.ndim else new


# --- scattering --------------------------------------------------------------------------------------------------

_COMBINE: Final = {"add": jnp.add, "multiply": jnp.multiply, "minimum": jnp.minimum, "maximum": jnp.maximum}


@native
def scatter(x: Any, indices: Any, values: Any, axis: int, mode: str) -> Any:
    _check_range(indices, x.shape[axis], axis, "scatter")
    return _put_along(x, indices, values, axis=axis, mode=mode)


@static("axis", "mode")
def _put_along(x: Any, indices: Any, values: Any, axis: int, mode: str) -> Any:
    shape = (*x.shape[:axis], indices.shape[axis], *x.shape[axis + 1 :])
    grid = list(jnp.indices(shape, index_dtype(), sparse=True))
    grid[axis] = _from_front(indices, x.shape[axis])
    return _scattered(x, grid, jnp.broadcast_to(jnp.asarray(values, x.dtype), shape), mode)


@native
def index_put(x: Any, indices: Sequence[Any], value: Any, mode: str) -> Any:
    for axis, one in enumerate(indices):
        _check_range(one, x.shape[axis], axis, "index_put")
    return _index_put(x, tuple(indices), value, mode=mode)


@static("mode")
def _index_put(x: Any, indices: tuple[Any, ...], value: Any, mode: str) -> Any:
    where = [_from_front(one, n) for one, n in zip(indices, x.shape, strict=False)]
    shape = (*jnp.broadcast_shapes(*(one.shape for one in where)), *x.shape[len(where) :])
    return _scattered(x, where, jnp.broadcast_to(jnp.asarray(value, x.dtype), shape), mode)


def _scattered(x: Any, where: Sequence[Any], values: Any, mode: str) -> Any:
    """Slices written at indices of the leading axes, which are in range."""
    count = len(where)
    if values.size == 0 or x.size == 0:
        return x
    places: Any = 0
    for n, one in zip(x.shape, where, strict=False):
        places = places * n + one
    places = jnp.broadcast_to(places, values.shape[: values.ndim - (x.ndim - count)]).reshape(-1)
    flat = x.reshape(-1, *x.shape[count:])
    values = values.reshape(-1, *x.shape[count:])
    if x.dtype == bool:  # as NumPy adds and multiplies them
        mode = {"add": "maximum", "multiply": "minimum"}.get(mode, mode)
    if mode == "assign":
        # XLA leaves open which of several values for one place stays. The last does: the others are sent past the end.
        order = jnp.arange(places.size, dtype=index_dtype())
        last = jnp.zeros(flat.shape[0], index_dtype()).at[places].max(order)
        places = jnp.where(last[places] == order, places, flat.shape[0])
        return flat.at[places].set(values, mode="drop").reshape(x.shape)
    scatter = {"add": "add", "multiply": "multiply", "minimum": "min", "maximum": "max"}[mode]
    return getattr(flat.at[places], scatter)(values, mode="promise_in_bounds").reshape(x.shape)
