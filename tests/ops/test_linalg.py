"""Linear algebra against NumPy and by its laws, with natives and as decompositions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from primitives_only import WAYS, open_device

import intermodal as im
from intermodal.ops import TABLE

INEXACT = ["float32", "float64", "complex64", "complex128"]
NUMERIC = [*INEXACT, "int8", "int64", "uint8"]
BATCHES = [(), (1,), (2, 3), (0,)]

# A residual is compared with size * eps * norm. LAPACK's own test programs let that ratio be 30.
RATIO = 30


@pytest.fixture(params=WAYS)
def device(request: pytest.FixtureRequest) -> Iterator[im.Device]:
    with open_device(request.param) as opened:
        yield opened


def sample(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng((seed, *shape))
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 9, shape).astype(dtype)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.matrix_transpose(x))


def positive(*shape: int, dtype: str) -> np.ndarray:
    x = sample(*shape, dtype=dtype)
    return x @ adjoint(x) + np.eye(shape[-1], dtype=dtype)


def check(got: im.Tensor, want: Any, *, scale: float = 1.0) -> None:
    """Equal up to the rounding of as many terms as the largest axis has; `scale` is what the op magnifies errors by."""
    want = np.asarray(want)
    assert (got.shape, got.dtype.numpy) == (want.shape, want.dtype)
    assert close(got.numpy(), want, scale=scale)


def close(got: np.ndarray, want: np.ndarray, *, scale: float = 1.0) -> bool:
    if want.dtype.kind not in "fc":
        return np.array_equal(got, want)
    size = max((1, *want.shape))
    norm = float(np.max(np.abs(want), initial=0.0))
    return bool(np.all(np.abs(got - want) <= RATIO * size * float(np.finfo(want.dtype).eps) * max(norm, 1.0) * scale))


def condition(x: np.ndarray) -> float:
    return float(np.max(np.linalg.cond(x), initial=1.0)) if x.size else 1.0


# --- products ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NUMERIC)
@pytest.mark.parametrize(
    ("a", "b"), [((3,), (3,)), ((2, 3), (3,)), ((3,), (4, 3, 2)), ((2, 1, 2, 3), (5, 3, 4)), ((2, 0), (0, 3))]
)
def test_matmul_multiplies_vectors_matrices_and_stacks(
    device: im.Device, dtype: str, a: tuple[int, ...], b: tuple[int, ...]
) -> None:
    x, y = sample(*a, dtype=dtype), sample(*b, dtype=dtype)
    check(im.matmul(im.asarray(x, device=device), im.asarray(y, device=device)), x @ y)


@pytest.mark.parametrize(("a", "b"), [((), (3,)), ((2, 3), (4, 5)), ((3,), (4,)), ((2, 2, 3), (3, 3, 4))])
def test_matmul_refuses_shapes_that_do_not_fit(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    with pytest.raises(im.ShapeError, match=r"^matmul: "):
        im.matmul(im.zeros(a), im.zeros(b))


@pytest.mark.parametrize("dtype", NUMERIC)
@pytest.mark.parametrize("axes", [0, 1, 2, ((0, 2), (2, 0)), ((-1,), (0,)), ((), ())])
def test_tensordot_sums_over_pairs_of_axes(device: im.Device, dtype: str, axes: Any) -> None:
    x, y = sample(3, 2, 4, dtype=dtype), sample(4, 2, 3, dtype=dtype)
    if axes == 2:
        y = sample(2, 4, 3, dtype=dtype)
    check(im.tensordot(im.asarray(x, device=device), im.asarray(y, device=device), axes=axes), np.tensordot(x, y, axes))


def test_tensordot_of_axes_without_elements_is_zero(device: im.Device) -> None:
    x, y = im.ones((2, 0), device=device), im.ones((0, 3), device=device)
    assert im.tensordot(x, y, axes=1).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize(
    ("axes", "error"), [(4, im.InvalidValueError), (-1, im.InvalidValueError), (((0,), (0, 1)), im.InvalidValueError)]
)
def test_tensordot_refuses_axes_that_do_not_pair_up(axes: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^tensordot: axes"):
        im.tensordot(im.zeros((2, 3)), im.zeros((3, 2)), axes=axes)


def test_tensordot_names_the_sizes_that_differ() -> None:
    with pytest.raises(im.ShapeError, match=r"axis 1 of \(2, 3\) has size 3, axis 0 of \(4, 2\) has 4"):
        im.tensordot(im.zeros((2, 3)), im.zeros((4, 2)), axes=1)


@pytest.mark.parametrize("dtype", NUMERIC)
def test_vecdot_conjugates_the_first_and_broadcasts_the_rest(device: im.Device, dtype: str) -> None:
    x, y = sample(4, 1, 3, dtype=dtype), sample(5, 3, dtype=dtype)
    check(im.vecdot(im.asarray(x, device=device), im.asarray(y, device=device)), np.vecdot(x, y))
    z = sample(1, 3, dtype=dtype)
    want = np.sum(np.conj(x) * z[:, None, :], axis=-2, dtype=dtype)
    check(im.vecdot(im.asarray(x, device=device), im.asarray(z[:, None, :], device=device), axis=-2), want)


def test_an_axis_of_vectors_counts_from_the_back_unless_both_have_as_many(device: im.Device) -> None:
    x, y = im.ones((3, 2), device=device), im.ones((3, 2), device=device)
    assert im.vecdot(x, y, axis=0).tolist() == [3.0, 3.0]
    with pytest.raises(im.AxisError, match=r"it must lie in \[-1, -1\]"):
        im.vecdot(x, y[:, 0], axis=0)
    with pytest.raises(im.ShapeError, match=r"size 3 in \(3,\) and 1 in \(1,\)"):
        im.vecdot(y[:, 0], im.ones(1, device=device))
    with pytest.raises(im.AxisError, match="0-d tensor has no axes"):
        im.vecdot(im.asarray(1.0, device=device), y)


@pytest.mark.parametrize("dtype", NUMERIC)
def test_outer_and_kron_are_numpys(device: im.Device, dtype: str) -> None:
    x, y = sample(3, dtype=dtype), sample(4, dtype=dtype)
    a, b = im.asarray(x, device=device), im.asarray(y, device=device)
    check(im.linalg.outer(a, b), np.outer(x, y))
    check(im.kron(a, b), np.kron(x, y))
    z = sample(2, 1, 3, dtype=dtype)
    check(im.kron(im.asarray(z, device=device), b), np.kron(z, y))
    with pytest.raises(im.ShapeError, match=r"shapes \(3,\) and \(2, 1, 3\) are not both 1-d"):
        im.linalg.outer(a, im.asarray(z, device=device))


@pytest.mark.parametrize("dtype", NUMERIC)
@pytest.mark.parametrize(
    ("a", "b", "axis"), [((3,), (3,), -1), ((2, 3), (4, 1, 3), -1), ((3, 2), (3, 1), -2), ((3, 2), (3, 2), 0)]
)
def test_cross_is_numpys(device: im.Device, dtype: str, a: tuple[int, ...], b: tuple[int, ...], axis: int) -> None:
    x, y = sample(*a, dtype=dtype), sample(*b, dtype=dtype, seed=1)
    got = im.linalg.cross(im.asarray(x, device=device), im.asarray(y, device=device), axis=axis)
    check(got, np.cross(*np.broadcast_arrays(x, y), axis=axis).astype(dtype))


@pytest.mark.parametrize(("a", "b"), [((2,), (2,)), ((3,), (1,)), ((4, 1), (3, 3))])
def test_cross_takes_vectors_of_three(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    with pytest.raises(im.ShapeError, match=r"^cross: "):
        im.linalg.cross(im.zeros(a), im.zeros(b))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 10])
@pytest.mark.parametrize("dtype", ["int64", "uint8"])
def test_powers_of_integer_matrices_are_exact(device: im.Device, dtype: str, n: int) -> None:
    x = sample(2, 3, 3, dtype=dtype)
    check(im.linalg.matrix_power(im.asarray(x, device=device), n), np.linalg.matrix_power(x, n))


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 5])
@pytest.mark.parametrize("dtype", INEXACT)
def test_powers_of_floating_matrices_are_repeated_products(device: im.Device, dtype: str, n: int) -> None:
    x = sample(2, 3, 3, dtype=dtype)
    check(im.linalg.matrix_power(im.asarray(x, device=device), n), np.linalg.matrix_power(x, n), scale=condition(x) ** abs(n))


# --- einsum ------------------------------------------------------------------------------------------------------

SIZES = dict(zip("abcd", (2, 3, 1, 4), strict=True))


@st.composite
def contractions(draw: st.DrawFn) -> tuple[str, list[np.ndarray]]:
    terms = draw(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=3))
    letters = sorted(set("".join(terms)))
    subscripts = ",".join(terms)
    if draw(st.booleans()):
        result = draw(st.permutations(letters))[: draw(st.integers(0, len(letters)))]
        subscripts += "->" + "".join(result)
    return subscripts, [sample(*(SIZES[c] for c in term), dtype="int64", seed=i) for i, term in enumerate(terms)]


@given(contractions())
def test_einsum_is_numpys(contraction: tuple[str, list[np.ndarray]]) -> None:
    subscripts, arrays = contraction
    for name in WAYS:
        with open_device(name) as device:
            check(im.einsum(subscripts, *(im.asarray(x, device=device) for x in arrays)), np.einsum(subscripts, *arrays))


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("...ij,...jk", [(5, 1, 2, 3), (4, 3, 2)]),
        ("i...->...", [(3, 2)]),
        ("a...b,b...->...a", [(2, 5, 3), (3, 5)]),
        ("ij,jk->ik", [(2, 1), (3, 4)]),
        ("i,ij->", [(1,), (3, 2)]),
        ("ij,jk", [(2, 0), (0, 3)]),
        (" b h q d , b h k d -> b h q k ", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("...,...", [(), ()]),
    ],
)
def test_einsum_broadcasts_dots_and_axes_of_one(device: im.Device, subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [sample(*shape, dtype="int64") for shape in shapes]
    check(im.einsum(subscripts, *(im.asarray(x, device=device) for x in arrays)), np.einsum(subscripts, *arrays))


@pytest.mark.parametrize(
    ("subscripts", "shapes", "message"),
    [
        (3, [(2,)], "subscripts must be a string"),
        ("ij", [], "name 1 operands, 0 are given"),
        ("ij,jk", [(2, 3)], "name 2 operands, 1 are given"),
        ("ij", [(2,)], r"name 2 axes, but the operand has shape \(2,\)"),
        ("i1", [(2, 3)], "have more than letters"),
        ("i....j", [(2, 3)], "have more than letters"),
        ("ij,jk", [(2, 3), (4, 5)], "axis 'j' has size 3 in one place and 4 in another"),
        ("ii", [(1, 3)], "axis 'i' has size 1 in one place and 3 in another"),
        ("...i,...i", [(2, 3), (4, 3)], r"axis -1 of '...' has size 2 in one place and 4"),
        ("ij->ik", [(2, 3)], "axis 'k' of the result is an axis of no operand"),
        ("ij->ii", [(2, 3)], "axis 'i' comes twice in the result"),
        ("...i->i", [(2, 3)], "Write '...' there too"),
    ],
)
def test_einsum_has_a_sentence_for_each_mistake(subscripts: Any, shapes: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises((im.ShapeError, im.InvalidValueError), match=f"^einsum: .*{message}"):
        im.einsum(subscripts, *(im.zeros(shape) for shape in shapes))


# --- diagonals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (2, 4, 2), (0, 3), (3, 0), (0, 2, 2)])
@pytest.mark.parametrize("offset", [0, 1, -1, 3, -3, 100, -100])
def test_diagonals_and_their_sums_are_numpys(device: im.Device, shape: tuple[int, ...], offset: int) -> None:
    for dtype in ("bool", "int8", "uint8", "float32"):
        x = sample(*shape, dtype="int8").astype(dtype)
        t = im.asarray(x, device=device)
        check(im.linalg.diagonal(t, offset=offset), np.diagonal(x, offset, -2, -1))
        if dtype != "bool":
            check(im.linalg.trace(t, offset=offset), np.asarray(np.trace(x, offset, -2, -1)))


def test_a_trace_adds_up_in_the_dtype_asked_for(device: im.Device) -> None:
    x = im.full((3, 3), 100, dtype=im.int8, device=device)
    assert (im.linalg.trace(x).item(), im.linalg.trace(x, dtype=im.float32).dtype) == (300, im.float32)
    assert x.trace().item() == 300
    assert x.diagonal().tolist() == [100, 100, 100]


@pytest.mark.parametrize(
    "name", ["diagonal", "trace", "matrix_transpose", "svd", "qr", "pinv", "matrix_rank", "matrix_norm", "svdvals"]
)
def test_ops_on_matrices_refuse_a_vector(name: str) -> None:
    with pytest.raises(im.ShapeError, match=rf"^{name}: the input has shape \(3,\), which has no matrices"):
        getattr(im.linalg, name)(im.zeros(3))


@pytest.mark.parametrize("name", ["cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "slogdet"])
def test_ops_on_square_matrices_refuse_others(name: str) -> None:
    with pytest.raises(im.ShapeError, match=rf"^{name}: .* matrices are 2 by 3. The last two sizes must be equal"):
        getattr(im.linalg, name)(im.zeros((4, 2, 3)))


# --- norms -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ord", [0, 1, 2, 3, 2.5, 0.5, -1, -2, -0.5, math.inf, -math.inf])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
@pytest.mark.parametrize("dtype", INEXACT)
def test_vector_norms_are_numpys(device: im.Device, dtype: str, axis: Any, ord: float) -> None:
    x = sample(2, 3, 4, dtype=dtype)
    x[0, 0] = 0
    for keepdims in (False, True):
        want = np.linalg.vector_norm(
            x[..., None] if axis == () else x, axis=-1 if axis == () else axis, ord=ord, keepdims=keepdims
        )
        want = want[..., 0] if axis == () and keepdims else want
        # A power's relative error grows with its exponent and the logarithm of its base, which is below 10 here.
        check(im.linalg.vector_norm(im.asarray(x, device=device), axis=axis, ord=ord, keepdims=keepdims), want, scale=10)


def test_a_norm_of_nothing_is_zero_and_nothing_has_no_smallest_element(device: im.Device) -> None:
    x = im.zeros((0, 3), device=device)
    assert [im.linalg.vector_norm(x, ord=p).item() for p in (0, 1, 2, 3, math.inf)] == [0.0] * 5
    assert im.linalg.vector_norm(x, axis=0, ord=math.inf).tolist() == [0.0] * 3
    with pytest.raises(im.ShapeError, match="so none is smallest"):
        im.linalg.vector_norm(x, ord=-math.inf)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_norms_of_small_floats_do_not_overflow_on_the_way(device: im.Device, dtype: str) -> None:
    x = im.full((4,), 300.0, dtype=dtype, device=device)
    norm = im.linalg.vector_norm(x)
    assert (norm.dtype.name, norm.item()) == (dtype, 600.0)


@pytest.mark.parametrize("ord", [None, "fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 4), (0, 2, 2)])
def test_matrix_norms_are_numpys(device: im.Device, shape: tuple[int, ...], dtype: str, ord: Any) -> None:
    x = sample(*shape, dtype=dtype)
    for keepdims in (False, True):
        got = im.linalg.matrix_norm(im.asarray(x, device=device), ord=ord, keepdims=keepdims)
        check(got, np.linalg.matrix_norm(x, ord="fro" if ord is None else ord, keepdims=keepdims))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_norms_of_empty_matrices_are_numpys(device: im.Device, shape: tuple[int, ...], ord: Any) -> None:
    x = im.zeros(shape, device=device)
    try:
        want = np.linalg.matrix_norm(np.zeros(shape), ord=ord)
    except ValueError:
        with pytest.raises(im.ShapeError, match="could take the smallest"):
            im.linalg.matrix_norm(x, ord=ord)
    else:
        assert im.linalg.matrix_norm(x, ord=ord).item() == want == 0.0


def test_norms_refuse_orders_that_are_none() -> None:
    with pytest.raises(im.InvalidValueError, match=r"^matrix_norm: ord 3 is no matrix norm"):
        im.linalg.matrix_norm(im.zeros((2, 2)), ord=3)
    for ord in ("fro", math.nan, True):
        with pytest.raises(im.InvalidValueError, match=r"^vector_norm: ord must be a number"):
            im.linalg.vector_norm(im.zeros(2), ord=ord)  # type: ignore[arg-type]


# --- factorizations: the product of the parts is the matrix --------------------------------------------------------


def residual(got: np.ndarray, x: np.ndarray) -> float:
    """How far a product of factors is from the matrix, in LAPACK's unit: size * eps * norm."""
    assert got.shape == x.shape
    if x.size == 0:
        return 0.0
    n = max(x.shape[-2:])
    norms = np.maximum(np.linalg.matrix_norm(x, ord=1), 1.0)
    return float(np.max(np.linalg.matrix_norm(got - x, ord=1) / norms)) / (n * float(np.finfo(x.dtype).eps))


