"""Samples of elementwise ops: the usual shapes and edges, within each op's domain, and attributes where there are some."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from intermodal.ops.table import TABLE
from intermodal.testing.samples import Draw, Sample, call, default_samples, sample

__all__: list[str] = []

Range = tuple[float, float]

# Numbers outside a function's domain are tested by the edges; the ranges keep the other samples inside it.
DOMAINS: Final[dict[str, Range]] = {
    "log": (0.01, 9.0),
    "log2": (0.01, 9.0),
    "log10": (0.01, 9.0),
    "log1p": (-0.9, 9.0),
    "sqrt": (0.0, 9.0),
    "rsqrt": (0.1, 9.0),
    "asin": (-1.0, 1.0),
    "acos": (-1.0, 1.0),
    "acosh": (1.0, 9.0),
    "atanh": (-0.9, 0.9),
}
EXACT: Final = (
    "negative", "positive", "floor", "ceil", "trunc", "signbit", "copysign", "nextafter", "conj", "real", "imag", "complex",
    "maximum", "minimum",
)  # fmt: skip


def _unary(name: str, domain: Range | None, exact: bool) -> Callable[[Draw], Iterator[Sample]]:
    def generate(draw: Draw) -> Iterator[Sample]:
        row = TABLE[name]
        ranges = {} if domain is None else {row.params[0].name: domain}
        yield from (s.but(exact=exact) for s in default_samples(row, draw, **ranges))

    return generate


for _name, _domain in DOMAINS.items():
    sample(_name)(_unary(_name, _domain, exact=False))
for _name in EXACT:
    sample(_name)(_unary(_name, None, exact=True))

SCALARS: Final = (
    "add", "subtract", "multiply", "divide", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "bitwise_and",
    "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor", "logaddexp", "hypot", "atan2",
)  # fmt: skip


@sample("abs", "sign")
def size_samples(draw: Draw) -> Iterator[Sample]:
    yield from (s.but(exact=not draw.dtype.is_complex) for s in default_samples(TABLE["abs"], draw))


@sample("pow")
def pow_samples(draw: Draw) -> Iterator[Sample]:
    high = 3.0 if draw.dtype.bits < 8 else 4.0
    bases = (0.1, high) if draw.dtype.is_inexact else (0.0, high)
    exponents = (-2.0, 2.0) if draw.dtype.is_inexact else (0.0, 2.0)
    for first, second in (((3, 4), (3, 4)), ((), ()), ((0, 3), (1,)), ((3, 1), (4,))):
        yield call(draw.array(*first, low=bases[0], high=bases[1]), draw.array(*second, low=exponents[0], high=exponents[1]))
    yield call(draw.array(5, low=-3, high=3), 2)
    if draw.dtype.is_floating:
        yield call(draw.edges()[:, None], draw.edges())
    if draw.dtype.is_integer and draw.dtype.bits == 64:
        yield call(np.asarray([3, 7], draw.dtype.numpy), np.asarray([39, 22], draw.dtype.numpy))  # exact beyond float64's bits


@sample("floor_divide", "remainder")
def division_samples(draw: Draw) -> Iterator[Sample]:
    def divisor(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        least = 1 if not draw.dtype.is_inexact else 0.5
        sign = -1 if draw.dtype.kind != "unsigned integer" and shape == (4,) else 1
        return np.asarray(draw.array(*shape, low=least, high=4) * draw.dtype.numpy.type(sign)).astype(draw.dtype.numpy)

    if draw.dtype.is_bool:
        yield call(draw.array(3), draw.array(3))
        return
    for first, second in (((3, 4), (4,)), ((3, 4), (3, 1)), ((), ()), ((0,), (1,)), ((67, 129), (129,))):
        yield call(draw.array(*first), divisor(*second)).but(large=first == (67, 129))
    yield call(draw.array(6), 3)
    if draw.dtype.is_floating:
        yield call(draw.edges()[:, None], draw.edges())


@sample("bitwise_left_shift", "bitwise_right_shift")
def shift_samples(draw: Draw) -> Iterator[Sample]:
    last = draw.dtype.bits - 2
    for first, second in (((3, 4), (3, 4)), ((), ()), ((0, 3), (1,)), ((3, 1), (4,))):
        yield call(draw.array(*first), draw.array(*second, low=0, high=last))
    yield call(draw.array(3, 4), 1)
    if draw.dtype.is_integer:
        yield call(draw.edges(), 1)


@sample("round")
def round_samples(draw: Draw) -> Iterator[Sample]:
    for options in default_samples(TABLE["round"], draw):
        yield options.but(exact=True)
    if draw.dtype.is_inexact:
        yield call(draw.array(3, 4), decimals=1)
        yield call(draw.array(3, 4, low=-400, high=400), decimals=-1)


@sample("clip")
def clip_samples(draw: Draw) -> Iterator[Sample]:
    x = draw.array(3, 4)
    low, high = draw.array(4, low=0, high=1), draw.array(3, 1, low=2, high=3)
    bounds = (1, 2) if draw.dtype.is_integer else (-1.5, 1.5)
    for given in (
        call(x, low, high),
        call(x, *bounds),
        call(x, None, high),
        call(x, bounds[0]),
        call(x),
        call(draw.array(), *bounds),
    ):
        yield given.but(exact=True)
    yield call(draw.array(0, 2), *bounds)
    yield call(draw.edges(), *bounds).but(exact=True)


@sample("where")
def where_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.bools(3, 4), draw.array(3, 4), draw.array(3, 4))
    yield call(draw.bools(3, 1), draw.array(4), draw.array())
    yield call(draw.bools(0), draw.array(1), draw.array(0))
    yield call(draw.bools(), draw.array(2), draw.array(2))
    yield call(draw.bools(draw.edges().size), draw.edges(), draw.array())
    yield call(draw.bools(67, 129), draw.array(67, 129), draw.array(129)).but(large=True)


@sample("lerp")
def lerp_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3, 4), draw.array(3, 4), draw.array(3, 4, low=0, high=1))
    yield call(draw.array(3, 1), draw.array(4), 0.25)
    yield call(draw.array(0), draw.array(0), draw.array(1))
    yield call(draw.array(), draw.array(), draw.array())


@sample("addcmul")
def addcmul_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3, 4), draw.array(3, 1), draw.array(4), value=0.5)
    yield call(draw.array(), draw.array(), draw.array())
    yield call(draw.array(0), draw.array(1), draw.array(1), value=2.0)


def _with_scalars(name: str) -> Callable[[Draw], Iterator[Sample]]:
    def generate(draw: Draw) -> Iterator[Sample]:
        yield from default_samples(TABLE[name], draw)
        scalar = True if draw.dtype.is_bool else 2 if draw.dtype.is_integer else 1.5
        yield call(draw.array(3, 4), scalar)
        yield call(scalar, draw.array(3, 4))
        yield call(draw.array(3, 4), draw.array(4, dtype="int8", low=0))  # of another dtype: both are promoted

    return generate


for _name in SCALARS:
    sample(_name)(_with_scalars(_name))
