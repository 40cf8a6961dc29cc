"""Derivatives of Fourier transforms: agreement with PyTorch's, the law of the adjoint, halves of spectra."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

import intermodal as im

NORMS: Final = ("backward", "ortho", "forward")
OF_REALS: Final = ("rfft", "ihfft", "rfftn")


def normal(*shape: int, dtype: str = "float64", seed: int = 0) -> Any:
    random = np.random.default_rng([seed, *shape])
    values = random.normal(size=shape)
    return (values + 1j * random.normal(size=shape)).astype(dtype) if dtype.startswith("complex") else values.astype(dtype)


def check_against_pytorch(name: str, x: Any, device: im.Device, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    leaf = torch.tensor(x, requires_grad=True)
    result = getattr(torch.fft, name)(leaf, **theirs)
    weight = normal(*result.shape, dtype="complex128" if result.is_complex() else "float64", seed=1)
    (want,) = torch.autograd.grad(result, leaf, torch.tensor(weight))
    _, pull = im.vjp(lambda a: getattr(im.fft, name)(a, **ours), im.asarray(x, device=device))
    (found,) = pull(im.asarray(weight, device=device))
    assert str(found.dtype) == x.dtype.name
    np.testing.assert_allclose(found.numpy(), want.resolve_conj().numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [None, 1, 3, 4, 5, 8])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_gradients_along_an_axis_are_those_of_pytorch(name: str, n: int | None, norm: str, device: im.Device) -> None:
    for dtype in ("float64",) if name in OF_REALS else ("float64", "complex128"):
        x = normal(2, 5, 3, dtype=dtype)
        check_against_pytorch(name, x, device, {"n": n, "axis": 1, "norm": norm}, {"n": n, "dim": 1, "norm": norm})


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("s", "axes"), [(None, (0, 2)), ((3, 6), (2, 0)), ((2, 7), (0, 1)), (None, (1,)), (None, None)])
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_gradients_along_axes_are_those_of_pytorch(name: str, s: Any, axes: Any, norm: str, device: im.Device) -> None:
    for dtype in ("float64",) if name in OF_REALS else ("float64", "complex128"):
        x = normal(4, 5, 3, dtype=dtype)
        check_against_pytorch(name, x, device, {"s": s, "axes": axes, "norm": norm}, {"s": s, "dim": axes, "norm": norm})


@given(
    name=st.sampled_from(["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]),
    size=st.integers(2, 9),
    n=st.none() | st.integers(1, 12),
    norm=st.sampled_from(NORMS),
)
def test_what_carries_gradients_back_is_the_adjoint(name: str, size: int, n: int | None, norm: str) -> None:
    x = normal(size, dtype="float64" if name in OF_REALS else "complex128")
    value, pull = im.vjp(lambda a: getattr(im.fft, name)(a, n=n, norm=norm), im.asarray(x))
    g = normal(*value.shape, dtype=str(value.dtype), seed=1)
    there = np.vdot(value.numpy(), g).real
    back = np.vdot(x, pull(im.asarray(g))[0].numpy()).real
    assert there == pytest.approx(back, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("name", ["irfft", "hfft"])
def test_imaginary_parts_that_a_real_signal_cannot_have_get_no_gradient(name: str, device: im.Device) -> None:
    x = im.asarray(normal(4, dtype="complex128"), device=device).require_grad()
    found = getattr(im.fft, name)(x, n=6).backward(im.asarray(normal(6), device=device))[x].numpy()
    assert (found.imag[[0, 3]] == 0).all()
    assert (found.imag[[1, 2]] != 0).all()


def test_points_that_were_cut_off_get_zero(device: im.Device) -> None:
    x = im.asarray(normal(6), device=device).require_grad()
    y = im.fft.rfft(x, n=4)
    found = y.backward(im.asarray(normal(3, dtype="complex128"), device=device))[x].numpy()
    assert (found[4:] == 0).all()
    assert (found[:4] != 0).all()


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_signals_that_are_not_there_have_gradients_that_are_not_there(name: str, device: im.Device) -> None:
    x = im.zeros((0, 4), device=device).require_grad()
    assert im.sum(im.real(getattr(im.fft, name)(x))).backward()[x].shape == (0, 4)


def test_a_transform_along_no_axis_hands_the_gradient_on(device: im.Device) -> None:
    x = im.asarray(normal(2, 3), device=device).require_grad()
    np.testing.assert_array_equal(im.sum(im.real(im.fft.fftn(x, axes=()))).backward()[x].numpy(), np.ones((2, 3)))


def test_shifts_are_undone_by_each_other(device: im.Device) -> None:
    g = im.asarray(normal(2, 5), device=device)
    for shift, undo in ((im.fft.fftshift, im.fft.ifftshift), (im.fft.ifftshift, im.fft.fftshift)):
        x = im.zeros((2, 5), dtype="float64", device=device).require_grad()
        np.testing.assert_array_equal(shift(x, axes=1).backward(g)[x].numpy(), undo(g, axes=1).numpy())
