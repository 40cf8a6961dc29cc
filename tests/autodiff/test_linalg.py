"""Derivatives of linear algebra: agreement with PyTorch's, and what holds where matrices are singular or values equal."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
from hypothesis import given, strategies as st

import intermodal as im
from intermodal.ops import linalg as rules
from intermodal.testing import check_grad

Function = Callable[..., Any]
INF: Final = math.inf


def normal(*shape: int, dtype: str = "float64", seed: int = 0) -> Any:
    random = np.random.default_rng([seed, *shape])
    values = random.normal(size=shape)
    return (values + 1j * random.normal(size=shape)).astype(dtype) if dtype.startswith("complex") else values.astype(dtype)


def gradient(function: Function, x: object, device: im.Device) -> Any:
    """The gradient of the sum of a function's results."""
    return im.grad(lambda a: im.sum(function(a)))(im.asarray(np.asarray(x, np.float64), device=device)).numpy()


def adjoint(x: im.Tensor) -> im.Tensor:
    return im.conj(x.mT)


def size(x: im.Tensor) -> im.Tensor:
    """|x|², which does not depend on the phase of vectors."""
    return im.real(x * im.conj(x))


# --- agreement with PyTorch --------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A function of ours and the same one of PyTorch's, given its module."""

    name: str
    ours: Function
    theirs: Callable[[Any], Function]
    shapes: tuple[tuple[int, ...], ...]


