"""Normalization: numbers brought to mean 0 and variance 1, over a batch, a layer, a group of channels or one of them.

Sums run in float32 for smaller floats. The variance is that of the elements at hand (divided by n, not n - 1), and
``eps`` is added to it under the root. All have one derivative, `norm_grad`: they differ in the axes over which they
normalize and in those that their weights belong to.
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


class NormGrad(NamedTuple):
    """Gradients of a normalization by its input, its weight and its bias."""

    x: Any
    weight: Any
    bias: Any


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


def _in_order(axis: AxisLike, ndim: int) -> tuple[int, ...]:
    """Axes as the tensor has them, however they were named: so a weight over them has one shape."""
    return tuple(sorted(rules.axes(axis, ndim)))


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


# --- the derivative ----------------------------------------------------------------------------------------------


def _infer_norm_grad(
    x: Spec, gradient: Spec, weight: Spec | None, *, axis: AxisLike, weight_axis: AxisLike, centred: bool, eps: float
) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x, gradient, weight), FLOAT)
    _check(x.shape, "the input's own", gradient=gradient)
    axes, own = _in_order(axis, x.ndim), _in_order(weight_axis, x.ndim)
    shape = tuple(x.shape[a] for a in own)
    _check(shape, f"the sizes of axis {weight_axis} of shape {x.shape}", weight=weight)
    attrs = {"axis": axes, "weight_axis": own, "centred": bool(centred), "eps": _eps(eps)}
    return Inferred((Spec(x.shape, dtype), Spec(shape, dtype), Spec(shape, dtype)), attrs, dtype)


@op(infer=_infer_norm_grad, namespace="nn", result=NormGrad)
def norm_grad(
    x: Tensor,
    gradient: Tensor,
    /,
    weight: Tensor | None = None,
    *,
    axis: AxisLike = -1,
    weight_axis: AxisLike = -1,
    centred: bool = True,
    eps: float = 1e-5,
) -> NormGrad:
    """The derivatives of a normalization by its input, its weight and its bias; the statistics are computed again.

    Args:
        x: what was normalized.
        gradient: of the result, which has the shape of the input.
        weight: what it was multiplied by; ones by default.
        axis: the axes over which mean and variance were taken.
        weight_axis: the axes that the weight and the bias have.
        centred: whether the mean was subtracted, as in `layer_norm`, or not, as in `rms_norm`.
        eps: what was added to the variance.
    """
    axes, own = _in_order(axis, x.ndim), _in_order(weight_axis, x.ndim)
    values, g = wide(x), wide(gradient)
    deviation = subtract(values, mean(values, axis=axes, keepdims=True)) if centred else values
    scale = divide(1.0, sqrt(add(mean(square(deviation), axis=axes, keepdims=True), eps)))
    normal = multiply(deviation, scale)
    inner = g if weight is None else multiply(g, _spread(wide(weight), own, x.ndim))
    rest = subtract(inner, multiply(normal, mean(multiply(inner, normal), axis=axes, keepdims=True)))
    rest = subtract(rest, mean(inner, axis=axes, keepdims=True)) if centred else rest
    others = tuple(a for a in range(x.ndim) if a not in own)
    return NormGrad(
        narrow(multiply(rest, scale), x.dtype),
        narrow(sum(multiply(g, normal), axis=others), x.dtype),
        narrow(sum(g, axis=others), x.dtype),
    )


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


def _channel_scale(var: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    scale = divide(1.0, sqrt(add(wide(var), eps)))
    return scale if weight is None else multiply(scale, wide(weight))


def _over_channel(x: Tensor, axis: int) -> Tensor:
    return sum(x, axis=tuple(a for a in range(x.ndim) if a != axis))


def _batch_by_x(g: Tensor, var: Tensor, weight: Tensor | None, axis: int, eps: float) -> Tensor:
    return multiply(wide(g), _spread(_channel_scale(var, weight, eps), (axis,), g.ndim))


def _batch_by_mean(g: Tensor, var: Tensor, weight: Tensor | None, axis: int, eps: float) -> Tensor:
    return negative(multiply(_over_channel(wide(g), axis), _channel_scale(var, weight, eps)))


def _batch_by_var(g: Tensor, x: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None, axis: int, eps: float) -> Tensor:
    slope = divide(_channel_scale(var, weight, eps), multiply(add(wide(var), eps), -2.0))
    return multiply(_along_deviation(g, x, mean, axis), slope)


def _batch_by_weight(g: Tensor, x: Tensor, mean: Tensor, var: Tensor, axis: int, eps: float) -> Tensor:
    return multiply(_along_deviation(g, x, mean, axis), _channel_scale(var, None, eps))


def _along_deviation(g: Tensor, x: Tensor, mean: Tensor, axis: int) -> Tensor:
    return _over_channel(multiply(wide(g), subtract(wide(x), _spread(wide(mean), (axis,), x.ndim))), axis)


@op(
    infer=_infer_batch_norm,
    namespace="nn",
    vjp={
        "x": _batch_by_x,
        "mean": _batch_by_mean,
        "var": _batch_by_var,
        "weight": _batch_by_weight,
        "bias": lambda g, axis: _over_channel(wide(g), axis),
    },
)
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
    centred = subtract(wide(x), _spread(wide(mean), along, x.ndim))
    return narrow(_affine(centred, _channel_scale(var, weight, eps), bias, along), x.dtype)


def _infer_batch_norm_training(x: Spec, weight: Spec | None, bias: Spec | None, *, axis: int, eps: float) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x, weight, bias), FLOAT)
    along, shape, why = _channels(x, axis)
    _check(shape, why, weight=weight, bias=bias)
    channel = Spec(shape, dtype)
    return Inferred((Spec(x.shape, dtype), channel, channel), {"axis": along, "eps": _eps(eps)}, dtype)


def _training_back(
    g: tuple[Tensor, Tensor, Tensor], x: Tensor, weight: Tensor | None, mean: Tensor, axis: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Of the values, and of the mean and the variance, which may have gone into something too."""
    rest = tuple(a for a in range(x.ndim) if a != axis)
    found = norm_grad(x, g[0], weight, axis=rest, weight_axis=axis, eps=eps)
    count = float(max(1, math.prod(x.shape[a] for a in rest)))
    by_mean, by_var = divide(wide(g[1]), count), divide(wide(g[2]), count / 2)
    by_mean, by_var, middle = (_spread(v, (axis,), x.ndim) for v in (by_mean, by_var, wide(mean)))
    more = add(multiply(subtract(wide(x), middle), by_var), by_mean)
    return add(found.x, more), found.weight, found.bias


