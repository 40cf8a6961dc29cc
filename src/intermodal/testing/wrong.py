"""Wrong calls: mistakes that follow from an op's signature. Each must raise the same typed error on every device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from intermodal.conversion import asarray
from intermodal.devices import Device
from intermodal.errors import ArgumentError, AxisError, DeviceMismatchError, IntermodalError, ShapeError
from intermodal.ops.table import Op, Role
from intermodal.testing.calls import on
from intermodal.testing.samples import HostArray, Sample

__all__ = ["Mistake", "mistakes", "wrong_with"]


class Mistake(NamedTuple):
    """A wrong call: what is wrong, how to make it on a device, and the error that it must raise."""

    name: str
    call: Callable[[Device], Any]
    error: type[IntermodalError]


def mistakes(row: Op, sample: Sample) -> Iterator[Mistake]:
    """The wrong calls that can be made out of a right one."""

    def given(device: Device) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return on(row, sample, device)

    def unknown(device: Device) -> Any:
        args, kwargs = given(device)
        return row.function(*args, **kwargs, no_such_parameter=1)

    def without_arguments(device: Device) -> Any:
        return row.function()

    def text_for_tensor(device: Device) -> Any:
        args, kwargs = given(device)
        return row.function("text", *args[1:], **kwargs)

    def axis_outside(device: Device) -> Any:
        args, kwargs = given(device)
        return row.function(*args, **{**kwargs, "axis": 99})

    def two_devices(device: Device) -> Any:
        args, kwargs = given(device)
        stranger = asarray(sample.args[1], device="meta:cpu")
        return row.function(args[0], stranger, *args[2:], **kwargs)

    def not_broadcasting(device: Device) -> Any:
        args, kwargs = on(row, sample.but(args=(_odd(sample.args[0], 2), _odd(sample.args[1], 3), *sample.args[2:])), device)
        return row.function(*args, **kwargs)

    roles = [p.role for p in row.params if p.place in ("/", "")]
    yield Mistake("a parameter that it does not have", unknown, ArgumentError)
    if any(p.required and p.place != "*args" for p in row.params):
        yield Mistake("no arguments", without_arguments, ArgumentError)
    if roles and roles[0] in (Role.TENSOR, Role.OPERAND) and sample.args:
        yield Mistake("a text for a tensor", text_for_tensor, ArgumentError)
    if isinstance(sample.kwargs.get("axis"), int) and any(p.role is not Role.ATTRIBUTE for p in row.params):
        yield Mistake("an axis outside", axis_outside, AxisError)
    if len(roles) > 1 and all(r in (Role.TENSOR, Role.OPERAND) for r in roles[:2]) and _are_arrays(sample):
        yield Mistake("tensors of two devices", two_devices, DeviceMismatchError)
        if row.family == "elementwise":
            yield Mistake("shapes that do not broadcast", not_broadcasting, ShapeError)


def _are_arrays(sample: Sample) -> bool:
    return len(sample.args) > 1 and all(hasattr(v, "dtype") for v in sample.args[:2])


def _odd(array: HostArray, n: int) -> HostArray:
    return array.ravel()[:1].repeat(n)


def wrong_with(mistake: Mistake, device: Device) -> str | None:
    """What is wrong with how a device answers to a mistake, or None."""
    try:
        mistake.call(device)
    except mistake.error:
        return None
    except Exception as error:  # every other error is the complaint
        return f"{mistake.name}: raised {type(error).__name__} ({error}) instead of {mistake.error.__name__}"
    return f"{mistake.name}: gave a result instead of {mistake.error.__name__}"
