"""The devices under test: a new engine joins the whole suite here."""

from __future__ import annotations

import os
from importlib.util import find_spec

# JAX compiles each op for each shape, so the suite takes five times as long with it: INTERMODAL_TEST_JAX=1 asks for that.
# Its own tests, the conformance kit's and those of moves run on it always.
_ENGINES = ("torch", "jax") if os.environ.get("INTERMODAL_TEST_JAX") == "1" else ("torch",)
DEVICES = ["numpy:cpu", *(f"{engine}:cpu" for engine in _ENGINES if find_spec(engine))]
if os.environ.get("INTERMODAL_TEST_ONNX") == "1" and find_spec("onnxruntime"):
    DEVICES.append("onnx:cpu")
