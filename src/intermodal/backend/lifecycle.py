"""A backend's life: configured, initialized on devices, used, shut down. `ComputeBackend` keeps to that order and says how it stands.

Ordinary programs need none of this: engines start on first use. It is for services that start and end an engine on purpose,
with options, and want to know how it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from threading import RLock
from types import TracebackType
from typing import Any, Final, Self, cast

from intermodal import dtypes
from intermodal.backend import probing
from intermodal.backend.capabilities import BackendCapabilities, probe
from intermodal.backend.contract import Backend, DTypeUsage
from intermodal.backend.memory import MemoryInfo
from intermodal.backend.registry import REGISTRY
from intermodal.devices import Device, DeviceLike, as_device
from intermodal.errors import DeviceError, DeviceMismatchError, ExecutionError, InvalidValueError, LifecycleError
from intermodal.ops.table import TABLE, Op

__all__ = [
    "BackendConfig",
    "BackendFactory",
    "BackendMemoryConfig",
    "BackendState",
    "BackendStatus",
    "ComputeBackend",
    "MemoryGrowthStrategy",
    "TensorOps",
]

_log: Final = logging.getLogger(__name__)


class MemoryGrowthStrategy(Enum):
    """How an engine's pool of memory grows."""

    STATIC = "static"
    """All of it is taken at the start."""
    DYNAMIC = "dynamic"
    """It grows as needed."""
    INCREMENTAL = "incremental"
    """Some is taken at the start, and it grows from there."""


@dataclass(frozen=True, slots=True)
class BackendMemoryConfig:
    """How an engine manages its memory. None leaves a choice to the engine.

    Attributes:
        pool_size: bytes of the pool.
        alignment: bytes to whose multiples memory is aligned; a power of two.
        enable_pooling: whether memory is kept for later instead of given back.
        growth_strategy: how the pool grows.
    """

    pool_size: int | None = None
    alignment: int | None = None
    enable_pooling: bool | None = None
    growth_strategy: MemoryGrowthStrategy | None = None


@dataclass(frozen=True, slots=True)
class BackendConfig:
    """How a backend is to be started. What is set reaches the engine, or is refused by it; nothing is ignored.

    Attributes:
        backend_type: the engine's name.
        device: the device to start on; None is the engine's first.
        optimization_level: 0 to 3; None leaves it to the engine.
        enable_debug: after each op wait for it, so that a failure is raised by the op that failed, and log the op.
        memory_config: how memory is managed.
        backend_options: options of the engine's own.
    """

    backend_type: str
    device: Device | str | None = None
    optimization_level: int | None = None
    enable_debug: bool = False
    memory_config: BackendMemoryConfig = field(default_factory=BackendMemoryConfig)
    backend_options: Mapping[str, object] = field(default_factory=dict)

    def options(self) -> dict[str, object]:
        """What was set of the things that only the engine can do, by name; `Backend.configure` gets it."""
        level = {} if self.optimization_level is None else {"optimization_level": self.optimization_level}
        memory = {f"memory_{f.name}": getattr(self.memory_config, f.name) for f in fields(self.memory_config)}
        return {**level, **{name: value for name, value in memory.items() if value is not None}, **self.backend_options}

    def problems(self) -> Iterator[str]:
        """What is wrong with the values themselves, whatever the engine."""
        level, memory = self.optimization_level, self.memory_config
        if level is not None and level not in range(4):
            yield f"optimization_level is {level!r}, not 0, 1, 2 or 3"
        if memory.pool_size is not None and memory.pool_size <= 0:
            yield f"pool_size is {memory.pool_size!r}, not a positive number of bytes"
        if memory.alignment is not None and (memory.alignment <= 0 or memory.alignment & (memory.alignment - 1)):
            yield f"alignment is {memory.alignment!r}, not a power of two"
        if memory.growth_strategy is MemoryGrowthStrategy.STATIC and memory.pool_size is None:
            yield "growth_strategy is static, and pool_size does not say how much to take"
        if self.device is not None and as_device(self.device).engine != self.backend_type:
            yield f"device is {self.device}, which is not one of {self.backend_type}"


