"""Activations: the nonlinear functions between the layers of a network, elementwise or along one axis.

Where a formula has two stable halves, `where` picks the half before the exponential is taken. So nothing overflows,
and the derivative is that of the half in use, also at zero, where a formula through abs(x) would lose it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from intermodal.errors import InvalidValueError, ShapeError
from intermodal.ops import rules
from intermodal.ops.rules import FLOAT, REAL, elementwise
from intermodal.ops.table import Inferred, Spec, op, public_names

if TYPE_CHECKING:
    from intermodal.tensor import Tensor

_SELU_ALPHA = 1.6732632423543772848170429916717  # the fixed point of mean 0 and variance 1 (Klambauer et al., 2017)
_SELU_SCALE = 1.0507009873554804934193349852946
_TANH_SCALE = 2 * math.sqrt(2 / math.pi)  # of the approximate gelu, twice what stands before its tanh


@op(
    infer=elementwise(REAL),
    namespace="nn",
    vjp={"gradient": lambda g, out: where(less_equal(out, 0), 0, g), "out": lambda g: None},
)
def relu_grad(gradient: Tensor, out: Tensor, /) -> Tensor:
    """The derivative of `relu`, from its result: the gradient where that is positive or NaN, else 0."""
    return where(less_equal(out, 0), 0, gradient)


def _relu_by_x(g: Tensor, out: Tensor) -> Tensor:
    return relu_grad(g, out)


@op(infer=elementwise(REAL), namespace="nn", vjp={"x": _relu_by_x})
def relu(x: Tensor, /) -> Tensor:
    """The number where it is positive, else 0; NaN stays NaN.

    Example:
        >>> import intermodal as im
        >>> im.nn.relu(im.asarray([-1.0, 0.5]))
        Tensor([0. , 0.5], dtype=float32, device=numpy:cpu)
    """
    return maximum(x, 0)


def _between(out: Tensor, low: float, high: float) -> Tensor:
    """Where a number was not held by a bound. At a bound the slope is that of the level part, 0, as that of `relu` at 0."""
    return logical_and(greater(out, low), less(out, high))


@op(infer=elementwise(REAL), namespace="nn", vjp={"x": lambda g, out: where(_between(out, 0, 6), g, 0)})
def relu6(x: Tensor, /) -> Tensor:
    """The number held between 0 and 6."""
    return clip(x, 0, 6)


def _leaky_by_x(g: Tensor, x: Tensor, negative_slope: float) -> Tensor:
    if 0.0 < negative_slope <= 1.0:
        return g * clip(ceil(x), negative_slope, 1.0)  # the same slopes without a mask, in a fifth of the time
    return where(greater(x, 0.0), g, g * negative_slope)


@op(infer=elementwise(FLOAT), namespace="nn", vjp={"x": _leaky_by_x})
def leaky_relu(x: Tensor, /, *, negative_slope: float = 0.01) -> Tensor:
    """The number where it is positive, else a fraction of it."""
    return where(greater(x, 0.0), x, multiply(x, negative_slope))


def _infer_prelu(x: Spec, weight: Spec) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x, weight), FLOAT)
    channels = x.shape[1] if x.ndim > 1 else 1
    if weight.ndim > 1 or weight.size not in (1, channels):
        raise ShapeError(
            f"weight has shape {weight.shape}, but an input of shape {x.shape} needs one slope, or {channels} for its channels (axis 1)."
        )
    return Inferred((Spec(x.shape, dtype),), {}, dtype)


def _per_channel(weight: Tensor, ndim: int) -> Tensor:
    return reshape(weight, () if weight.size == 1 else (1, -1, *(1,) * (ndim - 2)))


def _prelu_by_x(g: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    return where(greater(x, 0.0), g, g * _per_channel(weight, x.ndim))


def _prelu_by_weight(g: Tensor, x: Tensor, weight_spec: Spec) -> Tensor:
    axes = None if weight_spec.size == 1 else tuple(i for i in range(x.ndim) if i != 1)
    return reshape(sum(g * minimum(x, 0.0), axis=axes), weight_spec.shape)


@op(infer=_infer_prelu, namespace="nn", vjp={"x": _prelu_by_x, "weight": _prelu_by_weight})
def prelu(x: Tensor, /, weight: Tensor) -> Tensor:
    """The number where it is positive, else a learned fraction of it: one for all, or one for each channel (axis 1)."""
    return where(greater(x, 0.0), x, multiply(x, _per_channel(weight, x.ndim)))


def _elu_by_x(g: Tensor, x: Tensor, alpha: float) -> Tensor:
    slope = exp(minimum(x, 0.0))
    return g * (slope if alpha == 1.0 else where(greater(x, 0.0), 1.0, slope * alpha))


@op(infer=elementwise(FLOAT), namespace="nn", vjp={"x": _elu_by_x})
def elu(x: Tensor, /, *, alpha: float = 1.0) -> Tensor:
    """The number where it is positive, else alpha * (exp(x) - 1)."""
    positive = greater(x, 0.0)
    return where(positive, x, multiply(expm1(where(positive, 0.0, x)), alpha))


def _selu_by_x(g: Tensor, out: Tensor) -> Tensor:
    # 1 above 0 and 0 below it, without a mask; then the slope is the scale, or alpha * scale * exp(x).
    above = clip(ceil(out), 0.0, 1.0)
    return g * (above * (_SELU_SCALE - _SELU_SCALE * _SELU_ALPHA) + (minimum(out, 0.0) + _SELU_SCALE * _SELU_ALPHA))


@op(infer=elementwise(FLOAT), namespace="nn", vjp={"x": _selu_by_x})
def selu(x: Tensor, /) -> Tensor:
    """A scaled `elu` whose constants keep mean 0 and variance 1 from layer to layer."""
    return multiply(elu(x, alpha=_SELU_ALPHA), _SELU_SCALE)


def _infer_gelu(x: Spec, *, approximate: str) -> Inferred:
    rules.require(x.dtype, FLOAT)
    return Inferred((x,), {"approximate": rules.one_of(approximate, "approximate", ("none", "tanh"))})


def _infer_gelu_grad(gradient: Spec, x: Spec, *, approximate: str) -> Inferred:
    dtype = rules.require(rules.operand_dtype(gradient, x), FLOAT)
    shape = rules.broadcast(gradient.shape, x.shape)
    return Inferred((Spec(shape, dtype),), {"approximate": rules.one_of(approximate, "approximate", ("none", "tanh"))}, dtype)


@op(infer=_infer_gelu_grad, namespace="nn")
def gelu_grad(gradient: Tensor, x: Tensor, /, *, approximate: str = "none") -> Tensor:
    """The derivative of `gelu` times a gradient."""
    dtype, x = x.dtype, wide(x)
    if approximate == "tanh":
        # (1 + tanh(u)) / 2 is sigmoid(2 u). Beyond 16 the slope is 0 or 1; the cube of a large x would overflow there.
        x = clip(x, -16.0, 16.0)
        squared = x * x
        share = sigmoid(x * (squared * (0.044715 * _TANH_SCALE) + _TANH_SCALE))
        bend = x * (squared * (3 * 0.044715 * _TANH_SCALE) + _TANH_SCALE)
        return narrow(wide(gradient) * (share * ((1.0 - share) * bend + 1.0)), dtype)
    z = x * -math.sqrt(0.5)
    return narrow((wide(gradient) * 0.5) * (erfc(z) - z * exp(math.log(2 / math.sqrt(math.pi)) - z * z)), dtype)


@op(infer=_infer_gelu, namespace="nn", vjp={"x": lambda g, x, approximate: gelu_grad(g, x, approximate=approximate)})
def gelu(x: Tensor, /, *, approximate: str = "none") -> Tensor:
    """The number times the share of a normal distribution that lies below it.

    Args:
        x: the tensor.
        approximate: ``none`` for the definition, ``tanh`` for the approximation that GPT-2 was trained with.
    """
    if approximate == "tanh":
        inner = multiply(add(x, multiply(multiply(multiply(x, x), x), 0.044715)), math.sqrt(2 / math.pi))
        return multiply(multiply(x, 0.5), add(tanh(inner), 1.0))
    return multiply(multiply(x, 0.5), erfc(multiply(x, -math.sqrt(0.5))))


@op(infer=elementwise(FLOAT), namespace="nn", vjp={"x": lambda g, out: g * (out * (1.0 - out))})
def sigmoid(x: Tensor, /) -> Tensor:
    """The logistic function, 1 / (1 + exp(-x)).

    Example:
        >>> import intermodal as im
        >>> im.nn.sigmoid(im.asarray([-1000.0, 0.0, 1000.0]))
        Tensor([0. , 0.5, 1. ], dtype=float32, device=numpy:cpu)
    """
    below = less(x, 0.0)
    small = exp(where(below, x, negative(x)))
    return divide(where(below, small, 1.0), add(small, 1.0))


@op(infer=elementwise(FLOAT), namespace="nn", vjp={"x": lambda g, out: -g * expm1(out)})
def log_sigmoid(x: Tensor, /) -> Tensor:
    """The logarithm of `sigmoid`, exact where the sigmoid itself would round to 0 or 1."""
    return negative(softplus(negative(x)))


@op(infer=elementwise(FLOAT), namespace="nn", vjp={"x": lambda g, out, alpha: where(_between(out, 0.0, 1.0), g * alpha, 0.0)})
def hard_sigmoid(x: Tensor, /, *, alpha: float = 1 / 6, beta: float = 0.5) -> Tensor:
    """The line alpha * x + beta, held between 0 and 1."""
    return clip(add(multiply(x, alpha), beta), 0.0, 1.0)


def _silu_by_x(g: Tensor, x: Tensor) -> Tensor:
    x = wide(x)
    share = sigmoid(x)
    return g * (share * ((1.0 - share) * x + 1.0))


@op(infer=elementwise(FLOAT), namespace="nn", vjp={"x": _silu_by_x})
def silu(x: Tensor, /) -> Tensor:
    """The number times its `sigmoid`, also called swish."""
    return multiply(x, sigmoid(x))


def _hard_swish_by_x(g: Tensor, x: Tensor) -> Tensor:
    slope = x * (1 / 3) + 0.5  # -0.5 and 1.5 at the bounds, where the slope is that of the lines beyond them
    return where(less_equal(x, -3.0), 0.0, where(greater_equal(x, 3.0), g, g * slope))


@op(infer=elementwise(FLOAT), namespace="nn", vjp={"x": _hard_swish_by_x})
def hard_swish(x: Tensor, /) -> Tensor:
    """The number times its `hard_sigmoid`."""
    return multiply(x, hard_sigmoid(x))


def _infer_softplus(x: Spec, *, beta: float) -> Inferred:
    rules.require(x.dtype, FLOAT)
    if not beta > 0:
        raise InvalidValueError(f"beta {beta} must be greater than 0.")
    return Inferred((x,), {"beta": float(beta)})


@op(infer=_infer_softplus, namespace="nn", vjp={"x": lambda g, x, beta: g * sigmoid(x if beta == 1.0 else x * beta)})
def softplus(x: Tensor, /, *, beta: float = 1.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta, a smooth `relu`."""
    z = x if beta == 1.0 else multiply(x, beta)
    above = greater(x, 0.0)
    bend = log1p(exp(where(above, negative(z), z)))
    return add(
        where(above, x, 0.0), bend if beta == 1.0 else divide(bend, beta)
    )  # the line itself is not scaled: that would overflow


