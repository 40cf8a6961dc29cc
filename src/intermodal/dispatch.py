"""The one entry point: every public function's call comes here and goes to the backend of its device.

A call is bound to the row's signature, its tensors are checked to share a device, `infer` checks shapes and dtypes
and says what comes out, operands are brought to one dtype, and the engine's native runs, or else the decomposition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, cast

import numpy as np

from intermodal import config, conversion, dtypes, plans, views
from intermodal.backend import Layer, check_device
from intermodal.devices import Device, DeviceLike, as_device
from intermodal.dtypes import DType
from intermodal.errors import ArgumentError, CaptureError, DeviceMismatchError, IntermodalError, UnsupportedError
from intermodal.ops import rules, table
from intermodal.ops.table import TABLE, Inferred, Op, Role, Spec
from intermodal.places import engine_place, is_traced, native_of, place_of, short_way, traced
from intermodal.tensor import Place, Tensor

__all__ = ["call", "call_bound", "casting", "decompose", "infer", "run"]

_MANY = (Role.SEQUENCE, Role.VARIADIC)
_SCALARS = (bool, int, float, complex)
_spec = partial(tuple.__new__, Spec)  # a third of the time of Spec(...)
_LOWERED: Final = frozenset((dtypes.float32, dtypes.float16, dtypes.bfloat16))
low_dtype: Final[ContextVar[DType | None]] = ContextVar("intermodal_low_dtype", default=None)


def infer(row: Op, specs: Sequence[Any], attrs: dict[str, object]) -> Inferred:
    """What comes out of an op, from shapes and dtypes alone; errors carry the op's name.

    Answers are kept, up to the setting ``infer_cache``, unless a rule read a setting on its way.
    """
    key = _cache_key(row, specs, attrs)
    known = _inferred.get(key)
    if known is not None:
        return known
    if row.infer is None:
        return _infer_by_running(row, specs, attrs)
    reads = config.reads()
    try:
        found = row.infer(*specs, **attrs)
    except IntermodalError as error:
        raise _named(row, error) from error.__cause__
    except TypeError as error:  # an attribute of another type than the rule reads
        raise ArgumentError(f"{row.name}: {error}. The signature is {row.signature}.") from error
    if type(found) is not Inferred:
        found = Inferred((found,) if isinstance(found, Spec) else cast("tuple[Spec, ...]", tuple(found)), attrs)
    if key and config.reads() == reads:
        plans.keep(_inferred, key, found)
    return found


_inferred: dict[tuple[object, ...], Inferred] = {}


def _cache_key(row: Op, specs: Sequence[Any], attrs: dict[str, object]) -> tuple[object, ...]:
    """What an answer depends on; empty where it is not kept. Types are part of it, for 1, 1.0 and True are equal."""
    if not specs or row.data_dependent or row.takes_seed:
        return ()
    key: list[object] = [row]
    for spec in specs:
        kind = type(spec)
        if kind is Spec:
            key.append(spec)
        elif kind is list:
            key.append(tuple(spec))
        elif kind is float or kind is complex:
            key.append(kind)  # its value changes no shape and no dtype
        else:
            key += (kind, spec)
    return tuple(key) if plans.plain_key(attrs, key) else ()


def _named(row: Op, error: IntermodalError) -> IntermodalError:
    """The error with the op's name in front; of nested ops the outermost is named first."""
    if not str(error).startswith(f"{row.name}: "):
        error.args = (f"{row.name}: {error.args[0]}", *error.args[1:])
    return error


@contextmanager
def casting(dtype: DType | None) -> Iterator[None]:
    """Have the rows that take part in autocast compute in a dtype inside the block, for this thread or task; None: as ever."""
    token = low_dtype.set(dtype)
    try:
        yield
    finally:
        low_dtype.reset(token)


def _lowered(given: Sequence[Any], dtype: DType) -> list[Any]:
    """Operands brought to a low dtype; where one is wider than float32, or complex, all stay as they are."""
    flat = [t for v in given for t in (v if type(v) in (list, tuple) else (v,)) if type(t) is Tensor and t.dtype.is_inexact]
    if any(t.dtype not in _LOWERED for t in flat):
        return list(given)
    return [_lower(v, dtype) for v in given]


