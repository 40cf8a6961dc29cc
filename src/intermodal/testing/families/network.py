"""Samples of layers and losses: normalization, attention with masks and grouped heads, tables of tokens, losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from intermodal.errors import IndexRangeError, ShapeError
from intermodal.testing.samples import Draw, HostArray, Sample, call, sample

__all__: list[str] = []

REDUCTIONS = ("mean", "sum", "none")

# --- normalization -----------------------------------------------------------------------------------------------


@sample("batch_norm")
def batch_norm_samples(draw: Draw) -> Iterator[Sample]:
    mean, var = draw.array(3), draw.array(3, low=0.5, high=2)
    yield call(draw.array(2, 3, 4), mean, var)
    yield call(draw.array(2, 3, 4, 2), mean, var, draw.array(3), draw.array(3), eps=1e-3)
    yield call(draw.array(4, 3), mean, var, draw.array(3), axis=-1)
    yield call(draw.array(0, 3), mean, var)


@sample("batch_norm_training")
def batch_norm_training_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(4, 3)).but(terms=4)
    yield call(draw.array(2, 3, 4), draw.array(3), draw.array(3), eps=1e-3).but(terms=8)
    yield call(draw.array(4, 3), axis=0).but(terms=3)


@sample("layer_norm")
def layer_norm_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3, 8)).but(terms=8)
    yield call(draw.array(2, 3, 4), draw.array(3, 4), draw.array(3, 4), axis=(1, 2), eps=1e-3).but(terms=12)
    yield call(draw.array(5, 2), axis=0).but(terms=5)
    yield call(draw.array(0, 4)).but(terms=4)
    yield call(draw.array(2, 257)).but(terms=257, large=True)


@sample("rms_norm")
def rms_norm_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3, 8)).but(terms=8)
    yield call(draw.array(3, 8), draw.array(8), eps=1e-3).but(terms=8)
    yield call(draw.array(2, 3, 4), axis=(1, 2)).but(terms=12)


@sample("group_norm")
def group_norm_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(2, 6, 4), num_groups=3).but(terms=8)
    yield call(draw.array(2, 6, 2, 2), draw.array(6), draw.array(6), num_groups=2, eps=1e-3).but(terms=12)
    if draw.dtype.is_floating and draw.dtype.bits >= 16:
        yield call(draw.array(2, 6, 4), num_groups=4).but(raises=ShapeError)


@sample("instance_norm")
def instance_norm_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(2, 3, 5)).but(terms=5)
    yield call(draw.array(2, 3, 4, 2), draw.array(3), draw.array(3), eps=1e-3).but(terms=8)


@sample("norm_grad")
def norm_grad_samples(draw: Draw) -> Iterator[Sample]:
    for centred in (True, False):
        yield call(draw.array(3, 8), draw.array(3, 8), centred=centred).but(terms=8)
        yield call(draw.array(3, 8), draw.array(3, 8), draw.array(8), centred=centred, eps=1e-3).but(terms=8)
        for axis, weight_axis, shape in (
            ((1, 2), (1, 2), (3, 4)),
            ((0, 2), 1, (3,)),
            ((2,), (0, 1), (2, 3)),
            ((0, 1), (0, 1), (2, 3)),
        ):
            x, gradient = draw.array(2, 3, 4), draw.array(2, 3, 4)
            axes = {"axis": axis, "weight_axis": weight_axis, "centred": centred}
            yield Sample((x, gradient, draw.array(*shape)), axes, terms=12)
        x, gradient = draw.array(2, 2, 3, 4), draw.array(2, 2, 3, 4)
        yield call(x, gradient, draw.array(2, 3), axis=(2, 3), weight_axis=(1, 2), centred=centred).but(terms=12)
        yield call(x, gradient, axis=(2, 3), weight_axis=(1, 2), centred=centred).but(terms=12)
    yield call(draw.array(0, 4), draw.array(0, 4), draw.array(4)).but(terms=4)
    yield call(draw.array(2, 257), draw.array(2, 257)).but(terms=257, large=True)


# --- attention and tables ----------------------------------------------------------------------------------------


@sample("attention")
def attention_samples(draw: Draw) -> Iterator[Sample]:
    def heads(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        return draw.array(*shape, low=-2, high=2)

    query, key, value = heads(2, 4, 3, 8), heads(2, 4, 5, 8), heads(2, 4, 5, 6)
    yield call(query, key, value).but(terms=13)
    for alignment in ("bottom_right", "top_left"):
        yield call(query, key, value, is_causal=True, causal_alignment=alignment).but(terms=13)
        yield call(heads(2, 4, 6, 8), key, value, is_causal=True, causal_alignment=alignment).but(terms=13)  # some see no key
    yield call(query, heads(2, 2, 5, 8), heads(2, 2, 5, 6), scale=0.3, softcap=2.0).but(terms=13)
    mask = draw.bools(2, 1, 3, 5)
    mask[0, 0, 1] = False  # a query that sees no key gives zeros
    yield call(query, key, value, mask=mask).but(terms=13)
    yield call(query, key, value, bias=heads(4, 3, 5)).but(terms=13)
    yield call(heads(1, 0, 8), heads(1, 5, 8), heads(1, 5, 6))
    if draw.dtype.is_floating and draw.dtype.bits >= 16:
        yield call(query, heads(2, 3, 5, 8), heads(2, 3, 5, 6)).but(raises=ShapeError)


def _attended(heads: tuple[HostArray, ...], seen: Any = True, scale: float = 8**-0.5, cap: float = 0) -> HostArray:
    """The result of an attention, which its derivative is given."""
    q, k, v = (a.real.astype(np.float64) for a in heads)
    group = q.shape[1] // k.shape[1]
    scores = q @ k.repeat(group, 1).swapaxes(2, 3) * scale
    weights = np.where(seen, np.exp(np.tanh(scores / cap) * cap if cap else scores), 0)
    return np.asarray(weights / np.maximum(weights.sum(-1, keepdims=True), 1e-30) @ v.repeat(group, 1)).astype(heads[0].dtype)


@sample("attention_grad")
def attention_grad_samples(draw: Draw) -> Iterator[Sample]:
    def operands(queries: int, kept: int, **how: Any) -> tuple[HostArray, ...]:
        shapes = ((2, 4, queries, 8), (2, kept, 5, 8), (2, kept, 5, 6))
        heads = tuple(draw.array(*shape, low=-2, high=2) for shape in shapes)
        return (*heads, _attended(heads, **how), draw.array(2, 4, queries, 6, low=-2, high=2))

    yield call(*operands(3, 4)).but(terms=13)
    for alignment in ("bottom_right", "top_left"):
        for queries in (3, 6):  # of six queries over five keys, some see no key
            seen = np.tri(queries, 5, 5 - queries if alignment == "bottom_right" else 0, dtype=np.bool_)
            given = operands(queries, 4, seen=seen)
            yield call(*given, is_causal=True, causal_alignment=alignment).but(terms=13)
    yield call(*operands(3, 2, scale=0.3, cap=2.0), scale=0.3, softcap=2.0).but(terms=13)
    mask = draw.bools(2, 1, 3, 5)
    mask[0, 0, 1] = False
    yield call(*operands(3, 2, seen=mask & np.tri(3, 5, 2, dtype=np.bool_)), mask=mask, is_causal=True).but(terms=13)
    mask = draw.bools(260, 260)
    long = tuple(draw.array(1, 2, 260, 4, low=-2, high=2) for _ in range(3))
    yield call(*long, _attended(long, seen=mask, scale=0.5), draw.array(1, 2, 260, 4), mask=mask).but(terms=264, large=True)


@sample("embedding")
def embedding_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(5, 3), draw.integers(4, low=0, high=5))
    yield call(draw.array(5, 3), draw.integers(2, 2, low=-5, high=5, dtype="int32"))
    yield call(draw.array(5, 3), np.zeros((0,), np.int64))
    yield call(draw.array(5, 3), np.asarray([5])).but(raises=IndexRangeError)


@sample("one_hot")
def one_hot_samples(draw: Draw) -> Iterator[Sample]:
    if draw.dtype.is_integer:
        yield call(draw.ties(2, 3), 4)
        yield call(draw.ties(3), 3, axis=0)
        yield call(draw.ties(0), 3)
        yield call(np.asarray([3], draw.dtype.numpy), 3).but(raises=IndexRangeError)
    else:
        yield call(draw.integers(2, 3, low=0, high=4), 4, dtype=draw.dtype)


# --- losses ------------------------------------------------------------------------------------------------------


@sample("mse_loss")
def mse_loss_samples(draw: Draw) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield call(draw.array(3, 4), draw.array(3, 4), reduction=reduction).but(terms=12)
    yield call(draw.array(), draw.array())


@sample("binary_cross_entropy_with_logits")
def binary_cross_entropy_samples(draw: Draw) -> Iterator[Sample]:
    for reduction in REDUCTIONS:
        yield call(draw.array(3, 4), draw.array(3, 4, low=0, high=1), reduction=reduction).but(terms=12)
    factors = (draw.array(4, low=0, high=2), draw.array(3, 1, low=0, high=2))
    yield call(draw.array(3, 4, low=-40, high=40), draw.array(3, 4, low=0, high=1), *factors).but(terms=12)


@sample("cosine_similarity")
def cosine_similarity_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3, 4), draw.array(3, 4)).but(terms=4)
    yield call(draw.array(3, 4), draw.array(3, 1), axis=0).but(terms=3)
    yield call(np.zeros((2, 3), draw.dtype.numpy), draw.array(2, 3)).but(terms=3)


@sample("nll_loss", "cross_entropy")
def class_loss_samples(draw: Draw) -> Iterator[Sample]:
    target = draw.integers(3, low=0, high=4)
    for reduction in REDUCTIONS:
        yield call(draw.array(3, 4), target, reduction=reduction).but(terms=12)
    weight = draw.array(4, low=0.5, high=2)
    yield call(draw.array(2, 4, 3), draw.integers(2, 3, low=0, high=4), weight).but(terms=24)
    yield call(draw.array(4, 5), np.asarray([0, 3, 2, -100, 1]), axis=0).but(terms=20)
    yield call(draw.array(3, 4), np.asarray([0, 1, 7]), ignore_index=7).but(terms=12)


@sample("cross_entropy_grad")
def cross_entropy_grad_samples(draw: Draw) -> Iterator[Sample]:
    yield call(draw.array(3, 4), draw.integers(3, low=0, high=4), draw.array(3)).but(terms=4)
    yield call(draw.array(4, 2, 3), draw.integers(2, 3, low=-4, high=4, dtype="int32"), draw.array(2, 3), axis=0).but(terms=4)
    yield call(draw.array(0, 4), np.zeros((0,), np.int64), draw.array(0))
    if draw.dtype.is_floating and draw.dtype.bits >= 16:
        yield call(draw.array(2, 3), np.asarray([0, 3]), draw.array(2)).but(raises=IndexRangeError)


@sample("ctc_loss")
def ctc_loss_samples(draw: Draw) -> Iterator[Sample]:
    logits = draw.array(6, 2, 4, low=-2, high=2)
    wide = logits.astype(np.complex128 if draw.dtype.is_complex else np.float64)
    x = np.asarray(wide - np.log(np.exp(wide).sum(-1, keepdims=True))).astype(draw.dtype.numpy)
    targets, lengths = np.asarray([[1, 2, 2], [3, 1, 0]]), (np.asarray([6, 5]), np.asarray([3, 2]))
    for reduction in REDUCTIONS:
        yield call(x, targets, *lengths, reduction=reduction).but(terms=24)
    yield call(x, targets, np.asarray([2, 5]), np.asarray([3, 2]), reduction="none", zero_infinity=True).but(terms=24)


@sample("adam_step")
def adam_samples(draw: Draw) -> Iterator[Sample]:
    for shape in ((3, 4), (), (0,)):
        # A mean square of a half or more keeps the quotient's error a few units in the last place.
        given = (draw.array(*shape), draw.array(*shape), draw.array(*shape), draw.array(*shape, low=0.5, high=3))
        yield call(*given, step=3, rate=0.01).but(terms=4)
        yield call(*given, step=1, rate=0.1, decay=0.1, first=0.5, second=0.25, eps=0.125).but(terms=4)
    if draw.dtype.is_floating:
        yield call(draw.array(2, 3), draw.array(3), draw.array(2, 3), draw.array(2, 3), step=1).but(raises=ShapeError)
