"""Activations against SciPy and the formulas in float64, with natives and as decompositions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from primitives_only import WAYS, open_device
from scipy import special

import intermodal as im

# Each step of a formula rounds once; the longest has ten steps, and exp and tanh are good to a few units themselves.
STEPS = 32
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
EDGES = [0.0, -0.0, 1e-7, -1e-7, 3.0, -3.0, 6.0, 20.0, -20.0, 88.0, -88.0, 104.0, -104.0, 700.0, -700.0, 1e4, -1e4]


@pytest.fixture(params=WAYS)
def device(request: pytest.FixtureRequest) -> Iterator[im.Device]:
    with open_device(request.param) as opened:
        yield opened


def softplus(x: Any) -> Any:
    return np.logaddexp(x, 0)


FORMULAS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "relu": (lambda x: np.maximum(x, 0), {}),
    "relu6": (lambda x: np.clip(x, 0, 6), {}),
    "leaky_relu": (lambda x, negative_slope: np.where(x < 0, negative_slope * x, x), {"negative_slope": 0.2}),
    "elu": (lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)), {"alpha": 1.5}),
    "selu": (lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), {}),
    "gelu": (lambda x: x * special.ndtr(x), {}),
    "sigmoid": (special.expit, {}),
    "log_sigmoid": (special.log_expit, {}),
    "hard_sigmoid": (lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), {"alpha": 0.2, "beta": 0.4}),
    "silu": (lambda x: x * special.expit(x), {}),
    "hard_swish": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), {}),
    "softplus": (lambda x, beta: softplus(beta * x) / beta, {"beta": 2.0}),
    "mish": (lambda x: x * np.tanh(softplus(x)), {}),
    "softsign": (lambda x: x / (1 + np.abs(x)), {}),
}
ALONG_AXIS: dict[str, Callable[..., Any]] = {
    "softmax": special.softmax,
    "log_softmax": special.log_softmax,
    "softmin": lambda x, axis: special.softmax(-x, axis=axis),
}


def on(device: im.Device, values: Any, dtype: str) -> tuple[im.Tensor, np.ndarray]:
    """The values on a device, and in float64 as the dtype rounded them."""
    x = im.astype(im.asarray(np.asarray(values, np.float64), device=device), dtype)
    return x, x.numpy().astype(np.float64)


def check(got: im.Tensor, want: np.ndarray, dtype: str) -> None:
    assert got.dtype.name == dtype
    eps = EPS[dtype]
    limit = float(im.finfo(dtype).max)
    want = np.where(np.abs(want) > limit, np.copysign(np.inf, want), want)
    np.testing.assert_allclose(got.numpy().astype(np.float64), want, rtol=STEPS * eps, atol=STEPS * eps)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("name", FORMULAS)
def test_an_activation_is_its_formula(name: str, dtype: str, device: im.Device) -> None:
    formula, attrs = FORMULAS[name]
    values = np.concatenate([np.random.default_rng(1).normal(size=200) * 4, EDGES])
    x, exact = on(device, values, dtype)
    check(getattr(im.nn, name)(x, **attrs), formula(exact, **attrs), dtype)


@pytest.mark.parametrize("dtype", EPS)
def test_the_tanh_form_of_gelu_is_the_published_approximation(dtype: str, device: im.Device) -> None:
    x, exact = on(device, np.linspace(-6, 6, 101), dtype)
    want = 0.5 * exact * (1 + np.tanh(math.sqrt(2 / math.pi) * (exact + 0.044715 * exact**3)))
    check(im.nn.gelu(x, approximate="tanh"), want, dtype)


def test_the_two_forms_of_gelu_differ(device: im.Device) -> None:
    x = im.asarray([2.0], device=device, dtype=im.float64)
    gap = float(im.abs(im.nn.gelu(x) - im.nn.gelu(x, approximate="tanh"))[0])
    assert 5e-5 < gap < 5e-4


@pytest.mark.parametrize("name", [*FORMULAS, *ALONG_AXIS])
def test_nan_stays_nan(name: str, device: im.Device) -> None:
    x = im.asarray([1.0, math.nan], device=device)
    assert math.isnan(float(getattr(im.nn, name)(x)[1]))


@pytest.mark.parametrize("name", ["relu", "sigmoid", "log_sigmoid", "softplus", "relu6", "elu", "leaky_relu", "hard_sigmoid"])
def test_infinities_go_to_the_limit(name: str, device: im.Device) -> None:
    formula, attrs = FORMULAS[name]
    x = im.asarray([math.inf, -math.inf], device=device)
    np.testing.assert_allclose(
        getattr(im.nn, name)(x, **attrs).numpy(), formula(np.array([math.inf, -math.inf]), **attrs), rtol=1e-6
    )


@pytest.mark.parametrize("name", ["sigmoid", "silu", "softplus", "gelu"])
def test_the_lower_tail_keeps_its_digits(name: str, device: im.Device) -> None:
    """The results are far below the rounding of 1, so a formula that passes through 1 would lose them."""
    x = im.asarray([-10.0, -30.0], device=device, dtype=im.float64)
    formula, attrs = FORMULAS[name]
    # The exponent of gelu, 30 * 30 / 2, is rounded, and exp turns its error of 450 units into one of the result.
    tolerance = 2e-13 if name == "gelu" else 1e-14
    np.testing.assert_allclose(getattr(im.nn, name)(x, **attrs).numpy(), formula(x.numpy(), **attrs), rtol=tolerance)


def test_relu_takes_integers(device: im.Device) -> None:
    x = im.asarray([-3, 0, 9], device=device, dtype=im.int8)
    assert im.nn.relu(x).tolist() == [0, 0, 9]
    assert im.nn.relu6(x).tolist() == [0, 0, 6]
    assert im.nn.relu(x).dtype is im.int8


def test_the_other_activations_name_the_cast_that_integers_need(device: im.Device) -> None:
    with pytest.raises(im.DTypeError, match=r"sigmoid: the input has dtype int64, but this op takes real floating\. Cast it"):
        im.nn.sigmoid(im.asarray([1], device=device))


def test_prelu_has_one_slope_for_all_or_one_for_each_channel(device: im.Device) -> None:
    a = np.random.default_rng(2).normal(size=(2, 3, 4))
    x, slopes = im.asarray(a, device=device), np.array([0.1, 0.2, 0.3])
    each = im.nn.prelu(x, im.asarray(slopes, device=device))
    np.testing.assert_array_equal(each.numpy(), np.where(a < 0, a * slopes[:, None], a))
    one = im.nn.prelu(x, im.asarray(0.5, device=device, dtype=im.float64))
    np.testing.assert_array_equal(one.numpy(), np.where(a < 0, a * 0.5, a))
    with pytest.raises(im.ShapeError, match=r"prelu: weight has shape \(2,\).*needs one slope, or 3 for its channels"):
        im.nn.prelu(x, im.asarray([0.1, 0.2], device=device))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("name", ALONG_AXIS)
def test_softmax_and_its_kin_agree_with_scipy_along_any_axis(name: str, dtype: str, axis: int, device: im.Device) -> None:
    x, exact = on(device, np.random.default_rng(3).normal(size=(4, 5, 6)) * 5, dtype)
    check(getattr(im.nn, name)(x, axis=axis), ALONG_AXIS[name](exact, axis=axis), dtype)


def test_softmax_of_a_line_of_minus_infinity_is_zero(device: im.Device) -> None:
    x = im.asarray([[-math.inf] * 3, [0.0, -math.inf, 0.0]], device=device)
    assert im.nn.softmax(x).tolist() == [[0.0, 0.0, 0.0], [0.5, 0.0, 0.5]]
    assert im.nn.log_softmax(x).tolist()[0] == [-math.inf] * 3
    assert im.nn.softmin(-x).tolist()[0] == [0.0, 0.0, 0.0]


def test_softmax_does_not_overflow(device: im.Device) -> None:
    x = im.asarray([1e30, 1e30, -1e30], device=device)
    assert im.nn.softmax(x).tolist() == [0.5, 0.5, 0.0]
    np.testing.assert_allclose(im.nn.log_softmax(x).numpy(), [math.log(0.5), math.log(0.5), -2e30], rtol=1e-6)


def test_softmax_of_many_small_floats_adds_up_in_float32(device: im.Device) -> None:
    """In float16 the sum of 2**17 ones is infinite, in bfloat16 it stops at 256."""
    for dtype in ("float16", "bfloat16"):
        y = im.nn.softmax(im.zeros((2**17,), dtype=dtype, device=device))
        assert float(y[0]) == 2.0**-17


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty_tensors_stay_empty(shape: tuple[int, ...], device: im.Device) -> None:
    x = im.zeros(shape, device=device)
    for name in (*FORMULAS, *ALONG_AXIS):
        assert getattr(im.nn, name)(x).shape == shape


def test_elementwise_activations_take_0d_tensors_and_softmax_does_not(device: im.Device) -> None:
    x = im.asarray(1.5, device=device)
    for name in FORMULAS:
        assert getattr(im.nn, name)(x).shape == ()
    with pytest.raises(im.AxisError, match="softmax: axis -1 is out of range for 0 dimensions"):
        im.nn.softmax(x)


def test_views_with_negative_strides_are_read_in_their_order(device: im.Device) -> None:
    x = im.asarray(np.linspace(-3, 3, 12).reshape(3, 4), device=device)
    for name in ("softmax", "sigmoid", "gelu", "softplus"):
        function = getattr(im.nn, name)
        turned = function(im.flip(x).T)
        np.testing.assert_allclose(turned.numpy(), np.flip(function(x, **({"axis": 0} if name == "softmax" else {})).numpy()).T)


def test_glu_gates_the_first_half_by_the_second(device: im.Device) -> None:
    a = np.random.default_rng(4).normal(size=(4, 6))
    x = im.asarray(a, device=device)
    np.testing.assert_allclose(im.nn.glu(x).numpy(), a[:, :3] * special.expit(a[:, 3:]))
    np.testing.assert_allclose(im.nn.glu(x, axis=0).numpy(), a[:2] * special.expit(a[2:]))
    with pytest.raises(im.ShapeError, match=r"glu: axis 1 of shape \(4, 5\) has 5 elements, which do not halve"):
        im.nn.glu(x[:, :5])


def test_unknown_choices_are_refused_with_the_known_ones(device: im.Device) -> None:
    x = im.asarray([1.0], device=device)
    with pytest.raises(im.InvalidValueError, match=r"gelu: approximate 'erf' is not known\. Use one of 'none', 'tanh'"):
        im.nn.gelu(x, approximate="erf")
    with pytest.raises(im.InvalidValueError, match="softplus: beta 0 must be greater than 0"):
        im.nn.softplus(x, beta=0)


def test_shapes_follow_without_data() -> None:
    x = im.zeros((2, 4), device="meta:cpu")
    for name in (*FORMULAS, *ALONG_AXIS):
        assert getattr(im.nn, name)(x).shape == (2, 4)
    assert im.nn.glu(x).shape == (2, 2)
    assert im.nn.prelu(x, im.zeros((4,), device="meta:cpu")).shape == (2, 4)


finite = st.floats(-1e4, 1e4, width=32)


@settings(deadline=None)  # a deadline would measure the machine's other load
@given(st.lists(finite, min_size=1, max_size=20), finite)
def test_softmax_adds_up_to_one_and_does_not_see_a_shift(values: list[float], shift: float) -> None:
    for way in WAYS:
        with open_device(way) as device:
            x = im.asarray(values, dtype=im.float64, device=device)
            y = im.nn.softmax(x)
            assert float(im.sum(y)) == pytest.approx(1.0, abs=1e-14)
            # x + shift is off by half a unit of at most 2e4, which is 2e-12, and exp carries that over.
            np.testing.assert_allclose(im.nn.softmax(x + shift).numpy(), y.numpy(), atol=1e-11)


@settings(deadline=None)  # a deadline would measure the machine's other load
@given(st.lists(finite, min_size=1, max_size=20))
def test_sigmoid_of_both_signs_adds_up_to_one(values: list[float]) -> None:
    for way in WAYS:
        with open_device(way) as device:
            x = im.asarray(values, dtype=im.float64, device=device)
            np.testing.assert_allclose((im.nn.sigmoid(x) + im.nn.sigmoid(-x)).numpy(), 1.0, rtol=4e-16)
