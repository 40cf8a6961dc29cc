"""The layer `Autodiff`: runs each op on the backend below, and records it where an operand is tracked.

A tensor is tracked if its place is one of this layer's, over the place where its values are. Untracked tensors never
come here. An elementwise op on tracked tensors takes the short way too: `_Short` gives each place a function that
calls the engine's own and makes the node. An op that has a plan is run and recorded by its `Recorder`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from intermodal import dispatch, transfer, views
from intermodal.autodiff.keeping import Keeper, origin, saved
from intermodal.autodiff.nodes import Node, Tracked, _recording, node_of, recording
from intermodal.autodiff.recorders import Recorder, one, two, unwrapping
from intermodal.autodiff.rules import Derivative, derivative
from intermodal.backend import Backend, Layer, Native
from intermodal.backend.registry import on_unregister
from intermodal.devices import DeviceLike
from intermodal.dtypes import DType
from intermodal.ops.table import TABLE, Inferred, NotDifferentiable, Op, Spec
from intermodal.places import layered, short_way, with_operators
from intermodal.plans import Plan
from intermodal.tensor import Place, Tensor

__all__ = ["Autodiff", "attached", "tracked_place"]


class Autodiff(Layer):
    """A backend whose ops are recorded, so that they can be differentiated. It works over any backend."""

    def value(self, array: Any) -> Any:
        return array.value if type(array) is Tracked else array

    def shape(self, array: Any) -> tuple[int, ...]:
        return self.inner.shape(array.value if type(array) is Tracked else array)

    def native(self, row: Op, dtype: DType) -> Native | None:
        """None sends dispatch to the row's body, whose ops are recorded one by one: the derivative of a row without a rule."""
        return None if _by_body(row) else self.inner.native(row, dtype) or _never_called

    def run(self, row: Op, place: Place, values: list[Any], inferred: Inferred) -> Any:
        """Run an op below the layer and record it."""
        if _by_body(row):
            return dispatch.decompose(row, place, values, inferred)
        below = [_below(v) for v in values]
        result = found = dispatch.run(row, place.plain, below, inferred)
        parents = [_parent(v) for v in values]
        mode = _recording.get()
        if mode is not False and any(parents):
            result = _recorded(row, values, parents, inferred.attrs, result, mode)
        if row.multiple:
            _join_parts(result, found, values, below)
        return result if row.view is None else views.join(_apart(result), values[0], (row, inferred.attrs))

    def recorder(self, plan: Plan, place: Place, values: Sequence[Any]) -> Recorder | None:
        """What runs a plan below the layer and records it."""
        if _by_body(plan.row):
            return None
        outs = [tracked_place(p) if p.dtype.is_inexact else None for p in plan.places]
        derived = derivative(plan.row, plan.attrs) if any(outs) else None
        scalars = [i for i, v in enumerate(values) if v is not None and type(v) not in (Tensor, list)]
        return Recorder(plan, derived, outs, [_spec(v) for v in values], scalars, _recorded)

    def following(self) -> AbstractContextManager[None]:
        """A view that is read where nothing is recorded still leads back."""
        return recording(True)

    def move(self, x: Tensor, device: DeviceLike, copy: bool | None) -> Tensor:
        """The tensor elsewhere; its gradient comes back the same way."""
        moved = transfer.move(_below(x), device, copy)
        parent = _parent(x)
        if parent is None or _recording.get() is False:
            return moved
        home = x.device
        derived = Derivative.of("to", lambda g: g.to(home))
        node = Node(derived, (parent,), (), None, None, None, (moved.shape,), (moved._place,))
        return Tensor(Tracked(moved._data, node), tracked_place(moved._place))


def _by_body(row: Op) -> bool:
    return row.vjp is None and row.decompose is not None


def _never_called(*_: object, **__: object) -> Any:
    raise AssertionError("the layer runs ops itself")


def _below(value: Any) -> Any:
    """An operand as the backend below knows it."""
    if type(value) is list:
        return [_below(v) for v in value]
    if type(value) is Tensor and value._place.plain is not value._place:
        return Tensor(value._data.value, value._place.plain)
    return value


def _join_parts(results: Sequence[Tensor], found: Sequence[Tensor], values: list[Any], below: list[Any]) -> None:
    """Make results that are parts of an operand, those of `split` say, views of it here as they are below."""
    families = [(x, v._share.family) for x, v in zip(values, below, strict=True) if type(v) is Tensor and v._share is not None]
    for part, share in zip(results, [f._share for f in found], strict=True):
        for x, family in families:
            if share is not None and share.family is family and len(share.steps) == 1:
                views.join(part, x, share.steps[0])


