"""Devices: the address ``[connection/]engine[:kind[:index]]`` as a value. Nothing here knows which of them exist."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from intermodal.errors import DeviceError

__all__ = ["Device", "DeviceLike", "as_device"]

_FORM: Final = re.compile(
    r"(?:(?P<connection>[A-Za-z0-9_.-]+)/)?(?P<engine>[a-z][a-z0-9_-]*)(?::(?P<kind>[a-z][a-z0-9_]*))?(?::(?P<index>[0-9]{1,6}))?"
)
_known: dict[str, Device] = {}


class Device:
    """One place where an engine can run: ``numpy:cpu``, ``torch:cuda:0``, ``lab/torch:cpu``.

    The same address is the same object, so ``is`` and ``==`` agree; a string compares equal to the device it names.

    Example:
        >>> Device("torch:cuda")
        Device('torch:cuda:0')
        >>> Device("numpy") == Device("numpy:cpu:0") == "numpy:cpu"
        True
    """

    __slots__ = ("_text", "connection", "engine", "index", "kind")
    connection: str | None
    engine: str
    kind: str
    index: int
    _text: str

    def __new__(cls, address: str | Device) -> Device:  # noqa: PYI034  # the class is final: there is one object per address
        if isinstance(address, Device):
            return address
        try:
            return _known[address]
        except (KeyError, TypeError):  # new, or no string at all
            return _parse(address)

    def __reduce__(self) -> tuple[object, ...]:
        return Device, (self._text,)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            try:
                other = Device(other)
            except DeviceError:
                return False
        return self is other

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Device({self._text!r})"


DeviceLike: TypeAlias = Device | str


def _parse(address: object) -> Device:
    match = _FORM.fullmatch(address) if isinstance(address, str) else None
    if match is None:
        raise DeviceError(f"{address!r} is not a device. Write engine:kind[:index], for example 'numpy:cpu' or 'torch:cuda:0'.")
    kind, index = match["kind"] or ("cpu" if match["index"] is None else ""), int(match["index"] or 0)
    text = match["engine"] + (f":{kind}" if kind else "") + (f":{index}" if index or kind != "cpu" else "")
    if match["connection"]:
        text = f"{match['connection']}/{text}"
    device = _known.get(text)
    if device is None:
        device = object.__new__(Device)
        device.connection, device.engine, device.kind, device.index, device._text = (
            match["connection"],
            match["engine"],
            kind,
            index,
            text,
        )
        device = _known.setdefault(text, device)  # setdefault is atomic: two threads get the same object
    return device


def as_device(device: DeviceLike) -> Device:
    """The device that an object or an address stands for."""
    return device if type(device) is Device else Device(device)
