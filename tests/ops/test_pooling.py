"""Pooling against loops over every window, with natives and as decompositions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
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


def count_of(n: int, size: int, step: int, before: int, after: int, gap: int, ceil: bool) -> int:
    """Windows are counted while they start on the input (or its padding before) and fit, or may reach past the end."""
    end, count = n + before + after, 0
    span = gap * (size - 1) + 1
    while count * step + span <= end or (ceil and count * step < n + before and count * step + span < end + step):
        count += 1
    return count


def axes_of(shape: tuple[int, ...], attrs: dict[str, Any]) -> list[tuple[int, int, int, int, int, int]]:
    """(size, step, before, after, gap, count) for each spatial axis."""
    rank = len(shape) - 2

    def each(value: Any) -> tuple[Any, ...]:
        return value if isinstance(value, tuple) else (value,) * rank

    sizes = each(attrs["kernel_size"])
    steps = each(attrs.get("stride") or sizes)
    pads = [p if isinstance(p, tuple) else (p, p) for p in each(attrs.get("padding", 0))]
    gaps, ceil = each(attrs.get("dilation", 1)), attrs.get("ceil_mode", False)
    rows = zip(shape[2:], sizes, steps, pads, gaps, strict=True)
    return [(k, s, *p, d, count_of(n, k, s, *p, d, ceil)) for n, k, s, p, d in rows]


def windows_of(a: np.ndarray, attrs: dict[str, Any]) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
    """Each output place, and the input places of its window that exist."""
    axes = axes_of(a.shape, attrs)
    for out in product(*(range(axis[-1]) for axis in axes)):
        starts = [o * s - b for o, (_, s, b, _, _, _) in zip(out, axes, strict=True)]
        reached = [[s + j * d for j in range(k)] for s, (k, _, _, _, d, _) in zip(starts, axes, strict=True)]
        yield out, [i for i in product(*reached) if all(0 <= p < n for p, n in zip(i, a.shape[2:], strict=True))]


def max_by_loops(a: np.ndarray, attrs: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    shape = (*a.shape[:2], *(axis[-1] for axis in axes_of(a.shape, attrs)))
    values, indices = np.zeros(shape, a.dtype), np.zeros(shape, np.int64)
    for out, inside in windows_of(a, attrs):
        lines = np.stack([a[(..., *i)] for i in inside], -1)
        best = np.argmax(lines, -1)
        values[(..., *out)] = lines.max(-1)
        indices[(..., *out)] = np.asarray([np.ravel_multi_index(i, a.shape[2:]) for i in inside])[best]
    return values, indices


def mean_by_loops(a: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    axes = axes_of(a.shape, attrs)
    result = np.zeros((*a.shape[:2], *(axis[-1] for axis in axes)))
    for out, inside in windows_of(a, attrs):
        count = len(inside)
        if attrs.get("count_include_pad", True):  # elements and padding, but not what lies past the padding
            ends = [
                (min(o * s - b + k, n + e), o * s - b) for o, n, (k, s, b, e, _, _) in zip(out, a.shape[2:], axes, strict=True)
            ]
            count = math.prod(end - start for end, start in ends)
        result[(..., *out)] = sum(a[(..., *i)] for i in inside) / count
    return result


CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 7), {"kernel_size": 2}),
    ((1, 2, 8), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((1, 2, 8), {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
    ((1, 1, 7), {"kernel_size": 3, "stride": 3, "padding": ((0, 2),), "ceil_mode": True}),
    ((2, 2, 5, 6), {"kernel_size": (2, 3), "stride": (1, 2), "padding": (1, 0)}),
    ((1, 2, 6, 6), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    ((1, 2, 7, 8), {"kernel_size": 2, "padding": ((1, 0), (0, 1))}),
    ((1, 2, 3, 4, 5), {"kernel_size": 2, "stride": (1, 2, 2), "padding": 1, "ceil_mode": True}),
]
DILATED: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 2, 9), {"kernel_size": 3, "stride": 1, "dilation": 3, "padding": 1}),
    ((2, 2, 8, 7), {"kernel_size": (3, 2), "stride": 2, "dilation": (2, 3), "padding": (2, 1), "ceil_mode": True}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8", "uint16"])
@pytest.mark.parametrize(("shape", "attrs"), [*CASES, *DILATED], ids=str)
def test_max_pool_takes_the_greatest_of_each_window_and_where_it_was(
    shape: tuple[int, ...], attrs: dict[str, Any], dtype: str, device: im.Device
) -> None:
    # Few different values, so that equal ones are common.
    a = np.random.default_rng(1).integers(0, 5, shape)
    x = im.astype(im.asarray(a, device=device), dtype)
    values, indices = max_by_loops(a, attrs)
    rank = len(shape) - 2
    for name in ("max_pool", f"max_pool{rank}d"):
        got = getattr(im.nn, name)(x, **attrs)
        both = getattr(im.nn, f"{name}_with_indices")(x, **attrs)
        assert got.dtype.name == both.values.dtype.name == dtype
        np.testing.assert_array_equal(got.numpy().astype(np.int64), values)
        np.testing.assert_array_equal(both.values.numpy().astype(np.int64), values)
        np.testing.assert_array_equal(both.indices.numpy(), indices)


def test_padding_is_never_a_maximum(device: im.Device) -> None:
    for x in (
        im.full((1, 1, 3, 3), -math.inf, device=device),
        im.full((1, 1, 3, 3), -128, dtype=im.int8, device=device),
        im.full((1, 1, 3, 3), -5.0, device=device),
    ):
        values, indices = im.nn.max_pool2d_with_indices(x, kernel_size=3, stride=2, padding=1)
        assert (values == x[0, 0, 0, 0]).numpy().all()
        assert indices.tolist() == [[[[0, 1], [3, 4]]]]


def test_the_indices_find_the_maxima_again(device: im.Device) -> None:
    a = np.random.default_rng(2).normal(size=(2, 3, 6, 7))
    values, indices = im.nn.max_pool2d_with_indices(im.asarray(a, device=device), kernel_size=3, stride=2, padding=1)
    flat = np.take_along_axis(a.reshape(2, 3, -1), indices.numpy().reshape(2, 3, -1), axis=2)
    np.testing.assert_array_equal(values.numpy().reshape(2, 3, -1), flat)


def test_nan_reaches_the_windows_that_hold_it(device: im.Device) -> None:
    x = im.asarray([[[1.0, math.nan, 2.0, 3.0]]], device=device)
    values, indices = im.nn.max_pool1d_with_indices(x, kernel_size=2, stride=1)
    np.testing.assert_array_equal(values.numpy(), [[[math.nan, math.nan, 3.0]]])
    assert indices.tolist() == [[[1, 1, 3]]]
    np.testing.assert_array_equal(im.nn.max_pool1d(x, kernel_size=2, stride=1).numpy(), values.numpy())
    np.testing.assert_array_equal(im.nn.avg_pool1d(x, kernel_size=2).numpy(), [[[math.nan, 2.5]]])


@pytest.mark.parametrize("count_include_pad", [True, False])
@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize(("shape", "attrs"), CASES, ids=str)
def test_avg_pool_is_the_mean_of_each_window(
    shape: tuple[int, ...], attrs: dict[str, Any], dtype: str, count_include_pad: bool, device: im.Device
) -> None:
    x = im.astype(im.asarray(np.random.default_rng(3).normal(size=shape), device=device), dtype)
    attrs = {**attrs, "count_include_pad": count_include_pad}
    a = x.numpy().astype(np.float64)
    # A sum of n terms in any order, then a division, in a dtype at least as wide as float32; and the result is rounded once.
    terms = math.prod(axis[0] for axis in axes_of(shape, attrs))
    inner = min(EPS[dtype], EPS["float32"])
    want = mean_by_loops(a, attrs)
    bound = (terms + 2) * inner * mean_by_loops(np.abs(a), attrs) + EPS[dtype] * np.abs(want)
    for name in ("avg_pool", f"avg_pool{len(shape) - 2}d"):
        got = getattr(im.nn, name)(x, **attrs)
        assert got.dtype.name == dtype
        assert got.shape == want.shape
        assert (np.abs(got.numpy().astype(np.float64) - want) <= bound).all()


def test_a_mean_of_large_small_floats_does_not_overflow_on_the_way(device: im.Device) -> None:
    x = im.full((1, 1, 8, 8), 60000.0, dtype=im.float16, device=device)
    assert im.nn.avg_pool2d(x, kernel_size=4).tolist() == [[[[60000.0] * 2] * 2]]
    assert im.nn.adaptive_avg_pool2d(x, output_size=3).tolist() == [[[[60000.0] * 3] * 3]]


def part_edges(n: int, parts: int) -> list[tuple[int, int]]:
    return [(math.floor(k * n / parts), math.ceil((k + 1) * n / parts)) for k in range(parts)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(
    ("shape", "parts"), [((2, 3, 7), (3,)), ((1, 2, 6), (3,)), ((2, 2, 5, 8), (3, 3)), ((1, 1, 3, 2), (5, 7)), ((1, 2, 5, 4, 3), (2, 4, 2))], ids=str
)  # fmt: skip
def test_adaptive_pooling_divides_each_axis_into_parts(
    shape: tuple[int, ...], parts: tuple[int, ...], dtype: str, device: im.Device
) -> None:
    x = im.astype(im.asarray(np.random.default_rng(4).normal(size=shape), device=device), dtype)
    a = x.numpy().astype(np.float64)
    mean, most = np.zeros((*shape[:2], *parts)), np.zeros((*shape[:2], *parts))
    for out in product(*map(range, parts)):
        key = tuple(slice(*part_edges(n, p)[o]) for n, p, o in zip(shape[2:], parts, out, strict=True))
        block = a[(..., *key)].reshape(*shape[:2], -1)
        mean[(..., *out)], most[(..., *out)] = block.mean(-1), block.max(-1)
    # At most 3 x 3 x 3 terms of size at most 4, then three divisions.
    tolerance = 30 * 4 * min(EPS[dtype], EPS["float32"]) + EPS[dtype]
    rank = len(parts)
    for name in ("adaptive_avg_pool", f"adaptive_avg_pool{rank}d"):
        got = getattr(im.nn, name)(x, output_size=parts)
        assert got.dtype.name == dtype
        np.testing.assert_allclose(got.numpy().astype(np.float64), mean, atol=tolerance)
    for name in ("adaptive_max_pool", f"adaptive_max_pool{rank}d"):
        np.testing.assert_array_equal(getattr(im.nn, name)(x, output_size=parts).numpy().astype(np.float64), most)


def test_an_infinity_stays_in_its_part(device: im.Device) -> None:
    x = im.asarray([[[math.inf, 1.0, 2.0, 3.0, 4.0]]], device=device)
    assert im.nn.adaptive_avg_pool1d(x, output_size=3).tolist() == [[[math.inf, 2.0, 3.5]]]


def test_none_keeps_an_axis_and_one_number_is_for_all(device: im.Device) -> None:
    x = im.zeros((2, 3, 5, 6), device=device)
    assert im.nn.adaptive_avg_pool2d(x, output_size=(None, 2)).shape == (2, 3, 5, 2)
    assert im.nn.adaptive_max_pool2d(x, output_size=1).shape == (2, 3, 1, 1)


@settings(deadline=None)  # a deadline would measure the machine's other load
@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 4), st.integers(0, 99))
def test_pooling_is_monotone_and_its_mean_lies_between_its_extremes(n: int, size: int, step: int, seed: int) -> None:
    size = min(size, n)
    a = np.random.default_rng(seed).normal(size=(1, 1, n))
    for way in WAYS:
        with open_device(way) as device:
            x = im.asarray(a, device=device)
            high = im.nn.max_pool1d(x, kernel_size=size, stride=step)
            low = -im.nn.max_pool1d(-x, kernel_size=size, stride=step)
            mean = im.nn.avg_pool1d(x, kernel_size=size, stride=step)
            slack = 1e-14  # of sums of four numbers below 10
            assert bool(im.all((low <= mean + slack) & (mean <= high + slack)))
            assert bool(im.all(im.nn.max_pool1d(x + 1.0, kernel_size=size, stride=step) >= high))


def test_views_pool_like_copies(device: im.Device) -> None:
    a = np.random.default_rng(5).normal(size=(2, 6, 5, 3))
    x = im.flip(im.permute_dims(im.asarray(a, device=device), (0, 3, 1, 2)), axis=2)
    plain = im.asarray(np.ascontiguousarray(a.transpose(0, 3, 1, 2)[:, :, ::-1]), device=device)
    for name in ("max_pool2d", "avg_pool2d"):
        function = getattr(im.nn, name)
        np.testing.assert_array_equal(function(x, kernel_size=2).numpy(), function(plain, kernel_size=2).numpy())


def test_an_empty_batch_has_a_shape(device: im.Device) -> None:
    x = im.zeros((0, 3, 4, 4), device=device)
    assert im.nn.max_pool2d(x, kernel_size=2).shape == (0, 3, 2, 2)
    assert im.nn.avg_pool2d(x, kernel_size=2).shape == (0, 3, 2, 2)
    assert im.nn.max_pool2d_with_indices(x, kernel_size=2).indices.shape == (0, 3, 2, 2)
    assert im.nn.adaptive_avg_pool2d(x, output_size=3).shape == (0, 3, 3, 3)


REFUSED: list[tuple[str, tuple[int, ...], dict[str, Any], str]] = [
    ("max_pool2d", (3, 4, 4), {"kernel_size": 2}, r"max_pool2d: the input has shape \(3, 4, 4\), but .* 2 spatial axes"),
    ("max_pool1d", (1, 1, 2), {"kernel_size": 3}, r"max_pool1d: a window of 3 spans 3 elements, but axis 2 has 2\. "),
    ("max_pool1d", (1, 1, 2), {"kernel_size": 2, "padding": 2}, r"max_pool1d: padding \(2, 2\) leaves a window of 2 without any of the 2 elements of axis 2"),
    ("avg_pool1d", (1, 1, 5), {"kernel_size": 2, "stride": 1, "padding": ((0, 3),)}, r"avg_pool1d: padding \(0, 3\) leaves a window of 2 without any"),
    ("max_pool1d", (1, 1, 1), {"kernel_size": 2, "padding": 1, "dilation": 2}, r"max_pool1d: padding \(1, 1\) leaves a window of 2 without any"),
    ("avg_pool2d", (1, 1, 4, 4), {"kernel_size": (2, 2, 2)}, r"avg_pool2d: kernel_size \(2, 2, 2\) has 3 numbers, but there are 2 spatial axes"),
    ("adaptive_avg_pool2d", (1, 1, 4, 4), {"output_size": (1, 2, 3)}, r"adaptive_avg_pool2d: output_size \(1, 2, 3\) has 3 numbers"),
    ("adaptive_avg_pool2d", (1, 1, 4, 4), {"output_size": 0}, r"adaptive_avg_pool2d: output_size 0 must be 1 or more"),
    ("adaptive_max_pool1d", (1, 1, 0), {"output_size": 1}, r"adaptive_max_pool1d: .* an axis without elements has no parts"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shape", "attrs", "message"), REFUSED, ids=lambda v: str(v)[:40])
def test_what_does_not_fit_is_refused_with_the_sizes(
    name: str, shape: tuple[int, ...], attrs: dict[str, Any], message: str, device: im.Device
) -> None:
    with pytest.raises(im.IntermodalError, match=message):
        getattr(im.nn, name)(im.zeros(shape, device=device), **attrs)


def test_means_are_of_floats(device: im.Device) -> None:
    with pytest.raises(im.DTypeError, match="avg_pool1d: the input has dtype int64"):
        im.nn.avg_pool1d(im.zeros((1, 1, 4), dtype=im.int64, device=device), kernel_size=2)


def test_shapes_follow_without_data() -> None:
    x = im.zeros((2, 3, 9, 9), device="meta:cpu")
    values, indices = im.nn.max_pool2d_with_indices(x, kernel_size=3, stride=2, ceil_mode=True)
    assert values.shape == indices.shape == (2, 3, 4, 4)
    assert indices.dtype is im.int64
    assert im.nn.avg_pool2d(x, kernel_size=3).shape == (2, 3, 3, 3)
    assert im.nn.adaptive_avg_pool2d(x, output_size=(2, None)).shape == (2, 3, 2, 9)