def orthonormal(q: np.ndarray) -> bool:
    eye = np.broadcast_to(np.eye(q.shape[-1], dtype=q.dtype), (*q.shape[:-2], q.shape[-1], q.shape[-1]))
    return residual(adjoint(q) @ q, eye) < RATIO


FORMS = [(3, 3), (4, 2), (2, 4), (0, 3), (3, 0), (0, 0), (1, 1)]


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batch", BATCHES)
def test_qr_gives_orthonormal_columns_and_an_upper_triangle(
    device: im.Device, dtype: str, form: tuple[int, int], batch: tuple[int, ...]
) -> None:
    x = sample(*batch, *form, dtype=dtype)
    for mode, inner in (("reduced", min(form)), ("complete", form[0])):
        q, r = (part.numpy() for part in im.linalg.qr(im.asarray(x, device=device), mode=mode))
        assert (q.shape, r.shape) == ((*batch, form[0], inner), (*batch, inner, form[1]))
        assert q.dtype == r.dtype == x.dtype
        assert residual(q @ r, x) < RATIO
        assert orthonormal(q)
        assert np.array_equal(r, np.triu(r))
        assert not np.any(np.diagonal(r, axis1=-2, axis2=-1).imag)


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batch", BATCHES)
def test_svd_gives_descending_values_between_orthonormal_bases(
    device: im.Device, dtype: str, form: tuple[int, int], batch: tuple[int, ...]
) -> None:
    x = sample(*batch, *form, dtype=dtype)
    k = min(form)
    t = im.asarray(x, device=device)
    for full in (True, False):
        result = im.linalg.svd(t, full_matrices=full)
        assert result._fields == ("U", "S", "Vh")
        u, s, vh = (part.numpy() for part in result)
        assert (u.shape[-1], vh.shape[-2]) == (form if full else (k, k))
        assert (u.dtype, s.dtype, vh.dtype) == (x.dtype, x.real.dtype, x.dtype)
        assert residual((u[..., :, :k] * s[..., None, :]) @ vh[..., :k, :], x) < RATIO
        assert orthonormal(u)
        assert orthonormal(adjoint(vh))
        assert np.all(s[..., :-1] >= s[..., 1:])
        assert np.all(s >= 0)
    check(im.linalg.svdvals(t), np.linalg.svdvals(x))


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize("batch", BATCHES)
def test_eigh_diagonalizes_and_reads_the_lower_triangle_only(
    device: im.Device, dtype: str, n: int, batch: tuple[int, ...]
) -> None:
    x = positive(*batch, n, n, dtype=dtype)
    t = im.asarray(np.tril(x) + np.triu(np.full_like(x, 7), 1), device=device)
    result = im.linalg.eigh(t)
    assert result._fields == ("eigenvalues", "eigenvectors")
    values, vectors = (part.numpy() for part in result)
    assert (values.dtype, vectors.dtype) == (x.real.dtype, x.dtype)
    assert residual((vectors * values[..., None, :]) @ adjoint(vectors), x) < RATIO
    assert orthonormal(vectors)
    assert np.all(values[..., :-1] <= values[..., 1:])
    check(im.linalg.eigvalsh(t), np.linalg.eigvalsh(x))


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize("batch", BATCHES)
def test_eig_is_complex_whatever_the_eigenvalues_are(device: im.Device, dtype: str, n: int, batch: tuple[int, ...]) -> None:
    for x in (sample(*batch, n, n, dtype=dtype), positive(*batch, n, n, dtype=dtype)):
        result = im.linalg.eig(im.asarray(x, device=device))
        assert result._fields == ("eigenvalues", "eigenvectors")
        values, vectors = (part.numpy() for part in result)
        assert values.dtype == vectors.dtype == np.result_type(x.dtype, np.complex64)
        assert residual(x @ vectors, values[..., None, :] * vectors) < RATIO * max(1.0, float(np.max(np.abs(x), initial=0)))
        alone = im.linalg.eigvals(im.asarray(x, device=device)).numpy()
        assert alone.dtype == values.dtype
        assert close(np.sort_complex(alone), np.sort_complex(values), scale=condition(vectors))


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_gives_the_triangle_whose_square_is_the_matrix(
    device: im.Device, dtype: str, n: int, batch: tuple[int, ...], upper: bool
) -> None:
    x = positive(*batch, n, n, dtype=dtype)
    t = im.asarray(np.tril(x) + np.triu(np.full_like(x, 7), 1), device=device)
    factor = im.linalg.cholesky(t, upper=upper).numpy()
    assert factor.dtype == x.dtype
    assert np.array_equal(factor, np.triu(factor) if upper else np.tril(factor))
    assert residual(adjoint(factor) @ factor if upper else factor @ adjoint(factor), x) < RATIO
    assert np.all(np.diagonal(factor, axis1=-2, axis2=-1).real > 0)


