"""Samples of manipulation ops: shapes, orders of axes, joins, parts, repetitions, casts. Elements move, so all are exact."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from intermodal import dtypes
from intermodal.errors import ShapeError
from intermodal.ops.rules import integer_range
from intermodal.testing.samples import Draw, Sample, call, sample

__all__: list[str] = []


@sample("astype")
def astype_samples(draw: Draw) -> Iterator[Sample]:
    for target in dtypes.ALL:
        # What lies outside the target's range has no meaning that engines share; inside, floats are cut toward zero.
        low, high = integer_range(target) if target.is_integer else (-4, 4)
        yield call(draw.array(3, 4, low=max(low, -4), high=min(high, 4)), target)
    yield call(draw.array(), draw.dtype)
    yield call(draw.array(0, 2), "float32", copy=False)
    if draw.dtype.is_floating:
        yield call(draw.edges(), "float32")
        yield call(draw.edges(), "bool")


@sample("reshape")
def reshape_samples(draw: Draw) -> Iterator[Sample]:
    for shape, target in (
        ((3, 4), (4, 3)),
        ((3, 4), (2, -1)),
        ((3, 4), 12),
        ((), (1, 1)),
        ((1,), ()),
        ((0, 3), (3, 0)),
        ((2, 3, 4), (-1, 4)),
    ):
        yield call(draw.array(*shape), target)
    yield call(draw.array(2, 3), (3, 2), copy=True)
    yield call(draw.array(2, 3), (4, 2)).but(raises=ShapeError)


@sample("permute_dims")
def permute_samples(draw: Draw) -> Iterator[Sample]:
    for shape, axes in (((3, 4), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((2, 3, 4), (-1, 0, 1)), ((), ()), ((0, 2), (1, 0))):
        yield call(draw.array(*shape), axes)
    yield call(draw.array(67, 129), (1, 0)).but(large=True)


@sample("broadcast_to")
def broadcast_samples(draw: Draw) -> Iterator[Sample]:
    for shape, target in (((3, 1), (3, 4)), ((), (2, 3)), ((4,), (2, 3, 4)), ((1,), (0,)), ((2, 0), (3, 2, 0))):
        yield call(draw.array(*shape), target)
    yield call(draw.array(3), (4,)).but(raises=ShapeError)


@sample("broadcast_arrays")
def broadcast_arrays_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3, 1), draw.array(4))
    yield call(draw.array(), draw.array(2, 1), draw.bools(1, 3))
    yield call(draw.array(1), draw.array(0))


@sample("concat")
def concat_samples(draw: Draw) -> Iterator[Sample]:
    yield call([draw.array(2, 3), draw.array(4, 3)])
    yield call([draw.array(2, 3), draw.array(2, 0), draw.array(2, 1)], axis=1)
    yield call([draw.array(2, 3), draw.array(4)], axis=None)
    yield call([draw.array(2, 3)], axis=-1)
    yield call([draw.array(2), draw.array(3, dtype="int8", low=0)])
    yield call([draw.array(2, 3), draw.array(2, 4)]).but(raises=ShapeError)


@sample("stack")
def stack_samples(draw: Draw) -> Iterator[Sample]:
    for shape, axis in (((2, 3), 0), ((2, 3), 1), ((2, 3), -1), ((), 0), ((0,), 1)):
        yield call([draw.array(*shape), draw.array(*shape), draw.array(*shape)], axis=axis)


@sample("unstack")
def unstack_samples(draw: Draw) -> Iterator[Sample]:
    for shape, axis in (((3, 4), 0), ((3, 4), -1), ((2, 0), 0), ((1, 2, 3), 1)):
        yield call(draw.array(*shape), axis=axis)


@sample("split")
def split_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(6, 2), 3)
    yield call(draw.array(2, 6), (1, 5), axis=1)
    yield call(draw.array(2, 6), (4, 0, 2), axis=-1)
    yield call(draw.array(0, 2), 2)


@sample("expand_dims")
def expand_samples(draw: Draw) -> Iterator[Sample]:
    for shape, axis in (((3, 4), 0), ((3, 4), -1), ((3, 4), (0, 2)), ((), 0), ((0,), 1)):
        yield call(draw.array(*shape), axis)


@sample("squeeze")
def squeeze_samples(draw: Draw) -> Iterator[Sample]:
    for shape, axis in (((1, 3), 0), ((3, 1, 1), (1, 2)), ((3, 1), -1), ((1,), 0), ((0, 1), 1)):
        yield call(draw.array(*shape), axis)
    yield call(draw.array(2, 3), 0).but(raises=ShapeError)


@sample("flip")
def flip_samples(draw: Draw) -> Iterator[Sample]:
    for shape, axis in (((3, 4), None), ((3, 4), 0), ((2, 3, 4), (0, -1)), ((), None), ((0, 2), 1)):
        yield call(draw.array(*shape), axis=axis)


@sample("moveaxis")
def moveaxis_samples(draw: Draw) -> Iterator[Sample]:
    for source, destination in ((0, 2), (-1, 0), ((0, 1), (1, 2)), ((2, 0), (0, 1))):
        yield call(draw.array(2, 3, 4), source, destination)


@sample("swapaxes")
def swapaxes_samples(draw: Draw) -> Iterator[Sample]:
    for a, b in ((0, 2), (-1, 1), (1, 1)):
        yield call(draw.array(2, 3, 4), a, b)


@sample("flatten")
def flatten_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(2, 3, 4))
    yield call(draw.array(2, 3, 4), start_axis=1)
    yield call(draw.array(2, 3, 4), start_axis=0, end_axis=1)
    yield call(draw.array())
    yield call(draw.array(0, 3))


@sample("roll")
def roll_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3, 4), 2)
    yield call(draw.array(3, 4), -1, axis=1)
    yield call(draw.array(3, 4), (1, 5), axis=(0, 1))
    yield call(draw.array(0), 3)
    yield call(draw.array(), 3)


@sample("tile")
def tile_samples(draw: Draw) -> Iterator[Sample]:
    for shape, times in (((2, 3), (2, 1)), ((2, 3), (2,)), ((3,), (2, 2)), ((), (3,)), ((2,), (0,)), ((2, 3), ())):
        yield call(draw.array(*shape), times)


@sample("repeat")
def repeat_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(2, 3), 2)
    yield call(draw.array(2, 3), 3, axis=1)
    yield call(draw.array(2, 3), np.asarray([1, 0, 2]), axis=1)
    yield call(draw.array(4), np.asarray(2))
    yield call(draw.array(3), 0)
    yield call(draw.array(0), 2)
    yield call(draw.array(2, 3), np.asarray([1, 2, 3, 0, 1, 2], np.uint8))


@sample("pad")
def pad_samples(draw: Draw) -> Iterator[Sample]:
    value = 1 if draw.dtype.is_integer else True if draw.dtype.is_bool else 1.5
    yield call(draw.array(2, 3), 1)
    yield call(draw.array(2, 3), ((1, 0), (0, 2)), value=value)
    yield call(draw.array(3, 4), ((2, 1), (0, 3)), mode="reflect")
    yield call(draw.array(3, 4), ((2, 1), (5, 3)), mode="edge")
    yield call(draw.array(3, 4), ((2, 1), (5, 3)), mode="wrap")
    yield call(draw.array(0, 2), ((1, 1), (0, 0)))
    yield call(draw.array(), ())


@sample("diff")
def diff_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3, 5))
    yield call(draw.array(3, 5), axis=0, n=2)
    yield call(draw.array(3, 5), n=0)
    yield call(draw.array(4), prepend=draw.array(1), append=draw.array(2))
    yield call(draw.array(0, 3), axis=0)
    yield call(draw.array(1), n=3)
