"""Reductions and running totals: sums, products, extremes, moments, any and all."""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Any

from intermodal import dtypes
from intermodal.dtypes import DType, DTypeLike
from intermodal.errors import ShapeError
from intermodal.ops import rules
from intermodal.ops.derivatives import DISCRETE, conj_of, spread
from intermodal.ops.rules import ANY, BOOL, INEXACT, NUMERIC, REAL, AxisLike
from intermodal.ops.table import Infer, Inferred, Shape, Spec, op, primitive, public_names

if TYPE_CHECKING:
    from intermodal.tensor import Tensor


def reduced(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """A shape with some axes reduced: gone, or kept with size 1."""
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def accumulator(x: DType, dtype: DTypeLike | None) -> DType:
    """The dtype of a sum or product: what was asked for, else at least the default integer."""
    if dtype is not None:
        return dtypes.as_dtype(dtype)
    if x.is_bool or x.kind == "signed integer":
        return dtypes.int64
    return dtypes.uint64 if x.is_integer else x


def reduction(kinds: frozenset[str], *, result: str = "same", inexact: bool = False, nonempty: bool = False) -> Infer:
    """The rule of a reduction over axes.

    Args:
        kinds: the kinds of dtype that the op takes.
        result: ``same``, ``bool``, ``index``, or ``total`` for a sum's accumulator.
        inexact: integers are averaged in float64.
        nonempty: there is no answer for zero elements.
    """

    def infer(x: Spec, *, axis: AxisLike, keepdims: bool, **attrs: Any) -> Inferred:
        axes = rules.axes(axis, x.ndim)
        dtype = rules.floating(x.dtype, dtypes.float64) if inexact else x.dtype
        rules.require(dtype, kinds)
        if (
            nonempty
            and math.prod(x.shape[a] for a in axes) == 0
            and math.prod(n for i, n in enumerate(x.shape) if i not in axes) > 0
        ):
            raise ShapeError(
                f"a tensor of shape {x.shape} has no elements along axis {axis}, and nothing is no extreme. Test the size first."
            )
        if result == "total":
            attrs["dtype"] = out = rules.require(accumulator(dtype, attrs["dtype"]), NUMERIC)
        else:
            out = {"same": dtype, "bool": dtypes.bool_, "real": dtype.component}[result]
        return Inferred(
            (Spec(reduced(x.shape, axes, keepdims), out),), {"axis": axes, "keepdims": bool(keepdims), **attrs}, dtype
        )

    return infer


@primitive(infer=reduction(ANY, result="total"), vjp={"x": spread})
def sum(x: Tensor, /, *, axis: AxisLike = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Tensor:
    """The sum over axes, 0 for no elements; small integers add up in the default integer.

    Example:
        >>> import intermodal as im
        >>> im.sum(im.asarray([[1, 2], [3, 4]]), axis=0)
        Tensor([4, 6], dtype=int64, device=numpy:cpu)
    """


def _prod_rule(g: Tensor, x: Tensor, x_spec: Spec, axis: tuple[int, ...], dtype: DType, keepdims: bool) -> Tensor:
    # The product of all other elements, without a division, which would fail where one is 0: of those before and those after.
    order = (*(a for a in range(x.ndim) if a not in axis), *axis)
    ordered = permute_dims(astype(x, dtype, copy=False), order)
    lines = ordered.reshape((*ordered.shape[: x.ndim - len(axis)], count(x, axis)))
    after = flip(_products_before(flip(lines, axis=-1), -1), axis=-1)
    others = (_products_before(lines, -1) * after).reshape(ordered.shape)
    return spread(g, x_spec, axis, keepdims) * conj_of(permute_dims(others, tuple(order.index(a) for a in range(x.ndim))))


def _products_before(x: Tensor, axis: int) -> Tensor:
    """For each element along an axis the product of those before it."""
    return _part(cumulative_prod(x, axis=axis, dtype=x.dtype, include_initial=True), axis, 0, x.shape[axis])


def _part(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    return x[(slice(None),) * (axis % x.ndim) + (slice(start, stop),)]


@primitive(infer=reduction(ANY, result="total"), vjp={"x": _prod_rule})
def prod(x: Tensor, /, *, axis: AxisLike = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Tensor:
    """The product over axes, 1 for no elements."""


def _extreme_rule(g: Tensor, x: Tensor, out: Tensor, x_spec: Spec, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    # Elements that are equally extreme share the gradient. Beside a NaN no element is extreme, and all gradients are NaN.
    reached = astype(equal(x, spread(out, x_spec, axis, keepdims)), g.dtype)
    count = sum(reached, axis=axis, keepdims=True)
    return spread(g.reshape(count.shape) / where(equal(count, 0), math.nan, count), x_spec, axis, True) * reached


@primitive(infer=reduction(REAL | BOOL, nonempty=True), vjp={"x": _extreme_rule})
def max(x: Tensor, /, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The greatest element over axes; NaN if there is one."""


@primitive(infer=reduction(REAL | BOOL, nonempty=True), vjp={"x": _extreme_rule})
def min(x: Tensor, /, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The smallest element over axes; NaN if there is one."""


@primitive(infer=reduction(ANY, result="bool"), vjp=DISCRETE)
def all(x: Tensor, /, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Whether all elements are true or nonzero."""


@primitive(infer=reduction(ANY, result="bool"), vjp=DISCRETE)
def any(x: Tensor, /, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Whether some element is true or nonzero."""


def count(x: Tensor | Spec, axis: AxisLike) -> int:
    """How many elements a reduction takes together."""
    return math.prod(x.shape[a] for a in rules.axes(axis, x.ndim))


def _mean_rule(g: Tensor, x_spec: Spec, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    return spread(g / float(count(x_spec, axis) or math.nan), x_spec, axis, keepdims)


@op(infer=reduction(INEXACT, inexact=True), vjp={"x": _mean_rule})
def mean(x: Tensor, /, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean over axes; NaN for no elements."""
    n = count(x, axis)
    return divide(sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype), float(n) if n else math.nan)


def _var_rule(g: Tensor, x: Tensor, x_spec: Spec, axis: tuple[int, ...], correction: float, keepdims: bool) -> Tensor:
    n = count(x, axis) - correction
    slope = spread(g * (2.0 / n if n > 0 else math.nan), x_spec, axis, keepdims)
    return slope * (x - mean(x, axis=axis, keepdims=True))


@op(infer=reduction(INEXACT, inexact=True, result="real"), vjp={"x": _var_rule})
def var(x: Tensor, /, *, axis: AxisLike = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over axes: squared deviations over (n - correction)."""
    n = count(x, axis) - correction
    deviation = subtract(x, mean(x, axis=axis, keepdims=True))
    squares = square(abs(deviation))
    total = sum(squares, axis=axis, keepdims=keepdims, dtype=squares.dtype)
    return divide(total, float(n)) if n > 0 else multiply(add(total, 0.0), math.nan)


def _std_rule(
    g: Tensor, x: Tensor, out: Tensor, x_spec: Spec, axis: tuple[int, ...], correction: float, keepdims: bool
) -> Tensor:
    # Where all elements are equal there is a kink, as of abs at 0; the derivative is 0 there too.
    n = count(x, axis) - correction
    still = equal(out, 0)
    slope = where(still, 0, g / (where(still, 1, out) * (n if n > 0 else math.nan)))
    return spread(slope, x_spec, axis, keepdims) * (x - mean(x, axis=axis, keepdims=True))


@op(infer=reduction(INEXACT, inexact=True, result="real"), vjp={"x": _std_rule})
def std(x: Tensor, /, *, axis: AxisLike = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation over axes, the square root of `var`."""
    return sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def _infer_count(x: Spec, *, axis: AxisLike, keepdims: bool) -> Inferred:
    axes = rules.axes(axis, x.ndim)
    return Inferred((Spec(reduced(x.shape, axes, keepdims), dtypes.int64),), {"axis": axes, "keepdims": bool(keepdims)})


@op(infer=_infer_count, vjp=DISCRETE)
def count_nonzero(x: Tensor, /, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """How many elements are true or nonzero."""
    return sum(x if x.dtype.is_bool else not_equal(x, 0), axis=axis, keepdims=keepdims)


@op(infer=reduction(NUMERIC, result="real", nonempty=True))
def max_abs(x: Tensor, /, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The greatest absolute value over axes."""
    return max(abs(x), axis=axis, keepdims=keepdims)


def _logsumexp_rule(g: Tensor, x: Tensor, x_spec: Spec, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    # Not exp(x - out), which loses as many digits as out has before the point. Where all are minus infinity the weights are 0.
    if count(x, axis) == 0:
        return x
    high = max(x.detach(), axis=axis, keepdims=True)  # a constant: the weights do not depend on it
    weights = exp(x - where(isfinite(high), high, 0.0))
    total = sum(weights, axis=axis, keepdims=True, dtype=x.dtype)
    return spread(g, x_spec, axis, keepdims) * (weights / where(equal(total, 0), 1, total))


@op(infer=reduction(INEXACT, inexact=True), vjp={"x": _logsumexp_rule})
def logsumexp(x: Tensor, /, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) without overflow; minus infinity for no elements."""
    if count(x, axis) == 0:
        return log(sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype))
    high = max(x, axis=axis, keepdims=True)
    shift = where(isfinite(high), high, 0.0)  # an infinite maximum would turn the differences into NaN
    total = log(sum(exp(subtract(x, shift)), axis=axis, keepdims=True, dtype=x.dtype))
    result = add(total, shift)
    return result if keepdims else squeeze(result, rules.axes(axis, x.ndim))


def cumulative(kinds: frozenset[str], *, total: bool) -> Infer:
    """The rule of a running op along one axis."""

    def infer(x: Spec, *, axis: int | None, include_initial: bool = False, **attrs: Any) -> Inferred:
        rules.require(x.dtype, kinds)
        if axis is None and x.ndim != 1:
            raise ShapeError(
                f"a tensor of shape {x.shape} has {x.ndim} axes, so axis must say along which. Only a 1-d tensor needs none."
            )
        along = rules.axis(0 if axis is None else axis, x.ndim)
        shape = tuple(n + (i == along and bool(include_initial)) for i, n in enumerate(x.shape))
        if not total:
            return Inferred((x,), {"axis": along})
        dtype = accumulator(x.dtype, attrs["dtype"])
        return Inferred((Spec(shape, dtype),), {"axis": along, "dtype": dtype, "include_initial": bool(include_initial)})

    return infer


def _without_initial(g: Tensor, axis: int, include_initial: bool) -> Tensor:
    return _part(g, axis, 1, g.shape[axis]) if include_initial else g


def _cumulative_sum_rule(g: Tensor, axis: int, include_initial: bool) -> Tensor:
    g = _without_initial(g, axis, include_initial)
    return flip(cumulative_sum(flip(g, axis=axis), axis=axis, dtype=g.dtype), axis=axis)


@primitive(infer=cumulative(ANY, total=True), vjp={"x": _cumulative_sum_rule})
def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor:
    """The running sum along an axis, with the starting 0 if asked for."""


def _cumulative_prod_rule(g: Tensor, x: Tensor, axis: int, dtype: DType, include_initial: bool) -> Tensor:
    # An element's gradient is the product of those before it times s, where s[k] = g[k] + x[k + 1] * s[k + 1]. Steps of
    # 1, 2, 4 … solve that for all k at once; the usual way, a sum of g * out over x, would fail where an element is 0.
    n = x.shape[axis]
    x = conj_of(astype(x, dtype, copy=False))  # type: ignore[assignment]  # of a tensor it is one
    s, factors = _without_initial(g, axis, include_initial), _part(x, axis, 1, n)
    step = 1
    while step < n:
        joined = _part(s, axis, 0, n - step) + factors * _part(s, axis, step, n)
        s = concat([joined, _part(s, axis, n - step, n)], axis=axis)
        left = builtins.max(n - 2 * step, 0)
        factors = _part(factors, axis, 0, left) * _part(factors, axis, step, step + left)
        step *= 2
    return s * _products_before(x, axis)


@primitive(infer=cumulative(ANY, total=True), vjp={"x": _cumulative_prod_rule})
def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor:
    """The running product along an axis, with the starting 1 if asked for."""


def _cumulative_extreme_rule(g: Tensor, x: Tensor, out: Tensor, axis: int) -> Tensor:
    # What came out is the last element so far that equals it; that one has the gradient. A NaN stands for itself.
    view = (1,) * axis + (-1,) + (1,) * (x.ndim - axis - 1)
    places = arange(x.shape[axis], device=x.device).reshape(view)
    reached = logical_or(equal(x, out), isnan(x))
    source = cumulative_max(where(reached, places, 0), axis=axis)
    return scatter(zeros(g.shape, dtype=g.dtype, device=g.device), source, g, axis=axis, mode="add")


@primitive(infer=cumulative(REAL | BOOL, total=False), vjp={"x": _cumulative_extreme_rule})
def cumulative_max(x: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The greatest element so far along an axis; NaN from the first NaN on."""


@primitive(infer=cumulative(REAL | BOOL, total=False), vjp={"x": _cumulative_extreme_rule})
def cumulative_min(x: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The smallest element so far along an axis; NaN from the first NaN on."""


from intermodal.ops.creation import arange, zeros  # families use each other; bodies look names up when they run
from intermodal.ops.elementwise import (
    abs,
    add,
    divide,
    equal,
    exp,
    isfinite,
    isnan,
    log,
    logical_or,
    multiply,
    not_equal,
    sqrt,
    square,
    subtract,
    where,
)
from intermodal.ops.manipulation import astype, concat, flip, permute_dims, squeeze
from intermodal.ops.searching import scatter

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
