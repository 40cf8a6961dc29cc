"""PyTorch natives of linear algebra and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import torch

from intermodal.engines.torch.natives import NATIVES, WIDE, native, traced
from intermodal.errors import ExecutionError
from intermodal.ops.factorization import NOT_POSITIVE, SINGULAR

__all__: list[str] = []

NOT_CONVERGED: Final = "the iteration did not converge. Test with im.all(im.isfinite(x)) that every element is a finite number."

NATIVES["matmul"] = torch.matmul


def explained(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Say what LAPACK's refusal means for this op, and what to do."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def explaining(*arrays: Any, **attrs: Any) -> Any:
            try:
                return function(*arrays, **attrs)
            except torch.linalg.LinAlgError as error:
                raise ExecutionError(f"{function.__name__}: {what}", reason=str(error)) from error

        return explaining

    return decorate


@native(only=WIDE)
def vecdot(x1: Any, x2: Any, axis: int) -> Any:
    return torch.linalg.vecdot(x1, x2, dim=axis)


@native
def diagonal(x: Any, offset: int) -> Any:
    return torch.diagonal(x, offset, -2, -1)


@native
def vector_norm(x: Any, axis: tuple[int, ...], keepdims: bool, ord: float) -> Any:
    if x.dtype.is_complex:
        x = torch.abs(x)  # PyTorch warns of a cast where ord is 0
    if not axis:  # PyTorch takes no axes for all of them
        return torch.linalg.vector_norm(x[..., None], ord, dim=-1)
    if x.numel() == 0 and ord > 0:
        return x.sum(axis, keepdim=keepdims)  # the norm of nothing, which PyTorch does not have for all orders
    return torch.linalg.vector_norm(x, ord, dim=axis, keepdim=keepdims)


@native
@explained(SINGULAR)
def solve(x1: Any, x2: Any) -> Any:
    return _with_columns(torch.linalg.solve, x1, x2)


@native
@explained(SINGULAR)
def solve_triangular(x1: Any, x2: Any, upper: bool) -> Any:
    if not traced(x1) and bool((torch.diagonal(x1, 0, -2, -1) == 0).any()):  # PyTorch would answer with infinities
        raise ExecutionError(f"solve_triangular: {SINGULAR}")
    return _with_columns(lambda a, b: torch.linalg.solve_triangular(a, b, upper=upper), x1, x2)


def _with_columns(function: Callable[[Any, Any], Any], x1: Any, x2: Any) -> Any:
    """The right-hand side as matrices: PyTorch takes some shapes for stacks of vectors, where the standard has matrices."""
    if x2.ndim == 1:
        return function(x1, x2[:, None])[..., 0]
    return function(x1, x2.reshape((1,) * (x1.ndim - x2.ndim) + tuple(x2.shape)))


@native
@explained(SINGULAR)
def inv(x: Any) -> Any:
    return torch.linalg.inv(x)


@native
def det(x: Any) -> Any:
    return torch.linalg.det(x)


@native
def slogdet(x: Any) -> Any:
    return torch.linalg.slogdet(x)


@native
@explained(NOT_POSITIVE)
def cholesky(x: Any, upper: bool) -> Any:
    factor = torch.linalg.cholesky(x)
    return torch.conj_physical(factor.mT) if upper else factor  # PyTorch's own `upper` reads the other triangle


@native
def qr(x: Any, mode: Any) -> Any:
    return torch.linalg.qr(x, mode)


@native
@explained(NOT_CONVERGED)
def svd(x: Any, full_matrices: bool) -> Any:
    return torch.linalg.svd(x, full_matrices)


@native
@explained(NOT_CONVERGED)
def svdvals(x: Any) -> Any:
    return torch.linalg.svdvals(x)


@native
@explained(NOT_CONVERGED)
def eigh(x: Any) -> Any:
    return torch.linalg.eigh(x)


@native
@explained(NOT_CONVERGED)
def eigvalsh(x: Any) -> Any:
    return torch.linalg.eigvalsh(x)


@native
@explained(NOT_CONVERGED)
def eig(x: Any) -> Any:
    return torch.linalg.eig(x)


@native
@explained(NOT_CONVERGED)
def eigvals(x: Any) -> Any:
    return torch.linalg.eigvals(x)


# --- Fourier transforms ------------------------------------------------------------------------------------------


_TO_HALF: Final = ("rfft", "ihfft", "rfftn")
_TO_REAL: Final = ("irfft", "hfft", "irfftn")


def _of_nothing(name: str, x: Any, sizes: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """What comes out where nothing went in; MKL refuses that."""
    shape = list(x.shape)
    for a, n in zip(axes, sizes, strict=True):
        shape[a] = n
    if name in _TO_HALF:
        shape[axes[-1]] = sizes[-1] // 2 + 1
    return x.new_zeros(shape, dtype=x.dtype.to_real() if name in _TO_REAL else x.dtype.to_complex())


def _along_axis(name: str) -> None:
    transform = getattr(torch.fft, name)

    def native(x: Any, n: int, axis: int, norm: str) -> Any:
        # `ihfft` only marks its result as conjugated, which others do not know.
        return transform(x, n, axis, norm).resolve_conj() if x.numel() else _of_nothing(name, x, (n,), (axis,))

    NATIVES[name] = native


def _along_axes(name: str) -> None:
    transform = getattr(torch.fft, name)

    def native(x: Any, s: tuple[int, ...], axes: tuple[int, ...], norm: str) -> Any:
        if not axes:
            return x  # PyTorch takes no axes for all of them
        return transform(x, s, axes, norm) if x.numel() else _of_nothing(name, x, s, axes)

    NATIVES[name] = native


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _along_axis(_name)
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    _along_axes(_name)
