"""Factorizations of matrices and what follows from them: solving, inverses, determinants, ranks.

QR, singular values and eigenvalues are primitives. Cholesky, solving and determinants have bodies, so that an engine
without LAPACK has them too; an engine with it brings its own.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import ml_dtypes

from intermodal import dtypes
from intermodal.dtypes import DType
from intermodal.errors import ExecutionError, ShapeError
from intermodal.ops import rules
from intermodal.ops.matrices import of_square, require_matrix, to_inexact
from intermodal.ops.rules import FLOAT
from intermodal.ops.table import Inferred, Spec, op, primitive, public_names

if TYPE_CHECKING:
    from intermodal.ops.table import Operand
    from intermodal.tensor import Tensor

SINGULAR: Final = "a matrix is singular. Use im.linalg.pinv, or add a small multiple of the identity first."
NOT_POSITIVE: Final = "a matrix is not positive definite. Add a small multiple of the identity first, or use im.linalg.eigh."


class QRResult(NamedTuple):
    """A matrix as ``Q @ R``."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """A matrix as ``(U * S) @ Vh``."""

    U: Any
    S: Any
    Vh: Any


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


class SlogdetResult(NamedTuple):
    """A determinant as ``sign * exp(logabsdet)``."""

    sign: Any
    logabsdet: Any


# --- factorizations ----------------------------------------------------------------------------------------------


def _infer_qr(x: Spec, *, mode: str) -> Inferred:
    rules.one_of(mode, "mode", ("reduced", "complete"))
    require_matrix(x)
    dtype = to_inexact(x.dtype)
    *batch, rows, cols = x.shape
    inner = rows if mode == "complete" else min(rows, cols)
    return Inferred((Spec((*batch, rows, inner), dtype), Spec((*batch, inner, cols), dtype)), {"mode": mode}, dtype)


@primitive(infer=_infer_qr, namespace="linalg", result=QRResult)
def qr(x: Tensor, /, *, mode: str = "reduced") -> QRResult:
    """Orthonormal columns Q and an upper triangle R with ``Q @ R == x``; Q is square if mode is ``complete``."""


def _infer_svd(x: Spec, *, full_matrices: bool) -> Inferred:
    require_matrix(x)
    dtype = to_inexact(x.dtype)
    *batch, rows, cols = x.shape
    count = min(rows, cols)
    left, right = (rows, cols) if full_matrices else (count, count)
    specs = (Spec((*batch, rows, left), dtype), Spec((*batch, count), dtype.component), Spec((*batch, right, cols), dtype))
    return Inferred(specs, {"full_matrices": bool(full_matrices)}, dtype)


@primitive(infer=_infer_svd, namespace="linalg", result=SVDResult)
def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """The singular value decomposition: singular values in descending order between two orthonormal bases.

    Args:
        x: matrices in the last two axes.
        full_matrices: whether U and Vh are square; otherwise they have as many columns and rows as there are values.
    """


def _infer_svdvals(x: Spec) -> Inferred:
    require_matrix(x)
    dtype = to_inexact(x.dtype)
    return Inferred((Spec((*x.shape[:-2], min(x.shape[-2:])), dtype.component),), {}, dtype)


@op(infer=_infer_svdvals, namespace="linalg")
def svdvals(x: Tensor, /) -> Tensor:
    """The singular values of matrices, in descending order."""
    return svd(x, full_matrices=False).S  # type: ignore[no-any-return]


@primitive(infer=of_square("vector:real", "matrix"), namespace="linalg", result=EighResult)
def eigh(x: Tensor, /) -> EighResult:
    """Eigenvalues, ascending, and eigenvectors of symmetric or Hermitian matrices; only the lower triangle is read."""


@op(infer=of_square("vector:real"), namespace="linalg")
def eigvalsh(x: Tensor, /) -> Tensor:
    """The eigenvalues of symmetric or Hermitian matrices, ascending; only the lower triangle is read."""
    return eigh(x).eigenvalues  # type: ignore[no-any-return]


@primitive(infer=of_square("vector:complex", "matrix:complex"), namespace="linalg", result=EigResult)
def eig(x: Tensor, /) -> EigResult:
    """Eigenvalues and eigenvectors of any square matrices; always complex, in no certain order."""


@op(infer=of_square("vector:complex"), namespace="linalg")
def eigvals(x: Tensor, /) -> Tensor:
    """The eigenvalues of any square matrices; always complex, in no certain order."""
    return eig(x).eigenvalues  # type: ignore[no-any-return]


@op(infer=of_square("matrix"), namespace="linalg")
def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangle L with ``L @ L^H == x`` of positive definite matrices, or its adjoint if upper; only the lower triangle is read.

    Example:
        >>> import intermodal as im
        >>> im.linalg.cholesky(im.asarray([[4.0, 2.0], [2.0, 5.0]]))
        Tensor([[2., 0.],
                [1., 2.]], dtype=float32, device=numpy:cpu)
    """
    result = _cholesky(tril(x))
    if _some(less(_real(diagonal(result)), 0)):
        raise ExecutionError(NOT_POSITIVE)
    return adjoint(result) if upper else result


