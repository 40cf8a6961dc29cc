"""Factorizations of matrices and what follows from them: solving, inverses, determinants, ranks.

QR, singular values and eigenvalues are primitives. Cholesky, solving and determinants have bodies, so that an engine
without LAPACK has them too; an engine with it brings its own.
"""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import ml_dtypes

from intermodal import dtypes
from intermodal.dtypes import DType
from intermodal.errors import ExecutionError, ShapeError
from intermodal.ops import rules
from intermodal.ops.derivatives import DISCRETE
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


# --- derivatives of factorizations -------------------------------------------------------------------------------

# A singular vector or eigenvector is determined up to a sign or phase, so what depends on that has no derivative; the rules
# let it stand still. So do the vectors that complete a basis (``full_matrices``, ``complete``): they do not turn within
# their space. Vectors of equal values can be any of a space and have no derivative: what uses them gets NaN there,
# what uses the values alone does not.


def _over_gaps(values: Tensor, *gradients: Tensor) -> Tensor:
    """1 / (values[j] - values[i]), and 0 for i = j. For equal values 0 where no gradient asks for their vectors, else NaN."""
    gaps = subtract(expand_dims(values, -2), expand_dims(values, -1))
    same = equal(gaps, 0)
    asked = not_equal(gradients[0], 0)
    for g in gradients[1:]:
        asked = logical_or(asked, not_equal(g, 0))
    asked = logical_or(asked, turned(asked))
    own = eye(values.shape[-1], dtype=dtypes.bool_, device=values.device)
    unknown = logical_and(logical_and(same, asked), logical_not(own))
    return where(unknown, math.nan, where(same, 0, divide(1.0, where(same, 1, gaps))))


def _quotient(x: Tensor, y: Tensor) -> Tensor:
    """The quotient, and 0 for 0 / 0: where nothing is asked for, a singular value of 0 does no harm."""
    nothing = logical_and(equal(x, 0), equal(y, 0))
    return divide(x, where(nothing, 1, y))


def _epsilon(dtype: DType) -> float:
    return float(ml_dtypes.finfo(dtype.component.numpy).eps)  # type: ignore[no-untyped-call]  # ml_dtypes carries no annotations


def _skew(x: Tensor) -> Tensor:
    return multiply(subtract(x, adjoint(x)), 0.5)


def _mirrored(x: Tensor) -> Tensor:
    """The Hermitian matrices with the given lower triangles."""
    below = tril(x, k=-1)
    return add(add(below, adjoint(below)), _spread(_real(diagonal(x))))


def _spread(x: Tensor) -> Tensor:
    """The diagonal matrices with the given diagonals."""
    return where(eye(x.shape[-1], dtype=dtypes.bool_, device=x.device), expand_dims(x, -2), 0)


