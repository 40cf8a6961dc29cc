"""Losses of numbers and of sequences, and the similarity of vectors. Those of classes are in `classification`.

Each takes ``reduction``: ``mean``, ``sum``, or ``none`` for one number per element or example.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from intermodal import dtypes
from intermodal.errors import InvalidValueError, ShapeError
from intermodal.ops import rules
from intermodal.ops.precision import narrow, wide
from intermodal.ops.rules import FLOAT, INTEGER
from intermodal.ops.table import Inferred, Shape, Spec, op, public_names

if TYPE_CHECKING:
    from intermodal.tensor import Tensor

_REDUCTIONS: Final = ("mean", "sum", "none")
# Of the logarithms in `ctc_loss` this stands for minus infinity: sums of it stay finite, so that derivatives do too.
_IMPOSSIBLE: Final = -1e30


def reduced(x: Tensor, reduction: str) -> Tensor:
    """Losses as the reduction has them."""
    return x if reduction == "none" else mean(x) if reduction == "mean" else sum(x)


def loss_shape(shape: Shape, reduction: str) -> Shape:
    """The shape that the reduction leaves."""
    return shape if rules.one_of(reduction, "reduction", _REDUCTIONS) == "none" else ()


def each(g: Tensor, count: int, reduction: str) -> Tensor:
    """The gradient of each of the losses, in a shape that broadcasts to them."""
    return divide(wide(g), float(max(1, count))) if reduction == "mean" else wide(g)


# --- of numbers --------------------------------------------------------------------------------------------------


def _infer_same_shape(x: Spec, target: Spec, *given: Spec | None, reduction: str) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x, target, *given), FLOAT)
    if x.shape != target.shape:
        raise ShapeError(
            f"the input has shape {x.shape}, the target {target.shape}. Both must be equal; broadcast one if that is meant."
        )
    for name, factor in zip(("weight", "pos_weight"), given, strict=False):
        if factor is not None and (factor.ndim > x.ndim or rules.broadcast(factor.shape, x.shape) != x.shape):
            raise ShapeError(f"{name} has shape {factor.shape}, which does not broadcast to the input's {x.shape}.")
    return Inferred((Spec(loss_shape(x.shape, reduction), dtype),), {"reduction": reduction}, dtype)


def _mse_by_x(g: Tensor, x: Tensor, target: Tensor, reduction: str) -> Tensor:
    return multiply(subtract(wide(x), wide(target)), multiply(each(g, x.size, reduction), 2.0))


def _mse_by_target(g: Tensor, x: Tensor, target: Tensor, reduction: str) -> Tensor:
    return _mse_by_x(g, target, x, reduction)


@op(infer=_infer_same_shape, namespace="nn", vjp={"x": _mse_by_x, "target": _mse_by_target})
def mse_loss(x: Tensor, /, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """The squared difference.

    Example:
        >>> import intermodal as im
        >>> im.nn.mse_loss(im.asarray([1.0, 2.0]), im.asarray([1.0, 4.0]))
        Tensor(2., dtype=float32, device=numpy:cpu)
    """
    return narrow(reduced(square(subtract(wide(x), wide(target))), reduction), x.dtype)


def _times(x: Tensor, *factors: Tensor | None) -> Tensor:
    for factor in factors:
        x = x if factor is None else multiply(x, wide(factor))
    return x


def _binary_by_x(
    g: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: str
) -> Tensor:
    likely, yes = sigmoid(wide(x)), wide(target)
    part = _times(yes, pos_weight)
    slope = likely if pos_weight is None else multiply(likely, add(subtract(1.0, yes), part))
    return _times(subtract(slope, part), weight, each(g, x.size, reduction))


def _binary_by_target(g: Tensor, x: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: str) -> Tensor:
    # softplus(-x) - softplus(x) is -x
    logits = wide(x)
    slope = negative(logits) if pos_weight is None else subtract(_times(softplus(negative(logits)), pos_weight), softplus(logits))
    return _times(slope, weight, each(g, x.size, reduction))


def _binary_by_weight(g: Tensor, x: Tensor, target: Tensor, pos_weight: Tensor | None, reduction: str) -> Tensor:
    return multiply(_binary_losses(wide(x), wide(target), pos_weight), each(g, x.size, reduction))


def _binary_by_pos_weight(g: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    return _times(multiply(wide(target), softplus(negative(wide(x)))), weight, each(g, x.size, reduction))


def _binary_losses(logits: Tensor, yes: Tensor, pos_weight: Tensor | None) -> Tensor:
    surprise = _times(multiply(yes, softplus(negative(logits))), pos_weight)
    return add(surprise, multiply(subtract(1.0, yes), softplus(logits)))


@op(
    infer=_infer_same_shape,
    namespace="nn",
    vjp={
        "x": _binary_by_x,
        "target": _binary_by_target,
        "weight": _binary_by_weight,
        "pos_weight": _binary_by_pos_weight,
    },
)
def binary_cross_entropy_with_logits(
    x: Tensor, /, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """The cross entropy of yes-or-no questions, from the answers' logits.

    Args:
        x: the logits.
        target: the probability of yes, of the same shape.
        weight: a factor for each loss; it broadcasts.
        pos_weight: a factor for the part of yes; it broadcasts.
        reduction: ``mean``, ``sum`` or ``none``.
    """
    loss = _times(_binary_losses(wide(x), wide(target), pos_weight), weight)
    return narrow(reduced(loss, reduction), x.dtype)


def _infer_cosine(x1: Spec, x2: Spec, *, axis: int, eps: float) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x1, x2), FLOAT)
    shape = rules.broadcast(x1.shape, x2.shape)
    along = rules.axis(axis, len(shape))
    if not eps > 0:
        raise InvalidValueError(f"eps {eps} must be greater than 0.")
    return Inferred((Spec(shape[:along] + shape[along + 1 :], dtype),), {"axis": along - len(shape), "eps": float(eps)}, dtype)


@op(infer=_infer_cosine, namespace="nn")
def cosine_similarity(x1: Tensor, x2: Tensor, /, *, axis: int = -1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis; shorter ones than ``eps`` are taken to be that long."""
    shape = rules.broadcast(x1.shape, x2.shape)
    a, b = broadcast_to(wide(x1), shape), broadcast_to(wide(x2), shape)
    # The bound is put on the square: a root at 0 has no derivative.
    sizes = [sqrt(maximum(sum(square(v), axis=axis), eps * eps)) for v in (a, b)]
    return narrow(divide(divide(sum(multiply(a, b), axis=axis), sizes[0]), sizes[1]), x1.dtype)


