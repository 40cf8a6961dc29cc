"""What the tests share: the devices under test, and quiet floating-point edges."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from matrix import DEVICES

import intermodal as im

# JAX has 64-bit dtypes only where it is told so before it loads; what it does without them is tested in processes of their own.
os.environ.setdefault("INTERMODAL_JAX_X64", "1")
# It compiles each op for each shape and dtype. What one run has compiled, the next one reads: a tenth of the time.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# A time limit for one example says more about the machine's load than about the code. Where the suite decides what lands, the
# examples are the same in each run; on a developer's machine they are new ones.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.register_profile("new examples", deadline=None)
settings.load_profile("steady" if os.environ.get("CI") else "new examples")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long form of a suite runs where it is asked for, with ``-m long``."""
    if "long" in config.option.markexpr:
        return
    long = {item for item in items if item.get_closest_marker("long") is not None}
    if long:
        config.hook.pytest_deselected(items=list(long))  # not skipped: of some there is one for each row and engine
        items[:] = [item for item in items if item not in long]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> im.Device:
    return im.Device(request.param)


@pytest.fixture(autouse=True)
def _quiet_floating_point() -> Iterator[None]:
    # NumPy warns where a result is infinite or NaN; the tests ask for such results on purpose.
    with np.errstate(all="ignore"):
        yield
