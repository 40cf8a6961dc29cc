"""Linear algebra: products, diagonals, powers and norms. Factorizations, solving and determinants are in `factorization`."""

from __future__ import annotations

import builtins
import math
from numbers import Real
from typing import TYPE_CHECKING, Final

from intermodal import dtypes
from intermodal.dtypes import DType, DTypeLike
from intermodal.errors import InvalidValueError, ShapeError
from intermodal.ops import rules
from intermodal.ops.derivatives import conj_of
from intermodal.ops.matrices import common_axis, require_matrix, to_inexact
from intermodal.ops.reduction import accumulator, reduced
from intermodal.ops.rules import NUMERIC, AxisLike
from intermodal.ops.table import Inferred, Shape, Spec, op, primitive, public_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intermodal.tensor import Tensor


# --- products ----------------------------------------------------------------------------------------------------


def _infer_matmul(x1: Spec, x2: Spec) -> Inferred:
    if x1.ndim == 0 or x2.ndim == 0:
        raise ShapeError(f"cannot multiply {x1.shape} by {x2.shape}: a 0-d tensor is no matrix. Use im.multiply.")
    inner = x2.shape[-2] if x2.ndim > 1 else x2.shape[0]
    if x1.shape[-1] != inner:
        raise ShapeError(f"cannot multiply {x1.shape} by {x2.shape}: inner sizes {x1.shape[-1]} and {inner} differ.")
    dtype = rules.require(rules.operand_dtype(x1, x2), NUMERIC)
    batch = rules.broadcast(x1.shape[:-2], x2.shape[:-2])
    return Inferred((Spec(batch + x1.shape[-2:-1] * (x1.ndim > 1) + x2.shape[-1:] * (x2.ndim > 1), dtype),), {}, dtype)


def by_first_factor(g: Tensor, x1_spec: Spec, x2: Tensor) -> Tensor:
    """The derivative of a matrix product by its first factor. A matrix that met a whole stack gets the sum by one product."""
    if x2.ndim == 1:
        return multiply(expand_dims(g, -1), conj_of(x2))
    if x1_spec.ndim == 1:
        return matmul(conjugate(x2), g) if x2.ndim == 2 else squeeze(matmul(conjugate(x2), expand_dims(g, -1)), -1)
    if x2.ndim == 2 < g.ndim:  # many rows are one matrix, which NumPy does not see itself
        rows = reshape(g, (math.prod(g.shape[:-1]), g.shape[-1]))
        return reshape(matmul(rows, adjoint(x2)), x1_spec.shape)
    if x1_spec.ndim == 2 < x2.ndim:
        summed = (*range(x2.ndim - 2), x2.ndim - 1)
        return tensordot(g, conjugate(x2), axes=(summed, summed))
    return matmul(g, adjoint(x2))


def _by_second_factor(g: Tensor, x1: Tensor, x2_spec: Spec) -> Tensor:
    """The derivative of a matrix product by its second factor: for one weight and a batch of rows, one product."""
    if x1.ndim == 1:
        return multiply(g, conj_of(x1)) if x2_spec.ndim == 1 else multiply(expand_dims(conjugate(x1), -1), expand_dims(g, -2))
    if x2_spec.ndim <= 2 < x1.ndim:
        rows = math.prod(x1.shape[:-1])
        g, x1 = reshape(g, (rows, *x2_spec.shape[1:])), reshape(x1, (rows, x1.shape[-1]))
    return matmul(adjoint(x1), g)


@primitive(infer=_infer_matmul, autocast=True, vjp={"x1": by_first_factor, "x2": _by_second_factor})
def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product; leading axes broadcast as stacks of matrices, a 1-d tensor is a vector."""


def contracted(x1: Spec | Tensor, x2: Spec | Tensor, axes: object) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes that `tensordot` sums over, counted from the front: of the first tensor, of the second."""
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise InvalidValueError(f"axes {axes} must be a number, or one sequence of axes for each of the two tensors.")
        first, second = (a if isinstance(a, (tuple, list)) else (a,) for a in axes)
        if len(first) != len(second):
            raise InvalidValueError(f"axes {axes} name {len(first)} and {len(second)} axes. Name as many for both tensors.")
    else:
        count = rules.integer(axes, "axes")
        if not 0 <= count <= builtins.min(x1.ndim, x2.ndim):
            raise InvalidValueError(
                f"axes {count} must lie in [0, {builtins.min(x1.ndim, x2.ndim)}]: the tensors have shapes {x1.shape} and {x2.shape}."
            )
        first, second = tuple(range(x1.ndim - count, x1.ndim)), tuple(range(count))
    return rules.axes(tuple(first), x1.ndim, name="axes"), rules.axes(tuple(second), x2.ndim, name="axes")


