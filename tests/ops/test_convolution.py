"""Convolution against its definition as loops and against SciPy; its transpose and derivatives by the laws that define them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from primitives_only import WAYS, open_device
from scipy import signal

import intermodal as im

EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


@pytest.fixture(params=WAYS)
def device(request: pytest.FixtureRequest) -> Iterator[im.Device]:
    with open_device(request.param) as opened:
        yield opened


def normal(attrs: dict[str, Any], rank: int) -> tuple[Any, Any, Any, int]:
    """Stride, padding pairs, dilation and groups, written out for each axis."""
    stride, dilation = (v if isinstance(v, tuple) else (v,) * rank for v in (attrs.get("stride", 1), attrs.get("dilation", 1)))
    padding = attrs.get("padding", 0)
    pairs = [p if isinstance(p, tuple) else (p, p) for p in (padding if isinstance(padding, tuple) else (padding,) * rank)]
    return stride, pairs, dilation, attrs.get("groups", 1)


def direct(x: np.ndarray, w: np.ndarray, **attrs: Any) -> np.ndarray:
    """The definition: at each place of each output channel, the sum over a window of its group's channels."""
    rank = x.ndim - 2
    stride, pairs, dilation, groups = normal(attrs, rank)
    x = np.pad(x, ((0, 0), (0, 0), *pairs))
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)]
    result = np.zeros((x.shape[0], w.shape[0], *counts), np.result_type(x, w))
    depth, width = w.shape[1], w.shape[0] // groups
    for out in product(*map(range, counts)):
        key = tuple(
            slice(i * s, i * s + d * (k - 1) + 1, d) for i, s, d, k in zip(out, stride, dilation, w.shape[2:], strict=True)
        )
        for o in range(w.shape[0]):
            first = o // width * depth
            window = x[(slice(None), slice(first, first + depth), *key)]
            result[(slice(None), o, *out)] = (window * w[o]).reshape(len(x), -1).sum(1)
    return result


def check(got: im.Tensor, x: np.ndarray, w: np.ndarray, dtype: str, **attrs: Any) -> None:
    """A sum of n products in any order is off by at most n roundings of the sum of their sizes (and one of the result)."""
    assert got.dtype.name == dtype
    wide = [v.astype(np.float64) for v in (x, w)]
    terms = max(1, np.prod(w.shape[1:]))
    bound = 2 * (terms + 1) * EPS[dtype] * direct(*map(np.abs, wide), **attrs)
    error = np.abs(got.numpy().astype(np.float64) - direct(*wide, **attrs))
    assert got.shape == error.shape
    assert (error <= bound).all()


CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 7), (4, 3, 3), {}),
    ((1, 2, 9), (2, 2, 2), {"stride": 2, "padding": 1, "dilation": 3}),
    ((2, 4, 8), (6, 2, 3), {"groups": 2, "padding": ((2, 0),)}),
    ((2, 3, 5, 6), (4, 3, 3, 2), {"stride": (2, 1), "padding": (1, 0)}),
    ((1, 4, 6, 5), (4, 1, 3, 3), {"groups": 4, "padding": 1}),
    ((2, 4, 7, 7), (2, 2, 2, 3), {"groups": 2, "stride": 3, "dilation": (3, 2), "padding": ((0, 1), (2, 3))}),
    ((3, 2, 4, 4), (5, 2, 1, 1), {}),
    ((1, 2, 3, 4, 5), (2, 2, 2, 3, 2), {"padding": 1, "stride": (1, 2, 3)}),
    ((2, 2, 3, 3, 3), (4, 1, 3, 2, 1), {"groups": 2, "dilation": (1, 2, 1)}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(("shape", "kernel", "attrs"), CASES, ids=str)
def test_convolution_is_the_sum_over_each_window(
    shape: tuple[int, ...], kernel: tuple[int, ...], attrs: dict[str, Any], dtype: str, device: im.Device
) -> None:
    rng = np.random.default_rng(1)
    x = im.astype(im.asarray(rng.normal(size=shape), device=device), dtype)
    w = im.astype(im.asarray(rng.normal(size=kernel), device=device), dtype)
    for function in (im.nn.conv, getattr(im.nn, f"conv{len(shape) - 2}d")):
        check(function(x, w, **attrs), x.numpy(), w.numpy(), dtype, **attrs)


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_convolution_agrees_with_scipy_on_every_rank(rank: int, device: im.Device) -> None:
    rng = np.random.default_rng(2)
    a, k = rng.normal(size=(5,) * rank), rng.normal(size=(2, 3, 2, 3)[:rank])
    got = im.nn.conv(im.asarray(a[None, None], device=device), im.asarray(k[None, None], device=device))
    np.testing.assert_allclose(got.numpy()[0, 0], signal.correlate(a, k, mode="valid", method="direct"), atol=1e-13)


def test_the_bias_is_added_to_each_channel(device: im.Device) -> None:
    x, w = im.ones((2, 1, 3, 3), device=device), im.zeros((3, 1, 2, 2), device=device)
    y = im.nn.conv2d(x, w, bias=im.asarray([1.0, 2.0, 3.0], device=device))
    np.testing.assert_array_equal(y.numpy(), np.broadcast_to(np.reshape([1.0, 2.0, 3.0], (1, 3, 1, 1)), (2, 3, 2, 2)))


def test_a_batch_larger_than_one_piece_of_columns_is_convolved_whole(device: im.Device) -> None:
    rng = np.random.default_rng(3)
    a, k = rng.normal(size=(5, 8, 64, 64)).astype(np.float32), rng.normal(size=(2, 8, 3, 3)).astype(np.float32)
    got = im.nn.conv2d(im.asarray(a, device=device), im.asarray(k, device=device)).numpy()
    for i, o in product(range(5), range(2)):
        want = sum(signal.correlate(a[i, c].astype(float), k[o, c], mode="valid", method="direct") for c in range(8))
        np.testing.assert_allclose(got[i, o], want, atol=72 * EPS["float32"] * 72)


def test_integers_convolve_exactly_and_mixed_dtypes_promote(device: im.Device) -> None:
    rng = np.random.default_rng(4)
    a, k = rng.integers(-9, 9, (2, 2, 5, 5)), rng.integers(-9, 9, (3, 2, 3, 3))
    x, w = im.asarray(a, device=device), im.asarray(k, device=device)
    np.testing.assert_array_equal(im.nn.conv2d(x, w).numpy(), direct(a, k))
    mixed = im.nn.conv2d(im.astype(x, "float32"), im.astype(w, "float64"))
    assert mixed.dtype is im.float64
    np.testing.assert_array_equal(mixed.numpy(), direct(a, k))


def test_complex_numbers_convolve(device: im.Device) -> None:
    rng = np.random.default_rng(5)
    a, k = (rng.normal(size=s) + 1j * rng.normal(size=s) for s in ((1, 2, 6), (2, 2, 3)))
    got = im.nn.conv1d(im.asarray(a, device=device), im.asarray(k, device=device))
    np.testing.assert_allclose(got.numpy(), direct(a, k), atol=1e-13)


@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (2, 1), (3, 1), (4, 1), (2, 2), (3, 3)])
def test_padding_same_keeps_the_size_and_the_odd_zero_comes_last(kernel: int, dilation: int, device: im.Device) -> None:
    x, w = np.arange(7.0)[None, None], np.arange(1.0, kernel + 1)[None, None]
    total = dilation * (kernel - 1)
    got = im.nn.conv1d(im.asarray(x, device=device), im.asarray(w, device=device), padding="same", dilation=dilation)
    np.testing.assert_array_equal(got.numpy(), direct(x, w, dilation=dilation, padding=((total // 2, total - total // 2),)))
    valid = im.nn.conv1d(im.asarray(x, device=device), im.asarray(w, device=device), padding="valid", dilation=dilation)
    np.testing.assert_array_equal(valid.numpy(), direct(x, w, dilation=dilation))


def test_views_convolve_like_copies(device: im.Device) -> None:
    rng = np.random.default_rng(6)
    a, k = rng.normal(size=(2, 6, 7, 3)), rng.normal(size=(3, 3, 2, 4))
    x = im.flip(im.permute_dims(im.asarray(a, device=device), (0, 3, 1, 2)), axis=3)
    w = im.permute_dims(im.asarray(k, device=device), (3, 1, 2, 0))
    want = direct(np.ascontiguousarray(a.transpose(0, 3, 1, 2)[..., ::-1]), np.ascontiguousarray(k.transpose(3, 1, 2, 0)))
    np.testing.assert_allclose(im.nn.conv2d(x, w).numpy(), want, atol=1e-13)


def test_empty_batches_and_channels_have_a_shape(device: im.Device) -> None:
    assert im.nn.conv2d(im.zeros((0, 3, 5, 5), device=device), im.zeros((4, 3, 2, 2), device=device)).shape == (0, 4, 4, 4)
    none = im.nn.conv2d(im.zeros((2, 0, 5, 5), device=device), im.zeros((4, 0, 2, 2), device=device))
    assert none.shape == (2, 4, 4, 4)
    assert not none.numpy().any()
    assert im.nn.conv_transpose1d(im.zeros((0, 3, 5), device=device), im.zeros((3, 4, 2), device=device)).shape == (0, 4, 6)


def test_nan_reaches_only_the_windows_that_hold_it(device: im.Device) -> None:
    x = im.asarray([[[1.0, 1.0, float("nan"), 1.0, 1.0, 1.0]]], device=device)
    y = im.nn.conv1d(x, im.ones((1, 1, 2), device=device))
    assert np.isnan(y.numpy()).tolist() == [[[False, True, True, False, False]]]


# --- transposed --------------------------------------------------------------------------------------------------


def scattered(x: np.ndarray, w: np.ndarray, output_padding: Any = 0, **attrs: Any) -> np.ndarray:
    """The definition: each input element puts its kernel, scaled, into the output."""
    rank = x.ndim - 2
    stride, pairs, dilation, groups = normal(attrs, rank)
    extra = output_padding if isinstance(output_padding, tuple) else (output_padding,) * rank
    sizes = [
        (n - 1) * s + d * (k - 1) + 1 + e for n, s, d, k, e in zip(x.shape[2:], stride, dilation, w.shape[2:], extra, strict=True)
    ]
    result = np.zeros((x.shape[0], w.shape[1] * groups, *sizes), np.result_type(x, w))
    width = x.shape[1] // groups
    for c in range(x.shape[1]):
        g = c // width
        for i, k in product(product(*map(range, x.shape[2:])), product(*map(range, w.shape[2:]))):
            at = tuple(a * s + b * d for a, s, b, d in zip(i, stride, k, dilation, strict=True))
            result[(slice(None), slice(g * w.shape[1], (g + 1) * w.shape[1]), *at)] += (
                x[(slice(None), c, *i)][:, None] * w[(c, slice(None), *k)]
            )
    return result[(..., *(slice(before, n - after) for (before, after), n in zip(pairs, sizes, strict=True)))]


TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 4), (3, 2, 3), {}),
    ((1, 2, 4), (2, 3, 3), {"stride": 3, "padding": 1, "output_padding": 2}),
    ((2, 4, 3, 4), (4, 2, 2, 3), {"stride": (2, 1), "padding": ((0, 1), (1, 0)), "groups": 2}),
    ((1, 2, 3, 3), (2, 1, 2, 2), {"dilation": (3, 2), "output_padding": (2, 1)}),
    ((1, 3, 2, 3, 2), (3, 2, 2, 1, 3), {"stride": 2, "padding": (1, 0, 1), "output_padding": 1}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "kernel", "attrs"), TRANSPOSED, ids=str)
def test_transposed_convolution_scatters_kernels(
    shape: tuple[int, ...], kernel: tuple[int, ...], attrs: dict[str, Any], dtype: str, device: im.Device
) -> None:
    rng = np.random.default_rng(7)
    a, k = rng.normal(size=shape).astype(dtype), rng.normal(size=kernel).astype(dtype)
    bias = rng.normal(size=kernel[1] * attrs.get("groups", 1)).astype(dtype)
    x, w, b = (im.asarray(v, device=device) for v in (a, k, bias))
    shift = bias.reshape(-1, *(1,) * (len(shape) - 2))
    bound = 2 * (k[0].size * shape[1] + 1) * EPS[dtype] * (scattered(np.abs(a), np.abs(k), **attrs) + np.abs(shift))
    for function in (im.nn.conv_transpose, getattr(im.nn, f"conv_transpose{len(shape) - 2}d")):
        got = function(x, w, b, **attrs)
        error = np.abs(got.numpy() - (scattered(a, k, **attrs) + shift))
        assert got.shape == error.shape
        assert (error <= bound).all()


geometry = st.tuples(
    st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2), st.integers(1, 2), st.integers(0, 3)
)


