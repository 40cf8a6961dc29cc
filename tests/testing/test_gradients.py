"""The tools that test derivatives: what they find, what they let pass, what they say."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import intermodal as im
from intermodal.testing import check_grad, no_leaked_nodes

POINT = im.asarray([[0.3, 1.2], [-0.7, 2.1]], dtype="float64")


def half_wrong(x: im.Tensor) -> im.Tensor:
    """x², of whose derivative the tape sees one half."""
    return x * x.detach()


def test_right_derivatives_pass_in_all_orders(device: im.Device) -> None:
    x = POINT.to(device)
    check_grad(lambda x: im.exp(x) * x / (x * x + 1.0), x, order=3)
    check_grad(lambda x: im.sum(x * x, axis=1), im.astype(x, "float32"), order=2)


def test_a_complex_function_is_checked_by_both_parts_of_its_argument(device: im.Device) -> None:
    z = POINT.to(device) * (1.0 + 0.5j)
    check_grad(lambda z: z * z * im.conj(z), z, order=2)
    check_grad(im.abs, z)

    @im.custom_vjp
    def wrong_conjugate(z: im.Tensor) -> im.Tensor:
        return z * z

    @wrong_conjugate.rule
    def _(g: im.Tensor, z: im.Tensor) -> im.Tensor:
        return g * z * 2.0  # the conjugate of the derivative would be right

    with pytest.raises(AssertionError, match=r"argument 0, element \(0, 0\)"):
        check_grad(wrong_conjugate, z)


def test_a_wrong_derivative_is_reported_with_argument_element_and_both_numbers() -> None:
    with pytest.raises(AssertionError) as caught:
        check_grad(lambda p, k: half_wrong(p["a"][0]) + p["b"] * k, {"a": [POINT[0]], "b": POINT[1]}, im.asarray(2))
    text = str(caught.value)
    assert text.startswith("the derivative of order 1 by argument 0['a'][0], element (0,), is ")
    tape, differences = (float(text.partition(mark)[2].partition(" ")[0]) for mark in (", is ", "tape and "))
    assert differences == pytest.approx(2 * tape, rel=1e-7)


def test_one_wrong_element_among_many_is_found() -> None:
    with pytest.raises(AssertionError, match=r"element \(2, 5\)"):
        check_grad(lambda x: im.exp(im.where(mask, x.detach(), x)), im.asarray(np.linspace(-1, 1, 28).reshape(4, 7)))


mask = im.asarray(np.arange(28).reshape(4, 7) == 19)


def test_an_error_in_the_eighth_digit_is_found_in_float64_and_in_the_second_in_float32() -> None:
    check_grad(lambda x: x * x.detach() * 2.0 - (x * x).detach() * (1.0 - 1e-10), POINT)
    with pytest.raises(AssertionError):
        check_grad(lambda x: x * x.detach() * 2.0 - (x * x).detach() * (1.0 - 1e-7), POINT)
    with pytest.raises(AssertionError):
        check_grad(lambda x: x * x.detach() * 1.98 - (x * x).detach() * 0.98, im.astype(POINT, "float32"))


def test_a_first_derivative_that_cannot_be_differentiated_is_found_by_the_second_order() -> None:
    @im.custom_vjp
    def square(x: im.Tensor) -> im.Tensor:
        return x * x

    @square.rule
    def _(g: im.Tensor, x: im.Tensor) -> im.Tensor:
        return g * x.detach() * 2.0

    check_grad(square, POINT)
    with pytest.raises(AssertionError, match="the derivative of order 2 by argument 0"):
        check_grad(square, POINT, order=2)


def test_a_large_third_derivative_does_not_disturb() -> None:
    # Near a pole the third derivative of 1/x is 6/x^4: at 0.003 the plain formula is off by 4e-6 of the slope.
    check_grad(lambda x: 1.0 / x, im.asarray([0.003, 1.0], dtype="float64"), order=2)


def test_step_and_tolerances_can_be_given() -> None:
    with pytest.raises(AssertionError):
        check_grad(im.exp, POINT, eps=0.5)
    check_grad(im.exp, POINT, eps=0.5, rtol=0.1)
    check_grad(half_wrong, POINT, atol=10.0)


def test_results_that_are_not_floating_point_numbers_and_empty_ones_are_left_out() -> None:
    check_grad(lambda x: {"a": im.argmax(x), "b": x * x, "c": x[:0]}, POINT)
    check_grad(lambda x: x * x, im.ones((0, 3), dtype="float64"))


WRONG: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "no tensor": ((lambda x: x, 3), {}, r"^check_grad: no argument has a floating-point tensor to differentiate by"),
    "sixteen bits": (
        (lambda x: x, im.ones(2, dtype="float16")),
        {},
        r"^check_grad: differences of numbers with a relative gap of 0\.00098 say nothing\. Cast the arguments to float64",
    ),
    "an infinity": ((im.log, im.zeros(1)), {}, r"^check_grad: the function is infinite or NaN here"),
    "no order": ((im.log, im.ones(1)), {"order": 0}, r"^check_grad: the order of a derivative is at least 1, not 0"),
}


@pytest.mark.parametrize("use", WRONG)
def test_a_wrong_use_is_told_what_is_wrong(use: str) -> None:
    args, kwargs, message = WRONG[use]
    with pytest.raises(im.ArgumentError, match=message):
        check_grad(*args, **kwargs)


def test_a_record_that_is_left_behind_is_named_and_one_from_before_is_not() -> None:
    older = im.ones(2).require_grad() * 2.0
    with no_leaked_nodes():
        im.sum(im.exp(older)).backward(retain_graph=True)
    with pytest.raises(AssertionError, match=r"^2 records of ops are still alive: exp, sum$"), no_leaked_nodes():
        kept = im.sum(im.exp(older))
    del kept


def test_a_record_in_a_cycle_is_a_leak_where_the_collector_is_not_to_help() -> None:
    def circle() -> None:
        ring: list[Any] = [im.ones(2).require_grad()]
        ring.append(ring)

    with no_leaked_nodes():
        circle()
    with pytest.raises(AssertionError, match="1 records of ops are still alive: leaf"), no_leaked_nodes(cycles=False):
        circle()
    assert gc.isenabled()


def test_an_error_in_the_block_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), no_leaked_nodes(cycles=False):
        _ = 1 / 0
    assert gc.isenabled()
