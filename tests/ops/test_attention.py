"""Attention against loops over heads and queries; embedding and one-hot vectors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from primitives_only import WAYS, open_device

import intermodal as im

EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


@pytest.fixture(params=WAYS)
def device(request: pytest.FixtureRequest) -> Iterator[im.Device]:
    with open_device(request.param) as opened:
        yield opened


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, *, mask: Any = None, bias: Any = None, scale: Any = None,
             softcap: Any = None, offset: int | None = None) -> np.ndarray:  # fmt: skip
    """One query at a time: the softmax over the keys that it sees, then the mean of their values."""
    heads, queries, features = q.shape[-3:]
    keys, group = k.shape[-2], heads // k.shape[-3]
    batch = np.broadcast_shapes(q.shape[:-3], k.shape[:-3], v.shape[:-3])
    q, k, v = (np.broadcast_to(x, (*batch, *x.shape[-3:])) for x in (q, k, v))
    shape = (*batch, heads, queries, keys)
    seen = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
    added = np.zeros(shape) if bias is None else np.broadcast_to(bias, shape)
    result = np.zeros((*shape[:-1], v.shape[-1]))
    for *b, h, i in product(*map(range, shape[:-1])):
        at = (*b, h, i)
        scores = []
        for j in range(keys):
            score = (features**-0.5 if scale is None else scale) * float(q[at] @ k[(*b, h // group, j)])
            score = score if softcap is None else softcap * math.tanh(score / softcap)
            scores.append(score + added[(*at, j)] if seen[(*at, j)] and (offset is None or j <= i + offset) else -math.inf)
        if scores and max(scores) > -math.inf:
            shares = np.exp(np.array(scores) - max(scores))
            result[at] = shares / shares.sum() @ v[(*b, h // group)]
    return result


def drawn(device: im.Device, dtype: str, *shapes: tuple[int, ...], seed: int = 0) -> tuple[list[im.Tensor], list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    tensors = [im.astype(im.asarray(rng.normal(size=s), device=device), dtype) for s in shapes]
    return tensors, [t.numpy().astype(np.float64) for t in tensors]


def check(got: im.Tensor, want: np.ndarray, dtype: str) -> None:
    # Scores of a few features, exponentials of at most e**20, a mean of values below 5: thirty roundings in float32 or wider.
    assert got.dtype.name == dtype
    inner = min(EPS[dtype], EPS["float32"])
    np.testing.assert_allclose(got.numpy().astype(np.float64), want, rtol=EPS[dtype], atol=5 * 30 * inner)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("group", [1, 2, 3])
def test_attention_is_the_mean_of_values_by_the_softmax_of_scores(group: int, dtype: str, device: im.Device) -> None:
    (q, k, v), (a, b, c) = drawn(device, dtype, (2, 2 * group, 4, 3), (2, 2, 5, 3), (2, 2, 5, 6))
    check(im.nn.attention(q, k, v), attended(a, b, c), dtype)


@pytest.mark.parametrize("group", [1, 2])
def test_scale_softcap_bias_and_mask_apply_in_this_order(group: int, device: im.Device) -> None:
    heads = 2 * group
    (q, k, v, bias), (a, b, c, d) = drawn(device, "float64", (2, heads, 4, 3), (2, 2, 5, 3), (2, 2, 5, 2), (heads, 4, 5))
    seen = np.random.default_rng(1).random((2, 1, 4, 5)) < 0.6
    got = im.nn.attention(q, k, v, mask=im.asarray(seen, device=device), bias=bias, scale=1.7, softcap=2.0)
    check(got, attended(a, b, c, mask=seen, bias=d, scale=1.7, softcap=2.0), "float64")


@pytest.mark.parametrize(("queries", "keys"), [(4, 4), (2, 5), (5, 2), (1, 6)])
@pytest.mark.parametrize(("alignment", "shift"), [("bottom_right", True), ("top_left", False)])
def test_a_causal_query_sees_no_later_key(alignment: str, shift: bool, queries: int, keys: int, device: im.Device) -> None:
    (q, k, v), (a, b, c) = drawn(device, "float64", (2, queries, 3), (2, keys, 3), (2, keys, 3))
    got = im.nn.attention(q, k, v, is_causal=True, causal_alignment=alignment)
    check(got, attended(a, b, c, offset=keys - queries if shift else 0), "float64")


def test_the_default_alignment_is_that_of_decoding_with_a_cache(device: im.Device) -> None:
    (q, k, v), _ = drawn(device, "float64", (2, 6, 3), (2, 6, 3), (2, 6, 3))
    whole = im.nn.attention(q, k, v, is_causal=True)
    last = im.nn.attention(q[:, -2:], k, v, is_causal=True)
    np.testing.assert_allclose(last.numpy(), whole[:, -2:].numpy(), atol=1e-14)


def test_a_query_that_sees_nothing_gives_zeros(device: im.Device) -> None:
    (q, k, v), _ = drawn(device, "float32", (1, 2, 3), (1, 4, 3), (1, 4, 3))
    mask = im.asarray([[True, False, True, False], [False] * 4], device=device)
    assert im.nn.attention(q, k, v, mask=mask)[0, 1].tolist() == [0.0, 0.0, 0.0]
    by_bias = im.where(mask, 0.0, im.full((), -math.inf, device=device))
    np.testing.assert_array_equal(im.nn.attention(q, k, v, bias=by_bias).numpy(), im.nn.attention(q, k, v, mask=mask).numpy())
    assert im.nn.attention(q, k, v, mask=mask, is_causal=True, causal_alignment="top_left")[0, 1].tolist() == [0.0] * 3


def test_no_keys_at_all_give_zeros(device: im.Device) -> None:
    got = im.nn.attention(im.ones((2, 3, 4), device=device), im.ones((2, 0, 4), device=device), im.ones((2, 0, 5), device=device))
    assert got.tolist() == [[[0.0] * 5] * 3] * 2


def test_a_masked_key_that_is_nan_does_not_reach_the_scores(device: im.Device) -> None:
    (q, k, v), (a, b, c) = drawn(device, "float64", (1, 2, 3), (1, 3, 3), (1, 3, 3))
    k[0, 1] = math.nan
    seen = np.array([True, False, True])
    check(im.nn.attention(q, k, v, mask=im.asarray(seen, device=device)), attended(a, b, c, mask=seen), "float64")


def test_large_scores_do_not_overflow(device: im.Device) -> None:
    q = im.full((1, 1, 2), 300.0, dtype=im.float16, device=device)
    k = im.asarray([[[300.0, 300.0], [-300.0, 0.0]]], dtype=im.float16, device=device)
    v = im.asarray([[[1.0], [2.0]]], dtype=im.float16, device=device)
    assert im.nn.attention(q, k, v, scale=1.0).tolist() == [[[1.0]]]


def test_batches_broadcast(device: im.Device) -> None:
    (q, k, v), (a, b, c) = drawn(device, "float64", (2, 1, 4, 3, 2), (3, 2, 5, 2), (1, 1, 2, 5, 2))
    check(im.nn.attention(q, k, v), attended(a, b, c), "float64")
    seen = np.random.default_rng(2).random((2, 3, 4, 3, 5)) < 0.5
    check(im.nn.attention(q, k, v, mask=im.asarray(seen, device=device)), attended(a, b, c, mask=seen), "float64")


def test_the_caller_keeps_his_tensors(device: im.Device) -> None:
    (q, k, v, bias), before = drawn(device, "float64", (1, 2, 3), (1, 2, 3), (1, 2, 3), (2, 2))
    im.nn.attention(q, k, v, bias=bias, softcap=1.0, is_causal=True)
    for tensor, host in zip((q, k, v, bias), before, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), host)


@settings(deadline=None)  # a deadline would measure the machine's other load
@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 99))
def test_attention_lies_between_the_values_and_does_not_see_the_order_of_keys(queries: int, keys: int, seed: int) -> None:
    for way in WAYS:
        with open_device(way) as device:
            (q, k, v), (_, _, c) = drawn(device, "float64", (1, queries, 2), (1, keys, 2), (1, keys, 1), seed=seed)
            got = im.nn.attention(q, k, v).numpy()
            assert (got >= c.min() - 1e-13).all()
            assert (got <= c.max() + 1e-13).all()
            turned = im.nn.attention(q, im.flip(k, axis=1), im.flip(v, axis=1)).numpy()
            np.testing.assert_allclose(turned, got, atol=1e-13)


REFUSED: list[tuple[list[tuple[int, ...]], dict[str, Any], str]] = [
    ([(4, 3), (4, 3), (4, 3)], {}, r"attention: the query has shape \(4, 3\), but \(\*batch, heads, sequence, features\)"),
    ([(2, 4, 3), (2, 4, 2), (2, 4, 3)], {}, r"attention: the query has 3 features and the key 2"),
    ([(2, 4, 3), (2, 4, 3), (2, 5, 3)], {}, r"attention: the key has shape \(2, 4, 3\) and the value \(2, 5, 3\)"),
    ([(3, 4, 3), (2, 4, 3), (2, 4, 3)], {}, r"attention: the query has 3 heads and the key 2\. The first must be a multiple"),
    ([(2, 2, 4, 3), (3, 2, 4, 3), (3, 2, 4, 3)], {}, r"attention: cannot broadcast shapes"),
    ([(2, 4, 3)] * 3, {"softcap": 0.0}, r"attention: softcap 0\.0 must be greater than 0, or None"),
    ([(2, 4, 3)] * 3, {"causal_alignment": "left"}, r"attention: causal_alignment 'left' is not known"),
]


@pytest.mark.parametrize(("shapes", "attrs", "message"), REFUSED, ids=lambda v: str(v)[:40])
def test_what_does_not_fit_is_refused_with_the_sizes(
    shapes: list[tuple[int, ...]], attrs: dict[str, Any], message: str, device: im.Device
) -> None:
    with pytest.raises(im.IntermodalError, match=message):
        im.nn.attention(*(im.zeros(s, device=device) for s in shapes), **attrs)


def test_a_mask_is_of_bools_and_broadcasts_to_the_scores(device: im.Device) -> None:
    x = im.zeros((2, 4, 3), device=device)
    with pytest.raises(im.DTypeError, match="attention: the mask has dtype float32"):
        im.nn.attention(x, x, x, mask=im.zeros((4, 4), device=device))
    with pytest.raises(
        im.ShapeError, match=r"attention: the mask has shape \(3, 4\), which does not broadcast|attention: cannot broadcast"
    ):
        im.nn.attention(x, x, x, mask=im.zeros((3, 4), dtype=im.bool, device=device))
    with pytest.raises(
        im.ShapeError,
        match=r"attention: the bias has shape \(1, 2, 4, 4\), which does not broadcast to the scores' shape \(2, 4, 4\)",
    ):
        im.nn.attention(x, x, x, bias=im.zeros((1, 2, 4, 4), device=device))


# --- tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "float8_e4m3fn"])
def test_embedding_takes_rows_of_any_dtype(dtype: str, device: im.Device) -> None:
    table = im.astype(im.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], device=device), dtype)
    got = im.nn.embedding(table, im.asarray([[2, 0], [0, -1]], device=device))
    assert got.dtype is table.dtype
    assert im.astype(got, "float32").tolist() == [[[5, 6], [1, 2]], [[1, 2], [5, 6]]]
    assert im.nn.embedding(table, im.asarray(1, device=device)).shape == (2,)


def test_an_index_without_an_entry_raises(device: im.Device) -> None:
    with pytest.raises(im.IndexRangeError, match=r"3.*\[-3, 2\]"):
        im.nn.embedding(im.zeros((3, 2), device=device), im.asarray([0, 3], device=device))
    with pytest.raises(im.IndexRangeError, match=r"3.*\[-3, 2\]"):
        im.nn.one_hot(im.asarray([0, 3], device=device), 3)
    with pytest.raises(im.DTypeError, match="embedding: indices has dtype float32"):
        im.nn.embedding(im.zeros((3, 2), device=device), im.zeros((2,), device=device))
    with pytest.raises(im.ShapeError, match=r"embedding: the weight has shape \(3,\), but a table \(entries, features\)"):
        im.nn.embedding(im.zeros((3,), device=device), im.asarray([0], device=device))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", [None, "float32", "bool", "complex64"])
def test_one_hot_puts_a_one_at_each_index(dtype: str | None, axis: int, device: im.Device) -> None:
    indices = np.array([[0, 2, 1], [1, 1, 0]])
    got = im.nn.one_hot(im.asarray(indices, device=device), 4, axis=axis, dtype=dtype)
    assert got.dtype.name == (dtype or "int64")
    np.testing.assert_array_equal(got.numpy(), np.moveaxis(np.eye(4)[indices], -1, axis))


def test_one_hot_of_nothing_is_empty(device: im.Device) -> None:
    assert im.nn.one_hot(im.zeros((0, 2), dtype=im.int32, device=device), 3).shape == (0, 2, 3)
    assert im.nn.one_hot(im.asarray(1, dtype=im.uint8, device=device), 3).tolist() == [0, 1, 0]


def test_shapes_follow_without_data() -> None:
    q, k = im.zeros((2, 6, 4, 3), device="meta:cpu"), im.zeros((2, 2, 5, 3), device="meta:cpu")
    assert im.nn.attention(q, k, im.zeros((2, 2, 5, 7), device="meta:cpu"), is_causal=True).shape == (2, 6, 4, 7)
    indices = im.zeros((2, 3), dtype=im.int64, device="meta:cpu")
    assert im.nn.embedding(im.zeros((9, 4), device="meta:cpu"), indices).shape == (2, 3, 4)
    assert im.nn.one_hot(indices, 5, axis=0).shape == (5, 2, 3)
