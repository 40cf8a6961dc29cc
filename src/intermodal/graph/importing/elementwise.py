"""ONNX's elementwise operators, activations and reductions as ops of the table."""

from __future__ import annotations

from functools import reduce
from typing import Any, Final

from intermodal.dtypes import DType
from intermodal.errors import GraphError
from intermodal.graph.importing.model import dtype_of
from intermodal.graph.importing.node import Node, f, operator
from intermodal.inspection import finfo
from intermodal.tensor import Tensor

__all__: list[str] = []

_SAME: Final = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Add": "add", "And": "logical_and", "Asin": "asin", "Asinh": "asinh",
    "Atan": "atan", "Atanh": "atanh", "BitwiseAnd": "bitwise_and", "BitwiseNot": "bitwise_invert", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Equal": "equal", "Erf": "erf", "Exp": "exp",
    "Floor": "floor", "Greater": "greater", "GreaterOrEqual": "greater_equal", "HardSwish": "hard_swish", "IsNaN": "isnan",
    "Less": "less", "LessOrEqual": "less_equal", "Log": "log", "MatMul": "matmul", "Mish": "mish", "Mul": "multiply",
    "Neg": "negative", "Not": "logical_not", "Or": "logical_or", "Reciprocal": "reciprocal", "Relu": "relu", "Round": "round",
    "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Softplus": "softplus", "Softsign": "softsign",
    "Sqrt": "sqrt", "Sub": "subtract", "Tan": "tan", "Tanh": "tanh", "Where": "where", "Xor": "logical_xor",
}  # fmt: skip


def _direct(name: str, op: str) -> None:
    @operator(name)
    def same(n: Node) -> Tensor:
        return f(op)(*(n[i] for i in range(len(n.inputs))))  # type: ignore[no-any-return]  # functions of rows answer with tensors


for _name, _op in _SAME.items():
    _direct(_name, _op)


def _folded(name: str, op: str) -> None:
    @operator(name)
    def fold(n: Node) -> Tensor:
        return reduce(f(op), [n[i] for i in range(len(n.inputs))])


for _name, _op in {"Max": "maximum", "Min": "minimum", "Sum": "add"}.items():
    _folded(_name, _op)


@operator("Mean")
def mean(n: Node) -> Any:
    return reduce(f("add"), [n[i] for i in range(len(n.inputs))]) / len(n.inputs)


@operator("Identity")
def identity(n: Node) -> Any:
    return f("positive")(n[0]) if not n[0].dtype.is_bool else f("logical_or")(n[0], n[0])


@operator("Cast")
def cast(n: Node) -> Any:
    return _cast(n, dtype_of(n.get("to")))


@operator("CastLike")
def cast_like(n: Node) -> Any:
    return _cast(n, n[1].dtype)


def _cast(n: Node, dtype: DType) -> Any:
    n.ignore("round_mode")  # which is for a dtype that is none here
    if not dtype.is_floating or dtype.bits > 8:
        n.ignore("saturate")
        return f("astype")(n[0], dtype)
    n.only(saturate=1)
    if not n[0].dtype.is_floating or n[0].dtype.bits == 8:
        return f("astype")(n[0], dtype)
    limit = float(finfo(dtype).max)
    return f("astype")(f("clip")(n[0], -limit, limit), dtype)  # infinity is held, too


# --- arithmetic --------------------------------------------------------------------------------------------------


@operator("Div")
def div(n: Node) -> Any:
    x, y = n[0], n[1]
    if not x.dtype.is_integer:
        return f("divide")(x, y)
    if x.dtype.kind == "unsigned integer":
        return f("floor_divide")(x, y)
    whole = f("floor_divide")(f("abs")(x), f("abs")(y))  # toward zero, as ONNX divides
    return whole * f("sign")(x) * f("sign")(y)


@operator("Mod")
def mod(n: Node) -> Any:
    x, y = n[0], n[1]
    if not n.get("fmod", 0):
        return f("remainder")(x, y)
    rest = f("remainder")(f("abs")(x), f("abs")(y))
    return f("copysign")(rest, x) if x.dtype.is_floating else rest * f("sign")(x)


@operator("Pow")
def pow_(n: Node) -> Any:
    x, y = n[0], n[1]
    if x.dtype.is_integer and y.dtype.is_floating:
        return f("astype")(f("pow")(f("astype")(x, y.dtype), y), x.dtype)
    return f("pow")(x, y if y.dtype is x.dtype else f("astype")(y, x.dtype))


@operator("Clip")
def clip(n: Node) -> Any:
    return f("clip")(n[0], n.maybe(1), n.maybe(2))


@operator("BitShift")
def bit_shift(n: Node) -> Any:
    return f("bitwise_left_shift" if n.get("direction") == "LEFT" else "bitwise_right_shift")(n[0], n[1])


@operator("IsInf")
def is_inf(n: Node) -> Any:
    x, above, below = n[0], n.get("detect_positive", 1), n.get("detect_negative", 1)
    found = f("isinf")(x)
    if not above:
        found = f("logical_and")(found, f("signbit")(x))
    return found if below else f("logical_and")(found, f("logical_not")(f("signbit")(x)))


