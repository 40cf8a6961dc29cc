"""NumPy natives of optimizers' steps: in place on what the step itself has made."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from intermodal.engines.numpy.natives import native

__all__: list[str] = []


@native
def adam_step(
    parameter: Any,
    gradient: Any,
    mean: Any,
    mean_square: Any,
    step: Any,
    rate: Any,
    first: float,
    second: float,
    eps: float,
    decay: float,
) -> Any:
    step, rate = float(step), float(rate)  # either may be a 0-d array
    part = np.subtract(gradient, mean, out=...)
    part *= 1.0 - first
    mean = np.add(mean, part, out=...)
    np.multiply(gradient, gradient, out=part)
    part *= 1.0 - second
    mean_square = np.multiply(mean_square, second, out=...)
    mean_square += part
    np.sqrt(mean_square, out=part)
    part *= 1.0 / math.sqrt(1.0 - second**step)
    part += eps
    np.divide(mean, part, out=part)
    part *= -rate / (1.0 - first**step)
    part += parameter * (1.0 - rate * decay) if decay else parameter
    return part, mean, mean_square
