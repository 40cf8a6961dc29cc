"""Whole programs on ONNX Runtime: one session, with the constants in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import intermodal as im
from intermodal.errors import UnsupportedError
from intermodal.ops.table import TABLE

from .test_compiled_ops import calls_of, check
from .test_onnx_export import REFUSED

pytest.importorskip("onnxruntime")
DEVICE = "onnx:cpu"
DTYPES = ("float32", "float64", "int64", "bool", "float16")
PARTLY = {**REFUSED, "repeat": "on data"}
"""Ops of which no call can be compiled, or only some, with a word of the reason."""


def tensor(*shape: int, seed: int = 0) -> im.Tensor:
    return im.asarray(np.random.default_rng(seed).standard_normal(shape).astype(np.float32), device=DEVICE)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_an_op_compiled_gives_what_it_gives_eagerly(name: str) -> None:
    """With ONNX Runtime's fusions; the judge is the conformance kit's."""
    device, calls = im.Device(DEVICE), []
    with im.config.scope(device=DEVICE):
        for call in calls_of(TABLE[name], device, DTYPES):
            if name not in PARTLY:
                calls.append(call)
                continue
            try:
                check([call], device)
            except UnsupportedError as error:
                assert PARTLY[name] in str(error)  # noqa: PT017  # some calls of the op can be compiled, and some cannot
        check(calls, device)


def test_a_program_is_one_session_and_gives_what_its_ops_give(monkeypatch: pytest.MonkeyPatch) -> None:
    from intermodal.engines.onnx.sessions import Session

    built: list[Any] = []

    def counted(*args: Any, **kwargs: Any) -> Session:
        built.append(args[0])
        return Session(*args, **kwargs)

    monkeypatch.setattr("intermodal.engines.onnx.programs.Session", counted)
    w1, w2 = tensor(32, 64, seed=1), tensor(64, 5, seed=2)

    def network(x: im.Tensor) -> im.Tensor:
        return im.nn.softmax(im.nn.gelu(x @ w1) @ w2, axis=-1)

    compiled, x = im.compile(network), tensor(7, 32)
    np.testing.assert_allclose(compiled(x).numpy(), network(x).numpy(), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(compiled(x).numpy(), network(x).numpy(), rtol=1e-5, atol=1e-7)
    assert len(built) == 1
    assert [i.name for i in built[0].graph.input] == ["x0"]  # the weights are no operands of a call
    assert sum(len(w.raw_data) for w in built[0].graph.initializer) < 4096  # nor copied into the model


def test_results_of_no_elements_and_operands_that_are_results_come_out() -> None:
    compiled = im.compile(lambda x, y: (x[:0] @ y, x, x, im.ones(2, device=DEVICE)))
    x, y = tensor(3, 4), tensor(4, 2, seed=1)
    empty, first, second, ones = compiled(x, y)
    assert empty.shape == (0, 2)
    np.testing.assert_array_equal(first.numpy(), x.numpy())
    first[0] = 0.0
    np.testing.assert_array_equal(second.numpy(), x.numpy())
    np.testing.assert_array_equal(ones.numpy(), [1.0, 1.0])


def test_sizes_that_depend_on_data_come_out_as_they_are() -> None:
    places = im.compile(lambda x: im.nonzero(x)[0])
    assert places(im.asarray([0.0, 2.0, 3.0], device=DEVICE)).numpy().tolist() == [1, 2]
    assert places(im.asarray([0.0, 0.0, 3.0], device=DEVICE)).numpy().tolist() == [2]


def test_an_op_without_an_operator_is_named_with_the_reason() -> None:
    with pytest.raises(UnsupportedError, match="qr: a model of ONNX cannot hold it for float32: no operator of ONNX factorizes"):
        im.compile(lambda x: im.linalg.qr(x)[0])(tensor(3, 3))


def test_named_sizes_are_captured_once() -> None:
    compiled = im.compile(lambda x: im.sum(x, axis=0) / x.shape[0], specs=[im.Spec(("n", 3), im.float32)])
    for n in (2, 5):
        np.testing.assert_allclose(compiled(tensor(n, 3)).numpy(), tensor(n, 3).numpy().mean(0), rtol=1e-6)
