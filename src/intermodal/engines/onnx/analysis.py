"""Lowerings of exponentials, logarithms, trigonometry, powers and the error function.

ONNX Runtime computes half of them in float32 only, and has no ``expm1``, ``log1p`` and ``atan2`` at all. Where there is no operator,
a formula stands in that loses no digits; float32 is then computed in float64 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from intermodal import dtypes
from intermodal.engines.onnx.builder import Builder, Value
from intermodal.engines.onnx.elementwise import copysign, select, signbit
from intermodal.engines.onnx.lowering import LOWERINGS, lowering
from intermodal.ops.approximation import ERF_SMALL, ERFC_LARGE, ERFC_MIDDLE, MIDDLE, SMALL, Quotient

__all__ = ["exact"]

Function = Callable[..., Value]
_SAME: Final = {"exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos", "tanh": "Tanh"}


def _direct(name: str, operator: str) -> None:
    LOWERINGS[name] = lambda g, x: g.op(operator, x)


for _name, _operator in _SAME.items():
    _direct(_name, _operator)


def exact(function: Function) -> Function:
    """Compute in float64 and round once."""

    @wraps(function)
    def widened(g: Builder, *values: Value) -> Value:
        return g.cast(function(g, *(g.cast(v, dtypes.float64) for v in values)), values[0].dtype)

    return lowering(widened)


class _Numbers:
    """Arithmetic on values with Python's signs; scalars are float64."""

    def __init__(self, g: Builder, value: Value) -> None:
        self.g, self.value = g, value

    def _of(self, other: Any) -> Value:
        return other.value if isinstance(other, _Numbers) else self.g.constant(other, self.value.dtype)

    def _op(self, operator: str, a: Value, b: Value) -> _Numbers:
        return _Numbers(self.g, self.g.op(operator, a, b))

    def __add__(self, other: Any) -> _Numbers:
        return self._op("Add", self.value, self._of(other))

    def __sub__(self, other: Any) -> _Numbers:
        return self._op("Sub", self.value, self._of(other))

    def __rsub__(self, other: Any) -> _Numbers:
        return self._op("Sub", self._of(other), self.value)

    def __mul__(self, other: Any) -> _Numbers:
        return self._op("Mul", self.value, self._of(other))

    def __truediv__(self, other: Any) -> _Numbers:
        return self._op("Div", self.value, self._of(other))

    def __rtruediv__(self, other: Any) -> _Numbers:
        return self._op("Div", self._of(other), self.value)

    __radd__, __rmul__ = __add__, __mul__

    def apply(self, operator: str) -> _Numbers:
        return _Numbers(self.g, self.g.op(operator, self.value))

    def compare(self, operator: str, other: Any) -> Value:
        return self.g.op(operator, self.value, self._of(other))

    def unless(self, condition: Value, other: Any) -> _Numbers:
        """These numbers, but others where the condition holds."""
        return _Numbers(self.g, select(self.g, condition, self._of(other), self.value))


def _ratio(coefficients: Quotient, z: _Numbers) -> _Numbers:
    above, below = coefficients
    n, d = z * above[-1], z
    for p, q in zip(above[:-2], below[:-1], strict=True):
        n, d = (n + p) * z, (d + q) * z
    return (n + above[-2]) / (d + below[-1])


# --- exponentials and logarithms ---------------------------------------------------------------------------------


def _expm1(x: _Numbers) -> _Numbers:
    # Kahan's way: (u - 1) * x / log(u) for u = exp(x), in which the rounding of u cancels.
    u = x.apply("Exp")
    less = u - 1.0
    careful = less * x / u.apply("Log")
    plain = x.g.op("Or", x.g.op("IsInf", u.value), less.compare("Equal", -1.0))
    return careful.unless(plain, less).unless(u.compare("Equal", 1.0), x)


def _log1p(x: _Numbers) -> _Numbers:
    u = x + 1.0
    careful = u.apply("Log") * (x / (u - 1.0))
    return careful.unless(u.compare("Equal", math.inf), u).unless(u.compare("Equal", 1.0), x)


@exact
def expm1(g: Builder, x: Value) -> Value:
    return _expm1(_Numbers(g, x)).value


@exact
def log1p(g: Builder, x: Value) -> Value:
    return _log1p(_Numbers(g, x)).value


@exact
def log2(g: Builder, x: Value) -> Value:
    return (_Numbers(g, x).apply("Log") * (1 / math.log(2))).value


@exact
def log10(g: Builder, x: Value) -> Value:
    return (_Numbers(g, x).apply("Log") / math.log(10)).value


# --- trigonometry ------------------------------------------------------------------------------------------------


def _atan(x: _Numbers) -> _Numbers:
    # From the angle in float32, by what is left: tan(a - b) is known from both tangents, and so small that it is its own angle.
    g = x.g
    near = _Numbers(g, g.cast(g.op("Atan", g.cast(x.value, dtypes.float32)), dtypes.float64))
    c, s = near.apply("Cos"), near.apply("Sin")
    found = near + (x * c - s) / (c + x * s)
    edge = _Numbers(g, copysign(g, g.constant(math.pi / 2, dtypes.float64), x.value))
    return found.unless(g.op("IsInf", x.value), edge)


