"""Plans: what a call of the long way came to, kept for the next call whose operands have the same places and shapes.

Such a call needs no binding to dtypes, no rule and no search for the engine's function: it runs what the plan says. A plan
is made when a call comes for the second time and nothing in it had to be cast or moved; the setting ``infer_cache`` says how
many are kept. Errors never have one, so they are found and worded on the long way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from intermodal import config, views
from intermodal.backend import Layer
from intermodal.backend.registry import on_unregister
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.ops import rules
from intermodal.ops.table import Inferred, Op
from intermodal.places import native_of
from intermodal.tensor import Place, Tensor

__all__ = ["PLANS", "Plan", "keep", "key_of", "make", "plain_key"]

PLANS: Final[dict[tuple[object, ...], Plan]] = {}
_PLAIN: Final = frozenset((str, type(None), DType, Device))
_NUMBERS: Final = frozenset((int, bool))
_SCALARS: Final = frozenset((bool, int, float, complex))
_INT: Final = frozenset((int,))


class Plan:
    """How a call is run: the engine's function, its attributes in normal form, the results' specs and places."""

    __slots__ = ("attrs", "backend", "native", "outputs", "places", "recorder", "row", "scalars", "step")

    def __init__(self, row: Op, backend: Any, native: Any, inferred: Inferred, places: tuple[Place, ...]) -> None:
        self.row: Op = row
        self.backend: Any = backend
        self.native: Any = native
        self.outputs: Any = inferred.outputs
        self.attrs: Any = inferred.attrs
        self.places: tuple[Place, ...] = places
        self.scalars: tuple[tuple[int, DType], ...] = ()  # which operands are scalars to be brought to a dtype's kind
        self.recorder: Any = None  # where the place is a layer's: what runs the plan there
        self.step: Any = None if row.view is None else (row, inferred.attrs)  # by which a view follows its source

    def run(self, given: Sequence[Any], arrays: list[Any]) -> Any:
        """The result for operands, of which the engine's arrays are given too."""
        for i, dtype in self.scalars:
            arrays[i] = rules.as_scalar(arrays[i], dtype)
        if self.recorder is not None:
            return self.recorder.run(given, arrays)
        return self.wrap(given, self.compute(arrays))

    def compute(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """The engine's results."""
        return cast("Sequence[Any]", self.backend.execute(self.row, arrays, self.attrs, self.outputs, self.native))

    def wrap(self, given: Sequence[Any], found: Sequence[Any]) -> Any:
        """The engine's results as the op's."""
        row = self.row
        if not row.multiple:
            result = Tensor(found[0], self.places[0])
            return result if self.step is None else views.join(result, given[0], self.step)
        wrapped = tuple([Tensor(r, p) for r, p in zip(found, self.places, strict=True)])
        return row.result(*wrapped) if row.result is not None else wrapped


def key_of(row: Op, given: Sequence[Any], attrs: Mapping[str, object], arrays: list[Any]) -> tuple[object, ...] | None:
    """What a plan depends on, None where none is kept; the operands' arrays are put into the list."""
    if row.data_dependent or row.takes_seed or not given:
        return None
    key: list[object] = [row]
    for value in given:
        kind = type(value)
        if kind is Tensor:
            arrays.append(_add(key, value))
        elif value is None:
            key.append(None)
            arrays.append(None)
        elif kind in _SCALARS:
            key.append(kind)
            if kind in _NUMBERS:
                key.append(value)  # that of a float or complex number changes no shape and no dtype
            arrays.append(value)
        elif kind is list or kind is tuple:
            key.append(len(value))
            members = []
            for member in value:
                if type(member) is not Tensor:
                    return None
                members.append(_add(key, member))
            arrays.append(members)
        else:
            return None
    return tuple(key) if plain_key(attrs, key) else None


def _add(key: list[object], x: Tensor) -> Any:
    """A tensor's part of the key, and its array."""
    if x._share is not None:
        views.settle(x)
    place, array = x._spot, x._raw
    key.append(place)
    key.append(place.backend.shape(array))
    return array


def plain_key(attrs: Mapping[str, object], key: list[object]) -> bool:
    """Add attributes to a key; False where one is of a kind that is not kept. Types are part of it, for 1, 1.0 and True are equal."""
    for value in attrs.values():
        kind = type(value)
        if kind in _PLAIN:
            key.append(value)
        elif kind in _NUMBERS:
            key.append(kind)
            key.append(value)
        elif kind is float:
            key.append(float)
            key.append(value if value else str(value))  # -0.0 equals 0.0
        elif kind is tuple and set(map(type, cast("tuple[object, ...]", value))) <= _INT:
            key.append(value)
        else:
            return False
    return True


def make(row: Op, place: Place, values: Sequence[Any], inferred: Inferred) -> Plan | None:
    """The plan of a call with checked operands; None where each such call is to be looked at."""
    plain, operands = place.plain, inferred.operands
    backend = plain.backend
    if backend.defers:
        return None
    native = native_of(row, plain)
    scalars = [(i, v) for i, v in enumerate(values) if type(v) in _SCALARS]
    if native is None or (scalars and not backend.takes_scalars):
        return None
    places = tuple([plain if s.dtype is plain.dtype else plain.at(s.dtype) for s in inferred.outputs])
    plan = Plan(row, backend, native, inferred, places)
    if operands is not None:
        dtypes = operands if isinstance(operands, tuple) else (operands,) * len(values)
        plan.scalars = tuple([(i, d) for i, _ in scalars if (d := dtypes[i]) is not None])
    if place is not plain:
        plan.recorder = cast("Layer", place.backend).recorder(plan, place, values)
        if plan.recorder is None:
            return None
    return plan


def keep(cache: dict[tuple[object, ...], Any], key: tuple[object, ...], found: object) -> None:
    """Keep an answer, up to the setting ``infer_cache``."""
    limit = config.infer_cache.get()
    while len(cache) >= max(limit, 1):
        cache.pop(next(iter(cache), ()), None)  # the oldest goes; another thread may have been faster
    if limit:
        cache[key] = found


on_unregister(lambda _: PLANS.clear())  # which hold places
