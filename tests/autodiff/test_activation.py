"""Derivatives of activations where they are hard: kinks, tails, large numbers, masked lines, narrow dtypes, second order."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

import intermodal as im
from intermodal import nn
from intermodal.autodiff.rules import Kind, derivative
from intermodal.ops.table import TABLE
from intermodal.testing import check_grad

Activation = Callable[..., im.Tensor]


def slope(function: Activation, values: object, device: im.Device, dtype: str = "float64") -> np.ndarray:
    """The gradient of the results' sum."""
    x = im.asarray(values, dtype=dtype, device=device).require_grad()
    return im.astype(im.sum(function(x)).backward()[x], "float64").numpy()


KINKS = [
    (nn.relu, [-1.0, 0.0, 2.0], [0.0, 0.0, 1.0]),
    (nn.relu6, [-1.0, 0.0, 2.0, 6.0, 7.0], [0.0, 0.0, 1.0, 0.0, 0.0]),
    (lambda x: nn.leaky_relu(x, negative_slope=0.25), [-0.5, -0.0, 0.0, 0.1], [0.25, 0.25, 0.25, 1.0]),
    (lambda x: nn.leaky_relu(x, negative_slope=-2.0), [-0.5, 0.0, 0.1], [-2.0, -2.0, 1.0]),
    (lambda x: nn.elu(x, alpha=2.0), [0.0, 1.0], [2.0, 1.0]),
    (nn.elu, [0.0, 1.0], [1.0, 1.0]),
    (nn.hard_sigmoid, [-3.0, -1.0, 3.0], [0.0, 1 / 6, 0.0]),
    (nn.hard_swish, [-4.0, -3.0, 0.0, 3.0, 4.0], [0.0, 0.0, 0.5, 1.0, 1.0]),
    (nn.softsign, [-1.0, 0.0, 1.0], [0.25, 1.0, 0.25]),
]


@pytest.mark.parametrize(("function", "at", "slopes"), KINKS)
def test_at_a_kink_the_slope_is_that_of_the_part_below_or_level(
    function: Activation, at: list[float], slopes: list[float], device: im.Device
) -> None:
    np.testing.assert_allclose(slope(function, at, device), slopes, rtol=1e-15)


@pytest.mark.parametrize("function", [nn.relu, nn.relu6])
def test_an_infinite_slope_does_not_pass_where_the_activation_is_level(function: Activation, device: im.Device) -> None:
    assert slope(lambda x: im.sqrt(function(x)), [-1.0, 4.0], device).tolist() == [0.0, 0.25]


SMOOTH = {
    "elu": nn.elu,
    "selu": nn.selu,
    "gelu": nn.gelu,
    "gelu by tanh": lambda x: nn.gelu(x, approximate="tanh"),
    "sigmoid": nn.sigmoid,
    "log_sigmoid": nn.log_sigmoid,
    "silu": nn.silu,
    "softplus": nn.softplus,
    "softplus, steep": lambda x: nn.softplus(x, beta=4.0),
    "mish": nn.mish,
    "softsign": nn.softsign,
    "tanh": im.tanh,
}
FLAT = {"sigmoid", "log_sigmoid", "softsign", "tanh"}  # level at plus infinity; the others rise with slope 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", SMOOTH)
def test_the_slope_of_large_numbers_is_that_of_the_tail(name: str, dtype: str, device: im.Device) -> None:
    below, above = slope(SMOOTH[name], [-3e4, 3e4], device, dtype)
    near, tail = 2 * im.finfo(dtype).eps, 2e-9  # softsign falls with the square: 1.1e-9 is left of it
    rise = 1.0507009873554805 if name == "selu" else 1.0
    assert above == pytest.approx(0.0 if name in FLAT else rise, abs=near + tail)
    # The slope of selu is the sum of 1.76 and the result, which is -1.76 rounded; the others are exact.
    assert below == pytest.approx(1.0 if name == "log_sigmoid" else 0.0, abs=near if name == "selu" else tail)


def test_numbers_whose_cube_overflows_have_a_slope(device: im.Device) -> None:
    for name in ("gelu", "gelu by tanh", "silu", "mish"):
        assert slope(SMOOTH[name], [-1e30, 1e30], device, "float32").tolist() == [0.0, 1.0]