def _cases() -> list[Case]:
    found: list[Case] = []

    def case(name: str, ours: Function, theirs: Callable[[Any], Function], *shapes: tuple[int, ...]) -> None:
        found.append(Case(f"{name} {' '.join(map(str, shapes))}", ours, theirs, shapes))

    for first, second in (
        ((3, 4), (4, 5)),
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((4,), (4, 2)),
        ((4,), (6, 4, 2)),
        ((6, 3, 4), (4,)),
        ((2, 6, 3, 4), (4, 5)),
        ((3, 4), (2, 6, 4, 5)),
        ((2, 1, 3, 4), (6, 4, 5)),
        ((0, 3, 4), (4, 5)),
        ((2, 3, 0), (0, 2)),
    ):
        case("matmul", im.matmul, lambda t: t.matmul, first, second)
    axes = ((0, 2), (1, 0))
    case("tensordot", lambda a, b: im.tensordot(a, b, axes=axes), lambda t: lambda a, b: t.tensordot(a, b, dims=axes), (2, 3, 4), (4, 2, 5))  # fmt: skip
    case("vecdot", lambda a, b: im.vecdot(a, b, axis=-2), lambda t: lambda a, b: t.linalg.vecdot(a, b, dim=-2), (2, 4, 3), (4, 3))
    case("outer", im.linalg.outer, lambda t: t.outer, (3,), (4,))
    case("cross", im.linalg.cross, lambda t: t.linalg.cross, (2, 3), (1, 3))
    case("kron", im.kron, lambda t: t.kron, (2, 3), (3, 2))
    for subscripts, *shapes in (
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
        ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
        ("iij->j", (3, 3, 2)),
        ("...i,...i", (2, 3, 4), (3, 4)),
    ):
        case(f"einsum {subscripts}", lambda *x, s=subscripts: im.einsum(s, *x), lambda t, s=subscripts: lambda *x: t.einsum(s, *x), *shapes)  # fmt: skip
    for n in (1, 2, 5, -2):
        case(f"matrix_power {n}", lambda a, n=n: im.linalg.matrix_power(a, n), lambda t, n=n: lambda a: t.linalg.matrix_power(a, n), (2, 3, 3))  # fmt: skip
    for k in (0, 2, -1):
        case(f"diagonal {k}", lambda a, k=k: im.linalg.diagonal(a, offset=k), lambda t, k=k: lambda a: a.diagonal(k, -2, -1), (2, 3, 4))  # fmt: skip
        case(f"trace {k}", lambda a, k=k: im.linalg.trace(a, offset=k), lambda t, k=k: lambda a: a.diagonal(k, -2, -1).sum(-1), (2, 3, 4))  # fmt: skip
    for order in (2, 1, 0, 3, 1.5, 0.5, -2, INF, -INF):
        case(f"vector_norm {order}", lambda a, p=order: im.linalg.vector_norm(a, axis=(0, 2), ord=p), lambda t, p=order: lambda a: t.linalg.vector_norm(a, p, dim=(0, 2)), (2, 3, 4))  # fmt: skip
    for form in ("fro", "nuc", 1, -1, 2, -2, INF, -INF):
        case(f"matrix_norm {form}", lambda a, p=form: im.linalg.matrix_norm(a, ord=p), lambda t, p=form: lambda a: t.linalg.matrix_norm(a, p), (2, 3, 4))  # fmt: skip
    for shape in ((4, 3), (3, 4), (2, 3, 3)):
        case("qr", im.linalg.qr, lambda t: t.linalg.qr, shape)
        case("svd", lambda a: _without_phase(*im.linalg.svd(a, full_matrices=False)), lambda t: lambda a: _without_phase(*t.linalg.svd(a, False)), shape)  # fmt: skip
        case("svdvals", im.linalg.svdvals, lambda t: t.linalg.svdvals, shape)
        case("pinv", im.linalg.pinv, lambda t: t.linalg.pinv, shape)
    for shape in ((3, 3), (2, 4, 4)):
        case("eigh", lambda a: _of_vectors(*im.linalg.eigh(a + adjoint(a))), lambda t: lambda a: _of_vectors(*t.linalg.eigh(a + a.mH)), shape)  # fmt: skip
        case("eigvalsh", lambda a: im.linalg.eigvalsh(a + adjoint(a)), lambda t: lambda a: t.linalg.eigvalsh(a + a.mH), shape)
        case("eig", lambda a: _of_vectors(*im.linalg.eig(a)), lambda t: lambda a: _of_vectors(*t.linalg.eig(a)), shape)
        case("eigvals", lambda a: im.sum(im.linalg.eigvals(a) ** 3, axis=-1), lambda t: lambda a: (t.linalg.eigvals(a) ** 3).sum(-1), shape)  # fmt: skip
        for upper in (False, True):
            case(f"cholesky {upper}", lambda a, u=upper: im.linalg.cholesky(a @ adjoint(a), upper=u), lambda t, u=upper: lambda a: t.linalg.cholesky(a @ a.mH, upper=u), shape)  # fmt: skip
        case("inv", im.linalg.inv, lambda t: t.linalg.inv, shape)
        case("det", im.linalg.det, lambda t: t.linalg.det, shape)
        case("slogdet", im.linalg.slogdet, lambda t: t.linalg.slogdet, shape)
    for matrix, right in (
        ((3, 3), (3,)),
        ((2, 3, 3), (1, 3, 2)),
        ((3, 3), (2, 3, 2)),
        ((2, 1, 3, 3), (4, 3, 2)),
        ((3, 3), (3, 0)),
    ):
        case("solve", im.linalg.solve, lambda t: t.linalg.solve, matrix, right)
        for upper in (False, True):
            case(f"solve_triangular {upper}", lambda a, b, u=upper: im.linalg.solve_triangular(a, b if b.ndim > 1 else b[:, None], upper=u), lambda t, u=upper: lambda a, b: t.linalg.solve_triangular(a, b if b.ndim > 1 else b[:, None], upper=u), matrix, right)  # fmt: skip
    return found


def _without_phase(u: Any, values: Any, vh: Any) -> tuple[Any, ...]:
    """What singular vectors determine beside their phase; written for tensors of both libraries."""
    return abs(u) ** 2, values, abs(vh) ** 2, u @ vh


def _of_vectors(values: Any, vectors: Any) -> Any:
    """A function of eigenvalues and eigenvectors that depends on no order, sign or phase."""
    return (values * (abs(vectors) ** 4).sum(-2)).sum(-1) if hasattr(vectors, "mH") else im.sum(values * im.sum(abs(vectors) ** 4, axis=-2), axis=-1)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("case", _cases(), ids=lambda case: case.name)