def _lower(value: Any, dtype: DType) -> Any:
    if type(value) is Tensor and value.dtype in _LOWERED:
        return _bring(value, dtype)
    return [_lower(v, dtype) for v in value] if type(value) in (list, tuple) else value


def _decompose(row: Op, values: list[Any], attrs: dict[str, object]) -> Any:
    if low_dtype.get() is not None:  # whether an op computes in it is its row's to say, not that of the ops in its body
        with casting(None):
            return _decompose(row, values, attrs)
    args, keywords = _arguments(row, values, attrs)
    assert row.decompose is not None  # the callers know
    try:
        result: Any = row.decompose(*args, **keywords)
    except IntermodalError as error:
        raise _named(row, error) from error.__cause__
    if row.view is not None or (row.movement and row.multiple):  # its results are views, by the ops of its body
        return result
    # A body may hand an operand back as it is, or a view of one. The row says nothing of views, so a write must reach neither,
    # as it does not where the engine has a function for the whole.
    if type(result) is Tensor:
        return Tensor(result._data, result._place) if result._share is not None or any(result is v for v in values) else result
    parts = [r if r._share is None else Tensor(r._data, r._place) for r in result]
    return row.result(*parts) if row.result is not None else tuple(parts)


def _infer_by_running(row: Op, specs: Sequence[Any], attrs: dict[str, object]) -> Inferred:
    """Run the decomposition on the meta device."""

    def tensor(spec: Any) -> Any:
        if isinstance(spec, Spec):
            return Tensor(spec, engine_place("meta:cpu", spec.dtype))
        return [tensor(s) for s in spec] if isinstance(spec, (list, tuple)) else spec

    with traced(None):
        result = _decompose(
            row, [tensor(s) for s in specs], {**attrs, "device": Device("meta:cpu")} if row.takes_device else attrs
        )
    return Inferred(tuple(t._data for t in (result if isinstance(result, tuple) else (result,))), attrs)


