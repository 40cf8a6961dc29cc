"""NumPy natives of the rows that are derivatives: in few passes over the data, and in place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from intermodal.engines.numpy.natives import native
from intermodal.engines.numpy.nn import COLUMNS, exchanged, padded, sliding_window

__all__: list[str] = []


@native
def conv_weight_grad(x: Any, gradient: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    rank, batch, out, counts = x.ndim - 2, x.shape[0], gradient.shape[1], gradient.shape[2:]
    found = padded(x, padding)
    for i in range(rank):
        found = sliding_window(found, 2 + i, kernel_size[i], stride[i], dilation[i])
    found = exchanged(found[(slice(None), slice(None), *map(slice, counts))], rank)
    depth, windows = x.shape[1] // groups * math.prod(kernel_size), math.prod(counts)
    rows = gradient.reshape(batch, groups, out // groups, windows)
    result = np.zeros((groups, out // groups, depth), x.dtype)
    chunk = max(1, COLUMNS // max(1, groups * depth * windows))
    for i in range(0, batch, chunk):
        part = found[i : i + chunk]
        columns = part.reshape(len(part), groups, depth, windows)
        result += np.matmul(rows[i : i + chunk], columns.swapaxes(-1, -2)).sum(0)
    return result.reshape(out, x.shape[1] // groups, *kernel_size)
