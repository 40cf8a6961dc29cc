"""Samples of reductions: all axes, some, none, negative ones; empty and 0-d tensors; dtypes of the total."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from intermodal.errors import AxisError, ShapeError
from intermodal.testing.samples import Draw, HostArray, Sample, call, sample

__all__: list[str] = []

FORMS: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((3, 4), {}),
    ((3, 4), {"axis": 0}),
    ((2, 3, 4), {"axis": (0, -1), "keepdims": True}),
    ((2, 3, 4), {"axis": 1}),
    ((), {}),
    ((1,), {"axis": -1}),
    ((3, 4), {"axis": ()}),
    ((2, 0, 3), {"axis": 0}),
    ((2, 0, 3), {"axis": 1}),
    ((0,), {}),
)


def terms(x: HostArray, axis: Any) -> int:
    """How many elements a reduction takes together."""
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return int(np.prod([x.shape[a] for a in axes], initial=1))


def reductions(draw: Draw, low: float, high: float) -> Iterator[Sample]:
    """The forms with numbers in a range, and a long reduction."""
    for shape, options in FORMS:
        x = draw.array(*shape, low=low, high=high)
        yield Sample((x,), options, terms=terms(x, options.get("axis")))
    yield call(draw.array(3, 4), axis=5).but(raises=AxisError)


@sample("sum")
def sum_samples(draw: Draw) -> Iterator[Sample]:
    yield from reductions(draw, -4, 4)
    yield call(draw.array(67, 129), axis=1).but(terms=129, large=True)
    yield call(draw.array(67, 129)).but(terms=67 * 129, large=True)
    wide = "complex128" if draw.dtype.is_complex else "float64"
    yield call(draw.array(5), dtype=wide).but(terms=5)
    if not draw.dtype.is_inexact:
        yield call(draw.array(5, low=0), dtype="int32")


@sample("prod")
def prod_samples(draw: Draw) -> Iterator[Sample]:
    yield from reductions(draw, 0.5, 2.0)


@sample("mean", "var", "std")
def moment_samples(draw: Draw) -> Iterator[Sample]:
    yield from reductions(draw, -4, 4)
    yield call(draw.array(67, 129), axis=0).but(terms=67, large=True)


@sample("logsumexp")
def logsumexp_samples(draw: Draw) -> Iterator[Sample]:
    yield from reductions(draw, -4, 4)
    if draw.dtype.is_floating:
        yield call(np.asarray([[np.inf, 1.0], [-np.inf, -np.inf], [-np.inf, 2.0]]).astype(draw.dtype.numpy), axis=1).but(terms=2)


@sample("max", "min", "max_abs")
def extreme_samples(draw: Draw) -> Iterator[Sample]:
    for given in reductions(draw, -4, 4):
        if given.terms:  # of no elements there is no extreme
            yield given.but(exact=not draw.dtype.is_complex)  # the size of a complex number is computed
    if draw.dtype.is_floating:
        edges = draw.edges()
        yield call(edges).but(exact=True)
        yield call(np.stack([edges, edges[::-1]]), axis=0).but(exact=True)
        yield call(edges[~np.isnan(edges)]).but(exact=True)
    if not draw.dtype.is_complex and not draw.dtype.is_bool:
        yield call(draw.array(2, 0, 3), axis=1).but(raises=ShapeError)


@sample("all", "any", "count_nonzero")
def truth_samples(draw: Draw) -> Iterator[Sample]:
    for shape, options in FORMS:
        yield Sample((draw.ties(*shape),), options)
    yield call(draw.edges())
    yield call(np.zeros((2, 3), draw.dtype.numpy), axis=0)
    yield call(np.ones((2, 3), draw.dtype.numpy), axis=0)


RUNS: tuple[tuple[tuple[int, ...], int | None], ...] = (
    ((3, 4), 0),
    ((3, 4), -1),
    ((5,), None),
    ((0, 3), 0),
    ((3, 0), 0),
    ((2, 3, 4), 1),
)


@sample("cumulative_sum")
def cumulative_sum_samples(draw: Draw) -> Iterator[Sample]:
    for shape, axis in RUNS:
        yield call(draw.array(*shape), axis=axis).but(terms=max(shape))
        yield call(draw.array(*shape), axis=axis, include_initial=True).but(terms=max(shape))
    yield call(draw.array(67, 129), axis=1).but(terms=129, large=True)


@sample("cumulative_prod")
def cumulative_prod_samples(draw: Draw) -> Iterator[Sample]:
    for shape, axis in RUNS:
        yield call(draw.array(*shape, low=0.5, high=2), axis=axis).but(terms=max(shape))
        yield call(draw.array(*shape, low=0.5, high=2), axis=axis, include_initial=True).but(terms=max(shape))


@sample("cumulative_max", "cumulative_min")
def cumulative_extreme_samples(draw: Draw) -> Iterator[Sample]:
    for shape, axis in RUNS:
        yield call(draw.array(*shape), axis=axis).but(exact=True)
    if not draw.dtype.is_complex:
        yield call(draw.edges()[::-1].copy()).but(exact=True)
        yield call(draw.edges()).but(exact=True)
