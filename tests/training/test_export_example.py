"""The example of the page on ONNX: a network trained on JAX is served by ONNX Runtime alone, with the same answers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

for library in ("sklearn", "rich", "jax", "onnxruntime"):
    pytest.importorskip(library)

PROGRAM = Path(__file__).parents[2] / "examples" / "export_digits.py"
SERVER = """
import sys
import numpy as np
import onnxruntime
from sklearn.datasets import load_digits

digits = load_digits()
test = np.arange(len(digits.images)) % 5 == 0
images = (digits.images / 16.0).astype(np.float32)[test, None]
session = onnxruntime.InferenceSession(sys.argv[1])
found = session.run(None, {session.get_inputs()[0].name: images})[0].argmax(-1)
assert "intermodal" not in sys.modules
print(session.get_inputs()[0].shape, f"{np.mean(found == digits.target[test]):.2%}")
"""


def test_what_jax_learned_is_served_by_onnx_runtime_with_the_same_answers(tmp_path: Path) -> None:
    model = tmp_path / "digits.onnx"
    done = subprocess.run([sys.executable, str(PROGRAM), "--model", str(model)], capture_output=True, text=True, check=True)
    trained, *served = done.stdout.splitlines()
    share = re.fullmatch(r"jax:cpu: ([\d.]+%) of the test digits read rightly", trained)
    assert share is not None
    assert float(share[1][:-1]) >= 98
    assert len(served) == 3
    for line in served:
        assert f"{share[1]} read rightly, 0 of 360 read otherwise" in line
    alone = subprocess.run([sys.executable, "-c", SERVER, str(model)], capture_output=True, text=True, check=True)
    assert alone.stdout.strip() == f"['batch', 1, 8, 8] {share[1]}"