def call(row: Op, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """Run an op on the device of its tensors."""
    if not kwargs and type(row.infer) is rules.Elementwise:
        try:
            result = _call_short(row, args)
            if result is not None:
                return result
        except Exception:  # noqa: S110  # the long way finds the reason
            pass
    return _call_checked(row, args, kwargs)


def _call_short(row: Op, args: tuple[Any, ...]) -> Tensor | None:
    """An elementwise op on tensors of one place, or on a tensor and a scalar of its kind; None where more has to be done."""
    if len(args) == 1:
        x = args[0]
        way = short_way(row, x._place)
        return None if way is None else Tensor(way[0](x._data), way[1])
    x, y = args
    if type(x) is Tensor:
        place = x._place
        way = short_way(row, place)
        if way is not None:
            if type(y) is Tensor:
                if y._place is place:
                    return Tensor(way[0](x._data, y._data), way[1])
                return _call_mixed(row, x, y)
            if type(y) in place.scalars:
                return Tensor(way[0](x._data, y), way[1])
    elif type(y) is Tensor and type(x) in y._place.scalars:
        way = short_way(row, y._place)
        return None if way is None else Tensor(way[0](x, y._data), way[1])
    return None


def _call_mixed(row: Op, x: Tensor, y: Tensor) -> Tensor | None:
    """Operands of which one is in a layer over the other's place: the layer takes both."""
    place = x._place if x._place.plain is not x._place else y._place
    if place.plain is not (y._place if place is x._place else x._place):
        return None
    way = short_way(row, place)
    return None if way is None else Tensor(way[0](x._data, y._data), way[1])


def _call_checked(row: Op, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    try:
        given, attrs = row.bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"{row.name}: {str(error).partition('() ')[2] or error}. The signature is {row.signature}.") from None
    if row.autocast and (low := low_dtype.get()) is not None:
        given = tuple(_lowered(given, low))
    arrays: list[Any] = []
    key = plans.key_of(row, given, attrs, arrays)
    if key is not None and (plan := plans.PLANS.get(key)) is not None:
        return plan.run(given, arrays)
    device: Device | None = (
        as_device(cast("DeviceLike", attrs["device"])) if row.takes_device and attrs["device"] is not None else None
    )
    values: list[Any] = []
    specs: list[Any] = []
    place: Place | None = None
    for i, value in enumerate(given):
        if type(value) is Tensor:
            its = value._place
            if place is not its:
                place = _meet(row, place, its)
            values.append(value)
            specs.append(_spec((its.backend.shape(value._data), its.dtype)))
            continue
        param = row.tensor_params[i]
        if param.role in _MANY:
            members = _members(row, param.name, value)
            for member in members:
                place = _meet(row, place, member._place)
            values.append(members)
            specs.append([_spec((m.shape, m.dtype)) for m in members])
        else:
            value = _scalar_or_none(row, param, value)
            values.append(value)
            specs.append(value)
    if device is None:
        device = place.device if place is not None else config.device.get()
    if row.takes_device:
        attrs["device"] = device
    # Drawn before the op runs, so that a record of the op replays it; a graph draws anew in each run.
    if row.takes_seed and attrs["seed"] is None and not is_traced(device):
        attrs["seed"] = check_device(device).next_seed(device)
    if row.infer is None and (place is None or place.backend.native(row, place.dtype) is None):
        return _decompose(row, values, attrs)  # the ops inside check shapes and dtypes; to infer them first would do it twice
    if place is not None and device is not place.device:  # an op that takes a device moves its operands there
        values = [conversion.to_device(v, device, None) if type(v) is Tensor else v for v in values]
        place = place_of(device, place.dtype)
    reads = config.reads()
    inferred = infer(row, specs, attrs)
    operands = inferred.operands
    seen = key is not None and config.reads() == reads  # the first time the rule is asked, and its answer kept
    if isinstance(operands, tuple):
        values = [v if d is None else _bring(v, d) for v, d in zip(values, operands, strict=True)]
        dtype = next((d for d in operands if d is not None), inferred.outputs[0].dtype)
        place = place_of(device, dtype) if place is None else _at(place, dtype)
    elif operands is not None:
        values = [v if type(v) is Tensor and v._place.dtype is operands else _bring(v, operands) for v in values]
        place = place_of(device, operands) if place is None else _at(place, operands)
    elif place is None:
        place = place_of(device, inferred.outputs[0].dtype)
    if seen and key is not None and all(map(_unchanged, given, values)) and (made := plans.make(row, place, values, inferred)):
        plans.keep(plans.PLANS, key, made)
    return run(row, place, values, inferred)


def _unchanged(given: Any, value: Any) -> bool:
    """Whether an operand is used as it was given; that a scalar is brought to a dtype's kind is part of a plan."""
    if type(value) is list:
        return all(map(_unchanged, given, value))
    return given is value if type(value) is Tensor else True


def run(row: Op, place: Place, values: list[Any], inferred: Inferred) -> Any:
    """Run an op whose operands are checked and of the dtypes it wants: in the place's layer, natively, or by its body."""
    if place.plain is not place:
        return cast("Layer", place.backend).run(row, place, values, inferred)
    native = native_of(row, place)
    attrs = cast("dict[str, object]", inferred.attrs)
    if native is None:
        return decompose(row, place, values, inferred)
    backend = place.backend
    arrays = [v._data if type(v) is Tensor else _array(v, place, inferred.operands) for v in values]
    # Before the engine is asked, so that a dtype of the result which the device lacks is refused here.
    places = [_at(place, s.dtype) for s in inferred.outputs]
    results = backend.execute(row, arrays, attrs, inferred.outputs, native)
    if not row.multiple:
        result = Tensor(results[0], places[0])
        return result if row.view is None else views.join(result, values[0], (row, attrs))
    wrapped = tuple(Tensor(r, p) for r, p in zip(results, places, strict=True))
    return row.result(*wrapped) if row.result is not None else wrapped


def decompose(row: Op, place: Place, values: list[Any], inferred: Inferred) -> Any:
    """Run an op by its body."""
    if row.decompose is None:
        raise UnsupportedError(f"{row.name}: {place.device} lacks this primitive for {place.dtype}. Use another device, or cast.")
    if inferred.operands is not None:
        values = [_zero_d(v, place) for v in values]
    return _decompose(row, values, cast("dict[str, object]", inferred.attrs))


def _at(place: Place, dtype: DType) -> Place:
    return place if dtype is place.dtype else place.at(dtype)


def _array(value: Any, place: Place, operands: object) -> Any:
    if type(value) is Tensor:
        return value._data
    if type(value) is list:
        return [v._data for v in value]
    if value is None or place.backend.takes_scalars:
        return value
    # A scalar that does not join the dtype of the operands, such as a count, keeps its own.
    return place.backend.from_host(np.asarray(value, None if operands is None else place.dtype.numpy), place.device)


def _zero_d(value: Any, place: Place) -> Any:
    """A body whose rule promotes its operands sees tensors only."""
    return TABLE["full"].function((), value, dtype=place.dtype, device=place.device) if type(value) in _SCALARS else value


def _bring(value: Any, dtype: DType) -> Any:
    """A tensor cast to the dtype of the call, a scalar of its kind."""
    if type(value) is Tensor:
        return value if value._place.dtype is dtype else TABLE["astype"].function(value, dtype)
    if type(value) is list:
        return [_bring(v, dtype) for v in value]
    return value if value is None else rules.as_scalar(value, dtype)


def _meet(row: Op, place: Place | None, other: Place) -> Place:
    """The place of a call so far, joined by another tensor's; two devices do not meet, and a layer takes what is below it."""
    if place is None:
        return other
    if place.device is not other.device:
        raise DeviceMismatchError(
            f"{row.name}: one tensor is on {place.device}, another on {other.device}. Move one, for example with x.to({str(place.device)!r})."
        )
    if place.backend.lifts is not other.backend.lifts:  # a trace takes what the engine computed
        stays, goes = (place, other) if place.backend.lifts else (other, place)
        if goes.plain is not goes:
            raise CaptureError(
                f"{row.name}: a tracked tensor from outside the traced function cannot enter the trace. Pass it as an argument, or detach it."
            )
        return stays
    return place if other.plain is other else other


def _members(row: Op, name: str, value: object) -> list[Tensor]:
    if isinstance(value, Tensor) and value.ndim > 0:
        value = list(value)
    if not isinstance(value, (list, tuple)) or not all(type(v) is Tensor for v in value):
        kinds = sorted({type(v).__name__ for v in value}) if isinstance(value, (list, tuple)) else type(value).__name__
        raise ArgumentError(f"{row.name}: {name} must be a list or tuple of tensors, not of {kinds}. Wrap data with im.asarray.")
    return list(value)


def _scalar_or_none(row: Op, param: table.Param, value: object) -> Any:
    """What else may stand for a tensor: a scalar (NumPy's too) for an operand, None for an optional one."""
    if param.role in (Role.OPERAND, Role.OPTIONAL) and param.annotation != "Tensor | None":
        if isinstance(value, _SCALARS):
            return value if type(value) in _SCALARS else value.item()  # type: ignore[union-attr]  # np.float64 is a float
        if isinstance(value, np.generic) and isinstance(value.item(), _SCALARS):
            return value.item()
        if value is None and param.role is Role.OPTIONAL:
            return None
    if param.role is Role.OPTIONAL and value is None:
        return None
    wanted = "a tensor or a Python scalar" if param.role is Role.OPERAND else "a tensor"
    raise ArgumentError(
        f"{row.name}: {param.name} must be {wanted}, not {type(value).__name__}. Wrap it with im.asarray(...). The signature is {row.signature}."
    )


def call_bound(row: Op, values: Sequence[Any], attrs: Mapping[str, object]) -> Any:
    """Call an op again with operands and attributes as they were bound before."""
    args, keywords = _arguments(row, values, attrs)
    return row.function(*args, **keywords)


def _arguments(row: Op, values: Sequence[Any], attrs: Mapping[str, object]) -> tuple[list[Any], dict[str, Any]]:
    """Bound values back in the shape of the signature: positional as far as it is, then by keyword."""
    tensors = iter(values)
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for param in row.params:
        value: Any = attrs[param.name] if param.role is Role.ATTRIBUTE else next(tensors)
        if param.place == "*args":
            positional.extend(value)
        elif param.place == "*":
            keywords[param.name] = value
        else:
            positional.append(value)
    return positional, keywords


table.connect(call)
