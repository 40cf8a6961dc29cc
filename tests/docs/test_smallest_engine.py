from __future__ import annotations

import runpy
from typing import Any

import numpy as np
import pytest

import intermodal as im
from intermodal import backend
from intermodal.ops.table import TABLE

from .blocks import ROOT

EXAMPLE = ROOT / "examples" / "smallest_engine.py"
X = np.linspace(-2.0, 2.0, 12).reshape(3, 4)
# Ops that the example writes nowhere: their decompositions reach the primitives of every family.
PROGRAMS: dict[str, Any] = {
    "moments": lambda x: im.std(x, axis=1, correction=1) + im.logsumexp(x, axis=1),
    "order": lambda x: im.topk(x, 2).values - im.unique_values(im.round(x))[:2],
    "masks": lambda x: x[x > 0.5],
    "scatter": lambda x: im.index_put(x, [im.asarray([0, 0], device=x.device)], 1.0, mode="add"),
    "grids": lambda x: (
        im.pad(im.roll(x, 1, axis=0), 1, mode="reflect") + im.triu(im.ones((5, 6), dtype="float64", device=x.device))
    ),
    "solving": lambda x: im.linalg.solve(x @ x.T + im.eye(3, dtype="float64", device=x.device), x),
    "transforms": lambda x: im.abs(im.fft.rfft(x, axis=1)),
    "activation": lambda x: im.nn.gelu(x) + im.nn.softmax(x, axis=0),
}


@pytest.fixture
def engine() -> type[backend.Backend]:
    found = runpy.run_path(str(EXAMPLE))["SmallestBackend"]
    backend.register("smallest", found)
    return found  # the clean slate takes it out


def test_the_example_has_every_primitive_and_nothing_else(engine: type[backend.Backend]) -> None:
    assert set(engine.natives) == {row.name for row in TABLE.values() if row.is_primitive}


@pytest.mark.parametrize("name", PROGRAMS)
def test_ops_that_the_example_does_not_write_give_the_reference_results(engine: type[backend.Backend], name: str) -> None:
    wanted = PROGRAMS[name](im.asarray(X, device="numpy:cpu"))
    found = PROGRAMS[name](im.asarray(X, device="smallest:cpu"))
    assert (found.shape, found.dtype, found.device) == (wanted.shape, wanted.dtype, "smallest:cpu")
    # Both compute in float64 with sums of at most twelve terms of size 10: a hundred roundings of 10 eps bound the difference.
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=0, atol=1000 * np.finfo(np.float64).eps)


def test_an_error_reads_the_same_on_the_new_engine(engine: type[backend.Backend]) -> None:
    messages = []
    for device in ("numpy:cpu", "smallest:cpu"):
        with pytest.raises(im.ShapeError) as caught:
            im.ones((3, 4), device=device) @ im.ones((5, 6), device=device)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_a_dtype_that_the_example_lacks_is_refused(engine: type[backend.Backend]) -> None:
    with pytest.raises(im.UnsupportedError, match="smallest:cpu does not store bfloat16"):
        im.zeros(2, dtype=im.bfloat16, device="smallest:cpu")


def test_the_example_runs_as_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert capsys.readouterr().out.splitlines()[-1] == "Tensor([0.5, 1. ], dtype=float32, device=smallest:cpu)"
