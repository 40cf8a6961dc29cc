"""An engine that has NumPy's primitives and nothing else: on it every other op runs as its decomposition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from matrix import DEVICES

import intermodal as im
from intermodal import backend
from intermodal.engines.numpy import NumpyBackend
from intermodal.engines.numpy.natives import NATIVES
from intermodal.ops import TABLE

WAYS = [*DEVICES, "primitives:cpu"]
"""The devices under test, and the one on which every row is decomposed down to the primitives."""


class PrimitivesBackend(NumpyBackend):
    engine = "primitives"
    takes_scalars = False  # as on most engines
    natives = {name: function for name, function in NATIVES.items() if TABLE[name].is_primitive}

    def devices(self) -> Sequence[im.Device]:
        return (im.Device("primitives:cpu"),)


@contextmanager
def open_device(name: str) -> Iterator[im.Device]:
    """A device of `WAYS`; the engine of primitives is there for as long as the block runs."""
    backend.register("primitives", PrimitivesBackend)
    try:
        yield im.Device(name)
    finally:
        backend.unregister("primitives")
