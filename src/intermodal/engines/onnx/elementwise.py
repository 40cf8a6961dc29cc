"""Lowerings of the elementwise family: arithmetic, comparison, logic, bits, rounding. Functions of analysis are in `analysis`."""

from __future__ import annotations

from typing import Any, Final

from intermodal import dtypes
from intermodal.engines.onnx.builder import Builder, Value
from intermodal.engines.onnx.lowering import LOWERINGS, lowering
from intermodal.ops.rules import integer_range

__all__ = ["computed", "select"]

_SAME: Final = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "equal": "Equal",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "logical_and": "And",
    "logical_or": "Or",
    "logical_xor": "Xor",
    "logical_not": "Not",
    "maximum": "Max",
    "minimum": "Min",
    "abs": "Abs",
    "sqrt": "Sqrt",
    "where": "Where",
}


def _direct(name: str, operator: str) -> None:
    LOWERINGS[name] = lambda g, *operands: g.op(operator, *operands)


for _name, _operator in _SAME.items():
    _direct(_name, _operator)

_BITS: Final = {"bitwise_and": "And", "bitwise_or": "Or", "bitwise_xor": "Xor", "bitwise_invert": "Not"}


def _bitwise(name: str, operator: str) -> None:
    LOWERINGS[name] = lambda g, *operands: g.op(operator if operands[0].dtype.is_bool else f"Bitwise{operator}", *operands)


for _name, _operator in _BITS.items():
    _bitwise(_name, _operator)


def select(g: Builder, condition: Value, x1: Value, x2: Value) -> Value:
    """The first where the condition holds, else the second."""
    return g.op("Where", condition, x1, x2)


def _number(g: Builder, x: Value, number: Any) -> Value:
    return g.constant_like(x, number)


# --- arithmetic --------------------------------------------------------------------------------------------------


@lowering
def negative(g: Builder, x: Value) -> Value:
    return g.op("Sub", _number(g, x, 0), x) if x.dtype.is_integer else g.op("Neg", x)


@lowering
def positive(g: Builder, x: Value) -> Value:
    return x


LOWERINGS["conj"] = LOWERINGS["real"] = positive  # there are no complex numbers here


@lowering
def square(g: Builder, x: Value) -> Value:
    return g.op("Mul", x, x)


@lowering
def reciprocal(g: Builder, x: Value) -> Value:
    return g.op("Div", _number(g, x, 1), x)


def _divisor(g: Builder, x: Value) -> Value:
    """A divisor that the processor takes: 0, and -1 of the smallest integer, would end the process."""
    odd = g.op("Equal", x, _number(g, x, 0))
    if x.dtype.kind == "signed integer":
        odd = g.op("Or", odd, g.op("Equal", x, _number(g, x, -1)))
    return select(g, odd, _number(g, x, 1), x)


def _apart(g: Builder, rest: Value, divisor: Value) -> Value:
    """Where a rest of a division toward zero has another sign than the divisor."""
    zero = _number(g, rest, 0)
    signs = g.op("Xor", g.op("Less", rest, zero), g.op("Less", divisor, zero))
    return g.op("And", g.op("Not", g.op("Equal", rest, zero)), signs)


@lowering
def floor_divide(g: Builder, x1: Value, x2: Value) -> Value:
    if x1.dtype.is_floating:
        return _floor_divide_floats(g, x1, x2)
    zero, divisor = _number(g, x1, 0), _divisor(g, x2)
    result = g.op("Div", x1, divisor)
    if x1.dtype.kind == "signed integer":
        rest = g.op("Sub", x1, g.op("Mul", result, divisor))
        result = g.op("Sub", result, g.cast(_apart(g, rest, divisor), x1.dtype))
        result = select(g, g.op("Equal", x2, _number(g, x2, -1)), g.op("Sub", zero, x1), result)
    return select(g, g.op("Equal", x2, zero), zero, result)


