"""Places are made here: for a device and a dtype the one `Place`, with the engine's functions for the short way.

The short way may be taken where operands of one place give a result whose place follows from theirs alone. That is
found out by asking the row's own rule once, so no table of exceptions is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Final, NoReturn, Protocol, TypeAlias, cast

from intermodal import dtypes
from intermodal.backend import Backend, DTypeUsage, Native, check_device
from intermodal.backend.registry import on_unregister
from intermodal.devices import Device, DeviceLike, as_device
from intermodal.dtypes import DType
from intermodal.errors import IntermodalError, UnsupportedError
from intermodal.ops.rules import Elementwise
from intermodal.ops.table import TABLE, Inferred, Op, Spec
from intermodal.tensor import ARITHMETIC, COMPARISONS, UNARY, Place

__all__ = [
    "engine_place",
    "guard",
    "is_traced",
    "layered",
    "made",
    "native_of",
    "place_of",
    "short_way",
    "traced",
    "with_operators",
]

ShortWay: TypeAlias = tuple[Native, Place]
_places: dict[tuple[Device, DType], Place] = {}
_with_operators: list[Place] = []  # those of layers too
_guards: dict[str, Callable[[], object]] = {}


class Tracing(Protocol):
    """A trace under way: new tensors on its device lie at its places."""

    device: Device

    def place(self, dtype: DType) -> Place: ...


_tracing: Final[ContextVar[Tracing | None]] = ContextVar("intermodal_tracing", default=None)


@contextmanager
def traced(by: Tracing | None) -> Iterator[None]:
    """Inside the block, for this thread or task, a trace has what is new on its device; None: engines have, as ever."""
    token = _tracing.set(by)
    try:
        yield
    finally:
        _tracing.reset(token)


def is_traced(device: Device) -> bool:
    """Whether a trace has what is new on a device."""
    tracing = _tracing.get()
    return tracing is not None and tracing.device is device


def place_of(device: DeviceLike, dtype: DType) -> Place:
    """The one place of a device and a dtype; inside a trace of the device, the trace's."""
    tracing = _tracing.get()
    if tracing is not None and tracing.device is as_device(device):
        return tracing.place(dtype)
    return engine_place(device, dtype)


def engine_place(device: DeviceLike, dtype: DType) -> Place:
    """The one place of a device and a dtype where the engine computes."""
    device = as_device(device)
    found = _places.get((device, dtype))
    if found is None:
        backend = check_device(device)
        if DTypeUsage.STORAGE not in backend.dtype_usage(device, dtype):
            raise UnsupportedError(f"{device} does not store {dtype}. {backend.advice(device, dtype)}")
        found = _places.setdefault((device, dtype), made(backend, device, dtype, partial(engine_place, device)))
    return found


def _forget(engine: str) -> None:
    for key in [k for k in _places if k[0].engine == engine]:
        del _places[key]
    _with_operators[:] = [p for p in _with_operators if p.device.engine != engine]


def made(backend: Backend, device: Device, dtype: DType, at: Callable[[DType], Place]) -> Place:
    """A new place of a backend, with its way to the places of other dtypes; to be kept, for there is one of each."""
    place = Place()
    place.device, place.dtype, place.backend, place.natives, place.short = device, dtype, backend, {}, {}
    place.plain, place.at = place, at
    place.boolean = place if dtype.is_bool else at(dtypes.bool_)
    return with_operators(place)


def layered(plain: Place, backend: Backend, at: Callable[[DType], Place], short: dict[str, ShortWay | None]) -> Place:
    """The place of a layer over another place: the layer's backend, its way to other dtypes, and its short ways.

    Its operators are still to be set, by `with_operators`: their results may lie at this very place, so it must be known by then.
    """
    place = Place()
    place.device, place.dtype, place.backend, place.natives, place.short = plain.device, plain.dtype, backend, {}, short
    place.plain, place.at, place.boolean = plain, at, plain.boolean
    return place


def with_operators(place: Place) -> Place:
    """Give a place the function of each operator."""
    backend, dtype = place.backend, place.dtype
    place.scalars = _scalar_types(dtype) if backend.takes_scalars else frozenset()
    place.getitem = _refuse if backend.defers else type(backend).getitem or _refuse
    for name in (*ARITHMETIC, *COMPARISONS, *UNARY):
        way = short_way(TABLE[name], place)
        fits = way is not None and way[1] is (place.boolean if name in COMPARISONS else place)
        setattr(place, name, way[0] if way is not None and fits else _refuse)
    _with_operators.append(place)
    for name in _guards:  # read after the place is in the list: one that is added meanwhile finds it there
        _set_guard(place, name)
    return place


def guard(name: str, closed: Callable[[], object]) -> None:
    """Close the short way of an operator with two operands wherever ``closed()`` is not None, in all places, those to come too.

    From then on each use of the operator asks, which takes a tenth of a microsecond.
    """
    if name not in _guards:
        _guards[name] = closed
        for place in list(_with_operators):
            _set_guard(place, name)


def _set_guard(place: Place, name: str) -> None:
    native, closed = getattr(place, name), _guards[name]

    def guarded(x: object, y: object) -> object:
        return native(x, y) if closed() is None else _refuse()

    if native is not _refuse and not hasattr(native, "guards"):
        guarded.guards = name  # type: ignore[attr-defined]  # so that two threads do not set it twice
        setattr(place, name, guarded)


def _refuse(*_: object) -> NoReturn:
    raise UnsupportedError("this op takes the long way")  # caught by the operator, which then calls the public function


def _scalar_types(dtype: DType) -> frozenset[type]:
    if dtype.is_bool:
        return frozenset((bool,))
    return frozenset((int, float, complex)[: 1 if dtype.is_integer else 2 if dtype.is_floating else 3])


def short_way(row: Op, place: Place) -> ShortWay | None:
    """The engine's function for a row and the place of its result, if operands of this place need nothing else."""
    try:
        return place.short[row.name]
    except KeyError:
        way = place.short[row.name] = _find_short_way(row, place)
        return way


def _find_short_way(row: Op, place: Place) -> ShortWay | None:
    rule = row.infer
    if place.backend.defers or row.view is not None or not (type(rule) is Elementwise or row.name == "matmul"):
        return None
    try:
        found = cast("Callable[..., Inferred]", rule)(*(Spec((1, 1), place.dtype),) * len(row.tensor_params))
        native = native_of(row, place)
    except IntermodalError:
        return None
    if native is None or found.operands is not place.dtype:
        return None
    out = found.outputs[0].dtype
    return native, place if out is place.dtype else engine_place(place.device, out)


def native_of(row: Op, place: Place) -> Native | None:
    """The backend's function for a row at a place, remembered there; None where the decomposition serves."""
    try:
        return place.natives[row.name]
    except KeyError:
        pass
    if not row.movement and DTypeUsage.ARITHMETIC not in place.backend.dtype_usage(place.device, place.dtype):
        raise UnsupportedError(
            f"{row.name}: {place.device} only stores {place.dtype}, it does not compute with it. Cast first, for example with im.astype(x, im.float32)."
        )
    native = place.natives[row.name] = place.backend.native(row, place.dtype)
    return native


on_unregister(_forget)
