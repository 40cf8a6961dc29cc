"""Samples of windows and convolutions of every rank: strides, padding, dilation, groups; and the linear layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from intermodal.errors import ShapeError
from intermodal.ops.windows import Geometry
from intermodal.testing.samples import Draw, Sample, call, sample

__all__: list[str] = []

# --- windows -----------------------------------------------------------------------------------------------------


@sample("sliding_window")
def sliding_window_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(7), axis=0, size=3)
    yield call(draw.array(2, 9), axis=1, size=3, step=2, dilation=2)
    yield call(draw.array(4, 2), axis=0, size=4)
    yield call(draw.array(5, 0), axis=0, size=2)
    yield call(draw.array(3), axis=0, size=4).but(raises=ShapeError)


@sample("overlap_add")
def overlap_add_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(5, 3), axis=0, length=7).but(terms=3)
    yield call(draw.array(2, 3, 3), axis=1, length=11, step=3, dilation=2).but(terms=3)
    yield call(draw.array(0, 3), axis=0, length=4)


@sample("unfold")
def unfold_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(2, 3, 5, 6), kernel_size=(2, 3))
    yield call(draw.array(1, 2, 7), kernel_size=3, stride=2, padding=1, dilation=2)
    yield call(draw.array(0, 2, 4), kernel_size=2)


@sample("fold")
def fold_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(2, 12, 20), output_size=(5, 6), kernel_size=(2, 2)).but(terms=4)
    yield call(draw.array(1, 6, 3), output_size=(7,), kernel_size=(3,), stride=2, padding=0).but(terms=3)


# --- convolutions ------------------------------------------------------------------------------------------------

CONVOLUTIONS: tuple[dict[str, Any], ...] = ({}, {"stride": 2, "padding": 1}, {"dilation": 2}, {"groups": 2, "padding": 2})


def _conv(draw: Draw, rank: int, transposed: bool) -> Iterator[Sample]:
    for options in CONVOLUTIONS:
        groups = options.get("groups", 1)
        x = draw.array(2, 4, *(6, 7, 5)[:rank], low=-2, high=2)
        weight = draw.array(*((4, 3) if transposed else (6, 4 // groups)), *(3, 2, 2)[:rank], low=-2, high=2)
        bias = draw.array(3 * groups if transposed else 6)
        terms = 4 * int(np.prod((3, 2, 2)[:rank]))
        yield Sample((x, weight, bias), options, terms=terms)
        yield Sample((x, weight), options, terms=terms)
    yield (
        call(draw.array(2, 3, *(6,) * rank), draw.array(4, 2, *(3,) * rank)).but(raises=ShapeError)
        if not draw.dtype.is_bool
        else call(draw.array(2, 3, *(6,) * rank), draw.array(4, 3, *(3,) * rank))
    )


@sample("conv", "conv2d")
def conv2d_samples(draw: Draw) -> Iterator[Sample]:
    yield from _conv(draw, 2, transposed=False)
    pads: tuple[Any, ...] = ("same", "valid", ((0, 1), (2, 0)))
    for padding in pads:
        yield call(draw.array(1, 2, 5, 4, low=-2, high=2), draw.array(3, 2, 3, 2, low=-2, high=2), padding=padding).but(terms=12)
    yield call(draw.array(0, 2, 5, 4), draw.array(3, 2, 3, 2))


@sample("conv1d")
def conv1d_samples(draw: Draw) -> Iterator[Sample]:
    yield from _conv(draw, 1, transposed=False)


@sample("conv3d")
def conv3d_samples(draw: Draw) -> Iterator[Sample]:
    yield from _conv(draw, 3, transposed=False)


@sample("conv_transpose", "conv_transpose2d")
def conv_transpose2d_samples(draw: Draw) -> Iterator[Sample]:
    yield from _conv(draw, 2, transposed=True)
    weight = draw.array(2, 3, 3, 2, low=-2, high=2)
    yield call(draw.array(1, 2, 3, 4, low=-2, high=2), weight, stride=2, output_padding=1).but(terms=12)


@sample("conv_transpose1d")
def conv_transpose1d_samples(draw: Draw) -> Iterator[Sample]:
    yield from _conv(draw, 1, transposed=True)


@sample("conv_transpose3d")
def conv_transpose3d_samples(draw: Draw) -> Iterator[Sample]:
    yield from _conv(draw, 3, transposed=True)


@sample("conv_weight_grad")
def conv_weight_grad_samples(draw: Draw) -> Iterator[Sample]:
    for rank in (1, 2, 3):
        x = draw.array(2, 4, *(6, 7, 5)[:rank], low=-2, high=2)
        kernel = (3, 2, 2)[:rank]
        for options in (*CONVOLUTIONS, {"padding": ((1, 0), (0, 2), (1, 1))[:rank]}):
            given = {"stride": 1, "padding": 0, "dilation": 1, **options}
            geometry = Geometry.of(rank, kernel, given["stride"], given["padding"], given["dilation"])
            gradient = draw.array(2, 6, *geometry.counts(x.shape[2:]), low=-2, high=2)
            yield Sample((x, gradient), {"kernel_size": kernel, **options}, terms=2 * int(np.prod(gradient.shape[2:])))
    yield call(draw.array(2, 3, 6, low=-2, high=2), draw.array(2, 2, 3, low=-2, high=2), kernel_size=2).but(
        terms=6
    )  # not all windows
    yield call(draw.array(0, 3, 6), draw.array(0, 2, 5), kernel_size=2)
    if not draw.dtype.is_bool:
        yield call(draw.array(2, 3, 6), draw.array(2, 2, 6), kernel_size=2).but(raises=ShapeError)


@sample("linear")
def linear_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(2, 4), draw.array(3, 4), draw.array(3)).but(terms=4)
    yield call(draw.array(4), draw.array(3, 4)).but(terms=4)
    yield call(draw.array(2, 0, 4), draw.array(3, 4))
