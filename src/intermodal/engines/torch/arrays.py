"""PyTorch natives of creation, manipulation, reduction, searching, sorting and indexing."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from intermodal import dtypes
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.engines.torch.fourbits import from_four_bits, to_four_bits
from intermodal.engines.torch.natives import INEXACT, TORCH, as_operand, native, on, traced
from intermodal.errors import IndexRangeError
from intermodal.ops.manipulation import check_no_copy
from intermodal.ops.reduction import reduced

__all__: list[str] = []

Axes = tuple[int, ...]

# --- creation ----------------------------------------------------------------------------------------------------


@native
def full(shape: tuple[int, ...], fill_value: Any, dtype: DType, device: Device) -> Any:
    if dtype.is_floating:
        fill_value = float(dtype.numpy.type(fill_value))  # PyTorch refuses what rounds to infinity
    return torch.full(shape, fill_value, dtype=TORCH[dtype], device=on(device))


@native
def empty(shape: tuple[int, ...], dtype: DType, device: Device) -> Any:
    return torch.empty(shape, dtype=TORCH[dtype], device=on(device))


@native
def arange(start: float, stop: float, step: float, dtype: DType, device: Device) -> Any:
    if all(isinstance(v, int) for v in (start, stop, step)):
        count, wide = max(0, -((int(start) - int(stop)) // int(step))), torch.int64
        if not -(2**63) <= min(start, start + count * step) <= max(start, start + count * step) < 2**63:
            values = torch.tensor([start + i * step for i in range(count)], dtype=TORCH[dtype])  # near the end of uint64
            return values.to(on(device))
    else:
        count, wide = max(0, math.ceil((stop - start) / step)), torch.float32 if device.kind == "mps" else torch.float64
    # start + i * step has the standard's length for every step and no drift.
    return (torch.arange(count, dtype=wide, device=on(device)) * step + start).to(TORCH[dtype])


# --- manipulation ------------------------------------------------------------------------------------------------


@native
def astype(x: Any, dtype: DType, copy: bool, device: Device) -> Any:
    wanted = TORCH[dtype]
    if x.dtype is wanted:
        return x.clone(memory_format=torch.contiguous_format) if copy else x
    if dtype.bits == 8 and dtype.is_floating:
        return _saturating(x, dtype)
    if dtype.bits == 4:
        return to_four_bits(x.to(torch.float32) if x.dtype in _FLOAT8 else x, dtype)
    if x.dtype is torch.bool or wanted is not torch.bool:
        return x.to(wanted)
    return x != 0 if x.dtype not in _FLOAT8 else x.to(torch.float32) != 0


_FLOAT8: Final = (torch.float8_e4m3fn, torch.float8_e5m2)


def _saturating(x: Any, dtype: DType) -> Any:
    """To float8 as the spec has it: beyond the range means the largest number, not infinity or NaN."""
    limit = torch.finfo(TORCH[dtype]).max
    wide = x.to(torch.float32)
    inside = wide.clamp(-limit, limit)
    return torch.where(wide.isinf(), wide, inside).to(TORCH[dtype]) if dtype is dtypes.float8_e5m2 else inside.to(TORCH[dtype])


@native
def reshape(x: Any, shape: tuple[int, ...], copy: bool | None) -> Any:
    result = x.reshape(shape)
    if copy is None:
        return result
    if traced(x):
        return result.clone() if copy else x.view(shape)
    shared = result.data_ptr() == x.data_ptr()
    check_no_copy(copy, copy or shared or x.numel() == 0, "reshape")
    return result.clone() if copy and shared else result


@native
def permute_dims(x: Any, axes: Axes) -> Any:
    return x.permute(axes)


@native
def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
    return x.expand(shape)


@native
def concat(arrays: Any, axis: int | None) -> Any:
    return torch.cat([a.reshape(-1) for a in arrays]) if axis is None else torch.cat(arrays, axis)


@native
def stack(arrays: Any, axis: int) -> Any:
    return torch.stack(arrays, axis)


@native
def flip(x: Any, axis: Axes) -> Any:
    return torch.flip(_as_bits(x), axis).view(x.dtype)


@native
def expand_dims(x: Any, axis: Axes) -> Any:
    for a in sorted(axis):
        x = x.unsqueeze(a)
    return x


@native
def squeeze(x: Any, axis: Axes) -> Any:
    return x.squeeze(axis) if axis else x


@native
def repeat(x: Any, repeats: Any, axis: int | None) -> Any:
    if isinstance(repeats, torch.Tensor):
        repeats = from_four_bits(repeats).to(torch.int64)
    return torch.repeat_interleave(_as_bits(x), repeats, dim=axis).view(x.dtype)


# --- reduction ---------------------------------------------------------------------------------------------------
# PyTorch takes no axes for all of them, so they are looked at first.

_UNSIGNED: Final = (torch.uint16, torch.uint32, torch.uint64)


def _accumulator(dtype: DType) -> torch.dtype:
    """Where a total of a dtype is computed: int64 wraps as uint64 does, and has the kernels."""
    wanted: torch.dtype = TORCH[dtype]
    return torch.int64 if wanted in _UNSIGNED else wanted


@native
def sum_(x: Any, axis: Axes, dtype: DType, keepdims: bool) -> Any:
    kernel = _accumulator(dtype)
    return (x.sum(axis, keepdim=keepdims, dtype=kernel) if axis else x.to(kernel)).to(TORCH[dtype])


@native
def prod(x: Any, axis: Axes, dtype: DType, keepdims: bool) -> Any:
    result = x.to(_accumulator(dtype))
    for a in sorted(axis, reverse=True):
        result = result.prod(a, keepdim=keepdims)
    return result.to(TORCH[dtype])


def _extreme(reduce: Any, x: Any, axis: Axes, keepdims: bool) -> Any:
    if x.numel() == 0:  # the row has made sure that nothing comes out either
        return x.new_empty(reduced(tuple(x.shape), axis, keepdims))
    return reduce(x, axis, keepdim=keepdims) if axis else x


@native
def max_(x: Any, axis: Axes, keepdims: bool) -> Any:
    return _extreme(torch.amax, x, axis, keepdims)


@native
def min_(x: Any, axis: Axes, keepdims: bool) -> Any:
    return _extreme(torch.amin, x, axis, keepdims)


@native
def all_(x: Any, axis: Axes, keepdims: bool) -> Any:
    found = x if x.dtype is torch.bool else x != 0
    return found.all(axis, keepdim=keepdims) if axis else found


@native
def any_(x: Any, axis: Axes, keepdims: bool) -> Any:
    found = x if x.dtype is torch.bool else x != 0
    return found.any(axis, keepdim=keepdims) if axis else found


@native
def count_nonzero(x: Any, axis: Axes, keepdims: bool) -> Any:
    found = x if x.dtype is torch.bool else x != 0
    return found.sum(axis, keepdim=keepdims) if axis else found.to(torch.int64)


@native(only=INEXACT)
def mean(x: Any, axis: Axes, keepdims: bool) -> Any:
    return x.mean(axis, keepdim=keepdims) if axis else x


@native(only=INEXACT)
def var(x: Any, axis: Axes, keepdims: bool, correction: float) -> Any:
    count = math.prod(x.shape[a] for a in axis)
    if count > correction and axis and x.numel():
        return torch.var(x, axis, correction=correction, keepdim=keepdims)
    if not axis:
        return (x - x).abs() * (1 / (1 - correction) if correction < 1 else math.nan)
    return x.abs().sum(axis, keepdim=keepdims) * math.nan  # PyTorch would warn


def _running_total(function: Any, first: int, x: Any, axis: int, dtype: DType, include_initial: bool) -> Any:
    result = function(x, axis, dtype=_accumulator(dtype))
    if include_initial:
        start = result.new_full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), first)
        result = torch.cat([start, result], axis)
    return result.to(TORCH[dtype])


@native
def cumulative_sum(x: Any, axis: int, dtype: DType, include_initial: bool) -> Any:
    return _running_total(torch.cumsum, 0, x, axis, dtype, include_initial)


@native
def cumulative_prod(x: Any, axis: int, dtype: DType, include_initial: bool) -> Any:
    return _running_total(torch.cumprod, 1, x, axis, dtype, include_initial)


@native
def cumulative_max(x: Any, axis: int) -> Any:
    return torch.cummax(x, axis).values


@native
def cumulative_min(x: Any, axis: int) -> Any:
    return torch.cummin(x, axis).values


# --- searching and sorting ---------------------------------------------------------------------------------------


def _comparable(x: Any) -> Any:
    return x.to(torch.uint8) if x.dtype is torch.bool else x


@native
def argmax(x: Any, axis: int | None, keepdims: bool) -> Any:
    return torch.argmax(_comparable(x), axis, keepdim=keepdims)


@native
def argmin(x: Any, axis: int | None, keepdims: bool) -> Any:
    return torch.argmin(_comparable(x), axis, keepdim=keepdims)


@native
def sort(x: Any, axis: int, descending: bool, stable: bool) -> Any:
    return torch.sort(x, dim=axis, descending=descending, stable=stable).values


@native
def argsort(x: Any, axis: int, descending: bool, stable: bool) -> Any:
    return torch.argsort(x, dim=axis, descending=descending, stable=True)


@native
def searchsorted(x1: Any, x2: Any, sorter: Any, side: str) -> Any:
    wanted = as_operand(x2, x1)
    if sorter is not None:
        x1 = take(x1, sorter, 0)
    if not x1.dtype.is_floating_point:
        return torch.searchsorted(x1.contiguous(), wanted.contiguous(), right=side == "right")
    # NaN comes last, and two NaN are equals here; PyTorch's search sees neither.
    holes = x1.isnan()
    numbers = x1.shape[0] - holes.sum()
    filled = torch.where(holes, math.inf, x1).contiguous()
    found = torch.minimum(torch.searchsorted(filled, wanted.contiguous(), right=side == "right"), numbers)
    return torch.where(wanted.isnan(), x1.shape[0] if side == "right" else numbers, found)


@native
def nonzero(x: Any) -> Any:
    return torch.nonzero(x, as_tuple=True)


# --- indexing ----------------------------------------------------------------------------------------------------

_COMBINE: Final[dict[str, Any]] = {"add": torch.add, "multiply": torch.mul, "minimum": torch.minimum, "maximum": torch.maximum}
_REDUCE: Final = {"add": "sum", "multiply": "prod", "minimum": "amin", "maximum": "amax"}
_BITS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _as_bits(x: Any) -> Any:
    """The elements as integers of their size, for dtypes that PyTorch does not gather and scatter."""
    return x.view(_BITS[x.itemsize]) if x.dtype in _UNSIGNED or x.dtype in _FLOAT8 else x


def _counted(indices: Any, n: int, axis: int, op: str) -> Any:
    """Indices counted from the front; one outside raises here, for a GPU would not raise but fail from then on."""
    places = from_four_bits(indices).to(torch.int64)
    if traced(places):
        return torch.where(places < 0, places + n, places)
    if places.numel():
        low, high = (int(v) for v in torch.aminmax(places))
        if low < -n or high >= n or (low < 0 and indices.dtype is torch.uint64):
            wrong = low if low < -n else high
            raise IndexRangeError(
                f"{op}: index {wrong} is out of range for axis {axis} of size {n}. It must lie in [-{n}, {n - 1}]."
            )
        if low < 0:
            places = torch.where(places < 0, places + n, places)
    return places


@native
def take(x: Any, indices: Any, axis: int) -> Any:
    places = _counted(indices, x.shape[axis], axis, "take")
    found = torch.index_select(_as_bits(x), axis, places.reshape(-1)).view(x.dtype)
    return found if places.ndim == 1 else found.reshape((*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]))


@native
def take_along_axis(x: Any, indices: Any, axis: int) -> Any:
    places = _counted(indices, x.shape[axis], axis, "take_along_axis")
    found, places = _together(_as_bits(x), places, axis)
    return torch.gather(found, axis, places).view(x.dtype)


def _together(x: Any, indices: Any, axis: int) -> tuple[Any, Any]:
    """Both broadcast along every axis but one."""
    rest = torch.broadcast_shapes(*((*a.shape[:axis], 1, *a.shape[axis + 1 :]) for a in (x, indices)))
    first, second = (a.expand((*rest[:axis], a.shape[axis], *rest[axis + 1 :])) for a in (x, indices))
    return first, second


def _forward(shape: tuple[int, ...], key: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int]]:
    """A key without negative steps, which PyTorch does not have, and the axes of the result to turn round after it."""
    result: list[Any] = []
    turned: list[int] = []
    axis = place = 0
    for part in key:
        if isinstance(part, slice) and part.step is not None and part.step < 0:
            steps = range(*part.indices(shape[axis]))
            turned.append(place)
            part = slice(steps[-1], steps[0] + 1, -part.step) if steps else slice(0, 0)
        result.append(part)
        axis += part is not None
        place += not isinstance(part, int)
    return tuple(result), turned


@native
def basic_index(x: Any, key: tuple[Any, ...]) -> Any:
    forward, turned = _forward(x.shape, key)
    return flip(x[forward], tuple(turned)) if turned else x[forward]


@native
def basic_put(x: Any, value: Any, key: tuple[Any, ...], mode: str) -> Any:
    result = x.clone(memory_format=torch.contiguous_format)
    forward, turned = _forward(x.shape, key)
    part, value = result[forward], as_operand(value, x)
    if turned:
        value = flip(value.expand(part.shape), tuple(turned))
    part.copy_(value if mode == "assign" else _combined(part, value, mode))
    return result


def _combined(x: Any, y: Any, mode: str) -> Any:
    if x.dtype in _FLOAT8:
        return _COMBINE[mode](x.to(torch.float32), y.to(torch.float32)).to(x.dtype)
    return _COMBINE[mode](x, y)


@native
def scatter(x: Any, indices: Any, values: Any, axis: int, mode: str) -> Any:
    places = _counted(indices, x.shape[axis], axis, "scatter")
    _, places = _together(x, places, axis)
    values = as_operand(values, x).expand(places.shape)
    if mode == "assign":
        return put_last(_as_bits(x), places, _as_bits(values), axis).view(x.dtype)
    if x.dtype in _FLOAT8:
        return scatter(x.to(torch.float32), places, values.to(torch.float32), axis, mode).to(x.dtype)
    return torch.scatter_reduce(x, axis, places, values, _REDUCE[mode])


def put_last(x: Any, places: Any, values: Any, axis: int) -> Any:
    """Write values at places, the last where a place comes twice: on the host that is the order of `scatter`."""
    if x.is_cpu:
        return torch.scatter(x, axis, places, values)
    return put_last_in_any_order(x, places, values, axis)


def put_last_in_any_order(x: Any, places: Any, values: Any, axis: int) -> Any:
    """The same where `scatter` has no order: for each place the last who writes there is found first."""
    count = places.shape[axis]
    if count == 0:
        return x.clone()
    view = [1] * x.ndim
    view[axis] = count
    turn = torch.arange(count, device=x.device).reshape(view).expand(places.shape)
    nobody = torch.full(x.shape, -1, dtype=torch.int64, device=x.device)
    last = torch.scatter_reduce(nobody, axis, places, turn, "amax")
    return torch.where(last < 0, x, torch.gather(values, axis, last.clamp(min=0)))
