"""NumPy natives of linear algebra and Fourier transforms."""

from __future__ import annotations

from functools import partial

import numpy as np

from intermodal.engines.numpy.natives import NATIVES

__all__: list[str] = []

NATIVES["matmul"] = partial(np.matmul, out=...)
