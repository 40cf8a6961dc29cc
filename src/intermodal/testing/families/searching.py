"""Samples of searching, sorting, indexing and sets: ties, NaN, negative and repeated indices, empty selections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from intermodal.errors import IndexRangeError, InvalidValueError, ShapeError
from intermodal.testing.samples import Draw, HostArray, Sample, call, sample

__all__: list[str] = []

MODES = ("assign", "add", "multiply", "minimum", "maximum")


def _orderable(draw: Draw) -> Iterator[HostArray]:
    """Lines to put in order: with ties, with edges (several NaN among them), short."""
    yield draw.ties(3, 7)
    yield draw.array(4, 5)
    if not draw.dtype.is_complex:
        edges = draw.edges()
        yield np.stack([edges, edges[::-1], np.roll(edges, 3)])
    yield draw.array(2, 1)


@sample("argmax", "argmin")
def argextreme_samples(draw: Draw) -> Iterator[Sample]:
    for x in _orderable(draw):
        yield call(x, axis=-1)
        yield call(x, axis=0, keepdims=True)
        yield call(x)
    yield call(draw.array())
    yield call(draw.ties(2, 3), keepdims=True)
    yield call(draw.ties(0, 3), axis=1)
    yield call(draw.ties(67, 129), axis=1).but(large=True)
    if not draw.dtype.is_complex:
        yield call(draw.array(3, 0), axis=1).but(raises=ShapeError)


@sample("max_with_indices", "min_with_indices")
def with_indices_samples(draw: Draw) -> Iterator[Sample]:
    for x in _orderable(draw):
        yield call(x).but(exact=True)
        yield call(x, axis=0, keepdims=True).but(exact=True)


@sample("sort", "argsort")
def sort_samples(draw: Draw) -> Iterator[Sample]:
    for x in _orderable(draw):
        for options in ({}, {"axis": 0}, {"descending": True}, {"axis": 0, "descending": True, "stable": True}):
            yield Sample((x,), options, exact=True)
    yield call(draw.array(0, 3), axis=0).but(exact=True)
    yield call(draw.ties(67, 129), axis=1).but(exact=True, large=True)


@sample("sort_with_indices")
def sort_with_indices_samples(draw: Draw) -> Iterator[Sample]:
    for x in _orderable(draw):
        yield call(x).but(exact=True)
        yield call(x, axis=0, descending=True).but(exact=True)


@sample("topk")
def topk_samples(draw: Draw) -> Iterator[Sample]:
    for x in _orderable(draw):
        yield call(x, 1).but(exact=True)
        yield call(x, 2, axis=0, largest=False).but(exact=True)
        yield call(x, 0).but(exact=True)


@sample("searchsorted")
def searchsorted_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_complex or draw.dtype.is_bool:
        yield call(draw.array(3), draw.array(2))
        return
    x = draw.ties(9)
    ordered = np.sort(x.astype(np.float64)).astype(draw.dtype.numpy)
    for side in ("left", "right"):
        yield call(ordered, draw.ties(2, 3), side=side)
        yield call(ordered, draw.array(0), side=side)
        yield call(ordered, draw.array(), side=side)
        yield call(draw.array(0), draw.array(3), side=side)
        yield call(x, draw.ties(4), side=side, sorter=np.argsort(x.astype(np.float64), kind="stable"))
    yield call(ordered, 1)
    if draw.dtype.is_floating:
        edges = np.sort(draw.edges().astype(np.float64)).astype(draw.dtype.numpy)
        yield call(edges, draw.edges())
        yield call(edges, draw.edges(), side="right")


@sample("nonzero", "argwhere", "unique_all", "unique_values", "unique_counts", "unique_inverse")
def found_samples(draw: Draw) -> Iterator[Sample]:
    for shape in ((3, 4), (7,), (0,), (2, 0, 3), (1, 1)):
        yield call(draw.ties(*shape)).but(exact=True)
    yield call(draw.edges()).but(exact=True)
    yield call(draw.ties(67, 129)).but(exact=True, large=True)


@sample("take")
def take_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(5), draw.integers(3, low=-5, high=5))
    yield call(draw.array(3, 4), draw.integers(6, low=0, high=3, dtype="int32"), axis=0)
    yield call(draw.array(3, 4), draw.integers(2, 2, low=-4, high=4), axis=-1)
    yield call(draw.array(3, 4), np.asarray(2), axis=1)
    yield call(draw.array(3, 4), np.zeros(0, np.int64), axis=1)
    yield call(draw.array(3, 4), np.asarray([1], np.uint8), axis=0)
    yield call(draw.array(3, 0), np.asarray([0, 2]), axis=0)
    yield call(draw.array(5), np.asarray([0, 5])).but(raises=IndexRangeError)
    yield call(draw.array(5), np.asarray([-6])).but(raises=IndexRangeError)


@sample("take_along_axis")
def take_along_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3, 4), draw.integers(3, 2, low=-4, high=4))
    yield call(draw.array(3, 4), draw.integers(5, 4, low=0, high=3), axis=0)
    yield call(draw.array(3, 4), draw.integers(1, 2, low=0, high=4), axis=1)
    yield call(draw.array(3, 4), draw.integers(3, 0, low=0, high=4), axis=1)
    yield call(draw.array(3), np.asarray([3])).but(raises=IndexRangeError)


@sample("basic_index")
def basic_index_samples(draw: Draw) -> Iterator[Sample]:
    whole = slice(None)
    for key in (
        (1,),
        (-1, whole),
        (whole, 2),
        (slice(2, 0, -1),),
        (slice(None, None, -2), slice(1, 3)),
        (None, 0, None),
        (slice(5, 9),),
        (whole, slice(None, None, -1)),
        (),
    ):
        yield call(draw.array(3, 4), key=key)
    yield call(draw.array(), key=(None,))
    yield call(draw.array(), key=())
    yield call(draw.array(3), key=(3,)).but(raises=IndexRangeError)


@sample("basic_put")
def basic_put_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3, 4), draw.array(4), key=(1,))
    yield call(draw.array(3, 4), draw.array(), key=(slice(None, None, -2), slice(1, 3)))
    yield call(draw.array(3, 4), draw.array(3, 4), key=())
    yield call(draw.array(3, 4), draw.array(0, 4), key=(slice(3, 9),))
    for mode in MODES[1:]:
        if not (draw.dtype.is_bool or draw.dtype.is_complex):
            yield call(draw.array(3, 4), draw.array(2), key=(slice(None), slice(0, 4, 2)), mode=mode).but(exact=mode == "assign")


@sample("index")
def index_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3, 4), [draw.integers(5, low=-3, high=3)])
    yield call(draw.array(3, 4), [draw.integers(5, low=-3, high=3), draw.integers(5, low=-4, high=4)])
    yield call(draw.array(3, 4, 2), [draw.integers(2, 1, low=0, high=3), draw.integers(3, low=0, high=4)])
    yield call(draw.array(3, 4), [np.zeros(0, np.int64)])
    yield call(draw.array(3, 4), [np.asarray(1), np.asarray(2)])
    yield call(draw.array(3, 4), [np.asarray([0]), np.asarray([4])]).but(raises=IndexRangeError)


def _distinct(draw: Draw, n: int, *shape: int) -> HostArray:
    """Indices none of which comes twice along the last axis."""
    return np.stack([draw.random.permutation(n)[: shape[-1]] for _ in range(int(np.prod(shape[:-1])))]).reshape(shape)


def _modes(draw: Draw) -> tuple[str, ...]:
    """What a scatter may do with what is there; all but ``assign`` compute."""
    return MODES[:1] if draw.dtype.is_bool or draw.dtype.is_complex else MODES


@sample("scatter")
def put_along_samples(draw: Draw) -> Iterator[Sample]:
    for mode in _modes(draw):
        yield call(draw.array(3, 4, low=0), _distinct(draw, 4, 3, 2), draw.array(3, 2, low=0, high=2), mode=mode).but(
            exact=mode == "assign"
        )
        yield call(draw.array(3, 4, low=0), _distinct(draw, 4, 3, 2) - 4, draw.array(3, 2, low=0, high=2), axis=1, mode=mode).but(
            exact=mode == "assign"
        )
    for mode in _modes(draw)[1:]:  # an index that comes twice combines twice
        yield call(draw.array(3, low=0), np.asarray([1, 1, 0, 1]), draw.array(4, low=0, high=1), mode=mode).but(
            terms=3, exact=False
        )
    yield call(draw.array(3), np.asarray([1, 1]), draw.array(2))  # the last one wins
    yield call(draw.array(3), np.asarray([0]), draw.array())
    yield call(draw.array(3), np.zeros(0, np.int64), draw.array(0))
    yield call(draw.array(3), np.asarray([3]), draw.array(1)).but(raises=IndexRangeError)


@sample("scatter_slices")
def put_samples(draw: Draw) -> Iterator[Sample]:
    for mode in _modes(draw):
        yield call(draw.array(5, 2, low=0), np.asarray([3, -5]), draw.array(2, 2, low=0, high=2), mode=mode)
    yield call(draw.array(2, 5), np.asarray([4, 0]), draw.array(2, 2), axis=1)
    yield call(draw.array(2, 5), np.zeros(0, np.int64), draw.array(0, 5))


@sample("index_put")
def index_put_samples(draw: Draw) -> Iterator[Sample]:
    places = [np.asarray([0, 2, -1]), np.asarray([3, -4, 1])]
    for mode in _modes(draw):
        yield call(draw.array(3, 4, low=0), places, draw.array(3, low=0, high=2), mode=mode).but(exact=mode == "assign")
    yield call(draw.array(3, 4), [np.asarray([2, 0])], draw.array(4))
    yield call(draw.array(3, 4), [np.asarray([2, 0])], draw.array())
    yield call(draw.array(3, 4), [np.zeros(0, np.int64)], draw.array(0, 4))
    yield call(draw.array(3), [np.asarray([3])], draw.array(1)).but(raises=IndexRangeError)


@sample("gather_nd")
def gather_nd_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3, 4), np.asarray([[0, 1], [2, 3], [-1, -1]]))
    yield call(draw.array(3, 4), np.asarray([[[0], [2]]]))
    yield call(draw.array(3, 4), np.zeros((0, 2), np.int64))


@sample("scatter_nd")
def scatter_nd_samples(draw: Draw) -> Iterator[Sample]:
    for mode in _modes(draw):
        yield call(draw.array(3, 4, low=0), np.asarray([[0, 1], [2, 3]]), draw.array(2, low=0, high=2), mode=mode).but(
            exact=mode == "assign"
        )
    yield call(draw.array(3, 4), np.asarray([[2]]), draw.array(1, 4))


@sample("masked_select")
def masked_select_samples(draw: Draw) -> Iterator[Sample]:
    for shape, mask in (((3, 4), (3, 4)), ((3, 4), (3,)), ((3,), ()), ((), ()), ((0, 2), (0,))):
        yield call(draw.array(*shape), draw.bools(*mask))
    yield call(draw.array(3), np.zeros(3, np.bool_))


@sample("masked_fill")
def masked_fill_samples(draw: Draw) -> Iterator[Sample]:
    value: Any = True if draw.dtype.is_bool else 1 if draw.dtype.is_integer else 1.5
    yield call(draw.array(3, 4), draw.bools(3, 4), value)
    yield call(draw.array(3, 4), draw.bools(4), draw.array())
    yield call(draw.array(0), draw.bools(0), value)


@sample("masked_put")
def masked_put_samples(draw: Draw) -> Iterator[Sample]:
    mask = np.asarray([[True, False, True], [False, True, False]])
    yield call(draw.array(2, 3), mask, draw.array(3))
    yield call(draw.array(2, 3), mask, draw.array())
    yield call(draw.array(2, 3), np.asarray([True, False]), draw.array(3))
    yield call(draw.array(2, 3), np.zeros((2, 3), np.bool_), draw.array())
    yield call(draw.array(2, 3), mask, draw.array(2)).but(raises=ShapeError)


@sample("isin")
def isin_samples(draw: Draw) -> Iterator[Sample]:
    for first, second in (((3, 4), (2,)), ((), (3,)), ((3,), (0,)), ((0,), (2,)), ((5,), ())):
        yield call(draw.ties(*first), draw.ties(*second))
        yield call(draw.ties(*first), draw.ties(*second), invert=True)
    yield call(draw.edges(), draw.edges()[::2])


@sample("bincount")
def bincount_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.ties(9))
    yield call(draw.ties(9), minlength=7)
    yield call(draw.ties(0))
    yield call(draw.ties(0), minlength=2)
    if draw.dtype.is_integer:
        yield call(draw.ties(6), draw.array(6, dtype="float32")).but(terms=6)
        if draw.dtype.kind == "signed integer":
            yield call(np.asarray([0, -1], draw.dtype.numpy)).but(raises=InvalidValueError)
    else:
        yield call(draw.integers(6, low=0, high=4), draw.array(6)).but(terms=6)
