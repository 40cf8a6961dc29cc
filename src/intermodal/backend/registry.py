"""The engines that there are: found by entry point, loaded on first use, one `Backend` object each."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from threading import RLock
from typing import Final

from intermodal.backend.contract import Backend
from intermodal.devices import Device
from intermodal.errors import DeviceError, EngineUnavailableError

__all__ = ["backend_of", "check_device", "engines", "on_unregister", "register", "unregister"]

GROUP: Final = "intermodal.engines"
_loaded: dict[str, Backend] = {}
_registered: dict[str, Callable[[], Backend]] = {}
_forgetters: list[Callable[[str], None]] = []
_lock: Final = RLock()


def register(engine: str, factory: Callable[[], Backend]) -> None:
    """Add an engine by hand, without an entry point; a class derived from `Backend` will do as factory."""
    with _lock:
        if engine in _registered or engine in _loaded:
            raise DeviceError(f"the engine {engine!r} is registered already. Choose another name.")
        _registered[engine] = factory


def unregister(engine: str) -> None:
    """Take out an engine that `register` added."""
    with _lock:
        _registered.pop(engine, None)
        _loaded.pop(engine, None)
    for forget in _forgetters:
        forget(engine)


def on_unregister(forget: Callable[[str], None]) -> None:
    """Have a function called with the name of each engine that is taken out; for whoever keeps things by engine."""
    _forgetters.append(forget)


def _entry_points() -> dict[str, str]:
    from importlib.metadata import entry_points  # costs more than the rest of the import, and the common engine needs none of it

    return {e.name: e.value for e in entry_points(group=GROUP)}


def engines() -> list[str]:
    """The names of all engines: our own, those of installed plugins, those added by `register`."""
    return sorted({*_OWN, *_entry_points(), *_registered})


# Our own engines are entry points too; the two that always work are named here so that finding them reads no metadata.
_OWN: Final = {"numpy": "intermodal.engines.numpy:NumpyBackend", "meta": "intermodal.engines.meta:MetaBackend"}


def backend_of(engine: str) -> Backend:
    """The one `Backend` object of an engine, loading it on first use."""
    found = _loaded.get(engine)
    if found is not None:
        return found
    with _lock:
        if engine not in _loaded:
            _loaded[engine] = _load(engine)
        return _loaded[engine]


def _load(engine: str) -> Backend:
    if engine in _registered:
        factory: Callable[[], Backend] = _registered[engine]
    else:
        target = _OWN.get(engine) or _entry_points().get(engine)
        if target is None:
            raise DeviceError(f"there is no engine {engine!r}. The engines here are {', '.join(engines())}.")
        module, _, name = target.partition(":")
        try:
            factory = getattr(import_module(module), name)
        except Exception as error:  # a plugin may fail in any way; the user is told which
            raise EngineUnavailableError(
                f"the engine {engine!r} cannot be loaded from {target}: {error}. Try pip install 'intermodal[{engine}]'."
            ) from error
    return factory()


def check_device(device: Device) -> Backend:
    """The backend of a device, or the error that lists the devices there are."""
    backend = backend_of(device.engine)
    there = backend.devices()
    if device not in there:
        raise DeviceError(f"there is no device {device}. {device.engine} has {', '.join(map(str, there)) or 'none'}.")
    return backend
