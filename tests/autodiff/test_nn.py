"""Derivatives of layers and losses where they are easy to get wrong: ties, edges, sizes that do not divide, large numbers, nothing."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import intermodal as im
from intermodal.testing import check_grad

RANDOM = np.random.default_rng(0)


def leaf(values: Any, device: im.Device, dtype: str = "float64") -> im.Tensor:
    return im.asarray(values, dtype=dtype, device=device).require_grad()


def normal(*shape: int, device: im.Device) -> im.Tensor:
    return im.asarray(RANDOM.standard_normal(shape), device=device)


def equals(x: im.Tensor, wanted: Any) -> None:
    np.testing.assert_array_equal(x.numpy(), np.asarray(wanted))


# --- convolution and the linear layer ----------------------------------------------------------------------------


@given(
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    groups=st.integers(1, 2),
    size=st.integers(5, 8),
)
def test_convolution_is_differentiated_whatever_its_windows_leave_over(
    stride: int, dilation: int, padding: tuple[int, int], groups: int, size: int
) -> None:
    device = im.Device("numpy:cpu")
    options: dict[str, Any] = {"stride": stride, "dilation": dilation, "padding": (padding,), "groups": groups}
    x, weight = normal(2, 2, size, device=device), normal(2, 2 // groups, 3, device=device)
    check_grad(lambda x, w: im.nn.conv1d(x, w, **options), x, weight)
    if (size - 1) * stride + 2 * dilation + 1 > sum(padding):
        transposed = normal(2, 1, 3, device=device)
        check_grad(lambda x, w: im.nn.conv_transpose1d(x, w, **options), x, transposed)


def test_output_padding_that_another_window_fits_on_has_no_gradient_of_its_own(device: im.Device) -> None:
    x, weight = normal(1, 2, 3, device=device), normal(2, 2, 2, device=device)
    check_grad(lambda x, w: im.nn.conv_transpose1d(x, w, dilation=3, output_padding=2), x, weight, order=2)


def test_complex_kernels_are_conjugated(device: im.Device) -> None:
    x, weight = (im.asarray(RANDOM.standard_normal((1, 2, 5)) * (1 + 2j), device=device) for _ in range(2))
    check_grad(lambda x, w: im.nn.conv1d(x, w, padding=3), x, weight[:, :, :3], order=2)


@pytest.mark.parametrize(("shape", "kernel"), [((0, 2, 5), (3, 2, 3)), ((2, 0, 5), (3, 0, 3)), ((2, 2, 0), (3, 2, 1))])
def test_a_convolution_of_nothing_has_gradients_of_the_right_shapes(
    device: im.Device, shape: tuple[int, ...], kernel: tuple[int, ...]
) -> None:
    x, weight = leaf(np.zeros(shape), device), leaf(np.ones(kernel), device)
    grads = im.nn.conv1d(x, weight, padding=1).backward()
    equals(grads[weight], np.zeros(kernel))
    assert grads[x].shape == shape


def test_the_weight_of_a_linear_layer_sums_over_all_leading_axes(device: im.Device) -> None:
    x, weight, bias = leaf(np.ones((2, 3, 4)), device), leaf(np.ones((5, 4)), device), leaf(np.ones(5), device)
    grads = im.nn.linear(x, weight, bias).backward()
    equals(grads[weight], np.full((5, 4), 6))
    equals(grads[bias], np.full(5, 6))
    equals(grads[x], np.full((2, 3, 4), 5))


# --- pooling -----------------------------------------------------------------------------------------------------


def test_of_equal_elements_the_first_of_a_window_gets_the_gradient(device: im.Device) -> None:
    x = leaf([[[[2.0, 2.0, 1.0], [2.0, 0.0, 1.0]]]], device)
    equals(im.nn.max_pool2d(x, kernel_size=(2, 3)).backward()[x], [[[[1, 0, 0], [0, 0, 0]]]])
    equals(im.nn.max_pool2d(x, kernel_size=2, stride=1).backward()[x], [[[[1, 1, 0], [0, 0, 0]]]])
    equals(im.nn.adaptive_max_pool2d(x, output_size=1).backward()[x], [[[[1, 0, 0], [0, 0, 0]]]])


def test_an_element_that_is_the_maximum_of_several_windows_gets_all_their_gradients(device: im.Device) -> None:
    x = leaf([[[0.0, 5.0, 1.0, 2.0]]], device)
    equals(im.nn.max_pool1d(x, kernel_size=3, stride=1, padding=1).backward()[x], [[[0, 3, 0, 1]]])


def test_padding_never_gets_a_gradient_even_where_everything_is_minus_infinity(device: im.Device) -> None:
    x = leaf([[[-np.inf, -np.inf, -np.inf]]], device)
    equals(im.nn.max_pool1d(x, kernel_size=2, padding=1).backward()[x], [[[1, 1, 0]]])
    equals(im.nn.max_pool1d(x, kernel_size=3, padding=((2, 0),), stride=2).backward()[x], [[[2, 0, 0]]])


def test_a_maximum_with_its_index_has_the_gradient_of_the_maximum(device: im.Device) -> None:
    values = RANDOM.standard_normal((2, 3, 7, 8))
    windows: tuple[dict[str, Any], ...] = (
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 2, "ceil_mode": True},
    )
    for options in windows:
        x, y = leaf(values, device), leaf(values, device)
        pooled = im.nn.max_pool2d(x, **options)
        found = im.nn.max_pool2d_with_indices(y, **options)
        equals(pooled.detach(), found.values.detach().numpy())
        equals((pooled * pooled).backward()[x], (found.values * found.values).backward()[y].numpy())


def test_a_mean_over_less_than_a_window_hands_out_larger_shares(device: im.Device) -> None:
    x = leaf(np.zeros((1, 1, 3)), device)
    equals(im.nn.avg_pool1d(x, kernel_size=2, padding=1, count_include_pad=False).backward()[x], [[[1, 0.5, 0.5]]])
    equals(im.nn.avg_pool1d(x, kernel_size=2, padding=1).backward()[x], [[[0.5, 0.5, 0.5]]])
    equals(im.nn.avg_pool1d(x, kernel_size=2, ceil_mode=True).backward()[x], [[[0.5, 0.5, 1]]])


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 7])
def test_parts_that_share_elements_are_differentiated_to_the_second_order(device: im.Device, parts: int) -> None:
    values = im.asarray(RANDOM.permutation(10.0 * np.arange(10)).reshape(1, 2, 5), device=device)
    check_grad(lambda x: im.nn.adaptive_avg_pool1d(x, output_size=parts) ** 2, values, order=2)
    check_grad(lambda x: im.nn.adaptive_max_pool1d(x, output_size=parts) ** 2, values, order=2)


# --- images ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["nearest", "nearest_exact", "linear", "cubic", "lanczos3"])
def test_resizing_is_its_matrix_and_its_gradient_the_matrix_transposed(device: im.Device, mode: str) -> None:
    for size, n in product((3, 6, 8, 13), (4, 6)):
        unit = im.reshape(im.eye(n, dtype="float64", device=device), (n, 1, n))
        matrix = im.nn.interpolate(unit, size=size, mode=mode).numpy()[:, 0]
        x, g = leaf(np.zeros((1, 1, n)), device), RANDOM.standard_normal(size)
        found = im.nn.interpolate(x, size=size, mode=mode).backward(im.asarray(g.reshape(1, 1, size), device=device))[x]
        np.testing.assert_allclose(found.numpy()[0, 0], matrix @ g, rtol=0, atol=1e-14)


def test_places_held_at_an_edge_do_not_move_the_sample(device: im.Device) -> None:
    x = im.asarray(RANDOM.standard_normal((1, 2, 3, 3)), device=device)
    grid = leaf([[[[-5.0, 0.1], [np.inf, 0.1]]]], device)
    for mode in ("zeros", "border"):
        across = im.nn.grid_sample_2d(x, grid, padding_mode=mode).backward()[grid].numpy()[..., 0]
        np.testing.assert_array_equal(across, [[[0, 0]]])


def test_the_nearest_pixel_does_not_change_with_the_place(device: im.Device) -> None:
    x, grid = leaf(np.ones((1, 1, 2, 2)), device), leaf(np.zeros((1, 1, 1, 2)) + 0.3, device)
    grads = im.nn.grid_sample_2d(x, grid, mode="nearest").backward()
    equals(grads[x], [[[[0, 0], [0, 1]]]])
    assert grads.get(grid) is None or not grads[grid].numpy().any()


# --- normalization -----------------------------------------------------------------------------------------------


def test_a_mean_far_from_zero_costs_no_digits_of_the_gradient(device: im.Device) -> None:
    values = RANDOM.standard_normal((4, 64))
    g = im.asarray(RANDOM.standard_normal((4, 64)), dtype="float32", device=device)
    x = leaf(values + 4096, device, "float32")
    near = leaf(x.detach().numpy().astype(np.float64) - 4096, device)
    wanted = im.nn.layer_norm(near).backward(im.astype(g, "float64"))[near].numpy()
    # The input has 12 bits for what stands behind its mean; the gradient must not have fewer.
    np.testing.assert_allclose(im.nn.layer_norm(x).backward(g)[x].numpy(), wanted, rtol=0, atol=2**-12)


def test_normalized_numbers_do_not_grow_with_the_input(device: im.Device) -> None:
    x = leaf(RANDOM.standard_normal((3, 5)), device)
    for norm in (im.nn.layer_norm, im.nn.rms_norm):
        out = norm(x, eps=0.0)
        weights = im.asarray(RANDOM.standard_normal((3, 5)), device=device)
        gradient = (out * weights).backward()[x].numpy()
        np.testing.assert_allclose((gradient * x.detach().numpy()).sum(-1), 0, atol=1e-13)


def test_the_statistics_of_a_batch_have_gradients_too(device: im.Device) -> None:
    x = leaf([[1.0], [3.0], [8.0]], device)
    found = im.nn.batch_norm_training(x, eps=0.0)
    np.testing.assert_allclose(found.mean.backward(retain_graph=True)[x].numpy(), np.full((3, 1), 1 / 3), rtol=1e-15)
    np.testing.assert_allclose(found.var.backward()[x].numpy(), np.array([[-3.0], [-1.0], [4.0]]) * 2 / 3, rtol=1e-15)


@pytest.mark.parametrize("axis", [0, 1, (0, 1), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("centred", [True, False])
def test_a_normalization_over_any_axes_has_one_derivative(device: im.Device, axis: Any, centred: bool) -> None:
    axes = (axis,) if isinstance(axis, int) else axis
    x, weight = normal(2, 3, 4, device=device), normal(*((2, 3, 4)[a] for a in axes), device=device)
    norm = im.nn.layer_norm if centred else im.nn.rms_norm
    check_grad(lambda x, w: norm(x, w, axis=axis) ** 2, x, weight, order=2)


# --- attention and embedding -------------------------------------------------------------------------------------


def test_a_query_that_sees_no_key_has_a_gradient_of_zero(device: im.Device) -> None:
    q, k, v = (leaf(RANDOM.standard_normal((1, 2, 3)), device) for _ in range(3))
    mask = im.asarray([[True, True], [False, False]], device=device)
    grads = im.nn.attention(q, k, v, mask=mask).backward()
    equals(grads[q][:, 1], [[0, 0, 0]])
    assert all(np.isfinite(grads[x].numpy()).all() for x in (q, k, v))


@pytest.mark.parametrize("causal", [True, False])
def test_long_sequences_have_the_gradients_of_the_formula(device: im.Device, causal: bool) -> None:
    shape, n = (1, 2, 300, 4), 300
    q, k, v = (leaf(RANDOM.standard_normal(shape), device) for _ in range(3))
    g = RANDOM.standard_normal(shape)
    grads = im.nn.attention(q, k, v, is_causal=causal).backward(im.asarray(g, device=device))
    a, b, c = (x.detach().numpy() for x in (q, k, v))
    scores = np.where(np.tri(n, dtype=np.bool_) if causal else True, a @ b.swapaxes(2, 3) / 2, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    by_shares = g @ c.swapaxes(2, 3)
    by_scores = shares * (by_shares - (by_shares * shares).sum(-1, keepdims=True)) / 2
    for x, wanted in ((q, by_scores @ b), (k, by_scores.swapaxes(2, 3) @ a), (v, shares.swapaxes(2, 3) @ g)):
        np.testing.assert_allclose(grads[x].numpy(), wanted, rtol=0, atol=1e-12)


def test_attention_keeps_nothing_of_the_size_of_its_scores(device: im.Device) -> None:
    q, k, v = (leaf(np.ones((1, 50, 2)), device) for _ in range(3))
    node = im.nn.attention(q, k, v)._data.node
    kept = [x.value if hasattr(x, "value") else x.array for x in node.operands if x is not None]
    assert max(np.prod(a.shape) for a in (*kept, *node.outputs.values())) == 100


def test_key_heads_that_serve_several_queries_get_the_gradients_of_all(device: im.Device) -> None:
    q, k, v = (normal(*shape, device=device) for shape in ((4, 2, 3), (2, 5, 3), (2, 5, 2)))
    bias = normal(4, 1, 5, device=device)
    check_grad(lambda q, k, v: im.nn.attention(q, k, v, softcap=1.5, is_causal=True), q, k, v, order=2)
    check_grad(lambda q, k, v, b: im.nn.attention(q, k, v, bias=b), q, k, v, bias, order=2)


def test_rows_of_a_table_that_are_taken_twice_get_both_gradients(device: im.Device) -> None:
    weight = leaf(np.zeros((3, 2)), device)
    indices = im.asarray([[0, 2], [-1, 0]], device=device)
    equals(im.nn.embedding(weight, indices).backward()[weight], [[2, 2], [0, 0], [2, 2]])
    equals(im.nn.embedding(weight, im.asarray([], dtype="int64", device=device)).backward()[weight], np.zeros((3, 2)))


# --- losses ------------------------------------------------------------------------------------------------------


def test_targets_that_do_not_count_have_no_gradient_even_if_none_counts(device: im.Device) -> None:
    for targets, factor in (([1, -100], [1, 0]), ([-100, -100], [0, 0])):
        x = leaf(np.zeros((2, 2)), device)
        found = im.nn.cross_entropy(x, im.asarray(targets, device=device), label_smoothing=0.0).backward()[x]
        equals(found, np.array([[0.5, -0.5], [0.5, -0.5]]) * np.array(factor)[:, None])


def test_logits_of_minus_infinity_have_a_gradient_of_zero(device: im.Device) -> None:
    x = leaf([[0.0, -np.inf, 0.0]], device)
    equals(im.nn.cross_entropy(x, im.asarray([0], device=device)).backward()[x], [[-0.5, 0, 0.5]])


def test_large_logits_do_not_overflow(device: im.Device) -> None:
    x = leaf([[1e4, -1e4]], device, "float32")
    equals(im.nn.cross_entropy(x, im.asarray([1], device=device)).backward()[x], [[1, -1]])
    yes = im.asarray([[0.0, 1.0]], dtype="float32", device=device)
    equals(im.nn.binary_cross_entropy_with_logits(x, yes, reduction="sum").backward()[x], [[1, -1]])


def test_a_weight_moves_what_the_mean_divides_by(device: im.Device) -> None:
    x, weight = normal(4, 3, device=device), im.asarray([0.5, 1.0, 2.0], dtype="float64", device=device)
    target = im.asarray([0, 2, -100, 2], device=device)
    for smoothing in (0.0, 0.3):
        check_grad(lambda x, w, s=smoothing: im.nn.cross_entropy(x, target, w, label_smoothing=s), x, weight, order=2)
    check_grad(lambda x, w: im.nn.nll_loss(x, target, w), x, weight, order=2)


def test_a_sequence_that_cannot_be_read_has_finite_gradients(device: im.Device) -> None:
    logits = leaf(RANDOM.standard_normal((3, 2, 3)), device)
    targets, lengths = im.asarray([[1, 1], [1, 2]], device=device), im.asarray([2, 3], device=device)
    loss = im.nn.ctc_loss(
        im.nn.log_softmax(logits, axis=-1),
        targets,
        lengths,
        im.asarray([2, 2], device=device),
        reduction="none",
        zero_infinity=True,
    )
    found = loss.backward()[logits].numpy()
    assert np.isfinite(found).all()
    assert not found[:, 0].any()
    assert found[:, 1].any()


@pytest.mark.parametrize("narrow", ["float16", "bfloat16"])
def test_gradients_in_narrow_dtypes_are_those_of_float32_rounded(device: im.Device, narrow: str) -> None:
    image, kernel, row = (
        RANDOM.standard_normal((2, 2, 6, 6)),
        RANDOM.standard_normal((2, 2, 3, 3)),
        RANDOM.standard_normal((3, 8)),
    )
    functions = (
        (lambda x, w: im.nn.conv2d(x, w, padding=1), image, kernel),
        (lambda x, w: im.nn.max_pool2d(x, kernel_size=3, stride=1), image, kernel),
        (im.nn.layer_norm, row, row[0]),
        (lambda x, w: im.nn.cross_entropy(x, im.asarray([0, 7, 3], device=device)), row, row[0]),
    )
    for function, *values in functions:
        small = [leaf(v, device, narrow) for v in values]
        wide = [leaf(x.detach().numpy().astype(np.float32), device, "float32") for x in small]
        grads, wanted = function(*small).backward(), function(*wide).backward()
        for x, y in zip(small, wide, strict=True):
            if wanted.get(y) is not None:
                scale = np.abs(wanted[y].numpy()).max()
                # Operands, result and gradients are rounded once each, and the inner sums run in float32: four roundings.
                error = np.abs(grads[x].numpy().astype(np.float32) - wanted[y].numpy()).max()
                assert error <= 4 * im.finfo(narrow).eps * scale, function
