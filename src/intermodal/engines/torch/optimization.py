"""PyTorch natives of optimizers' steps: in place on what the step itself has made."""

from __future__ import annotations

import math
from typing import Any

from intermodal.engines.torch.natives import FLOATS, native

__all__: list[str] = []


@native(only=FLOATS)
def adam_step(
    parameter: Any,
    gradient: Any,
    mean: Any,
    mean_square: Any,
    step: int,
    rate: float,
    first: float,
    second: float,
    eps: float,
    decay: float,
) -> Any:
    mean = mean.lerp(gradient, 1.0 - first)
    mean_square = mean_square.mul(second).addcmul_(gradient, gradient, value=1.0 - second)
    size = mean_square.sqrt().div_(math.sqrt(1.0 - second**step)).add_(eps)
    # PyTorch's addcdiv makes its result at once; a decayed parameter is a copy already.
    factor = -rate / (1.0 - first**step)
    moved = (
        parameter.mul(1.0 - rate * decay).addcdiv_(mean, size, value=factor)
        if decay
        else parameter.addcdiv(mean, size, value=factor)
    )
    return moved, mean, mean_square