def _cholesky(x: Tensor) -> Tensor:
    """The factor of a matrix in four blocks: the first's own factor, what follows below it, the last block's after that."""
    n = x.shape[-1]
    if n <= 1:
        pivot = _real(x)
        # No root is negative, so -1 marks the pivot that has none, and NaN stays what came in as NaN.
        root = where(less_equal(pivot, 0), -1.0, sqrt(abs(pivot)))
        return astype(root, x.dtype) if x.dtype.is_complex else root
    h = n // 2
    first = _cholesky(x[..., :h, :h])
    below = adjoint(solve_triangular(first, adjoint(x[..., h:, :h])))
    last = _cholesky(subtract(x[..., h:, h:], tril(matmul(below, adjoint(below)))))
    right = zeros((*x.shape[:-2], h, n - h), dtype=x.dtype, device=x.device)
    return concat([concat([first, right], axis=-1), concat([below, last], axis=-1)], axis=-2)


def adjoint(x: Tensor) -> Tensor:
    """The transposes of matrices, conjugated."""
    return conj(matrix_transpose(x)) if x.dtype.is_complex else matrix_transpose(x)


def _real(x: Tensor) -> Tensor:
    return real(x) if x.dtype.is_complex else x


def _some(condition: Tensor) -> bool:
    return bool(any(condition))


# --- solving -----------------------------------------------------------------------------------------------------


def _infer_solve(x1: Spec, x2: Spec, **attrs: object) -> Inferred:
    require_matrix(x1, square=True, of="x1")
    if x2.ndim == 0:
        raise ShapeError("x2 is 0-d, which is no right-hand side. Give a vector or matrices.")
    dtype = to_inexact(rules.operand_dtype(x1, x2))
    n, m = x1.shape[-1], x2.shape[0] if x2.ndim == 1 else x2.shape[-2]
    if n != m:
        raise ShapeError(f"matrices of {n} by {n} do not fit a right-hand side of shape {x2.shape}: sizes {n} and {m} differ.")
    shape = x1.shape[:-1] if x2.ndim == 1 else (*rules.broadcast(x1.shape[:-2], x2.shape[:-2]), *x2.shape[-2:])
    return Inferred((Spec(shape, dtype),), attrs, dtype)


