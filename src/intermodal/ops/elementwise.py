"""Elementwise ops: arithmetic, comparison, logic, bits, powers, logarithms, trigonometry, rounding, complex parts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from intermodal import dtypes
from intermodal.errors import DTypeError
from intermodal.ops import rules
from intermodal.ops.approximation import ERFC_LARGE, ERFC_MIDDLE, MIDDLE, SMALL, ratio
from intermodal.ops.derivatives import DISCRETE, conj_of
from intermodal.ops.rules import (
    ANY,
    BOOL,
    FLOAT,
    INEXACT,
    INTEGER,
    INTEGER_OR_BOOL,
    NUMERIC,
    REAL,
    elementwise,
    to_bool,
    to_component,
)
from intermodal.ops.table import Inferred, NotDifferentiable, Spec, op, primitive, public_names

if TYPE_CHECKING:
    from intermodal.ops.table import Operand
    from intermodal.tensor import Tensor

# A body is the op in terms of others; where it stands for a primitive there is none. Zero is written ``x * 0`` only
# where NaN may pass through; masks use `where`. So do derivatives: the slope of a part that was not chosen must stay 0 also
# where the gradient is infinite, sqrt(maximum(x, 0)) for one.


def _flat(g: Tensor) -> None:
    """The derivative of steps: 0 wherever there is one."""


@primitive(infer=elementwise(NUMERIC), vjp={"x1": lambda g: g, "x2": lambda g: g})
def add(x1: Operand, x2: Operand, /) -> Tensor:
    """The sum of the operands."""


@op(infer=elementwise(NUMERIC), vjp={"x1": lambda g: g, "x2": lambda g: -g})
def subtract(x1: Operand, x2: Operand, /) -> Tensor:
    """The first operand less the second."""
    return add(x1, -x2)


@primitive(infer=elementwise(NUMERIC), vjp={"x1": lambda g, x2: g * conj_of(x2), "x2": lambda g, x1: g * conj_of(x1)})
def multiply(x1: Operand, x2: Operand, /) -> Tensor:
    """The product of the operands."""


@primitive(
    infer=elementwise(INEXACT, inexact=dtypes.float64),
    vjp={"x1": lambda g, x2: g / conj_of(x2), "x2": lambda g, x2, out: -g * conj_of(out / x2)},
)
def divide(x1: Operand, x2: Operand, /) -> Tensor:
    """The quotient; integers divide to float64."""


@primitive(infer=elementwise(REAL), vjp={"x1": _flat, "x2": _flat})
def floor_divide(x1: Operand, x2: Operand, /) -> Tensor:
    """The quotient rounded toward minus infinity."""


@primitive(infer=elementwise(REAL), vjp={"x1": lambda g: g, "x2": lambda g, x1, x2: -g * floor_divide(x1, x2)})
def remainder(x1: Operand, x2: Operand, /) -> Tensor:
    """What is left by `floor_divide`, with the sign of the divisor."""


def _pow_by_base(g: Tensor, x1: Tensor, x2: Operand) -> Operand | None:
    if isinstance(x2, (bool, int, float, complex)):
        if x2 == 0:
            return None
        return g * conj_of(multiply(x1 if x2 == 2 else pow(x1, x2 - 1), x2))
    # At x1 = 0 and x2 = 0 the slope of a constant is 0, where x2 * x1 ** (x2 - 1) would be NaN.
    return g * conj_of(multiply(pow(x1, where(equal(x2, 0), 1, x2) - 1), x2))


def _pow_by_exponent(g: Tensor, x1: Operand, x2: Tensor, out: Tensor) -> Tensor:
    if isinstance(x1, (bool, int, float, complex)):
        if not isinstance(x1, complex) and x1 > 0:
            return g * conj_of(out * math.log(x1))
        x1 = full_like(out, x1)
    # 0 ** x2 stays 0 for positive x2, where out * log(0) would be NaN; at x2 = 0 it counts as constant too.
    still = logical_or(equal(out, 0), logical_and(equal(x1, 0), equal(x2, 0)))
    return g * conj_of(where(still, 0, out * log(where(still, 1, x1))))


@primitive(infer=elementwise(NUMERIC), vjp={"x1": _pow_by_base, "x2": _pow_by_exponent})
def pow(x1: Operand, x2: Operand, /) -> Tensor:
    """The first operand raised to the second; integer powers are exact."""


@op(infer=elementwise(NUMERIC), vjp={"x": lambda g: -g})
def negative(x: Tensor, /) -> Tensor:
    """The number with its sign turned."""
    return add(bitwise_invert(x), 1) if x.dtype.kind == "unsigned integer" else multiply(x, -1)


@op(infer=elementwise(NUMERIC), vjp={"x": lambda g: g})
def positive(x: Tensor, /) -> Tensor:
    """The number itself."""
    return x


@primitive(infer=elementwise(ANY, result=to_bool), vjp=DISCRETE)
def equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether the elements are equal."""


