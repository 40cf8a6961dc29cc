"""Derivatives of elementwise ops where they are hard: kinks, ties, origins, infinities, large numbers, complex branches."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

import intermodal as im
from intermodal.errors import GradientError
from intermodal.testing import check_grad


def slopes(function: Callable[..., im.Tensor], *values: object, device: im.Device, dtype: str = "float64") -> list[np.ndarray]:
    """The gradient of the results' sum by each operand."""
    leaves = [im.asarray(v, dtype=dtype, device=device).require_grad() for v in values]
    grads = im.sum(function(*leaves)).backward()
    return [grads[x].numpy() for x in leaves]


def test_the_absolute_value_has_slope_0_at_0(device: im.Device) -> None:
    (found,) = slopes(im.abs, [-2.0, -0.0, 0.0, 3.0], device=device)
    assert found.tolist() == [-1.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize(("op", "first"), [(im.maximum, [1.0, 0.5, 0.0]), (im.minimum, [0.0, 0.5, 1.0])])
def test_a_tie_of_two_operands_is_shared(op: Callable[..., im.Tensor], first: list[float], device: im.Device) -> None:
    one, two = slopes(op, [2.0, 1.0, 0.0], [1.0, 1.0, 1.0], device=device)
    assert one.tolist() == first
    assert two.tolist() == [1.0 - x for x in first]


def test_a_tie_of_two_infinities_is_shared_too(device: im.Device) -> None:
    for op in (im.maximum, im.minimum, im.logaddexp):
        for found in slopes(op, [-math.inf], [-math.inf], device=device):
            assert found.tolist() == [0.5]


def test_clip_has_slope_1_up_to_its_bounds_and_0_beyond(device: im.Device) -> None:
    x, low, high = slopes(im.clip, [-2.0, -1.0, 0.0, 1.0, 2.0], [-1.0] * 5, [1.0] * 5, device=device)
    assert x.tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]
    assert low.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert high.tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]


def test_crossed_bounds_of_clip_give_the_gradient_to_the_upper_one(device: im.Device) -> None:
    x, low, high = slopes(im.clip, [-2.0, 0.0, 2.0], [1.0] * 3, [-1.0] * 3, device=device)
    assert x.tolist() == [0.0] * 3
    assert low.tolist() == [0.0] * 3
    assert high.tolist() == [1.0] * 3


@pytest.mark.parametrize("held", [lambda x: im.maximum(x, 0.0), lambda x: im.clip(x, 0.0), lambda x: im.where(x > 0, x, 0.0)])
def test_an_infinite_slope_does_not_reach_what_was_not_chosen(held: Callable[[im.Tensor], im.Tensor], device: im.Device) -> None:
    (found,) = slopes(lambda x: im.sqrt(held(x)), [-1.0, 4.0], device=device)
    assert found.tolist() == [0.0, 0.25]


@pytest.mark.parametrize("op", [im.floor, im.ceil, im.trunc, im.round, im.sign])
def test_steps_have_slope_0(op: Callable[[im.Tensor], im.Tensor], device: im.Device) -> None:
    x = im.asarray([-1.5, 0.0, 2.25], device=device)
    assert im.grad(lambda x: im.sum(op(x) + 3 * x))(x).tolist() == [3.0] * 3


def test_a_remainder_moves_with_the_dividend_and_falls_with_the_divisor(device: im.Device) -> None:
    dividend, divisor = slopes(im.remainder, [7.5, -7.5], [2.0, 2.0], device=device)
    assert dividend.tolist() == [1.0, 1.0]
    assert divisor.tolist() == [-3.0, 4.0]


def test_a_step_to_the_next_number_says_that_it_has_no_derivative(device: im.Device) -> None:
    x = im.ones(2, device=device).require_grad()
    with pytest.raises(GradientError, match="nextafter has no derivative"):
        im.sum(im.nextafter(x, 0.0)).backward()


@pytest.mark.parametrize("op", [im.hypot, im.atan2])
def test_at_the_origin_lengths_and_angles_have_slope_0(op: Callable[..., im.Tensor], device: im.Device) -> None:
    for found in slopes(op, [0.0], [0.0], device=device):
        assert found.tolist() == [0.0]


@pytest.mark.parametrize("op", [im.abs, im.angle, lambda z: im.real(im.sign(z))])
def test_at_the_origin_complex_lengths_and_angles_have_slope_0(op: Callable[..., im.Tensor], device: im.Device) -> None:
    (found,) = slopes(op, [0j], device=device, dtype="complex128")
    assert found.tolist() == [0j]


@pytest.mark.parametrize(
    ("op", "by_both"),
    [(im.hypot, (0.6, 0.8)), (im.atan2, (0.8 / 5e30, -0.6 / 5e30))],
)
def test_slopes_of_large_numbers_do_not_overflow(
    op: Callable[..., im.Tensor], by_both: tuple[float, float], device: im.Device
) -> None:
    found = slopes(op, 3e30, 4e30, device=device, dtype="float32")  # whose squares float32 does not hold
    np.testing.assert_allclose(found, by_both, rtol=1e-6)