def _infer_tensordot(x1: Spec, x2: Spec, *, axes: object) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x1, x2), NUMERIC)
    first, second = contracted(x1, x2, axes)
    for a, b in zip(first, second, strict=True):
        if x1.shape[a] != x2.shape[b]:
            raise ShapeError(
                f"axis {a} of {x1.shape} has size {x1.shape[a]}, axis {b} of {x2.shape} has {x2.shape[b]}. Contracted sizes must be equal."
            )
    return Inferred(
        (Spec(reduced(x1.shape, first, False) + reduced(x2.shape, second, False), dtype),), {"axes": (first, second)}, dtype
    )


@op(infer=_infer_tensordot, autocast=True)
def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """The products of two tensors summed over pairs of axes.

    Args:
        x1: the first tensor.
        x2: the second tensor.
        axes: how many of the first's last and the second's first axes to sum over, or the axes of each.
    """
    first, second = contracted(x1, x2, axes)
    left = [a for a in range(x1.ndim) if a not in first]
    right = [b for b in range(x2.ndim) if b not in second]
    rows, cols = (tuple(x.shape[a] for a in kept) for x, kept in ((x1, left), (x2, right)))
    inner = math.prod(x1.shape[a] for a in first)
    a = reshape(permute_dims(x1, (*left, *first)), (math.prod(rows), inner))
    b = reshape(permute_dims(x2, (*second, *right)), (inner, math.prod(cols)))
    return reshape(matmul(a, b), rows + cols)


def _infer_vectors(x1: Spec, x2: Spec, axis: object) -> tuple[int, Shape, DType]:
    along = common_axis(x1.ndim, x2.ndim, axis)
    n, m = x1.shape[along], x2.shape[along]
    if n != m:
        raise ShapeError(f"axis {along} has size {n} in {x1.shape} and {m} in {x2.shape}. The vectors must be equally long.")
    return along, rules.broadcast(x1.shape, x2.shape), rules.require(rules.operand_dtype(x1, x2), NUMERIC)


def _infer_vecdot(x1: Spec, x2: Spec, *, axis: int) -> Inferred:
    along, shape, dtype = _infer_vectors(x1, x2, axis)
    return Inferred((Spec(reduced(shape, (along + len(shape),), False), dtype),), {"axis": along}, dtype)


@op(
    infer=_infer_vecdot,
    autocast=True,
    vjp={
        "x1": lambda g, x2, axis: conj_of(expand_dims(g, axis)) * x2,
        "x2": lambda g, x1, axis: expand_dims(g, axis) * x1,
    },
)
def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The dot product of vectors along an axis, the first conjugated."""
    along = common_axis(x1.ndim, x2.ndim, axis)
    a, b = (moveaxis(x, along, -1) for x in (conj(x1), x2))
    return squeeze(matmul(expand_dims(a, -2), expand_dims(b, -1)), (-2, -1))


def _infer_outer(x1: Spec, x2: Spec) -> Inferred:
    if x1.ndim != 1 or x2.ndim != 1:
        raise ShapeError(f"shapes {x1.shape} and {x2.shape} are not both 1-d. Flatten them, or use im.tensordot(x1, x2, axes=0).")
    dtype = rules.require(rules.operand_dtype(x1, x2), NUMERIC)
    return Inferred((Spec(x1.shape + x2.shape, dtype),), {}, dtype)


@op(
    infer=_infer_outer,
    namespace="linalg",
    vjp={"x1": lambda g, x2: g @ conj_of(x2), "x2": lambda g, x1: conj_of(x1) @ g},
)
def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of each element of one vector with each of the other."""
    return multiply(expand_dims(x1, 1), x2)


def _infer_cross(x1: Spec, x2: Spec, *, axis: int) -> Inferred:
    along, shape, dtype = _infer_vectors(x1, x2, axis)
    if shape[along] != 3:
        raise ShapeError(f"axis {along} has size {shape[along]}. A cross product takes vectors of 3 elements.")
    return Inferred((Spec(shape, dtype),), {"axis": along}, dtype)


