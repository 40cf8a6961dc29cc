from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import intermodal as im
from intermodal import backend
from intermodal.engines.numpy import NumpyBackend


@pytest.fixture
def given() -> Iterator[list[Any]]:
    """What the natives of an engine that takes no scalars are given for its second operand."""
    seen: list[Any] = []

    def watched(name: str) -> Any:
        native = NumpyBackend.natives[name]
        return lambda x, y, **attrs: seen.append(y) or native(x, y, **attrs)

    natives = {**NumpyBackend.natives, "repeat": watched("repeat"), "multiply": watched("multiply")}
    device = im.Device("plain:cpu")
    made = type(
        "Plain",
        (NumpyBackend,),
        {"engine": "plain", "takes_scalars": False, "natives": natives, "devices": lambda self: (device,)},
    )
    backend.register("plain", made)
    yield seen
    backend.unregister("plain")


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32"])
def test_a_count_reaches_an_engine_as_an_integer_whatever_it_counts(given: list[Any], dtype: str) -> None:
    x = im.ones((2, 3), dtype=dtype, device="plain:cpu")
    assert im.repeat(x, 3, axis=1).shape == (2, 9)
    assert (given[0].dtype, given[0].tolist()) == (np.dtype(np.int64), 3)


def test_a_scalar_operand_reaches_an_engine_in_the_dtype_of_the_other(given: list[Any]) -> None:
    im.multiply(im.ones(3, dtype="float32", device="plain:cpu"), 2)
    assert (given[0].dtype, given[0].tolist()) == (np.dtype(np.float32), 2.0)
