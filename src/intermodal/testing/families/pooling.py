"""Samples of pooling of every rank: strides, padding, dilation, a last window that reaches past the end; adaptive parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from intermodal.testing.samples import Draw, Sample, call, sample

__all__: list[str] = []

SIZES = (6, 7, 5)


def _windows(rank: int) -> Iterator[dict[str, Any]]:
    yield {"kernel_size": 2}
    yield {"kernel_size": (3, 2, 2)[:rank], "stride": 1}
    yield {"kernel_size": 3, "stride": 2, "padding": 1}
    yield {"kernel_size": 2, "stride": (2, 3, 2)[:rank], "ceil_mode": True}


def _max_pool(rank: int) -> Callable[[Draw], Iterator[Sample]]:
    def generate(draw: Draw) -> Iterator[Sample]:
        for options in (*_windows(rank), {"kernel_size": 2, "dilation": 2}):
            yield Sample((draw.ties(2, 2, *SIZES[:rank]),), options, exact=True)
            yield Sample((draw.array(1, 2, *SIZES[:rank]),), options, exact=True)
        yield call(draw.array(0, 2, *SIZES[:rank]), kernel_size=2).but(exact=True)
        if draw.dtype.is_floating:
            holes = draw.array(1, 1, *SIZES[:rank])
            holes.ravel()[[1, 3]] = np.nan, -np.inf
            yield call(holes, kernel_size=2).but(exact=True)

    return generate


def _avg_pool(rank: int) -> Callable[[Draw], Iterator[Sample]]:
    def generate(draw: Draw) -> Iterator[Sample]:
        for options in _windows(rank):
            terms = int(np.prod(np.broadcast_to(options["kernel_size"], rank)))
            for include in (True, False):
                yield Sample((draw.array(2, 2, *SIZES[:rank]),), {**options, "count_include_pad": include}, terms=terms)
        yield call(draw.array(0, 2, *SIZES[:rank]), kernel_size=2)

    return generate


def _adaptive(rank: int, exact: bool) -> Callable[[Draw], Iterator[Sample]]:
    def generate(draw: Draw) -> Iterator[Sample]:
        sizes: tuple[Any, ...] = (1, (3, 4, 2)[:rank], (None, 2, 5)[:rank])
        for size in sizes:
            x = draw.ties(2, 2, *SIZES[:rank]) if exact else draw.array(2, 2, *SIZES[:rank])
            yield call(x, output_size=size).but(exact=exact, terms=int(np.prod(SIZES[:rank])))

    return generate


for _rank, _suffix in ((2, ""), (1, "1d"), (2, "2d"), (3, "3d")):
    sample(f"max_pool{_suffix}", f"max_pool{_suffix}_with_indices")(_max_pool(_rank))
    sample(f"avg_pool{_suffix}")(_avg_pool(_rank))
    sample(f"adaptive_max_pool{_suffix}")(_adaptive(_rank, exact=True))
    sample(f"adaptive_avg_pool{_suffix}")(_adaptive(_rank, exact=False))
