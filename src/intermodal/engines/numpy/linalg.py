"""NumPy natives of linear algebra."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import numpy as np

from intermodal.engines.numpy.natives import NATIVES, native
from intermodal.errors import ExecutionError
from intermodal.ops.factorization import NOT_POSITIVE, SINGULAR

__all__: list[str] = []

NOT_CONVERGED: Final = "the iteration did not converge. Test with im.all(im.isfinite(x)) that every element is a finite number."

NATIVES["matmul"] = np.matmul
NATIVES["vecdot"] = np.vecdot


def explained(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Say what LAPACK's refusal means for this op, and what to do."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def explaining(*arrays: Any, **attrs: Any) -> Any:
            try:
                return function(*arrays, **attrs)
            except np.linalg.LinAlgError as error:
                raise ExecutionError(f"{function.__name__}: {what}", reason=str(error)) from error

        return explaining

    return decorate


@native
def diagonal(x: Any, offset: int) -> Any:
    return np.diagonal(x, offset, -2, -1)


@native
def vector_norm(x: Any, axis: tuple[int, ...], keepdims: bool, ord: float) -> Any:
    if axis:
        return np.asarray(np.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord))
    return np.linalg.vector_norm(x[..., None], axis=-1, ord=ord)  # NumPy takes no axes for all of them


@native
@explained(SINGULAR)
def solve(x1: Any, x2: Any) -> Any:
    return np.linalg.solve(x1, x2)


@native
@explained(SINGULAR)
def solve_triangular(x1: Any, x2: Any, upper: bool) -> Any:
    # NumPy has no substitution of its own. On an upper triangle elimination finds nothing to do and exchanges no rows,
    # so what is left of `solve` is the substitution; read from the end, a lower triangle is an upper one.
    if upper:
        return np.linalg.solve(np.triu(x1), x2)
    rows = -1 if x2.ndim == 1 else -2
    return np.flip(np.linalg.solve(np.flip(np.tril(x1), (-2, -1)), np.flip(x2, rows)), rows)


@native
@explained(SINGULAR)
def inv(x: Any) -> Any:
    return np.linalg.inv(x)


@native
def det(x: Any) -> Any:
    return np.asarray(np.linalg.det(x))


@native
def slogdet(x: Any) -> Any:
    return tuple(np.asarray(part) for part in np.linalg.slogdet(x))


@native
@explained(NOT_POSITIVE)
def cholesky(x: Any, upper: bool) -> Any:
    factor = np.linalg.cholesky(x)
    return np.conj(np.matrix_transpose(factor)) if upper else factor  # NumPy's own `upper` reads the other triangle


@native
def qr(x: Any, mode: Any) -> Any:
    return np.linalg.qr(x, mode)


@native
@explained(NOT_CONVERGED)
def svd(x: Any, full_matrices: bool) -> Any:
    return np.linalg.svd(x, full_matrices)


@native
@explained(NOT_CONVERGED)
def svdvals(x: Any) -> Any:
    return np.linalg.svdvals(x)


@native
@explained(NOT_CONVERGED)
def eigh(x: Any) -> Any:
    return np.linalg.eigh(x)


@native
@explained(NOT_CONVERGED)
def eigvalsh(x: Any) -> Any:
    return np.linalg.eigvalsh(x)


@native
@explained(NOT_CONVERGED)
def eig(x: Any) -> Any:
    return tuple(_complex(part) for part in np.linalg.eig(x))


@native
@explained(NOT_CONVERGED)
def eigvals(x: Any) -> Any:
    return _complex(np.linalg.eigvals(x))


def _complex(x: Any) -> Any:
    """NumPy answers with real numbers where no eigenvalue has an imaginary part; a dtype does not depend on the data here."""
    return x.astype(np.result_type(x.dtype, np.complex64), copy=False)
