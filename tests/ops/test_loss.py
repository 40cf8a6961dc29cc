"""Losses against their definitions in float64; the sum over all readings for `ctc_loss`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from primitives_only import WAYS, open_device
from scipy import spatial, special

import intermodal as im

EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
REDUCTIONS = {"mean": np.mean, "sum": np.sum, "none": np.asarray}


@pytest.fixture(params=WAYS)
def device(request: pytest.FixtureRequest) -> Iterator[im.Device]:
    with open_device(request.param) as opened:
        yield opened


def on(device: im.Device, a: Any, dtype: str = "float64") -> im.Tensor:
    return im.astype(im.asarray(np.asarray(a), device=device), dtype)


def check(got: im.Tensor, want: Any, dtype: str = "float64") -> None:
    # Sums of at most sixty losses below 20, of a dozen steps each, in float32 or wider; the result is rounded once.
    assert got.dtype.name == dtype
    inner = min(EPS[dtype], EPS["float32"])
    np.testing.assert_allclose(got.numpy().astype(np.float64), want, rtol=EPS[dtype] + 60 * inner, atol=20 * 12 * inner)


# --- of numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_mse_loss_is_the_squared_difference(reduction: str, dtype: str, device: im.Device) -> None:
    rng = np.random.default_rng(1)
    x, y = on(device, rng.normal(size=(3, 4)), dtype), on(device, rng.normal(size=(3, 4)), dtype)
    want = (x.numpy().astype(float) - y.numpy().astype(float)) ** 2
    check(im.nn.mse_loss(x, y, reduction=reduction), REDUCTIONS[reduction](want), dtype)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_binary_cross_entropy_is_that_of_the_sigmoid(weighted: bool, reduction: str, dtype: str, device: im.Device) -> None:
    rng = np.random.default_rng(2)
    x, y = on(device, rng.normal(size=(3, 4)) * 3, dtype), on(device, rng.random((3, 4)), dtype)
    weight, pos = on(device, rng.random((3, 1)), dtype), on(device, rng.random(4) + 0.5, dtype)
    a, t, w, p = (v.numpy().astype(np.float64) for v in (x, y, weight, pos))
    want = -(p if weighted else 1) * t * special.log_expit(a) - (1 - t) * special.log_expit(-a)
    factors = (weight, pos) if weighted else ()
    got = im.nn.binary_cross_entropy_with_logits(x, y, *factors, reduction=reduction)
    check(got, REDUCTIONS[reduction](want * w if weighted else want), dtype)


def test_binary_cross_entropy_keeps_the_digits_of_sure_answers(device: im.Device) -> None:
    got = im.nn.binary_cross_entropy_with_logits(
        on(device, [40.0, -40.0], "float32"), on(device, [1.0, 0.0], "float32"), reduction="none"
    )
    np.testing.assert_allclose(got.numpy(), math.exp(-40), rtol=1e-6)
    lost = im.nn.binary_cross_entropy_with_logits(on(device, [1e4, -1e4]), on(device, [0.0, 1.0]), reduction="none")
    assert lost.tolist() == [1e4, 1e4]


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("axis", [0, -1])
def test_cosine_similarity_agrees_with_scipy(axis: int, dtype: str, device: im.Device) -> None:
    rng = np.random.default_rng(3)
    x, y = on(device, rng.normal(size=(4, 5)), dtype), on(device, rng.normal(size=(4, 5)), dtype)
    a, b = (np.moveaxis(v.numpy().astype(np.float64), axis, -1) for v in (x, y))
    want = [1 - spatial.distance.cosine(u, v) for u, v in zip(a, b, strict=True)]
    check(im.nn.cosine_similarity(x, y, axis=axis), want, dtype)


def test_cosine_similarity_broadcasts_and_is_zero_for_the_zero_vector(device: im.Device) -> None:
    x = on(device, [[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(im.nn.cosine_similarity(x, on(device, [6.0, 8.0])).numpy(), [1.0, 0.0])
    # A vector shorter than eps counts as that long.
    np.testing.assert_allclose(
        im.nn.cosine_similarity(on(device, [[0.5, 0.0]]), on(device, [[1.0, 0.0]]), eps=2.0).numpy(), [0.125]
    )


# --- of classes --------------------------------------------------------------------------------------------------

SHAPES = [((6, 4), 1), ((3, 4, 5), 1), ((2, 3, 4), -1), ((4,), 0)]


def logs_and_targets(shape: tuple[int, ...], axis: int, ignore: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    rest = tuple(n for i, n in enumerate(shape) if i != axis % len(shape))
    targets = rng.integers(0, shape[axis], rest)
    if ignore:
        targets.flat[0] = -100
    return rng.normal(size=shape) * 2, targets


def class_losses(logs: np.ndarray, targets: np.ndarray, axis: int, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each target its loss and its weight; both 0 where it does not count."""
    lines = np.moveaxis(logs, axis, -1)
    losses, weights = np.zeros(targets.shape), np.zeros(targets.shape)
    for i in np.ndindex(targets.shape):
        if targets[i] != -100:
            losses[i], weights[i] = -lines[i][targets[i]], weight[targets[i]]
    return losses, weights


