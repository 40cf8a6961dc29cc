from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import intermodal as im
from intermodal.autodiff import trees
from intermodal.errors import ArgumentError, InvalidValueError, ShapeError

optim = im.optim
STEPS = 20
# Parameters and gradients stay below 8. In a step each parameter, and what it is moved by, is rounded at most 16 times.
BOUND = STEPS * 16 * 8 * float(np.finfo(np.float64).eps)

OPTIMIZERS: dict[str, tuple[Callable[[Any], Any], str, dict[str, Any]]] = {
    "SGD": (optim.SGD, "SGD", {}),
    "SGD with decay": (lambda rate: optim.SGD(rate, weight_decay=0.1), "SGD", {"weight_decay": 0.1}),
    "momentum": (lambda rate: optim.SGD(rate, momentum=0.9), "SGD", {"momentum": 0.9}),
    "nesterov": (lambda rate: optim.SGD(rate, momentum=0.8, nesterov=True), "SGD", {"momentum": 0.8, "nesterov": True}),
    "Adam": (optim.Adam, "Adam", {}),
    "Adam with decay": (
        lambda rate: optim.Adam(rate, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1),
        "Adam",
        {"betas": (0.8, 0.99), "eps": 1e-6, "weight_decay": 0.1},
    ),
    "AdamW": (optim.AdamW, "AdamW", {}),
    "AdamW with decay": (lambda rate: optim.AdamW(rate, weight_decay=0.3), "AdamW", {"weight_decay": 0.3}),
}


def numbers(*shape: int, seed: int) -> Any:
    return np.random.default_rng(seed).uniform(-2, 2, shape)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("schedule", [None, optim.warmup(optim.cosine(0.05, STEPS, floor=0.01), 5)], ids=["fixed", "schedule"])
