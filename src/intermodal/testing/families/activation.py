"""Samples of activations: both tails, edges, softmax along each axis."""

from __future__ import annotations

from collections.abc import Iterator

from intermodal.ops.table import TABLE
from intermodal.testing.samples import Draw, Sample, call, default_samples, sample

__all__: list[str] = []


@sample("relu", "relu6")
def relu_samples(draw: Draw) -> Iterator[Sample]:
    yield from (s.but(exact=True) for s in default_samples(TABLE["relu"], draw))
    yield call(draw.edges()).but(exact=True)


@sample("sigmoid", "log_sigmoid", "silu", "hard_swish", "mish", "softsign", "selu")
def smooth_samples(draw: Draw) -> Iterator[Sample]:
    yield from default_samples(TABLE["sigmoid"], draw)
    yield call(draw.array(5, low=-40, high=40))


@sample("leaky_relu")
def leaky_relu_samples(draw: Draw) -> Iterator[Sample]:
    yield from default_samples(TABLE["leaky_relu"], draw)
    yield call(draw.array(3, 4), negative_slope=0.5)


@sample("prelu")
def prelu_samples(draw: Draw) -> Iterator[Sample]:
    for weight in ((1,), (3,)):
        yield call(draw.array(2, 3, 4), draw.array(*weight))


@sample("elu")
def elu_samples(draw: Draw) -> Iterator[Sample]:
    yield from default_samples(TABLE["elu"], draw)
    yield call(draw.array(5, low=-40, high=40), alpha=0.5)


@sample("gelu")
def gelu_samples(draw: Draw) -> Iterator[Sample]:
    for approximate in ("none", "tanh"):
        for shape in ((3, 4), (0, 2)):
            yield call(draw.array(*shape), approximate=approximate)
        # Below zero it is a difference of terms of size 1; alone, such a number would be held to its own small size.
        yield call(draw.array(low=0), approximate=approximate)


@sample("gelu_grad")
def gelu_grad_samples(draw: Draw) -> Iterator[Sample]:
    for approximate in ("none", "tanh"):
        for shapes in (((3, 4), (3, 4)), ((), (2,)), ((0, 2), (2,))):
            # Near x = -0.75 it is a difference of terms of size 1, so it is held to their size: x from 0 on, and terms.
            yield call(draw.array(*shapes[0]), draw.array(*shapes[1], low=0), approximate=approximate).but(terms=4)


@sample("hard_sigmoid")
def hard_sigmoid_samples(draw: Draw) -> Iterator[Sample]:
    yield from default_samples(TABLE["hard_sigmoid"], draw)
    yield call(draw.array(3, 4), alpha=0.25, beta=0.25)


@sample("softplus")
def softplus_samples(draw: Draw) -> Iterator[Sample]:
    yield from default_samples(TABLE["softplus"], draw)
    yield call(draw.array(5, low=-40, high=40), beta=2.0)


@sample("glu")
def glu_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3, 4))
    yield call(draw.array(2, 3), axis=0)
    yield call(draw.array(0, 2))


@sample("softmax", "log_softmax", "softmin")
def softmax_samples(draw: Draw) -> Iterator[Sample]:
    for shape, axis in (((3, 4), -1), ((3, 4), 0), ((2, 3, 4), 1), ((0, 3), 1)):
        yield call(draw.array(*shape), axis=axis).but(terms=4)
    yield call(draw.array(2, 5, low=-40, high=40)).but(terms=5)
    yield call(draw.array(5, 129)).but(terms=129, large=True)
