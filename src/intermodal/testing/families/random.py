"""Samples of random ops: shapes, and the law that the numbers follow. Two engines draw different numbers from one seed.

A law looks at n draws. Their mean lies within five standard errors, sigma / sqrt(n), of the law's, their variance within five
of its own, sigma**2 * sqrt((kurtosis - 1) / n), where the fourth moment is the law's. The seeds are fixed, so a sample passes
always or never; a right engine fails one by chance with a probability below one in a million.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from intermodal.testing.samples import Draw, HostArray, Law, Sample, call, sample
from intermodal.testing.tolerance import epsilon

__all__: list[str] = []

N = 20_000
SHAPES = ((), (0,), (2, 0, 3), (3, 4), 5)


def moments(mean: float, variance: float, kurtosis: float, low: float = -math.inf, high: float = math.inf) -> Law:
    """The law of numbers in [low, high) with these moments."""

    def law(sample: Sample, found: list[HostArray]) -> str | None:
        x = found[0].astype(np.float64).ravel()
        if not np.isfinite(x).all() or x.min() < low or x.max() >= high:
            return f"numbers from {x.min()} to {x.max()}, not in [{low}, {high})"
        from intermodal import dtypes

        rounding = 4 * epsilon(dtypes.as_dtype(found[0].dtype)) * max(1.0, abs(x).max())
        error = 5 * math.sqrt(variance / x.size) + rounding
        if abs(x.mean() - mean) > error:
            return f"{x.size} numbers with the mean {x.mean():.4g} instead of {mean:.4g} within {error:.2g}"
        error = 5 * variance * math.sqrt((kurtosis - 1) / x.size) + rounding
        if abs(x.var() - variance) > error:
            return f"{x.size} numbers with the variance {x.var():.4g} instead of {variance:.4g} within {error:.2g}"
        return None

    return law


@sample("uniform")
def uniform_samples(draw: Draw) -> Iterator[Sample]:
    yield from (call(shape, dtype=draw.dtype, seed=1) for shape in SHAPES)
    yield call((N,), dtype=draw.dtype, seed=2).but(law=moments(0.5, 1 / 12, 1.8, 0.0, 1.0))
    yield call((N,), low=-3.0, high=5.0, dtype=draw.dtype, seed=3).but(law=moments(1.0, 64 / 12, 1.8, -3.0, 5.0))


@sample("normal")
def normal_samples(draw: Draw) -> Iterator[Sample]:
    yield from (call(shape, dtype=draw.dtype, seed=1) for shape in SHAPES)
    yield call((N,), dtype=draw.dtype, seed=2).but(law=moments(0.0, 1.0, 3.0))
    yield call((40, N // 40), mean=2.0, std=0.5, dtype=draw.dtype, seed=3).but(law=moments(2.0, 0.25, 3.0))


@sample("exponential")
def exponential_samples(draw: Draw) -> Iterator[Sample]:
    yield from (call(shape, dtype=draw.dtype, seed=1) for shape in SHAPES)
    yield call((N,), scale=2.0, dtype=draw.dtype, seed=2).but(law=moments(2.0, 4.0, 9.0, 0.0))


@sample("gumbel")
def gumbel_samples(draw: Draw) -> Iterator[Sample]:
    yield from (call(shape, dtype=draw.dtype, seed=1) for shape in SHAPES)
    law = moments(1.0 + 2.0 * float(np.euler_gamma), 4 * math.pi**2 / 6, 5.4)
    yield call((N,), loc=1.0, scale=2.0, dtype=draw.dtype, seed=2).but(law=law)


@sample("bernoulli")
def bernoulli_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_bool:  # the op has one dtype
        yield from (call(shape, p=0.5, seed=1) for shape in SHAPES)
        p = 0.2
        yield call((N,), p=p, seed=2).but(law=moments(p, p * (1 - p), (1 - 3 * p * (1 - p)) / (p * (1 - p))))
        yield call((9,), p=0.0, seed=3)
        yield call((9,), p=1.0, seed=3)


@sample("randint")
def randint_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.bits < 8:
        yield call(3, low=0, high=4, dtype=draw.dtype, seed=1)
        return
    yield from (call(shape, low=1, high=9, dtype=draw.dtype, seed=1) for shape in SHAPES)
    n = 100
    law = moments((n - 1) / 2, (n * n - 1) / 12, 1.8, 0, n)
    yield call((N,), low=0, high=n, dtype=draw.dtype, seed=2).but(law=law)


def _is_permutation(sample: Sample, found: list[HostArray]) -> str | None:
    n = sample.args[0]
    return None if np.array_equal(np.sort(found[0]), np.arange(n)) else f"{found[0]} is no order of 0 to {n - 1}"


@sample("permutation")
def permutation_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.name == "int64":  # the op has one dtype
        yield from (call(n, seed=1).but(law=_is_permutation) for n in (0, 20, 100))


def _from_the_tensor(sample: Sample, found: list[HostArray]) -> str | None:
    there, picked = sample.args[0].tolist(), found[0].tolist()
    strangers = [v for v in picked if v not in there]
    if strangers:
        return f"{strangers} are not elements of the tensor"
    twice = not sample.kwargs.get("replace", True) and any(picked.count(v) > there.count(v) for v in picked)
    return "an element was taken twice" if twice else None


@sample("choice")
def choice_samples(draw: Draw) -> Iterator[Sample]:
    x = np.arange(30).astype(draw.dtype.numpy)
    yield call(x, 20, seed=1).but(law=_from_the_tensor if draw.dtype.bits >= 8 and not draw.dtype.is_bool else None)
    yield call(x, 30, replace=False, seed=2).but(
        law=_from_the_tensor if draw.dtype.bits >= 8 and not draw.dtype.is_bool else None
    )
    yield call(draw.array(3, 4), 2, axis=1, seed=3)
    yield call(draw.array(0), 0, seed=3)


def _follows_softmax(sample: Sample, found: list[HostArray]) -> str | None:
    logits = sample.args[0][0].astype(np.float64)
    p = np.exp(logits) / np.exp(logits).sum()
    if found[0].min() < 0 or found[0].max() >= p.size:
        return f"classes from {found[0].min()} to {found[0].max()}, but there are {p.size}"
    share = np.bincount(found[0], minlength=p.size) / found[0].size
    error = 5 * np.sqrt(p * (1 - p) / found[0].size)
    return f"classes come with the shares {share} instead of {p}" if (np.abs(share - p) > error).any() else None


@sample("categorical")
def categorical_samples(draw: Draw) -> Iterator[Sample]:
    logits = np.broadcast_to(draw.array(4, low=-1, high=1), (N, 4)).copy()
    yield call(logits, seed=1).but(law=_follows_softmax if draw.dtype.is_floating else None)
    yield call(draw.array(3, 4), axis=0, seed=2)
    yield call(draw.array(0, 3), seed=2)


def _dropped(sample: Sample, found: list[HostArray]) -> str | None:
    x, rate = sample.args[0].astype(np.float64), sample.kwargs["rate"]
    y = found[0].astype(np.float64)
    from intermodal import dtypes

    kept = np.abs(y - x / (1 - rate)) <= 4 * epsilon(dtypes.as_dtype(found[0].dtype)) * np.abs(y)
    if not (kept | (y == 0)).all():
        return "an element is neither dropped nor scaled by 1 / (1 - rate)"
    error = 5 * math.sqrt(rate * (1 - rate) / x.size)
    return None if abs((y == 0).mean() - rate) <= error else f"a share of {(y == 0).mean():.4g} is dropped instead of {rate}"


@sample("dropout")
def dropout_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(N, low=1, high=2), rate=0.25, seed=1).but(law=_dropped if draw.dtype.is_floating else None)
    yield call(draw.array(3, 4), rate=1.0, seed=1)
    yield call(draw.array(3, 4), rate=0.0, seed=1)
    yield call(draw.array(0), rate=0.5, seed=1)
