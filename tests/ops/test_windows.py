"""Windows along an axis, their adjoint, im2col and col2im, against loops over every element."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from primitives_only import WAYS, open_device

import intermodal as im


@pytest.fixture(params=WAYS)
def device(request: pytest.FixtureRequest) -> Iterator[im.Device]:
    with open_device(request.param) as opened:
        yield opened


def cut(x: np.ndarray, axis: int, size: int, step: int, dilation: int) -> np.ndarray:
    starts = range(0, x.shape[axis] - dilation * (size - 1), step)
    return np.stack([np.stack([x.take(s + k * dilation, axis) for s in starts], axis) for k in range(size)], -1)


def put_back(x: np.ndarray, axis: int, length: int, step: int, dilation: int) -> np.ndarray:
    result = np.zeros((*x.shape[:axis], length, *x.shape[axis + 1 : -1]), x.dtype)
    moved = np.moveaxis(result, axis, 0)
    for i, k in itertools.product(range(x.shape[axis]), range(x.shape[-1])):
        moved[i * step + k * dilation] += x[..., k].take(i, axis)
    return result


@pytest.mark.parametrize(("size", "step", "dilation"), [(1, 1, 1), (3, 1, 1), (2, 3, 1), (3, 2, 2), (9, 1, 1), (2, 20, 8)])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sliding_window_reads_every_window(axis: int, size: int, step: int, dilation: int, device: im.Device) -> None:
    a = np.arange(9 * 10 * 9).reshape(9, 10, 9)
    got = im.nn.sliding_window(im.asarray(a, device=device), axis=axis, size=size, step=step, dilation=dilation)
    np.testing.assert_array_equal(got.numpy(), cut(a, axis % 3, size, step, dilation))


@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16", "complex64", "float8_e4m3fn"])
def test_sliding_window_moves_every_dtype(dtype: str, device: im.Device) -> None:
    x = im.astype(im.asarray([0.0, 1.0, 0.0, 1.0], device=device), dtype)
    windows = im.nn.sliding_window(x, axis=0, size=2)
    assert windows.dtype is x.dtype
    assert im.astype(windows, "bool").tolist() == [[False, True], [True, False], [False, True]]


def test_sliding_window_follows_negative_strides_and_transposes(device: im.Device) -> None:
    a = np.arange(24).reshape(4, 6)
    x = im.flip(im.asarray(a, device=device), axis=1).T
    np.testing.assert_array_equal(im.nn.sliding_window(x, axis=0, size=3, step=2).numpy(), cut(a[:, ::-1].T, 0, 3, 2, 1))


def test_a_window_shares_no_memory_that_a_later_assignment_could_change(device: im.Device) -> None:
    x = im.asarray([1, 2, 3], device=device)
    windows = im.nn.sliding_window(x, axis=0, size=2)
    x[0] = 9
    windows[0, 1] = 7
    assert windows.tolist() == [[1, 7], [2, 3]]
    assert x.tolist() == [9, 2, 3]


def test_windows_that_do_not_fit_are_refused(device: im.Device) -> None:
    x = im.zeros((2, 4), device=device)
    with pytest.raises(
        im.ShapeError, match=r"sliding_window: a window of 3 with dilation 2 spans 5 elements, but axis 1 has 4\. "
    ):
        im.nn.sliding_window(x, axis=1, size=3, dilation=2)
    with pytest.raises(im.InvalidValueError, match=r"sliding_window: step 0 must be 1 or more"):
        im.nn.sliding_window(x, axis=1, size=3, step=0)
    with pytest.raises(im.AxisError, match="axis 2 is out of range"):
        im.nn.sliding_window(x, axis=2, size=1)


@pytest.mark.parametrize(("size", "step", "dilation"), [(1, 1, 1), (3, 1, 1), (2, 3, 1), (3, 2, 2)])
@pytest.mark.parametrize("axis", [0, 1])
def test_overlap_add_puts_every_window_back(axis: int, size: int, step: int, dilation: int, device: im.Device) -> None:
    a = np.random.default_rng(1).integers(-9, 9, (4, 5, size))
    got = im.nn.overlap_add(im.asarray(a, device=device), axis=axis, length=20, step=step, dilation=dilation)
    np.testing.assert_array_equal(got.numpy(), put_back(a, axis, 20, step, dilation))


def test_overlap_add_of_nothing_is_zero(device: im.Device) -> None:
    assert im.nn.overlap_add(im.zeros((0, 3), device=device), axis=0, length=2).tolist() == [0.0, 0.0]
    assert im.nn.overlap_add(im.zeros((3, 0), device=device), axis=0, length=2).tolist() == [0.0, 0.0]


def test_overlap_add_refuses_a_length_that_is_too_short(device: im.Device) -> None:
    with pytest.raises(
        im.ShapeError, match=r"overlap_add: 3 windows of 2 at step 2 and dilation 1 span 6 elements, but length is 5"
    ):
        im.nn.overlap_add(im.zeros((3, 2), device=device), axis=0, length=5, step=2)


@settings(deadline=None)  # a deadline would measure the machine's other load
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(0, 4), st.integers(0, 99))
def test_overlap_add_is_the_adjoint_of_sliding_window(size: int, step: int, dilation: int, more: int, seed: int) -> None:
    """<window(x), y> = <x, overlap(y)> holds exactly for integers."""
    rng = np.random.default_rng(seed)
    n = dilation * (size - 1) + 1 + more
    for way in WAYS:
        with open_device(way) as device:
            x = im.asarray(rng.integers(-9, 9, (2, n)), device=device)
            windows = im.nn.sliding_window(x, axis=1, size=size, step=step, dilation=dilation)
            y = im.asarray(rng.integers(-9, 9, windows.shape), device=device)
            back = im.nn.overlap_add(y, axis=1, length=n, step=step, dilation=dilation)
            assert int(im.sum(windows * y)) == int(im.sum(x * back))


IMAGES: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": (3, 2), "stride": (1, 2), "padding": (1, 0)},
    {"kernel_size": 2, "stride": 2, "padding": ((0, 2), (1, 0)), "dilation": (2, 1)},
    {"kernel_size": (1, 5)},
]


def columns_of(a: np.ndarray, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1) -> np.ndarray:
    """One column for each window: channel first, then the rows and columns of the kernel."""

    def two(v: Any) -> Any:
        return v if isinstance(v, tuple) else (v, v)

    (kh, kw), (sh, sw), (dh, dw) = two(kernel_size), two(stride), two(dilation)
    pads = [two(p) for p in two(padding)]
    a = np.pad(a, ((0, 0), (0, 0), *pads))
    rows = range(0, a.shape[2] - dh * (kh - 1), sh)
    cols = range(0, a.shape[3] - dw * (kw - 1), sw)
    found = [
        a[:, :, r : r + dh * (kh - 1) + 1 : dh, c : c + dw * (kw - 1) + 1 : dw].reshape(len(a), -1) for r in rows for c in cols
    ]
    return np.stack(found, -1)


@pytest.mark.parametrize("attrs", IMAGES, ids=str)
def test_unfold_gives_the_windows_as_columns(attrs: dict[str, Any], device: im.Device) -> None:
    a = np.arange(2 * 3 * 5 * 6).reshape(2, 3, 5, 6)
    np.testing.assert_array_equal(im.nn.unfold(im.asarray(a, device=device), **attrs).numpy(), columns_of(a, **attrs))


@pytest.mark.parametrize("attrs", IMAGES, ids=str)
def test_fold_is_the_adjoint_of_unfold(attrs: dict[str, Any], device: im.Device) -> None:
    rng = np.random.default_rng(2)
    x = im.asarray(rng.integers(-9, 9, (2, 3, 5, 6)), device=device)
    columns = im.nn.unfold(x, **attrs)
    y = im.asarray(rng.integers(-9, 9, columns.shape), device=device)
    back = im.nn.fold(y, output_size=(5, 6), **attrs)
    assert back.shape == x.shape
    assert int(im.sum(columns * y)) == int(im.sum(x * back))


def test_unfold_and_fold_take_any_number_of_spatial_axes(device: im.Device) -> None:
    x = im.reshape(im.arange(2 * 4 * 3 * 4, device=device), (1, 2, 4, 3, 4))
    columns = im.nn.unfold(x, kernel_size=(2, 3, 2), stride=(2, 1, 2))
    assert columns.shape == (1, 2 * 12, 4)
    assert (im.nn.fold(columns, output_size=(4, 3, 4), kernel_size=(2, 3, 2), stride=(2, 1, 2)) == x).numpy().all()
    line = im.nn.unfold(im.reshape(im.arange(4, device=device), (1, 1, 4)), kernel_size=2)
    assert line.tolist() == [[[0, 1, 2], [1, 2, 3]]]


def test_fold_refuses_columns_that_fit_no_image(device: im.Device) -> None:
    with pytest.raises(im.ShapeError, match=r"fold: the columns have 5 rows, which is no multiple of a window's 4 elements"):
        im.nn.fold(im.zeros((1, 5, 4), device=device), output_size=3, kernel_size=2)
    with pytest.raises(
        im.ShapeError, match=r"fold: there are 5 columns, but images of \(3, 3\) have 4 windows, \(2, 2\) along each axis"
    ):
        im.nn.fold(im.zeros((1, 4, 5), device=device), output_size=3, kernel_size=2)


def test_windows_of_images_need_a_batch_and_channels(device: im.Device) -> None:
    with pytest.raises(im.ShapeError, match=r"unfold: the input has shape \(3, 4\), but \(batch, channels, \*spatial\)"):
        im.nn.unfold(im.zeros((3, 4), device=device), kernel_size=2)


def test_shapes_follow_without_data() -> None:
    x = im.zeros((2, 3, 5, 6), device="meta:cpu")
    columns = im.nn.unfold(x, kernel_size=2)
    assert columns.shape == (2, 12, 20)
    assert im.nn.fold(columns, output_size=(5, 6), kernel_size=2).shape == (2, 3, 5, 6)
    assert im.nn.overlap_add(im.nn.sliding_window(x, axis=2, size=2), axis=2, length=5).shape == x.shape
