"""ONNX models as graphs: held against ONNX's own examples of each operator, and against files that mean harm."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import intermodal as im
from intermodal.errors import ArgumentError, GraphError
from intermodal.graph.limits import LIMITS

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from intermodal.graph.importing.node import OPERATORS  # noqa: E402

from .test_onnx_export import MODELS, weights  # noqa: E402

READ = (
    "must be a constant", "is of opset", "which is no dtype here", "not read", "are read", "is in training", "no tensor of a known rank",
    "has no elements along",
)  # fmt: skip
"""Words of the reasons for which an example of ONNX may be refused."""


@cache
def examples() -> dict[str, list[Any]]:
    """ONNX's own examples, by the operator that they show."""
    from onnx.backend.test.loader import load_model_tests

    found = defaultdict(list)
    for case in load_model_tests(kind="node"):
        if case.model is not None and {n.op_type for n in case.model.graph.node} <= {*OPERATORS, "Constant"}:
            found[case.model.graph.node[-1].op_type if "expanded" in case.name else case.model.graph.node[0].op_type].append(case)
    return found


def plain(value: Any) -> np.ndarray[Any, Any]:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)  # type: ignore[no-any-return]


def loaded(model: Any, given: list[Any], path: Path) -> tuple[im.Graph, list[Any]]:
    """The graph and its operands; what the operator needs as numbers becomes a constant."""
    path.write_bytes(model.SerializeToString())
    try:
        return im.Graph.load(path), given
    except GraphError as error:
        if "must be a constant" not in str(error):
            raise
    fixed = onnx.ModelProto.FromString(model.SerializeToString())
    first = 1 if fixed.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT else 0
    names = [i.name for i in fixed.graph.input][first:]
    fixed.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in zip(names, given[first:], strict=True))
    path.write_bytes(fixed.SerializeToString())
    return im.Graph.load(path), given[:first]


@pytest.mark.parametrize("operator", sorted({*OPERATORS} - {"Range", "ConstantOfShape"}))
def test_the_examples_of_an_operator_give_what_onnx_says(operator: str, tmp_path: Path) -> None:
    shown, refusals = 0, []
    for case in examples()[operator]:
        for inputs, outputs in case.data_sets:
            given, expected = [plain(v) for v in inputs], [plain(v) for v in outputs]
            if "bf16" in case.name or "fp16" in case.name:  # the expected results were rounded to 16 bits step by step
                continue
            try:
                graph, operands = loaded(case.model, given, tmp_path / "model.onnx")
            except GraphError as error:
                refusals.append(str(error))
                continue
            found = graph.run(*map(im.asarray, operands), device="numpy:cpu")
            for mine, its in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
                assert (mine.numpy().dtype, mine.shape) == (its.dtype, its.shape), case.name
                wide = np.float64 if mine.dtype.is_floating else its.dtype
                # The tolerances of ONNX's own runner.
                np.testing.assert_allclose(mine.numpy().astype(wide), its.astype(wide), case.rtol, case.atol, err_msg=case.name)
            shown += 1
    assert [text for text in refusals if not any(words in text for words in READ)] == []
    assert shown or all("is of opset" in text for text in refusals)


@pytest.mark.parametrize("kind", ["pytorch-converted", "pytorch-operator"])
def test_layers_that_pytorch_exported_give_what_pytorch_gave(kind: str, tmp_path: Path) -> None:
    """The models that come with ONNX; they are of old opsets, so its converter brings them to one that is read."""
    from onnx import version_converter

    shown = 0
    for folder in sorted((Path(onnx.__file__).parent / "backend" / "test" / "data" / kind).iterdir()):
        data = folder / "test_data_set_0"
        inputs, outputs = (
            [numpy_helper.to_array(onnx.load_tensor(f)) for f in sorted(data.glob(f"{end}_*.pb"))] for end in ("input", "output")
        )
        proto = version_converter.convert_version(onnx.load(folder / "model.onnx"), 17)
        if any(
            n.op_type == "PRelu" for n in proto.graph.node
        ):  # it broadcasts otherwise since opset 7, which the converter does not know
            continue
        graph = load(proto, tmp_path)
        found = graph.run(*map(im.asarray, inputs[: len(graph.ir.inputs)]))
        for mine, its in zip(found if isinstance(found, tuple) else (found,), outputs, strict=True):
            np.testing.assert_allclose(mine.numpy(), its, rtol=1e-3, atol=1e-5, err_msg=folder.name)  # ONNX's own bounds for them
        shown += 1
    assert shown >= 35