def test_twenty_steps_are_those_of_pytorch(name: str, schedule: Any, device: im.Device) -> None:
    torch = pytest.importorskip("torch")
    make, theirs, options = OPTIMIZERS[name]
    start = {"weight": numbers(3, 4, seed=0), "bias": [numbers(5, seed=1), numbers(seed=2)]}
    params = {
        "weight": im.asarray(start["weight"], device=device),
        "bias": [im.asarray(b, device=device) for b in start["bias"]],
    }
    optimizer = make(schedule or 0.05)
    state = optimizer.init(params)
    beside = [torch.nn.Parameter(torch.tensor(p.numpy())) for p in trees.leaves(params)]
    reference = getattr(torch.optim, theirs)(beside, lr=0.05, **options)
    for step in range(STEPS):
        grads = trees.map_leaves(lambda p, step=step: im.asarray(numbers(*p.shape, seed=100 + step), device=device), params)
        params, state = optimizer.update(params, grads, state)
        for p, g in zip(beside, trees.leaves(grads), strict=True):
            p.grad = torch.tensor(g.numpy())
        for group in reference.param_groups:
            group["lr"] = schedule(step) if schedule else 0.05
        reference.step()
        for p, q in zip(trees.leaves(params), beside, strict=True):
            assert p.dtype is im.float64
            np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=0, atol=BOUND)
    assert state.step == STEPS


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_of_complex_parameters_are_those_of_pytorch(name: str, device: im.Device) -> None:
    torch = pytest.importorskip("torch")
    make, theirs, options = OPTIMIZERS[name]
    optimizer, w = make(0.05), im.asarray(numbers(5, seed=0) + 1j * numbers(5, seed=1), device=device)
    state, beside = optimizer.init(w), torch.nn.Parameter(torch.tensor(w.numpy()))
    reference = getattr(torch.optim, theirs)([beside], lr=0.05, **options)
    for step in range(STEPS):
        g = numbers(5, seed=step) + 1j * numbers(5, seed=50 + step)
        w, state = optimizer.update(w, im.asarray(g, device=device), state)
        beside.grad = torch.tensor(g)
        reference.step()
    assert w.dtype is im.complex128
    np.testing.assert_allclose(w.numpy(), beside.detach().numpy(), rtol=0, atol=BOUND)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_changes_nothing_and_can_be_repeated(name: str, device: im.Device) -> None:
    optimizer = OPTIMIZERS[name][0](0.1)
    params = [im.asarray(numbers(4, seed=0), device=device)]
    grads = [im.asarray(numbers(4, seed=1), device=device)]
    state = optimizer.init(params)
    params, state = optimizer.update(params, grads, state)
    kept = [x.numpy().copy() for x in trees.leaves((params, grads, state.averages))]
    once, twice = optimizer.update(params, grads, state), optimizer.update(params, grads, state)
    for a, b in zip(trees.leaves(once), trees.leaves(twice), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    for x, before in zip(trees.leaves((params, grads, state.averages)), kept, strict=True):
        np.testing.assert_array_equal(x.numpy(), before)


@pytest.mark.parametrize("name", ["SGD", "momentum", "nesterov", "Adam"])  # decay would draw the parameters to 0
def test_an_optimizer_finds_the_bottom_of_a_bowl(name: str, device: im.Device) -> None:
    optimizer = OPTIMIZERS[name][0](optim.cosine(0.1, 300))
    w = im.asarray([3.0, -2.0], device=device)
    state = optimizer.init(w)
    for _ in range(300):
        w, state = optimizer.update(w, im.grad(lambda w: im.sum((w - 1.0) ** 2))(w), state)
    assert abs(w.numpy() - 1.0).max() < 1e-2


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_parameter_keeps_its_dtype_and_integers_stay_as_they_are(name: str, device: im.Device) -> None:
    params = [im.ones(3, dtype=d, device=device) for d in ("float32", "float64", "bfloat16")] + [im.arange(3, device=device)]
    optimizer = OPTIMIZERS[name][0](0.1)
    after, state = optimizer.update(params, params, optimizer.init(params))
    assert [p.dtype for p in after] == [p.dtype for p in params]
    assert after[3].tolist() == [0, 1, 2]
    assert all(float(p[0]) < 1.0 for p in after[:3])
    assert [[a.dtype for a in average] for average in state.averages] == [[p.dtype for p in params]] * optimizer.averages


def test_a_step_is_not_recorded_although_parameters_and_gradients_are_tracked(device: im.Device) -> None:
    optimizer, w = optim.Adam(), im.ones(2, device=device).require_grad()
    after, state = optimizer.update(w, w * 2.0, optimizer.init(w))
    assert not any(x.is_tracked for x in trees.leaves((after, state.averages)))


def test_a_tree_without_tensors_is_a_tree_too() -> None:
    optimizer = optim.Adam()
    assert optimizer.update({}, {}, optimizer.init({})) == ({}, (1, ({}, {})))


def test_the_averages_begin_at_zero_and_where_the_parameters_are(device: im.Device) -> None:
    state = optim.Adam().init([im.ones(2, device=device)])
    assert (state.step, [[a.tolist() for a in average] for average in state.averages]) == (0, [[[0.0, 0.0]]] * 2)
    assert {a.device for a in trees.leaves(state.averages)} == {device}
    assert optim.SGD(0.1).init([im.ones(2)]).averages == ()


# --- schedules -----------------------------------------------------------------------------------------------------


def test_a_constant_schedule_is_the_same_number() -> None:
    assert [optim.constant(0.5)(i) for i in (0, 10**9)] == [0.5, 0.5]


def test_cosine_goes_down_half_a_wave_and_stays_at_its_floor() -> None:
    rate = optim.cosine(1.0, 10, floor=0.2)
    assert [rate(i) for i in (0, 5, 10, 11, 10**9)] == pytest.approx([1.0, 0.6, 0.2, 0.2, 0.2])
    assert all(rate(i) > rate(i + 1) for i in range(10))
    assert rate(3) == pytest.approx(0.2 + 0.8 * (1 + math.cos(0.3 * math.pi)) / 2)
    assert optim.cosine(1.0, 0)(0) == 1.0


def test_warmup_is_a_line_to_the_schedule_it_begins() -> None:
    rate = optim.warmup(0.5, 4)
    assert [rate(i) for i in range(6)] == [0.125, 0.25, 0.375, 0.5, 0.5, 0.5]
    both = optim.warmup(optim.cosine(1.0, 10), 2)
    assert [both(i) / optim.cosine(1.0, 10)(i) for i in range(4)] == [0.5, 1.0, 1.0, 1.0]
    assert optim.warmup(0.5, 0)(0) == 0.5


def test_a_schedule_is_asked_with_the_number_of_steps_before(device: im.Device) -> None:
    asked: list[int] = []

    def rate(step: int) -> float:
        asked.append(step)
        return 1.0 + step

    descent, w = optim.SGD(rate), im.zeros(1, device=device)
    state = descent.init(w)
    for _ in range(3):
        w, state = descent.update(w, im.ones(1, device=device), state)
    assert (asked, w.tolist()) == ([0, 1, 2], [-6.0])


# --- clipping ------------------------------------------------------------------------------------------------------


def test_the_global_norm_is_the_length_of_all_numbers_together(device: im.Device) -> None:
    tree = {
        "a": im.asarray([3.0, 0.0], device=device),
        "b": (im.asarray([[4.0]], device=device), im.asarray(12.0, device=device)),
    }
    assert float(optim.global_norm(tree)) == 13.0
    assert float(optim.global_norm([im.asarray([3j, 4.0], device=device), im.asarray([7], device=device)])) == 5.0


def test_the_global_norm_of_float16_does_not_overflow(device: im.Device) -> None:
    norm = optim.global_norm([im.full(4, 30_000.0, dtype="float16", device=device)])
    assert (norm.dtype, float(norm)) == (im.float32, 60_000.0)


def test_gradients_above_the_limit_are_scaled_down_together(device: im.Device) -> None:
    grads = [im.asarray([16.0], dtype="float64", device=device), im.asarray([12.0], dtype="float32", device=device)]
    clipped = optim.clip_by_global_norm(grads, 1.0)
    assert [g.dtype for g in clipped] == [im.float64, im.float32]
    assert [float(g[0]) for g in clipped] == pytest.approx([0.8, 0.6], rel=1e-6)


def test_gradients_below_the_limit_stay_bit_for_bit(device: im.Device) -> None:
    grads = [im.asarray(numbers(5, seed=3), device=device), im.asarray([1, 2], device=device)]
    for g, c in zip(grads, optim.clip_by_global_norm(grads, 100.0), strict=True):
        np.testing.assert_array_equal(g.numpy(), c.numpy())


def test_gradients_of_zero_stay_zero_and_nan_is_not_hidden(device: im.Device) -> None:
    assert optim.clip_by_global_norm(im.zeros(2, device=device), 1.0).tolist() == [0.0, 0.0]
    assert np.isnan(optim.clip_by_global_norm(im.asarray([1.0, math.nan], device=device), 1.0).numpy()).all()


def test_clipping_is_that_of_pytorch(device: im.Device) -> None:
    torch = pytest.importorskip("torch")
    values = [numbers(4, 3, seed=i) for i in range(3)]
    beside = [torch.nn.Parameter(torch.zeros(4, 3, dtype=torch.float64)) for _ in values]
    for p, v in zip(beside, values, strict=True):
        p.grad = torch.tensor(v)
    torch.nn.utils.clip_grad_norm_(beside, 2.0)
    clipped = optim.clip_by_global_norm([im.asarray(v, device=device) for v in values], 2.0)
    for p, c in zip(beside, clipped, strict=True):
        np.testing.assert_allclose(c.numpy(), p.grad.numpy(), rtol=40 * np.finfo(np.float64).eps)  # sums of 36 squares


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.SGD(-0.1), r"^learning_rate: -0\.1 is not in \[0\.0, inf\)\.$"),
        (lambda: optim.SGD(math.nan), "learning_rate: nan"),
        (lambda: optim.SGD(0.1, momentum=1.0), r"^momentum: 1\.0 is not in \[0\.0, 1\.0\)\.$"),
        (lambda: optim.SGD(0.1, weight_decay=-1.0), "weight_decay"),
        (lambda: optim.SGD(0.1, nesterov=True), r"^nesterov: .*momentum=0\.9"),
        (lambda: optim.Adam(betas=(0.9, 1.0)), "betas: 1.0"),
        (lambda: optim.AdamW(eps=-1e-8), "eps"),
        (lambda: optim.AdamW(weight_decay=-1.0), "weight_decay"),
        (lambda: optim.clip_by_global_norm(im.ones(2), -1.0), "limit: -1.0"),
        (lambda: optim.global_norm([im.arange(3)]), "global_norm: the tree has no floating-point tensor"),
    ],
)
def test_a_setting_without_meaning_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("grads", "error", "message"),
    [
        ({"v": im.ones(2)}, ArgumentError, r"two trees differ: a dict with \[\"\['w'\]\"\] stands against a dict"),
        ([im.ones(2)], ArgumentError, "stands against a list"),
        ({"w": im.ones(1)}, ShapeError, r"update: a parameter of shape \(2,\) got as its gradient one of shape \(1,\)"),
        ({"w": None}, ShapeError, "got as its gradient a NoneType"),
    ],
    ids=["other keys", "other kind", "other shape", "none"],
)
def test_gradients_of_another_form_are_refused(grads: object, error: type[Exception], message: str) -> None:
    optimizer, params = optim.SGD(0.1), {"w": im.ones(2)}
    with pytest.raises(error, match=message):
        optimizer.update(params, grads, optimizer.init(params))
