"""Reductions and running totals: sums, products, extremes, moments, any and all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from intermodal import dtypes
from intermodal.dtypes import DType, DTypeLike
from intermodal.errors import ShapeError
from intermodal.ops import rules
from intermodal.ops.derivatives import spread
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


@primitive(infer=reduction(ANY, result="total"))
def prod(x: Tensor, /, *, axis: AxisLike = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Tensor:
    """The product over axes, 1 for no elements."""


@primitive(infer=reduction(REAL | BOOL, nonempty=True))
def max(x: Tensor, /, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The greatest element over axes; NaN if there is one."""


@primitive(infer=reduction(REAL | BOOL, nonempty=True))
def min(x: Tensor, /, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The smallest element over axes; NaN if there is one."""


@primitive(infer=reduction(ANY, result="bool"))
def all(x: Tensor, /, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Whether all elements are true or nonzero."""


@primitive(infer=reduction(ANY, result="bool"))
def any(x: Tensor, /, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Whether some element is true or nonzero."""


def count(x: Tensor, axis: AxisLike) -> int:
    """How many elements a reduction takes together."""
    return math.prod(x.shape[a] for a in rules.axes(axis, x.ndim))


@op(infer=reduction(INEXACT, inexact=True))
def mean(x: Tensor, /, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean over axes; NaN for no elements."""
    n = count(x, axis)
    return divide(sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype), float(n) if n else math.nan)


@op(infer=reduction(INEXACT, inexact=True, result="real"))
def var(x: Tensor, /, *, axis: AxisLike = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over axes: squared deviations over (n - correction)."""
    n = count(x, axis) - correction
    deviation = subtract(x, mean(x, axis=axis, keepdims=True))
    squares = square(abs(deviation))
    total = sum(squares, axis=axis, keepdims=keepdims, dtype=squares.dtype)
    return divide(total, float(n)) if n > 0 else multiply(add(total, 0.0), math.nan)


@op(infer=reduction(INEXACT, inexact=True, result="real"))
def std(x: Tensor, /, *, axis: AxisLike = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation over axes, the square root of `var`."""
    return sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def _infer_count(x: Spec, *, axis: AxisLike, keepdims: bool) -> Inferred:
    axes = rules.axes(axis, x.ndim)
    return Inferred((Spec(reduced(x.shape, axes, keepdims), dtypes.int64),), {"axis": axes, "keepdims": bool(keepdims)})


@op(infer=_infer_count)
def count_nonzero(x: Tensor, /, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """How many elements are true or nonzero."""
    return sum(x if x.dtype.is_bool else not_equal(x, 0), axis=axis, keepdims=keepdims)


@op(infer=reduction(NUMERIC, result="real", nonempty=True))
def max_abs(x: Tensor, /, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The greatest absolute value over axes."""
    return max(abs(x), axis=axis, keepdims=keepdims)


@op(infer=reduction(INEXACT, inexact=True))
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


@primitive(infer=cumulative(ANY, total=True))
def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor:
    """The running sum along an axis, with the starting 0 if asked for."""


@primitive(infer=cumulative(ANY, total=True))
def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor:
    """The running product along an axis, with the starting 1 if asked for."""


@primitive(infer=cumulative(REAL | BOOL, total=False))
def cumulative_max(x: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The greatest element so far along an axis; NaN from the first NaN on."""


@primitive(infer=cumulative(REAL | BOOL, total=False))
def cumulative_min(x: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The smallest element so far along an axis; NaN from the first NaN on."""


from intermodal.ops.elementwise import (  # families use each other; bodies look names up when they run
    abs,
    add,
    divide,
    exp,
    isfinite,
    log,
    multiply,
    not_equal,
    sqrt,
    square,
    subtract,
    where,
)
from intermodal.ops.manipulation import squeeze

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
