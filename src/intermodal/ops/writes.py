"""The derivatives of writes, `basic_put` and `scatter`: for each way of combining what is there with what is written.

A place may be written more than once by `scatter`. Of an assignment the last value stands, and it alone has a gradient;
a factor's gradient is the product of all others; equal extremes share, the element that was there among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from intermodal import dtypes
from intermodal.ops.derivatives import conj_of
from intermodal.ops.table import ByAttribute, Operand

if TYPE_CHECKING:
    from intermodal.tensor import Tensor

__all__ = ["BASIC_PUT", "SCATTER"]


def _reached(x: Operand, out: Tensor) -> Tensor:
    """1 where an operand is the extreme that came out, which NaN is too, else 0."""
    if isinstance(x, (bool, int, float, complex)):
        x = _c.full((), x, dtype=out.dtype, device=out.device)
    return _m.astype(_e.logical_or(_e.equal(x, out), _e.isnan(x)), out.dtype)


# --- a part that a basic index reaches -----------------------------------------------------------------------------


def _part(g: Tensor, key: Any) -> Tensor:
    return _s.basic_index(g, key=key)


def _without_part(g: Tensor, key: Any) -> Tensor:
    return _s.basic_put(g, 0, key=key)


def _multiplied_part(g: Tensor, value: Operand, key: Any) -> Tensor:
    return _s.basic_put(g, conj_of(value), key=key, mode="multiply")


def _basic_extreme_by_x(g: Tensor, x: Tensor, value: Operand, out: Tensor, key: Any) -> Tensor:
    part = _part(out, key)
    old, new = _reached(_part(x, key), part), _reached(value, part)
    return _s.basic_put(g, old / (old + new), key=key, mode="multiply")


def _basic_extreme_by_value(g: Tensor, x: Tensor, value: Operand, out: Tensor, key: Any) -> Tensor:
    part = _part(out, key)
    old, new = _reached(_part(x, key), part), _reached(value, part)
    return _part(g, key) * (new / (old + new))


_BASIC_EXTREME = {"x": _basic_extreme_by_x, "value": _basic_extreme_by_value}
BASIC_PUT = ByAttribute(
    "mode",
    {
        "assign": {"x": _without_part, "value": _part},
        "add": {"x": lambda g: g, "value": _part},
        "multiply": {"x": _multiplied_part, "value": lambda g, x, key: _part(g, key) * conj_of(_part(x, key))},
        "minimum": _BASIC_EXTREME,
        "maximum": _BASIC_EXTREME,
    },
)


# --- places that indices name, some perhaps more than once ---------------------------------------------------------


def _taken(g: Tensor, indices: Tensor, axis: int) -> Tensor:
    return _s.take_along_axis(g, indices, axis=axis)


def _without_places(g: Tensor, indices: Tensor, axis: int) -> Tensor:
    return _s.scatter(g, indices, 0, axis=axis)


def _multiplied_places(g: Tensor, indices: Tensor, values: Operand, axis: int) -> Tensor:
    return _s.scatter(g, indices, conj_of(values), axis=axis, mode="multiply")


def _assigned_by_values(g: Tensor, indices: Tensor, axis: int) -> Tensor:
    found = _taken(g, indices, axis)
    view = (1,) * axis + (-1,) + (1,) * (g.ndim - axis - 1)
    turn = _m.broadcast_to(_c.arange(found.shape[axis], device=g.device).reshape(view), found.shape)
    nobody = _c.zeros(g.shape, dtype=dtypes.int64, device=g.device)
    last = _taken(_s.scatter(nobody, indices, turn, axis=axis), indices, axis)
    return _e.where(_e.equal(last, turn), found, 0)


def _multiplied_by_values(g: Tensor, x: Tensor, indices: Tensor, values: Tensor, axis: int) -> Tensor:
    found = _taken(g * conj_of(x), indices, axis)
    places = _e.remainder(_m.astype(indices, dtypes.int64), max(x.shape[axis], 1))  # -1 is the last place too
    order = _s.argsort(_m.broadcast_to(places, found.shape), axis=axis)
    places = _taken(places, order, axis)
    factors = _taken(_m.broadcast_to(values, found.shape), order, axis)
    after = _before(factors.flip(axis=axis), places.flip(axis=axis), axis).flip(axis=axis)
    others = _before(factors, places, axis) * after
    return found * conj_of(_taken(others, _s.argsort(order, axis=axis), axis))


def _before(factors: Tensor, places: Tensor, axis: int) -> Tensor:
    """For each of the factors, which lie in the order of their places, the product of those before it at the same place.

    Steps of 1, 2, 4 … join products of as many factors. To divide the product of all would fail where a factor is 0.
    """
    lead = (slice(None),) * axis
    first, rest, but_last = ((*lead, s) for s in (slice(0, 1), slice(1, None), slice(None, -1)))
    together = _e.equal(places[rest], places[but_last])
    ones = _c.ones(factors[first].shape, dtype=factors.dtype, device=factors.device)
    result = _m.concat([ones, _e.where(together, factors[but_last], 1)], axis=axis)
    step = 1
    while step < result.shape[axis]:
        here, there = (*lead, slice(step, None)), (*lead, slice(None, -step))
        joined = _e.where(_e.equal(places[here], places[there]), result[there], 1) * result[here]
        result = _m.concat([result[(*lead, slice(0, step))], joined], axis=axis)
        step *= 2
    return result


def _share(x: Tensor, indices: Tensor, values: Operand, out: Tensor, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    """Which elements reached the extreme, which values did, and how many of both at each place."""
    old, new = _reached(x, out), _reached(values, _taken(out, indices, axis))
    return old, new, _s.scatter(old, indices, new, axis=axis, mode="add")


def _extreme_by_x(g: Tensor, x: Tensor, indices: Tensor, values: Operand, out: Tensor, axis: int) -> Tensor:
    old, _, count = _share(x, indices, values, out, axis)
    return g * (old / count)


def _extreme_by_values(g: Tensor, x: Tensor, indices: Tensor, values: Operand, out: Tensor, axis: int) -> Tensor:
    _, new, count = _share(x, indices, values, out, axis)
    return _taken(g / count, indices, axis) * new


_EXTREME = {"x": _extreme_by_x, "values": _extreme_by_values}
SCATTER = ByAttribute(
    "mode",
    {
        "assign": {"x": _without_places, "values": _assigned_by_values},
        "add": {"x": lambda g: g, "values": _taken},
        "multiply": {"x": _multiplied_places, "values": _multiplied_by_values},
        "minimum": _EXTREME,
        "maximum": _EXTREME,
    },
)


# Modules, not their names: searching reads this file before its own rows are written.
from intermodal.ops import creation as _c, elementwise as _e, manipulation as _m, searching as _s