@pytest.mark.parametrize(
    "x", [[[-1.0]], [[0.0]], [[1.0, 2.0], [2.0, 1.0]], [[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, -1.0]]]]
)
def test_cholesky_of_a_matrix_that_is_not_positive_definite_raises(device: im.Device, x: Any) -> None:
    with pytest.raises(im.ExecutionError, match=r"^cholesky: a matrix is not positive definite. .* im.linalg.eigh"):
        im.linalg.cholesky(im.asarray(x, device=device))


# --- solving -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 3), (3,)),
        ((3, 3), (3, 2)),
        ((4, 3, 3), (3,)),
        ((4, 1, 3, 3), (2, 3, 2)),
        ((3, 3), (0, 3, 2)),
        ((0, 0), (0, 2)),
        ((1, 1), (1, 0)),
    ],
)
def test_solve_multiplies_back_to_the_right_side(device: im.Device, dtype: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = sample(*a, dtype=dtype), sample(*b, dtype=dtype, seed=1)
    got = im.linalg.solve(im.asarray(x, device=device), im.asarray(y, device=device))
    check(got, np.linalg.solve(x, y), scale=condition(x))


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize(("a", "b"), [((5, 5), (5,)), ((2, 5, 5), (5, 3)), ((5, 5), (4, 5, 2)), ((0, 0), (0, 2)), ((1, 1), (1,))])
def test_solve_triangular_does_not_read_the_other_triangle(
    device: im.Device, dtype: str, upper: bool, a: tuple[int, ...], b: tuple[int, ...]
) -> None:
    x, y = sample(*a, dtype=dtype) + 4 * np.eye(a[-1], dtype=dtype), sample(*b, dtype=dtype, seed=1)
    triangle = np.triu(x) if upper else np.tril(x)
    below = np.tri(a[-1], k=-1, dtype=bool)
    spoilt = np.where(below if upper else below.T, np.asarray(math.nan, dtype), x)
    got = im.linalg.solve_triangular(im.asarray(spoilt, device=device), im.asarray(y, device=device), upper=upper)
    check(got, np.linalg.solve(triangle, y), scale=condition(triangle))


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (0, 3, 3), (0, 0)])
def test_an_inverse_times_its_matrix_is_the_identity(device: im.Device, dtype: str, shape: tuple[int, ...]) -> None:
    x = sample(*shape, dtype=dtype)
    check(im.linalg.inv(im.asarray(x, device=device)), np.linalg.inv(x), scale=condition(x))


