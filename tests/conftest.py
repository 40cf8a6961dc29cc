"""What the tests share: the devices under test, and quiet floating-point edges."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from matrix import DEVICES

import intermodal as im


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> im.Device:
    return im.Device(request.param)


@pytest.fixture(autouse=True)
def _quiet_floating_point() -> Iterator[None]:
    # NumPy warns where a result is infinite or NaN; the tests ask for such results on purpose.
    with np.errstate(all="ignore"):
        yield