@exact
def tan(g: Builder, x: Value) -> Value:
    return (_Numbers(g, x).apply("Sin") / _Numbers(g, x).apply("Cos")).value


@exact
def atan(g: Builder, x: Value) -> Value:
    return _atan(_Numbers(g, x)).value


@exact
def asin(g: Builder, x: Value) -> Value:
    n = _Numbers(g, x)
    return (_atan(n / (((1.0 - n) * (1.0 + n)).apply("Sqrt") + 1.0)) * 2.0).value


@exact
def acos(g: Builder, x: Value) -> Value:
    n = _Numbers(g, x)
    return (_atan(((1.0 - n) / (1.0 + n)).apply("Sqrt")) * 2.0).value


@exact
def atan2(g: Builder, x1: Value, x2: Value) -> Value:
    y, x = _Numbers(g, x1).apply("Abs"), _Numbers(g, x2).apply("Abs")
    both = g.op("And", g.op("IsInf", x1), g.op("IsInf", x2))
    zero = g.op("And", y.compare("Equal", 0.0), x.compare("Equal", 0.0))
    angle = _atan((y / x).unless(both, 1.0).unless(zero, 0.0))  # in the first quadrant
    turned = math.pi - angle
    return copysign(g, select(g, signbit(g, x2), turned.value, angle.value), x1)


# --- hyperbolic functions ----------------------------------------------------------------------------------------


@exact
def sinh(g: Builder, x: Value) -> Value:
    y = _Numbers(g, x).apply("Abs")
    e = _expm1(y)
    large = (y * 0.5).apply("Exp")  # the square of it would overflow one step before its half does
    found = ((e + e / (e + 1.0)) * 0.5).unless(y.compare("Greater", 700.0), large * 0.5 * large)
    return copysign(g, found.value, x)


@exact
def cosh(g: Builder, x: Value) -> Value:
    y = _Numbers(g, x).apply("Abs")
    e, large = y.apply("Exp"), (y * 0.5).apply("Exp")
    return ((e + 1.0 / e) * 0.5).unless(y.compare("Greater", 700.0), large * 0.5 * large).value


@exact
def asinh(g: Builder, x: Value) -> Value:
    y = _Numbers(g, x).apply("Abs")
    large = y.apply("Log") + math.log(2)
    held = y.unless(y.compare("Greater", 1e10), 1.0)  # whose square does not overflow
    squared = held * held
    small = _log1p(held + squared / ((squared + 1.0).apply("Sqrt") + 1.0))
    return copysign(g, small.unless(y.compare("Greater", 1e10), large).value, x)


@exact
def acosh(g: Builder, x: Value) -> Value:
    n = _Numbers(g, x)
    less = n - 1.0
    held = less.unless(n.compare("Greater", 1e10), 1.0)
    near = _log1p(held + (held * (held + 2.0)).apply("Sqrt"))
    far = n.apply("Log") + math.log(2)
    return near.unless(n.compare("Greater", 1e10), far).unless(n.compare("Less", 1.0), math.nan).value


@exact
def atanh(g: Builder, x: Value) -> Value:
    y = _Numbers(g, x).apply("Abs")
    return copysign(g, (_log1p(y * 2.0 / (1.0 - y)) * 0.5).value, x)


# --- the error function ------------------------------------------------------------------------------------------


def _erfc_beyond(y: _Numbers) -> _Numbers:
    """The complement for numbers that are not small."""
    g = y.g
    squared = y * y
    held = _Numbers(g, g.op("Min", y.value, g.constant(MIDDLE, dtypes.float64)))
    above = _Numbers(g, g.op("Max", y.value, g.constant(MIDDLE, dtypes.float64)))
    inverse = 1.0 / (above * above)
    large = (1 / math.sqrt(math.pi) - inverse * _ratio(ERFC_LARGE, inverse)) / above
    return (squared * -1.0).apply("Exp") * large.unless(y.compare("LessOrEqual", MIDDLE), _ratio(ERFC_MIDDLE, held))


@exact
def erf(g: Builder, x: Value) -> Value:
    n = _Numbers(g, x)
    y = n.apply("Abs")
    held = _Numbers(g, g.op("Min", (y * y).value, g.constant(1.0, dtypes.float64)))
    beyond = copysign(g, (1.0 - _erfc_beyond(y)).value, x)
    return select(g, y.compare("LessOrEqual", SMALL), (n * _ratio(ERF_SMALL, held)).value, beyond)


@exact
def erfc(g: Builder, x: Value) -> Value:
    n = _Numbers(g, x)
    y = n.apply("Abs")
    held = _Numbers(g, g.op("Min", (y * y).value, g.constant(1.0, dtypes.float64)))
    beyond = _erfc_beyond(y)
    beyond = beyond.unless(n.compare("Less", 0.0), 2.0 - beyond)
    return select(g, y.compare("LessOrEqual", SMALL), (1.0 - n * _ratio(ERF_SMALL, held)).value, beyond.value)


# --- powers ------------------------------------------------------------------------------------------------------


@lowering(only=frozenset((dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)))
def pow_(g: Builder, x1: Value, x2: Value) -> Value:
    return g.op("Pow", x1, x2)