@pytest.mark.parametrize("x", [[[1.0, 2.0], [2.0, 4.0]], [[0.0]], [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]]]])
def test_a_singular_matrix_raises_and_names_the_way_out(device: im.Device, x: Any) -> None:
    a = im.asarray(x, device=device)
    for name, call in {"solve": lambda: im.linalg.solve(a, a), "inv": lambda: im.linalg.inv(a)}.items():
        with pytest.raises(im.ExecutionError, match=f"^{name}: (solve: )?a matrix is singular. Use im.linalg.pinv"):
            call()
    with pytest.raises(im.ExecutionError, match=r"^solve_triangular: a matrix is singular"):
        im.linalg.solve_triangular(im.zeros((2, 2), device=device), im.ones(2, device=device))


@pytest.mark.parametrize(("a", "b"), [((2, 3), (2,)), ((3, 3), (2,)), ((3, 3), (2, 3)), ((3, 3), ()), ((2, 3, 3), (4, 3, 1))])
def test_solve_refuses_sides_that_do_not_fit(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    with pytest.raises(im.ShapeError, match=r"^solve: "):
        im.linalg.solve(im.zeros(a), im.zeros(b))


@pytest.mark.parametrize("place", [(0, 0), (1, 0), (1, 1)])
def test_a_nan_in_a_matrix_reaches_the_result(device: im.Device, place: tuple[int, int]) -> None:
    x = positive(3, 3, dtype="float64")
    x[place] = x[place[::-1]] = math.nan
    t = im.asarray(x, device=device)
    for result in (im.linalg.det(t), im.linalg.slogdet(t).logabsdet, im.linalg.vector_norm(t), im.linalg.matrix_norm(t, ord=1)):
        assert math.isnan(result.item())
    for result in (
        im.linalg.solve(t, im.ones(3, dtype=im.float64, device=device)),
        im.linalg.inv(t),
        im.linalg.matrix_power(t, 2),
    ):
        assert bool(im.any(im.isnan(result)))


def test_what_does_not_converge_says_what_to_look_for() -> None:
    x = im.full((2, 2), math.nan)
    for name in ("svd", "svdvals", "eig", "eigvals"):
        with pytest.raises(im.ExecutionError, match=f"^{name}: the iteration did not converge. Test with im.all"):
            getattr(im.linalg, name)(x)


# --- determinants and ranks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 5, 5), (0, 3, 3), (0, 0), (2, 0, 0)])
def test_determinants_are_numpys(device: im.Device, dtype: str, shape: tuple[int, ...]) -> None:
    x = sample(*shape, dtype=dtype)
    t = im.asarray(x, device=device)
    check(im.linalg.det(t), np.linalg.det(x), scale=shape[-1] + 1)
    sign, log = np.linalg.slogdet(x)
    result = im.linalg.slogdet(t)
    assert result._fields == ("sign", "logabsdet")
    # A small pivot comes from a difference, so its logarithm carries the condition's share of the error.
    check(result.sign, sign, scale=condition(x))
    check(result.logabsdet, log, scale=condition(x))


def test_a_singular_matrix_has_determinant_zero(device: im.Device) -> None:
    for x in ([[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 1.0]], [[0.0] * 3] * 3):
        t = im.asarray(x, device=device)
        assert im.linalg.det(t).item() == 0.0
        sign, log = im.linalg.slogdet(t)
        assert (sign.item(), log.item()) == (0.0, -math.inf)


def test_an_exchange_of_rows_turns_the_determinants_sign(device: im.Device) -> None:
    x = im.asarray([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], device=device)
    assert (im.linalg.det(x).item(), im.linalg.det(x[:, ::-1]).item()) == (1.0, -1.0)


def test_slogdet_holds_determinants_that_overflow(device: im.Device) -> None:
    x = im.eye(400, dtype=im.float32, device=device) * -10.0
    sign, log = im.linalg.slogdet(x)
    assert math.isinf(im.linalg.det(x).item())
    assert sign.item() == 1.0
    assert log.item() == pytest.approx(400 * math.log(10), rel=400 * 2.0**-23)


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 5, 5), (0, 3), (3, 0), (2, 0, 3), (0, 2, 3)])
def test_ranks_and_pseudo_inverses_are_numpys(device: im.Device, dtype: str, shape: tuple[int, ...]) -> None:
    *batch, rows, cols = shape
    rank = max(0, min(rows, cols) - 1)
    x = sample(*batch, rows, rank, dtype=dtype) @ sample(*batch, rank, cols, dtype=dtype, seed=1)
    t = im.asarray(x, device=device)
    values = np.linalg.svdvals(x)
    kept = values[values > 1e-4] if x.size else values
    scale = float(np.max(kept, initial=1) / np.min(kept, initial=1)) ** 2
    for rtol in (None, 1e-5):
        check(im.linalg.matrix_rank(t, rtol=rtol), np.full(batch, rank))
        check(im.linalg.pinv(t, rtol=rtol), np.linalg.pinv(x, rtol=rtol), scale=scale)