@settings(deadline=None)  # a deadline would measure the machine's other load
@given(st.lists(geometry, min_size=1, max_size=2), st.integers(1, 2), st.integers(0, 99))
def test_the_derivatives_of_convolution_are_convolutions(axes: list[tuple[int, ...]], groups: int, seed: int) -> None:
    """For y = conv(x, w): <y, g> = <x, dx> = <w, dw>, exactly for integers, with dx and dw from the same two rows."""
    rng = np.random.default_rng(seed)
    kernel, stride, dilation = (tuple(a[i] for a in axes) for i in (0, 1, 4))
    padding = tuple((a[2], a[3]) for a in axes)
    sizes = tuple(max(1, d * (k - 1) + 1 - b - f) + more for k, _, b, f, d, more in axes)
    batch, depth, width = 2, 2, 1
    attrs: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation}
    for way in WAYS:
        with open_device(way) as device:
            x = im.asarray(rng.integers(-5, 5, (batch, groups * depth, *sizes)), device=device)
            w = im.asarray(rng.integers(-5, 5, (groups * width, depth, *kernel)), device=device)
            y = im.nn.conv(x, w, **attrs, groups=groups)
            g = im.asarray(rng.integers(-5, 5, y.shape), device=device)
            # What the stride leaves over at the end of an axis is the output padding of the way back.
            ends = zip(sizes, padding, kernel, dilation, stride, strict=True)
            left = tuple((n + sum(p) - d * (k - 1) - 1) % s for n, p, k, d, s in ends)
            dx = im.nn.conv_transpose(g, w, **attrs, groups=groups, output_padding=left)
            assert dx.shape == x.shape
            # Batch and channels change places; stride and dilation too.
            split = im.permute_dims(im.reshape(x, (batch, groups, depth, *sizes)), (2, 1, 0, *range(3, 3 + len(sizes))))
            turned = im.reshape(split, (depth, groups * batch, *sizes))
            inner = im.permute_dims(g, (1, 0, *range(2, g.ndim)))
            dw = im.nn.conv(turned, inner, stride=dilation, padding=padding, dilation=stride, groups=groups)
            dw = im.permute_dims(dw, (1, 0, *range(2, dw.ndim)))[(..., *(slice(0, k) for k in kernel))]
            assert dw.shape == w.shape
            assert int(im.sum(y * g)) == int(im.sum(x * dx)) == int(im.sum(w * dw))


