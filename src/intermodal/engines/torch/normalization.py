"""PyTorch natives of normalization and of its derivative.

PyTorch's own kernels subtract the mean last, and keep fewer digits where it is large. There it is subtracted before.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from intermodal.engines.torch.natives import FLOATS, native, traced

__all__: list[str] = []


class Statistics(NamedTuple):
    """Numbers in float32 or wider, less their mean if that is large; their mean now, and what brings the variance to 1."""

    values: Any
    mean: Any
    scale: Any


def statistics(x: Any, axis: tuple[int, ...], centred: bool, eps: float) -> Statistics:
    """What a normalization over axes needs. If it is not centred, the mean is 0 by definition."""
    wide = x.to(torch.float32) if x.itemsize < 4 else x
    count = math.prod(x.shape[a] for a in axis) or math.nan
    square = torch.linalg.vector_norm(wide, dim=axis, keepdim=True).square_().div_(count)
    if not centred:
        return Statistics(wide, torch.zeros_like(square), torch.rsqrt(square.add_(eps)))
    mean = wide.mean(axis, keepdim=True)
    var = square - mean * mean
    if (
        x.is_cpu and not traced(x) and bool((mean * mean <= var).all())
    ):  # then the difference loses one bit at most, and nobody has to wait for it
        return Statistics(wide, mean, torch.rsqrt(var.add_(eps)))
    values = wide - mean
    values -= values.mean(axis, keepdim=True)  # a large mean is rounded by as much as the numbers are
    var = torch.linalg.vector_norm(values, dim=axis, keepdim=True).square_().div_(count)
    return Statistics(values, torch.zeros_like(mean), torch.rsqrt(var.add_(eps)))


def _spread(x: Any, axes: tuple[int, ...], ndim: int) -> Any:
    """A weight over some axes, in a shape that broadcasts."""
    sizes = dict(zip(axes, x.shape, strict=True))
    return x.reshape([sizes.get(a, 1) for a in range(ndim)])


@native(only=FLOATS)
def layer_norm(x: Any, weight: Any, bias: Any, axis: tuple[int, ...], eps: float) -> Any:
    if _may_ask(x) and axis == tuple(range(axis[0], x.ndim)):
        result, mean, scale = torch.native_layer_norm(_dense(x), x.shape[axis[0] :], _dense(weight), _dense(bias), eps)
        if bool((mean * scale).abs_().max() <= 1):
            return result
    values, mean, scale = statistics(x, axis, True, eps)
    return _affine((values - mean).mul_(scale), weight, bias, axis).to(x.dtype)


@native(only=FLOATS)
def rms_norm(x: Any, weight: Any, axis: tuple[int, ...], eps: float) -> Any:
    values, _, scale = statistics(x, axis, False, eps)
    return _affine(values * scale, weight, None, axis).to(x.dtype)


@native(only=FLOATS)
def group_norm(x: Any, weight: Any, bias: Any, num_groups: int, eps: float) -> Any:
    batch, channels, *rest = x.shape
    if _may_ask(x):
        factor, term = _dense(weight), _dense(bias)
        result, mean, scale = torch.native_group_norm(_dense(x), factor, term, batch, channels, math.prod(rest), num_groups, eps)
        if bool((mean * scale).abs_().max() <= 1):
            return result
    parts = x.reshape(batch, num_groups, channels // num_groups * math.prod(rest))
    values, mean, scale = statistics(parts, (2,), True, eps)
    return _affine((values - mean).mul_(scale).reshape(x.shape), weight, bias, (1,)).to(x.dtype)


@native(only=FLOATS)
def instance_norm(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    return group_norm(x, weight, bias, x.shape[1] or 1, eps)


def _may_ask(x: Any) -> bool:
    """Whether a kernel's result can be looked at without waiting for it, to see whether the mean was large."""
    return bool(x.is_cpu and not traced(x) and x.itemsize >= 4 and x.numel())


def _dense(x: Any) -> Any:
    """As these kernels read memory, which have no strides; those of groups do not look whether there are some."""
    return None if x is None else x.contiguous()


def _affine(x: Any, weight: Any, bias: Any, axes: tuple[int, ...]) -> Any:
    if weight is not None:
        x *= _spread(weight, axes, x.ndim)
    if bias is not None:
        x += _spread(bias, axes, x.ndim)
    return x


# --- the derivative ----------------------------------------------------------------------------------------------


@native(only=FLOATS)
def norm_grad(
    x: Any, gradient: Any, weight: Any, axis: tuple[int, ...], weight_axis: tuple[int, ...], centred: bool, eps: float
) -> Any:
    values, mean, scale = statistics(x, axis, centred, eps)
    g = gradient.to(values.dtype)
    factor = None if weight is None else weight.to(values.dtype)
    if centred and x.numel():
        found = _by_kernel(_dense(values), mean, scale, _dense(g), _dense(factor), axis, weight_axis)
        if found is not None:
            return tuple(a.to(x.dtype) for a in found)
    normal = (values - mean).mul_(scale) if centred else values * scale
    inner = g if factor is None else g * _spread(factor, weight_axis, x.ndim)
    result = inner - normal * (inner * normal).mean(axis, keepdim=True)
    if centred:
        result -= inner.mean(axis, keepdim=True)
    others = tuple(a for a in range(x.ndim) if a not in weight_axis)
    result *= scale
    sums = [v.sum(others) if others else v for v in (normal.mul_(g), g)]
    return tuple(a.to(x.dtype) for a in (result, *sums))


def _by_kernel(x: Any, mean: Any, scale: Any, g: Any, weight: Any, axis: tuple[int, ...], weight_axis: tuple[int, ...]) -> Any:
    """What PyTorch has a kernel for: layers, batches and groups of channels; else None."""
    all_three, shape = (True, True, True), tuple(x.shape)
    if axis == weight_axis == tuple(range(axis[0], x.ndim)):
        sizes = shape[axis[0] :]
        ones = x.new_ones(sizes) if weight is None else weight
        return torch.ops.aten.native_layer_norm_backward(g, x, sizes, mean, scale, ones, ones, all_three)
    if weight_axis == (1,) and axis == (0, *range(2, x.ndim)):
        ones = x.new_ones(shape[1]) if weight is None else weight
        means = mean.reshape(-1), scale.reshape(-1)
        return torch.ops.aten.native_batch_norm_backward(g, x, ones, None, None, *means, True, 0.0, all_three)
    if x.ndim == 4 and axis == (2, 3) and weight_axis == (1, 2):
        batch, groups, channels, rest = shape
        means = mean.reshape(batch, groups), scale.reshape(batch, groups)
        whole = (batch, groups * channels, rest)
        factor = x.new_ones(groups * channels) if weight is None else weight.reshape(-1)
        found = torch.ops.aten.native_group_norm_backward(
            g.reshape(whole), x.reshape(whole), *means, factor, *whole, groups, all_three
        )
        return found[0].reshape(shape), found[1].reshape(groups, channels), found[2].reshape(groups, channels)
    return None