def test_a_tolerance_may_differ_from_matrix_to_matrix(device: im.Device) -> None:
    x = im.asarray(np.stack([np.diag([1.0, 0.1, 0.01])] * 3), device=device)
    rtol = im.asarray([0.5, 0.05, 0.005], dtype=im.float64, device=device)
    assert im.linalg.matrix_rank(x, rtol=rtol).tolist() == [1, 2, 3]
    assert np.allclose(im.linalg.pinv(x, rtol=rtol).numpy()[1], np.diag([1.0, 10.0, 0.0]), rtol=1e-15)
    with pytest.raises(im.ShapeError, match=r"rtol has shape \(2,\)"):
        im.linalg.matrix_rank(x, rtol=rtol[:2])
    with pytest.raises(im.DTypeError, match="rtol has dtype int64"):
        im.linalg.pinv(x, rtol=im.asarray([1, 1, 1], device=device))


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 4)), elements=st.integers(-3, 3).map(float)))
def test_a_pseudo_inverse_satisfies_penroses_conditions(x: np.ndarray) -> None:
    # Singular values of small integer matrices that are not zero are at least 1e-3 of the greatest, far from the tolerance.
    for name in WAYS:
        with open_device(name) as device:
            p = im.linalg.pinv(im.asarray(x, device=device)).numpy()
        size = max(1.0, float(np.abs(x).max()), float(np.abs(p).max())) ** 3
        for got, want in ((x @ p @ x, x), (p @ x @ p, p), (x @ p, (x @ p).T), (p @ x, (p @ x).T)):
            assert close(got, want, scale=size)