@op(infer=_infer_solve, namespace="linalg")
def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The x with ``x1 @ x == x2`` for square matrices; a 1-d x2 is one vector for all of them, others are matrices.

    Example:
        >>> import intermodal as im
        >>> im.linalg.solve(im.asarray([[2.0, 0.0], [0.0, 4.0]]), im.asarray([6.0, 8.0]))
        Tensor([3., 2.], dtype=float32, device=numpy:cpu)
    """
    if x2.ndim == 1:
        return squeeze(solve(x1, expand_dims(x2, 1)), -1)
    x1, x2 = _same_batch(x1, x2)
    upper, right, _ = _eliminate(x1, x2)
    if _some(equal(diagonal(upper), 0)):
        raise ExecutionError(SINGULAR)
    return solve_triangular(upper, right, upper=True)


def _same_batch(x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    batch = rules.broadcast(x1.shape[:-2], x2.shape[:-2])
    return broadcast_to(x1, (*batch, *x1.shape[-2:])), broadcast_to(x2, (*batch, *x2.shape[-2:]))


def _eliminate(x: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gauss's elimination with the greatest pivot of each column: the upper triangles, the right sides, the sign of the exchanges."""
    n = x.shape[-1]
    both = concat([x, right], axis=-1)
    rows = arange(n, device=x.device)
    sign = ones(x.shape[:-2], dtype=x.dtype.component, device=x.device)
    for k in range(n - 1):
        pivot = expand_dims(add(argmax(abs(both[..., k:, k]), axis=-1), k), -1)
        order = where(equal(rows, k), pivot, where(equal(rows, pivot), k, rows))
        both = take_along_axis(both, expand_dims(order, -1), axis=-2)
        sign = where(equal(pivot[..., 0], k), sign, negative(sign))
        line = both[..., k : k + 1, :]
        usable = logical_and(greater(expand_dims(rows, -1), k), not_equal(line[..., k : k + 1], 0))
        factor = where(usable, divide(both[..., :, k : k + 1], line[..., k : k + 1]), 0.0)
        both = subtract(both, multiply(factor, line))
    return triu(both[..., :, :n]), both[..., :, n:], sign


@op(infer=_infer_solve, namespace="linalg")
def solve_triangular(x1: Tensor, x2: Tensor, /, *, upper: bool = False) -> Tensor:
    """`solve` for lower (or upper) triangles: faster, and the other triangle is not read."""
    if x2.ndim == 1:
        return squeeze(solve_triangular(x1, expand_dims(x2, 1), upper=upper), -1)
    x1, x2 = _same_batch(x1, x2)
    if _some(equal(diagonal(x1), 0)):
        raise ExecutionError(SINGULAR)
    # Read from the end, an upper triangle is a lower one.
    return flip(_substitute(flip(x1, axis=(-2, -1)), flip(x2, axis=-2)), axis=-2) if upper else _substitute(x1, x2)


def _substitute(lower: Tensor, right: Tensor) -> Tensor:
    """Forward substitution by halves, so that most of the work is matrix products."""
    n = lower.shape[-1]
    if n <= 1:
        return divide(right, lower) if n else right
    h = n // 2
    top = _substitute(lower[..., :h, :h], right[..., :h, :])
    bottom = _substitute(lower[..., h:, h:], subtract(right[..., h:, :], matmul(lower[..., h:, :h], top)))
    return concat([top, bottom], axis=-2)


@op(infer=of_square("matrix"), namespace="linalg")
def inv(x: Tensor, /) -> Tensor:
    """The inverses of square matrices. To multiply by an inverse, use `solve`: it is faster and more exact."""
    return solve(x, eye(x.shape[-1], dtype=x.dtype, device=x.device))


# --- determinants ------------------------------------------------------------------------------------------------


def _pivots(x: Tensor) -> tuple[Tensor, Tensor]:
    upper, _, sign = _eliminate(x, x[..., :0])
    return diagonal(upper), sign


@op(infer=of_square("number"), namespace="linalg")
def det(x: Tensor, /) -> Tensor:
    """The determinants of square matrices."""
    pivots, sign = _pivots(x)
    return multiply(prod(pivots, axis=-1), sign)