@pytest.mark.parametrize(("model", "shape", "sizes"), MODELS, ids=lambda v: getattr(v, "__name__", None))
def test_what_is_exported_is_imported_and_runs_the_same(
    model: Callable[[im.Tensor], im.Tensor], shape: tuple[Any, ...], sizes: list[tuple[int, ...]], tmp_path: Path
) -> None:
    im.trace(model, im.Spec(shape, im.float32)).save(tmp_path / "m.onnx")
    graph = im.Graph.load(tmp_path / "m.onnx")
    assert [str(n) for n in graph.ir.inputs[0].shape] == list(map(str, shape))
    for size in sizes:
        x = weights(*size, seed=9)
        # The derivation of the bound is in the tests of exporting.
        bound = 64 * float(np.finfo(np.float32).eps)
        np.testing.assert_allclose(graph.run(x).numpy(), model(x).numpy(), rtol=bound, atol=bound)


# --- models of others ------------------------------------------------------------------------------------------------


def model(
    nodes: list[Any], inputs: dict[str, Any], outputs: list[str], constants: dict[str, Any] | None = None, opset: int = 17
) -> Any:
    """A model of float32 inputs; results of a shape that is not said."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def load(proto: Any, tmp_path: Path, **options: Any) -> im.Graph:
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    return im.Graph.load(tmp_path / "m.onnx", **options)


def test_a_network_as_pytorch_writes_it_keeps_its_named_batch(tmp_path: Path) -> None:
    node = helper.make_node
    w, b, v = weights(4, 1, 3, 3).numpy(), weights(4).numpy(), weights(10, 64, seed=1).numpy()
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Shape", ["p"], ["s"]),
        node("Constant", [], ["zero"], value_int=0),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Constant", [], ["first"], value_ints=[0]),
        node("Unsqueeze", ["n", "first"], ["n1"]),
        node("Concat", ["n1", "rest"], ["shape"], axis=0),
        node("Reshape", ["p", "shape"], ["flat"]),
        node("Gemm", ["flat", "v"], ["g"], transB=1),
        node("Softmax", ["g"], ["y"], axis=1),
    ]
    constants = {"w": w, "b": b, "v": v, "rest": np.asarray([-1])}
    graph = load(model(nodes, {"x": ["batch", 1, 8, 8]}, ["y"], constants), tmp_path)
    assert str(graph.ir.inputs[0].shape[0]) == "batch"
    assert [o.op for o in graph.ir.operations] == ["conv2d", "relu", "max_pool2d", "reshape", "matmul", "softmax"]
    for n in (1, 3):
        x = weights(n, 1, 8, 8, seed=5)
        hidden = im.nn.max_pool2d(im.nn.relu(im.nn.conv2d(x, im.asarray(w), im.asarray(b), padding=1)), kernel_size=2)
        expected = im.nn.softmax(hidden.reshape(n, -1) @ im.asarray(v).T, axis=-1)
        np.testing.assert_allclose(graph.run(x).numpy(), expected.numpy(), rtol=1e-6, atol=1e-7)


def test_a_loaded_model_is_differentiated_and_compiled_like_any_program(tmp_path: Path) -> None:
    node = helper.make_node
    graph = load(
        model([node("Mul", ["x", "x"], ["s"]), node("ReduceSum", ["s"], ["y"], keepdims=0)], {"x": ["n"]}, ["y"]), tmp_path
    )
    x = im.asarray([1.0, -2.0])
    assert im.grad(graph.run)(x).numpy().tolist() == [2.0, -4.0]
    assert float(im.compile(graph.run)(x)) == 5.0


def test_positions_that_follow_from_a_named_length_are_ops(tmp_path: Path) -> None:
    node = helper.make_node
    nodes = [
        node("Shape", ["x"], ["s"], start=1, end=2),
        node("Squeeze", ["s"], ["n"]),
        node("Range", ["zero", "n", "one"], ["places"]),
        node("Gather", ["table", "places"], ["rows"], axis=0),
        node("Add", ["x", "rows"], ["y"]),
    ]
    table = weights(100, 4).numpy()
    constants = {"zero": np.asarray(0), "one": np.asarray(1), "table": table}
    graph = load(model(nodes, {"x": ["n", "length", 4]}, ["y"], constants), tmp_path)
    x = weights(2, 7, 4, seed=3)
    np.testing.assert_array_equal(graph.run(x).numpy(), x.numpy() + table[:7])


def test_sizes_without_a_name_or_with_an_odd_one_get_one(tmp_path: Path) -> None:
    graph = load(model([helper.make_node("Relu", ["x"], ["y"])], {"x": [None, "batch size", "2*k", "nan"]}, ["y"]), tmp_path)
    assert [str(n) for n in graph.ir.inputs[0].shape] == ["x_0", "batch_size", "2*k", "nan_"]


# --- what is refused -------------------------------------------------------------------------------------------------


def test_an_operator_without_an_op_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(
        GraphError, match=r"node 0, NonMaxSuppression \(boxes\): there is no op for this operator. There are Abs, Acos"
    ):
        load(model([helper.make_node("NonMaxSuppression", ["x", "x"], ["y"], "boxes")], {"x": [1, 2, 4]}, ["y"]), tmp_path)
    with pytest.raises(GraphError, match=r"no op for this operator of com\.microsoft"):
        load(model([helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")], {"x": [2]}, ["y"]), tmp_path)


def test_an_attribute_that_is_not_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="attribute momentum_of_it is not read"):
        load(model([helper.make_node("Relu", ["x"], ["y"], momentum_of_it=1.0)], {"x": [2]}, ["y"]), tmp_path)
    body = helper.make_graph([], "body", [], [])
    with pytest.raises(GraphError, match="is a graph"):
        load(model([helper.make_node("Relu", ["x"], ["y"], then=body)], {"x": [2]}, ["y"]), tmp_path)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([("Relu", ["gone"], ["y"])], "operand gone is made by no node"),
        ([("Relu", ["x"], ["z"])], "no node that makes its result y"),
        ([("Add", ["x", "five"], ["y"])], "node 0, Add: "),
        ([("Reshape", ["x", "x"], ["y"])], "depends on data"),
    ],
)
def test_a_model_that_does_not_fit_together_is_refused(nodes: list[Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=words):
        load(model([helper.make_node(*n) for n in nodes], {"x": [2]}, ["y"], {"five": np.ones(5, np.float32)}), tmp_path)


def test_bytes_that_are_no_model_are_refused(tmp_path: Path) -> None:
    for data in (b"\xff" * 50, b"", os.urandom(200)):
        (tmp_path / "m.onnx").write_bytes(data)
        with pytest.raises(GraphError):
            im.Graph.load(tmp_path / "m.onnx")
    with pytest.raises(ArgumentError, match="there is no file"):
        im.Graph.load(tmp_path / "none.onnx")


def test_what_is_cut_short_or_changed_is_read_or_refused(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    models = [cases[0].model.SerializeToString() for cases in examples().values() if cases]
    for data in models:
        for _ in range(10):
            changed = bytearray(data[: random.integers(1, len(data) + 1)] if random.random() < 0.2 else data)
            for _ in range(random.integers(1, 5)):
                changed[random.integers(len(changed))] = random.integers(256)
            (tmp_path / "m.onnx").write_bytes(bytes(changed))
            try:
                im.Graph.load(tmp_path / "m.onnx")
            except GraphError:
                continue


@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("MaxPool", ["x"], ["y"]),
        helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=1.5),
        helper.make_node("LayerNormalization", ["x", "x"], ["y"], axis=-(2**60)),
        helper.make_node("Split", ["x"], ["y"], num_outputs=2**40),
        helper.make_node("LRN", ["x"], ["y"], size=2**40),
        helper.make_node("ScatterElements", ["x", "x", "x"], ["y"], reduction="mad"),
        helper.make_node("Attention", ["x", "x", "x"], ["y"], q_num_heads=0, kv_num_heads=0),
    ],
    ids=lambda node: node.op_type,
)
def test_attributes_that_make_no_sense_are_refused_at_once(node: Any, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=f"node 0, {node.op_type}: "):
        load(model([node], {"x": [2, 3, 4]}, ["y"], opset=23), tmp_path)


def test_limits_hold(tmp_path: Path) -> None:
    big = model([helper.make_node("Add", ["x", "c"], ["y"])], {"x": [100]}, ["y"], {"c": np.ones(100, np.float32)})
    with pytest.raises(GraphError, match="limits"):
        load(big, tmp_path, limits=replace(LIMITS, constant_bytes=100))
    with pytest.raises(GraphError, match="at most 0 are allowed"):
        load(big, tmp_path, limits=replace(LIMITS, operations=0))
    claims = model([helper.make_node("Add", ["x", "c"], ["y"])], {"x": [100]}, ["y"])
    claims.graph.initializer.append(TensorProto(name="c", data_type=1, dims=[2**40, 2**40]))
    with pytest.raises(GraphError, match="limits"):
        load(claims, tmp_path)
    huge = model([helper.make_node("Expand", ["x", "s"], ["y"])], {"x": [1]}, ["y"], {"s": np.asarray([2**30, 2**20])})
    load(huge, tmp_path)  # a shape costs nothing until it is run
    with pytest.raises(GraphError, match="more than 8 sizes"):
        load(model([helper.make_node("Relu", ["x"], ["y"])], {"x": [f"n{i}" for i in range(9)]}, ["y"]), tmp_path)
    with pytest.raises(GraphError, match="opset 9"):
        load(model([helper.make_node("Relu", ["x"], ["y"])], {"x": [1]}, ["y"], opset=9), tmp_path)


# --- constants beside the model ----------------------------------------------------------------------------------------


def beside(folder: Path, **entries: str) -> Path:
    """A model whose constant is said to lie elsewhere."""
    proto = model([helper.make_node("Add", ["x", "c"], ["y"])], {"x": [3]}, ["y"])
    tensor = TensorProto(name="c", data_type=1, dims=[3], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    proto.graph.initializer.append(tensor)
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    return folder / "m.onnx"


def test_constants_beside_the_model_are_read(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "c.bin").write_bytes(b"head" + np.asarray([1, 2, 3], np.float32).tobytes())
    graph = im.Graph.load(beside(tmp_path, location="data/c.bin", offset="4", length="12"))
    assert graph.run(im.zeros(3)).numpy().tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "location", ["../secret", "a/../../secret", "/etc/passwd", "", ".", "C:\\x", "..\\secret", "link", "linked/secret"]
)
def test_no_byte_outside_of_the_folder_is_read(location: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(12))
    home = tmp_path / "home"
    home.mkdir()
    (home / "link").symlink_to(tmp_path / "secret")
    (home / "linked").symlink_to(tmp_path)
    with pytest.raises(GraphError, match=r"folder|no such file"):
        im.Graph.load(beside(home, location=location))


@pytest.mark.parametrize("entries", [{"offset": "8"}, {"offset": "-4"}, {"length": "8"}, {"offset": "x"}, {"offset": str(2**70)}])
def test_a_place_that_is_not_in_the_file_is_refused(entries: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "c.bin").write_bytes(bytes(12))
    with pytest.raises(GraphError, match="constant c"):
        im.Graph.load(beside(tmp_path, location="c.bin", **entries))