def reduce(losses: np.ndarray, weights: np.ndarray, reduction: str) -> Any:
    return (losses * weights).sum() / weights.sum() if reduction == "mean" else REDUCTIONS[reduction](losses * weights)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_nll_loss_and_cross_entropy_weigh_the_true_class(
    shape: tuple[int, ...], axis: int, weighted: bool, reduction: str, dtype: str, device: im.Device
) -> None:
    a, targets = logs_and_targets(shape, axis, ignore=len(shape) > 1)
    x = on(device, a, dtype)
    weight = on(device, np.random.default_rng(5).random(4) + 0.5, dtype)
    a, w = x.numpy().astype(np.float64), weight.numpy().astype(np.float64) if weighted else np.ones(4)
    attrs: dict[str, Any] = {"axis": axis, "reduction": reduction}
    given_weight = (weight,) if weighted else ()
    check(
        im.nn.nll_loss(x, on(device, targets, "int64"), *given_weight, **attrs),
        reduce(*class_losses(a, targets, axis, w), reduction),
        dtype,
    )
    logs = special.log_softmax(a, axis=axis)
    got = im.nn.cross_entropy(x, on(device, targets, "int32"), *given_weight, **attrs)
    check(got, reduce(*class_losses(logs, targets, axis, w), reduction), dtype)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2, 1.0])
def test_label_smoothing_spreads_part_of_the_target_over_all_classes(
    smoothing: float, weighted: bool, reduction: str, device: im.Device
) -> None:
    a, targets = logs_and_targets((5, 4, 3), 1, ignore=True)
    w = np.random.default_rng(6).random(4) + 0.5 if weighted else np.ones(4)
    logs = special.log_softmax(a, axis=1)
    losses, weights = class_losses(logs, targets, 1, w)
    spread = np.where(targets == -100, 0.0, -(logs * w[:, None]).sum(1))
    parts = [(losses * weights, 1 - smoothing), (spread, smoothing / 4)]
    want = sum(REDUCTIONS[reduction](p) * f if reduction != "mean" else p.sum() / weights.sum() * f for p, f in parts)
    given_weight = (on(device, w),) if weighted else ()
    got = im.nn.cross_entropy(
        on(device, a), on(device, targets, "int64"), *given_weight, label_smoothing=smoothing, reduction=reduction
    )
    check(got, want)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_a_target_of_probabilities_is_averaged_over_the_classes(smoothing: float, reduction: str, device: im.Device) -> None:
    rng = np.random.default_rng(7)
    a, w = rng.normal(size=(3, 4, 2)), rng.random(4)
    p = np.moveaxis(rng.dirichlet(np.ones(4), (3, 2)), -1, 1)
    mixed = p * (1 - smoothing) + smoothing / 4
    want = -(mixed * special.log_softmax(a, axis=1) * w[:, None]).sum(1)
    got = im.nn.cross_entropy(on(device, a), on(device, p), on(device, w), label_smoothing=smoothing, reduction=reduction)
    check(got, REDUCTIONS[reduction](want))


def test_what_cannot_be_and_is_not_meant_costs_nothing(device: im.Device) -> None:
    x, p = on(device, [[0.0, -math.inf, 0.0]]), on(device, [[0.5, 0.0, 0.5]])
    check(im.nn.cross_entropy(x, p), math.log(2))


def test_an_ignored_target_costs_nothing_even_where_all_is_impossible(device: im.Device) -> None:
    x = on(device, [[-math.inf, 0.0], [0.0, 0.0]])
    check(im.nn.nll_loss(x, on(device, [7, 0], "int64"), ignore_index=7), 0.0)
    check(im.nn.cross_entropy(x, on(device, [7, 0], "int64"), ignore_index=7), math.log(2))
    assert math.isnan(float(im.nn.nll_loss(x, on(device, [7, 7], "int64"), ignore_index=7)))


