"""What a program asks of a device besides ops: wait for it, read many tensors at once, free memory, know its dtypes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from intermodal import conversion
from intermodal.backend import Backend, DTypeUsage, backend_of, check_device
from intermodal.config import default_device
from intermodal.devices import Device, DeviceLike, as_device
from intermodal.dtypes import DTypeLike, as_dtype
from intermodal.errors import ArgumentError
from intermodal.tensor import Tensor

__all__ = ["device_count", "devices", "dtype_usage", "memory_cleanup", "persistent_allocations", "read", "supports_dtype", "sync"]


def _resolve(device: DeviceLike | None) -> tuple[Backend, Device]:
    target = default_device() if device is None else as_device(device)
    return check_device(target), target


def devices(engine: str | None = None) -> tuple[Device, ...]:
    """The devices of an engine, by default those of the default device's engine.

    Example:
        >>> devices("numpy")
        (Device('numpy:cpu'),)
    """
    return tuple(backend_of(default_device().engine if engine is None else engine).devices())


def device_count(engine: str, kind: str = "cpu") -> int:
    """How many devices of a kind an engine has."""
    return backend_of(engine).device_count(kind)


def dtype_usage(dtype: DTypeLike, device: DeviceLike | None = None) -> DTypeUsage:
    """What a device can do with a dtype.

    Example:
        >>> dtype_usage("float8_e5m2")
        <DTypeUsage.STORAGE: 1>
    """
    backend, target = _resolve(device)
    return backend.dtype_usage(target, as_dtype(dtype))


def supports_dtype(dtype: DTypeLike, device: DeviceLike | None = None) -> bool:
    """Whether a device both stores a dtype and computes with it."""
    backend, target = _resolve(device)
    return backend.supports_dtype(target, as_dtype(dtype))


def sync(device: DeviceLike | None = None) -> None:
    """Wait until all work on a device is done; raises ExecutionError if some of it failed."""
    backend, target = _resolve(device)
    backend.sync(target)


def memory_cleanup(device: DeviceLike | None = None) -> None:
    """Give memory that the engine keeps for later back to the system."""
    backend, target = _resolve(device)
    backend.memory_cleanup(target)


def persistent_allocations(device: DeviceLike | None = None) -> AbstractContextManager[None]:
    """Inside the block, new tensors are meant to live long (weights), so the engine may place them apart."""
    backend, target = _resolve(device)
    return backend.persistent_allocations(target)


def read(*tensors: Tensor) -> list[np.ndarray[Any, Any]]:
    """The data of many tensors as NumPy, in one transaction for each device.

    Example:
        >>> import intermodal as im
        >>> [a.sum() for a in im.read(im.ones(2), im.ones(3))]
        [np.float32(2.0), np.float32(3.0)]
    """
    groups: dict[Device, list[int]] = {}
    for i, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise ArgumentError(f"read: argument {i} is a {type(x).__name__}, not a tensor. Give tensors only.")
        groups.setdefault(x.device, []).append(i)
    found: dict[int, np.ndarray[Any, Any]] = {}
    for members in groups.values():
        backend = tensors[members[0]]._place.backend
        found.update(zip(members, backend.transaction([tensors[i]._data for i in members]), strict=True))
    return [conversion.read_only(found[i]) for i in range(len(tensors))]
