"""Samples of Fourier transforms: sizes that are powers of two and primes, padded and cut signals, norms, several axes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from intermodal.errors import ShapeError
from intermodal.testing.samples import Draw, Sample, call, sample

__all__: list[str] = []

NORMS = ("backward", "ortho", "forward")


@sample("fft", "ifft", "rfft", "ihfft", "irfft", "hfft")
def transform_samples(draw: Draw) -> Iterator[Sample]:
    for shape, axis in (((8,), -1), ((7,), -1), ((3, 5), 0), ((2, 6, 2), 1), ((2, 2), -1)):
        yield call(draw.array(*shape), axis=axis).but(terms=max(shape))
    for n in (1, 4, 9):
        yield call(draw.array(2, 6), n=n).but(terms=9)
    for norm in NORMS:
        yield call(draw.array(6), norm=norm).but(terms=6)
    yield call(draw.array(0, 4)).but(terms=4)
    yield call(draw.array(3, 257)).but(terms=257, large=True)
    if not draw.dtype.is_complex and not draw.dtype.is_bool:
        yield call(draw.array(2, 0), n=0).but(raises=ShapeError)


@sample("fftn", "ifftn", "rfftn", "irfftn")
def several_samples(draw: Draw) -> Iterator[Sample]:
    forms: tuple[dict[str, Any], ...] = (
        {},
        {"axes": (0, 2)},
        {"axes": (1, 0), "s": (4, -1)},
        {"axes": (-1,), "norm": "ortho"},
        {"norm": "forward"},
    )
    for options in forms:
        yield Sample((draw.array(2, 3, 4),), options, terms=24)


@sample("fftfreq", "rfftfreq")
def frequency_samples(draw: Draw) -> Iterator[Sample]:
    for n, d in ((8, 1.0), (7, 0.5), (1, 1.0)):
        yield call(n, d=d, dtype=draw.dtype)


@sample("fftshift", "ifftshift")
def shift_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3, 4))
    yield call(draw.array(3, 5), axes=1)
    yield call(draw.array(3, 4, 5), axes=(0, -1))
    yield call(draw.array(0, 3))