class BackendState(Enum):
    """Where a `ComputeBackend` is in its life."""

    CREATED = "created"
    READY = "ready"
    FAILED = "failed"
    """An op or a wait failed; it can still be used, and `initialize` clears it."""
    SHUT_DOWN = "shut down"


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """How a `ComputeBackend` stands at one moment.

    Attributes:
        state: where it is in its life.
        active_devices: the devices it was initialized on.
        memory: of each of them, total and free; None where the engine cannot tell.
        operations_completed: how many ops ran through its `tensor_ops`.
        last_error: what failed last; None after `initialize`.
        backend_specific: what the engine says of itself and its devices.
    """

    state: BackendState
    active_devices: tuple[Device, ...] = ()
    memory: Mapping[Device, MemoryInfo | None] = field(default_factory=dict)
    operations_completed: int = 0
    last_error: str | None = None
    backend_specific: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_initialized(self) -> bool:
        return self.state in (BackendState.READY, BackendState.FAILED)

    @property
    def is_ready(self) -> bool:
        return self.state is BackendState.READY

    @property
    def memory_usage(self) -> dict[Device, int]:
        """Bytes in use on each device whose engine tells: of the whole device, by whichever program."""
        return {d: info.used for d, info in self.memory.items() if info is not None and info.used is not None}


