"""Losses of classes: the negative logarithm of a probability, and the cross entropy of logits.

Each takes ``reduction``: ``mean``, ``sum``, or ``none`` for one number per example. A mean over classes is weighted by
their weights; a target that does not count has neither loss nor gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from intermodal import dtypes
from intermodal.errors import InvalidValueError, ShapeError
from intermodal.ops import rules
from intermodal.ops.loss import each, loss_shape, reduced
from intermodal.ops.precision import narrow, wide
from intermodal.ops.rules import FLOAT, INTEGER
from intermodal.ops.table import Inferred, Shape, Spec, op, public_names

if TYPE_CHECKING:
    from intermodal.tensor import Tensor


def _class_rule(x: Spec, target: Spec, weight: Spec | None, axis: int, reduction: str) -> tuple[int, Shape]:
    """The class axis and the loss' shape."""
    along = rules.axis(axis, x.ndim)
    rest = x.shape[:along] + x.shape[along + 1 :]
    if target.shape != rest and not (target.dtype.is_floating and target.shape == x.shape):
        raise ShapeError(
            f"the input has shape {x.shape} with classes along axis {along}, so the target needs shape {rest}, one class for each; it has {target.shape}."
        )
    if weight is not None and weight.shape != (x.shape[along],):
        raise ShapeError(f"weight has shape {weight.shape}, but there are {x.shape[along]} classes. Give one number for each.")
    return along, loss_shape(rest, reduction)


def _infer_nll(x: Spec, target: Spec, weight: Spec | None, *, axis: int, ignore_index: int, reduction: str) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x, weight), FLOAT)
    rules.require(target.dtype, INTEGER, of="the target")
    along, shape = _class_rule(x, target, weight, axis, reduction)
    attrs = {"axis": along, "ignore_index": rules.integer(ignore_index, "ignore_index"), "reduction": reduction}
    return Inferred((Spec(shape, dtype),), attrs, (dtype, None, dtype))


class _Counted(NamedTuple):
    """Which targets count, a class for each, and the gradient of each loss over what the mean divides by."""

    counted: Tensor
    chosen: Tensor
    share: Tensor


def _counted(g: Tensor, x: Spec, target: Tensor, weight: Tensor | None, axis: int, ignore_index: int, reduction: str) -> _Counted:
    counted, chosen = _true_class(x, target, axis, ignore_index)
    share = wide(g)
    if reduction == "mean":
        total = sum(where(counted, _weight_of(chosen, weight, share), 0.0))
        share = divide(share, where(equal(total, 0.0), 1.0, total))  # if none counts, none has a gradient
    return _Counted(counted, chosen, where(counted, share, 0.0))


def _weight_of(chosen: Tensor, weight: Tensor | None, like: Tensor) -> Tensor:
    """The weight of each class that was chosen."""
    if weight is None:
        return full((), 1.0, dtype=like.dtype, device=like.device)
    return reshape(take(wide(weight), reshape(chosen, (-1,)), axis=0), chosen.shape)


def _per_class(values: Tensor, chosen: Tensor, classes: int) -> Tensor:
    """The sums of what belongs to each class."""
    empty = full((classes,), 0.0, dtype=values.dtype, device=values.device)
    return scatter(empty, reshape(chosen, (-1,)), reshape(values, (-1,)), axis=0, mode="add")


def _nll_by_x(
    g: Tensor, x_spec: Spec, target: Tensor, weight: Tensor | None, axis: int, ignore_index: int, reduction: str
) -> Tensor:
    _, chosen, share = _counted(g, x_spec, target, weight, axis, ignore_index, reduction)
    factor = multiply(share, _weight_of(chosen, weight, share))
    empty = full(x_spec.shape, 0.0, dtype=factor.dtype, device=g.device)
    return scatter(empty, expand_dims(chosen, axis=axis), expand_dims(negative(factor), axis=axis), axis=axis, mode="add")


def _nll_by_weight(
    g: Tensor, x: Tensor, target: Tensor, weight: Tensor, out: Tensor, axis: int, ignore_index: int, reduction: str
) -> Tensor:
    counted, chosen, share = _counted(g, _spec(x), target, weight, axis, ignore_index, reduction)
    loss = negative(_chosen_of(wide(x), chosen, axis))
    # A weight moves what the mean divides by, too.
    loss = subtract(loss, wide(out)) if reduction == "mean" else loss
    return _per_class(where(counted, multiply(loss, share), 0.0), chosen, x.shape[axis])


def _chosen_of(x: Tensor, chosen: Tensor, axis: int) -> Tensor:
    return squeeze(take_along_axis(x, expand_dims(chosen, axis=axis), axis=axis), axis)


def _spec(x: Tensor) -> Spec:
    return Spec(x.shape, x.dtype)


