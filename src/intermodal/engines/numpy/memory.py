"""Host memory that starts on a 64-byte boundary, so that JAX and vector units can use it without a copy."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

__all__ = ["ALIGNMENT", "aligned_copy", "empty", "is_aligned"]

ALIGNMENT: Final = 64


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array that is not set yet, on a 64-byte boundary."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


def is_aligned(array: np.ndarray[Any, Any]) -> bool:
    """Whether the data starts on a 64-byte boundary."""
    return array.ctypes.data % ALIGNMENT == 0


def aligned_copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy in C order on a 64-byte boundary."""
    copy = empty(array.shape, array.dtype)
    copy[...] = array
    return copy