def _floor_divide_floats(g: Builder, x1: Value, x2: Value) -> Value:
    dtype = x1.dtype
    x1, x2 = (computed(g, x) for x in (x1, x2))
    plain = g.op("Div", x1, x2)
    rest = g.op("Mod", x1, x2, fmod=1)
    exact = g.op("Div", g.op("Sub", x1, rest), x2)  # a whole number, but for rounding
    exact = g.op("Sub", exact, g.cast(_apart(g, rest, x2), exact.dtype))
    whole = g.op("Floor", exact)
    whole = g.op("Add", whole, g.cast(g.op("Greater", g.op("Sub", exact, whole), _number(g, x1, 0.5)), whole.dtype))
    zero = _number(g, x1, 0.0)
    whole = select(g, g.op("Equal", whole, zero), g.op("Mul", plain, zero), whole)  # with the sign of the quotient
    odd = g.op("Or", g.op("Equal", x2, zero), g.op("Or", g.op("IsInf", x1), g.op("IsInf", x2)))
    return g.cast(select(g, odd, g.op("Floor", plain), whole), dtype)


@lowering
def remainder(g: Builder, x1: Value, x2: Value) -> Value:
    dtype = x1.dtype
    if dtype.is_integer:
        return select(g, g.op("Equal", x2, _number(g, x2, 0)), _number(g, x1, 0), g.op("Mod", x1, _divisor(g, x2)))
    x1, x2 = (computed(g, x) for x in (x1, x2))
    rest = g.op("Mod", x1, x2, fmod=1)
    zero = _number(g, x1, 0.0)
    signed = select(g, g.op("Less", x2, zero), _number(g, x1, -0.0), zero)
    rest = select(g, g.op("Equal", rest, zero), signed, select(g, _apart(g, rest, x2), g.op("Add", rest, x2), rest))
    return g.cast(rest, dtype)


def computed(g: Builder, x: Value) -> Value:
    """A float in a dtype that has kernels, so that several operators round once."""
    return g.cast(x, dtypes.float32) if x.dtype.bits == 16 else x


@lowering
def not_equal(g: Builder, x1: Value, x2: Value) -> Value:
    return g.op("Not", g.op("Equal", x1, x2))


@lowering
def clip(g: Builder, x: Value, min: Value | None, max: Value | None) -> Value:
    dtype = x.dtype
    for bound in (min, max):
        if bound is not None:
            dtype = dtypes.promote(dtype, bound.dtype)
    result = g.cast(x, dtype)
    if min is not None:
        result = g.op("Max", result, g.cast(min, dtype))
    if max is not None:
        result = g.op("Min", result, g.cast(max, dtype))
    return g.cast(result, x.dtype)


# --- bits --------------------------------------------------------------------------------------------------------


def _as_bits(g: Builder, x: Value) -> Value:
    """An integer as 64 bits without a sign, the sign repeated to the left."""
    if x.dtype.kind == "unsigned integer":
        return g.cast(x, dtypes.uint64)
    return g.bitcast(g.cast(x, dtypes.int64), dtypes.uint64)


def _from_bits(g: Builder, x: Value, like: Value) -> Value:
    return g.cast(g.bitcast(x, dtypes.int64) if like.dtype.kind == "signed integer" else x, like.dtype)


def _shifted(g: Builder, x: Value, by: Value, direction: str) -> Value:
    held = g.op("Min", by, g.constant(63, dtypes.uint64))
    return g.op("BitShift", x, held, direction=direction)


@lowering
def bitwise_left_shift(g: Builder, x1: Value, x2: Value) -> Value:
    by = _as_bits(g, x2)  # one that is negative is large then, and nothing is left
    moved = _shifted(g, _as_bits(g, x1), by, "LEFT")
    gone = g.op("GreaterOrEqual", by, g.constant(x1.dtype.bits, dtypes.uint64))
    return _from_bits(g, select(g, gone, g.constant(0, dtypes.uint64), moved), x1)


@lowering
def bitwise_right_shift(g: Builder, x1: Value, x2: Value) -> Value:
    bits, by = _as_bits(g, x1), _as_bits(g, x2)
    if x1.dtype.kind == "signed integer":
        below = g.op("Less", x1, _number(g, x1, 0))
        turned = g.op("BitwiseNot", _shifted(g, g.op("BitwiseNot", bits), by, "RIGHT"))  # so that ones come in, not zeros
        return _from_bits(g, select(g, below, turned, _shifted(g, bits, by, "RIGHT")), x1)
    gone = g.op("GreaterOrEqual", by, g.constant(x1.dtype.bits, dtypes.uint64))
    return _from_bits(g, select(g, gone, g.constant(0, dtypes.uint64), _shifted(g, bits, by, "RIGHT")), x1)


