from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "jax", "tensorflow", "scipy", "sklearn", "pandas", "ray", "onnxruntime", "rich", "typer")


def test_import_loads_nothing_heavier_than_numpy_and_ml_dtypes() -> None:
    program = "import intermodal, sys; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    third_party = {m for m in loaded if m not in sys.stdlib_module_names and not m.startswith("_")}
    assert third_party <= {"intermodal", "numpy", "ml_dtypes", "sitecustomize", "cython_runtime"}
    assert not third_party & set(HEAVY)


def test_import_loads_no_engine() -> None:
    program = "import intermodal, sys; print(*[m for m in sys.modules if m.startswith('intermodal.engines.')])"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []
