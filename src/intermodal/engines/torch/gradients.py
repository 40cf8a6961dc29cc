"""PyTorch natives of the rows that are derivatives: the kernels that PyTorch's own autograd runs."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from intermodal import dtypes
from intermodal.engines.torch.natives import FLOATS, native
from intermodal.engines.torch.nn import sliding_window
from intermodal.ops.windows import Geometry

__all__: list[str] = []


@native(only=FLOATS)
def conv_weight_grad(x: Any, gradient: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    geometry = Geometry(kernel_size, stride, padding, dilation)
    empty = 0 in x.shape or 0 in gradient.shape
    counts = tuple(gradient.shape[2:])
    plain = all(before == after for before, after in padding) and geometry.counts(tuple(x.shape[2:])) == counts
    if not plain or empty or len(stride) > 3:
        x, geometry = _under(x, counts, geometry), geometry._replace(padding=((0, 0),) * len(stride))
    if empty or len(stride) > 3:
        return _weight_grad_by_windows(x, gradient, geometry, groups)
    weight = x.new_empty((gradient.shape[1], x.shape[1] // groups, *kernel_size))
    sides = [before for before, _ in geometry.padding]
    answers = (False, True, False)
    return torch.ops.aten.convolution_backward(
        gradient, x, weight, None, stride, sides, dilation, False, [0] * len(stride), groups, answers
    )[1]


def _under(x: Any, counts: tuple[int, ...], geometry: Geometry) -> Any:
    """The input padded, or cut off, to what so many windows lie on."""
    sides = []
    for n, count, step, span, (before, _) in zip(
        x.shape[2:], counts, geometry.stride, geometry.reach, geometry.padding, strict=True
    ):
        sides.append((before, (count - 1) * step + span - n - before))
    return functional.pad(x, [side for pair in reversed(sides) for side in pair])


def _weight_grad_by_windows(x: Any, gradient: Any, geometry: Geometry, groups: int) -> Any:
    """Over more than three axes, or of nothing: what PyTorch's kernels do not take."""
    rank, batch, out, channels = len(geometry.kernel), x.shape[0], gradient.shape[1], x.shape[1] // groups
    for i in range(rank):
        x = sliding_window(x, 2 + i, geometry.kernel[i], geometry.stride[i], geometry.dilation[i])
    places, depth = batch * math.prod(gradient.shape[2:]), channels * math.prod(geometry.kernel)
    parts = x.reshape(batch, groups, channels, *x.shape[2:])
    rows = parts.permute(1, 0, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank)).reshape(groups, places, depth)
    return torch.matmul(gradient.transpose(0, 1).reshape(groups, out // groups, places), rows).reshape(
        out, channels, *geometry.kernel
    )


@native(only=FLOATS)
def relu_grad(gradient: Any, out: Any) -> Any:
    return torch.ops.aten.threshold_backward(*torch.broadcast_tensors(gradient, out), 0)


@native(only=FLOATS - {dtypes.float64})  # whose lower tail PyTorch's kernel loses
def gelu_grad(gradient: Any, x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        x = x.clamp(-16.0, 16.0)  # beyond, the slope is 0 or 1, and the cube of a large x overflows in the kernel
    return torch.ops.aten.gelu_backward(*torch.broadcast_tensors(gradient, x), approximate=approximate)