@pytest.mark.parametrize("wrong", [4, -1])
def test_a_class_that_there_is_not_raises(wrong: int, device: im.Device) -> None:
    x = im.zeros((2, 4), device=device)
    for function in (im.nn.nll_loss, im.nn.cross_entropy):
        with pytest.raises(im.IndexRangeError, match="4"):
            function(x, on(device, [0, wrong], "int64"))


def test_shapes_that_do_not_fit_are_refused(device: im.Device) -> None:
    x = im.zeros((2, 4, 3), device=device)
    with pytest.raises(
        im.ShapeError,
        match=r"cross_entropy: the input has shape \(2, 4, 3\) with classes along axis 1, so the target needs shape \(2, 3\)",
    ):
        im.nn.cross_entropy(x, im.zeros((2, 4), dtype=im.int64, device=device))
    with pytest.raises(
        im.ShapeError, match=r"cross_entropy: a target of probabilities needs the input's shape \(2, 4, 3\), but has \(2, 3\)"
    ):
        im.nn.cross_entropy(x, im.zeros((2, 3), device=device))
    with pytest.raises(im.ShapeError, match=r"nll_loss: weight has shape \(3,\), but there are 4 classes"):
        im.nn.nll_loss(x, im.zeros((2, 3), dtype=im.int64, device=device), im.zeros((3,), device=device))
    with pytest.raises(im.DTypeError, match="nll_loss: the target has dtype float32"):
        im.nn.nll_loss(x, im.zeros((2, 3), device=device))
    with pytest.raises(im.ShapeError, match=r"mse_loss: the input has shape \(2, 4, 3\), the target \(3,\)\. Both must be equal"):
        im.nn.mse_loss(x, im.zeros((3,), device=device))
    with pytest.raises(im.InvalidValueError, match=r"mse_loss: reduction 'avg' is not known\. Use one of 'mean', 'sum', 'none'"):
        im.nn.mse_loss(x, x, reduction="avg")
    with pytest.raises(im.InvalidValueError, match="cross_entropy: label_smoothing 2 must lie between 0 and 1"):
        im.nn.cross_entropy(x, im.zeros((2, 3), dtype=im.int64, device=device), label_smoothing=2)
    with pytest.raises(im.ShapeError, match=r"binary_cross_entropy_with_logits: pos_weight has shape \(1, 2, 4, 3\)"):
        im.nn.binary_cross_entropy_with_logits(x, x, pos_weight=x[None])


# --- of sequences ------------------------------------------------------------------------------------------------


def read(path: tuple[int, ...], blank: int) -> list[int]:
    """What a sequence of classes reads as: repetitions are one, blanks are nothing."""
    return [c for c, _ in groupby(path) if c != blank]


def by_all_readings(logs: np.ndarray, target: list[int], blank: int) -> float:
    """The sum over every sequence of classes that reads as the target."""
    steps, classes = logs.shape
    paths = (p for p in product(range(classes), repeat=steps) if read(p, blank) == target)
    total = sum(math.exp(sum(logs[t, c] for t, c in enumerate(path))) for path in paths)
    return -math.log(total) if total > 0 else math.inf


