"""Normalization against the formulas in float64, and the moments that it promises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from primitives_only import WAYS, open_device

import intermodal as im

EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


@pytest.fixture(params=WAYS)
def device(request: pytest.FixtureRequest) -> Iterator[im.Device]:
    with open_device(request.param) as opened:
        yield opened


def drawn(device: im.Device, dtype: str, *shapes: tuple[int, ...]) -> tuple[list[im.Tensor], list[np.ndarray]]:
    rng = np.random.default_rng(1)
    tensors = [im.astype(im.asarray(rng.normal(size=s) + 0.5, device=device), dtype) for s in shapes]
    return tensors, [t.numpy().astype(np.float64) for t in tensors]


def check(got: im.Tensor, want: np.ndarray, dtype: str) -> None:
    # Sums of up to sixty numbers and eight more steps, in float32 or wider, of results below 10; and the result is rounded once.
    assert got.dtype.name == dtype
    inner = min(EPS[dtype], EPS["float32"])
    np.testing.assert_allclose(got.numpy().astype(np.float64), want, rtol=EPS[dtype], atol=10 * 68 * inner)


def standard(a: np.ndarray, axes: Any, eps: float = 1e-5) -> np.ndarray:
    return (a - a.mean(axes, keepdims=True)) / np.sqrt(a.var(axes, keepdims=True) + eps)


def over(w: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    return w.reshape([-1 if a == axis else 1 for a in range(ndim)])


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize(("shape", "axis"), [((3, 4, 5), 1), ((3, 4), 1), ((2, 3, 4, 4), -1), ((5, 2, 2), 0)])
def test_batch_norm_uses_the_mean_and_variance_it_is_given(
    shape: tuple[int, ...], axis: int, dtype: str, device: im.Device
) -> None:
    n = shape[axis]
    (x, mean, var, weight, bias), (a, m, _, w, b) = drawn(device, dtype, shape, (n,), (n,), (n,), (n,))
    var = im.abs(var) + 0.5
    v = var.numpy().astype(np.float64)
    along = axis % len(shape)
    m, v, w, b = (over(y, along, len(shape)) for y in (m, v, w, b))
    check(im.nn.batch_norm(x, mean, var, weight, bias, axis=axis), (a - m) / np.sqrt(v + 1e-5) * w + b, dtype)
    check(im.nn.batch_norm(x, mean, var, axis=axis, eps=0.1), (a - m) / np.sqrt(v + 0.1), dtype)
    check(im.nn.batch_norm(x, mean, var, bias=bias, axis=axis), (a - m) / np.sqrt(v + 1e-5) + b, dtype)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize(("shape", "axis"), [((3, 4, 5), 1), ((6, 2), 1), ((2, 3, 4), -1)])
def test_batch_norm_in_training_tells_the_moments_that_it_found(
    shape: tuple[int, ...], axis: int, dtype: str, device: im.Device
) -> None:
    n = shape[axis]
    (x, weight, bias), (a, w, b) = drawn(device, dtype, shape, (n,), (n,))
    along = axis % len(shape)
    rest = tuple(i for i in range(len(shape)) if i != along)
    got = im.nn.batch_norm_training(x, weight, bias, axis=axis)
    check(got.values, standard(a, rest) * over(w, along, len(shape)) + over(b, along, len(shape)), dtype)
    check(got.mean, a.mean(rest), dtype)
    check(got.var, a.var(rest), dtype)
    again = im.nn.batch_norm(x, got.mean, got.var, weight, bias, axis=axis)
    # The moments come back rounded to the dtype, which moves the result by as many units as they are large.
    np.testing.assert_allclose(again.numpy().astype(np.float64), got.values.numpy().astype(np.float64), atol=40 * EPS[dtype] * 2)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("axis", [-1, 1, (1, 2), (2, 0), 0])
def test_layer_norm_and_rms_norm_run_over_the_axes_they_are_given(axis: Any, dtype: str, device: im.Device) -> None:
    shape = (3, 4, 5)
    axes = tuple(sorted(a % 3 for a in (axis if isinstance(axis, tuple) else (axis,))))
    part = tuple(shape[a] for a in axes)
    (x, weight, bias), (a, w, b) = drawn(device, dtype, shape, part, part)
    w, b = (y.reshape([n if i in axes else 1 for i, n in enumerate(shape)]) for y in (w, b))
    check(im.nn.layer_norm(x, weight, bias, axis=axis), standard(a, axes) * w + b, dtype)
    check(im.nn.layer_norm(x, axis=axis, eps=0.5), standard(a, axes, 0.5), dtype)
    size = np.sqrt((a**2).mean(axes, keepdims=True) + 1e-5)
    check(im.nn.rms_norm(x, weight, axis=axis), a / size * w, dtype)
    check(im.nn.rms_norm(x, axis=axis), a / size, dtype)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize(("shape", "groups"), [((2, 6, 5), 3), ((3, 4), 2), ((2, 4, 3, 2), 1), ((1, 3, 2, 2, 2), 3)])
def test_group_norm_runs_over_each_group_of_channels(shape: tuple[int, ...], groups: int, dtype: str, device: im.Device) -> None:
    n = shape[1]
    (x, weight, bias), (a, w, b) = drawn(device, dtype, shape, (n,), (n,))
    want = standard(a.reshape(shape[0], groups, -1), -1).reshape(shape)
    check(im.nn.group_norm(x, weight, bias, num_groups=groups), want * over(w, 1, len(shape)) + over(b, 1, len(shape)), dtype)
    check(im.nn.group_norm(x, num_groups=groups), want, dtype)


@pytest.mark.parametrize("dtype", EPS)
def test_instance_norm_runs_over_each_channel(dtype: str, device: im.Device) -> None:
    (x, weight, bias), (a, w, b) = drawn(device, dtype, (2, 3, 4, 5), (3,), (3,))
    check(im.nn.instance_norm(x, weight, bias), standard(a, (2, 3)) * over(w, 1, 4) + over(b, 1, 4), dtype)
    check(im.nn.instance_norm(x), im.nn.group_norm(x, num_groups=3).numpy().astype(np.float64), dtype)


def test_small_floats_add_up_in_float32(device: im.Device) -> None:
    """In float16 the squares of 300 and the sum of 4096 hundreds are infinite."""
    x = im.asarray(np.tile([300.0, -300.0], 2048), dtype=im.float16, device=device)
    signs = np.tile([1.0, -1.0], 2048)
    np.testing.assert_array_equal(im.nn.layer_norm(x).numpy(), signs)
    np.testing.assert_array_equal(im.nn.rms_norm(x).numpy(), signs)
    shifted = im.nn.layer_norm(im.astype(x / 300.0 + 100.0, "float16"))
    np.testing.assert_allclose(shifted.numpy().astype(float), signs, rtol=2.0**-10)


def test_a_large_mean_does_not_drown_the_variance(device: im.Device) -> None:
    """The mean is taken off before squares are: of squares near 1e8 float32 would keep no digit of a variance of 1."""
    x = im.asarray([10001.0, 9999.0] * 8, dtype=im.float32, device=device)
    np.testing.assert_allclose(im.nn.layer_norm(x, eps=0.0).numpy(), [1.0, -1.0] * 8)


def test_constant_lines_become_zero_and_not_nan(device: im.Device) -> None:
    x = im.full((2, 3, 4), 7.0, device=device)
    for got in (
        im.nn.layer_norm(x),
        im.nn.group_norm(x, num_groups=1),
        im.nn.instance_norm(x),
        im.nn.batch_norm_training(x).values,
    ):
        assert not got.numpy().any()


def test_views_normalize_like_copies(device: im.Device) -> None:
    a = np.random.default_rng(2).normal(size=(4, 5, 6))
    x, plain = im.flip(im.asarray(a, device=device), axis=2), im.asarray(np.ascontiguousarray(a[:, :, ::-1]), device=device)
    for function in (im.nn.layer_norm, im.nn.rms_norm, im.nn.instance_norm):
        np.testing.assert_allclose(function(x).numpy(), function(plain).numpy(), atol=1e-14)


def test_empty_batches_have_a_shape(device: im.Device) -> None:
    x = im.zeros((0, 4, 3), device=device)
    assert im.nn.layer_norm(x).shape == im.nn.rms_norm(x).shape == im.nn.instance_norm(x).shape == (0, 4, 3)
    assert im.nn.group_norm(x, num_groups=2).shape == (0, 4, 3)
    assert im.nn.batch_norm_training(x).mean.shape == (4,)


@settings(deadline=None)  # a deadline would measure the machine's other load
@given(st.integers(2, 30), st.floats(0.1, 100), st.floats(-100, 100), st.integers(0, 99))
def test_layer_norm_does_not_see_shift_and_scale(n: int, scale: float, shift: float, seed: int) -> None:
    a = np.random.default_rng(seed).normal(size=(2, n))
    for way in WAYS:
        with open_device(way) as device:
            x = im.asarray(a, device=device)
            got = im.nn.layer_norm(x * scale + shift, eps=0.0).numpy()
            # Rounding the shifted numbers moves them by units of their size; the spread magnifies that as much as it is smaller.
            bound = 1e-13 + 16 * EPS["float64"] * (abs(shift) + scale * np.abs(a).max()) / (scale * a.std(1).min())
            np.testing.assert_allclose(got, im.nn.layer_norm(x, eps=0.0).numpy(), atol=bound)
            np.testing.assert_allclose(got.mean(1), 0.0, atol=bound)
            np.testing.assert_allclose(got.std(1), 1.0, atol=bound)


def test_what_does_not_fit_is_refused_with_the_sizes(device: im.Device) -> None:
    x, three = im.zeros((2, 4, 5), device=device), im.zeros((3,), device=device)
    four = im.zeros((4,), device=device)
    with pytest.raises(
        im.ShapeError,
        match=r"layer_norm: weight has shape \(3,\), but \(5,\) is needed: the sizes of axis -1 of shape \(2, 4, 5\)",
    ):
        im.nn.layer_norm(x, three)
    with pytest.raises(im.ShapeError, match=r"rms_norm: weight has shape \(3,\), but \(5,\) is needed"):
        im.nn.rms_norm(x, three)
    with pytest.raises(
        im.ShapeError, match=r"batch_norm: mean has shape \(3,\), but \(4,\) is needed: one number for each channel, axis 1"
    ):
        im.nn.batch_norm(x, three, four)
    with pytest.raises(im.ShapeError, match=r"batch_norm_training: bias has shape \(3,\), but \(4,\) is needed"):
        im.nn.batch_norm_training(x, four, three)
    with pytest.raises(
        im.ShapeError, match=r"group_norm: the input has shape \(2, 4, 5\), whose channels \(axis 1\) do not divide into 3 groups"
    ):
        im.nn.group_norm(x, num_groups=3)
    with pytest.raises(im.ShapeError, match=r"instance_norm: the input has shape \(2, 3\)"):
        im.nn.instance_norm(x[0, :2, :3])
    with pytest.raises(im.InvalidValueError, match="layer_norm: eps -1 must be 0 or more"):
        im.nn.layer_norm(x, eps=-1)
    with pytest.raises(im.DTypeError, match="layer_norm: the input has dtype int64"):
        im.nn.layer_norm(im.zeros((2, 3), dtype=im.int64, device=device))


def test_shapes_follow_without_data() -> None:
    x, c = im.zeros((2, 4, 5), device="meta:cpu"), im.zeros((4,), device="meta:cpu")
    assert im.nn.batch_norm(x, c, c).shape == im.nn.layer_norm(x).shape == im.nn.group_norm(x, c, num_groups=2).shape == x.shape
    values, mean, var = im.nn.batch_norm_training(x)
    assert (values.shape, mean.shape, var.shape) == ((2, 4, 5), (4,), (4,))
