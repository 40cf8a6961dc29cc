"""SciPy reads SCIPY_ARRAY_API once, when it is imported: it is set here, before any test of this folder imports SciPy."""

from __future__ import annotations

import os
import sys

import pytest

os.environ["SCIPY_ARRAY_API"] = "1"

if "scipy" in sys.modules:
    from scipy._lib._array_api import SCIPY_ARRAY_API

    if not SCIPY_ARRAY_API:
        raise pytest.UsageError("SciPy was imported without SCIPY_ARRAY_API=1. Export it, or run tests/ecosystem on its own.")
