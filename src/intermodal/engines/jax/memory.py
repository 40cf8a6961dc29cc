"""Between the host and JAX: devices by their address, and arrays that enter without a copy where they can."""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from intermodal.devices import Device

__all__ = ["device_of", "devices", "enter", "read", "settled", "shares", "trim"]


@lru_cache(maxsize=1)
def devices() -> dict[Device, jax.Device]:
    """JAX's devices by address: those of its default backend first, then the host's CPU, which is always there."""
    found: dict[Device, jax.Device] = {}
    for group in (jax.devices(), jax.devices("cpu")):
        for i, one in enumerate(group):
            found.setdefault(Device(f"jax:{one.platform}:{i}"), one)
    return found


def device_of(array: Any) -> Device:
    """The address of the device that an array is on."""
    (there,) = array.devices()
    return next(address for address, one in devices().items() if one == there)


def enter(host: np.ndarray[Any, Any], device: Device) -> Any:
    """A host array on a device, for good: JAX moves what is not committed to a device as it likes.

    On the CPU an array in C order on a 64-byte boundary is taken as it is; any other is copied, and nothing warns.
    """
    return jax.device_put(host, devices()[device])


def read(array: Any) -> np.ndarray[Any, Any]:
    """An array's data on the host. It is waited for first: JAX ends the process where work has failed that it did not wait for."""
    return np.asarray(array.block_until_ready())


def settled(array: jax.Array, device: Device) -> jax.Array:
    """A user's array with its dtype and device for good: JAX gives way with what has them only by default. Its memory stays."""
    if array.committed and not array.weak_type:
        return array
    place = jax.sharding.SingleDeviceSharding(devices()[device])
    return jax.make_array_from_single_device_arrays(array.shape, place, [array])


def shares(array: Any, host: np.ndarray[Any, Any]) -> bool:
    """Whether JAX's array lies in the host array's memory."""
    return bool(array.unsafe_buffer_pointer() == host.ctypes.data) if array.size else True


def trim() -> None:
    """Have the C library give back what has been freed: of 130 MB that 60 compiled functions took, 80 stay with it else."""
    release = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None  # glibc has it, musl does not
    if release is not None:
        release(0)