def _cross_by_first(g: Tensor, x2: Tensor, axis: int) -> Tensor:
    return cross(conjugate(x2), g, axis=axis)


def _cross_by_second(g: Tensor, x1: Tensor, axis: int) -> Tensor:
    return cross(g, conjugate(x1), axis=axis)


@op(infer=_infer_cross, namespace="linalg", vjp={"x1": _cross_by_first, "x2": _cross_by_second})
def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of 3 elements along an axis."""
    along = common_axis(x1.ndim, x2.ndim, axis)
    a, b = unstack(x1, axis=along), unstack(x2, axis=along)
    parts = [subtract(multiply(a[i - 2], b[i - 1]), multiply(a[i - 1], b[i - 2])) for i in range(3)]
    return stack(parts, axis=along)


def _with_leading_ones(shape: Shape, ndim: int) -> Shape:
    return (1,) * (ndim - len(shape)) + shape


def _infer_kron(x1: Spec, x2: Spec) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x1, x2), NUMERIC)
    ndim = builtins.max(x1.ndim, x2.ndim)
    sizes = zip(_with_leading_ones(x1.shape, ndim), _with_leading_ones(x2.shape, ndim), strict=True)
    return Inferred((Spec(tuple(n * m for n, m in sizes), dtype),), {}, dtype)


@op(infer=_infer_kron)
def kron(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The Kronecker product: a copy of the second tensor for each element of the first, multiplied by it.

    Example:
        >>> import intermodal as im
        >>> im.kron(im.asarray([1, 10]), im.asarray([1, 2, 3]))
        Tensor([ 1,  2,  3, 10, 20, 30], dtype=int64, device=numpy:cpu)
    """
    ndim = builtins.max(x1.ndim, x2.ndim)
    first, second = _with_leading_ones(x1.shape, ndim), _with_leading_ones(x2.shape, ndim)
    a = reshape(x1, tuple(m for n in first for m in (n, 1)))
    b = reshape(x2, tuple(m for n in second for m in (1, n)))
    return reshape(multiply(a, b), tuple(n * m for n, m in zip(first, second, strict=True)))


def _infer_power(x: Spec, *, n: int) -> Inferred:
    require_matrix(x, square=True)
    exponent = rules.integer(n, "n")
    dtype = to_inexact(x.dtype) if exponent < 0 else rules.require(x.dtype, NUMERIC)
    return Inferred((Spec(x.shape, dtype),), {"n": exponent}, dtype)


@op(infer=_infer_power, namespace="linalg")
def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """A square matrix multiplied n times by itself; the inverse for negative n. Integer matrices stay exact for n of 0 or more."""
    if n == 0:
        return broadcast_to(eye(x.shape[-1], dtype=x.dtype, device=x.device), x.shape)
    square_ = inv(x) if n < 0 else x
    result: Tensor | None = None
    for i in range(builtins.abs(n).bit_length()):
        square_ = matmul(square_, square_) if i else square_
        if builtins.abs(n) >> i & 1:
            result = square_ if result is None else matmul(result, square_)
    assert result is not None  # n is not 0, so some bit was set
    return result


# --- transposes and diagonals ------------------------------------------------------------------------------------


