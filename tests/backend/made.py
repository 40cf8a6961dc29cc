"""Engines made for a test from NumPy's, and taken out again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import intermodal as im
from intermodal import backend
from intermodal.engines.numpy import NumpyBackend

Make = Callable[..., im.Device]


def make_engine(stack: ExitStack, name: str, kind: str = "cpu", /, **members: Any) -> im.Device:
    """NumPy's backend under another name and with other members."""
    device = im.Device(f"{name}:{kind}")
    there = {"engine": name, "devices": lambda self: (device,), **members}
    backend.register(name, type(name, (NumpyBackend,), there))
    stack.callback(backend.unregister, name)
    return device


@pytest.fixture
def make() -> Iterator[Make]:
    with ExitStack() as stack:
        yield lambda name, kind="cpu", /, **members: make_engine(stack, name, kind, **members)