# --- activation --------------------------------------------------------------------------------------------------


@operator("LeakyRelu")
def leaky_relu(n: Node) -> Any:
    return f("leaky_relu")(n[0], negative_slope=n.get("alpha", 0.01))


@operator("PRelu")
def prelu(n: Node) -> Any:
    return f("where")(n[0] < 0, n[0] * n[1], n[0])


@operator("Elu")
def elu(n: Node) -> Any:
    return f("elu")(n[0], alpha=n.get("alpha", 1.0))


@operator("Celu")
def celu(n: Node) -> Any:
    alpha = n.get("alpha", 1.0)
    return f("where")(n[0] < 0, f("expm1")(n[0] / alpha) * alpha, n[0])


@operator("Selu")
def selu(n: Node) -> Any:
    alpha, gamma = n.get("alpha", 1.67326319217681884765625), n.get("gamma", 1.05070102214813232421875)
    return f("elu")(n[0], alpha=alpha) * gamma


@operator("ThresholdedRelu")
def thresholded_relu(n: Node) -> Any:
    return f("where")(n[0] > n.get("alpha", 1.0), n[0], f("zeros_like")(n[0]))


@operator("Shrink")
def shrink(n: Node) -> Any:
    bias, limit = n.get("bias", 0.0), n.get("lambd", 0.5)
    inner = f("where")(n[0] > limit, n[0] - bias, f("zeros_like")(n[0]))
    return f("where")(n[0] < -limit, n[0] + bias, inner)


@operator("HardSigmoid")
def hard_sigmoid(n: Node) -> Any:
    return f("hard_sigmoid")(n[0], alpha=n.get("alpha", 0.2), beta=n.get("beta", 0.5))


@operator("Gelu")
def gelu(n: Node) -> Any:
    return f("gelu")(n[0], approximate=n.get("approximate", "none"))


@operator("Swish")
def swish(n: Node) -> Any:
    return n[0] * f("sigmoid")(n[0] * n.get("alpha", 1.0))


@operator("Softmax", "LogSoftmax")
def softmax(n: Node) -> Any:
    return f("softmax" if n.op == "Softmax" else "log_softmax")(n[0], axis=n.axis(-1))


@operator("Dropout")
def dropout(n: Node) -> Any:
    training = n.known(2)
    n.ignore("seed")
    if training is not None and bool(training):
        raise GraphError("it is in training, where numbers are drawn. Export the model for inference.")
    kept = f("ones_like")(n[0], dtype="bool")
    return [f("positive")(n[0]), kept][: n.outputs]


# --- reductions --------------------------------------------------------------------------------------------------


def _reduction(name: str, compute: Any) -> None:
    @operator(f"Reduce{name}")
    def reduction(n: Node) -> Any:
        axes, keepdims = n.numbers(1, "axes"), bool(n.get("keepdims", 1))
        nothing = n.get("noop_with_empty_axes", 0) and not axes
        return compute(n[0], {"axis": () if nothing else tuple(axes) if axes else None, "keepdims": keepdims})


def _sum(x: Tensor, how: dict[str, Any]) -> Any:
    return f("sum")(x, dtype=x.dtype, **how)


_reduction("Sum", _sum)
_reduction("Prod", lambda x, how: f("prod")(x, dtype=x.dtype, **how))
_reduction("Max", lambda x, how: f("max")(x, **how) if not x.dtype.is_bool else f("any")(x, **how))
_reduction("Min", lambda x, how: f("min")(x, **how) if not x.dtype.is_bool else f("all")(x, **how))
_reduction("Mean", lambda x, how: f("mean")(x, **how))
_reduction("L1", lambda x, how: _sum(f("abs")(x), how))
_reduction("L2", lambda x, how: f("sqrt")(_sum(f("square")(x), how)))
_reduction("SumSquare", lambda x, how: _sum(f("square")(x), how))
_reduction("LogSum", lambda x, how: f("log")(_sum(x, how)))
_reduction("LogSumExp", lambda x, how: f("logsumexp")(x, **how))


@operator("ArgMax", "ArgMin")
def arg(n: Node) -> Any:
    axis, keepdims = n.axis(0), bool(n.get("keepdims", 1))
    if not n.get("select_last_index", 0):
        return f(n.op.lower())(n[0], axis=axis, keepdims=keepdims)
    return n[0].shape[axis] - 1 - f(n.op.lower())(f("flip")(n[0], axis=axis), axis=axis, keepdims=keepdims)


@operator("CumSum", "CumProd")
def running(n: Node) -> Any:
    axis = (n.numbers(1) or [0])[0]
    axis += n[0].ndim if axis < 0 else 0
    exclusive = bool(n.get("exclusive", 0))
    x = f("flip")(n[0], axis=axis) if n.get("reverse", 0) else n[0]
    made = f("cumulative_sum" if n.op == "CumSum" else "cumulative_prod")(x, axis=axis, dtype=x.dtype, include_initial=exclusive)
    if exclusive:
        made = made[(*(slice(None),) * axis, slice(0, n[0].shape[axis]))]
    return f("flip")(made, axis=axis) if n.get("reverse", 0) else made
