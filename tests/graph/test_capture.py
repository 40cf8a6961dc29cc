"""Capture: a function run on symbols becomes a graph that does the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import intermodal as im
from intermodal import dtypes
from intermodal.autodiff import trees
from intermodal.errors import (
    ArgumentError,
    CaptureError,
    DeviceMismatchError,
    GraphError,
    IntermodalError,
    NoDataError,
    UnsupportedError,
)
from intermodal.graph import Graph
from intermodal.graph.binary import from_bytes, to_bytes
from intermodal.graph.text import from_text
from intermodal.ops.table import TABLE, Op
from intermodal.testing.calls import on
from intermodal.testing.samples import cases


def spec(*shape: Any, dtype: str = "float32") -> im.Spec:
    return im.Spec(shape, dtypes.as_dtype(dtype))


def calls_of(row: Op, device: im.Device) -> Iterator[tuple[tuple[Any, ...], dict[str, Any], Any]]:
    """Calls of an op that the device answers, with the answer."""
    for dtype in (im.float32, im.int32, im.bool, im.complex64, im.int64):
        for sample in cases(row, dtype):
            if sample.raises is None and not sample.large:
                try:
                    args, kwargs = on(row, sample, device)
                    yield args, kwargs, row.function(*args, **kwargs)
                except IntermodalError:  # a dtype that the op or the device does not take
                    continue


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_op_replays_as_it_ran_from_bytes_and_text_too(name: str, device: str) -> None:
    row, shown = TABLE[name], 0
    for args, kwargs, expected in calls_of(row, im.Device(device)):
        graph = im.trace(lambda args, kwargs: row.function(*args, **kwargs), args, kwargs, device=device)
        assert from_bytes(to_bytes(graph.ir)) == from_text(str(graph)) == graph.ir
        read = Graph(from_bytes(to_bytes(graph.ir)), graph.device, graph.arguments, graph.answer)
        found = read.run(args, kwargs, device=device)
        assert type(found) is type(expected)
        for mine, its in zip(trees.leaves(found), trees.leaves(expected), strict=True):
            assert (mine.dtype, mine.device, mine.shape) == (its.dtype, its.device, its.shape)
            if row.family != "creation" or not name.startswith("empty"):  # what is empty has no value
                np.testing.assert_array_equal(mine.numpy(), its.numpy())
        shown += 1
        if shown == 5:
            return
    if not shown:  # the ops of complex numbers, on a device that has none
        with pytest.raises(UnsupportedError, match="complex"):
            im.ones(1, dtype=im.complex64, device=device)
        pytest.skip(f"{device} has no complex numbers, which this op needs")


# --- what a graph is -------------------------------------------------------------------------------------------------


def test_no_data_is_touched_and_a_graph_says_what_it_is() -> None:
    graph = im.trace(lambda x: x @ x, spec(100_000, 100_000))
    assert repr(graph) == "<graph of 1 ops: 1 inputs, 0 constants, 1 outputs>"
    assert [o.op for o in graph.ir.operations] == ["matmul"]


@dataclass
class Pair:
    left: im.Tensor
    right: im.Tensor


def test_trees_go_in_and_come_out() -> None:
    def function(model: dict[str, Any], pair: Pair) -> Any:
        return {"sum": pair.left + model["w"][0], "pair": Pair(pair.right, pair.left), "n": 3}

    model, pair = {"w": [im.ones(2)]}, Pair(im.zeros(2), im.ones(2))
    graph = im.trace(function, model, pair)
    answer = graph.run(model, pair)
    assert answer["n"] == 3
    assert answer["sum"].tolist() == [1, 1]
    assert answer["pair"].right.tolist() == [0, 0]
    assert graph.ir.input_names == ("model_w_0", "pair_left", "pair_right")
    assert graph.ir.output_names == ("result_sum", "result_pair_left", "result_pair_right")


def test_what_the_function_has_from_elsewhere_is_a_constant_once(device: str) -> None:
    weight = im.asarray([1.0, 2.0], device=device)
    graph = im.trace(lambda x: x * weight + weight, im.ones(2, device=device))
    assert len(graph.ir.constants) == 1
    assert graph.run(im.ones(2, device=device)).tolist() == [2, 4]


def test_data_inside_the_function_is_a_constant(device: str) -> None:
    graph = im.trace(lambda x: x + im.asarray([1.0, 2.0], device=x.device), im.ones(2, device=device))
    assert graph.run(im.ones(2, device=device)).tolist() == [2, 3]


def test_new_tensors_are_made_in_the_graph() -> None:
    graph = im.trace(lambda x: x + im.arange(3, dtype=im.float32) + im.zeros(3), spec(3))
    assert [o.op for o in graph.ir.operations] == ["arange", "add", "full", "add"]
    assert graph.run(im.ones(3)).tolist() == [1, 2, 3]


def test_a_graph_of_one_engine_runs_on_another(device: str) -> None:
    graph = im.trace(lambda x: im.nn.softmax(x * 2 + im.ones(3), axis=-1), spec(2, 3))
    x = im.reshape(im.arange(6, dtype=im.float32), (2, 3))
    expected = im.nn.softmax(x * 2 + 1, axis=-1)
    np.testing.assert_allclose(graph.run(x, device=device).numpy(), expected.numpy(), rtol=1e-6)


def test_writes_inside_the_function_are_captured() -> None:
    def function(x: im.Tensor) -> im.Tensor:
        y = x + 0
        view = y[1:]
        view += 10
        y[0] = -1.0
        return y

    assert im.trace(function, spec(3)).run(im.zeros(3)).tolist() == [-1, 10, 10]


def test_derivatives_are_captured(device: str) -> None:
    def loss(w: im.Tensor, x: im.Tensor) -> im.Tensor:
        return im.mean(im.tanh(x @ w) ** 2)

    w, x = im.ones((3, 2), device=device) * 0.1, im.ones((4, 3), device=device)
    graph = im.trace(im.value_and_grad(loss), w, x)
    value, gradient = graph.run(w, x)
    eager_value, eager_gradient = im.value_and_grad(loss)(w, x)
    np.testing.assert_allclose(value.numpy(), eager_value.numpy(), rtol=1e-6)
    np.testing.assert_allclose(gradient.numpy(), eager_gradient.numpy(), rtol=1e-6)


def test_second_derivatives_are_captured() -> None:
    graph = im.trace(im.grad(lambda x: im.sum(im.grad(lambda y: im.sum(y**3))(x))), spec(2))
    assert graph.run(im.asarray([1.0, 2.0])).tolist() == [6, 12]


def test_random_numbers_are_drawn_in_each_run_unless_their_seed_is_given() -> None:
    free = im.trace(lambda x: x + im.random.uniform((3,)), spec(3))
    fixed = im.trace(lambda x: x + im.random.uniform((3,), seed=1), spec(3))
    x = im.zeros(3)
    assert free.run(x).tolist() != free.run(x).tolist()
    assert fixed.run(x).tolist() == fixed.run(x).tolist() == im.random.uniform((3,), seed=1).tolist()


# --- named sizes -----------------------------------------------------------------------------------------------------


def test_a_size_may_be_a_name() -> None:
    graph = im.trace(lambda x: im.reshape(x, (-1,)) * 2, spec("n", 3))
    assert str(graph.ir.outputs[0].shape[0]) == "3*n"
    for n in (0, 1, 2, 7):
        assert graph.run(im.ones((n, 3))).tolist() == [2.0] * (3 * n)


def test_several_names_and_their_product() -> None:
    graph = im.trace(lambda x, y: im.reshape(x[:, None, :] + y[None, :, :], (-1, 5)), spec("n", 5), spec("m", 5))
    assert str(graph.ir.outputs[0].shape[0]) == "m*n"
    assert graph.run(im.ones((3, 5)), im.ones((2, 5))).shape == (6, 5)


def test_a_mean_and_its_derivative_are_for_every_size() -> None:
    graph = im.trace(im.grad(lambda x: im.mean(x * x)), spec("n"))
    assert graph.run(im.ones(4)).tolist() == [0.5] * 4
    assert graph.run(im.ones(8)).tolist() == [0.25] * 8


def test_halves_of_a_size_are_known_and_an_odd_one_is_refused() -> None:
    graph = im.trace(lambda x: im.reshape(x, (2, x.shape[0] // 2)), spec("n"))
    assert graph.run(im.ones(10)).shape == (2, 5)
    with pytest.raises(IntermodalError, match="not a whole number"):
        graph.run(im.ones(5))


def test_sizes_rounded_down_are_not_mistaken_for_others() -> None:
    with pytest.raises(CaptureError, match="no polynomial"):
        im.trace(lambda x: x[: x.shape[0] // 2 * 2], spec("n"))


def test_other_steps_for_other_sizes_are_refused() -> None:
    with pytest.raises(CaptureError, match="other steps for other sizes"):
        im.trace(lambda x: x + 1 if x.shape[0] > 20 else x, spec("n"))


def test_a_number_that_is_no_size_is_refused() -> None:
    with pytest.raises(CaptureError, match="Give the sizes as numbers"):
        im.trace(lambda x: x * (1 / x.shape[0]), spec("n"))


def test_inputs_that_do_not_fit_are_refused() -> None:
    graph = im.trace(lambda x, y: x + y, spec("n", 3), spec("n", 3))
    with pytest.raises(GraphError, match=r"input y is float32 of shape \(3, 3\), the graph takes float32 of shape \(n, 3\)"):
        graph.run(im.ones((2, 3)), im.ones((3, 3)))
    with pytest.raises(GraphError, match="int64"):
        graph.run(im.ones((2, 3), dtype=im.int64), im.ones((2, 3)))
    with pytest.raises(ArgumentError, match="1 arguments were given, the graph takes 2"):
        graph.run(im.ones((2, 3)))
    with pytest.raises(ArgumentError, match="argument 0 is a list"):
        graph.run([1, 2], im.ones((2, 3)))


# --- what cannot be captured -----------------------------------------------------------------------------------------


def branches(x: im.Tensor) -> im.Tensor:
    if im.sum(x) > 0:  # this very line
        return x
    return -x


@pytest.mark.parametrize(
    "function", [branches, lambda x: x * float(im.sum(x)), lambda x: im.asarray(x.numpy()), lambda x: x.tolist()]
)
def test_a_value_that_is_not_there_yet_is_refused_with_the_line(function: Any) -> None:
    with pytest.raises(CaptureError, match="inside a trace") as caught:
        im.trace(function, spec(3))
    assert __file__ in str(caught.value)
    if function is branches:
        assert "this very line" in str(caught.value)


def test_a_tensor_does_not_outlive_its_trace() -> None:
    kept: list[im.Tensor] = []
    im.trace(lambda x: kept.append(x) or x, spec(3))  # type: ignore[func-returns-value]
    with pytest.raises(CaptureError, match="after the trace has ended"):
        kept[0] + 1
    with pytest.raises(CaptureError, match="of another trace"):
        im.trace(lambda x: x + kept[0], spec(3))
    assert repr(kept[0]) == "Tensor(shape=(3,), dtype=float32, device=numpy:cpu)"


def test_a_tracked_tensor_from_outside_is_refused() -> None:
    w = im.ones(3).require_grad()
    with pytest.raises(CaptureError, match="Pass it as an argument, or detach it"):
        im.trace(lambda x: x * w, spec(3))
    with pytest.raises(CaptureError, match="tracked"):
        im.trace(lambda x: x.require_grad() * 2, spec(3))


def test_sizes_that_depend_on_data_can_be_returned_and_nothing_else() -> None:
    x = im.asarray([3.0, 0.0, 1.0])
    assert im.trace(lambda x: im.nonzero(x)[0], spec(3)).run(x).tolist() == [0, 2]
    with pytest.raises(CaptureError, match="depends on data"):
        im.trace(lambda x: im.nonzero(x)[0] + 1, spec(3))


def test_a_graph_stays_on_its_device() -> None:
    with pytest.raises(NoDataError):
        im.trace(lambda x: x.to("meta:cpu").to("numpy:cpu"), spec(3), device="numpy:cpu")
    with pytest.raises(DeviceMismatchError):
        im.trace(lambda x: x + im.ones(3, device="meta:cpu"), spec(3))


def test_after_a_trace_that_failed_all_is_as_before() -> None:
    with pytest.raises(CaptureError):
        im.trace(branches, spec(3))
    assert im.zeros(2).tolist() == [0, 0]


def test_a_row_without_a_rule_is_taken_down_with_the_dtype_that_it_means() -> None:
    graph = im.trace(lambda x: (im.zeros_like(x, dtype="int32"), im.ones_like(x)), spec(3))
    assert [o.attrs["dtype"] for o in graph.ir.operations] == [im.int32, im.float32]