_INTEGER_OF: Final = {
    dtypes.float16: dtypes.int16,
    dtypes.bfloat16: dtypes.int16,
    dtypes.float32: dtypes.int32,
    dtypes.float64: dtypes.int64,
}


@lowering
def signbit(g: Builder, x: Value) -> Value:
    bits = g.bitcast(x, _INTEGER_OF[x.dtype])
    return g.op("Less", bits, _number(g, bits, 0))


@lowering
def copysign(g: Builder, x1: Value, x2: Value) -> Value:
    return select(g, g.op("Xor", signbit(g, x1), signbit(g, x2)), negative(g, x1), x1)


@lowering
def nextafter(g: Builder, x1: Value, x2: Value) -> Value:
    integer = _INTEGER_OF[x1.dtype]
    bits = g.bitcast(x1, integer)
    one = g.constant(1, integer)
    # Away from zero the bits go up, whatever the sign; from zero itself the first number has the sign of the way.
    outward = g.op("Not", g.op("Xor", g.op("Greater", x2, x1), g.op("Greater", x1, _number(g, x1, 0))))
    stepped = select(g, outward, g.op("Add", bits, one), g.op("Sub", bits, one))
    low, _ = integer_range(integer)
    first = select(g, signbit(g, x2), g.constant(low + 1, integer), one)
    first = select(g, g.op("Equal", x1, _number(g, x1, 0)), first, stepped)
    moved = select(g, g.op("Equal", x1, x2), x2, g.bitcast(first, x1.dtype))
    return select(g, g.op("Or", isnan(g, x1), isnan(g, x2)), g.op("Add", x1, x2), moved)


# --- rounding and kinds of numbers -------------------------------------------------------------------------------


@lowering
def floor(g: Builder, x: Value) -> Value:
    return x if x.dtype.is_integer else g.op("Floor", x)


@lowering
def ceil(g: Builder, x: Value) -> Value:
    return x if x.dtype.is_integer else g.op("Ceil", x)


@lowering
def trunc(g: Builder, x: Value) -> Value:
    if x.dtype.is_integer:
        return x
    return select(g, g.op("Less", x, _number(g, x, 0)), g.op("Ceil", x), g.op("Floor", x))


@lowering
def round_(g: Builder, x: Value, decimals: int) -> Value:
    if x.dtype.is_integer:
        return x if decimals >= 0 else _to_unit(g, x, 10**-decimals)
    if decimals == 0:
        return g.op("Round", x)
    unit = _number(g, computed(g, x), 10.0 ** abs(decimals))
    wide = computed(g, x)
    there, back = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    return g.cast(g.op(back, g.op("Round", g.op(there, wide, unit)), unit), x.dtype)


def _to_unit(g: Builder, x: Value, unit: int) -> Value:
    """Integers rounded to a multiple of the unit, halves to the even one."""
    if unit > integer_range(x.dtype)[1]:
        return g.op("Sub", x, x)
    size = _number(g, x, unit)
    below = floor_divide(g, x, size)
    rest = g.op("Sub", x, g.op("Mul", below, size))
    left = g.op("Sub", size, rest)
    odd = g.op("Equal", g.op("BitwiseAnd", below, _number(g, x, 1)), _number(g, x, 1))
    up = g.op("Or", g.op("Greater", rest, left), g.op("And", g.op("Equal", rest, left), odd))
    return g.op("Mul", g.op("Add", below, g.cast(up, x.dtype)), size)


@lowering
def sign(g: Builder, x: Value) -> Value:
    steps: Value = g.op("Sign", x)
    return steps if x.dtype.is_integer else select(g, isnan(g, x), x, steps)


@lowering
def isnan(g: Builder, x: Value) -> Value:
    return g.op("IsNaN", x) if x.dtype.is_floating else g.op("Less", x, x)


@lowering
def isinf(g: Builder, x: Value) -> Value:
    return g.op("IsInf", x) if x.dtype.is_floating else g.op("Less", x, x)


@lowering
def isfinite(g: Builder, x: Value) -> Value:
    if not x.dtype.is_floating:
        return g.op("Equal", x, x)
    return g.op("Not", g.op("Or", g.op("IsNaN", x), g.op("IsInf", x)))
