"""JAX natives of linear algebra. JAX answers a singular matrix with infinities; here it is an error, as everywhere.

In a compiled program, which has no values to look at, its answer stands.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

import jax
import jax.numpy as jnp

from intermodal.engines.jax.natives import NARROW, compiled, native, static, traced, wide
from intermodal.errors import ExecutionError
from intermodal.ops.factorization import NOT_POSITIVE, SINGULAR

__all__: list[str] = []

EXACT: Final = jax.lax.Precision.HIGHEST  # GPUs and TPUs would otherwise multiply float32 in fewer bits


@compiled
def matmul(x1: Any, x2: Any) -> Any:
    if x1.dtype in NARROW:
        return jnp.matmul(x1, x2, precision=EXACT, preferred_element_type=jnp.float32).astype(x1.dtype)
    return jnp.matmul(x1, x2, precision=EXACT)


@compiled
def vecdot(x1: Any, x2: Any, axis: int) -> Any:
    return wide(jnp.vecdot)(x1, x2, axis=axis, precision=EXACT)


@compiled
def diagonal(x: Any, offset: int) -> Any:
    return jnp.diagonal(x, offset, -2, -1)


# --- factorizations ----------------------------------------------------------------------------------------------


@compiled
@wide
def qr(x: Any, mode: str) -> Any:
    return tuple(jnp.linalg.qr(x, mode))


@compiled
@wide
def svd(x: Any, full_matrices: bool) -> Any:
    return tuple(jnp.linalg.svd(x, full_matrices))


@compiled
@wide
def svdvals(x: Any) -> Any:
    return jnp.linalg.svdvals(x)


def _hermitian(x: Any) -> Any:
    """The matrix that the lower triangle stands for."""
    lower = jnp.tril(x, -1)
    middle = jnp.real(jnp.diagonal(x, 0, -2, -1))
    return lower + jnp.conj(jnp.matrix_transpose(lower)) + middle[..., None] * jnp.eye(x.shape[-1], dtype=x.dtype)


@compiled
@wide
def eigh(x: Any) -> Any:
    return tuple(jnp.linalg.eigh(_hermitian(x), symmetrize_input=False))


@compiled
@wide
def eigvalsh(x: Any) -> Any:
    return jnp.linalg.eigvalsh(_hermitian(x), symmetrize_input=False)


@compiled
@wide
def eig(x: Any) -> Any:
    return tuple(jnp.linalg.eig(x))


@compiled
@wide
def eigvals(x: Any) -> Any:
    return jnp.linalg.eigvals(x)


@static()
@wide
def _cholesky(x: Any) -> Any:
    factor = jnp.linalg.cholesky(_hermitian(x), symmetrize_input=False)
    # LAPACK's refusal comes as NaN; what came in as NaN may go out as NaN.
    return factor, jnp.any(jnp.isnan(factor)) & ~jnp.any(jnp.isnan(x))


@native
def cholesky(x: Any, upper: bool) -> Any:
    factor, refused = _cholesky(x)
    if not traced(refused) and refused:
        _fail("cholesky", NOT_POSITIVE)
    return jnp.conj(jnp.matrix_transpose(factor)) if upper else factor


def _fail(op: str, what: str) -> NoReturn:
    raise ExecutionError(f"{op}: {what}")


# --- solving and determinants ------------------------------------------------------------------------------------


def _matrices(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Both with the same batch; a vector is one for all matrices."""
    right = x2[:, None] if x2.ndim == 1 else x2
    batch = jnp.broadcast_shapes(x1.shape[:-2], right.shape[:-2])
    return jnp.broadcast_to(x1, (*batch, *x1.shape[-2:])), jnp.broadcast_to(right, (*batch, *right.shape[-2:]))


def _substituted(x1: Any, x2: Any, *, lower: bool, unit: bool = False) -> Any:
    return jax.lax.linalg.triangular_solve(x1, x2, left_side=True, lower=lower, unit_diagonal=unit)


def _has_zero(x: Any) -> Any:
    return jnp.any(jnp.diagonal(x, 0, -2, -1) == 0)


@static()
@wide
def _solve(x1: Any, x2: Any) -> Any:
    matrices, right = _matrices(x1, x2)
    factors, _, order = jax.lax.linalg.lu(matrices)
    ordered = jnp.take_along_axis(right, order[..., None], axis=-2)
    result = _substituted(factors, _substituted(factors, ordered, lower=True, unit=True), lower=False)
    return result[..., 0] if x2.ndim == 1 else result, _has_zero(factors)


@native
def solve(x1: Any, x2: Any) -> Any:
    result, singular = _solve(x1, x2)
    return _fail("solve", SINGULAR) if not traced(singular) and singular else result


@native
def inv(x: Any) -> Any:
    result, singular = _solve(x, jnp.eye(x.shape[-1], dtype=x.dtype))
    return _fail("inv", SINGULAR) if not traced(singular) and singular else result


@static("upper")
@wide
def _solve_triangular(x1: Any, x2: Any, upper: bool) -> Any:
    matrices, right = _matrices(x1, x2)
    result = _substituted(matrices, right, lower=not upper)
    return result[..., 0] if x2.ndim == 1 else result, _has_zero(x1)


@native
def solve_triangular(x1: Any, x2: Any, upper: bool) -> Any:
    result, singular = _solve_triangular(x1, x2, upper=upper)
    return _fail("solve_triangular", SINGULAR) if not traced(singular) and singular else result


@compiled
@wide
def det(x: Any) -> Any:
    return jnp.linalg.det(x)


@compiled
@wide
def slogdet(x: Any) -> Any:
    return tuple(jnp.linalg.slogdet(x))
