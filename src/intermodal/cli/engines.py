"""What a loaded engine is asked for the lists: its devices, their memory and dtypes, and the ops it has itself."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from intermodal import dtypes
from intermodal.backend import Backend, DTypeUsage
from intermodal.backend.memory import host_memory
from intermodal.devices import Device
from intermodal.errors import NoDataError
from intermodal.ops.table import TABLE, Op

__all__ = ["USES", "devices_of", "holds_data", "natives_of"]

USES: Final = {"accelerated": DTypeUsage.ACCELERATED, "arithmetic": DTypeUsage.ARITHMETIC, "storage": DTypeUsage.STORAGE}


def devices_of(backend: Backend) -> dict[str, Any]:
    """The engine's name for people, and for each device its memory and the dtypes by use."""
    there = list(backend.devices())
    return {
        "name": backend.name(there[0]) if there else backend.engine,
        "devices": [
            {
                "device": str(device),
                "kind": device.kind,
                "index": device.index,
                "memory": _memory(backend, device),
                "dtypes": {
                    use: [d.name for d in dtypes.ALL if flag in backend.dtype_usage(device, d)] for use, flag in USES.items()
                },
            }
            for device in there
        ],
    }


def _memory(backend: Backend, device: Device) -> dict[str, int | None] | None:
    found = backend.memory_info(device)
    if found is None and device.kind == "cpu" and holds_data(backend, device):
        found = host_memory()  # where a device on the host lives, whether its engine says so or not
    return None if found is None else {"total": found.total, "free": found.free}


def natives_of(backend: Backend) -> dict[str, Any]:
    """For each op of the table: ``native``, ``decomposed`` or ``missing``."""
    there = backend.devices()
    computes = [d for d in dtypes.ALL if there and backend.supports_dtype(there[0], d)]
    return {"ops": {row.name: _support(backend, row, computes) for row in TABLE.values()}}


def _support(backend: Backend, row: Op, computes: list[dtypes.DType]) -> str:
    if any(backend.native(row, dtype) is not None for dtype in computes):
        return "native"
    return "missing" if row.is_primitive else "decomposed"


def holds_data(backend: Backend, device: Device) -> bool:
    """Whether tensors of a device can be read; those of ``meta`` have none."""
    try:
        backend.to_host(backend.from_host(np.zeros(1, np.float32), device))
    except NoDataError:
        return False
    return True
