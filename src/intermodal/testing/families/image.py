"""Samples of resampling: other sizes and factors, every mode; grids inside and outside the image; bent windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from intermodal.errors import ShapeError
from intermodal.testing.samples import Draw, Sample, call, sample

__all__: list[str] = []


@sample("interpolate")
def interpolate_samples(draw: Draw) -> Iterator[Sample]:
    for mode in ("nearest", "nearest_exact"):
        yield call(draw.array(2, 3, 5), size=8, mode=mode).but(exact=True)
        yield call(draw.array(1, 2, 4, 6), scale_factor=(0.5, 1.5), mode=mode).but(exact=True)
    for align in (False, True):
        yield call(draw.array(2, 3, 5), size=8, mode="linear", align_corners=align).but(terms=2)
        yield call(draw.array(1, 2, 4, 6), scale_factor=1.5, mode="linear", align_corners=align).but(terms=4)
        yield call(draw.array(1, 2, 3, 4, 2), size=(2, 5, 3), mode="linear", align_corners=align).but(terms=8)
        yield call(draw.array(1, 2, 4, 6), size=(7, 3), mode="cubic", align_corners=align).but(terms=16)
        yield call(draw.array(1, 2, 9), size=4, mode="lanczos3", align_corners=align).but(terms=9)


@sample("grid_sample_2d")
def grid_sample_samples(draw: Draw) -> Iterator[Sample]:
    # Eighths keep every place off the border between two pixels' nearest, where a rounding would choose another pixel.
    grid = (draw.random.integers(-11, 12, (2, 3, 4, 2)) / 8 + 1 / 32).astype(draw.dtype.numpy)
    for padding in ("zeros", "border", "reflection"):
        for align in (False, True):
            yield call(draw.array(2, 3, 4, 5), grid, padding_mode=padding, align_corners=align).but(terms=4)
            yield call(draw.array(2, 3, 4, 5), grid, mode="nearest", padding_mode=padding, align_corners=align)
    yield call(draw.array(2, 3, 4, 5), np.zeros((2, 0, 4, 2), draw.dtype.numpy))


@sample("deform_conv2d")
def deform_conv_samples(draw: Draw) -> Iterator[Sample]:
    def arrays(groups: int, parts: int, out: tuple[int, int]) -> tuple[Any, ...]:
        offset = (draw.random.integers(-9, 10, (2, 2 * parts * 6, *out)) / 8 + 1 / 32).astype(draw.dtype.numpy)
        weight, mask = draw.array(4, 4 // groups, 3, 2, low=-2, high=2), draw.array(2, parts * 6, *out, low=0, high=1)
        return draw.array(2, 4, 6, 5, low=-2, high=2), offset, weight, mask, draw.array(4)

    yield call(*arrays(1, 1, (4, 4))).but(terms=96)
    yield call(*arrays(1, 1, (4, 4))[:3]).but(terms=96)
    yield call(*arrays(2, 2, (3, 3)), stride=2, padding=1, groups=2, offset_groups=2).but(terms=96)
    if draw.dtype.is_floating and draw.dtype.bits >= 16:
        yield call(*arrays(1, 1, (3, 4))).but(raises=ShapeError)
