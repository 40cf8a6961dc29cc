"""`Layer`: a backend that wraps a backend. Its arrays hold an array of the inner one and something besides."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from intermodal.backend.contract import Array, Backend, DTypeUsage, Native
from intermodal.backend.memory import MemoryInfo
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.ops.table import Inferred, Op

__all__ = ["Layer"]


class Layer(Backend):
    """A backend over another. Ops come to `run`; everything about data is asked of the inner backend."""

    defers = True

    def __init__(self, inner: Backend) -> None:
        super().__init__()
        self.inner = inner
        self.takes_scalars = inner.takes_scalars  # type: ignore[misc]  # a layer's class variables are its inner backend's
        self.engine = inner.engine  # type: ignore[misc]
        self.holds_data = inner.holds_data  # type: ignore[misc]
        self.lifts = inner.lifts  # type: ignore[misc]

    @abstractmethod
    def value(self, array: Array) -> Array:
        """The inner backend's array in one of this layer's."""

    @abstractmethod
    def run(self, row: Op, place: Any, values: list[Any], inferred: Inferred) -> Any:
        """Run an op of which an operand is in this layer; operands are tensors, checked and brought to one dtype."""

    def recorder(self, plan: Any, place: Any, values: Sequence[Any]) -> Any:
        """What runs a plan on operands of this layer, by its ``run(operands, arrays)``; None where such calls come to `run` each time."""
        return None

    @abstractmethod
    def move(self, x: Any, device: Any, copy: bool | None) -> Any:
        """A tensor of this layer on another device."""

    def following(self) -> AbstractContextManager[None]:
        """What is around the ops by which a view follows a write to what it shows: they run when it is next read, wherever that is."""
        return nullcontext()

    def devices(self) -> Sequence[Device]:
        return self.inner.devices()

    def name(self, device: Device) -> str:
        return self.inner.name(device)

    def shape(self, array: Array) -> tuple[int, ...]:
        return self.inner.shape(self.value(array))

    def from_host(self, data: np.ndarray[Any, Any], device: Device, *, copy: bool | None = None) -> Array:
        return self.inner.from_host(data, device, copy=copy)

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        return self.inner.to_host(self.value(array))

    def host_view(self, array: Array) -> np.ndarray[Any, Any] | None:
        return self.inner.host_view(self.value(array))

    def transaction(self, arrays: Sequence[Array]) -> list[np.ndarray[Any, Any]]:
        return self.inner.transaction([self.value(a) for a in arrays])

    def dlpack_device(self, array: Array) -> tuple[int, int]:
        return self.inner.dlpack_device(self.value(array))

    def to_dlpack(self, array: Array, **options: Any) -> object:
        return self.inner.to_dlpack(self.value(array), **options)

    def dtype_usage(self, device: Device, dtype: DType) -> DTypeUsage:
        return self.inner.dtype_usage(device, dtype)

    def advice(self, device: Device, dtype: DType) -> str:
        return self.inner.advice(device, dtype)

    def flushes_subnormals(self, device: Device) -> bool:
        return self.inner.flushes_subnormals(device)

    def seed(self, device: Device, seed: int) -> None:
        self.inner.seed(device, seed)

    def next_seed(self, device: Device) -> int:
        return self.inner.next_seed(device)

    def native(self, row: Op, dtype: DType) -> Native | None:
        return self.inner.native(row, dtype)

    def sync(self, device: Device) -> None:
        self.inner.sync(device)

    def memory_cleanup(self, device: Device) -> None:
        self.inner.memory_cleanup(device)

    def memory_info(self, device: Device) -> MemoryInfo | None:
        return self.inner.memory_info(device)

    def features(self, device: Device) -> Mapping[str, object]:
        return self.inner.features(device)
