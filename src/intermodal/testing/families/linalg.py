"""Samples of linear algebra: products, norms, factorizations. Where signs or order are free, a law says what must hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from intermodal import dtypes
from intermodal.errors import ExecutionError, ShapeError
from intermodal.testing.samples import Draw, HostArray, Sample, call, sample
from intermodal.testing.tolerance import ROUNDINGS, epsilon

__all__: list[str] = []


@sample("matmul")
def matmul_samples(draw: Draw) -> Iterator[Sample]:
    for first, second in (
        ((3, 4), (4, 5)),
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((4,), (4, 2)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((0, 4), (4, 2)),
        ((3, 0), (0, 2)),
    ):
        yield call(draw.array(*first, low=-2, high=2), draw.array(*second, low=-2, high=2)).but(terms=first[-1])
    yield call(draw.array(33, 65, low=-2, high=2), draw.array(65, 17, low=-2, high=2)).but(terms=65, large=True)
    yield call(draw.array(3, 4), draw.array(3, 4)).but(raises=ShapeError)


@sample("tensordot")
def tensordot_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(2, 3, 4), draw.array(3, 4, 5)).but(terms=12)
    yield call(draw.array(2, 3), draw.array(3, 4), axes=1).but(terms=3)
    yield call(draw.array(2, 3), draw.array(4), axes=0)
    yield call(draw.array(2, 3, 4), draw.array(4, 2, 5), axes=((0, 2), (1, 0))).but(terms=8)
    yield call(draw.array(2, 0), draw.array(0, 3), axes=1)


@sample("vecdot")
def vecdot_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(2, 4), draw.array(4)).but(terms=4)
    yield call(draw.array(4, 3), draw.array(4, 3), axis=-2).but(terms=4)
    yield call(draw.array(2, 0), draw.array(2, 0))


@sample("outer")
def outer_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3), draw.array(4))
    yield call(draw.array(0), draw.array(4))


@sample("cross")
def cross_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3), draw.array(3)).but(terms=2)
    yield call(draw.array(2, 3), draw.array(3)).but(terms=2)
    yield call(draw.array(3, 2), draw.array(3, 2), axis=-2).but(terms=2)


@sample("kron")
def kron_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(2, 3), draw.array(3, 2))
    yield call(draw.array(2), draw.array(3, 2))
    yield call(draw.array(), draw.array(3))


@sample("matrix_power")
def matrix_power_samples(draw: Draw) -> Iterator[Sample]:
    for n in (0, 1, 2, 5):
        yield call(draw.array(2, 3, 3, low=-1, high=1), n).but(terms=3 * max(n, 1))
    if draw.dtype.is_inexact:
        yield call(_regular(draw, 3), -2).but(terms=9)


@sample("matrix_transpose")
def matrix_transpose_samples(draw: Draw) -> Iterator[Sample]:
    yield from (call(draw.array(*shape)) for shape in ((3, 4), (2, 3, 4), (0, 3)))


@sample("transpose")
def transpose_samples(draw: Draw) -> Iterator[Sample]:
    yield from (call(draw.array(*shape)) for shape in ((3, 4), (0, 3)))


@sample("diagonal")
def diagonal_samples(draw: Draw) -> Iterator[Sample]:
    for shape, offset in (((3, 4), 0), ((3, 4), 2), ((4, 3), -1), ((2, 3, 3), 1), ((3, 3), 7), ((0, 3), 0)):
        yield call(draw.array(*shape), offset=offset)


@sample("trace")
def trace_samples(draw: Draw) -> Iterator[Sample]:
    for shape, offset in (((3, 4), 0), ((2, 3, 3), 1), ((3, 3), -9), ((0, 3), 0)):
        yield call(draw.array(*shape), offset=offset).but(terms=3)
    yield call(draw.array(3, 3, low=0), dtype="complex128" if draw.dtype.is_complex else "float64").but(terms=3)


@sample("vector_norm")
def vector_norm_samples(draw: Draw) -> Iterator[Sample]:
    for order in (2, 1, 0, 3, math.inf, -math.inf, 0.5, -2):
        yield call(draw.array(2, 5, low=0.5), axis=1, ord=order).but(terms=5)
    yield call(draw.array(2, 5), axis=(0, 1), keepdims=True).but(terms=10)
    yield call(draw.array(2, 5)).but(terms=10)
    yield call(draw.array())
    yield call(draw.array(0))


@sample("matrix_norm")
def matrix_norm_samples(draw: Draw) -> Iterator[Sample]:
    for order in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        yield call(draw.array(2, 3, 4), ord=order).but(terms=12)
    yield call(draw.array(3, 3), keepdims=True).but(terms=9)


# --- factorizations ----------------------------------------------------------------------------------------------


def _regular(draw: Draw, n: int, *batch: int) -> HostArray:
    """Matrices that are far from singular: a strong diagonal."""
    strong = n * 2 if draw.dtype.is_inexact else n
    return np.asarray(draw.array(*batch, n, n, low=-1, high=1) + (strong * np.eye(n)).astype(draw.dtype.numpy)).astype(
        draw.dtype.numpy
    )


def _hermitian(draw: Draw, n: int, *batch: int) -> HostArray:
    """Positive Hermitian matrices with eigenvalues that lie apart: a graded diagonal and weak couplings."""
    x = draw.array(*batch, n, n, low=-1, high=1)
    wide = x.astype(np.complex128 if draw.dtype.is_complex else np.float64)
    both = (wide + np.conj(np.swapaxes(wide, -1, -2))) / 4 + np.diag(2.0 + np.arange(n))
    return np.asarray(both if draw.dtype.is_inexact else np.round(both)).astype(draw.dtype.numpy)


def _wide(x: HostArray) -> Any:
    dtype = dtypes.as_dtype(x.dtype)
    return x.astype(np.complex128 if dtype.is_complex else np.float64)


def _adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def _close(name: str, got: Any, want: Any, dtype: np.dtype[Any]) -> str | None:
    """A factorization of n columns is backward stable within a modest multiple of n * eps * norm; the multiple is `ROUNDINGS`."""
    n = max(want.shape[-2:])
    norm = max(1.0, float(np.abs(want).max(initial=0.0)) * n)
    allowed = ROUNDINGS * n * epsilon(dtypes.as_dtype(dtype)) * norm
    error = float(np.abs(got - want).max(initial=0.0))
    return None if error <= allowed else f"{name} is off by {error:.3g}, and rounding explains {allowed:.3g} only"


def _orthonormal(name: str, columns: Any, dtype: np.dtype[Any]) -> str | None:
    return (
        _close(
            f"{name}^H @ {name} - 1",
            _adjoint(columns) @ columns,
            np.eye(columns.shape[-1]) + 0 * _adjoint(columns)[..., :1, :1],
            dtype,
        )
        if columns.size
        else None
    )


def _qr_law(given: Sample, found: list[HostArray]) -> str | None:
    q, r = map(_wide, found)
    below = "R is no upper triangle" if np.abs(np.tril(r, -1)).max(initial=0.0) > 0 else None
    return below or _close("Q @ R", q @ r, _wide(given.args[0]), found[0].dtype) or _orthonormal("Q", q, found[0].dtype)


@sample("qr")
def qr_samples(draw: Draw) -> Iterator[Sample]:
    for shape in ((4, 3), (3, 4), (2, 3, 3)):
        for mode in ("reduced", "complete"):
            yield call(draw.array(*shape), mode=mode).but(law=_qr_law)
    yield call(draw.array(0, 3, 2)).but(law=_qr_law)


def _svd_law(given: Sample, found: list[HostArray]) -> str | None:
    u, s, vh = map(_wide, found)
    n = s.shape[-1]
    if (np.diff(s, axis=-1) > 0).any() or (s < 0).any():
        return "the singular values are not in descending order, or negative"
    product = (u[..., :n] * s[..., None, :]) @ vh[..., :n, :]
    return (
        _close("U * S @ Vh", product, _wide(given.args[0]), found[0].dtype)
        or _orthonormal("U", u, found[0].dtype)
        or _orthonormal("V", _adjoint(vh), found[0].dtype)
    )


@sample("svd")
def svd_samples(draw: Draw) -> Iterator[Sample]:
    for shape in ((4, 3), (3, 4), (2, 3, 3)):
        for full in (True, False):
            yield call(draw.array(*shape), full_matrices=full).but(law=_svd_law)
    yield call(draw.array(0, 3, 2)).but(law=_svd_law)


@sample("svdvals")
def svdvals_samples(draw: Draw) -> Iterator[Sample]:
    yield from (call(draw.array(*shape)).but(terms=4) for shape in ((4, 3), (3, 4), (2, 3, 3), (0, 3)))


def _eigh_law(given: Sample, found: list[HostArray]) -> str | None:
    values, vectors = map(_wide, found)
    x = _wide(given.args[0])
    whole = np.tril(x) + _adjoint(np.tril(x, -1))
    if (np.diff(values, axis=-1) < 0).any():
        return "the eigenvalues are not in ascending order"
    return _close(
        "x @ V - V * w", whole @ vectors - vectors * values[..., None, :] + whole, whole, found[1].dtype
    ) or _orthonormal("V", vectors, found[1].dtype)


@sample("eigh")
def eigh_samples(draw: Draw) -> Iterator[Sample]:
    yield call(_hermitian(draw, 4)).but(law=_eigh_law)
    yield call(_hermitian(draw, 3, 2)).but(law=_eigh_law)
    yield call(np.tril(_hermitian(draw, 3))).but(law=_eigh_law)  # only the lower triangle is read


@sample("eigvalsh")
def eigvalsh_samples(draw: Draw) -> Iterator[Sample]:
    yield call(_hermitian(draw, 4)).but(terms=4)
    yield call(_hermitian(draw, 3, 2)).but(terms=3)
    yield call(draw.array(0, 0))


def _eig_law(given: Sample, found: list[HostArray]) -> str | None:
    values, vectors = map(_wide, found)
    x = _wide(given.args[0])
    lengths = np.sqrt((np.abs(vectors) ** 2).sum(axis=-2))
    if (np.abs(lengths - 1) > ROUNDINGS * x.shape[-1] * epsilon(dtypes.as_dtype(found[1].dtype))).any():
        return "the eigenvectors do not have length 1"
    return _close("x @ V - V * w", x @ vectors - vectors * values[..., None, :] + x, x + 0j, found[1].dtype)


@sample("eig")
def eig_samples(draw: Draw) -> Iterator[Sample]:
    yield call(_regular(draw, 4)).but(law=_eig_law)
    yield call(draw.array(2, 3, 3)).but(law=_eig_law)


def _eigvals_law(given: Sample, found: list[HostArray]) -> str | None:
    """Their sums of powers are the traces of the matrix's powers, in whichever order they come."""
    values, x = _wide(found[0]), _wide(given.args[0])
    first = _close(
        "the sum", values.sum(-1)[..., None, None], np.trace(x, axis1=-2, axis2=-1)[..., None, None] * 1.0, found[0].dtype
    )
    squares = np.trace(x @ x, axis1=-2, axis2=-1)[..., None, None] * 1.0
    return first or _close("the sum of squares", (values**2).sum(-1)[..., None, None], squares, found[0].dtype)