def test_lower_tails_keep_their_digits(device: im.Device) -> None:
    x = np.asarray([-30.0, -20.0])
    np.testing.assert_allclose(slope(nn.softplus, x, device), 1 / (1 + np.exp(-x)), rtol=1e-14)
    np.testing.assert_allclose(slope(nn.log_sigmoid, -x, device), 1 / (1 + np.exp(-x)), rtol=1e-14)
    np.testing.assert_allclose(slope(nn.elu, x, device), np.exp(x), rtol=1e-14)
    np.testing.assert_allclose(slope(nn.silu, x, device), np.exp(x) * (1 + x), rtol=1e-8)
    # Far below 0 the slope of gelu is x times the bell curve, less a share that falls with x squared.
    bell = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(slope(nn.gelu, x, device), x * bell * (1 - x**-2), rtol=1e-4)


@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivatives_hold_also_near_zero(name: str, device: im.Device) -> None:
    check_grad(SMOOTH[name], im.asarray([-2.5, -0.7, -0.01, 0.01, 0.9, 3.1], dtype="float64", device=device), order=2)


def test_the_two_gelus_have_the_derivative_of_the_one_that_was_computed(device: im.Device) -> None:
    x = im.asarray([-1.5, 2.0], dtype="float64", device=device)
    exact, approximate = (slope(lambda x, a=a: nn.gelu(x, approximate=a), [-1.5, 2.0], device) for a in ("none", "tanh"))
    assert np.all(np.abs(exact - approximate) > 1e-5)
    check_grad(nn.gelu, x)
    check_grad(lambda x: nn.gelu(x, approximate="tanh"), x)


@pytest.mark.parametrize("weight", [0.25, [0.25], [0.25, -0.5, 2.0]])
def test_the_slopes_of_prelu_are_learned_for_all_or_by_channel(weight: object, device: im.Device) -> None:
    x = im.asarray(np.linspace(-2, 2.1, 24).reshape(2, 3, 4), device=device)
    check_grad(nn.prelu, x, im.asarray(weight, dtype="float64", device=device), order=2)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=6), st.integers(0, 5))
def test_gradients_of_softmax_add_up_to_zero(values: list[float], at: int) -> None:
    x = im.asarray(values, dtype="float64")
    for function in (nn.softmax, nn.log_softmax, nn.softmin):
        found = im.grad(lambda x, f=function: f(x)[at % len(values)])(x)
        assert abs(float(im.sum(found))) < 1e-14


def test_masked_elements_and_masked_lines_of_softmax_have_no_gradient(device: im.Device) -> None:
    rows = [[1.0, -math.inf, 1.0], [-math.inf] * 3]
    found = slope(lambda x: nn.softmax(x)[..., 0], rows, device)
    assert found.tolist() == [[0.25, 0.0, -0.25], [0.0, 0.0, 0.0]]


def test_log_softmax_of_a_masked_element_hands_no_nan_to_the_others(device: im.Device) -> None:
    found = slope(lambda x: nn.log_softmax(x)[0], [0.0, -math.inf, 0.0], device)
    np.testing.assert_allclose(found, [0.5, 0.0, -0.5], atol=1e-15)


def test_softmax_in_a_narrow_dtype_is_differentiated_in_a_wider_one(device: im.Device) -> None:
    # 4096 equal shares of 2**-12: in float16 the sum of gradient times share would stall before it reaches 1.
    x = im.zeros(4096, dtype="float16", device=device).require_grad()
    found = im.sum(nn.softmax(x) * 64).backward()[x]
    assert float(im.max(im.abs(im.astype(found, "float32")))) < 2.0**-14


@pytest.mark.parametrize("function", [nn.softmax, nn.log_softmax, nn.softmin, nn.glu, nn.relu, nn.gelu])
def test_empty_tensors_have_empty_gradients(function: Activation, device: im.Device) -> None:
    for shape in ((0, 4), (3, 0)):
        assert slope(function, np.zeros(shape), device).shape == shape


ONE_TENSOR = [row.name for row in TABLE.values() if row.family == "activation" and len(row.tensor_params) == 1]


@pytest.mark.parametrize("name", ONE_TENSOR)
def test_an_activation_keeps_one_tensor_for_its_derivative(name: str) -> None:
    (rule,) = derivative(TABLE[name]).rules
    assert rule is not None
    assert sum(need.kind in (Kind.OPERAND, Kind.OUTPUT) for need in rule.needs) == 1


@pytest.mark.parametrize(
    "name", ["relu", "relu6", "selu", "sigmoid", "log_sigmoid", "hard_sigmoid", "softmax", "log_softmax", "softmin"]
)
def test_what_can_be_told_from_the_result_keeps_the_result(name: str) -> None:
    (rule,) = derivative(TABLE[name]).rules
    assert rule is not None
    assert [need.kind for need in rule.needs if need.kind is not Kind.ATTRIBUTE] == [Kind.OUTPUT]