@op(infer=elementwise(ANY, result=to_bool), vjp=DISCRETE)
def not_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether the elements differ; NaN differs from itself."""
    return logical_not(equal(x1, x2))


@primitive(infer=elementwise(REAL | BOOL, result=to_bool), vjp=DISCRETE)
def less(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether the first is less than the second."""


@op(infer=elementwise(REAL | BOOL, result=to_bool), vjp=DISCRETE)
def less_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether the first is at most the second."""
    return logical_or(less(x1, x2), equal(x1, x2))


@op(infer=elementwise(REAL | BOOL, result=to_bool), vjp=DISCRETE)
def greater(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether the first is greater than the second."""
    return less(x2, x1)


@op(infer=elementwise(REAL | BOOL, result=to_bool), vjp=DISCRETE)
def greater_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether the first is at least the second."""
    return less_equal(x2, x1)


@primitive(infer=elementwise(INTEGER_OR_BOOL), vjp=DISCRETE)
def bitwise_and(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits that both have."""


@primitive(infer=elementwise(INTEGER_OR_BOOL), vjp=DISCRETE)
def bitwise_or(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits that either has."""


@primitive(infer=elementwise(INTEGER_OR_BOOL), vjp=DISCRETE)
def bitwise_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits that one of them has."""


@primitive(infer=elementwise(INTEGER_OR_BOOL), vjp=DISCRETE)
def bitwise_invert(x: Tensor, /) -> Tensor:
    """All bits turned."""


@primitive(infer=elementwise(INTEGER), vjp=DISCRETE)
def bitwise_left_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits moved left; bits past the end are lost."""


@primitive(infer=elementwise(INTEGER), vjp=DISCRETE)
def bitwise_right_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits moved right; the sign is kept."""


@op(infer=elementwise(BOOL, result=to_bool), vjp=DISCRETE)
def logical_and(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether both are true."""
    return bitwise_and(x1, x2)


@op(infer=elementwise(BOOL, result=to_bool), vjp=DISCRETE)
def logical_or(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether either is true."""
    return bitwise_or(x1, x2)


@op(infer=elementwise(BOOL, result=to_bool), vjp=DISCRETE)
def logical_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether exactly one is true."""
    return bitwise_xor(x1, x2)


@op(infer=elementwise(BOOL, result=to_bool), vjp=DISCRETE)
def logical_not(x: Tensor, /) -> Tensor:
    """Whether it is false."""
    return bitwise_invert(x)


def _unless_lower(g: Tensor, x1: Operand, x2: Operand) -> Tensor:
    """The gradient where the first is not below the second; at a tie each of them gets half."""
    return where(less(x1, x2), 0, where(equal(x1, x2), g * 0.5, g))


def _unless_higher(g: Tensor, x1: Operand, x2: Operand) -> Tensor:
    return _unless_lower(g, x2, x1)


@op(infer=elementwise(REAL | BOOL), vjp={"x1": _unless_lower, "x2": _unless_higher})
def maximum(x1: Operand, x2: Operand, /) -> Tensor:
    """The greater of the two; NaN if either is."""
    return where(logical_or(greater(x1, x2), not_equal(x1, x1)), x1, x2)


@op(infer=elementwise(REAL | BOOL), vjp={"x1": _unless_higher, "x2": _unless_lower})
def minimum(x1: Operand, x2: Operand, /) -> Tensor:
    """The smaller of the two; NaN if either is."""
    return where(logical_or(less(x1, x2), not_equal(x1, x1)), x1, x2)


@primitive(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, out: g * conj_of(out)})
def exp(x: Tensor, /) -> Tensor:
    """E raised to x."""


@primitive(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, x: g * conj_of(exp(x))})
def expm1(x: Tensor, /) -> Tensor:
    """exp(x) - 1, exact near zero."""


@primitive(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, x: g / conj_of(x)})
def log(x: Tensor, /) -> Tensor:
    """The natural logarithm."""


@primitive(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, x: g / conj_of(x + 1)})
def log1p(x: Tensor, /) -> Tensor:
    """log(1 + x), exact near zero."""


@op(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, x: g / conj_of(x * math.log(2))})
def log2(x: Tensor, /) -> Tensor:
    """The logarithm to base 2."""
    return multiply(log(x), 1 / math.log(2))


@op(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, x: g / conj_of(x * math.log(10))})
def log10(x: Tensor, /) -> Tensor:
    """The logarithm to base 10."""
    return multiply(log(x), 1 / math.log(10))


def _weight(x1: Operand, x2: Operand) -> Tensor:
    """Which part of exp(x1) + exp(x2) the first is; half for two equal infinities, which have no difference."""
    return sigmoid(where(equal(x1, x2), 0.0, subtract(x1, x2)))


@op(
    infer=elementwise(FLOAT, inexact=True),
    vjp={"x1": lambda g, x1, x2: g * _weight(x1, x2), "x2": lambda g, x1, x2: g * _weight(x2, x1)},
)
def logaddexp(x1: Operand, x2: Operand, /) -> Tensor:
    """log(exp(x1) + exp(x2)) without overflow."""
    high = maximum(x1, x2)
    low = minimum(x1, x2)
    gap = where(equal(high, low), 0.0, subtract(low, high))  # two equal infinities have no difference
    return add(high, log1p(exp(gap)))


@primitive(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, out: g / conj_of(out * 2)})
def sqrt(x: Tensor, /) -> Tensor:
    """The square root."""


@op(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, out: g * conj_of(out * out * out * -0.5)})
def rsqrt(x: Tensor, /) -> Tensor:
    """One over the square root."""
    return divide(1.0, sqrt(x))


@op(infer=elementwise(NUMERIC), vjp={"x": lambda g, x: g * conj_of(x * 2)})
def square(x: Tensor, /) -> Tensor:
    """The number times itself."""
    return multiply(x, x)


@op(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, out: g * conj_of(out * -out)})
def reciprocal(x: Tensor, /) -> Tensor:
    """One over x."""
    return divide(1.0, x)


def _nonzero(length: Tensor) -> Tensor:
    """What to divide by, so that the slope at the origin, which has none, is 0."""
    return where(equal(length, 0), 1, length)


@op(
    infer=elementwise(FLOAT, inexact=True),
    vjp={"x1": lambda g, x1, out: g * (x1 / _nonzero(out)), "x2": lambda g, x2, out: g * (x2 / _nonzero(out))},
)
def hypot(x1: Operand, x2: Operand, /) -> Tensor:
    """The length of the hypotenuse, without overflow."""
    a, b = abs(_tensor(x1)), abs(_tensor(x2))
    high, low = maximum(a, b), minimum(a, b)
    ratio = divide(low, where(equal(high, 0.0), 1.0, high))
    length = multiply(high, sqrt(add(multiply(ratio, ratio), 1.0)))
    return where(logical_or(isinf(a), isinf(b)), math.inf, length)


def _sin_by_x(g: Tensor, x: Tensor) -> Tensor:
    return g * conj_of(cos(x))


@primitive(infer=elementwise(INEXACT, inexact=True), vjp={"x": _sin_by_x})
def sin(x: Tensor, /) -> Tensor:
    """The sine."""


@primitive(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, x: -g * conj_of(sin(x))})
def cos(x: Tensor, /) -> Tensor:
    """The cosine."""


@primitive(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, out: g * conj_of(out * out + 1)})
def tan(x: Tensor, /) -> Tensor:
    """The tangent."""


@primitive(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, x: g / conj_of(sqrt((1 - x) * (1 + x)))})
def asin(x: Tensor, /) -> Tensor:
    """The inverse sine."""


@primitive(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, x: -g / conj_of(sqrt((1 - x) * (1 + x)))})
def acos(x: Tensor, /) -> Tensor:
    """The inverse cosine."""


@primitive(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, x: g / conj_of(x * x + 1)})
def atan(x: Tensor, /) -> Tensor:
    """The inverse tangent."""


def _sinh_by_x(g: Tensor, x: Tensor) -> Tensor:
    return g * conj_of(cosh(x))


@primitive(infer=elementwise(INEXACT, inexact=True), vjp={"x": _sinh_by_x})
def sinh(x: Tensor, /) -> Tensor:
    """The hyperbolic sine."""


@primitive(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, x: g * conj_of(sinh(x))})
def cosh(x: Tensor, /) -> Tensor:
    """The hyperbolic cosine."""


@primitive(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, out: g * conj_of(1 - out * out)})
def tanh(x: Tensor, /) -> Tensor:
    """The hyperbolic tangent."""


def _asinh_by_x(g: Tensor, x: Tensor) -> Tensor:
    # The square of a large x would overflow: the length of (x, 1), or two roots, do not.
    return g / (conj_of(sqrt(1 + x * 1j) * sqrt(1 - x * 1j)) if x.dtype.is_complex else hypot(x, 1.0))


@primitive(infer=elementwise(INEXACT, inexact=True), vjp={"x": _asinh_by_x})
def asinh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic sine."""


@primitive(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, x: g / conj_of(sqrt(x - 1) * sqrt(x + 1))})
def acosh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic cosine."""


@primitive(infer=elementwise(INEXACT, inexact=True), vjp={"x": lambda g, x: g / conj_of((1 - x) * (1 + x))})
def atanh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic tangent."""


def _atan2_by_both(g: Tensor, x1: Operand, x2: Operand) -> tuple[Tensor, Tensor]:
    # Divided twice by the length, whose square would overflow or vanish long before it does.
    length = _nonzero(hypot(x1, x2))
    part = g / length
    return part * divide(x2, length), part * divide(-x1, length)


@primitive(infer=elementwise(FLOAT, inexact=True), vjp=_atan2_by_both)
def atan2(x1: Operand, x2: Operand, /) -> Tensor:
    """The angle of the point (x2, x1)."""


def _bell(x: Tensor) -> Tensor:
    """The derivative of the error function, 2 / sqrt(pi) * exp(-x * x)."""
    return exp(math.log(2 / math.sqrt(math.pi)) - x * x)


@primitive(infer=elementwise(FLOAT, inexact=True), vjp={"x": lambda g, x: g * _bell(x)})
def erf(x: Tensor, /) -> Tensor:
    """The error function."""


@op(infer=elementwise(FLOAT, inexact=True), vjp={"x": lambda g, x: -g * _bell(x)})
def erfc(x: Tensor, /) -> Tensor:
    """1 - erf(x), exact where that is nearly 0."""
    y = abs(wide(x))
    squared = square(y)
    inverse = divide(1.0, maximum(squared, MIDDLE**2))
    large = divide(subtract(1 / math.sqrt(math.pi), inverse * ratio(ERFC_LARGE, inverse)), maximum(y, MIDDLE))
    beyond = exp(negative(squared)) * where(less_equal(y, MIDDLE), ratio(ERFC_MIDDLE, minimum(y, MIDDLE)), large)
    beyond = where(less(x, 0.0), subtract(2.0, beyond), beyond)
    return narrow(where(less_equal(y, SMALL), subtract(1.0, erf(wide(x))), beyond), x.dtype)


def _abs_by_x(g: Tensor, x: Tensor) -> Tensor:
    return g * sign(x)  # 0 at 0, in the middle between the slopes on both sides


@primitive(infer=elementwise(NUMERIC, result=to_component), vjp={"x": _abs_by_x})
def abs(x: Tensor, /) -> Tensor:
    """The absolute value; of a complex number its length."""


def _sign_by_x(g: Tensor, x: Tensor) -> Tensor | None:
    if not x.dtype.is_complex:
        return None
    outward = sign(x)
    return outward * 1j * (imag(conj(outward) * g) / _nonzero(abs(x)))  # what points outward does not turn x


@op(infer=elementwise(NUMERIC), vjp={"x": _sign_by_x})
def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; NaN for NaN; of a complex number x / abs(x), or 0."""
    if x.dtype.is_complex:
        # The parts are brought to a size of 1 first, because the length of large ones overflows; of infinite ones only the signs count.
        a, b = real(x), imag(x)
        size = maximum(abs(a), abs(b))
        scale = where(equal(size, 0.0), 1.0, size)
        a, b = (where(isinf(size), copysign(astype(isinf(p), p.dtype), p), divide(p, scale)) for p in (a, b))
        length = where(equal(size, 0.0), 1.0, hypot(a, b))
        return complex_(divide(a, length), divide(b, length))
    steps = subtract(astype(greater(x, 0), x.dtype), astype(less(x, 0), x.dtype))
    return where(not_equal(x, x), x, steps) if x.dtype.is_floating else steps


@primitive(infer=elementwise(REAL), vjp={"x": _flat})
def floor(x: Tensor, /) -> Tensor:
    """Rounded toward minus infinity."""


@op(infer=elementwise(REAL), vjp={"x": _flat})
def ceil(x: Tensor, /) -> Tensor:
    """Rounded toward plus infinity."""
    return x if x.dtype.is_integer else negative(floor(negative(x)))


@op(infer=elementwise(REAL), vjp={"x": _flat})
def trunc(x: Tensor, /) -> Tensor:
    """Rounded toward zero."""
    return x if x.dtype.is_integer else where(less(x, 0), ceil(x), floor(x))


@primitive(infer=elementwise(FLOAT, result=to_bool), vjp=DISCRETE)
def signbit(x: Tensor, /) -> Tensor:
    """Whether the sign bit is set, for -0.0 too."""


@op(infer=elementwise(FLOAT), vjp={"x1": lambda g, x1, out: g * (sign(x1) * sign(out)), "x2": _flat})
def copysign(x1: Operand, x2: Operand, /) -> Tensor:
    """The size of the first with the sign of the second."""
    first, second = _tensor(x1), _tensor(x2)
    return where(equal(signbit(first), signbit(second)), first, negative(first))


@primitive(
    infer=elementwise(FLOAT),
    vjp=NotDifferentiable("it steps through the numbers of a format, which is no function of real numbers."),
)
def nextafter(x1: Operand, x2: Operand, /) -> Tensor:
    """The next number of the dtype after the first, toward the second."""


@op(infer=elementwise(NUMERIC, result=to_bool), vjp=DISCRETE)
def isnan(x: Tensor, /) -> Tensor:
    """Whether it is NaN."""
    return not_equal(x, x)


@op(infer=elementwise(NUMERIC, result=to_bool), vjp=DISCRETE)
def isinf(x: Tensor, /) -> Tensor:
    """Whether it is infinite."""
    if x.dtype.is_complex:
        return logical_or(isinf(real(x)), isinf(imag(x)))
    return less(abs(x), abs(x)) if x.dtype.is_integer else equal(abs(x), math.inf)


@op(infer=elementwise(NUMERIC, result=to_bool), vjp=DISCRETE)
def isfinite(x: Tensor, /) -> Tensor:
    """Whether it is neither NaN nor infinite."""
    return logical_not(logical_or(isnan(x), isinf(x)))


@primitive(infer=elementwise(NUMERIC), vjp={"x": conj_of})
def conj(x: Tensor, /) -> Tensor:
    """The complex conjugate; a real number itself."""


def _put_real(x: Tensor, value: Tensor) -> Tensor:
    return complex_(value, imag(x)) if x.dtype.is_complex else value


def _put_imag(x: Tensor, value: Tensor) -> Tensor:
    return complex_(real(x), value)


@primitive(infer=elementwise(NUMERIC, result=to_component), view=_put_real, vjp={"x": lambda g: g})
def real(x: Tensor, /) -> Tensor:
    """The real part."""


@primitive(infer=elementwise(frozenset(("complex floating",)), result=to_component), view=_put_imag, vjp={"x": lambda g: g * 1j})
def imag(x: Tensor, /) -> Tensor:
    """The imaginary part of a complex tensor."""


def _infer_complex(real: Spec, imag: Spec) -> Inferred:
    dtype = rules.require(rules.operand_dtype(real, imag), FLOAT)
    return Inferred((Spec(rules.broadcast(real.shape, imag.shape), dtype.as_complex),), {}, dtype.as_complex.component)


@primitive(infer=_infer_complex, name="complex", vjp={"real": lambda g: g, "imag": imag})
def complex_(real: Tensor, imag: Tensor, /) -> Tensor:
    """The complex numbers with these real and imaginary parts."""


def _angle_by_x(g: Tensor, x: Tensor) -> Tensor | None:
    return sign(x) * 1j * (g / _nonzero(abs(x))) if x.dtype.is_complex else None


@op(infer=elementwise(INEXACT, result=to_component), vjp={"x": _angle_by_x})
def angle(x: Tensor, /) -> Tensor:
    """The angle of a complex number; 0 or pi for a real one."""
    return atan2(imag(x), real(x)) if x.dtype.is_complex else where(less(x, 0.0), math.pi, multiply(x, 0.0))


def _infer_round(x: Spec, *, decimals: int) -> Inferred:
    rules.require(x.dtype, NUMERIC)
    return Inferred((x,), {"decimals": rules.integer(decimals, "decimals")})


@primitive(infer=_infer_round, vjp={"x": _flat})
def round(x: Tensor, /, *, decimals: int = 0) -> Tensor:
    """Rounded to a number of decimals, halves to the even neighbour."""


def _infer_clip(x: Spec, min: object, max: object) -> Spec:
    rules.require(x.dtype, REAL)
    for bound, name in ((min, "min"), (max, "max")):
        if isinstance(bound, Spec) and bound.dtype.kind != x.dtype.kind:
            raise DTypeError(
                f"{name} has dtype {bound.dtype}, the input {x.dtype}, and clip keeps the input's kind. Cast the bound with im.astype."
            )
        if bound is not None and not isinstance(bound, Spec) and rules.operand_dtype(x, bound) is not x.dtype:
            raise DTypeError(
                f"{name} {bound!r} does not fit the input's dtype {x.dtype}. Cast the input, or give a bound of its kind."
            )
    return Spec(rules.broadcast(x.shape, rules.shape_of(min), rules.shape_of(max)), x.dtype)


# At a bound the number itself counts, not the bound; where the bounds are crossed, the upper one is the result.
def _clip_by_x(g: Tensor, x: Tensor, min: Operand | None, max: Operand | None) -> Tensor:
    if min is not None and max is not None:
        return where(logical_and(greater_equal(x, min), less_equal(x, max)), g, 0)
    if min is not None:
        return where(greater_equal(x, min), g, 0)
    return g if max is None else where(less_equal(x, max), g, 0)


def _clip_by_min(g: Tensor, x: Tensor, min: Tensor, max: Operand | None) -> Tensor:
    held = less(x, min)
    return where(held if max is None else logical_and(held, less_equal(min, max)), g, 0)


def _clip_by_max(g: Tensor, x: Tensor, min: Operand | None, max: Tensor) -> Tensor:
    held = greater(x, max)
    return where(held if min is None else logical_or(held, greater(min, max)), g, 0)


@op(infer=_infer_clip, vjp={"x": _clip_by_x, "min": _clip_by_min, "max": _clip_by_max})
def clip(x: Tensor, /, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Each number held between a lower and an upper bound; None leaves a side open. NaN stays NaN.

    Example:
        >>> import intermodal as im
        >>> im.clip(im.asarray([-2, 0, 7]), 0, 5)
        Tensor([0, 0, 5], dtype=int64, device=numpy:cpu)
    """
    low = x if min is None else maximum(x, min)
    high = low if max is None else minimum(low, max)
    return high if high.dtype is x.dtype else astype(high, x.dtype)


def _infer_where(condition: Spec, x1: object, x2: object) -> Inferred:
    rules.require(condition.dtype, BOOL, of="the condition")
    dtype = rules.operand_dtype(x1, x2)
    out = rules.broadcast(condition.shape, rules.shape_of(x1), rules.shape_of(x2))
    return Inferred((Spec(out, dtype),), {}, (None, dtype, dtype))


def _where_by_first(g: Tensor, condition: Tensor) -> Tensor:
    return where(condition, g, 0)


def _where_by_second(g: Tensor, condition: Tensor) -> Tensor:
    return where(condition, 0, g)


@primitive(infer=_infer_where, movement=True, vjp={"x1": _where_by_first, "x2": _where_by_second})
def where(condition: Tensor, x1: Operand, x2: Operand, /) -> Tensor:
    """Elements of the first where the condition holds, of the second elsewhere.

    Example:
        >>> import intermodal as im
        >>> x = im.asarray([-1.0, 2.0])
        >>> im.where(x > 0, x, 0.0)
        Tensor([0., 2.], dtype=float32, device=numpy:cpu)
    """


def _lerp_by_start(g: Tensor, weight: Operand) -> Tensor:
    return g * conj_of(1 - weight)


@op(
    vjp={
        "start": _lerp_by_start,
        "end": lambda g, weight: g * conj_of(weight),
        "weight": lambda g, start, end: g * conj_of(end - start),
    }
)
def lerp(start: Tensor, end: Tensor, weight: Operand, /) -> Tensor:
    """The point between start and end: start + weight * (end - start)."""
    return add(start, multiply(subtract(end, start), weight))


@op(
    vjp={"x": lambda g: g, "x1": lambda g, x2, value: g * conj_of(x2 * value), "x2": lambda g, x1, value: g * conj_of(x1 * value)}
)
def addcmul(x: Tensor, x1: Tensor, x2: Tensor, /, *, value: float = 1.0) -> Tensor:
    """X + value * x1 * x2."""
    return add(x, multiply(multiply(x1, x2), value))


@op(vjp={"x": lambda g: g * (180.0 / math.pi)})
def rad2deg(x: Tensor, /) -> Tensor:
    """Radians as degrees."""
    return multiply(x, 180.0 / math.pi)


@op(vjp={"x": lambda g: g * (math.pi / 180.0)})
def deg2rad(x: Tensor, /) -> Tensor:
    """Degrees as radians."""
    return multiply(x, math.pi / 180.0)


def _tensor(x: Operand) -> Tensor:
    """For the type checker: dispatch hands a body tensors where its rule promotes the operands."""
    return cast("Tensor", x)


from intermodal.ops.activation import sigmoid  # the families use each other: the name is looked up when a body runs
from intermodal.ops.creation import full_like
from intermodal.ops.manipulation import astype
from intermodal.ops.precision import narrow, wide

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
