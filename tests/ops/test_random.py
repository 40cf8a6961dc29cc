"""The random family: seeds, replay, ranges, moments, and decompositions against the law they stand for.

Every draw here has a fixed seed, so a test passes always or never. A mean of n draws lies within five of its standard
errors (sigma / sqrt(n)) unless the sampler is biased; that happens by chance once in 1.7 million seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

import intermodal as im
from intermodal.ops import TABLE

N = 40_000
FLOATS = ["float16", "bfloat16", "float32", "float64"]


def both_ways(name: str) -> list[Any]:
    """The public function (an engine's native where it has one) and the row's own body."""
    row = TABLE[name]
    ways: list[Any] = [pytest.param(row.function, id=f"{name}-public")]
    return ways if row.decompose is None else [*ways, pytest.param(row.decompose, id=f"{name}-decomposed")]


DRAWS: dict[str, Callable[..., im.Tensor]] = {
    "uniform": lambda **k: im.random.uniform((3, 4), **k),
    "normal": lambda **k: im.random.normal((3, 4), **k),
    "exponential": lambda **k: im.random.exponential((3, 4), **k),
    "gumbel": lambda **k: im.random.gumbel((3, 4), **k),
    "bernoulli": lambda **k: im.random.bernoulli((3, 4, 8), p=0.5, **k),
    "randint": lambda **k: im.random.randint((3, 4), low=0, high=10**9, **k),
    "permutation": lambda **k: im.random.permutation(50, **k),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(device: im.Device, name: str) -> None:
    draw = DRAWS[name]
    first, again, other = (draw(device=device, seed=s).numpy() for s in (11, 11, 12))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("name", DRAWS)
def test_without_a_seed_the_device_stream_gives_a_new_one_each_time(device: im.Device, name: str) -> None:
    draw = DRAWS[name]
    im.random.seed(5, device)
    first, second = draw(device=device).numpy(), draw(device=device).numpy()
    assert not np.array_equal(first, second)
    im.random.seed(5, device)
    np.testing.assert_array_equal(draw(device=device).numpy(), first)
    np.testing.assert_array_equal(draw(device=device).numpy(), second)


def test_the_seed_of_an_op_is_drawn_before_it_runs_so_that_a_record_replays_it(
    device: im.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = im.backend.backend_of(device.engine)
    recorded: list[dict[str, Any]] = []
    execute = type(backend).execute

    def record(self: Any, row: Any, arrays: Any, attrs: Any, outputs: Any, native: Any) -> Any:
        if row.name == "uniform":
            recorded.append(dict(attrs))
        return execute(self, row, arrays, attrs, outputs, native)

    monkeypatch.setattr(type(backend), "execute", record)
    x = im.random.uniform((5,), device=device)
    assert isinstance(recorded[0]["seed"], int)
    np.testing.assert_array_equal(im.random.uniform(**recorded[0]).numpy(), x.numpy())


def test_seeding_the_default_device_is_the_default(device: im.Device) -> None:
    with im.config.scope(device=device):
        im.random.seed(1)
        first = im.random.normal(3)
        im.random.seed(1, device)
        np.testing.assert_array_equal(im.random.normal(3).numpy(), first.numpy())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("draw", both_ways("uniform"))
def test_uniform_numbers_lie_in_the_half_open_range(device: im.Device, draw: Callable[..., im.Tensor], dtype: str) -> None:
    for low, high in ((0.0, 1.0), (-3.0, 5.0), (1.0, 1.0078125)):
        if dtype == "float16" or dtype == "bfloat16" or high != 1.0078125:
            x = draw((N,), low=low, high=high, dtype=dtype, device=device, seed=1).numpy().astype(np.float64)
            assert x.min() >= low
            assert x.max() < high


@pytest.mark.parametrize("draw", both_ways("uniform"))
@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_numbers_have_the_mean_and_variance_of_the_law(
    device: im.Device, draw: Callable[..., im.Tensor], dtype: str
) -> None:
    x = draw((N,), low=-1.0, high=3.0, dtype=dtype, device=device, seed=2).numpy().astype(np.float64)
    # A number of p bits lies up to a step of the range, 4 * 2**-p, away from its exact place.
    step = 4.0 * 2.0 ** -{"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}[dtype]
    assert abs(x.mean() - 1.0) < 5 * math.sqrt(16 / 12 / N) + step
    # The variance of (x - mean)**2 for width w is w**4 / 180.
    assert abs(x.var() - 16 / 12) < 5 * math.sqrt(256 / 180 / N) + 4 * step


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("name", "law"),
    [("uniform", stats.uniform()), ("normal", stats.norm()), ("exponential", stats.expon()), ("gumbel", stats.gumbel_r())],
)
def test_native_and_decomposition_both_follow_the_law(device: im.Device, name: str, law: Any, dtype: str) -> None:
    row = TABLE[name]
    assert row.decompose is not None
    defaults = {p.name: p.default for p in row.params if isinstance(p.default, float)}
    for draw in (row.function, row.decompose):
        x = draw((N,), **defaults, dtype=dtype, device=device, seed=3).numpy()  # type: ignore[attr-defined]
        assert stats.kstest(x, law.cdf).pvalue > 1e-6


@pytest.mark.parametrize("draw", both_ways("normal"))
@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_numbers_have_the_mean_and_deviation_asked_for(
    device: im.Device, draw: Callable[..., im.Tensor], dtype: str
) -> None:
    x = draw((N,), mean=2.0, std=0.5, dtype=dtype, device=device, seed=4).numpy().astype(np.float64)
    eps = float(im.finfo(dtype).eps)
    assert abs(x.mean() - 2.0) < 5 * 0.5 / math.sqrt(N) + 4 * eps
    assert abs(x.std() - 0.5) < 5 * 0.5 / math.sqrt(2 * N) + 4 * eps
    assert abs(x - 2.0).max() > 3 * 0.5  # a narrow dtype does not cut the tails off


def test_a_normal_number_without_deviation_is_the_mean(device: im.Device) -> None:
    assert im.random.normal((3,), mean=1.5, std=0.0, device=device).tolist() == [1.5, 1.5, 1.5]


@pytest.mark.parametrize("draw", both_ways("exponential"))
def test_exponential_numbers_are_finite_and_have_the_mean_scale(device: im.Device, draw: Callable[..., im.Tensor]) -> None:
    x = draw((N,), scale=3.0, dtype="float32", device=device, seed=5).numpy()
    assert np.isfinite(x).all()
    assert x.min() >= 0
    assert abs(x.mean() - 3.0) < 5 * 3.0 / math.sqrt(N)


def test_gumbel_numbers_are_finite_where_the_uniform_number_is_zero(device: im.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    from intermodal.ops import random as rows

    monkeypatch.setattr(rows, "uniform", lambda shape, *, dtype, device, seed: im.zeros(shape, dtype=dtype, device=device))
    decompose = TABLE["gumbel"].decompose
    assert decompose is not None
    x = decompose((2,), loc=0.0, scale=1.0, dtype="float32", device=device, seed=1)
    assert np.isfinite(x.numpy()).all()  # type: ignore[attr-defined]


@pytest.mark.parametrize("draw", both_ways("bernoulli"))
@pytest.mark.parametrize("p", [0.0, 1e-3, 0.3, 1.0])
def test_bernoulli_is_true_as_often_as_asked(device: im.Device, draw: Callable[..., im.Tensor], p: float) -> None:
    x = draw((N,), p=p, device=device, seed=6)
    assert x.dtype is im.bool
    assert abs(x.numpy().mean() - p) <= 5 * math.sqrt(p * (1 - p) / N)


@given(low=st.integers(-(2**62), 2**62), width=st.integers(1, 2**62), seed=st.integers(0, 2**63 - 1))
def test_integers_lie_in_the_half_open_range(low: int, width: int, seed: int) -> None:
    x = im.random.randint((20,), low=low, high=low + width, seed=seed)
    assert low <= int(im.min(x))
    assert int(im.max(x)) < low + width


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_reach_the_whole_range_of_their_dtype(device: im.Device, dtype: str) -> None:
    limits = im.iinfo(dtype)
    x = im.random.randint((2000,), low=limits.min, high=limits.max + 1, dtype=dtype, device=device, seed=8)
    assert str(x.dtype) == dtype
    unit = (x.numpy().astype(np.float64) - limits.min) / (float(limits.max) - limits.min + 1)
    assert stats.kstest(unit, "uniform").pvalue > 1e-6


def test_every_integer_of_a_range_is_equally_likely(device: im.Device) -> None:
    counts = np.bincount(im.random.randint((N,), low=0, high=7, device=device, seed=9).numpy(), minlength=7)
    assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("draw", both_ways("permutation"))
@pytest.mark.parametrize("n", [0, 1, 2, 100])
def test_a_permutation_has_every_index_once(device: im.Device, draw: Callable[..., im.Tensor], n: int) -> None:
    x = draw(n, device=device, seed=10)
    assert x.dtype is im.int64
    np.testing.assert_array_equal(np.sort(x.numpy()), np.arange(n))


@pytest.mark.parametrize("draw", both_ways("permutation"))
def test_every_order_of_three_is_equally_likely(device: im.Device, draw: Callable[..., im.Tensor]) -> None:
    orders = [tuple(draw(3, device=device, seed=s).numpy().tolist()) for s in range(1200)]
    counts = [orders.count(o) for o in sorted(set(orders))]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-6


def test_choice_without_replacement_takes_no_element_twice(device: im.Device) -> None:
    x = im.arange(10, device=device)
    picked = im.random.choice(x, 10, replace=False, seed=1).numpy()
    np.testing.assert_array_equal(np.sort(picked), np.arange(10))
    slices = im.random.choice(im.reshape(x, (2, 5)), 3, axis=1, seed=1)
    np.testing.assert_array_equal(slices.numpy()[1] - slices.numpy()[0], [5, 5, 5])


def test_choice_with_replacement_may_take_more_than_there_are(device: im.Device) -> None:
    picked = im.random.choice(im.asarray([1, 2], device=device), 100, seed=1).numpy()
    assert set(picked.tolist()) == {1, 2}
    assert im.random.choice(im.zeros((0,), device=device), 0).shape == (0,)


def test_classes_are_drawn_as_often_as_the_softmax_says(device: im.Device) -> None:
    p = np.asarray([0.1, 0.2, 0.7])
    logits = im.broadcast_to(im.asarray(np.log(p), device=device), (N, 3))
    counts = np.bincount(im.random.categorical(logits, seed=2).numpy(), minlength=3)
    assert stats.chisquare(counts, p * N).pvalue > 1e-6


def test_dropout_keeps_the_mean_and_scales_what_it_keeps(device: im.Device) -> None:
    x = im.random.dropout(im.ones((N,), device=device), rate=0.25, seed=3).numpy()
    assert set(np.unique(x).tolist()) == {0.0, float(np.float32(1 / 0.75))}
    assert abs(x.mean() - 1.0) < 5 * math.sqrt(0.25 / 0.75 / N)


def test_dropout_of_everything_and_of_nothing(device: im.Device) -> None:
    x = im.asarray([1.0, math.inf, math.nan], device=device)
    np.testing.assert_array_equal(im.random.dropout(x, rate=0.0).numpy(), x.numpy())
    assert im.random.dropout(x, rate=1.0).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), 5, (1, 2)])
@pytest.mark.parametrize("name", ["uniform", "normal", "exponential", "gumbel", "bernoulli", "randint"])
def test_shapes_follow_the_argument_on_the_device_and_on_meta(device: im.Device, name: str, shape: Any) -> None:
    given: dict[str, Any] = {"bernoulli": {"p": 0.5}, "randint": {"low": 0, "high": 3}}.get(name, {})
    expected = (shape,) if isinstance(shape, int) else shape
    for way in both_ways(name):
        defaults = {p.name: p.default for p in TABLE[name].params if isinstance(p.default, (float, str))}
        options = {**defaults, **given, **({"dtype": None} if name not in ("bernoulli", "randint") else {})}
        x = way.values[0](shape, **options, device=device, seed=1)
        assert x.shape == expected
        assert way.values[0](shape, **options, device="meta:cpu", seed=1).shape == expected


def test_the_default_float_is_the_setting(device: im.Device) -> None:
    assert im.random.uniform(2, device=device).dtype is im.float32
    with im.config.scope(default_float="float64"):
        assert im.random.normal(2, device=device).dtype is im.float64


WRONG: list[tuple[str, Callable[[], object], type[Exception], str]] = [
    ("equal bounds", lambda: im.random.uniform(2, low=1, high=1), im.InvalidValueError, "low 1 and high 1 leave no range"),
    (
        "equal when rounded",
        lambda: im.random.uniform(2, low=1, high=1 + 1e-12),
        im.InvalidValueError,
        "leave no range in float32",
    ),
    ("infinite width", lambda: im.random.uniform(2, low=-3e38, high=3e38), im.InvalidValueError, "difference finite"),
    ("infinite bound", lambda: im.random.uniform(2, high=math.inf), im.InvalidValueError, "high must be a finite number"),
    ("swapped integers", lambda: im.random.randint(2, low=3, high=3), im.InvalidValueError, "low 3 and high 3"),
    ("float bound", lambda: im.random.randint(2, low=0, high=2.5), im.InvalidValueError, "high must be an integer"),
    ("too wide", lambda: im.random.randint(2, low=0, high=257, dtype="uint8"), im.InvalidValueError, "256 does not fit uint8"),
    ("negative std", lambda: im.random.normal(2, std=-1), im.InvalidValueError, "std -1 must be at least 0"),
    ("nan mean", lambda: im.random.normal(2, mean=math.nan), im.InvalidValueError, "mean must be a finite number"),
    ("p above one", lambda: im.random.bernoulli(2, p=1.1), im.InvalidValueError, "p 1.1 must be between 0.0 and 1.0"),
    ("p below zero", lambda: im.random.bernoulli(2, p=-0.1), im.InvalidValueError, "p -0.1 must be between"),
    ("rate above one", lambda: im.random.dropout(im.ones(2), rate=2), im.InvalidValueError, "rate 2 must be between"),
    (
        "dropout of integers",
        lambda: im.random.dropout(im.arange(2), rate=0.5),
        im.DTypeError,
        "dropout: the input has dtype int64",
    ),
    ("normal integers", lambda: im.random.normal(2, dtype="int32"), im.DTypeError, "normal: the result has dtype int32"),
    (
        "complex numbers",
        lambda: im.random.uniform(2, dtype="complex64"),
        im.DTypeError,
        "uniform: the result has dtype complex64",
    ),
    ("float integers", lambda: im.random.randint(2, low=0, high=2, dtype="float32"), im.DTypeError, "randint: the result"),
    ("stored only", lambda: im.random.uniform(2, dtype="float8_e5m2"), im.UnsupportedError, "only stores float8_e5m2"),
    ("negative size", lambda: im.random.uniform((2, -1)), im.ShapeError, "negative size"),
    ("negative n", lambda: im.random.permutation(-1), im.ShapeError, "n"),
    ("negative seed", lambda: im.random.uniform(2, seed=-1), im.InvalidValueError, "seed -1 must lie in"),
    ("seed of a stream", lambda: im.random.seed(2**63), im.InvalidValueError, "seed"),
    ("more than there are", lambda: im.random.choice(im.ones(2), 3, replace=False), im.ShapeError, "without replacement"),
    ("from nothing", lambda: im.random.choice(im.ones(0), 1), im.ShapeError, "cannot be chosen"),
    ("no classes", lambda: im.random.categorical(im.ones((2, 0))), im.ShapeError, "no classes"),
]


@pytest.mark.parametrize(("call", "error", "words"), [pytest.param(*w[1:], id=w[0]) for w in WRONG])
def test_a_wrong_call_raises_what_fits(call: Callable[[], object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words.replace(".", r"\.")):
        call()
