"""Interpolation, grid sampling and deformable convolution against loops over every element, SciPy, and what must not change."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from primitives_only import WAYS, open_device
from scipy import ndimage

import intermodal as im

EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


@pytest.fixture(params=WAYS)
def device(request: pytest.FixtureRequest) -> Iterator[im.Device]:
    with open_device(request.param) as opened:
        yield opened


# --- interpolation -----------------------------------------------------------------------------------------------


def kernel(kind: str, d: float) -> float:
    d = abs(d)
    if kind == "linear":
        return max(0.0, 1 - d)
    if kind == "cubic":
        a = -0.75
        return ((a + 2) * d - (a + 3)) * d * d + 1 if d <= 1 else ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0
    return float(np.sinc(d) * np.sinc(d / 3)) if d < 3 else 0.0


REACH = {"linear": 1, "cubic": 2, "lanczos3": 3}


def matrix(kind: str, n: int, out: int, step: float, align: bool) -> np.ndarray:
    """What each output element takes of each input element of an axis, by the definition of each mode."""
    result = np.zeros((out, n))
    for i in range(out):
        if kind == "nearest":
            result[i, min(n - 1, math.floor(i * step + 1e-9))] = 1
            continue
        if kind == "nearest_exact":
            result[i, min(n - 1, math.floor((i + 0.5) * step + 1e-9))] = 1
            continue
        at = (i * (n - 1) / (out - 1) if out > 1 else 0.0) if align else (i + 0.5) * step - 0.5
        first = math.floor(at + 1e-9)
        for j in range(first - REACH[kind] + 1, first + REACH[kind] + 1):
            if kind != "lanczos3":
                result[i, min(n - 1, max(0, j))] += kernel(kind, at - j)
            elif 0 <= j < n:
                result[i, j] = kernel(kind, at - j)
        result[i] /= result[i].sum()
    return result


def resized(a: np.ndarray, kind: str, sizes: tuple[int, ...], steps: tuple[float, ...], align: bool) -> np.ndarray:
    for i, (out, step) in enumerate(zip(sizes, steps, strict=True)):
        a = np.moveaxis(np.tensordot(matrix(kind, a.shape[2 + i], out, step, align), a, axes=(1, 2 + i)), 0, 2 + i)
    return a


MODES = ["nearest", "nearest_exact", "linear", "cubic", "lanczos3"]
RESIZED = [((2, 3, 5), (8,)), ((1, 2, 9), (4,)), ((2, 2, 4, 6), (7, 3)), ((1, 1, 1, 5), (3, 1)), ((1, 2, 3, 4, 2), (5, 2, 4))]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(("mode", "align"), [*((mode, False) for mode in MODES), *((mode, True) for mode in REACH)])
@pytest.mark.parametrize(("shape", "sizes"), RESIZED, ids=str)
def test_each_element_is_the_weighted_sum_of_its_neighbours(
    shape: tuple[int, ...], sizes: tuple[int, ...], mode: str, align: bool, dtype: str, device: im.Device
) -> None:
    x = im.astype(im.asarray(np.random.default_rng(1).normal(size=shape), device=device), dtype)
    a = x.numpy().astype(np.float64)
    got = im.nn.interpolate(x, size=sizes, mode=mode, align_corners=align)
    want = resized(a, mode, sizes, tuple(n / m for n, m in zip(shape[2:], sizes, strict=True)), align)
    # Six taps on three axes: some twenty roundings of sums whose weights add up to at most 2, in float32 or wider.
    inner = min(EPS[dtype], EPS["float32"])
    assert got.dtype.name == dtype
    np.testing.assert_allclose(got.numpy().astype(np.float64), want, rtol=EPS[dtype], atol=64 * inner * 2 * np.abs(a).max())


@pytest.mark.parametrize("scale", [2.0, 0.5, 1.5, 0.7, 1 / 3, 3])
@pytest.mark.parametrize("mode", MODES)
def test_a_scale_factor_is_the_step_even_where_sizes_are_rounded(mode: str, scale: float, device: im.Device) -> None:
    a = np.random.default_rng(2).normal(size=(1, 2, 7, 5))
    got = im.nn.interpolate(im.asarray(a, device=device), scale_factor=scale, mode=mode)
    sizes = (math.floor(7 * scale), math.floor(5 * scale))
    np.testing.assert_allclose(got.numpy(), resized(a, mode, sizes, (1 / scale, 1 / scale), align=False), atol=1e-12)


def test_the_usual_names_mean_the_same_for_their_rank(device: im.Device) -> None:
    image, volume = (
        im.asarray(np.random.default_rng(3).normal(size=(1, 1, 3, 4)), device=device),
        im.ones((1, 1, 2, 2, 2), device=device),
    )
    for name, mode in (("bilinear", "linear"), ("bicubic", "cubic")):
        one, other = (im.nn.interpolate(image, size=(5, 6), mode=m).numpy() for m in (name, mode))
        np.testing.assert_array_equal(one, other)
    assert im.nn.interpolate(volume, size=3, mode="trilinear").tolist() == im.ones((1, 1, 3, 3, 3), device=device).tolist()
    with pytest.raises(
        im.ShapeError,
        match=r"interpolate: mode 'bilinear' is for 2 spatial axes, but the input has shape \(1, 1, 2, 2, 2\)\. Use mode 'linear'",
    ):
        im.nn.interpolate(volume, size=3, mode="bilinear")


def test_linear_with_aligned_corners_agrees_with_scipy(device: im.Device) -> None:
    a = np.random.default_rng(4).normal(size=(5, 7))
    got = im.nn.interpolate(im.asarray(a[None, None], device=device), size=(9, 4), mode="bilinear", align_corners=True)
    places = np.meshgrid(np.linspace(0, 4, 9), np.linspace(0, 6, 4), indexing="ij")
    np.testing.assert_allclose(got.numpy()[0, 0], ndimage.map_coordinates(a, places, order=1), atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_the_same_size_gives_the_same_elements(mode: str, device: im.Device) -> None:
    a = np.array([[[1.0, math.inf, 3.0, math.nan]]])
    np.testing.assert_array_equal(im.nn.interpolate(im.asarray(a, device=device), size=4, mode=mode).numpy(), a)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "complex64"])
def test_nearest_moves_elements_of_any_dtype(dtype: str, device: im.Device) -> None:
    x = im.astype(im.asarray([[[0, 1, 1]]], device=device), dtype)
    for mode in ("nearest", "nearest_exact"):
        assert im.astype(im.nn.interpolate(x, scale_factor=2, mode=mode), "bool").tolist() == [
            [[False, False, True, True, True, True]]
        ]
    with pytest.raises(im.DTypeError, match="interpolate: the input has dtype"):
        im.nn.interpolate(x, size=6, mode="linear")


def test_places_on_large_axes_are_exact_in_float32(device: im.Device) -> None:
    """Near 2**20 a float32 place would be off by 1/16; the ramp shows where each element was taken."""
    n = 2**20 + 1
    ramp = im.reshape(im.arange(n, dtype=im.float32, device=device), (1, 1, n))
    got = im.nn.interpolate(ramp, size=4 * n, mode="linear")[0, 0, -9:-5].tolist()
    assert got == [float(np.float32((i + 0.5) / 4 - 0.5)) for i in range(4 * n - 9, 4 * n - 5)]


@settings(deadline=None)  # a deadline would measure the machine's other load
@given(st.integers(1, 9), st.integers(1, 20), st.sampled_from(["linear", "cubic", "lanczos3"]), st.booleans())
def test_a_constant_stays_constant(n: int, out: int, mode: str, align: bool) -> None:
    for way in WAYS:
        with open_device(way) as device:
            x = im.full((1, 1, n), 3.0, dtype=im.float64, device=device)
            got = im.nn.interpolate(x, size=out, mode=mode, align_corners=align)
            np.testing.assert_allclose(got.numpy(), 3.0, rtol=1e-14)


REFUSED: list[tuple[tuple[int, ...], dict[str, Any], str]] = [
    ((1, 1, 4), {}, r"interpolate: neither size nor scale_factor is given"),
    ((1, 4), {"size": 3}, r"interpolate: the input has shape \(1, 4\), but \(batch, channels, \*spatial\)"),
    ((1, 1, 4), {"size": 3, "mode": "area"}, r"interpolate: mode 'area' is not known\. Use one of 'nearest', 'nearest_exact'"),
    ((1, 1, 4), {"size": (3, 4)}, r"interpolate: size \(3, 4\) has 2 numbers, but there are 1 spatial axes"),
    ((1, 1, 4), {"size": 0}, r"interpolate: size 0 must be 1 or more"),
    ((1, 1, 4), {"scale_factor": 0.1}, r"interpolate: scale_factor \(0\.1,\) makes sizes \(0,\) of \(4,\)"),
    ((1, 1, 4), {"scale_factor": -1.0}, r"interpolate: scale_factor -1\.0 must be a number greater than 0"),
    ((1, 1, 4), {"size": 7, "scale_factor": 2.0}, r"interpolate: size 7 and scale_factor \(2\.0,\) do not agree: the factor gives \(8,\)"),
    ((1, 1, 4), {"size": 7, "align_corners": True}, r"interpolate: align_corners has no meaning for mode 'nearest'"),
    ((1, 1, 0), {"size": 7}, r"interpolate: the input has shape \(1, 1, 0\), and an axis without elements cannot be resized"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "attrs", "message"), REFUSED, ids=lambda v: str(v)[:40])
def test_what_interpolation_cannot_do_is_refused_with_the_reason(
    shape: tuple[int, ...], attrs: dict[str, Any], message: str, device: im.Device
) -> None:
    with pytest.raises(im.IntermodalError, match=message):
        im.nn.interpolate(im.zeros(shape, device=device), **attrs)


# --- grid sampling -----------------------------------------------------------------------------------------------


def fold(at: float, low: float, high: float) -> float:
    """Reflected at the ends until it lies between them, one reflection at a time."""
    while high > low and not low <= at <= high:
        at = 2 * low - at if at < low else 2 * high - at
    return at if high > low else low


def sampled(a: np.ndarray, grid: np.ndarray, mode: str, padding: str, align: bool) -> np.ndarray:
    batch, channels, *sizes = a.shape
    result = np.zeros((batch, channels, *grid.shape[1:3]))
    for b, i, j in product(range(batch), *map(range, grid.shape[1:3])):
        places = []
        for n, g in zip(sizes, grid[b, i, j][::-1], strict=True):
            at = (g + 1) / 2 * (n - 1) if align else ((g + 1) * n - 1) / 2
            if padding == "reflection":
                at = fold(at, 0, n - 1) if align else fold(at, -0.5, n - 0.5)
            places.append(at if padding == "zeros" else min(max(at, 0.0), n - 1.0))
        row, column = places
        if mode == "nearest":
            corners = [(round(row), round(column), 1.0)]
        else:
            r, c = math.floor(row), math.floor(column)
            corners = [(y, x, (1 - abs(row - y)) * (1 - abs(column - x))) for y in (r, r + 1) for x in (c, c + 1)]
        for y, x, weight in corners:
            if 0 <= y < sizes[0] and 0 <= x < sizes[1]:
                result[b, :, i, j] += weight * a[b, :, y, x]
    return result


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_grid_sampling_reads_each_place(mode: str, padding: str, align: bool, dtype: str, device: im.Device) -> None:
    rng = np.random.default_rng(5)
    for sizes in ((4, 5), (1, 3)):
        a, grid = rng.normal(size=(2, 3, *sizes)).astype(dtype), rng.normal(size=(2, 3, 4, 2)).astype(dtype) * 2
        got = im.nn.grid_sample_2d(
            im.asarray(a, device=device), im.asarray(grid, device=device), mode=mode, padding_mode=padding, align_corners=align
        )
        # A place of up to 20 pixels is off by a few roundings, and so is what is read there, with slopes below 10.
        tolerance = 0.0 if mode == "nearest" else 20 * 10 * 4 * EPS[dtype]
        np.testing.assert_allclose(got.numpy(), sampled(a, grid, mode, padding, align), atol=tolerance)


def test_nearest_takes_halves_to_the_even_pixel(device: im.Device) -> None:
    x = im.reshape(im.arange(4, dtype=im.float64, device=device), (1, 1, 1, 4))
    halves = im.asarray([[[[(2 * p + 1) / 4 - 1, 0.0] for p in (0.5, 1.5, 2.5)]]], dtype=im.float64, device=device)
    assert im.nn.grid_sample_2d(x, halves, mode="nearest").tolist() == [[[[0.0, 2.0, 2.0]]]]


def test_infinite_places_are_outside_and_nan_is_nowhere(device: im.Device) -> None:
    x = im.reshape(im.arange(1.0, 10.0, device=device), (1, 1, 3, 3))
    grid = im.asarray([[[[math.inf, 0.0], [-math.inf, 0.0], [0.0, math.nan]]]], device=device)
    for mode in ("bilinear", "nearest"):
        zeros, border = (im.nn.grid_sample_2d(x, grid, mode=mode, padding_mode=p).numpy().ravel() for p in ("zeros", "border"))
        np.testing.assert_array_equal(zeros, [0.0, 0.0, math.nan])
        np.testing.assert_array_equal(border, [6.0, 4.0, math.nan])


def test_a_grid_of_the_pixels_gives_the_image(device: im.Device) -> None:
    a = np.random.default_rng(6).normal(size=(2, 3, 4, 5))
    rows, columns = np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 5), indexing="ij")
    grid = np.broadcast_to(np.stack([columns, rows], -1), (2, 4, 5, 2))
    got = im.nn.grid_sample_2d(im.asarray(a, device=device), im.asarray(grid, device=device), align_corners=True)
    np.testing.assert_allclose(got.numpy(), a, atol=1e-14)


def test_grids_that_do_not_fit_are_refused(device: im.Device) -> None:
    x = im.zeros((2, 1, 3, 3), device=device)
    with pytest.raises(im.ShapeError, match=r"grid_sample_2d: the grid has shape \(2, 3, 3\), but \(batch, height, width, 2\)"):
        im.nn.grid_sample_2d(x, im.zeros((2, 3, 3), device=device))
    with pytest.raises(im.ShapeError, match=r"grid_sample_2d: the input has a batch of 2, the grid of 1\. Both must be equal"):
        im.nn.grid_sample_2d(x, im.zeros((1, 3, 3, 2), device=device))
    with pytest.raises(im.InvalidValueError, match="grid_sample_2d: padding_mode 'wrap' is not known"):
        im.nn.grid_sample_2d(x, im.zeros((2, 3, 3, 2), device=device), padding_mode="wrap")


def test_small_floats_sample_in_float32(device: im.Device) -> None:
    x = im.reshape(im.arange(512, dtype=im.float16, device=device), (1, 1, 1, 512))
    grid = im.asarray([[[[0.125, 0.0]]]], dtype=im.float16, device=device)
    assert im.nn.grid_sample_2d(x, grid).dtype is im.float16
    assert im.nn.grid_sample_2d(x, grid).tolist() == [[[[287.5]]]]


# --- deformable convolution --------------------------------------------------------------------------------------


def bent(x: np.ndarray, offset: np.ndarray, w: np.ndarray, mask: np.ndarray, stride: Any, padding: Any, dilation: Any, parts: int, groups: int) -> np.ndarray:  # fmt: skip
    """The definition: each kernel element of each offset group reads its own place, bilinear and zero outside."""
    batch, channels = x.shape[:2]
    out, depth, kh, kw = w.shape
    oh, ow = offset.shape[2:]
    result = np.zeros((batch, out, oh, ow))
    for b, o, i, j, c, p, q in product(*map(range, (batch, out, oh, ow, depth, kh, kw))):
        channel = o // (out // groups) * depth + c
        element = (channel // (channels // parts) * kh + p) * kw + q
        row = i * stride[0] - padding[0] + p * dilation[0] + offset[b, 2 * element, i, j]
        column = j * stride[1] - padding[1] + q * dilation[1] + offset[b, 2 * element + 1, i, j]
        value = ndimage.map_coordinates(np.pad(x[b, channel], 1), [[row + 1], [column + 1]], order=1, mode="constant")[0]
        result[b, o, i, j] += w[o, c, p, q] * mask[b, element, i, j] * value
    return result


@pytest.mark.parametrize(("groups", "parts"), [(1, 1), (2, 1), (1, 2), (2, 4)])
def test_deformable_convolution_reads_bent_windows(groups: int, parts: int, device: im.Device) -> None:
    rng = np.random.default_rng(7)
    a, k = rng.normal(size=(2, 4, 5, 6)), rng.normal(size=(2, 4 // groups, 2, 3))
    attrs: dict[str, Any] = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}
    counts = (3, 2)
    offset, mask = rng.normal(size=(2, 2 * parts * 6, *counts)) * 2, rng.normal(size=(2, parts * 6, *counts))
    x, w, o, m = (im.asarray(v, device=device) for v in (a, k, offset, mask))
    bias = im.asarray([1.0, 2.0], dtype=im.float64, device=device)
    got = im.nn.deform_conv2d(x, o, w, m, bias, **attrs, groups=groups, offset_groups=parts)
    want = bent(a, offset, k, mask, **attrs, parts=parts, groups=groups) + np.reshape([1.0, 2.0], (2, 1, 1))
    np.testing.assert_allclose(got.numpy(), want, atol=1e-12)
    without = im.nn.deform_conv2d(x, o, w, **attrs, groups=groups, offset_groups=parts)
    np.testing.assert_allclose(
        without.numpy(), bent(a, offset, k, np.ones_like(mask), **attrs, parts=parts, groups=groups), atol=1e-12
    )


def test_without_offsets_it_is_the_convolution(device: im.Device) -> None:
    rng = np.random.default_rng(8)
    x = im.asarray(rng.normal(size=(1, 2, 6, 5)).astype(np.float32), device=device)
    w = im.asarray(rng.normal(size=(3, 2, 3, 3)).astype(np.float32), device=device)
    straight = im.nn.conv2d(x, w, padding=((1, 0), (2, 1)), stride=2)
    offset = im.zeros((1, 18, *straight.shape[2:]), device=device)
    got = im.nn.deform_conv2d(x, offset, w, padding=((1, 0), (2, 1)), stride=2)
    # Eighteen products of numbers below 4, summed in another order.
    np.testing.assert_allclose(got.numpy(), straight.numpy(), atol=2 * 18 * 16 * EPS["float32"])


def test_offsets_and_masks_that_do_not_fit_are_refused(device: im.Device) -> None:
    x, w = im.zeros((1, 2, 5, 5), device=device), im.zeros((3, 2, 3, 3), device=device)
    with pytest.raises(im.ShapeError, match=r"deform_conv2d: the offset has shape \(1, 9, 3, 3\), but \(1, 18, 3, 3\) is needed"):
        im.nn.deform_conv2d(x, im.zeros((1, 9, 3, 3), device=device), w)
    offset = im.zeros((1, 18, 3, 3), device=device)
    with pytest.raises(im.ShapeError, match=r"deform_conv2d: the mask has shape \(1, 18, 3, 3\), but \(1, 9, 3, 3\) is needed"):
        im.nn.deform_conv2d(x, offset, w, offset)
    with pytest.raises(im.ShapeError, match="deform_conv2d: the input has 2 channels, which do not divide into 3 offset groups"):
        im.nn.deform_conv2d(x, offset, w, offset_groups=3)
    with pytest.raises(im.ShapeError, match="deform_conv2d: the input has 2 channels, but the weight expects 4"):
        im.nn.deform_conv2d(x, offset, w, groups=2)


def test_shapes_follow_without_data() -> None:
    x = im.zeros((2, 3, 4, 5), device="meta:cpu")
    assert im.nn.interpolate(x, scale_factor=(2.0, 1.5), mode="bicubic").shape == (2, 3, 8, 7)
    assert im.nn.grid_sample_2d(x, im.zeros((2, 6, 7, 2), device="meta:cpu")).shape == (2, 3, 6, 7)
    w, offset = im.zeros((4, 3, 2, 2), device="meta:cpu"), im.zeros((2, 8, 3, 4), device="meta:cpu")
    assert im.nn.deform_conv2d(x, offset, w).shape == (2, 4, 3, 4)