@sample("eigvals")
def eigvals_samples(draw: Draw) -> Iterator[Sample]:
    yield call(_regular(draw, 4)).but(law=_eigvals_law)
    yield call(_hermitian(draw, 3, 2)).but(law=_eigvals_law)


@sample("cholesky")
def cholesky_samples(draw: Draw) -> Iterator[Sample]:
    for upper in (False, True):
        yield call(_hermitian(draw, 4), upper=upper).but(terms=4)
        yield call(_hermitian(draw, 3, 2), upper=upper).but(terms=3)
    yield call(draw.array(0, 0))
    if draw.dtype.is_inexact and draw.dtype.bits >= 16:
        yield call(-np.eye(2).astype(draw.dtype.numpy)).but(raises=ExecutionError)


@sample("solve")
def solve_samples(draw: Draw) -> Iterator[Sample]:
    for batch, right in (((), (4,)), ((), (4, 2)), ((2,), (4, 3)), ((2,), (2, 4, 1))):
        yield call(_regular(draw, 4, *batch), draw.array(*right)).but(terms=8)
    yield call(draw.array(0, 0), draw.array(0, 2))
    if draw.dtype.is_inexact and draw.dtype.bits >= 16:
        yield call(np.zeros((2, 2), draw.dtype.numpy), draw.array(2)).but(raises=ExecutionError)


