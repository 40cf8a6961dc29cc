"""Which graphs are well-formed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import intermodal as im
from graph import graphs
from intermodal import config, dispatch, dtypes
from intermodal.errors import GraphError, IntermodalError
from intermodal.graph.ir import ConstantIr, GraphIr, OperationIr, Status, TensorIr
from intermodal.graph.limits import LIMITS
from intermodal.graph.sizes import Size
from intermodal.graph.validation import check
from intermodal.ops.table import TABLE, Spec

F32 = dtypes.float32


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_call_of_every_op_is_well_formed(name: str) -> None:
    for ir in graphs.of_row(name):
        check(ir)


@pytest.mark.parametrize("ir", [graphs.chain(), graphs.dynamic(), graphs.numbers(), GraphIr((), (), ())])
def test_a_whole_graph_is_well_formed(ir: GraphIr) -> None:
    check(ir)
    with config.scope(promotion="strict"):  # a setting of who reads it does not matter
        check(ir)


def test_a_traced_program_with_named_sizes_is_well_formed() -> None:
    def program(x: im.Tensor, y: im.Tensor) -> im.Tensor:
        halves = im.reshape(x, (x.shape[0] // 2, 2, x.shape[1]))
        return im.mean(halves, axis=1) @ y[:, : y.shape[1] // 3]

    check(im.trace(program, im.Spec(("n", "m"), F32), im.Spec(("m", "k"), F32)).ir)


def changed(**changes: Any) -> GraphIr:
    return replace(graphs.chain(), **changes)


def with_op(index: int, **changes: Any) -> GraphIr:
    ir = graphs.chain()
    operations = list(ir.operations)
    operations[index] = replace(operations[index], **changes)
    return replace(ir, operations=tuple(operations))


def one(op: str, inputs: tuple[Any, ...], shape: tuple[Any, ...], **attrs: Any) -> GraphIr:
    """A graph of one op on x: float32[n, 3], whose result is float32."""
    x, y = TensorIr(0, (Size.named("n"), 3), F32), TensorIr(9, shape, F32)
    return GraphIr(
        (x,), (y,), (OperationIr(op, tuple(x if v == "x" else v for v in inputs), (y,), attrs),), (), ("x",), ("y",)
    ).with_status()


X, PRODUCT = graphs.chain().inputs[0], graphs.chain().operations[0].outputs[0]
SUM = {"axis": (0,), "dtype": F32, "keepdims": False}
WRONG: dict[str, tuple[Callable[[], GraphIr], str]] = {
    "a version of the future": (lambda: changed(version=2), r"of version 2, and this intermodal reads up to 1"),
    "no version": (lambda: changed(version="1"), r"'1' is no version"),
    "a list": (lambda: changed(inputs=list(graphs.chain().inputs)), r"its inputs are not a tuple of TensorIr"),
    "too few names": (lambda: changed(input_names=("x",)), r"1 input names are given for 2 inputs"),
    "a name twice": (lambda: changed(input_names=("x", "x")), r"the input name x is given twice"),
    "no name": (lambda: changed(input_names=("x", "")), r"'' is no name of an input"),
    "a name that cannot be shown": (lambda: changed(output_names=("x", "\n")), r"is no name of an output"),
    "a number twice": (lambda: changed(inputs=(X, replace(X))), r"%0 is made twice"),
    "a negative number": (lambda: changed(inputs=(replace(X, id=-1), X)), r"-1 is no number of a tensor"),
    "a negative size": (lambda: changed(inputs=(replace(X, shape=(-5, 4)), X)), r"-5 is no size"),
    "a size of another type": (lambda: changed(inputs=(replace(X, shape=(True, 4)), X)), r"True is no size"),
    "a dtype of another type": (lambda: changed(inputs=(replace(X, dtype="float32"), X)), r"has 'float32' as dtype"),
    "a constant made again": (lambda: with_op(0, outputs=(replace(PRODUCT, id=2),)), r"op 0, matmul: %2 is made twice"),
    "an unknown op": (lambda: with_op(0, op="matmull"), r"op 0, matmull: 'matmull' is no op of the table"),
    "an op of another type": (lambda: with_op(0, op=None), r"op 0, None: 'None' is no op"),
    "too few operands": (lambda: with_op(0, inputs=(X,)), r"op 0, matmul: it takes 2 operands. The signature is matmul\(x1, x2, /\)"),
    "a scalar for a tensor": (lambda: with_op(3, inputs=(1.0,)), r"op 3, sum: x is float, which does not fit its role"),
    "None for an operand": (lambda: with_op(1, inputs=(PRODUCT, None)), r"op 1, add: x2 is NoneType"),
    "a tensor for a list": (lambda: with_op(2, inputs=(X,)), r"op 2, concat: its operands arrays are not a tuple"),
    "a list for a tensor": (lambda: with_op(3, inputs=((X,),)), r"op 3, sum: x is tuple"),
    "a scalar of many bits": (lambda: one("add", ("x", 2**64), (Size.named("n"), 3)), r"the scalar x2 does not fit 64 bits"),
    "no attribute": (lambda: with_op(3, attrs={}), r"op 3, sum: its attributes must be axis, dtype, keepdims, each once"),
    "an attribute more": (lambda: with_op(3, attrs={**SUM, "x": 1}), r"each once and no others"),
    "a device": (lambda: with_op(3, attrs={**SUM, "device": None}), r"each once and no others"),
    "an attribute of another type": (lambda: with_op(3, attrs={**SUM, "keepdims": 0}), r"the attribute keepdims is int; it is declared 'bool'"),
    "a list as attribute": (lambda: with_op(3, attrs={**SUM, "axis": [0]}), r"the attribute axis is list"),
    "a text inside": (lambda: with_op(3, attrs={**SUM, "axis": ("0",)}), r"the attribute axis has a str in it"),
    "no normal form": (lambda: with_op(3, attrs={**SUM, "axis": (-2,)}), r"op 3, sum: the attribute axis is \(-2,\), in normal form \(0,\)"),
    "a wrong attribute": (lambda: with_op(3, attrs={**SUM, "axis": (7,)}), r"op 3, sum: axis 7 is out of range"),
    "a wrong shape": (lambda: one("sin", ("x",), (Size.named("n"), 4)), r"op 0, sin: %9 is float32 of shape \(\d+, 4\); the op gives float32"),
    "a wrong named size": (lambda: one("sin", ("x",), (Size.parse("n + 1"), 3)), r"op 0, sin: %9 is .* \(for n = "),
    "a wrong dtype": (lambda: with_op(3, attrs={**SUM, "dtype": dtypes.float64}), r"%6 is float32 of shape \(3,\); the op gives float64"),
    "too many results": (lambda: one("unstack", ("x",), (3,), axis=0), r"op 0, unstack: it gives \d+ tensors, not 1"),
    "a named size of nowhere": (lambda: one("sin", ("x",), (Size.named("m"), 3)), r"the size m of m is not known here"),
    "a size that is never whole": (lambda: one("sin", ("x",), (Size.parse("2*n + 1/2"), 3)), r"no numbers were found for n"),
    "data with a number for a size": (lambda: one("unique_values", ("x",), (3,)), r"the size 3, which depends on the data. Give it a named size"),
    "an op before its operand": (lambda: changed(operations=graphs.chain().operations[::-1]), r"op 0, sum: %5 is read before it is made"),
    "another shape where it is read": (lambda: with_op(0, inputs=(replace(X, shape=(5, 5)), 1)), r"%0 is read with another shape"),
    "a wrong status": (lambda: with_op(0, inputs=(replace(X, status=Status.LAST_USE), graphs.chain().inputs[1])), r"op 0, matmul: a tensor has another status"),
    "a wrong status of an output": (lambda: changed(outputs=tuple(replace(t, status=Status.NOT_YET) for t in graphs.chain().outputs)), r"must have the status read-only"),
    "a constant of objects": (lambda: changed(constants=(ConstantIr(2, np.asarray([None] * 3)),)), r"a NumPy dtype that is none of ours"),
    "a constant of other byte order": (lambda: changed(constants=(ConstantIr(2, np.zeros(3, ">f4")),)), r"a NumPy dtype that is none of ours"),
    "a slice of texts": (lambda: one("basic_index", ("x",), (3,), key=(slice("a"), slice(None))), r"a slice of other things than whole numbers"),
    "a key that is too long": (lambda: one("basic_index", ("x",), (3,), key=(0, slice(None), slice(None))), r"more parts than the 2 axes"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_ill_formed_says_what_is_wrong(case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises(GraphError, match=message):
        check(make())


def test_an_error_names_the_op_by_its_index() -> None:
    with pytest.raises(GraphError) as caught:
        check(with_op(3, attrs={}))
    assert caught.value.operation == 3


LIMITED = {
    "operations": (3, r"it has 4 operations; at most 3"),
    "tensors": (6, r"more than 6 tensors"),
    "constant_bytes": (11, r"more than 11 bytes"),
    "dims": (1, r"no tuple of at most 1 sizes"),
    "size": (9, r"10 is no size. Use a whole number from 0 to 9"),
    "values": (1, r"at most 1 are allowed|more than 1 values"),
    "depth": (0, r"0 levels"),
    "name": (5, r"'weights of it' is no name of an input. Use 1 to 5"),
}


@pytest.mark.parametrize("limit", LIMITED)
def test_each_limit_holds(limit: str) -> None:
    value, message = LIMITED[limit]
    with pytest.raises(GraphError, match=message):
        check(graphs.chain(), replace(LIMITS, **{limit: value}))
    assert limit == "depth" or check(graphs.chain(), replace(LIMITS, **{limit: value + 10})) is None


def test_limits_of_names_and_strings_hold() -> None:
    tensors = tuple(TensorIr(i, (Size.named(f"n{i}"),), F32) for i in range(5))
    ir = GraphIr(tensors, (), (), (), tuple("abcde"))
    check(ir)
    with pytest.raises(GraphError, match="more than 4 sizes have names"):
        check(ir, replace(LIMITS, named_sizes=4))
    padded = next(ir for ir in graphs.of_row("pad") if ir.operations[0].attrs["mode"] == "constant")
    with pytest.raises(GraphError, match="no text of at most 7 printable"):
        check(padded, replace(LIMITS, string=7))


def test_a_value_that_holds_itself_many_times_is_counted_not_walked() -> None:
    bomb: tuple[Any, ...] = (0,)
    for _ in range(8):
        bomb = (bomb,) * 100
    start = time.perf_counter()
    with pytest.raises(GraphError, match="more than 10000 values"):
        check(with_op(3, attrs={**SUM, "axis": bomb}))
    assert time.perf_counter() - start < 1


def hostile(spec: Any, size: int) -> list[Any]:
    if not isinstance(spec, Spec):
        return []
    return [
        spec._replace(shape=tuple(size if j in (i, -1) else n for j, n in enumerate(spec.shape))) for i in range(spec.ndim)
    ] + [spec._replace(shape=(size,) * spec.ndim)]


@pytest.mark.parametrize("name", sorted(set(TABLE) - {"unstack", "split"}))  # of these two `check` knows the number of results
def test_no_rule_takes_long_or_much_for_large_sizes_and_attributes(name: str) -> None:
    row = TABLE[name]
    for ir in graphs.of_row(name)[:4]:
        operation = ir.operations[0]
        if any(isinstance(n, Size) for t in ir.outputs for n in t.shape):
            continue
        specs = [graphs.spec(v) for v in operation.inputs]
        attrs = {p.name: operation.attrs[p.name] for p in row.params if p.name in operation.attrs}
        attrs |= {"device": im.Device("meta:cpu")} if row.takes_device else {}
        calls = [([*specs[:i], other, *specs[i + 1 :]], attrs) for i, s in enumerate(specs) for other in hostile(s, 3_000_000)]
        for key, value in attrs.items():
            if isinstance(value, int) and not isinstance(value, bool):
                calls += [(specs, {**attrs, key: 3_000_000})]
            elif isinstance(value, tuple) and value and type(value[0]) is int:
                calls += [(specs, {**attrs, key: (3_000_000, *value[1:])}), (specs, {**attrs, key: value * 3000})]
        for given, named in calls:
            start = time.perf_counter()
            with suppress(IntermodalError, ValueError):  # Python refuses to write numbers of thousands of digits
                dispatch.infer(row, given, dict(named))
            assert time.perf_counter() - start < 0.4, (given, named)
