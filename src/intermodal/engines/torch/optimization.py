"""PyTorch natives of optimizers' steps: in place on what the step itself has made."""

from __future__ import annotations

import math
from typing import Any

import torch

from intermodal.engines.torch.natives import FLOATS, native

__all__: list[str] = []


@native(only=FLOATS)
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
    mean = mean.lerp(gradient, 1.0 - first)
    mean_square = mean_square.mul(second).addcmul_(gradient, gradient, value=1.0 - second)
    if isinstance(step, torch.Tensor) or isinstance(rate, torch.Tensor):  # numbers that compiled code reads when it runs
        size = mean_square.sqrt().div_(torch.sqrt(_correction(second, step)).to(mean.dtype)).add_(eps)
        moved = torch.div(mean, size).mul_(_as_factor(rate / _correction(first, step), mean))
        return (parameter * _as_factor(1.0 - rate * decay, mean) if decay else parameter) - moved, mean, mean_square
    size = mean_square.sqrt().div_(math.sqrt(1.0 - second**step)).add_(eps)
    # PyTorch's addcdiv makes its result at once; a decayed parameter is a copy already.
    factor = -rate / (1.0 - first**step)
    moved = (
        parameter.mul(1.0 - rate * decay).addcdiv_(mean, size, value=factor)
        if decay
        else parameter.addcdiv(mean, size, value=factor)
    )
    return moved, mean, mean_square


def _correction(beta: float, step: Any) -> torch.Tensor:
    count = torch.as_tensor(step, dtype=torch.float32)
    return -torch.expm1(count * math.log(beta)) if beta else torch.ones_like(count)


def _as_factor(value: Any, like: torch.Tensor) -> Any:
    return value.to(like.dtype) if isinstance(value, torch.Tensor) else value