# --- dtypes, memory, devices -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["inv", "det", "eigvalsh", "eigvals", "svdvals", "cholesky", "pinv", "vector_norm", "matrix_norm"]
)
def test_integers_are_computed_in_float64_unless_promotion_is_strict(device: im.Device, name: str) -> None:
    function = getattr(im.linalg, name)
    for dtype in ("int8", "int64", "uint8"):
        x = np.asarray([[4, 1], [1, 3]], dtype)
        got, want = function(im.asarray(x, device=device)), function(im.asarray(x.astype(np.float64), device=device))
        assert got.dtype is want.dtype
        assert np.array_equal(got.numpy(), want.numpy())
        with im.config.scope(promotion="strict"), pytest.raises(im.DTypeError, match=f"^{name}: the input has dtype {dtype}"):
            function(im.asarray(x, device=device))
    with pytest.raises(im.DTypeError, match=f"^{name}: the input has dtype bool"):
        function(im.asarray([[True, False], [False, True]], device=device))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_are_computed_in_float32_and_rounded_once(dtype: str) -> None:
    x = im.astype(im.asarray([[4.0, 1.0], [1.0, 3.0]]), dtype)
    wide = im.astype(x, im.float32)
    for name in ("inv", "det", "cholesky", "eigvalsh", "svdvals"):
        function: Callable[[im.Tensor], im.Tensor] = getattr(im.linalg, name)
        assert bool(im.all(function(x) == im.astype(function(wide), dtype))), name
        assert function(x).dtype.name == dtype
    assert im.linalg.eigvals(x).dtype is im.complex64


