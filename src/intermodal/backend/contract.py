"""The contract that an engine implements: `Backend`. An engine is complete with the primitives of the op table.

What a backend must have: `engine`, `devices`, `dtype_usage`, `from_host`, `to_host`, `shape`, and in `natives` one
function per primitive. Everything else has a default, and every other op comes from its decomposition.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Flag, auto
from threading import Lock
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from intermodal.backend.memory import MemoryInfo
from intermodal.backend.sharing import HostMemory
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.errors import ExchangeError, ExecutionError, IntermodalError, OutOfMemoryError, UnsupportedError
from intermodal.ops.table import Op, Spec

__all__ = ["Array", "Backend", "DTypeUsage", "HostMemory", "Native", "Program"]

Array: TypeAlias = Any  # the engine's own array; only the engine looks inside
Native: TypeAlias = Callable[..., Any]


class DTypeUsage(Flag):
    """What a device can do with a dtype."""

    NONE = 0
    STORAGE = auto()
    """It can be stored and converted to and from other dtypes."""
    ARITHMETIC = auto()
    """Ops compute with it."""
    ACCELERATED = auto()
    """Matrix products have a fast path for it (BLAS, tensor cores)."""
    GENERAL = STORAGE | ARITHMETIC
    """What `Backend.supports_dtype` asks for."""


class Program(Protocol):
    """A program in this backend's own ops, as `Backend.compile` is given it: see `intermodal.graph.program.Program`."""

    @property
    def ir(self) -> Any: ...
    @property
    def constants(self) -> Sequence[Any]: ...
    @property
    def steps(self) -> Sequence[Any]: ...
    @property
    def device(self) -> Device: ...
    @property
    def donated(self) -> Sequence[int]: ...
    def function(
        self, direct: Callable[[Any], bool] | None = None, reuses: Callable[[Any], bool] | None = None
    ) -> Callable[..., Sequence[Array]]: ...
    def require_sizes(self) -> None: ...


