"""Normalization: numbers brought to mean 0 and variance 1, over a batch, a layer, a group of channels or one of them.

Sums run in float32 for smaller floats. The variance is that of the elements at hand (divided by n, not n - 1), and
``eps`` is added to it under the root.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from intermodal.errors import InvalidValueError, ShapeError
from intermodal.ops import rules
from intermodal.ops.precision import narrow, wide
from intermodal.ops.rules import FLOAT, AxisLike
from intermodal.ops.table import Inferred, Shape, Spec, op, public_names
from intermodal.ops.windows import at_least, require_spatial

if TYPE_CHECKING:
    from intermodal.tensor import Tensor


class BatchNorm(NamedTuple):
    """A normalized batch, and the mean and variance of each channel by which it was."""

    values: Any
    mean: Any
    var: Any


# --- what the rows share -----------------------------------------------------------------------------------------


def _eps(value: float) -> float:
    if not value >= 0:
        raise InvalidValueError(f"eps {value} must be 0 or more.")
    return float(value)


def _check(shape: Shape, why: str, **given: Spec | None) -> None:
    for name, x in given.items():
        if x is not None and x.shape != shape:
            raise ShapeError(f"{name} has shape {x.shape}, but {shape} is needed: {why}.")


def _spread(x: Tensor, axes: tuple[int, ...], ndim: int) -> Tensor:
    """A tensor over some axes of another, in a shape that broadcasts to it."""
    sizes = dict(zip(axes, x.shape, strict=True))
    return reshape(x, tuple(sizes.get(a, 1) for a in range(ndim)))


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None, axes: tuple[int, ...]) -> Tensor:
    """X times a weight plus a bias, both over some of its axes."""
    x = x if weight is None else multiply(x, _spread(wide(weight), axes, x.ndim))
    return x if bias is None else add(x, _spread(wide(bias), axes, x.ndim))


def _centred(x: Tensor, axes: AxisLike, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Mean 0 and variance 1 over axes; the mean and the variance that there were, with the axes kept."""
    middle = mean(x, axis=axes, keepdims=True)
    deviation = subtract(x, middle)
    spread = mean(square(deviation), axis=axes, keepdims=True)
    return divide(deviation, sqrt(add(spread, eps))), middle, spread


# --- over a batch ------------------------------------------------------------------------------------------------


def _channels(x: Spec, axis: int) -> tuple[int, Shape, str]:
    along = rules.axis(axis, x.ndim)
    return along, (x.shape[along],), f"one number for each channel, axis {along} of shape {x.shape}"


def _infer_batch_norm(
    x: Spec, mean: Spec, var: Spec, weight: Spec | None, bias: Spec | None, *, axis: int, eps: float
) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x, mean, var, weight, bias), FLOAT)
    along, shape, why = _channels(x, axis)
    _check(shape, why, mean=mean, var=var, weight=weight, bias=bias)
    return Inferred((Spec(x.shape, dtype),), {"axis": along, "eps": _eps(eps)}, dtype)


@op(infer=_infer_batch_norm, namespace="nn")
def batch_norm(
    x: Tensor,
    /,
    mean: Tensor,
    var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axis: int = 1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel less its mean, over the root of its variance, times a weight, plus a bias: the form for inference.

    Args:
        x: the input, with channels along ``axis``.
        mean: of each channel.
        var: of each channel.
        weight: a factor for each channel.
        bias: a number for each channel.
        axis: the channels' axis.
        eps: added to the variance.
    """
    along = (rules.axis(axis, x.ndim),)
    scale = divide(1.0, sqrt(add(wide(var), eps)))
    scale = scale if weight is None else multiply(scale, wide(weight))
    centred = subtract(wide(x), _spread(wide(mean), along, x.ndim))
    return narrow(_affine(centred, scale, bias, along), x.dtype)


def _infer_batch_norm_training(x: Spec, weight: Spec | None, bias: Spec | None, *, axis: int, eps: float) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x, weight, bias), FLOAT)
    along, shape, why = _channels(x, axis)
    _check(shape, why, weight=weight, bias=bias)
    channel = Spec(shape, dtype)
    return Inferred((Spec(x.shape, dtype), channel, channel), {"axis": along, "eps": _eps(eps)}, dtype)


@op(infer=_infer_batch_norm_training, namespace="nn", result=BatchNorm)
def batch_norm_training(
    x: Tensor, /, weight: Tensor | None = None, bias: Tensor | None = None, *, axis: int = 1, eps: float = 1e-5
) -> BatchNorm:
    """`batch_norm` by the batch's own mean and variance, which it returns too, for running averages."""
    along = rules.axis(axis, x.ndim)
    values, middle, spread = _centred(wide(x), tuple(a for a in range(x.ndim) if a != along), eps)
    flat = (x.shape[along],)
    return BatchNorm(
        narrow(_affine(values, weight, bias, (along,)), x.dtype),
        narrow(reshape(middle, flat), x.dtype),
        narrow(reshape(spread, flat), x.dtype),
    )


# --- over a layer ------------------------------------------------------------------------------------------------


def _in_order(axis: AxisLike, ndim: int) -> tuple[int, ...]:
    """Axes as the tensor has them, however they were named: so a weight over them has one shape."""
    return tuple(sorted(rules.axes(axis, ndim)))


def _infer_layer_norm(x: Spec, *given: Spec | None, axis: AxisLike, eps: float) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x, *given), FLOAT)
    axes = _in_order(axis, x.ndim)
    shape = tuple(x.shape[a] for a in axes)
    _check(shape, f"the sizes of axis {axis} of shape {x.shape}", **dict(zip(("weight", "bias"), given, strict=False)))
    return Inferred((Spec(x.shape, dtype),), {"axis": axes, "eps": _eps(eps)}, dtype)