def test_views_with_negative_strides_are_read_in_their_order(device: im.Device) -> None:
    x = positive(4, 4, dtype="float64")
    t = im.asarray(x, device=device)[::-1, ::-1]
    y = x[::-1, ::-1]
    check(im.linalg.inv(t), np.linalg.inv(y), scale=condition(x))
    check(im.linalg.cholesky(t.mT), np.linalg.cholesky(y.T))
    check(im.linalg.diagonal(t, offset=1), np.diagonal(y, 1))
    check(im.einsum("ij,kj->ik", t, t), y @ y.T)


def test_the_four_ops_of_the_core_are_in_linalg_too() -> None:
    for name in ("matmul", "matrix_transpose", "tensordot", "vecdot"):
        assert getattr(im.linalg, name) is getattr(im, name)


S, V = (3, 3), (3,)
CALLS: dict[str, tuple[list[tuple[int, ...]], dict[str, Any]]] = {
    "cholesky": ([S], {"upper": True}),
    "cross": ([(2, 3), V], {}),
    "det": ([(2, *S)], {}),
    "diagonal": ([(2, 3, 4)], {"offset": 1}),
    "eig": ([S], {}),
    "eigh": ([(2, *S)], {}),
    "eigvals": ([S], {}),
    "eigvalsh": ([S], {}),
    "inv": ([(2, *S)], {}),
    "kron": ([(2, 3), (4,)], {}),
    "matmul": ([(2, 1, 2, 3), (5, 3, 4)], {}),
    "matrix_norm": ([(2, 3, 4)], {"ord": "nuc", "keepdims": True}),
    "matrix_power": ([S], {}),
    "matrix_rank": ([(2, 3, 4)], {}),
    "matrix_transpose": ([(2, 3, 4)], {}),
    "outer": ([V, (4,)], {}),
    "pinv": ([(2, 3, 4)], {"rtol": 1e-3}),
    "qr": ([(2, 4, 3)], {"mode": "complete"}),
    "slogdet": ([(2, *S)], {}),
    "solve": ([(2, *S), V], {}),
    "solve_triangular": ([S, (2, 3, 4)], {}),
    "svd": ([(2, 3, 4)], {"full_matrices": False}),
    "svdvals": ([(2, 3, 4)], {}),
    "tensordot": ([(2, 3, 4), (3, 4, 5)], {}),
    "trace": ([(2, 3, 4)], {}),
    "transpose": ([(3, 4)], {}),
    "vecdot": ([(2, 3), V], {}),
    "vector_norm": ([(2, 3, 4)], {"axis": (0, 2), "ord": 3}),
    "einsum": ([(2, 3), (3, 4)], {}),
}
LEADING: dict[str, tuple[Any, ...]] = {"einsum": ("ij,jk->ki",)}
TRAILING: dict[str, tuple[Any, ...]] = {"matrix_power": (-3,)}