class ComputeBackend:
    """An engine that is started and ended on purpose; a context manager.

    Example:
        >>> with BackendFactory().create_compute_backend(BackendConfig("numpy")) as backend:
        ...     x = backend.tensor_ops.ones((2, 2))
        ...     print(backend.tensor_ops.matmul(x, x).tolist(), backend.status().operations_completed)
        [[2.0, 2.0], [2.0, 2.0]] 2
        >>> backend.status().state
        <BackendState.SHUT_DOWN: 'shut down'>
    """

    def __init__(self, backend: Backend, config: BackendConfig) -> None:
        self.backend, self.config = backend, config
        self._state = BackendState.CREATED
        self._active: list[Device] = []
        self._completed = 0
        self._last_error: str | None = None
        self._lock = RLock()

    @property
    def name(self) -> str:
        return self.backend.engine

    @property
    def version(self) -> str:
        """The engine and its version, as it names itself."""
        return self.backend.name(self.device)

    @property
    def device(self) -> Device:
        """The device of the configuration, or else the engine's first."""
        return self.backend.devices()[0] if self.config.device is None else as_device(self.config.device)

    def supports_device(self, device: DeviceLike) -> bool:
        """Whether the engine has the device now."""
        return as_device(device) in self.backend.devices()

    def capabilities(self, device: DeviceLike | None = None) -> BackendCapabilities:
        """What a device of the engine was seen to do, by default the configured one."""
        return probe(self.device if device is None else self._own(device))

    # --- life --------------------------------------------------------------------------------------------------

    def initialize(self, device: DeviceLike | None = None) -> None:
        """Start on a device, by default the configured one: apply the options and see that a sum works there.

        It may be called for several devices, and again for one after a failure.
        """
        target = self.device if device is None else self._own(device)
        with self._lock:
            self._refuse_after_end("initialize")
            try:
                self.backend.configure(target, self.config.options())
                self._try_out(target)
            except Exception as error:
                self._note(error)
                raise
            if target not in self._active:
                self._active.append(target)
            self._state, self._last_error = BackendState.READY, None

    def _try_out(self, device: Device) -> None:
        probing.forget(device)  # what was true before the options, or before a failure, may not be true now
        usage, reason = probing.dtype_support(device, dtypes.float32)
        if DTypeUsage.GENERAL not in usage:
            raise ExecutionError(f"initialize: {device} is listed but does not work: {reason}.", reason=reason)

    def synchronize(self, device: DeviceLike | None = None) -> None:
        """Wait until all work on a device is done, by default on every active one; a failure of that work is raised here."""
        self._require_ready("synchronize")
        for target in self._active if device is None else [self._own(device)]:
            try:
                self.backend.sync(target)
            except Exception as error:
                self._note(error)
                raise

    def shutdown(self) -> None:
        """End: wait for all work, give memory back, refuse all further use. A second call does nothing.

        Work that failed is raised when everything has been ended.
        """
        with self._lock:
            if self._state is BackendState.SHUT_DOWN:
                return
            self._state = BackendState.SHUT_DOWN
            failures: list[Exception] = []
            for device in self._active:
                for end in (self.backend.sync, self.backend.memory_cleanup):
                    try:
                        end(device)
                    except Exception as error:
                        self._last_error = str(error)
                        failures.append(error)
            self._active.clear()
        if failures:
            raise failures[0]

    def status(self) -> BackendStatus:
        """How it stands now; can be asked at any time."""
        active = tuple(self._active)
        about = {"engine": self.name} | {str(d): self.backend.name(d) for d in active}
        memory = {d: self.backend.memory_info(d) for d in active}
        return BackendStatus(self._state, active, memory, self._completed, self._last_error, about)

    def __enter__(self) -> Self:
        if self._state is not BackendState.READY:
            self.initialize()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.shutdown()
        except Exception:
            if error is None:  # otherwise the block's own error is the one to see
                raise
            _log.exception("%s: shutdown failed after an error", self.name)

    # --- use ---------------------------------------------------------------------------------------------------

    @property
    def tensor_ops(self) -> TensorOps:
        """Every op of the table, run on this backend, counted, and refused outside its life. Creation ops put tensors on its device."""
        return TensorOps(self)

    def run(self, row: Op, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """Run an op of the table on this backend."""
        self._require_ready(row.name)
        device = kwargs.get("device")
        if row.takes_device and (device is not None or not row.tensor_params):
            kwargs["device"] = self._active[0] if device is None else as_device(cast("DeviceLike", device))
        self._check_places(row, [*args, *kwargs.values()])
        try:
            result = row.function(*args, **kwargs)
            if self.config.enable_debug:
                for device in self._active:
                    self.backend.sync(device)
                _log.debug("%s: %s", self.name, row.name)
        except Exception as error:
            self._note(error)
            raise
        with self._lock:
            self._completed += 1
        return result

    def _check_places(self, row: Op, values: Sequence[object]) -> None:
        for value in values:
            if isinstance(value, (list, tuple)):
                self._check_places(row, value)
            device = value if isinstance(value, Device) else getattr(value, "device", None)
            if isinstance(device, Device) and device not in self._active:
                raise DeviceMismatchError(
                    f"{row.name}: {device} is none of this backend's devices {', '.join(map(str, self._active))}. "
                    f"Move the tensor with x.to({str(self._active[0])!r}), or initialize the backend there too."
                )

    def _note(self, error: Exception) -> None:
        with self._lock:
            self._last_error = str(error)
            if isinstance(error, ExecutionError) and self._state is BackendState.READY:
                self._state = BackendState.FAILED  # the engine's failure; a wrong call says nothing about the engine

    def _own(self, device: DeviceLike) -> Device:
        device = as_device(device)
        if not self.supports_device(device):
            there = ", ".join(map(str, self.backend.devices()))
            raise DeviceError(f"{self.name} has no device {device}. It has {there or 'none'}.")
        return device

    def _require_ready(self, what: str) -> None:
        self._refuse_after_end(what)
        if self._state is BackendState.CREATED:
            raise LifecycleError(f"{what}: the backend {self.name} was not initialized. Call initialize() first.")

    def _refuse_after_end(self, what: str) -> None:
        if self._state is BackendState.SHUT_DOWN:
            raise LifecycleError(f"{what}: the backend {self.name} was shut down. Create another with BackendFactory.")


class TensorOps:
    """The ops of the table as methods, run through a `ComputeBackend`."""

    def __init__(self, owner: ComputeBackend) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        row = TABLE.get(name)
        if row is None:
            raise AttributeError(f"there is no op {name!r} in the table")
        return lambda *args, **kwargs: self._owner.run(row, args, kwargs)

    def __dir__(self) -> list[str]:
        return sorted(TABLE)


class BackendFactory:
    """Makes backends of this process's engines from configurations."""

    def supported_backend_types(self) -> list[str]:
        """The names of the engines that can be loaded here; asking loads them."""
        return sorted(e.name for e in REGISTRY.entries(load=True) if e.status == "loaded")

    def validate_config(self, config: BackendConfig) -> None:
        """Raise with all that is wrong with a configuration, if anything is."""
        problems = list(config.problems())
        try:
            backend = REGISTRY.get(config.backend_type)
            if config.device is not None and as_device(config.device) not in backend.devices():
                problems.append(f"device is {config.device}, and there are {', '.join(map(str, backend.devices())) or 'none'}")
            if not backend.devices():
                problems.append(f"{config.backend_type} has no devices here")
        except DeviceError as error:
            problems.append(str(error).removesuffix("."))
        if problems:
            raise InvalidValueError(f"the configuration of {config.backend_type!r} is not valid: {'; '.join(problems)}.")

    def create_compute_backend(self, config: BackendConfig) -> ComputeBackend:
        """A backend that is not initialized yet. The engine's one `Backend` object is shared by all that are made of it."""
        self.validate_config(config)
        return ComputeBackend(REGISTRY.get(config.backend_type), config)
