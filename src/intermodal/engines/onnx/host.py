"""What is computed on the host, by NumPy's natives on the arrays' own memory: ops for which ONNX has no operator, with the reason.

These are for eager calls on devices whose memory is the host's; a model cannot hold them, and on other devices they raise.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

from intermodal.backend import Native
from intermodal.dtypes import DType
from intermodal.engines.numpy import NumpyBackend
from intermodal.engines.onnx.memory import OnnxArray, enter, host
from intermodal.ops.table import Op

__all__ = ["HOST", "MOVES", "on_host"]

_COMPLEX: Final = "complex numbers, which ONNX Runtime does not have: a call is refused before it comes here"
HOST: Final[dict[str, str]] = {
    "qr": "no operator of ONNX factorizes a matrix",
    "svd": "no operator of ONNX factorizes a matrix",
    "eigh": "no operator of ONNX factorizes a matrix",
    "eig": _COMPLEX,
    "fft": _COMPLEX,
    "complex": _COMPLEX,
    "imag": _COMPLEX,
    "pow": "of integers: Pow goes through float64, and a negative exponent is to be refused, which no operator does",
    "randint": "no operator of ONNX draws integers, and none follows from a seed that is an operand",
}
"""Primitives without a lowering, or without one for some dtypes, and why."""

MOVES: Final[dict[str, str]] = {
    "reshape": "the same memory with other sizes",
    "expand_dims": "the same memory with other sizes",
    "squeeze": "the same memory with other sizes",
    "basic_index": "a copy of a part; a session would be another one for every place",
    "basic_put": "a copy and a write; a session would be another one for every place",
    "full": "one number written many times; a session would be another one for every shape",
    "empty": "memory as it is",
    "arange": "a session would be another one for every length",
}
"""Ops that have a lowering and move memory only: on the host, an eager call needs no session for them."""


@cache
def _numpy() -> NumpyBackend:
    return NumpyBackend()


def on_host(row: Op, dtype: DType) -> Native:
    """NumPy's native of an op, on the arrays' own memory."""
    function = _numpy().native(row, dtype)
    assert function is not None  # the reference has every primitive

    def native(device: Any, /, *arrays: Any, **attrs: Any) -> Any:
        with np.errstate(all="ignore"):
            result = function(*map(_opened, arrays), **attrs)
        if isinstance(result, tuple):
            return tuple(enter(np.asarray(r), device) for r in result)
        return enter(np.asarray(result), device)

    return native


def _opened(value: Any) -> Any:
    if isinstance(value, OnnxArray):
        return host(value)
    return [_opened(v) for v in value] if isinstance(value, list) else value