def test_every_row_of_the_families_is_called_here() -> None:
    assert set(CALLS) == {row.name for row in TABLE.values() if row.family in ("linalg", "factorization", "einsum")}


def call(function: Callable[..., Any], name: str, dtype: str, device: im.Device) -> tuple[im.Tensor, ...]:
    shapes, keywords = CALLS[name]
    arrays = [positive(*s, dtype=dtype) if s[-2:] == S else sample(*s, dtype=dtype) for s in shapes]
    tensors = [
        im.zeros(x.shape, dtype=dtype, device=device) if device.engine == "meta" else im.asarray(x, device=device) for x in arrays
    ]
    result = function(*LEADING.get(name, ()), *tensors, *TRAILING.get(name, ()), **keywords)
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("name", sorted(CALLS))
def test_the_decomposition_of_a_row_agrees_with_the_native(name: str, dtype: str) -> None:
    row, cpu = TABLE[name], im.Device("numpy:cpu")
    native = call(row.function, name, dtype, cpu)
    if row.decompose is not None:
        for got, want in zip(call(row.decompose, name, dtype, cpu), native, strict=True):
            check(got, want.numpy(), scale=condition(positive(*S, dtype="float64")) ** 3)


@pytest.mark.parametrize("dtype", INEXACT)
@pytest.mark.parametrize("name", sorted(CALLS))
def test_shapes_and_dtypes_are_known_without_data(name: str, dtype: str) -> None:
    function = TABLE[name].function
    meta, real = (call(function, name, dtype, im.Device(d)) for d in ("meta:cpu", "numpy:cpu"))
    assert [(t.shape, t.dtype) for t in meta] == [(t.shape, t.dtype) for t in real]
