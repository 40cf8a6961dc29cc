"""Passes, sums and pictures of captured models: a perceptron and a block of attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matrix import DEVICES

import intermodal as im
from graph.building import assert_same, run
from intermodal.graph import Graph
from intermodal.graph.drawing import to_dot
from intermodal.graph.ir import GraphIr
from intermodal.graph.passes import clean
from intermodal.graph.summary import summarise

rng = np.random.default_rng(5)
W1, B1, W2, B2 = (rng.standard_normal(s).astype(np.float32) for s in ((16, 12), (16,), (12, 16), (12,)))
MATRICES = [rng.standard_normal((12, 12)).astype(np.float32) for _ in range(4)]


def mlp(x: Any) -> Any:
    w1, b1, w2, b2 = (im.asarray(w, device=x.device) for w in (W1, B1, W2, B2))
    hidden = im.nn.relu(im.nn.linear(x, w1, b1))
    return im.nn.softmax(hidden @ w2.T + b2)


def attention(x: Any) -> Any:
    """With what people write: the same weight turned twice, heads taken apart and put together, a scale of constants."""
    query, key, value, out = (im.asarray(w, device=x.device).T for w in MATRICES)

    def heads(y: Any) -> Any:
        return im.permute_dims(im.reshape(y, (*y.shape[:-1], 3, 4)), (0, 2, 1, 3))

    normal = im.nn.layer_norm(x)
    q, k, v = heads(normal @ query), heads(im.nn.layer_norm(x) @ key), heads(im.astype(normal, im.float32) @ value)
    weights = im.nn.softmax(q @ k.mT * im.rsqrt(im.full((), 4.0, device=x.device)))
    mixed = im.permute_dims(weights @ v, (0, 2, 1, 3))
    return x + im.reshape(mixed, x.shape) @ out, weights


# name, function, shape with a named size, ops before and after `clean`
MODELS: list[tuple[Callable[[Any], Any], tuple[Any, ...], int, int]] = [
    (mlp, ("n", 12), 6, 5),
    (attention, ("n", 5, 12), 27, 18),
]


@pytest.mark.parametrize(("model", "shape", "before", "after"), MODELS)
def test_clean_leaves_fewer_ops_and_every_bit(
    model: Callable[[Any], Any], shape: tuple[Any, ...], before: int, after: int
) -> None:
    ir = im.trace(model, im.Spec(shape, "float32"), device="numpy:cpu").ir
    less = clean(ir)
    assert (len(ir.operations), len(less.operations)) == (before, after)
    assert less.output_names == ir.output_names
    for n in (0, 1, 7):
        x = rng.standard_normal((n, *shape[1:])).astype(np.float32)
        assert_same(run(less, x), run(ir, x))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("model", "shape"), [m[:2] for m in MODELS])
def test_a_cleaned_graph_runs_on_every_engine(model: Callable[[Any], Any], shape: tuple[Any, ...], device: str) -> None:
    traced = im.trace(model, im.Spec(shape, "float32"), device=device)
    x = im.asarray(rng.standard_normal((3, *shape[1:])).astype(np.float32), device=device)
    answer, expected = _flat(Graph(clean(traced.ir)).run(x)), _flat(model(x))
    for one, two in zip(answer, expected, strict=True):
        assert str(one.device) == str(device)
        # A score is at most 30 and a sum of 12 terms, each rounded by 6e-8: exp turns 30 * 12 * 6e-8 into a relative 2e-5.
        np.testing.assert_allclose(np.asarray(one.to("numpy:cpu")), np.asarray(two.to("numpy:cpu")), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_a_write_to_a_result_changes_neither_an_input_nor_another_result(device: str) -> None:
    """Although the passes have made them the same tensor."""
    ir = clean(im.trace(lambda x: (im.astype(x, im.float32), x + 1.0, x + 1.0), im.Spec((2,), "float32"), device=device).ir)
    assert [o.op for o in ir.operations] == ["add"]
    x = im.ones(2, device=device)
    first, second, third = Graph(ir).run(x)
    first[0] = 9.0
    second[0] = 7.0
    assert [np.asarray(t.to("numpy:cpu")).tolist() for t in (x, first, second, third)] == [[1, 1], [9, 1], [7, 2], [2, 2]]


def test_a_graph_is_cleaned_inside_a_trace() -> None:
    """Folding computes on NumPy even where a trace takes down what happens there."""
    inner = im.trace(attention, im.Spec((2, 5, 12), "float32"), device="numpy:cpu").ir
    kept: list[GraphIr] = []

    def outer(x: Any) -> Any:
        kept.append(clean(inner))
        return x + 1.0

    assert len(im.trace(outer, im.Spec((2,), "float32"), device="numpy:cpu").ir.operations) == 1
    assert kept[0] == clean(inner)


def test_attention_is_counted_as_by_hand() -> None:
    found = summarise(clean(im.trace(attention, im.Spec(("n", 5, 12), "float32"), device="numpy:cpu").ir), {"n": 2})
    products = 4 * 2 * (2 * 5 * 12) * 12 + 2 * (2 * 2 * 3 * 5 * 5 * 4)
    assert sum(o.flops for o in found.operations if o.op == "matmul") == products
    assert found.parameters == 4 * 144 + 1
    assert found.counts["matmul"] == 6


def test_a_picture_has_the_ops_of_a_model() -> None:
    text = to_dot(im.trace(mlp, im.Spec(("n", 12), "float32"), device="numpy:cpu").ir)
    assert text.count("<b>") == 6
    assert '"weight"' in text
    assert "float32 (n, 16)" in text


def _flat(answer: Any) -> list[Any]:
    return list(answer) if isinstance(answer, tuple) else [answer]