@sample("solve_triangular")
def solve_triangular_samples(draw: Draw) -> Iterator[Sample]:
    for upper in (False, True):
        yield call(_regular(draw, 4), draw.array(4, 2), upper=upper).but(terms=4)
        yield call(_regular(draw, 3, 2), draw.array(3), upper=upper).but(terms=3)


@sample("inv")
def inv_samples(draw: Draw) -> Iterator[Sample]:
    yield call(_regular(draw, 4)).but(terms=8)
    yield call(_regular(draw, 3, 2)).but(terms=6)
    yield call(draw.array(0, 0))


@sample("det", "slogdet")
def det_samples(draw: Draw) -> Iterator[Sample]:
    yield call(_regular(draw, 4)).but(terms=8)
    yield call(_regular(draw, 3, 2)).but(terms=6)
    yield call(draw.array(0, 0))
    yield call(np.ones((2, 2), draw.dtype.numpy)).but(terms=4)


@sample("matrix_rank")
def matrix_rank_samples(draw: Draw) -> Iterator[Sample]:
    yield call(_regular(draw, 4))
    yield call(np.ones((2, 3, 4), draw.dtype.numpy))
    yield call(np.zeros((3, 2), draw.dtype.numpy))
    yield call(_hermitian(draw, 3), rtol=0.5)


@sample("pinv")
def pinv_samples(draw: Draw) -> Iterator[Sample]:
    yield call(_regular(draw, 4)).but(terms=8)
    yield call(_regular(draw, 4)[:3]).but(terms=8)
    yield call(np.ones((2, 3), draw.dtype.numpy)).but(terms=6)


@sample("einsum")
def einsum_samples(draw: Draw) -> Iterator[Sample]:
    a, b, c = draw.array(3, 4, low=-2, high=2), draw.array(4, 5, low=-2, high=2), draw.array(3, 3, low=-2, high=2)
    yield call("ij,jk->ik", a, b).but(terms=4)
    yield call("ij,jk", a, b).but(terms=4)
    yield call("ij,jk,k->i", a, b, draw.array(5, low=-2, high=2)).but(terms=20)
    yield call("ii", c).but(terms=3)
    yield call("ii->i", c)
    yield call("ij->ji", a)
    yield call("...ij,...jk->...ik", draw.array(2, 1, 3, 4, low=-2, high=2), draw.array(5, 4, 2, low=-2, high=2)).but(terms=4)
    yield call("i,j->ij", draw.array(3), draw.array(0))
    yield call("ij->", a).but(terms=12)
    yield call("ij,jk->ik", a, a).but(raises=ShapeError)