@op(infer=_infer_layer_norm, namespace="nn")
def layer_norm(
    x: Tensor, /, weight: Tensor | None = None, bias: Tensor | None = None, *, axis: AxisLike = -1, eps: float = 1e-5
) -> Tensor:
    """Mean 0 and variance 1 over axes, times a weight, plus a bias, both of the sizes of these axes in the input's order.

    Example:
        >>> import intermodal as im
        >>> im.nn.layer_norm(im.asarray([[1.0, 3.0], [5.0, 9.0]]), eps=0.0)
        Tensor([[-1.,  1.],
                [-1.,  1.]], dtype=float32, device=numpy:cpu)
    """
    values, _, _ = _centred(wide(x), axis, eps)
    return narrow(_affine(values, weight, bias, _in_order(axis, x.ndim)), x.dtype)


@op(infer=_infer_layer_norm, namespace="nn")
def rms_norm(x: Tensor, /, weight: Tensor | None = None, *, axis: AxisLike = -1, eps: float = 1e-5) -> Tensor:
    """The numbers over the root of their mean square over axes, times a weight."""
    values = wide(x)
    size = sqrt(add(mean(square(values), axis=axis, keepdims=True), eps))
    return narrow(_affine(divide(values, size), weight, None, _in_order(axis, x.ndim)), x.dtype)


# --- over groups of channels -------------------------------------------------------------------------------------


def _infer_group_norm(x: Spec, weight: Spec | None, bias: Spec | None, *, num_groups: int, eps: float) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x, weight, bias), FLOAT)
    groups = at_least(1, num_groups, "num_groups")
    if x.ndim < 2 or x.shape[1] % groups:
        raise ShapeError(f"the input has shape {x.shape}, whose channels (axis 1) do not divide into {groups} groups.")
    _, shape, why = _channels(x, 1)
    _check(shape, why, weight=weight, bias=bias)
    return Inferred((Spec(x.shape, dtype),), {"num_groups": groups, "eps": _eps(eps)}, dtype)


@op(infer=_infer_group_norm, namespace="nn")
def group_norm(
    x: Tensor, /, weight: Tensor | None = None, bias: Tensor | None = None, *, num_groups: int, eps: float = 1e-5
) -> Tensor:
    """Mean 0 and variance 1 over each group of channels of each example, then a weight and a bias for each channel.

    Args:
        x: the input, (batch, channels, *rest).
        weight: a factor for each channel.
        bias: a number for each channel.
        num_groups: how many groups the channels form.
        eps: added to the variance.
    """
    parts = reshape(wide(x), (x.shape[0], num_groups, math.prod(x.shape[1:]) // num_groups))
    values, _, _ = _centred(parts, -1, eps)
    return narrow(_affine(reshape(values, x.shape), weight, bias, (1,)), x.dtype)


def _infer_instance_norm(x: Spec, weight: Spec | None, bias: Spec | None, *, eps: float) -> Inferred:
    require_spatial(x)
    found = _infer_group_norm(x, weight, bias, num_groups=1, eps=eps)
    return found._replace(attrs={"eps": found.attrs["eps"]})


@op(infer=_infer_instance_norm, namespace="nn")
def instance_norm(x: Tensor, /, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5) -> Tensor:
    """Mean 0 and variance 1 over the spatial axes of each channel of each example, then a weight and a bias for each channel."""
    values, _, _ = _centred(wide(x), tuple(range(2, x.ndim)), eps)
    return narrow(_affine(values, weight, bias, (1,)), x.dtype)


from intermodal.ops.elementwise import (  # families use each other; bodies look names up when they run
    add,
    divide,
    multiply,
    sqrt,
    square,
    subtract,
)
from intermodal.ops.manipulation import reshape
from intermodal.ops.reduction import mean

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
