"""Donated tensors: their memory went to a compiled program, and every use of them says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from intermodal.backend import Array, Backend, DTypeUsage
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.errors import LifecycleError
from intermodal.places import made
from intermodal.tensor import Place, Tensor

__all__ = ["give_up"]


class _Gone(Backend):
    """The backend of tensors that are gone: it refuses everything."""

    defers = True
    holds_data = False

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.engine = device.engine  # type: ignore[misc]
        self.device = device

    def devices(self) -> Sequence[Device]:
        return (self.device,)

    def dtype_usage(self, device: Device, dtype: DType) -> DTypeUsage:
        return DTypeUsage.GENERAL

    def shape(self, array: Array) -> tuple[int, ...]:
        _refuse()

    def from_host(self, data: np.ndarray[Any, Any], device: Device, *, copy: bool | None = None) -> Array:
        _refuse()

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        _refuse()


def _refuse() -> NoReturn:
    raise LifecycleError(
        "this tensor was donated to a compiled function, and its memory is gone. Use what the function returned."
    )


_places: dict[tuple[Device, DType], Place] = {}


def give_up(tensor: Tensor) -> None:
    """Take a tensor's memory away."""
    tensor._raw, tensor._spot, tensor._share = None, _place(tensor.device, tensor.dtype), None


def _place(device: Device, dtype: DType) -> Place:
    found = _places.get((device, dtype))
    if found is None:
        found = _places.setdefault((device, dtype), made(_Gone(device), device, dtype, lambda other: _place(device, other)))
    return found