def _infer_matrix_transpose(x: Spec) -> Spec:
    require_matrix(x)
    return Spec((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)


@op(infer=_infer_matrix_transpose, movement=True, view=lambda x, value: turned(value))
def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged."""
    return turned(x)


def turned(x: Tensor) -> Tensor:
    """The last two axes exchanged, for other ops' bodies and rules: by one op."""
    return permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _infer_transpose(x: Spec) -> Spec:
    if x.ndim != 2:
        raise ShapeError(
            f".T is the transpose of a matrix, but the shape is {x.shape}. Use .mT for stacks of matrices, im.permute_dims for other orders."
        )
    return Spec(x.shape[::-1], x.dtype)


@op(infer=_infer_transpose, movement=True, view=lambda x, value: turned(value))
def transpose(x: Tensor, /) -> Tensor:
    """The transpose of a matrix."""
    return permute_dims(x, (1, 0))


def _diagonal_size(shape: Shape, offset: int) -> int:
    rows, cols = shape[-2:]
    size = builtins.min(rows + builtins.min(offset, 0), cols - builtins.max(offset, 0))
    return builtins.max(0, size)


def _infer_diagonal(x: Spec, *, offset: int) -> Inferred:
    require_matrix(x)
    k = rules.integer(offset, "offset")
    return Inferred((Spec((*x.shape[:-2], _diagonal_size(x.shape, k)), x.dtype),), {"offset": k})


def _on_diagonal(g: Tensor, x_spec: Spec, offset: int) -> Tensor:
    """The matrices with given diagonals and zeros elsewhere."""
    rows, cols = x_spec.shape[-2:]
    size, axis = (rows, -1) if offset >= 0 else (cols, -2)
    if size > g.shape[-1]:
        g = concat([g, zeros((*g.shape[:-1], size - g.shape[-1]), dtype=g.dtype, device=g.device)], axis=-1)
    return where(eye(rows, cols, k=offset, dtype=dtypes.bool_, device=g.device), expand_dims(g, axis), 0)


@op(infer=_infer_diagonal, namespace="linalg", movement=True, vjp={"x": _on_diagonal})
def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices: above the main one for a positive offset, below it for a negative one."""
    rows, cols = x.shape[-2:]
    flat = reshape(x, (*x.shape[:-2], rows * cols))
    first = offset if offset >= 0 else -offset * cols
    count = _diagonal_size(x.shape, offset)
    return flat[..., first : first + count * (cols + 1) : cols + 1] if count else flat[..., :0]


def _infer_trace(x: Spec, *, offset: int, dtype: DTypeLike | None) -> Inferred:
    require_matrix(x)
    rules.require(x.dtype, NUMERIC)
    out = rules.require(accumulator(x.dtype, dtype), NUMERIC)
    return Inferred((Spec(x.shape[:-2], out),), {"offset": rules.integer(offset, "offset"), "dtype": out})


@op(infer=_infer_trace, namespace="linalg")
def trace(x: Tensor, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """The sum of a diagonal; small integers add up in the default integer."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


# --- norms -------------------------------------------------------------------------------------------------------


def _infer_vector_norm(x: Spec, *, axis: AxisLike, keepdims: bool, ord: object) -> Inferred:
    dtype = to_inexact(x.dtype)
    axes = rules.axes(axis, x.ndim)
    if isinstance(ord, bool) or not isinstance(ord, Real) or math.isnan(ord):
        raise InvalidValueError(f"ord must be a number, not {ord!r}. Use im.linalg.matrix_norm for norms with a name.")
    if ord == -math.inf and math.prod(x.shape[a] for a in axes) == 0:
        raise ShapeError(
            f"a tensor of shape {x.shape} has no elements along axis {axis}, so none is smallest. Test the size first."
        )
    attrs = {"axis": axes, "keepdims": bool(keepdims), "ord": float(ord)}
    return Inferred((Spec(reduced(x.shape, axes, keepdims), dtype.component),), attrs, dtype)


def _vector_norm_rule(g: Tensor, x: Tensor, out: Tensor, axis: tuple[int, ...], keepdims: bool, ord: float) -> Tensor | None:
    """The slope of each element: (|x| / norm)^(ord - 1) along x's direction.

    At its kinks a norm has the slope 0: all orders where the norm is 0, orders below 1 and 1 itself at each element that
    is 0. Elements that are equally far out share the slope of an infinite order.
    """
    if ord == 0:
        return None
    if not keepdims:
        kept = reduced(x.shape, axis, True)
        g, out = reshape(g, kept), reshape(out, kept)
    if ord == 1:
        return multiply(g, sign(x))
    if math.isinf(ord):
        extreme = astype(equal(abs(x), out), g.dtype)
        share = divide(g, maximum(sum(extreme, axis=axis, keepdims=True), 1))  # none equals NaN
        return multiply(multiply(extreme, share), sign(x))
    still = equal(out, 0)
    norm = where(still, 1, out)
    if ord == 2:
        return multiply(where(still, 0, g), divide(x, norm))
    flat = logical_or(still, equal(x, 0))
    ratio = where(flat, 1, divide(abs(x), norm))
    return multiply(multiply(g, where(flat, 0, pow(ratio, ord - 1))), sign(x))


@op(infer=_infer_vector_norm, namespace="linalg", vjp={"x": _vector_norm_rule})
def vector_norm(x: Tensor, /, *, axis: AxisLike = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """The norm of vectors over axes: (sum |x|^ord)^(1/ord), the extremes for infinite ord, the count of nonzeros for 0.

    Example:
        >>> import intermodal as im
        >>> im.linalg.vector_norm(im.asarray([3.0, 4.0]))
        Tensor(5., dtype=float32, device=numpy:cpu)
    """
    narrow = x.dtype if x.dtype.bits < 32 else None
    x = abs(x if narrow is None else astype(x, dtypes.float32))  # a square in float16 is infinite from 256 on
    axes = rules.axes(axis, x.ndim)
    if ord == -math.inf:
        result = min(x, axis=axes, keepdims=keepdims)
    elif ord == math.inf:
        result = _greatest(x, axes, keepdims)
    elif ord == 0:
        result = sum(astype(not_equal(x, 0), x.dtype), axis=axes, keepdims=keepdims)
    elif ord == 1:
        result = sum(x, axis=axes, keepdims=keepdims)
    elif ord == 2:
        result = sqrt(sum(multiply(x, x), axis=axes, keepdims=keepdims))
    else:
        result = pow(sum(pow(x, ord), axis=axes, keepdims=keepdims), 1.0 / ord)
    return result if narrow is None else astype(result, narrow)


def _greatest(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """The greatest of numbers none of which is negative; 0 where there are none, the norm of nothing."""
    if math.prod(x.shape[a] for a in axes) == 0:
        return sum(x, axis=axes, keepdims=keepdims)
    return max(x, axis=axes, keepdims=keepdims)


_MATRIX_NORMS: Final = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


def _infer_matrix_norm(x: Spec, *, keepdims: bool, ord: object) -> Inferred:
    require_matrix(x)
    dtype = to_inexact(x.dtype)
    if isinstance(ord, bool) or ord not in (None, *_MATRIX_NORMS):
        raise InvalidValueError(f"ord {ord!r} is no matrix norm. Use one of {', '.join(map(repr, _MATRIX_NORMS))}.")
    rows, cols = x.shape[-2:]
    smallest_of: dict[object, int] = {-1: cols, -math.inf: rows, -2: builtins.min(rows, cols)}
    if smallest_of.get(ord, 1) == 0:
        raise ShapeError(
            f"matrices of {rows} by {cols} have nothing of which ord {ord} could take the smallest. Test the size first."
        )
    shape = x.shape[:-2] + (1, 1) * bool(keepdims)
    return Inferred((Spec(shape, dtype.component),), {"keepdims": bool(keepdims), "ord": "fro" if ord is None else ord}, dtype)


@op(infer=_infer_matrix_norm, namespace="linalg")
def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Tensor:
    """The norm of matrices.

    Args:
        x: matrices in the last two axes.
        keepdims: keep those axes with size 1.
        ord: ``fro`` for the root of the sum of squares, ``nuc`` for the sum of the singular values, 2 and -2 for the
            greatest and smallest of them, 1 and -1 for column sums of absolute values, inf and -inf for row sums.
    """
    if ord in (None, "fro"):
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    parts = svdvals(x) if ord in ("nuc", 2, -2) else vector_norm(x, axis=-2 if ord in (1, -1) else -1, ord=1)
    if ord == "nuc":
        result = sum(parts, axis=-1)
    elif ord in (-1, -2, -math.inf):
        result = min(parts, axis=-1)
    else:
        result = _greatest(parts, (parts.ndim - 1,), False)
    return expand_dims(result, (-2, -1)) if keepdims else result


from intermodal.ops.creation import eye, zeros  # families use each other; bodies look names up when they run
from intermodal.ops.elementwise import (
    abs,
    conj,
    divide,
    equal,
    logical_or,
    maximum,
    multiply,
    not_equal,
    pow,
    sign,
    sqrt,
    subtract,
    where,
)
from intermodal.ops.factorization import adjoint, conjugate, inv, svdvals
from intermodal.ops.manipulation import (
    astype,
    broadcast_to,
    concat,
    expand_dims,
    moveaxis,
    permute_dims,
    reshape,
    squeeze,
    stack,
    unstack,
)
from intermodal.ops.reduction import max, min, sum

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