# --- linear ------------------------------------------------------------------------------------------------------


def test_linear_is_a_product_with_the_transposed_weight(device: im.Device) -> None:
    rng = np.random.default_rng(8)
    a, k, b = rng.normal(size=(2, 3, 4)), rng.normal(size=(5, 4)), rng.normal(size=5)
    x, w, bias = (im.asarray(v, device=device) for v in (a, k, b))
    np.testing.assert_allclose(im.nn.linear(x, w, bias).numpy(), a @ k.T + b, atol=1e-14)
    np.testing.assert_allclose(im.nn.linear(x[0, 0], w).numpy(), k @ a[0, 0], atol=1e-14)
    with pytest.raises(
        im.ShapeError, match=r"linear: the input has shape \(2, 3\), but a weight of shape \(5, 4\) takes 4 features"
    ):
        im.nn.linear(x[0, :2, :3], w)
    with pytest.raises(im.ShapeError, match=r"linear: the bias has shape \(4,\), but the output has 5 features"):
        im.nn.linear(x, w, x[0, 0])


# --- errors ------------------------------------------------------------------------------------------------------

REFUSED: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any], str]] = [
    ("conv2d", (1, 3, 5, 5), (4, 2, 3, 3), {"groups": 2}, r"conv2d: the input has 3 channels, but the weight expects 4 \(2 groups of 2\)\. "),
    ("conv2d", (1, 3, 5, 5), (4, 4, 3, 3), {}, r"conv2d: the input has 3 channels, but the weight expects 4\. "),
    ("conv2d", (3, 5, 5), (4, 3, 3, 3), {}, r"conv2d: the input has shape \(3, 5, 5\), but .* with 2 spatial axes is needed"),
    ("conv1d", (1, 3, 5), (4, 3), {}, r"conv1d: the weight has shape \(4, 3\), but an input of shape \(1, 3, 5\) needs a weight of 3 axes"),
    ("conv2d", (1, 4, 5, 5), (3, 2, 3, 3), {"groups": 2}, r"conv2d: the weight has 3 output channels, which do not divide into 2 groups"),
    ("conv2d", (1, 3, 5, 5), (4, 3, 3, 3), {"dilation": 3}, r"conv2d: a window of 3 with dilation 3 spans 7 elements, but axis 2 has 5\. "),
    ("conv1d", (1, 1, 2), (1, 1, 5), {"padding": 1}, r"conv1d: a window of 5 spans 5 elements, but axis 2 has 4 with its padding\. "),
    ("conv2d", (1, 3, 5, 5), (4, 3, 0, 3), {}, r"conv2d: the weight has shape \(4, 3, 0, 3\), whose kernel is empty"),
    ("conv2d", (1, 3, 5, 5), (4, 3, 3, 3), {"stride": (1, 2, 3)}, r"conv2d: stride \(1, 2, 3\) has 3 numbers, but there are 2 spatial axes"),
    ("conv2d", (1, 3, 5, 5), (4, 3, 3, 3), {"stride": 0}, r"conv2d: stride 0 must be 1 or more"),
    ("conv2d", (1, 3, 5, 5), (4, 3, 3, 3), {"padding": -1}, r"conv2d: padding -1 must be 0 or more"),
    ("conv2d", (1, 3, 5, 5), (4, 3, 3, 3), {"padding": (1, (1, 2, 3))}, r"conv2d: padding \(1, \(1, 2, 3\)\) does not fit 2 spatial axes"),
    ("conv2d", (1, 3, 5, 5), (4, 3, 3, 3), {"padding": "same", "stride": 2}, r"conv2d: padding 'same' needs stride 1, but stride is \(2, 2\)"),
    ("conv2d", (1, 3, 5, 5), (4, 3, 3, 3), {"padding": "full"}, r"conv2d: padding 'full' is not known\. Use one of 'valid', 'same'"),
    ("conv2d", (1, 3, 5, 5), (4, 3, 3, 3), {"groups": 0}, r"conv2d: groups 0 must be 1 or more"),
    ("conv_transpose2d", (1, 3, 5, 5), (4, 3, 3, 3), {}, r"conv_transpose2d: the input has 3 channels, but the weight expects 4\. "),
    ("conv_transpose2d", (1, 3, 5, 5), (3, 3, 3, 3), {"groups": 2}, r"conv_transpose2d: the weight has 3 input channels, which do not divide"),
    ("conv_transpose1d", (1, 1, 5), (1, 1, 3), {"output_padding": 1}, r"conv_transpose1d: output_padding 1 must be smaller than stride 1 or dilation 1"),
    ("conv_transpose1d", (1, 1, 1), (1, 1, 3), {"padding": 2}, r"conv_transpose1d: the output would have spatial sizes \(-1,\)\. Pad less"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shape", "kernel", "attrs", "message"), REFUSED, ids=lambda v: str(v)[:40])
def test_what_does_not_fit_is_refused_with_the_sizes(
    name: str, shape: tuple[int, ...], kernel: tuple[int, ...], attrs: dict[str, Any], message: str, device: im.Device
) -> None:
    with pytest.raises(im.IntermodalError, match=message):
        getattr(im.nn, name)(im.zeros(shape, device=device), im.zeros(kernel, device=device), **attrs)


def test_a_bias_of_the_wrong_size_and_bools_are_refused(device: im.Device) -> None:
    x, w = im.zeros((1, 3, 5), device=device), im.zeros((4, 3, 3), device=device)
    with pytest.raises(
        im.ShapeError, match=r"conv1d: the bias has shape \(3,\), but the output has 4 channels\. Give shape \(4,\)"
    ):
        im.nn.conv1d(x, w, im.zeros((3,), device=device))
    with pytest.raises(im.DTypeError, match="conv1d: the input has dtype bool"):
        im.nn.conv1d(im.astype(x, "bool"), im.astype(w, "bool"))


def test_shapes_follow_without_data() -> None:
    x, w = im.zeros((2, 3, 9, 9), device="meta:cpu"), im.zeros((4, 3, 3, 3), device="meta:cpu")
    y = im.nn.conv2d(x, w, stride=2, padding=1)
    assert y.shape == (2, 4, 5, 5)
    assert im.nn.conv_transpose2d(y, w, stride=2, padding=1).shape == x.shape