def _mish_by_x(g: Tensor, x: Tensor) -> Tensor:
    x = wide(x)
    share = tanh(softplus(x))
    return g * ((1.0 - share * share) * (x * sigmoid(x)) + share)


@op(infer=elementwise(FLOAT), namespace="nn", vjp={"x": _mish_by_x})
def mish(x: Tensor, /) -> Tensor:
    """The number times tanh of its `softplus`."""
    return multiply(x, tanh(softplus(x)))


@op(infer=elementwise(FLOAT), namespace="nn", vjp={"x": lambda g, x: g / square(abs(x) + 1.0)})
def softsign(x: Tensor, /) -> Tensor:
    """X / (1 + abs(x))."""
    return divide(x, add(abs(x), 1.0))


def _infer_glu(x: Spec, *, axis: int) -> Inferred:
    rules.require(x.dtype, FLOAT)
    along = rules.axis(axis, x.ndim)
    if x.shape[along] % 2:
        raise ShapeError(f"axis {along} of shape {x.shape} has {x.shape[along]} elements, which do not halve. Give an even size.")
    return Inferred((Spec(tuple(n // 2 if i == along else n for i, n in enumerate(x.shape)), x.dtype),), {"axis": along})


def _glu_by_x(g: Tensor, x: Tensor, axis: int) -> Tensor:
    value, gate = split(x, 2, axis=axis)
    share = sigmoid(gate)
    by_value = g * share
    return concat([by_value, by_value * (1.0 - share) * value], axis=axis)


@op(infer=_infer_glu, namespace="nn", vjp={"x": _glu_by_x})
def glu(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """The first half along an axis times the `sigmoid` of the second."""
    value, gate = split(x, 2, axis=axis)
    return multiply(value, sigmoid(gate))


def _infer_along_axis(x: Spec, *, axis: int) -> Inferred:
    rules.require(x.dtype, FLOAT)
    return Inferred((x,), {"axis": rules.axis(axis, x.ndim)})


def _shifted(x: Tensor, axis: int) -> tuple[Tensor, Any, Any]:
    """The line less its maximum, the exponentials of that, and their sum; where all is -inf: -inf, zeros, and a 1 that divides."""
    high = max(x, axis=axis, keepdims=True)
    shifted = subtract(x, where(equal(high, -math.inf), 0.0, high))
    powers = exp(shifted)
    total = sum(powers, axis=axis, keepdims=True)
    return shifted, powers, where(equal(total, 0.0), 1.0, total)


def _softmax_by_x(g: Tensor, out: Tensor, axis: int) -> Tensor:
    out = wide(out)
    return out * (g - sum(g * out, axis=axis, keepdims=True))


@op(infer=_infer_along_axis, namespace="nn", vjp={"x": _softmax_by_x})
def softmax(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """Exponentials along an axis, divided by their sum. A line of nothing but -inf gives zeros, as a fully masked one should.

    Example:
        >>> import intermodal as im
        >>> im.nn.softmax(im.asarray([[1.0, 1.0, -im.inf, 1.0, 1.0], [-im.inf] * 5]))
        Tensor([[0.25, 0.25, 0.  , 0.25, 0.25],
                [0.  , 0.  , 0.  , 0.  , 0.  ]], dtype=float32, device=numpy:cpu)
    """
    if x.shape[axis] == 0:
        return x
    _, powers, total = _shifted(wide(x), axis)
    return narrow(divide(powers, total), x.dtype)


def _log_softmax_by_x(g: Tensor, out: Tensor, axis: int) -> Tensor:
    g = wide(g)
    return g - exp(wide(out)) * sum(g, axis=axis, keepdims=True)


@op(infer=_infer_along_axis, namespace="nn", vjp={"x": _log_softmax_by_x})
def log_softmax(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """The logarithm of `softmax`, exact where the softmax itself would round to 0."""
    if x.shape[axis] == 0:
        return x
    shifted, _, total = _shifted(wide(x), axis)
    return narrow(subtract(shifted, log(total)), x.dtype)


@op(infer=_infer_along_axis, namespace="nn", vjp={"x": lambda g, out, axis: -_softmax_by_x(g, out, axis)})
def softmin(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """`softmax` of the negative: the smallest number weighs most."""
    return softmax(negative(x), axis=axis)


from intermodal.ops.elementwise import (  # families use each other; bodies look names up when they run
    abs,
    add,
    ceil,
    clip,
    divide,
    equal,
    erfc,
    exp,
    expm1,
    greater,
    greater_equal,
    less,
    less_equal,
    log,
    log1p,
    logical_and,
    maximum,
    minimum,
    multiply,
    negative,
    square,
    subtract,
    tanh,
    where,
)
from intermodal.ops.manipulation import concat, reshape, split
from intermodal.ops.precision import narrow, wide
from intermodal.ops.reduction import max, sum

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