@op(infer=_infer_nll, namespace="nn", vjp={"x": _nll_by_x, "weight": _nll_by_weight})
def nll_loss(
    x: Tensor,
    /,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    axis: int = 1,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """The negative logarithm of the probability that was given to the true class.

    Args:
        x: logarithms of probabilities, with classes along ``axis``.
        target: the true classes: the input's shape without that axis. A class that there is not raises.
        weight: a factor for each class; a mean is weighted by it.
        axis: the classes' axis.
        ignore_index: a target that does not count.
        reduction: ``mean``, ``sum`` or ``none``.
    """
    logs = wide(x)
    counted, chosen = _true_class(x, target, axis, ignore_index)
    loss = negative(_chosen_of(logs, chosen, axis))
    factor = multiply(astype(counted, logs.dtype), _weight_of(chosen, weight, logs))
    return narrow(_weighted(where(counted, loss, 0.0), factor, factor, reduction), x.dtype)


def _true_class(x: Tensor | Spec, target: Tensor, axis: int, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Which targets count, and a class for each: 0 for those that do not."""
    if target.dtype not in (dtypes.int32, dtypes.int64):  # which hold the size of an axis, and what is to be ignored
        target = astype(target, dtypes.int64 if target.dtype.bits > 16 else dtypes.int32)
    counted = not_equal(target, ignore_index)
    # A negative class would count from the end; it is a mistake here, and past the end it is refused.
    known = where(less(target, 0), x.shape[axis], target)
    return counted, where(counted, known, 0)


def _weighted(loss: Tensor, factor: Tensor, share: Tensor, reduction: str) -> Tensor:
    """Losses times their factors; a mean is over the shares."""
    weighed = multiply(loss, factor)
    return divide(sum(weighed), sum(share)) if reduction == "mean" else reduced(weighed, reduction)


def _infer_cross_entropy(
    x: Spec, target: Spec, weight: Spec | None, *, axis: int, ignore_index: int, label_smoothing: float, reduction: str
) -> Inferred:
    soft = target.dtype.is_floating
    dtype = rules.require(rules.operand_dtype(x, weight, target if soft else None), FLOAT)
    rules.require(target.dtype, INTEGER | FLOAT, of="the target")
    along, shape = _class_rule(x, target, weight, axis, reduction)
    if soft and target.shape != x.shape:
        raise ShapeError(
            f"a target of probabilities needs the input's shape {x.shape}, but has {target.shape}. Give integers for one class each."
        )
    if not 0 <= label_smoothing <= 1:
        raise InvalidValueError(f"label_smoothing {label_smoothing} must lie between 0 and 1.")
    attrs = {
        "axis": along,
        "ignore_index": rules.integer(ignore_index, "ignore_index"),
        "label_smoothing": float(label_smoothing),
        "reduction": reduction,
    }
    return Inferred((Spec(shape, dtype),), attrs, (dtype, dtype if soft else None, dtype))


def _infer_cross_entropy_grad(x: Spec, target: Spec, factor: Spec, *, axis: int) -> Inferred:
    rules.require(x.dtype, FLOAT)
    rules.require(target.dtype, INTEGER, of="the target")
    rules.require(factor.dtype, FLOAT, of="the factor")
    along, shape = _class_rule(x, target, None, axis, "none")
    if factor.shape != shape:
        raise ShapeError(f"the factor has shape {factor.shape}, but {shape} is needed: one for each target.")
    return Inferred((x,), {"axis": along}, (x.dtype, None, None))


@op(infer=_infer_cross_entropy_grad, namespace="nn")
def cross_entropy_grad(x: Tensor, target: Tensor, factor: Tensor, /, *, axis: int = 1) -> Tensor:
    """The derivative of `cross_entropy` by its logits: the `softmax`, less 1 at the true class, times a factor.

    Args:
        x: logits, with classes along ``axis``.
        target: the true classes, integers of the input's shape without that axis.
        factor: for each target the gradient of its loss.
        axis: the classes' axis.
    """
    shares = softmax(wide(x), axis=axis)
    rest = scatter(shares, expand_dims(target, axis=axis), -1.0, axis=axis, mode="add")
    return narrow(multiply(rest, expand_dims(astype(factor, shares.dtype), axis=axis)), x.dtype)


def _soft_target(target: Tensor, label_smoothing: float, classes: int) -> Tensor:
    return add(multiply(wide(target), 1 - label_smoothing), label_smoothing / max(1, classes))


def _along(weight: Tensor, axis: int, ndim: int) -> Tensor:
    """Weights of classes in a shape that broadcasts."""
    return reshape(wide(weight), (-1, *(1,) * (ndim - 1 - rules.axis(axis, ndim))))


def _spread(g: Tensor, x: Tensor, axis: int, reduction: str) -> Tensor:
    """The gradient of each loss beside the classes' axis, where a mean counts all alike."""
    share = each(g, x.size // max(1, x.shape[axis]), reduction)
    return expand_dims(share, axis=axis) if reduction == "none" else share


def _entropy_by_x(
    g: Tensor,
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    axis: int,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
) -> Tensor:
    if target.dtype.is_floating:
        shares = _soft_target(target, label_smoothing, x.shape[axis])
        shares = shares if weight is None else multiply(shares, _along(weight, axis, x.ndim))
        whole = multiply(softmax(wide(x), axis=axis), sum(shares, axis=axis, keepdims=True))
        return multiply(subtract(whole, shares), _spread(g, x, axis, reduction))
    _, chosen, share = _counted(g, _spec(x), target, weight, axis, ignore_index, reduction)
    factor = multiply(share, _weight_of(chosen, weight, share))
    plain = cross_entropy_grad(x, chosen, multiply(factor, 1 - label_smoothing), axis=axis)
    if label_smoothing == 0:
        return plain
    classes = x.shape[axis]
    weights = full((), 1.0, dtype=share.dtype, device=g.device) if weight is None else _along(weight, axis, x.ndim)
    total = float(classes) if weight is None else sum(wide(weight))
    rest = subtract(multiply(softmax(wide(x), axis=axis), total), weights)
    return add(plain, multiply(rest, expand_dims(multiply(share, label_smoothing / classes), axis=axis)))


def _entropy_by_target(
    g: Tensor, x: Tensor, target_spec: Spec, weight: Tensor | None, axis: int, label_smoothing: float, reduction: str
) -> Tensor | None:
    logs = log_softmax(wide(x), axis=axis)
    logs = logs if weight is None else multiply(logs, _along(weight, axis, x.ndim))
    return multiply(logs, multiply(_spread(g, x, axis, reduction), label_smoothing - 1))


def _entropy_by_weight(
    g: Tensor,
    x: Tensor,
    target: Tensor,
    weight: Tensor,
    out: Tensor,
    axis: int,
    ignore_index: int,
    label_smoothing: float,
    reduction: str,
) -> Tensor:
    logs, classes = log_softmax(wide(x), axis=axis), x.shape[axis]
    rest = tuple(a for a in range(x.ndim) if a != axis)
    if target.dtype.is_floating:
        shares = _soft_target(target, label_smoothing, classes)
        terms = where(equal(shares, 0.0), 0.0, multiply(shares, logs))
        return negative(sum(multiply(terms, _spread(g, x, axis, reduction)), axis=rest))
    counted, chosen, share = _counted(g, _spec(x), target, weight, axis, ignore_index, reduction)
    loss = multiply(_chosen_of(logs, chosen, axis), label_smoothing - 1)
    loss = subtract(loss, wide(out)) if reduction == "mean" else loss
    plain = _per_class(where(counted, multiply(loss, share), 0.0), chosen, classes)
    if label_smoothing == 0:
        return plain
    share = multiply(share, label_smoothing / classes)
    return subtract(plain, sum(multiply(logs, expand_dims(share, axis=axis)), axis=rest))


@op(
    infer=_infer_cross_entropy,
    namespace="nn",
    vjp={"x": _entropy_by_x, "target": _entropy_by_target, "weight": _entropy_by_weight},
)
def cross_entropy(
    x: Tensor,
    /,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    axis: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """The cross entropy between the classes' `softmax` and the target.

    Args:
        x: logits, with classes along ``axis``.
        target: the true classes, integers of the input's shape without that axis; or their probabilities, floats of its shape.
        weight: a factor for each class; a mean over classes is weighted by it, one over probabilities is not.
        axis: the classes' axis.
        ignore_index: a class that does not count.
        label_smoothing: the part of the target that is spread over all classes.
        reduction: ``mean``, ``sum`` or ``none``.

    Example:
        >>> import intermodal as im
        >>> im.nn.cross_entropy(im.zeros((2, 4)), im.asarray([0, 3]))
        Tensor(1.3862944, dtype=float32, device=numpy:cpu)
    """
    logs = log_softmax(wide(x), axis=axis)
    classes = x.shape[axis]
    factors = None if weight is None else _along(weight, axis, x.ndim)
    if target.dtype.is_floating:
        shares = _soft_target(target, label_smoothing, classes)
        # What cannot be and is not meant to be costs nothing: 0 times the logarithm of 0 is 0.
        terms = where(equal(shares, 0.0), 0.0, multiply(shares, logs))
        terms = terms if factors is None else multiply(terms, factors)
        return narrow(reduced(negative(sum(terms, axis=axis)), reduction), x.dtype)
    plain = nll_loss(logs, target, weight, axis=axis, ignore_index=ignore_index, reduction=reduction)
    if label_smoothing == 0:
        return narrow(plain, x.dtype)
    counted, chosen = _true_class(x, target, axis, ignore_index)
    spread = negative(sum(logs if factors is None else multiply(logs, factors), axis=axis))
    share = multiply(astype(counted, logs.dtype), _weight_of(chosen, weight, logs))
    smooth = _weighted(where(counted, spread, 0.0), astype(counted, logs.dtype), share, reduction)
    return narrow(add(multiply(plain, 1 - label_smoothing), multiply(smooth, label_smoothing / classes)), x.dtype)


from intermodal.ops.activation import (
    log_softmax,
    softmax,
)  # families use each other; bodies look names up when they run
from intermodal.ops.creation import full
from intermodal.ops.elementwise import (
    add,
    divide,
    equal,
    less,
    multiply,
    negative,
    not_equal,
    subtract,
    where,
)
from intermodal.ops.manipulation import astype, expand_dims, reshape, squeeze
from intermodal.ops.reduction import sum
from intermodal.ops.searching import scatter, take, take_along_axis

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