class Backend(ABC):
    """An engine's implementation of the op contract.

    Natives take the engine's arrays in the order of the row's tensor parameters and every attribute by name, in
    the normal form that the row's ``infer`` gives it. Operands have been checked and brought to one dtype before.
    """

    engine: ClassVar[str]
    """The first part of this engine's devices: ``numpy`` in ``numpy:cpu``."""
    takes_scalars: ClassVar[bool] = False
    """Whether natives take Python scalars where the row says operand; otherwise dispatch makes 0-d arrays of them."""
    defers: ClassVar[bool] = False
    """Whether `execute` does something else than run the native: then operators never take the short way to it."""
    getitem: ClassVar[Callable[[Array, Any], Array] | None] = None
    """The engine's own ``array[key]``, if for integers, slices, None and ... it means what NumPy's does."""
    natives: Mapping[str, Native] = {}
    holds_data: ClassVar[bool] = True
    """False for an engine whose arrays have a shape and a dtype and nothing else."""
    lifts: ClassVar[bool] = False
    """Whether its ops take arrays of the engine for which it records: they become constants of the record."""
    shares: ClassVar[HostMemory | None] = None
    """What host memory this engine's ``cpu`` devices share in `from_host`; None where they always copy."""
    dlpack_kinds: ClassVar[Mapping[str, int]] = {}
    """DLPack's device type of each kind of device, beside ``cpu``, whose memory `from_dlpack` takes over: ``{"cuda": 2}``."""

    def __init__(self) -> None:
        self._seeds: dict[Device, Iterator[int]] = {}
        self._seed_lock = Lock()

    # --- devices -----------------------------------------------------------------------------------------------

    @abstractmethod
    def devices(self) -> Sequence[Device]:
        """The devices that can be used now; the first is the default."""

    def device_count(self, kind: str = "cpu") -> int:
        """How many devices of a kind there are."""
        return sum(d.kind == kind for d in self.devices())

    def name(self, device: Device) -> str:
        """The engine and its version, for people."""
        return self.engine

    # --- data --------------------------------------------------------------------------------------------------

    @abstractmethod
    def shape(self, array: Array) -> tuple[int, ...]:
        """The shape of an array of this engine, as a plain tuple."""

    @abstractmethod
    def from_host(self, data: np.ndarray[Any, Any], device: Device, *, copy: bool | None = None) -> Array:
        """An array on the device with the host's data.

        Args:
            data: a NumPy array of a dtype that the device stores.
            device: where the array goes.
            copy: True copies always, False never (and raises CopyRequiredError), None where needed.
        """

    @abstractmethod
    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        """The array's data as NumPy, without a copy where the engine can; the caller does not write to it."""

    def host_view(self, array: Array) -> np.ndarray[Any, Any] | None:
        """The array's own memory as NumPy sees it, never a copy; None where it is not the host's or has another form."""
        return None

    def adopt(self, array: object) -> tuple[Array, Device, DType] | None:
        """An array that a user made with this engine's library, as it is, with its device and dtype.

        None for what is no array of the library; ExchangeError for one that cannot become a tensor, with the way out.
        """
        return None

    def transaction(self, arrays: Sequence[Array]) -> list[np.ndarray[Any, Any]]:
        """Read many arrays at once. An engine with a round trip per read does it in one."""
        return [self.to_host(a) for a in arrays]

    def staging(self, data: Iterable[np.ndarray[Any, Any]], device: Device) -> list[np.ndarray[Any, Any]]:
        """The same host data, in memory from which a transfer to the device is fast (pinned, say)."""
        return list(data)

    def dlpack_device(self, array: Array) -> tuple[int, int]:
        """DLPack's device type and index of an array."""
        raise ExchangeError(f"{self.engine} does not export DLPack. Read the tensor with .numpy() instead.")

    def to_dlpack(self, array: Array, **options: Any) -> object:
        """A DLPack capsule of an array; options as in ``__dlpack__``."""
        raise ExchangeError(f"{self.engine} does not export DLPack. Read the tensor with .numpy() instead.")

    def from_dlpack(self, producer: object, device: Device) -> Array:
        """An array over the memory of a DLPack producer on a device that `dlpack_kinds` names; never a copy."""
        raise ExchangeError(f"{self.engine} does not import DLPack. Move the data over the host instead.")

    # --- dtypes ------------------------------------------------------------------------------------------------

    @abstractmethod
    def dtype_usage(self, device: Device, dtype: DType) -> DTypeUsage:
        """What the device can do with the dtype. The conformance kit tests that it is true."""

    def supports_dtype(self, device: Device, dtype: DType) -> bool:
        """Whether the dtype can be stored and computed with."""
        return DTypeUsage.GENERAL in self.dtype_usage(device, dtype)

    def advice(self, device: Device, dtype: DType) -> str:
        """What to do about a dtype that the device does not store; the end of the error that says so."""
        return "Cast to a dtype it has, or use another device."

    def flushes_subnormals(self, device: Device) -> bool:
        """Whether the device takes numbers nearer to 0 than the smallest normal one for 0, in operands and results."""
        return False

    # --- random state ------------------------------------------------------------------------------------------

    def seed(self, device: Device, seed: int) -> None:
        """Start the device's stream of seeds anew; the same program then draws the same numbers."""
        with self._seed_lock:
            self._seeds[device] = _seed_stream(seed)

    def next_seed(self, device: Device) -> int:
        """The seed of the next random op on the device. An op's numbers follow from its seed alone, so it can be replayed."""
        record = _replay.get()
        if record is not None:
            return record.next(lambda: self._draw_seed(device))
        return self._draw_seed(device)

    def _draw_seed(self, device: Device) -> int:
        with self._seed_lock:
            if device not in self._seeds:
                self._seeds[device] = _seed_stream(None)
            return next(self._seeds[device])

    # --- execution ---------------------------------------------------------------------------------------------

    def native(self, row: Op, dtype: DType) -> Native | None:
        """The engine's own function for an op on a dtype; None where the decomposition serves."""
        return self.natives.get(row.name)

    def execute(
        self, row: Op, arrays: Sequence[Any], attrs: Mapping[str, object], outputs: Sequence[Spec], native: Native
    ) -> Sequence[Array]:
        """Run one native; a layer that records or forwards ops instead of running them overrides this."""
        try:
            result = native(*arrays, **attrs)
        except IntermodalError:
            raise
        except MemoryError as error:
            raise OutOfMemoryError(
                f"{row.name}: {self.engine} has no memory for {_describe(outputs)}. Free tensors or work in smaller pieces.",
                reason=str(error),
            ) from error
        except Exception as error:
            raise ExecutionError(
                f"{row.name}: {self.engine} failed to compute {_describe(outputs)}: {error}", reason=str(error)
            ) from error
        return tuple(result) if row.multiple else (result,)

    def compile(self, program: Program) -> Callable[..., Sequence[Array]]:
        """One function for a whole program: of arrays in the order of its inputs, to arrays in the order of its outputs.

        An engine with a compiler gives it ``program.function()``; without one, the program runs op by op.
        """
        return program.function()

    def sync(self, device: Device) -> None:
        """Wait until all work on the device is done; raises ExecutionError if some of it failed."""

    # --- memory ------------------------------------------------------------------------------------------------

    @contextmanager
    def persistent_allocations(self, device: Device) -> Iterator[None]:
        """Inside the block, allocations are meant to live long (weights), so the engine may place them apart."""
        yield

    def memory_cleanup(self, device: Device) -> None:
        """Give cached memory of the device back to the system."""

    def memory_info(self, device: Device) -> MemoryInfo | None:
        """How much memory the device has and how much is free; None where the engine cannot tell."""
        return None

    # --- capabilities and options ------------------------------------------------------------------------------

    def features(self, device: Device) -> Mapping[str, object]:
        """What a probe cannot find out: names that `BackendCapabilities` lists (``flash_attention``, ``max_batch_size``), and the engine's own."""
        return {}

    def configure(self, device: Device, options: Mapping[str, object]) -> None:
        """Apply the options of a `BackendConfig` that were set. One that the engine does not have is refused, never ignored."""
        if options:
            raise UnsupportedError(f"{self.engine} has no option {', '.join(map(repr, options))}. Leave it unset.")


class _Replay:
    """Seeds that are drawn once and come again in the same order."""

    def __init__(self, seeds: list[int]) -> None:
        self.seeds, self.position = seeds, 0

    def next(self, draw: Callable[[], int]) -> int:
        if self.position == len(self.seeds):
            self.seeds.append(draw())
        self.position += 1
        return self.seeds[self.position - 1]


_replay: ContextVar[_Replay | None] = ContextVar("intermodal_seed_replay", default=None)


@contextmanager
def replayed_seeds(seeds: list[int]) -> Iterator[None]:
    """Inside the block, random ops take their seeds from the list; where it ends, new ones are drawn and added to it."""
    token = _replay.set(_Replay(seeds))
    try:
        yield
    finally:
        _replay.reset(token)


def _seed_stream(seed: int | None) -> Iterator[int]:
    generator = np.random.Generator(np.random.Philox(seed))
    while True:
        yield int(generator.integers(2**63))


def _describe(outputs: Sequence[Spec]) -> str:
    return ", ".join(f"a result of shape {s.shape} and dtype {s.dtype}" for s in outputs) or "its results"
