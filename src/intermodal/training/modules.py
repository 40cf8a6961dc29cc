"""Modules: dataclasses whose fields are tensors, numbers and other modules, so a model is a plain tree of parameters.

A module is called with tensors and changes nothing. What trains it makes a new tree; `trees.map_leaves` and all of
autodiff work on it as on any dict or list.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from intermodal.devices import DeviceLike
from intermodal.dtypes import DTypeLike
from intermodal.errors import InvalidValueError
from intermodal.ops import (
    attention as _a,
    convolution as _c,
    creation as _f,
    manipulation as _m,
    normalization as _n,
    random as _r,
)
from intermodal.tensor import Tensor

__all__ = ["Conv2d", "Dropout", "Embedding", "LayerNorm", "Linear", "MultiHeadAttention"]


def _uniform(shape: tuple[int, ...], fan_in: int, dtype: DTypeLike | None, device: DeviceLike | None) -> Tensor:
    """Weights whose sums over ``fan_in`` inputs of variance 1 have variance 1/3."""
    if not fan_in:
        return _f.zeros(shape, dtype=dtype, device=device)
    bound = 1.0 / math.sqrt(fan_in)
    return _r.uniform(shape, low=-bound, high=bound, dtype=dtype, device=device)


@dataclass(init=False, eq=False)
class Linear:
    """The linear layer x @ weight.T + bias.

    Example:
        >>> import intermodal as im
        >>> im.nn.Linear(3, 2)(im.ones((5, 3))).shape
        (5, 2)
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        bias: bool = True,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> None:
        self.weight = _uniform((out_features, in_features), in_features, dtype, device)
        self.bias = _uniform((out_features,), in_features, dtype, device) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        return _c.linear(x, self.weight, self.bias)


@dataclass(init=False, eq=False)
class Conv2d:
    """A convolution of images (batch, channels, height, width)."""

    weight: Tensor
    bias: Tensor | None
    stride: int | tuple[int, int]
    padding: int | tuple[int, int]
    groups: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        *,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        groups: int = 1,
        bias: bool = True,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> None:
        kernel = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
        fan_in = in_channels // groups * kernel[0] * kernel[1]
        self.weight = _uniform((out_channels, in_channels // groups, *kernel), fan_in, dtype, device)
        self.bias = _uniform((out_channels,), fan_in, dtype, device) if bias else None
        self.stride, self.padding, self.groups = stride, padding, groups

    def __call__(self, x: Tensor) -> Tensor:
        return _c.conv2d(x, self.weight, self.bias, stride=self.stride, padding=self.padding, groups=self.groups)


@dataclass(init=False, eq=False)
class LayerNorm:
    """Each sample brought to mean 0 and variance 1 over its last axis, then scaled and shifted."""

    weight: Tensor
    bias: Tensor
    eps: float

    def __init__(
        self, features: int, *, eps: float = 1e-5, dtype: DTypeLike | None = None, device: DeviceLike | None = None
    ) -> None:
        self.weight = _f.ones((features,), dtype=dtype, device=device)
        self.bias = _f.zeros((features,), dtype=dtype, device=device)
        self.eps = eps

    def __call__(self, x: Tensor) -> Tensor:
        return _n.layer_norm(x, self.weight, self.bias, eps=self.eps)


@dataclass(init=False, eq=False)
class Embedding:
    """A row of numbers for each of some entries, found by its index."""

    weight: Tensor

    def __init__(self, entries: int, features: int, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> None:
        self.weight = _r.normal((entries, features), dtype=dtype, device=device)

    def __call__(self, indices: Tensor) -> Tensor:
        return _a.embedding(self.weight, indices)


@dataclass(init=False, eq=False)
class Dropout:
    """Each element set to zero with a probability, the others grown to keep the mean; only when training."""

    rate: float

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, x: Tensor, *, training: bool = True) -> Tensor:
        return _r.dropout(x, rate=self.rate) if training and self.rate else x


@dataclass(init=False, eq=False)
class MultiHeadAttention:
    """Self-attention with several heads over (batch, sequence, features)."""

    project: Linear
    out: Linear
    heads: int

    def __init__(self, features: int, heads: int, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> None:
        if features % heads:
            raise InvalidValueError(f"MultiHeadAttention: {features} features do not divide into {heads} heads.")
        self.project = Linear(features, 3 * features, dtype=dtype, device=device)
        self.out = Linear(features, features, dtype=dtype, device=device)
        self.heads = heads

    def __call__(self, x: Tensor, *, is_causal: bool = False) -> Tensor:
        batch, length, features = x.shape
        split = self.project(x).reshape(batch, length, 3, self.heads, features // self.heads).permute_dims(2, 0, 3, 1, 4)
        query, key, value = _m.unstack(split)  # whose gradients are put together at once, as those of three indices are not
        mixed = _a.attention(query, key, value, is_causal=is_causal)
        return self.out(mixed.permute_dims(0, 2, 1, 3).reshape(batch, length, features))
