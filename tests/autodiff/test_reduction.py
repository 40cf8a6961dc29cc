"""Derivatives of reductions where they are hard: ties, zeros, infinities, nothing at all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

import intermodal as im
from intermodal.testing import check_grad


def leaf(values: Any, device: im.Device | str = "numpy:cpu") -> im.Tensor:
    return im.asarray(values, dtype="float64", device=device).require_grad()


def gradient(function: Any, values: Any, device: im.Device | str = "numpy:cpu") -> Any:
    x = leaf(values, device)
    return function(x).backward()[x].numpy()


# --- extremes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["max", "min"])
def test_elements_that_are_equally_extreme_share_the_gradient(device: im.Device, name: str) -> None:
    sign = 1.0 if name == "max" else -1.0
    extreme = getattr(im, name)
    tied = np.asarray([[3.0, 1.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0]]) * sign
    found = gradient(lambda x: extreme(x, axis=1), tied, device)
    np.testing.assert_array_equal(found, [[0.5, 0, 0.5, 0], [0.25] * 4])
    np.testing.assert_array_equal(gradient(lambda x: extreme(x, axis=1, keepdims=True), tied, device), found)
    np.testing.assert_array_equal(gradient(extreme, tied, device), [[0.5, 0, 0.5, 0], [0] * 4])


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_gradient_of_an_extreme_that_is_nan_is_nan_for_its_line_alone(device: im.Device, name: str) -> None:
    found = gradient(lambda x: getattr(im, name)(x, axis=1), [[1.0, math.nan], [2.0, 2.0]], device)
    np.testing.assert_array_equal(found, [[math.nan, math.nan], [0.5, 0.5]])


def test_an_extreme_with_its_index_hands_the_gradient_to_that_index_alone(device: im.Device) -> None:
    tied = [1.0, 3.0, 3.0]
    np.testing.assert_array_equal(gradient(lambda x: im.max_with_indices(x).values, tied, device), [0, 1, 0])
    np.testing.assert_array_equal(gradient(lambda x: im.min_with_indices(-x).values, tied, device), [0, -1, 0])


def test_a_running_extreme_hands_the_gradient_to_the_last_that_reached_it(device: im.Device) -> None:
    tied = [1.0, 3.0, 3.0, 2.0, 4.0]
    np.testing.assert_array_equal(gradient(im.cumulative_max, tied, device), [1, 1, 2, 0, 1])
    np.testing.assert_array_equal(gradient(lambda x: im.cumulative_min(-x), tied, device), [-1, -1, -2, 0, -1])


def test_behind_a_nan_the_gradient_of_a_running_extreme_belongs_to_the_nan(device: im.Device) -> None:
    np.testing.assert_array_equal(gradient(im.cumulative_max, [1.0, 2.0, math.nan, 5.0], device), [1, 1, 2, 0])


# --- products ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zeros", [0, 1, 2, 4])
def test_products_with_zeros_have_exact_derivatives_of_both_orders(device: im.Device, zeros: int) -> None:
    values = np.asarray([2.0, 3.0, -1.5, 0.5])
    values[:zeros] = 0.0
    x = im.asarray(values, device=device)
    others = [math.prod(values[j] for j in range(4) if j != i) for i in range(4)]
    np.testing.assert_array_equal(gradient(im.prod, values, device), others)
    pairs = [[0.0 if i == k else math.prod(values[j] for j in range(4) if j not in (i, k)) for k in range(4)] for i in range(4)]
    np.testing.assert_array_equal(im.hessian(im.prod)(x).numpy(), pairs)
    check_grad(lambda x: im.cumulative_prod(x, include_initial=True), x, order=2)


def test_a_product_whose_total_leaves_the_range_has_the_gradients_that_do_not(device: im.Device) -> None:
    np.testing.assert_allclose(gradient(im.prod, [1e-200, 1e-200, 1e100], device), [1e-100, 1e-100, 0], rtol=1e-15, atol=0)


def test_a_product_over_some_axes_has_the_gradients_in_their_places(device: im.Device) -> None:
    values = np.arange(24.0).reshape(2, 3, 4) / 7
    x = im.asarray(values, device=device)
    check_grad(lambda x: im.prod(x, axis=(2, 0)), x, order=2)
    check_grad(lambda x: im.prod(x, axis=(), keepdims=True), x)


@given(arrays(np.float64, st.integers(0, 9), elements=st.sampled_from([0.0, 0.5, -1.0, 2.0])))
def test_the_gradient_of_a_running_product_is_the_sum_over_those_that_hold_the_element(values: np.ndarray[Any, Any]) -> None:
    n = len(values)
    wanted = [sum(math.prod(values[j] for j in range(i + 1) if j != k) for i in range(k, n)) for k in range(n)]
    found = gradient(im.cumulative_prod, values) if n else np.zeros(0)
    np.testing.assert_array_equal(found, np.asarray(wanted, np.float64))  # powers of two add up exactly


# --- sums, moments, logarithms -------------------------------------------------------------------------------------


def test_a_sum_in_a_wider_dtype_gives_a_gradient_of_the_operand_s() -> None:
    x = im.asarray([1.0, 2.0], dtype="float32").require_grad()
    total = im.sum(x, dtype="float64") + im.cumulative_sum(x, dtype="float64")[1] + im.prod(x, dtype="float64")
    found = total.backward()[x]
    assert (total.dtype, found.dtype) == (im.float64, im.float32)
    np.testing.assert_array_equal(found.numpy(), [4, 3])


def test_where_all_elements_are_equal_the_standard_deviation_has_the_derivative_0(device: im.Device) -> None:
    found = gradient(lambda x: im.std(x, axis=1), [[2.0, 2.0, 2.0], [1.0, 2.0, 3.0]], device)
    np.testing.assert_array_equal(found[0], [0, 0, 0])
    np.testing.assert_allclose(found[1], np.asarray([-1, 0, 1]) / math.sqrt(6), rtol=1e-15)
    x = im.asarray([2.0, 2.0], dtype="float64", device=device)
    np.testing.assert_array_equal(im.hessian(im.std)(x).numpy(), np.zeros((2, 2)))


@pytest.mark.parametrize("name", ["var", "std"])
def test_a_moment_of_fewer_elements_than_the_correction_has_a_gradient_of_nan(device: im.Device, name: str) -> None:
    assert np.isnan(gradient(lambda x: getattr(im, name)(x, correction=1.0), [2.0], device)).all()


def test_the_logarithm_of_a_sum_of_exponentials_weighs_large_and_infinite_elements(device: im.Device) -> None:
    np.testing.assert_array_equal(gradient(im.logsumexp, [1e12, 1e12], device), [0.5, 0.5])
    np.testing.assert_array_equal(gradient(im.logsumexp, [-1000.0, -math.inf], device), [1, 0])
    np.testing.assert_array_equal(gradient(im.logsumexp, [-math.inf, -math.inf], device), [0, 0])


TOTALS = ("sum", "prod", "mean", "var", "std", "logsumexp")
EXTREMES = ("max", "min", "max_abs")  # of no elements there is none, and the ops refuse


@pytest.mark.parametrize(("name", "shape"), [*((n, (0, 3)) for n in (*TOTALS, *EXTREMES)), *((n, (3, 0)) for n in TOTALS)])
def test_reductions_of_nothing_have_gradients_of_nothing(device: im.Device, name: str, shape: tuple[int, int]) -> None:
    assert gradient(lambda x: getattr(im, name)(x, axis=1), np.zeros(shape), device).shape == shape


def test_counts_and_tests_of_tracked_tensors_are_not_tracked(device: im.Device) -> None:
    x = leaf([0.0, 1.0], device)
    assert not any(f(x).is_tracked for f in (im.any, im.all, im.count_nonzero, im.argmax, im.argsort, im.isnan))