def test_gradients_are_those_of_pytorch(case: Case, dtype: str, device: im.Device) -> None:
    torch = pytest.importorskip("torch")
    operands = [normal(*shape, dtype=dtype, seed=i) for i, shape in enumerate(case.shapes)]
    leaves = [torch.tensor(x, requires_grad=True) for x in operands]
    found = case.theirs(torch)(*leaves)
    results = tuple(found) if isinstance(found, tuple) else (found,)
    weights = [normal(*y.shape, dtype="complex128" if y.is_complex() else "float64", seed=7 + i) for i, y in enumerate(results)]
    wanted = torch.autograd.grad(results, leaves, [torch.tensor(w) for w in weights], materialize_grads=True)

    def ours(*x: im.Tensor) -> tuple[im.Tensor, ...]:
        y = case.ours(*x)
        return tuple(y) if isinstance(y, tuple) else (y,)

    _, pull = im.vjp(ours, *(im.asarray(x, device=device) for x in operands))
    for got, want in zip(pull(tuple(im.asarray(w, device=device) for w in weights)), wanted, strict=True):
        expected = want.resolve_conj().numpy()
        scale = np.abs(expected).max(initial=1.0)
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-9, atol=1e-9 * scale)


# --- products ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(5,), (2, 5)])
def test_the_gradient_of_a_weight_is_one_product_over_all_rows(batch: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = im.asarray(normal(*batch, 3, 4)), im.asarray(normal(4, 6)).require_grad()
    y = x @ w
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    product = rules.matmul

    def watched(a: im.Tensor, b: im.Tensor) -> im.Tensor:
        shapes.append((a.shape, b.shape))
        return product(a, b)

    monkeypatch.setattr(rules, "matmul", watched)
    y.backward(im.ones(y.shape, dtype="float64"))
    rows = 3 * math.prod(batch)
    assert shapes == [((4, rows), (rows, 6))]


def _shapes() -> st.SearchStrategy[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Pairs of shapes that `matmul` takes: with axes of size 1 and 0, and vectors."""
    sizes = st.integers(0, 3)
    lead = st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans()), max_size=2)

    def shapes(lead: list[tuple[int, bool, bool]], n: int, k: int, m: int, skip: int, form: int) -> Any:
        first = (*(1 if one else size for size, one, _ in lead), n, k)
        second = (*(1 if one else size for size, _, one in lead), k, m)
        second = second[skip:] if len(second) - skip >= 2 else second
        return {0: (first, second), 1: ((k,), second), 2: (first, (k,)), 3: ((k,), (k,))}[form]

    return st.builds(shapes, lead, sizes, sizes, sizes, st.integers(0, 2), st.integers(0, 3))


@given(shapes=_shapes())
def test_the_gradients_of_a_product_are_its_sums(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (normal(*shape, seed=i) for i, shape in enumerate(shapes))
    value, pull = im.vjp(im.matmul, im.asarray(a), im.asarray(b))
    w = normal(*value.shape, seed=2)
    found = pull(im.asarray(w))
    # With vectors as matrices of one row or column, every product is the same: w @ b^T and a^T @ w, summed where broadcast.
    rows, cols = a if a.ndim > 1 else a[None, :], b if b.ndim > 1 else b[:, None]
    wide = w if b.ndim > 1 else w[..., None]
    wide = wide if a.ndim > 1 else np.expand_dims(wide, -2)
    for got, full, like in (
        (found[0], wide @ np.swapaxes(cols, -1, -2), rows),
        (found[1], np.swapaxes(rows, -1, -2) @ wide, cols),
    ):
        extra = full.ndim - like.ndim
        summed = full.sum(tuple(range(extra)))
        summed = summed.sum(tuple(i for i, n in enumerate(like.shape) if n == 1), keepdims=True)
        np.testing.assert_allclose(got.numpy(), summed.reshape(got.shape), atol=1e-12)


def test_what_is_not_on_a_diagonal_gets_zero_even_for_infinite_gradients(device: im.Device) -> None:
    x = im.ones((2, 3), device=device).require_grad()
    grads = im.linalg.diagonal(x).backward(im.asarray([math.inf, math.nan], device=device, dtype="float32"))
    np.testing.assert_array_equal(grads[x].numpy(), [[math.inf, 0, 0], [0, math.nan, 0]])


# --- norms -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [2, 1, 0, 3, 1.5, 0.5, INF])
def test_a_norm_has_slope_zero_at_zero(order: float, device: im.Device) -> None:
    def norm(x: im.Tensor) -> im.Tensor:
        return im.linalg.vector_norm(x, ord=order)

    np.testing.assert_array_equal(gradient(norm, [0.0, 0.0], device), [0, 0])


@pytest.mark.parametrize(
    ("order", "wanted"), [(2, [0, -1]), (1, [0, -1]), (3, [0, -1]), (0.5, [0, -1]), (INF, [0, -1]), (-2, [0, 0]), (-INF, [0, 0])]
)
def test_an_element_that_is_zero_has_slope_zero_in_a_norm(order: float, wanted: list[float], device: im.Device) -> None:
    found = gradient(lambda x: im.linalg.vector_norm(x, ord=order), [0.0, -2.0], device)
    np.testing.assert_allclose(found, wanted, rtol=1e-15)


@pytest.mark.parametrize(("order", "wanted"), [(INF, [0.5, -0.5, 0, 0]), (-INF, [0, 0, 0.5, -0.5])])
def test_elements_that_are_equally_far_out_share_the_slope(order: float, wanted: list[float], device: im.Device) -> None:
    found = gradient(lambda x: im.linalg.vector_norm(x, ord=order), [3.0, -3.0, 1.0, -1.0], device)
    np.testing.assert_array_equal(found, wanted)


def test_a_small_norm_in_half_precision_has_a_finite_gradient(device: im.Device) -> None:
    x = im.asarray(np.asarray([3e-6, 4e-6], np.float16), device=device)  # 1 / 5e-6 is infinite in float16
    found = im.grad(im.linalg.vector_norm)(x).numpy()
    want = x.numpy().astype(np.float64) / np.hypot(*x.numpy().astype(np.float64))
    # The norm is itself a subnormal number, a multiple of 2**-24, so it is off by up to half of that.
    np.testing.assert_allclose(found, want, rtol=2.0**-25 / 5e-6 + 2.0**-10)


def test_a_norm_of_nan_gives_nan_to_the_element(device: im.Device) -> None:
    for order in (2, 1, 3, INF):
        found = gradient(lambda x, p=order: im.linalg.vector_norm(x, ord=p), [math.nan, 2.0], device)
        assert np.isnan(found[0])


# --- equal singular values and eigenvalues -----------------------------------------------------------------------


def test_values_of_an_identity_have_the_gradient_of_their_sum(device: im.Device) -> None:
    one = np.eye(3)
    np.testing.assert_allclose(gradient(im.linalg.svdvals, one, device), one, atol=1e-14)
    np.testing.assert_allclose(gradient(im.linalg.eigvalsh, one, device), one, atol=1e-14)
    np.testing.assert_allclose(gradient(lambda a: im.real(im.linalg.eigvals(a)), one, device), one, atol=1e-14)
    np.testing.assert_allclose(gradient(lambda a: im.linalg.matrix_norm(a, ord="nuc"), one, device), one, atol=1e-14)


@pytest.mark.parametrize("matrix", [np.eye(3), np.zeros((3, 3)), np.zeros((4, 3)), np.diag([2.0, 2.0, 0.0])])
def test_values_that_come_with_vectors_have_a_derivative_where_they_are_equal(matrix: Any, device: im.Device) -> None:
    found = gradient(lambda a: im.linalg.svd(a).S, matrix, device)
    u, _, vh = np.linalg.svd(matrix, full_matrices=False)
    np.testing.assert_allclose(found, u @ vh, atol=1e-14)
    if matrix.shape == (3, 3):
        np.testing.assert_allclose(gradient(lambda a: im.linalg.eigh(a).eigenvalues, matrix, device), np.eye(3), atol=1e-14)


def test_vectors_of_equal_values_have_no_derivative(device: im.Device) -> None:
    def cube(a: im.Tensor) -> im.Tensor:  # what its derivative is there cannot be seen from the vectors
        values, vectors = im.linalg.eigh(a)
        return (vectors * values**3) @ adjoint(vectors)

    def again(a: im.Tensor) -> im.Tensor:
        u, values, vh = im.linalg.svd(a)
        return (u * values) @ vh

    assert np.isnan(gradient(cube, np.eye(3), device)).any()
    assert np.isnan(gradient(again, np.eye(3), device)).any()


def test_vectors_of_other_values_have_one(device: im.Device) -> None:
    x = im.asarray(np.diag([1.0, 1.0, 3.0]), device=device)

    def last(a: im.Tensor) -> im.Tensor:
        return im.linalg.eigh(a + a.mT).eigenvectors[:, 2] ** 2 + im.linalg.svd(a).U[:, 0] ** 2

    check_grad(last, x + 0.1 * im.asarray(np.outer([0.6, 0.8, 0.0], [0.0, 0.0, 1.0]), device=device))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(4, 2), (2, 4)])
def test_the_space_of_the_completing_vectors_has_a_derivative(shape: tuple[int, int], dtype: str, device: im.Device) -> None:
    x = im.asarray(normal(*shape, dtype=dtype), device=device)

    def spaces(a: im.Tensor) -> tuple[im.Tensor, ...]:
        u, _, vh = im.linalg.svd(a)
        left, right, q = u[:, 2:], adjoint(vh)[:, 2:], im.linalg.qr(a, mode="complete").Q[:, 2:]
        return left @ adjoint(left), right @ adjoint(right), q @ adjoint(q)

    check_grad(spaces, x, order=2)


@pytest.mark.parametrize("name", ["eigh", "cholesky"])
def test_the_gradient_by_a_hermitian_matrix_is_hermitian(name: str, device: im.Device) -> None:
    a = normal(4, 4, dtype="complex128")
    x = im.asarray(a @ a.conj().T, device=device)
    value, pull = im.vjp(lambda h: im.linalg.eigh(h) if name == "eigh" else im.linalg.cholesky(h), x)
    parts = value if isinstance(value, tuple) else (value,)
    weights = [im.asarray(normal(*y.shape, dtype=str(y.dtype)), device=device) for y in parts]
    found = pull(weights if isinstance(value, tuple) else weights[0])[0].numpy()
    np.testing.assert_allclose(found, found.conj().T, atol=1e-12 * np.abs(found).max())


# --- singular matrices -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "matrix",
    [
        [[1.0, 2.0], [2.0, 4.0]],
        [[0.0, 0.0], [0.0, 0.0]],
        [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [5.0, 7.0, 9.0]],  # whose elimination ends in a rounding error, not in 0
        [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    ],
)
def test_the_derivative_of_a_determinant_is_exact_at_singular_matrices(matrix: list[list[float]], device: im.Device) -> None:
    a = np.asarray(matrix)
    minors = [
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(len(a))] for i in range(len(a))
    ]
    np.testing.assert_allclose(gradient(im.linalg.det, a, device), minors, atol=1e-13)


def test_singular_and_regular_matrices_share_a_batch(device: im.Device) -> None:
    stack = np.asarray([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [3.0, 2.0]]])
    np.testing.assert_allclose(gradient(im.linalg.det, stack, device), [[[4, -2], [-2, 1]], [[2, -3], [0, 1]]], atol=1e-14)


@pytest.mark.parametrize("matrix", [[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]]])
def test_the_second_derivative_of_a_determinant_is_exact_for_rank_one_less_and_for_equal_values(
    matrix: list[list[float]], device: im.Device
) -> None:
    found = im.hessian(im.linalg.det)(im.asarray(np.asarray(matrix), device=device)).numpy().reshape(4, 4)
    np.testing.assert_allclose(found, [[0, 0, 0, 1], [0, 0, -1, 0], [0, -1, 0, 0], [1, 0, 0, 0]], atol=1e-13)


def test_a_determinant_that_underflows_has_the_gradient_that_does_not(device: im.Device) -> None:
    np.testing.assert_allclose(gradient(im.linalg.det, np.eye(2) * 1e-200, device), np.eye(2) * 1e-200, rtol=1e-14)


def test_the_logarithm_of_a_determinant_refuses_singular_matrices(device: im.Device) -> None:
    with pytest.raises(im.ExecutionError, match="a matrix is singular"):
        gradient(lambda a: im.linalg.slogdet(a).logabsdet, [[1.0, 2.0], [2.0, 4.0]], device)


def test_the_triangle_that_is_not_read_has_no_gradient(device: im.Device) -> None:
    x, y = im.asarray(normal(3, 3), device=device).require_grad(), im.asarray(normal(3, 2), device=device)
    lower = im.linalg.solve_triangular(x, y).backward()[x].numpy()
    upper = im.linalg.solve_triangular(x, y, upper=True).backward()[x].numpy()
    assert (np.triu(lower, 1) == 0).all()
    assert (np.tril(upper, -1) == 0).all()
    assert (lower[np.tril_indices(3)] != 0).all()
    assert (upper[np.triu_indices(3)] != 0).all()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("values", [(3.0, 2.0, 0.5), (3.0, 2.0, 0.0)])
@pytest.mark.parametrize("rows", [3, 5])
def test_a_pseudo_inverse_that_drops_singular_values_has_the_derivative_of_what_it_computes(
    rows: int, values: tuple[float, ...], dtype: str, device: im.Device
) -> None:
    u, v = np.linalg.qr(normal(rows, 3, dtype=dtype))[0], np.linalg.qr(normal(3, 3, dtype=dtype, seed=1))[0]
    x = im.asarray((u * values) @ v, device=device)
    check_grad(lambda a: im.linalg.pinv(a, rtol=0.3), x, order=2)


# --- edges -------------------------------------------------------------------------------------------------------


_OF_SQUARES: Final = ("eigh", "eig", "cholesky", "inv", "det", "slogdet")
_OF_ALL: Final = ("svd", "qr", "pinv", "svdvals")


@pytest.mark.parametrize(
    ("name", "shape"),
    [(name, shape) for name in (*_OF_ALL, *_OF_SQUARES) for shape in ((2, 0, 0), (0, 3, 3))]
    + [(name, shape) for name in _OF_ALL for shape in ((0, 3), (3, 0))],
)
def test_matrices_without_elements_have_gradients_without_elements(name: str, shape: tuple[int, ...], device: im.Device) -> None:
    x = im.zeros(shape, dtype="float64", device=device).require_grad()
    result = getattr(im.linalg, name)(x)
    for part in result if isinstance(result, tuple) else (result,):
        assert im.sum(im.real(part)).backward(retain_graph=True)[x].shape == shape


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_gradients_have_the_dtype_of_the_matrix(dtype: str, device: im.Device) -> None:
    x = im.astype(im.asarray(np.eye(3) * 2 + np.arange(9).reshape(3, 3) / 10, device=device), dtype).require_grad()
    for op in (im.linalg.inv, im.linalg.det, im.linalg.pinv, lambda a: im.linalg.svd(a).U, lambda a: im.linalg.qr(a).Q):
        found = im.sum(im.real(op(x))).backward()[x]
        assert found.dtype is x.dtype
        assert bool(im.all(im.isfinite(found)))


def test_a_rank_is_a_count_and_not_tracked(device: im.Device) -> None:
    x = im.eye(3, device=device).require_grad()
    assert not im.linalg.matrix_rank(x).is_tracked