@op(infer=of_square("number", "number:real"), namespace="linalg", result=SlogdetResult)
def slogdet(x: Tensor, /) -> SlogdetResult:
    """The sign of determinants and the logarithm of their absolute values, for determinants that would overflow."""
    pivots, sign_ = _pivots(x)
    return SlogdetResult(multiply(prod(sign(pivots), axis=-1), sign_), sum(log(abs(pivots)), axis=-1))


# --- by singular values ------------------------------------------------------------------------------------------


def _tolerance(x: Spec, rtol: object, dtype: DType) -> tuple[DType | None, DType | None] | None:
    """Check a tolerance, and say to what the operands are brought: integers to floats, a tolerance to nothing else."""
    batch = x.shape[:-2]
    if isinstance(rtol, Spec):
        rules.require(rtol.dtype, FLOAT, of="rtol")
        lead = len(batch) - rtol.ndim
        if lead < 0 or builtins.any(n not in (1, m) for n, m in zip(rtol.shape, batch[lead:], strict=True)):
            raise ShapeError(
                f"rtol has shape {rtol.shape}, the matrices form a batch of {batch}. Give one number, or one for each."
            )
    return None if dtype is x.dtype else (dtype, None)


def _infer_rank(x: Spec, rtol: object) -> Inferred:
    require_matrix(x)
    return Inferred((Spec(x.shape[:-2], dtypes.int64),), {}, _tolerance(x, rtol, to_inexact(x.dtype)))


def _infer_pinv(x: Spec, rtol: object) -> Inferred:
    require_matrix(x)
    dtype = to_inexact(x.dtype)
    return Inferred((Spec((*x.shape[:-2], x.shape[-1], x.shape[-2]), dtype),), {}, _tolerance(x, rtol, dtype))


def _significant(x: Tensor, values: Tensor, rtol: Operand | None) -> Tensor:
    """Which singular values count: those above rtol times the greatest, which comes first."""
    if rtol is None:
        rtol = builtins.max(x.shape[-2:]) * float(ml_dtypes.finfo(values.dtype.numpy).eps)  # type: ignore[no-untyped-call]  # ml_dtypes carries no annotations
    elif not isinstance(rtol, (bool, int, float, complex)) and rtol.ndim:
        rtol = expand_dims(rtol, -1)
    return greater(values, multiply(values[..., :1], rtol))


@op(infer=_infer_rank, namespace="linalg")
def matrix_rank(x: Tensor, /, *, rtol: Operand | None = None) -> Tensor:
    """How many singular values are greater than rtol times the greatest; the default is the dtype's epsilon times the larger side."""
    values = svdvals(x)
    return sum(_significant(x, values, rtol), axis=-1, dtype=dtypes.int64)


@op(infer=_infer_pinv, namespace="linalg")
def pinv(x: Tensor, /, *, rtol: Operand | None = None) -> Tensor:
    """The pseudo-inverses of matrices; singular values up to rtol times the greatest count as zero."""
    u, values, vh = svd(x, full_matrices=False)
    keep = _significant(x, values, rtol)
    inverse = where(keep, divide(1.0, where(keep, values, 1.0)), 0.0)
    return matmul(multiply(adjoint(vh), expand_dims(inverse, -2)), adjoint(u))


from intermodal.ops.creation import (
    arange,
    eye,
    ones,
    tril,
    triu,
    zeros,
)  # families use each other; bodies look names up when they run
from intermodal.ops.elementwise import (
    abs,
    add,
    conj,
    divide,
    equal,
    greater,
    less,
    less_equal,
    log,
    logical_and,
    multiply,
    negative,
    not_equal,
    real,
    sign,
    sqrt,
    subtract,
    where,
)
from intermodal.ops.linalg import diagonal, matmul, matrix_transpose
from intermodal.ops.manipulation import astype, broadcast_to, concat, expand_dims, flip, squeeze
from intermodal.ops.reduction import any, prod, sum
from intermodal.ops.searching import argmax, take_along_axis

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
