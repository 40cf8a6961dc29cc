from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import intermodal as im
from intermodal.autodiff import budget, checkpointing, detect_anomaly, segment
from intermodal.testing import no_leaked_nodes

SIZE = 64 * 64 * 8  # bytes of one value in the program below


def program(x: im.Tensor, layers: int = 12) -> im.Tensor:
    h = x
    for i in range(layers):
        h = im.exp(-h * h) * 0.5 + h
        if i % 4 == 3:
            h = h @ x * 0.01
    return im.sum(h)


def start(device: im.Device) -> im.Tensor:
    values = np.random.default_rng(0).normal(size=(64, 64))
    return im.asarray(values, device=device).require_grad()


STRATEGIES = {"none": "none", "balanced": "balanced", "budget": budget(8 * SIZE)}


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_gives_the_same_gradient(name: str, device: im.Device) -> None:
    x = start(device)
    plain = program(x).backward()[x].numpy()
    with checkpointing(STRATEGIES[name]) as report:
        y = program(x)
    np.testing.assert_array_equal(y.backward()[x].numpy(), plain)
    del y
    assert report.saved == 0


def test_none_computes_nothing_again_and_balanced_keeps_less_while_the_program_runs(device: im.Device) -> None:
    x = start(device)
    with checkpointing("none") as everything:
        y = program(x)
    with checkpointing("balanced") as balanced:
        z = program(x)
    assert everything.recomputed == 0
    assert balanced.saved < everything.saved / 3
    z.backward()
    assert balanced.recomputations > 0
    del y, z


@pytest.mark.parametrize("values", [5, 8, 20])
def test_a_budget_is_kept_forward_and_backward(values: int, device: im.Device) -> None:
    x = start(device)
    with checkpointing(budget(values * SIZE)) as report:
        y = program(x)
    assert report.peak <= values * SIZE
    y.backward()
    assert report.peak <= values * SIZE
    assert report.recomputations > 0


def test_a_budget_that_cannot_be_kept_is_refused_with_what_is_needed(device: im.Device) -> None:
    with (
        checkpointing(budget(1000)),
        pytest.raises(im.GradientError, match=r"32,768 bytes are needed at once, and the limit is 1,000"),
    ):
        program(start(device))


def test_a_second_derivative_works_under_every_strategy(device: im.Device) -> None:
    x = im.asarray([0.5, 1.5], device=device, dtype="float64")

    def slope(x: im.Tensor) -> im.Tensor:
        return im.sum(im.grad(lambda v: im.sum(im.exp(v * v)))(x))

    plain = im.grad(slope)(x).numpy()
    for strategy in STRATEGIES.values():
        with checkpointing(strategy):
            np.testing.assert_allclose(im.grad(slope)(x).numpy(), plain, rtol=1e-14)


@pytest.mark.parametrize("strategy", ["all", "", 3])
def test_an_unknown_strategy_is_answered_with_the_known_ones(strategy: Any) -> None:
    with (
        pytest.raises(im.InvalidValueError, match=r"no strategy. Use 'none', 'balanced', or im.autodiff.budget"),
        checkpointing(strategy),
    ):
        pass
    with pytest.raises(im.InvalidValueError, match="no limit"):
        budget(0)


def test_a_segment_keeps_its_arguments_alone_and_random_numbers_come_again(device: im.Device) -> None:
    x = start(device)
    drawn: list[np.ndarray[Any, Any]] = []

    def noisy(x: im.Tensor, scale: float) -> im.Tensor:
        noise = im.random.normal(x.shape, dtype=x.dtype, device=x.device)
        drawn.append(noise.numpy())
        return im.exp(-x * x) * noise * scale

    with checkpointing("none") as report:
        y = im.sum(segment(noisy)(x, 2.0))
    assert report.saved == 0
    gradient = y.backward()[x].numpy()
    np.testing.assert_array_equal(drawn[0], drawn[1])
    values = x.numpy()
    np.testing.assert_allclose(gradient, -2 * values * np.exp(-values * values) * drawn[0] * 2.0, rtol=1e-12)


def test_segments_of_trees_and_several_results_nest(device: im.Device) -> None:
    p = {"w": im.asarray([1.0, 2.0], device=device).require_grad(), "b": im.asarray(3.0, device=device).require_grad()}

    @segment
    def inner(v: im.Tensor) -> im.Tensor:
        return v * v

    @segment
    def outer(p: dict[str, im.Tensor]) -> tuple[im.Tensor, im.Tensor]:
        return inner(p["w"]) * p["b"], p["w"] + p["b"]

    first, second = outer(p)
    with no_leaked_nodes():
        grads = (im.sum(first) + im.sum(second)).backward()
        assert grads[p["w"]].tolist() == [7.0, 13.0]
        assert grads[p["b"]].item() == 7.0
        del first, second, grads


def test_a_segment_that_closes_over_a_tracked_tensor_says_so(device: im.Device) -> None:
    x, hidden = start(device), start(device)
    y = im.sum(segment(lambda v: v * hidden)(x))
    with pytest.raises(im.GradientError, match="closes over a tracked tensor"):
        y.backward()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_anomaly_names_the_line_whose_derivative_is_nan(device: im.Device) -> None:
    x = im.asarray([0.0, 1.0], device=device).require_grad()
    with detect_anomaly():
        y = im.sum(im.log(x) * 0.0 * x)  # the line to be found
    with pytest.raises(im.GradientError, match=r"derivative of \w+ is NaN") as found:
        y.backward()
    assert re.search(r"test_checkpoint.py.*\n.*the line to be found", str(found.value))