def _of_first(g: Tensor, basis: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The gradient of a basis' first columns, for which the others make room, and those columns."""
    if basis.shape[-1] == count:
        return g, basis
    first, rest = basis[..., :count], basis[..., count:]
    return subtract(g[..., :count], matmul(rest, matmul(adjoint(g[..., count:]), first))), first


def _qr_rule(g: tuple[Tensor, Tensor], Q: Tensor, R: Tensor) -> Tensor:  # noqa: N803  # the names of the results
    g_q, g_r = g
    count, cols = min(Q.shape[-2], R.shape[-1]), R.shape[-1]
    g_q, q = _of_first(g_q, Q, count)
    g_r, r = g_r[..., :count, :count], R[..., :count, :count]
    right: Tensor | None = None
    if cols > count:  # further columns are Q times theirs in R
        right = matmul(q, g[1][..., count:])
        g_q = add(g_q, matmul(q, matmul(R[..., count:], adjoint(g[1][..., count:]))))
    inner = _mirrored(subtract(matmul(r, adjoint(g_r)), matmul(adjoint(g_q), q)))
    left = adjoint(solve_triangular(r, adjoint(add(g_q, matmul(q, inner))), upper=True))
    return left if right is None else concat([left, right], axis=-1)


def _svd_rule(g: tuple[Tensor, Tensor, Tensor], U: Tensor, S: Tensor, Vh: Tensor) -> Tensor:  # noqa: N803  # the names of the results
    count = S.shape[-1]
    g_u, u = _of_first(g[0], U, count)
    g_v, v = _of_first(adjoint(g[2]), adjoint(Vh), count)
    vh = adjoint(v)
    by_u, by_v = matmul(adjoint(u), g_u), matmul(vh, g_v)
    turns = multiply(_skew(add(by_u, by_v)), _over_gaps(S, by_u, by_v))  # both bases alike
    twists = _quotient(_skew(subtract(by_u, by_v)), add(expand_dims(S, -1), expand_dims(S, -2)))  # one against the other
    left = matmul(u, add(add(turns, twists), _spread(g[1])))
    if U.shape[-2] > count:
        left = add(left, _quotient(subtract(g_u, matmul(u, by_u)), expand_dims(S, -2)))
    result = matmul(left, vh)
    if Vh.shape[-1] > count:
        right = _quotient(subtract(g_v, matmul(v, by_v)), expand_dims(S, -2))
        result = add(result, matmul(u, adjoint(right)))
    return result


def _eigh_rule(g: tuple[Tensor, Tensor], eigenvalues: Tensor, eigenvectors: Tensor) -> Tensor:
    """The gradient by all elements of a Hermitian matrix, itself Hermitian, though one triangle is read."""
    adjoint_ = adjoint(eigenvectors)
    by_vectors = matmul(adjoint_, g[1])
    turns = multiply(_skew(by_vectors), _over_gaps(eigenvalues, by_vectors))
    return matmul(matmul(eigenvectors, add(turns, _spread(g[0]))), adjoint_)


def _eig_rule(g: tuple[Tensor, Tensor], eigenvalues: Tensor, eigenvectors: Tensor) -> Tensor:
    adjoint_ = adjoint(eigenvectors)
    by_vectors = matmul(adjoint_, g[1])
    # Vectors of length 1 do not grow: what lies along each is taken out.
    along = multiply(matmul(adjoint_, eigenvectors), expand_dims(diagonal(by_vectors), -2))
    turns = multiply(subtract(by_vectors, along), conj(_over_gaps(eigenvalues, by_vectors)))
    return matmul(solve(adjoint_, add(turns, _spread(g[0]))), adjoint_)


def _cholesky_rule(g: Tensor, out: Tensor, upper: bool) -> Tensor:
    """The gradient by all elements of a Hermitian matrix, itself Hermitian, though one triangle is read."""
    high, g_low = (out, adjoint(g)) if upper else (adjoint(out), g)
    inner = multiply(_mirrored(matmul(high, g_low)), 0.5)
    half = solve_triangular(high, inner, upper=True)
    return solve_triangular(high, adjoint(half), upper=True)


# --- factorizations ----------------------------------------------------------------------------------------------


def _infer_qr(x: Spec, *, mode: str) -> Inferred:
    rules.one_of(mode, "mode", ("reduced", "complete"))
    require_matrix(x)
    dtype = to_inexact(x.dtype)
    *batch, rows, cols = x.shape
    inner = rows if mode == "complete" else min(rows, cols)
    return Inferred((Spec((*batch, rows, inner), dtype), Spec((*batch, inner, cols), dtype)), {"mode": mode}, dtype)


@primitive(infer=_infer_qr, namespace="linalg", result=QRResult, vjp={"x": _qr_rule})
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


@primitive(infer=_infer_svd, namespace="linalg", result=SVDResult, vjp={"x": _svd_rule})
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


@primitive(infer=of_square("vector:real", "matrix"), namespace="linalg", result=EighResult, vjp={"x": _eigh_rule})
def eigh(x: Tensor, /) -> EighResult:
    """Eigenvalues, ascending, and eigenvectors of symmetric or Hermitian matrices; only the lower triangle is read."""


@op(infer=of_square("vector:real"), namespace="linalg")
def eigvalsh(x: Tensor, /) -> Tensor:
    """The eigenvalues of symmetric or Hermitian matrices, ascending; only the lower triangle is read."""
    return eigh(x).eigenvalues  # type: ignore[no-any-return]


@primitive(infer=of_square("vector:complex", "matrix:complex"), namespace="linalg", result=EigResult, vjp={"x": _eig_rule})
def eig(x: Tensor, /) -> EigResult:
    """Eigenvalues and eigenvectors of any square matrices; always complex, in no certain order."""


@op(infer=of_square("vector:complex"), namespace="linalg")
def eigvals(x: Tensor, /) -> Tensor:
    """The eigenvalues of any square matrices; always complex, in no certain order."""
    return eig(x).eigenvalues  # type: ignore[no-any-return]


@op(infer=of_square("matrix"), namespace="linalg", vjp={"x": _cholesky_rule})
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
    return conjugate(turned(x))


def conjugate(x: Tensor) -> Tensor:
    """The conjugate; real numbers as they are, without a copy."""
    return conj(x) if x.dtype.is_complex else x


def _real(x: Tensor) -> Tensor:
    return real(x) if x.dtype.is_complex else x


def _some(condition: Tensor) -> bool:
    """Whether a condition holds somewhere; in a trace, where nobody knows yet, no."""
    return condition._place.backend.holds_data and bool(any(condition))


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


def _solve_rule(g: Tensor, x1: Tensor, x1_spec: Spec, x2_spec: Spec, out: Tensor) -> tuple[Tensor, Tensor]:
    if x2_spec.ndim == 1:
        g, out = expand_dims(g, -1), expand_dims(out, -1)
    by_right = solve(adjoint(x1), g)
    by_matrix = negative(by_first_factor(by_right, x1_spec, out))
    return by_matrix, squeeze(by_right, -1) if x2_spec.ndim == 1 else by_right


@op(infer=_infer_solve, namespace="linalg", vjp=_solve_rule)
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


def _solve_triangular_rule(
    g: Tensor, x1: Tensor, x1_spec: Spec, x2_spec: Spec, out: Tensor, upper: bool
) -> tuple[Tensor, Tensor]:
    """As for `solve`; the triangle that is not read has the gradient 0."""
    if x2_spec.ndim == 1:
        g, out = expand_dims(g, -1), expand_dims(out, -1)
    by_right = solve_triangular(adjoint(x1), g, upper=not upper)
    by_matrix = negative((triu if upper else tril)(by_first_factor(by_right, x1_spec, out)))
    return by_matrix, squeeze(by_right, -1) if x2_spec.ndim == 1 else by_right


@op(infer=_infer_solve, namespace="linalg", vjp=_solve_triangular_rule)
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


def _inv_rule(g: Tensor, out: Tensor) -> Tensor:
    adjoint_ = adjoint(out)
    return negative(matmul(matmul(adjoint_, g), adjoint_))


@op(infer=of_square("matrix"), namespace="linalg", vjp={"x": _inv_rule})
def inv(x: Tensor, /) -> Tensor:
    """The inverses of square matrices. To multiply by an inverse, use `solve`: it is faster and more exact."""
    return solve(x, eye(x.shape[-1], dtype=x.dtype, device=x.device))


# --- determinants ------------------------------------------------------------------------------------------------


def _pivots(x: Tensor) -> tuple[Tensor, Tensor]:
    upper, _, sign = _eliminate(x, x[..., :0])
    return diagonal(upper), sign


def _det_rule(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """The minors: those of a regular matrix are its inverse times the determinant.

    An inverse is off by the condition number times epsilon, so of matrices near singular ones the singular values give
    them, and where a determinant underflows. Of those, the second derivative is NaN where singular values are equal.
    """
    u, values, vh = svd(x, full_matrices=False)
    near = less_equal(values[..., -1:], multiply(values[..., :1], _epsilon(x.dtype) ** 0.5))
    poor = expand_dims(logical_or(near, expand_dims(equal(out, 0), -1)), -1)
    regular = where(poor, eye(x.shape[-1], dtype=x.dtype, device=x.device), x)
    by_inverse = _scaled(multiply(g, conjugate(out)), adjoint(inv(regular)))
    own = eye(x.shape[-1], dtype=dtypes.bool_, device=x.device)
    others = prod(where(own, 1, expand_dims(values, -2)), axis=-1)
    turn = conjugate(multiply(det(u), det(vh)))
    return where(poor, _scaled(multiply(g, turn), matmul(multiply(u, expand_dims(others, -2)), vh)), by_inverse)


def _scaled(factor: Tensor, x: Tensor) -> Tensor:
    return multiply(expand_dims(factor, (-2, -1)), x)


@op(infer=of_square("number"), namespace="linalg", vjp={"x": _det_rule})
def det(x: Tensor, /) -> Tensor:
    """The determinants of square matrices."""
    pivots, sign = _pivots(x)
    return multiply(prod(pivots, axis=-1), sign)


def _slogdet_rule(g: tuple[Tensor, Tensor], x: Tensor, sign: Tensor) -> Tensor:
    """There is none for singular matrices, whose logarithm is infinite: `inv` says so. A complex sign turns on the circle."""
    by_log = add(g[1], multiply(imag(multiply(g[0], conj(sign))), 1j)) if x.dtype.is_complex else g[1]
    return _scaled(by_log, adjoint(inv(x)))


@op(infer=of_square("number", "number:real"), namespace="linalg", result=SlogdetResult, vjp={"x": _slogdet_rule})
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
        rtol = builtins.max(x.shape[-2:]) * _epsilon(values.dtype)
    elif not isinstance(rtol, (bool, int, float, complex)) and rtol.ndim:
        rtol = expand_dims(rtol, -1)
    return greater(values, multiply(values[..., :1], rtol))


@op(infer=_infer_rank, namespace="linalg", vjp=DISCRETE)
def matrix_rank(x: Tensor, /, *, rtol: Operand | None = None) -> Tensor:
    """How many singular values are greater than rtol times the greatest; the default is the dtype's epsilon times the larger side."""
    values = svdvals(x)
    return sum(_significant(x, values, rtol), axis=-1, dtype=dtypes.int64)


def _pinv_rule(g: Tensor, x: Tensor, rtol: Operand | None, out: Tensor) -> Tensor:
    """For matrices that keep their rank; where it jumps, a pseudo-inverse jumps too and has no derivative."""
    gh, outh = adjoint(g), adjoint(out)
    outside = matmul(subtract(gh, matmul(x, matmul(out, gh))), out)
    beside = matmul(out, subtract(gh, matmul(matmul(gh, out), x)))
    result = subtract(add(matmul(outside, outh), matmul(outh, beside)), matmul(matmul(outh, g), outh))
    return result if rtol is None else add(result, _by_dropped(g, x, rtol, out))


def _by_dropped(g: Tensor, x: Tensor, rtol: Operand, out: Tensor) -> Tensor:
    """What is added where singular values are dropped that are not 0: how they mix with the ones that stay.

    What is linear in the dropped values is written in matrices, for a singular value has a kink at 0, and its matrix none.
    """
    dropped = subtract(x, matmul(matmul(x, out), x))
    outh = adjoint(out)
    cube = matmul(matmul(outh, out), outh)
    linear = add(matmul(matmul(cube, g), dropped), matmul(matmul(dropped, g), cube))
    u, values, vh = svd(x, full_matrices=False)
    keep = _significant(x, values, rtol)
    mixed = not_equal(expand_dims(keep, -1), expand_dims(keep, -2))
    first, second = expand_dims(values, -1), expand_dims(values, -2)
    great = where(mixed, maximum(first, second), 1)
    ratio = where(mixed, divide(minimum(first, second), great), 0)
    weight = divide(square(divide(ratio, great)), subtract(1.0, square(ratio)))
    inner = matmul(matmul(vh, g), u)
    rest = multiply(weight, add(adjoint(inner), multiply(ratio, inner)))
    return add(linear, matmul(matmul(u, rest), vh))


@op(infer=_infer_pinv, namespace="linalg", vjp={"x": _pinv_rule, "rtol": lambda g: None})
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
    imag,
    less,
    less_equal,
    log,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    real,
    sign,
    sqrt,
    square,
    subtract,
    where,
)
from intermodal.ops.linalg import by_first_factor, diagonal, matmul, turned
from intermodal.ops.manipulation import astype, broadcast_to, concat, expand_dims, flip, squeeze
from intermodal.ops.reduction import any, prod, sum
from intermodal.ops.searching import argmax, take_along_axis

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