def ctc_case(
    seed: int, steps: int, classes: int, longest: int, blank: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    logs = np.log(rng.dirichlet(np.ones(classes), (steps, 4)))
    others = [c for c in range(classes) if c != blank]
    return logs, rng.choice(others, (4, longest)), rng.integers(0, steps + 1, 4), rng.integers(0, longest + 1, 4)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(("seed", "blank"), [(1, 0), (2, 2), (3, 1)])
def test_ctc_loss_sums_over_all_readings(seed: int, blank: int, dtype: str, device: im.Device) -> None:
    logs, targets, times, lengths = ctc_case(seed, 5, 3, 3, blank)
    x = on(device, logs, dtype)
    exact = x.numpy().astype(np.float64)
    want = [by_all_readings(exact[: times[i], i], list(targets[i, : lengths[i]]), blank) for i in range(4)]
    args = (on(device, targets, "int32"), on(device, times, "int64"), on(device, lengths, "int64"))
    got = im.nn.ctc_loss(x, *args, blank=blank, reduction="none")
    check(got, want, dtype)
    finite = np.where(np.isinf(want), 0.0, want)
    check(im.nn.ctc_loss(x, *args, blank=blank, reduction="none", zero_infinity=True), finite, dtype)
    check(im.nn.ctc_loss(x, *args, blank=blank, reduction="sum", zero_infinity=True), finite.sum(), dtype)
    check(im.nn.ctc_loss(x, *args, blank=blank, zero_infinity=True), (finite / np.maximum(lengths, 1)).mean(), dtype)


def test_ctc_loss_knows_repetitions_impossible_targets_and_empty_ones(device: im.Device) -> None:
    sure = np.log(np.array([[1e-30, 1.0], [1e-30, 1.0], [1.0, 1e-30], [1e-30, 1.0]]))[:, None]
    x = on(device, np.repeat(sure, 4, axis=1))
    targets = on(device, [[1, 1], [1, 1], [1, 0], [0, 0]], "int64")
    got = im.nn.ctc_loss(
        x, targets, on(device, [4, 2, 0, 0], "int64"), on(device, [2, 2, 1, 0], "int64"), reduction="none"
    ).numpy()
    np.testing.assert_allclose(got, [0.0, math.inf, math.inf, 0.0], atol=1e-12)


def test_what_lies_past_a_target_is_not_looked_at(device: im.Device) -> None:
    logs, targets, times, lengths = ctc_case(4, 5, 4, 3, 0)
    filled = np.where(np.arange(3) < lengths[:, None], targets, -1)
    one, other = (
        im.nn.ctc_loss(
            on(device, logs), on(device, t, "int64"), on(device, times, "int64"), on(device, lengths, "int64"), reduction="none"
        )
        for t in (targets, filled)
    )
    np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_impossible_classes_give_infinity_and_not_nan(device: im.Device) -> None:
    x = on(device, [[[0.0, -math.inf]], [[0.0, -math.inf]]])
    one = on(device, [1], "int64")
    assert im.nn.ctc_loss(x, on(device, [[1]], "int64"), one + 1, one, reduction="none").tolist() == [math.inf]


@settings(deadline=None)  # a deadline would measure the machine's other load
@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 99))
def test_the_readings_of_all_targets_together_are_certain(steps: int, classes: int, seed: int) -> None:
    """Every sequence reads as something, so the probabilities of all targets add up to 1."""
    logs = np.log(np.random.default_rng(seed).dirichlet(np.ones(classes + 1), steps))
    every = sorted({tuple(read(path, 0)) for path in product(range(classes + 1), repeat=min(steps, 4))})
    logs = logs[: min(steps, 4)]
    padded = np.zeros((len(every), 4), int)
    for i, target in enumerate(every):
        padded[i, : len(target)] = target
    x = np.repeat(logs[:, None], len(every), axis=1)
    for way in WAYS:
        with open_device(way) as device:
            times = on(device, np.full(len(every), len(logs)), "int64")
            lengths = on(device, [len(t) for t in every], "int64")
            losses = im.nn.ctc_loss(on(device, x), on(device, padded, "int64"), times, lengths, reduction="none")
            assert float(im.sum(im.exp(-losses))) == pytest.approx(1.0, abs=1e-12)


def test_ctc_inputs_that_do_not_fit_are_refused(device: im.Device) -> None:
    x, targets, lengths = (
        im.zeros(s, dtype=d, device=device) for s, d in (((5, 2, 3), "float32"), ((2, 4), "int64"), ((2,), "int64"))
    )
    with pytest.raises(im.ShapeError, match=r"ctc_loss: the input has shape \(2, 3\), but \(time, batch, classes\)"):
        im.nn.ctc_loss(x[0], targets, lengths, lengths)
    with pytest.raises(im.ShapeError, match=r"ctc_loss: the targets have shape \(4,\), but \(2, longest target\) is needed"):
        im.nn.ctc_loss(x, targets[0], lengths, lengths)
    with pytest.raises(im.ShapeError, match=r"ctc_loss: target_lengths has shape \(2, 4\), but \(2,\) is needed"):
        im.nn.ctc_loss(x, targets, lengths, targets)
    with pytest.raises(im.InvalidValueError, match="ctc_loss: blank 3 is no class: there are 3, from 0 on"):
        im.nn.ctc_loss(x, targets, lengths, lengths, blank=3)
    with pytest.raises(im.IndexRangeError, match="3"):
        im.nn.ctc_loss(x, targets + 3, lengths + 5, lengths + 2)


def test_shapes_follow_without_data() -> None:
    x, target = im.zeros((2, 4, 3), device="meta:cpu"), im.zeros((2, 3), dtype=im.int64, device="meta:cpu")
    assert im.nn.cross_entropy(x, target).shape == im.nn.mse_loss(x, x).shape == ()
    assert im.nn.cross_entropy(x, target, reduction="none").shape == (2, 3)
    assert im.nn.cosine_similarity(x, x, axis=0).shape == (4, 3)
    lengths = im.zeros((4,), dtype=im.int64, device="meta:cpu")
    targets = im.zeros((4, 3), dtype=im.int64, device="meta:cpu")
    assert im.nn.ctc_loss(x, targets, lengths, lengths, reduction="none").shape == (4,)