@pytest.mark.parametrize("op", [im.asinh, im.acosh])
def test_inverse_hyperbolic_slopes_of_large_numbers_do_not_vanish(op: Callable[..., im.Tensor], device: im.Device) -> None:
    (found,) = slopes(op, 1e25, device=device, dtype="float32")
    np.testing.assert_allclose(found, 1e-25, rtol=1e-6)


def test_expm1_and_log1p_keep_the_digits_of_small_slopes(device: im.Device) -> None:
    (found,) = slopes(im.expm1, [-30.0, 0.0, 1e-8], device=device)
    np.testing.assert_allclose(found, np.exp([-30.0, 0.0, 1e-8]), rtol=1e-15)


def test_logaddexp_weighs_its_operands_without_overflow(device: im.Device) -> None:
    one, two = slopes(im.logaddexp, [1000.0, -1000.0, -math.inf, 3.0], [-1000.0, 1000.0, 3.0, -math.inf], device=device)
    assert one.tolist() == [1.0, 0.0, 0.0, 1.0]
    assert two.tolist() == [0.0, 1.0, 1.0, 0.0]


@given(st.floats(-20, 20), st.floats(-20, 20))
def test_the_weights_of_logaddexp_add_up_to_1(a: float, b: float) -> None:
    one, two = slopes(im.logaddexp, a, b, device=im.Device("numpy:cpu"))
    np.testing.assert_allclose(one + two, 1.0, rtol=4e-16)


def test_powers_of_0_are_constant_where_they_stay_0_or_1(device: im.Device) -> None:
    base, exponent = slopes(im.pow, [0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 2.0, 3.0], device=device)
    assert base.tolist() == [0.0, 1.0, 0.0, 0.0]
    assert exponent.tolist() == [0.0] * 4


@pytest.mark.parametrize(("exponent", "slope"), [(0, [0.0, 0.0]), (1, [1.0, 1.0]), (2, [-6.0, 0.0]), (3, [27.0, 0.0])])
def test_whole_powers_have_slopes_at_negative_numbers_and_at_0(exponent: int, slope: list[float], device: im.Device) -> None:
    x = im.asarray([-3.0, 0.0], device=device)
    assert im.grad(lambda x: im.sum(x**exponent))(x).tolist() == slope


def test_a_number_to_the_power_of_a_tensor_has_its_logarithm_as_the_slope(device: im.Device) -> None:
    for base in (2, 0.5, 0, -2 + 1j):
        x = im.asarray([1.0, 2.5], dtype="complex128" if isinstance(base, complex) else "float64", device=device)
        check_grad(lambda x, base=base: im.pow(base, x), x, order=2)


@pytest.mark.parametrize("op", [im.asin, im.acos, im.atanh, im.acosh, im.asinh, im.atan, im.log, im.sqrt, im.log1p])
def test_complex_functions_are_differentiated_on_the_branch_that_was_taken(
    op: Callable[[im.Tensor], im.Tensor], device: im.Device
) -> None:
    quadrants = [2.0 + 0.3j, -2.0 + 0.3j, -2.0 - 0.3j, 2.0 - 0.3j, 0.3 + 2.0j, -0.3 - 2.0j]
    check_grad(op, im.asarray(quadrants, dtype="complex128", device=device), order=2)


def test_the_parts_of_complex_numbers_take_their_parts_of_the_gradient(device: im.Device) -> None:
    (found,) = slopes(lambda z: 2 * im.real(z) + 3 * im.imag(z), [1 + 1j], device=device, dtype="complex128")
    assert found.tolist() == [2 + 3j]
    real, imag = slopes(lambda a, b: im.abs(im.complex(a, b)), [3.0], [4.0], device=device)
    np.testing.assert_allclose([real[0], imag[0]], [0.6, 0.8])


def test_a_scalar_operand_needs_no_gradient(device: im.Device) -> None:
    x = im.asarray([0.7, 1.5], dtype="float64", device=device)
    for op in (im.maximum, im.hypot, im.atan2, im.logaddexp, im.copysign, im.remainder):
        check_grad(lambda x, op=op: op(x, 1.0), x)
        check_grad(lambda x, op=op: op(1.0, x), x)


def test_broadcast_empty_and_reversed_operands_get_gradients_of_their_own_shape(device: im.Device) -> None:
    wide = im.asarray(np.arange(6.0).reshape(2, 3)[:, ::-1] + 0.5, device=device)
    for op in (im.maximum, im.hypot, im.atan2, im.logaddexp):
        check_grad(op, wide, im.asarray([1.2, -0.3, 2.7], dtype="float64", device=device))
        empty, row = slopes(op, np.zeros((0, 3)), np.ones(3), device=device)
        assert empty.shape == (0, 3)
        assert row.tolist() == [0.0] * 3
