"""Samples of creation ops: shapes, values, ranges, and tensors whose form is taken over."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from intermodal.testing.samples import Draw, HostArray, Sample, call, sample

__all__: list[str] = []

SHAPES = ((3, 4), (), (0,), (2, 0, 3), 5)


@sample("zeros", "ones")
def shape_samples(draw: Draw) -> Iterator[Sample]:
    for shape in SHAPES:
        yield call(shape, dtype=draw.dtype).but(exact=True)
    yield call((67, 129), dtype=draw.dtype).but(large=True)


def unset(sample: Sample, found: list[HostArray]) -> str | None:
    """Elements that are not set may be anything."""
    return None


@sample("empty")
def empty_samples(draw: Draw) -> Iterator[Sample]:
    for shape in SHAPES:
        yield call(shape, dtype=draw.dtype).but(law=unset)


@sample("full")
def full_samples(draw: Draw) -> Iterator[Sample]:
    values = [True] if draw.dtype.is_bool else [0, 3] if draw.dtype.is_integer else [0.0, 2.5, float("inf")]
    if draw.dtype.name == "float8_e4m3fn":
        values = values[:2]  # it has no infinity
    for value in values:
        yield from (call(shape, value, dtype=draw.dtype).but(exact=True) for shape in SHAPES)
    if draw.dtype.is_integer:
        edges = draw.edges().tolist()
        yield from (call((2,), int(v), dtype=draw.dtype) for v in edges)


@sample("full_like")
def full_like_samples(draw: Draw) -> Iterator[Sample]:
    for shape in ((3, 4), (), (0, 2)):
        yield call(draw.array(*shape), 1)
    yield call(draw.array(2, 3), True, dtype="int32")


@sample("zeros_like", "ones_like")
def like_samples(draw: Draw) -> Iterator[Sample]:
    for shape in ((3, 4), (), (0, 2)):
        yield call(draw.array(*shape))
    yield call(draw.array(2, 3), dtype="float32")


@sample("empty_like")
def empty_like_samples(draw: Draw) -> Iterator[Sample]:
    yield from (s.but(law=unset) for s in like_samples(draw))


@sample("arange")
def arange_samples(draw: Draw) -> Iterator[Sample]:
    for args in ((5,), (1, 7), (1, 7, 2), (0,), (7, 1, -2), (3, 3), (0, 7, 3)):
        yield call(*args, dtype=draw.dtype).but(exact=True)
    if draw.dtype.is_floating:
        yield call(0.0, 1.0, 0.25, dtype=draw.dtype).but(exact=True)
        yield call(1.0, -1.0, -0.3, dtype=draw.dtype)


@sample("linspace")
def linspace_samples(draw: Draw) -> Iterator[Sample]:
    # terms: the ends are weighted, two products and a sum of intermediate results as large as the ends
    for args in ((0, 7, 8), (-1.0, 1.0, 5), (0.0, 1.0, 1), (0.0, 1.0, 0), (3.0, 3.0, 4), (5.0, 0.0, 6)):
        if draw.dtype.kind != "unsigned integer" or min(args[:2]) >= 0:
            yield call(*args, dtype=draw.dtype)
    yield call(0.0, 4.0, 4, dtype=draw.dtype, endpoint=False)
    if draw.dtype.is_complex:
        yield call(0j, 1 + 2j, 5, dtype=draw.dtype)


@sample("eye")
def eye_samples(draw: Draw) -> Iterator[Sample]:
    for args, k in (((3,), 0), ((3, 4), 1), ((4, 3), -2), ((0,), 0), ((2, 0), 0), ((3,), 9)):
        yield call(*args, k=k, dtype=draw.dtype)


@sample("tril", "triu")
def triangle_samples(draw: Draw) -> Iterator[Sample]:
    for shape, k in (((3, 4), 0), ((4, 3), 1), ((2, 3, 3), -1), ((0, 3), 0), ((3, 3), 9)):
        yield call(draw.array(*shape), k=k)
    yield call(draw.array(67, 129)).but(large=True)


@sample("meshgrid")
def meshgrid_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3), draw.array(4))
    yield call(draw.array(3), draw.array(4), draw.array(2), indexing="ij")
    yield call(draw.array(2), draw.array(0))
    yield call(draw.array(2), np.asarray(draw.array()))
    yield call(draw.array(3), indexing="ij")