def _apart(result: Tensor) -> Tensor:
    return Tensor(result._data, result._place)


def _parent(value: Any) -> Any:
    """The node of an operand, a list of them for a list, None for what is not tracked."""
    if type(value) is Tensor:
        return node_of(value)
    if type(value) is list:
        found = [_parent(v) for v in value]
        return found if any(found) else None
    return None


def _recorded(row: Op, values: list[Any], parents: list[Any], attrs: Any, result: Any, mode: bool | Keeper) -> Any:
    """The results of an op, tracked, with the node that leads back to its operands."""
    results: Sequence[Tensor] = tuple(result) if row.multiple else (result,)
    if not any(r._place.dtype.is_inexact for r in results):
        return result
    derived = derivative(row, attrs)
    keep = derived.keep(tuple(p is not None for p in parents))
    keeper = None if mode is True or mode is False else mode
    save = saved if keeper is None else keeper.saved
    node = Node(
        derived,
        parents,
        [save(v) if i in keep.operands else None for i, v in enumerate(values)],
        None,
        [_spec(v) for v in values] if keep.specs else None,
        attrs,
        [r.shape for r in results],
        [r._place for r in results],
    )
    if keeper is not None:
        node.recipe = keeper.recipe(row, values, attrs)
        node.origin = origin() if keeper.origins else None
    node.outputs = {i: results[i]._data if keeper is None else keeper.cell(node, i, results[i]._data) for i in keep.outputs}
    tracked = attached(results, node)
    if not row.multiple:
        return tracked[0]
    return row.result(*tracked) if row.result is not None else tuple(tracked)


def attached(results: Sequence[Tensor], node: Node) -> list[Tensor]:
    """A node's results, tracked where they have a derivative."""
    return [
        Tensor(Tracked(r._data, node, i), tracked_place(r._place)) if r._place.dtype.is_inexact else r
        for i, r in enumerate(results)
    ]


def _spec(value: Any) -> Any:
    if type(value) is Tensor:
        return Spec(value.shape, value.dtype)
    return [_spec(v) for v in value] if type(value) is list else value


# --- places --------------------------------------------------------------------------------------------------------

_layers: dict[Backend, Autodiff] = {}
_places: dict[Place, Place] = {}  # grows with the places, of which there is one for each device and dtype


def tracked_place(plain: Place) -> Place:
    """The layer's place over another."""
    found = _places.get(plain)
    if found is None:
        layer = _layers.setdefault(plain.backend, Autodiff(plain.backend))
        short = _Short(plain)
        found = layered(plain, layer, lambda dtype: tracked_place(plain if dtype is plain.dtype else plain.at(dtype)), short)
        found = _places.setdefault(plain, found)  # before its operators are set: their results lie there
        with_operators(found)
    return found


def _forget(engine: str) -> None:
    for place in [p for p in _places if p.device.engine == engine]:
        _layers.pop(place.backend, None)
        del _places[place]


on_unregister(_forget)


class _Short(dict[str, "tuple[Native, Place] | None"]):
    """The short ways of a tracked place, made when they are first asked for."""

    def __init__(self, plain: Place) -> None:
        self.plain = plain

    def __missing__(self, name: str) -> tuple[Native, Place] | None:
        row = TABLE[name]
        way = short_way(row, self.plain)
        found: tuple[Native, Place] | None = None
        if way is not None and row.vjp is not None and len(row.tensor_params) <= 2:
            native, out = way
            if not out.dtype.is_inexact:
                found = unwrapping(native), out
            elif not isinstance(row.vjp, NotDifferentiable):
                make = one if len(row.tensor_params) == 1 else two
                kept = partial(_kept, name, self.plain, out)
                found = make(derivative(row), native, self.plain, out, kept), tracked_place(out)
        self[name] = found
        return found


def _kept(name: str, plain: Place, out: Place, arrays: Sequence[Any], value: Any, keeper: Keeper) -> Any:
    """A short way's result, recorded in a keeper's way, which needs tensors."""
    tracked = tracked_place(plain)
    values = [a if type(a) in plain.scalars else Tensor(a, tracked if type(a) is Tracked else plain) for a in arrays]
    return _recorded(TABLE[name], values, [_parent(v) for v in values], {}, Tensor(value, out), keeper)._data
