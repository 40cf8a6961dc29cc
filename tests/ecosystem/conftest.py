"""SciPy reads SCIPY_ARRAY_API once, when it is imported: it is set here, before any test of this folder imports SciPy."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

import intermodal as im

os.environ["SCIPY_ARRAY_API"] = "1"

if "scipy" in sys.modules:
    from scipy._lib._array_api import SCIPY_ARRAY_API

    if not SCIPY_ARRAY_API:
        raise pytest.UsageError("SciPy was imported without SCIPY_ARRAY_API=1. Export it, or run tests/ecosystem on its own.")


@pytest.fixture(autouse=True)
def in_scope(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both libraries bring the results of compiled code back with ``xp.asarray(result)``: that lands on the default device."""
    device = request.getfixturevalue("device") if "device" in request.fixturenames else im.default_device()
    with im.config.scope(device=device):
        yield
