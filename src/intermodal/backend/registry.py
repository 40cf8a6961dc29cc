"""The engines that there are: ours, those of installed plugins, those added by hand. Each is loaded on first use, once.

A plugin is an entry point of the group ``intermodal.engines``. It cannot stop anything: one that fails in any way is
listed as unavailable, with the reason and what mends it. ``INTERMODAL_DISABLE_PLUGINS=1`` leaves all plugins out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from importlib import import_module, invalidate_caches
from threading import RLock
from typing import Final, NamedTuple

from intermodal.backend.contract import Backend
from intermodal.backend.plugins import DISABLE, HOME, PluginWarning, Source, disabled, scan, winners
from intermodal.devices import Device, as_device
from intermodal.errors import DeviceError, EngineUnavailableError

__all__ = [
    "REGISTRY",
    "BackendRegistry",
    "EngineInfo",
    "backend_of",
    "check_device",
    "engines",
    "entries",
    "on_unregister",
    "refresh",
    "register",
    "unregister",
]

# Our own engines are entry points too. They are named here so that finding them reads no metadata, which costs more than
# the rest of the import, and so that they are there when plugins are left out.
_OWN: Final = {
    "jax": "intermodal.engines.jax:JaxBackend",
    "meta": "intermodal.engines.meta:MetaBackend",
    "numpy": "intermodal.engines.numpy:NumpyBackend",
    "onnx": "intermodal.engines.onnx:OnnxBackend",
    "torch": "intermodal.engines.torch:TorchBackend",
}


class EngineInfo(NamedTuple):
    """What is known of an engine without using it.

    Attributes:
        name: the first part of its devices.
        status: ``loaded``, ``not loaded`` (nobody has asked for it yet) or ``unavailable``.
        origin: the distribution it comes from, or ``registered``.
        target: where its class is.
        reason: why it is unavailable.
        install: the command that mends it, where there is one.
    """

    name: str
    status: str
    origin: str
    target: str
    reason: str = ""
    install: str = ""


class _Failure(NamedTuple):
    reason: str
    error: BaseException | None


class BackendRegistry:
    """All engines by name, each with the one `Backend` object that stands for it."""

    def __init__(self) -> None:
        self._own = {name: Source(name, target, HOME, f"pip install 'intermodal[{name}]'") for name, target in _OWN.items()}
        self._loaded: dict[str, Backend] = {}
        self._registered: dict[str, Source] = {}
        self._plugins: dict[str, Source] | None = None
        self._hidden: list[Source] = []
        self._failed: dict[str, _Failure] = {}
        self._warned: set[str] = set()
        self._forgetters: list[Callable[[str], None]] = []
        self._lock = RLock()

    # --- by hand -----------------------------------------------------------------------------------------------

    def register(self, engine: str, factory: Callable[[], Backend]) -> None:
        """Add an engine by hand, without an entry point; a class derived from `Backend` will do as factory.

        The program's own word counts more than an installed plugin of the same name; our own engines keep theirs.
        """
        with self._lock:
            if engine in self._registered or engine in self._loaded or engine in self._own:
                raise DeviceError(f"the engine {engine!r} is registered already. Choose another name.")
            self._registered[engine] = Source(engine, getattr(factory, "__qualname__", repr(factory)), "registered", "", factory)
            self._failed.pop(engine, None)

    def unregister(self, engine: str) -> None:
        """Take out an engine that `register` added."""
        with self._lock:
            self._registered.pop(engine, None)
            self._loaded.pop(engine, None)
            self._failed.pop(engine, None)
        for forget in self._forgetters:
            forget(engine)

    def on_unregister(self, forget: Callable[[str], None]) -> None:
        """Have a function called with the name of each engine that is taken out; for whoever keeps things by engine."""
        self._forgetters.append(forget)

    # --- finding -----------------------------------------------------------------------------------------------

    def engines(self) -> list[str]:
        """The names of all engines: our own, those of installed plugins, those added by `register`."""
        return sorted({*self._own, *self._registered, *self._discovered()})

    def entries(self, *, load: bool = False) -> list[EngineInfo]:
        """All engines with their status, plugins that are hidden by another of their name included.

        Args:
            load: load every engine first, so that nothing is left ``not loaded``.
        """
        found = []
        for name in self.engines():
            if load:
                with suppress(DeviceError):  # kept as a failure, and listed below
                    self.get(name)
            found.append(self._info(self._find(name)))
        return found + ([] if disabled() else [self._info(source) for source in self._hidden])

    def _info(self, source: Source) -> EngineInfo:
        name = source.name
        reason = source.broken or (self._failed[name].reason if name in self._failed else "")
        status = "unavailable" if reason else "loaded" if name in self._loaded else "not loaded"
        return EngineInfo(name, status, source.origin, source.target, reason, source.install if reason else "")

    def refresh(self) -> None:
        """Look for plugins anew and forget failures: after an installation in a running program. What is loaded stays."""
        invalidate_caches()
        with self._lock:
            self._plugins = None
            self._failed.clear()

    def _find(self, engine: str) -> Source:
        source = self._registered.get(engine) or self._own.get(engine) or self._discovered().get(engine)
        if source is None:
            off = f" Plugins are left out, for {DISABLE} is set." if disabled() else ""
            raise DeviceError(f"there is no engine {engine!r}. The engines here are {', '.join(self.engines())}.{off}")
        return source

    def _discovered(self) -> dict[str, Source]:
        if disabled():
            return {}
        if self._plugins is None:
            with self._lock:
                found, self._hidden = winners(scan(), self._own)
                self._plugins = found
            for loser in self._hidden:
                if loser.broken not in self._warned:
                    self._warned.add(loser.broken)
                    warnings.warn(f"{loser.broken}. Uninstall one of them.", PluginWarning, stacklevel=4)
        return self._plugins

    # --- loading -----------------------------------------------------------------------------------------------

    def get(self, engine: str) -> Backend:
        """The one `Backend` object of an engine, loading it on first use."""
        found = self._loaded.get(engine)
        if found is not None:
            return found
        source = self._find(engine)
        with self._lock:
            if engine not in self._loaded:
                self._loaded[engine] = self._load(source)
            return self._loaded[engine]

    def _load(self, source: Source) -> Backend:
        failure = self._failed.get(source.name) or (_Failure(source.broken, None) if source.broken else None)
        if failure is None:
            try:
                return _make(source)
            except (Exception, SystemExit) as error:  # a plugin may fail in any way; the user is told which
                failure = self._failed[source.name] = _Failure(f"{type(error).__name__}: {error}", error)
        mend = f" Try {source.install}, then im.backend.refresh()." if source.install else ""
        raise EngineUnavailableError(
            f"the engine {source.name!r} cannot be loaded from {source.target}: {failure.reason}.{mend}"
        ) from failure.error

    def check_device(self, device: Device | str) -> Backend:
        """The backend of a device, or the error that lists the devices there are."""
        device = as_device(device)
        backend = self.get(device.engine)
        there = backend.devices()
        if device not in there:
            raise DeviceError(f"there is no device {device}. {device.engine} has {', '.join(map(str, there)) or 'none'}.")
        return backend


def _make(source: Source) -> Backend:
    factory = source.factory
    if factory is None:
        module, _, path = source.target.partition(":")
        factory = reduce(getattr, path.split("."), import_module(module))  # type: ignore[assignment]  # what it is, is checked below
    made: object = factory()  # type: ignore[misc]  # may be anything a plugin names
    if not isinstance(made, Backend):
        raise TypeError(f"it makes a {type(made).__name__}, which is not derived from intermodal.Backend")
    if made.engine != source.name:
        raise ValueError(f"its class calls the engine {made.engine!r}, and devices are found by that name")
    return made


REGISTRY: Final = BackendRegistry()
"""The registry of this process."""

backend_of = REGISTRY.get
check_device = REGISTRY.check_device
engines = REGISTRY.engines
entries = REGISTRY.entries
on_unregister = REGISTRY.on_unregister
refresh = REGISTRY.refresh
register = REGISTRY.register
unregister = REGISTRY.unregister
