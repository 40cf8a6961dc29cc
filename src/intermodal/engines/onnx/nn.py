"""Lowerings of neural network ops: ONNX's own operators, for floats, where they mean the same."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from intermodal import dtypes
from intermodal.engines.onnx.analysis import erfc
from intermodal.engines.onnx.builder import Builder, Value
from intermodal.engines.onnx.elementwise import computed, select
from intermodal.engines.onnx.lowering import LOWERINGS, ONLY, Lowering, lowering
from intermodal.engines.onnx.reduction import reduced
from intermodal.ops.pooling import pool_geometry

__all__: list[str] = []

Pairs = tuple[tuple[int, int], ...]
Sizes = tuple[int, ...]
_FLOATS: Final = frozenset((dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64))
_SMALL: Final = _FLOATS - {dtypes.float64}
"""What an operator takes whose only kernel is float32's; float64 has the row's decomposition."""


# --- activation --------------------------------------------------------------------------------------------------


@lowering(only=_FLOATS)
def relu(g: Builder, x: Value) -> Value:
    return g.op("Relu", x)


@lowering(only=_FLOATS)
def leaky_relu(g: Builder, x: Value, negative_slope: float) -> Value:
    return select(g, g.op("Less", x, g.constant_like(x, 0)), g.op("Mul", x, g.constant_like(x, negative_slope)), x)


def _logistic(g: Builder, x: Value) -> Value:
    # ONNX Runtime's own is a quotient of polynomials, which has few digits left where the result is small.
    one, small = g.constant_like(x, 1), g.op("Exp", g.op("Neg", g.op("Abs", x)))
    above = select(g, g.op("Less", x, g.constant_like(x, 0)), small, one)
    return g.op("Div", above, g.op("Add", small, one))


@lowering(only=_FLOATS)
def sigmoid(g: Builder, x: Value) -> Value:
    return g.cast(_logistic(g, computed(g, x)), x.dtype)


@lowering(only=_FLOATS)
def silu(g: Builder, x: Value) -> Value:
    wide = computed(g, x)
    return g.cast(g.op("Mul", wide, _logistic(g, wide)), x.dtype)


@lowering(only=_FLOATS)
def gelu(g: Builder, x: Value, approximate: str) -> Value:
    y = computed(g, x)
    half = g.op("Mul", y, g.constant_like(y, 0.5))
    if approximate == "tanh":
        cube = g.op("Mul", g.op("Mul", g.op("Mul", y, y), y), g.constant_like(y, 0.044715))
        inner = g.op("Mul", g.op("Add", y, cube), g.constant_like(y, math.sqrt(2 / math.pi)))
        return g.cast(g.op("Mul", half, g.op("Add", g.op("Tanh", inner), g.constant_like(y, 1.0))), x.dtype)
    # ONNX's own adds 1 to erf, which leaves nothing of the lower tail.
    return g.cast(g.op("Mul", half, erfc(g, g.op("Mul", y, g.constant_like(y, -math.sqrt(0.5))))), x.dtype)


def _unless_dead(g: Builder, operator: str, x: Value, axis: int, value: float) -> Value:
    """A line of nothing but -inf, for which ONNX Runtime has NaN, gets a value."""
    wide = computed(g, x)
    found = g.op(operator, wide, axis=axis)
    dead = g.op("Equal", reduced(g, "ReduceMax", wide, (axis,), True), g.constant_like(wide, -math.inf))
    return g.cast(select(g, dead, g.constant_like(wide, value), found), x.dtype)


@lowering(only=_FLOATS)
def softmax(g: Builder, x: Value, axis: int) -> Value:
    return _unless_dead(g, "Softmax", x, axis, 0.0)


@lowering(only=_FLOATS)
def log_softmax(g: Builder, x: Value, axis: int) -> Value:
    return _unless_dead(g, "LogSoftmax", x, axis, -math.inf)


# --- layers ------------------------------------------------------------------------------------------------------


@lowering(only=_FLOATS)
def linear(g: Builder, x: Value, weight: Value, bias: Value | None) -> Value:
    wide = [None if v is None else computed(g, v) for v in (x, weight, bias)]
    result = g.op("MatMul", wide[0], g.op("Transpose", wide[1], perm=[1, 0]))
    return g.cast(result if bias is None else g.op("Add", result, wide[2]), x.dtype)


def _conv(
    g: Builder, x: Value, weight: Value, bias: Value | None, stride: Sizes, padding: Pairs, dilation: Sizes, groups: int
) -> Value:
    attrs: dict[str, Any] = {"strides": stride, "pads": _sides(padding), "dilations": dilation, "group": groups}
    return g.op("Conv", x, weight, bias, **attrs)


def _conv_transpose(
    g: Builder,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sizes,
    padding: Pairs,
    output_padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> Value:
    attrs: dict[str, Any] = {"strides": stride, "dilations": dilation, "group": groups}
    if all(more < step for more, step in zip(output_padding, stride, strict=True)):
        return g.op("ConvTranspose", x, weight, bias, pads=_sides(padding), output_padding=output_padding, **attrs)
    # More than ONNX Runtime adds itself. What reaches past the last kernel is nothing but bias; what is padded away is cut off.
    ends = tuple((-before, more - after) for (before, after), more in zip(padding, output_padding, strict=True))
    whole = g.op("ConvTranspose", computed(g, x), computed(g, weight), **attrs)
    whole = g.op("Pad", whole, g.constant(np.asarray(_sides(((0, 0), (0, 0), *ends)))), g.constant_like(whole, 0))
    return g.cast(_affine(g, whole, None, bias, (1,), len(stride) + 2), x.dtype)


def _sides(padding: Pairs) -> list[int]:
    """As ONNX takes them: all in front, then all behind."""
    return [before for before, _ in padding] + [after for _, after in padding]


def _max_pool(g: Builder, x: Value, kernel_size: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes, ceil_mode: bool) -> Value:
    if ceil_mode:  # ONNX Runtime starts windows in the padding, too; so what ceil_mode adds is written as padding
        padding = pool_geometry(_spatial(g, x), kernel_size, stride, padding, dilation, ceil_mode).padding
    wide = computed(g, x)
    odd = g.cast(g.op("IsNaN", wide), wide.dtype)
    if any(max(pair) >= k for pair, k in zip(padding, kernel_size, strict=True)):  # more than ONNX Runtime pads itself
        sides = g.constant(np.asarray(_sides(((0, 0), (0, 0), *padding))))
        wide, odd = (g.op("Pad", v, sides, g.constant_like(wide, -math.inf)) for v in (wide, odd))
        padding = ((0, 0),) * len(padding)
    attrs: dict[str, Any] = {"kernel_shape": kernel_size, "strides": stride, "pads": _sides(padding), "dilations": dilation}
    found = g.op("MaxPool", wide, **attrs)
    odd = g.op("MaxPool", odd, **attrs)  # ONNX Runtime passes NaN over
    return g.cast(select(g, g.op("Greater", odd, g.constant_like(wide, 0)), g.constant_like(wide, math.nan), found), x.dtype)


def _spatial(g: Builder, x: Value) -> Sizes:
    """The sizes of the axes behind batch and channels, of which the first may have a name."""
    return g.sizes(Value(x.name, x.dtype, None if x.shape is None else x.shape[2:]))


def _avg_pool(
    g: Builder, x: Value, kernel_size: Sizes, stride: Sizes, padding: Pairs, ceil_mode: bool, count_include_pad: bool
) -> Value:
    wide = computed(g, x)
    attrs: dict[str, Any] = {"kernel_shape": kernel_size, "strides": stride}
    if not ceil_mode and all(max(pair) < k for pair, k in zip(padding, kernel_size, strict=True)):
        found = g.op("AveragePool", wide, pads=_sides(padding), count_include_pad=int(count_include_pad), **attrs)
        return g.cast(found, x.dtype)
    # What ceil_mode adds counts for nothing, and ONNX Runtime pads no more than a window: so zeros are put around, and the mean
    # of a whole window is brought to the number of elements that count.
    sizes = _spatial(g, x)
    geometry = pool_geometry(sizes, kernel_size, stride, padding, 1, ceil_mode)
    sides = g.constant(np.asarray(_sides(((0, 0), (0, 0), *geometry.padding))))
    whole = g.op("AveragePool", g.op("Pad", wide, sides, g.constant_like(wide, 0)), **attrs)
    factor = np.ones(())
    for n, k, step, count, (before, after) in zip(sizes, kernel_size, stride, geometry.counts(sizes), padding, strict=True):
        low, high = (-before, n + after) if count_include_pad else (0, n)
        start = np.arange(count) * step - before
        factor = factor[..., None] * (k / (np.minimum(start + k, high) - np.maximum(start, low)))
    return g.cast(g.op("Mul", whole, g.constant_like(whole, factor)), x.dtype)


def _for_ranks(name: str, function: Lowering, only: frozenset[dtypes.DType]) -> None:
    for rank in (1, 2, 3):
        LOWERINGS[f"{name}{rank}d"], ONLY[f"{name}{rank}d"] = function, only


_for_ranks("conv", _conv, _SMALL)
_for_ranks("conv_transpose", _conv_transpose, _SMALL)
_for_ranks("max_pool", _max_pool, _FLOATS)
_for_ranks("avg_pool", _avg_pool, _SMALL)


# --- normalization -----------------------------------------------------------------------------------------------


@lowering(only=_FLOATS)
def mean(g: Builder, x: Value, axis: Sizes, keepdims: bool) -> Value:
    total = reduced(g, "ReduceSum", computed(g, x), axis, keepdims)
    count = g.op("ReduceProd", g.op("Gather", g.op("Shape", x), g.constant(np.asarray(axis, np.int64))), keepdims=0)
    return g.cast(g.op("Div", total, g.cast(count, total.dtype)), x.dtype)


def _average(g: Builder, x: Value, axis: Sizes) -> Value:
    return g.op("ReduceMean", x, g.constant(np.asarray(axis)), keepdims=1) if axis else x


def _affine(g: Builder, x: Value, weight: Value | None, bias: Value | None, axis: Sizes, ndim: int) -> Value:
    """Times a weight, plus a bias, both of the sizes of some axes in the input's order."""
    rest = [a for a in range(ndim) if a not in axis]
    for operator, part in (("Mul", weight), ("Add", bias)):
        if part is not None:
            wide = computed(g, part)
            x = g.op(operator, x, g.op("Unsqueeze", wide, g.constant(np.asarray(rest))) if rest else wide)
    return x


def _scaled(g: Builder, x: Value, axis: Sizes, eps: float) -> Value:
    """Over the root of the mean square."""
    square = _average(g, g.op("Mul", x, x), axis)
    return g.op("Div", x, g.op("Sqrt", g.op("Add", square, g.constant_like(x, eps))))


@lowering(only=_FLOATS)
def layer_norm(g: Builder, x: Value, weight: Value | None, bias: Value | None, axis: Sizes, eps: float) -> Value:
    wide = computed(g, x)
    # The mean is itself rounded as the numbers are: where it is large, what it leaves has a mean of its own.
    for _ in range(2):
        wide = g.op("Sub", wide, _average(g, wide, axis))
    return g.cast(_affine(g, _scaled(g, wide, axis, eps), weight, bias, axis, x.ndim), x.dtype)


@lowering(only=_FLOATS)
def rms_norm(g: Builder, x: Value, weight: Value | None, axis: Sizes, eps: float) -> Value:
    return g.cast(_affine(g, _scaled(g, computed(g, x), axis, eps), weight, None, axis, x.ndim), x.dtype)