# --- of sequences ------------------------------------------------------------------------------------------------


def _infer_ctc(
    x: Spec,
    targets: Spec,
    input_lengths: Spec,
    target_lengths: Spec,
    *,
    blank: int,
    reduction: str,
    zero_infinity: bool,
) -> Inferred:
    rules.require(x.dtype, FLOAT)
    if x.ndim != 3 or x.shape[0] == 0:
        raise ShapeError(f"the input has shape {x.shape}, but (time, batch, classes) with one step or more is needed.")
    _, batch, classes = x.shape
    if targets.ndim != 2 or targets.shape[0] != batch:
        raise ShapeError(
            f"the targets have shape {targets.shape}, but ({batch}, longest target) is needed: one row for each example."
        )
    for name, given in (("targets", targets), ("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        rules.require(given.dtype, INTEGER, of=name)
        if name != "targets" and given.shape != (batch,):
            raise ShapeError(f"{name} has shape {given.shape}, but ({batch},) is needed: one length for each example.")
    if not 0 <= rules.integer(blank, "blank") < classes:
        raise InvalidValueError(f"blank {blank} is no class: there are {classes}, from 0 on.")
    attrs = {"blank": rules.integer(blank, "blank"), "reduction": reduction, "zero_infinity": bool(zero_infinity)}
    return Inferred((Spec(loss_shape((batch,), reduction), x.dtype),), attrs)


@op(infer=_infer_ctc, namespace="nn")
def ctc_loss(
    x: Tensor,
    /,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    *,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """The negative logarithm of the probability that a sequence of classes, with blanks and repetitions, reads as the target.

    Args:
        x: logarithms of probabilities, (time, batch, classes).
        targets: the classes to be read, (batch, longest target); what lies past a target's length is not looked at.
        input_lengths: how many steps of time count for each example.
        target_lengths: how many classes of its row count for each example.
        blank: the class that reads as nothing.
        reduction: ``mean`` (of each loss over its target's length), ``sum`` or ``none``.
        zero_infinity: a target that is too long for its input counts 0 instead of infinity.
    """
    steps, batch, classes = x.shape
    place = arange(2 * targets.shape[1] + 1, device=x.device)
    labels = _with_blanks(astype(targets, dtypes.int64), target_lengths, place, blank, classes)
    heard = maximum(take_along_axis(wide(x), expand_dims(labels, axis=0), axis=2), _IMPOSSIBLE)
    never = full((batch, 2), _IMPOSSIBLE, dtype=heard.dtype, device=x.device)
    # A class may follow the one two places before, over the blank, unless it is the same or itself a blank.
    again = concat([full((batch, 2), blank, dtype=dtypes.int64, device=x.device), labels], axis=1)[:, : labels.shape[1]]
    skips = logical_and(not_equal(labels, blank), not_equal(labels, again))
    lengths = expand_dims(astype(input_lengths, dtypes.int64), axis=1)
    # Before the first step everything is still to be read; the first step reads a blank or the first class.
    alpha = broadcast_to(where(equal(place, 0), 0.0, astype(full((), _IMPOSSIBLE, device=x.device), heard.dtype)), labels.shape)
    alpha = where(greater(lengths, 0), where(less(place, 2), heard[0], _IMPOSSIBLE), alpha)
    for t in range(1, steps):
        shifted = concat([never, alpha], axis=1)
        one, two = shifted[:, 1:-1], where(skips, shifted[:, :-2], _IMPOSSIBLE)
        reached = add(logaddexp(logaddexp(alpha, one), two), heard[t])
        alpha = where(greater(lengths, t), reached, alpha)
    end = multiply(expand_dims(astype(target_lengths, dtypes.int64), axis=1), 2)
    last = take_along_axis(alpha, end, axis=1)
    before = where(greater(end, 0), take_along_axis(alpha, maximum(subtract(end, 1), 0), axis=1), _IMPOSSIBLE)
    likelihood = squeeze(logaddexp(last, before), 1)
    loss = where(less(likelihood, _IMPOSSIBLE / 10), 0.0 if zero_infinity else math.inf, negative(likelihood))
    if reduction == "mean":
        loss = divide(loss, astype(maximum(target_lengths, 1), loss.dtype))
    return narrow(reduced(loss, reduction), x.dtype)


def _with_blanks(targets: Tensor, target_lengths: Tensor, place: Tensor, blank: int, classes: int) -> Tensor:
    """Targets with a blank before, between and after their classes, (batch, 2 * longest + 1); past the length all are blanks."""
    batch, longest = targets.shape
    inside = less(arange(longest, device=place.device), expand_dims(target_lengths, axis=1))
    # A negative class would count from the end; it is a mistake here, and past the end it is refused.
    known = where(inside, where(less(targets, 0), classes, targets), blank)
    blanks = full((batch, longest, 1), blank, dtype=dtypes.int64, device=place.device)
    pairs = reshape(concat([blanks, expand_dims(known, axis=2)], axis=2), (batch, 2 * longest))
    return concat([pairs, full((batch, 1), blank, dtype=dtypes.int64, device=place.device)], axis=1)


from intermodal.ops.activation import (
    sigmoid,
    softplus,
)  # families use each other; bodies look names up when they run
from intermodal.ops.creation import arange, full
from intermodal.ops.elementwise import (
    add,
    divide,
    equal,
    greater,
    less,
    logaddexp,
    logical_and,
    maximum,
    multiply,
    negative,
    not_equal,
    sqrt,
    square,
    subtract,
    where,
)
from intermodal.ops.manipulation import astype, broadcast_to, concat, expand_dims, reshape, squeeze
from intermodal.ops.reduction import mean, sum
from intermodal.ops.searching import take_along_axis

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
