"""The matrix of moves: each pair of engines in a process of its own, because what an engine is not spared may end the process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "move-tensors.md"
DEVICES = ["numpy:cpu", "torch:cpu", "jax:cpu", "onnx:cpu"]


def outcome(*arguments: str, **environment: str) -> Any:
    """What a process of Python prints as JSON; its end by a signal is a failure that names the signal."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "INTERMODAL_JAX_X64": "1"} | environment,
    )
    assert done.returncode == 0, f"the process ended with {done.returncode}: {done.stderr[-2000:]}"
    return json.loads(done.stdout)


def skip_without(*devices: str) -> None:
    for library in {device.partition(":")[0] for device in devices}:
        if find_spec("onnxruntime" if library == "onnx" else library) is None:
            pytest.skip(f"{library} is not installed")


def promised(target: str) -> dict[str, list[bool]]:
    """What the page says is shared on entering a device."""
    rows = [
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("|")
    ]
    head = next(i for i, row in enumerate(rows) if row[0] == "memory")
    column = rows[head].index(target)
    return {row[0]: [row[column] == "shared"] for row in rows[head + 2 :]}


@pytest.mark.parametrize(("source", "target"), [*product(DEVICES, DEVICES)])
def test_every_dtype_and_layout_arrives_equal_and_is_shared_or_copied_as_planned(source: str, target: str) -> None:
    skip_without(source, target)
    found = outcome(str(HERE / "crossing.py"), source, target)
    assert found["failures"] == []
    assert found["cases"] > 200
    assert found["shares"] == promised(target)


def test_the_end_of_the_process_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="the process ended with -6"):
        outcome("-c", "import os; os.abort()")


def test_what_jax_would_narrow_is_refused_with_the_setting() -> None:
    skip_without("jax")
    script = """
import json, numpy as np, intermodal as im
from intermodal import transfer
found = []
for dtype in (im.float64, im.int64, im.uint64, im.complex128):
    x = im.ones(3, dtype=dtype)
    for move in (lambda: x.to("jax:cpu"), lambda: transfer.plan(x, "jax:cpu"), lambda: im.asarray(x.numpy(), device="jax:cpu")):
        try:
            move()
        except im.UnsupportedError as error:
            found.append(str(dtype) in str(error) and "INTERMODAL_JAX_X64" in str(error))
print(json.dumps(found))
"""
    assert outcome("-c", script, INTERMODAL_JAX_X64="0") == [True] * 12


def test_an_array_of_a_library_is_recognised_without_importing_it() -> None:
    script = """
import json, sys, numpy as np, intermodal as im
class Tensor:  # as a wrapper may pretend to be one
    data = np.arange(3.0)
    def __dlpack__(self, **options):
        return self.data.__dlpack__(**options)
    def __dlpack_device__(self):
        return self.data.__dlpack_device__()
Tensor.__module__ = "torch"
x = im.asarray(Tensor())
print(json.dumps([str(x.device), x.tolist(), "torch" in sys.modules, "jax" in sys.modules]))
"""
    assert outcome("-c", script) == ["numpy:cpu", [0.0, 1.0, 2.0], False, False]