@op(infer=_infer_batch_norm_training, namespace="nn", result=BatchNorm, vjp=_training_back)
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


def _infer_layer_norm(x: Spec, *given: Spec | None, axis: AxisLike, eps: float) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x, *given), FLOAT)
    axes = _in_order(axis, x.ndim)
    shape = tuple(x.shape[a] for a in axes)
    _check(shape, f"the sizes of axis {axis} of shape {x.shape}", **dict(zip(("weight", "bias"), given, strict=False)))
    return Inferred((Spec(x.shape, dtype),), {"axis": axes, "eps": _eps(eps)}, dtype)


def _layer_back(g: Tensor, x: Tensor, weight: Tensor | None, axis: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    found = norm_grad(x, g, weight, axis=axis, weight_axis=axis, eps=eps)
    return found.x, found.weight, found.bias


@op(infer=_infer_layer_norm, namespace="nn", vjp=_layer_back)
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


def _rms_back(g: Tensor, x: Tensor, weight: Tensor | None, axis: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    found = norm_grad(x, g, weight, axis=axis, weight_axis=axis, centred=False, eps=eps)
    return found.x, found.weight


@op(infer=_infer_layer_norm, namespace="nn", vjp=_rms_back)
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


def _group_back(g: Tensor, x: Tensor, weight: Tensor | None, num_groups: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    batch, channels = x.shape[:2]
    parts = (batch, num_groups, channels // num_groups, math.prod(x.shape[2:]))
    factors = None if weight is None else reshape(weight, parts[1:3])
    found = norm_grad(reshape(x, parts), reshape(g, parts), factors, axis=(2, 3), weight_axis=(1, 2), eps=eps)
    return reshape(found.x, x.shape), reshape(found.weight, (channels,)), reshape(found.bias, (channels,))


@op(infer=_infer_group_norm, namespace="nn", vjp=_group_back)
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


def _instance_back(g: Tensor, x: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    return _group_back(g, x, weight, x.shape[1], eps)


@op(infer=_infer_instance_norm, namespace="nn", vjp=_instance_back)
def instance_norm(x: Tensor, /, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5) -> Tensor:
    """Mean 0 and variance 1 over the spatial axes of each channel of each example, then a weight and a bias for each channel."""
    values, _, _ = _centred(wide(x), tuple(range(2, x.ndim)), eps)
    return narrow(_affine(values, weight, bias, (1,)), x.dtype)


from intermodal.ops.elementwise import (  # families use each other; bodies look names up when they run
    add,
    divide,
    multiply,
    negative,
    sqrt,
    square,
    subtract,
)
from intermodal.ops.manipulation import reshape
from intermodal.ops.reduction import mean, sum

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
