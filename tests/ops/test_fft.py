"""Fourier transforms against NumPy and by their laws, with natives and as decompositions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from primitives_only import WAYS, open_device

import intermodal as im
from intermodal.ops import TABLE

NORMS = ["backward", "ortho", "forward"]
REAL, COMPLEX = ["float32", "float64"], ["complex64", "complex128"]
FORWARD, INVERSE = ["fft", "rfft", "ihfft"], ["ifft", "irfft", "hfft"]
TAKES_REAL = {"rfft", "ihfft", "rfftn"}


@pytest.fixture(params=WAYS)
def device(request: pytest.FixtureRequest) -> Iterator[im.Device]:
    with open_device(request.param) as opened:
        yield opened


def sample(*shape: int, dtype: str = "complex128", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng((seed, *shape))
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def check(got: im.Tensor, want: Any) -> None:
    """Equal up to rounding.

    The error of a transform of n points is at most 3.4 * eps * log2(n) of the result in the Euclidean norm (Higham,
    Accuracy and Stability of Numerical Algorithms, theorem 24.2, for powers of two). Both sides of the comparison
    have it, other n double it, and an inverse built from a whole spectrum doubles the number of points.
    """
    want = np.asarray(want)
    assert (got.shape, got.dtype.numpy) == (want.shape, want.dtype)
    limit = 4 * 3.4 * float(np.finfo(want.dtype).eps) * math.log2(2 * max(2, want.size)) * float(np.linalg.norm(want))
    assert float(np.linalg.norm(got.numpy() - want)) <= limit


def dtypes_of(name: str) -> list[str]:
    return REAL if name in TAKES_REAL else COMPLEX


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", [*FORWARD, *INVERSE])
@pytest.mark.parametrize("n", [None, 1, 2, 5, 6, 9, 16])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_transforms_along_an_axis_are_numpys(device: im.Device, name: str, norm: str, n: int | None, axis: int) -> None:
    for dtype in dtypes_of(name):
        x = sample(3, 6, 4, dtype=dtype)
        got = getattr(im.fft, name)(im.asarray(x, device=device), n=n, axis=axis, norm=norm)
        check(got, getattr(np.fft, name)(x, n=n, axis=axis, norm=norm))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@pytest.mark.parametrize(
    ("s", "axes"), [(None, None), (None, (0,)), (None, (2, 0)), ((5, 2), (0, 1)), ((4, -1, 3), (-1, 0, 1)), ((-1,), [1])]
)
def test_transforms_along_several_axes_are_numpys(device: im.Device, name: str, norm: str, s: Any, axes: Any) -> None:
    for dtype in dtypes_of(name):
        x = sample(3, 6, 4, dtype=dtype)
        got = getattr(im.fft, name)(im.asarray(x, device=device), s=s, axes=axes, norm=norm)
        if name == "irfftn" and s is not None and s[-1] == -1:
            s = None  # -1 uses all elements, as the standard has it; NumPy takes as many points as the half has elements
        check(got, getattr(np.fft, name)(x, s=s, axes=axes, norm=norm))


signals = st.tuples(st.integers(1, 40), st.integers(0, 99))


@given(signals, st.sampled_from(NORMS), st.sampled_from([*REAL, *COMPLEX]))
def test_the_inverse_of_a_transform_is_the_signal(signal: tuple[int, int], norm: str, dtype: str) -> None:
    n, seed = signal
    x = sample(2, n, dtype=dtype, seed=seed)
    for name in WAYS:
        with open_device(name) as device:
            t = im.asarray(x, device=device)
            check(im.fft.ifft(im.fft.fft(t, norm=norm), norm=norm), x.astype(np.result_type(dtype, np.complex64)))
            if dtype in REAL:
                check(im.fft.irfft(im.fft.rfft(t, norm=norm), n=n, norm=norm), x)
                check(im.fft.hfft(im.fft.ihfft(t, norm=norm), n=n, norm=norm), x)
                check(im.fft.irfftn(im.fft.rfftn(t, norm=norm), s=(2, n), axes=(0, 1), norm=norm), x)


@given(signals)
def test_an_orthonormal_transform_keeps_the_energy_and_turns_products_into_convolutions(signal: tuple[int, int]) -> None:
    n, seed = signal
    x, y = sample(n, seed=seed), sample(n, seed=seed + 100)
    for name in WAYS:
        with open_device(name) as device:
            a, b = im.asarray(x, device=device), im.asarray(y, device=device)
            energy = im.linalg.vector_norm(im.fft.fft(a, norm="ortho")).item()
            assert energy == pytest.approx(float(np.linalg.norm(x)), rel=8 * math.log2(2 * n) * 2.0**-52)
            product = im.fft.ifft(im.fft.fft(a) * im.fft.fft(b))
        circular = np.asarray([sum(x[j] * y[(i - j) % n] for j in range(n)) for i in range(n)])
        # The transforms' errors are of the size of the factors' norms, which the convolution's own may fall short of.
        scale = float(np.linalg.norm(x) * np.linalg.norm(y))
        assert float(np.linalg.norm(product.numpy() - circular)) <= 4 * n * 2.0**-52 * scale * math.log2(4 * n)


def test_the_imaginary_parts_that_a_hermitian_spectrum_cannot_have_are_ignored(device: im.Device) -> None:
    x = np.asarray([1 + 5j, 2 + 1j, 3 + 7j])
    check(im.fft.irfft(im.asarray(x, device=device)), np.fft.irfft(x))
    check(im.fft.irfft(im.asarray(x, device=device)), np.fft.irfft([1, 2 + 1j, 3]))


@pytest.mark.parametrize("name", [*FORWARD, *INVERSE, "fftn", "ifftn", "rfftn", "irfftn"])
def test_integers_are_transformed_in_float64_and_half_floats_in_float32(device: im.Device, name: str) -> None:
    function, reference = getattr(im.fft, name), getattr(np.fft, name)
    x = np.asarray([[1, 2, 3], [4, 5, 7]], np.int8)
    check(function(im.asarray(x, device=device)), reference(x.astype(np.float64)))
    single = reference(x.astype(np.float32)).dtype
    for dtype in ("float16", "bfloat16"):
        assert function(im.astype(im.asarray(x, device=device), dtype)).dtype.numpy == single
    with im.config.scope(promotion="strict"), pytest.raises(im.DTypeError, match=f"^{name}: the input has dtype int8"):
        function(im.asarray(x, device=device))


@pytest.mark.parametrize("name", ["rfft", "ihfft", "rfftn"])
def test_transforms_of_real_signals_refuse_complex_ones(name: str) -> None:
    with pytest.raises(im.DTypeError, match=f"^{name}: the input has dtype complex64, but this op takes real floating"):
        getattr(im.fft, name)(im.zeros(3, dtype=im.complex64))


@pytest.mark.parametrize("name", [*FORWARD, *INVERSE])
def test_a_transform_has_at_least_one_point(name: str) -> None:
    function = getattr(im.fft, name)
    with pytest.raises(im.ShapeError, match=f"^{name}: 0 points"):
        function(im.zeros((2, 3)), n=0)
    with pytest.raises(im.ShapeError, match=f"^{name}: .* of an axis of size 0 are no signal"):
        function(im.zeros((2, 0)))
    with pytest.raises(im.AxisError, match=f"^{name}: axis 2 is out of range"):
        function(im.zeros((2, 3)), axis=2)
    with pytest.raises(im.InvalidValueError, match=f"^{name}: norm 'both' is not known"):
        function(im.zeros((2, 3)), norm="both")


def test_an_axis_without_elements_is_filled_with_zeros_to_the_points_asked_for(device: im.Device) -> None:
    assert im.fft.fft(im.zeros((2, 0), device=device), n=2).tolist() == [[0, 0], [0, 0]]
    assert im.fft.rfft(im.zeros((0, 4), device=device)).shape == (0, 3)


def test_a_spectrum_of_one_value_says_that_the_points_must_be_given() -> None:
    with pytest.raises(im.ShapeError, match=r"0 points of an axis of size 1 are no signal. Give a number of points"):
        im.fft.irfft(im.zeros(1))
    assert im.fft.irfft(im.ones(1), n=1).tolist() == [1.0]


@pytest.mark.parametrize(("s", "axes"), [((2, 2), None), ((2,), (0, 1)), (2, (0,))])
def test_sizes_need_their_axes(s: Any, axes: Any) -> None:
    with pytest.raises(im.InvalidValueError, match=r"^fftn: s .* and axes .* do not go together"):
        im.fft.fftn(im.zeros((2, 3)), s=s, axes=axes)


def test_a_transform_along_no_axis_is_the_signal(device: im.Device) -> None:
    x = im.asarray([1.0, 2.0], device=device)
    assert im.fft.fftn(x, axes=()).tolist() == [1, 2]
    assert im.fft.fftn(im.asarray(3.0, device=device)).dtype is im.complex64
    with pytest.raises(im.ShapeError, match="no axis to transform"):
        im.fft.rfftn(x, axes=())
    with pytest.raises(im.AxisError, match="names an axis twice"):
        im.fft.fftn(x, axes=(0, -1))


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
@pytest.mark.parametrize("dtype", ["float64", "float32", None])
@pytest.mark.parametrize("n", [1, 2, 5, 8, 101])
def test_frequencies_are_numpys(device: im.Device, name: str, dtype: str | None, n: int) -> None:
    for d in (1.0, 0.1, -3, 1e-3):
        got = getattr(im.fft, name)(n, d=d, dtype=dtype, device=device)
        assert (got.dtype.name, got.device) == (dtype or "float32", device)
        want = getattr(np.fft, name)(n, d)
        # The steps are exact; the product n * d, its reciprocal there and the quotient here round once each.
        np.testing.assert_allclose(got.numpy(), want, rtol=4 * float(np.finfo(got.dtype.numpy).eps), atol=0)


def test_frequencies_of_small_floats_are_rounded_once(device: im.Device) -> None:
    got = im.fft.rfftfreq(6001, dtype=im.float16, device=device).numpy()
    assert np.array_equal(got, (np.arange(3001, dtype=np.float32) / np.float32(6001)).astype(np.float16))


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_refuse_no_points_no_spacing_and_dtypes_that_are_not_floating(name: str) -> None:
    function = getattr(im.fft, name)
    for n in (0, -1, 2.5):
        with pytest.raises(im.InvalidValueError, match=f"^{name}: n "):
            function(n)
    for d in (0.0, math.inf, math.nan, "1"):
        with pytest.raises(im.InvalidValueError, match=f"^{name}: the spacing d"):
            function(3, d=d)
    with pytest.raises(im.DTypeError, match=f"^{name}: the result has dtype int64"):
        function(3, dtype=im.int64)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple), st.data())
def test_shifts_are_numpys_and_undo_each_other(shape: tuple[int, ...], data: st.DataObject) -> None:
    axes = data.draw(st.none() | st.lists(st.sampled_from(range(len(shape))), unique=True))
    x = np.arange(math.prod(shape)).reshape(shape)
    for name in WAYS:
        with open_device(name) as device:
            t = im.asarray(x, device=device)
            there = im.fft.fftshift(t, axes=axes)
            assert np.array_equal(there.numpy(), np.fft.fftshift(x, axes))
            assert np.array_equal(im.fft.ifftshift(t, axes=axes).numpy(), np.fft.ifftshift(x, axes))
            assert np.array_equal(im.fft.ifftshift(there, axes=axes).numpy(), x)


def test_a_number_shifts_to_itself(device: im.Device) -> None:
    x = im.asarray(3.0, device=device)
    assert (im.fft.fftshift(x).item(), im.fft.ifftshift(x).item()) == (3.0, 3.0)


def test_views_with_negative_strides_are_read_in_their_order(device: im.Device) -> None:
    x = sample(4, 6)
    check(im.fft.fft(im.asarray(x, device=device)[::-1, ::-2], axis=0), np.fft.fft(x[::-1, ::-2], axis=0))


CALLS: dict[str, dict[str, Any]] = {
    **{name: {"n": 5, "axis": 1, "norm": "ortho"} for name in (*FORWARD, *INVERSE)},
    **{name: {"s": (5, 4), "axes": (2, 0)} for name in ("fftn", "ifftn", "rfftn", "irfftn")},
    **{name: {"axes": (0, 2)} for name in ("fftshift", "ifftshift")},
    **{name: {"d": 0.5} for name in ("fftfreq", "rfftfreq")},
}


def test_every_row_of_the_family_is_called_here() -> None:
    assert set(CALLS) == {row.name for row in TABLE.values() if row.family == "fft"}


def call(function: Callable[..., im.Tensor], name: str, device: str) -> im.Tensor:
    if name.endswith("freq"):
        return function(7, device=device, **CALLS[name])
    dtype = "float64" if name in TAKES_REAL else "complex128"
    x = sample(3, 6, 4, dtype=dtype)
    return function(im.zeros(x.shape, dtype=dtype, device=device) if device == "meta:cpu" else im.asarray(x), **CALLS[name])


@pytest.mark.parametrize("name", sorted(set(CALLS) - {"fft"}))
def test_the_decomposition_of_a_row_agrees_with_the_native(name: str) -> None:
    row = TABLE[name]
    assert row.decompose is not None
    check(call(row.decompose, name, "numpy:cpu"), call(row.function, name, "numpy:cpu").numpy())


@pytest.mark.parametrize("name", sorted(CALLS))
def test_shapes_and_dtypes_are_known_without_data(name: str) -> None:
    meta, real = (call(TABLE[name].function, name, device) for device in ("meta:cpu", "numpy:cpu"))
    assert (meta.shape, meta.dtype) == (real.shape, real.dtype)
