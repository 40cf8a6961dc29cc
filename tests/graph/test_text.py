"""The text form: exact, readable, and refused with the line where it is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import intermodal as im
from graph import graphs
from intermodal import dtypes
from intermodal.errors import GraphError
from intermodal.graph.attributes import same
from intermodal.graph.ir import ConstantIr, GraphIr, OperationIr, TensorIr
from intermodal.graph.sizes import Size
from intermodal.graph.text import from_text, to_text
from intermodal.ops.table import TABLE


def is_same(first: GraphIr, second: GraphIr) -> bool:
    """Equal, with NaN equal to NaN and 1 not equal to True."""

    def plain(operation: OperationIr) -> tuple[object, ...]:
        return operation.op, operation.inputs, operation.outputs, tuple(sorted(operation.attrs.items()))

    return (
        replace(first, operations=()) == replace(second, operations=())
        and len(first.operations) == len(second.operations)
        and all(same(plain(a), plain(b)) for a, b in zip(first.operations, second.operations, strict=True))
    )


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_op_is_read_back_from_its_text(name: str) -> None:
    found = graphs.of_row(name)
    assert found, "no sample of this op gives a graph"
    for ir in found[:12]:
        assert is_same(from_text(to_text(ir)), ir)


@pytest.mark.parametrize("ir", [graphs.chain(), graphs.chain(dtypes.bfloat16), graphs.dynamic(), graphs.numbers()])
def test_a_graph_is_read_back_bit_by_bit(ir: GraphIr) -> None:
    assert is_same(from_text(to_text(ir)), ir)


def test_a_traced_program_is_read_back_and_runs() -> None:
    ir = im.trace(lambda x: im.nn.softmax(x @ im.ones((4, 3)), axis=-1), im.Spec(("n", 4), dtypes.float32)).ir
    read = from_text(to_text(ir))
    assert is_same(read, ir)
    assert im.graph.Graph(read).run(im.ones((7, 4))).shape == (7, 3)


def test_the_text_is_made_for_people() -> None:
    assert to_text(graphs.chain()) == (
        'graph v1 (x %0: float32[5, 4], "weights of it" %1: float32[4, 3]) -> (y %6: float32[3], again.x %0: float32[5, 4])\n'
        "  %2: float32[3] = constant [0.5, -0.0, nan]\n"
        "  %3: float32[5, 3] = matmul(%0, %1)\n"
        "  %4: float32[5, 3] = add(%3, %2)\n"
        "  %5: float32[10, 3] = concat([%4!, %3!], axis=0)\n"
        "  %6: float32[3] = sum(%5!, axis=(0,), dtype=float32, keepdims=False)\n"
    )
    assert "%4: float32[1/2*n, 3] = basic_index(%0, key=(0:1/2*n:, ::))" in to_text(graphs.dynamic())


def test_spaces_lines_and_comments_are_free() -> None:
    text = to_text(graphs.chain())
    loose = text.replace(", ", "\n ,   # what follows\n").replace("\n  %5", "\n# a line\n\n\t%5")
    assert is_same(from_text(loose), graphs.chain())


def test_a_long_head_is_broken_into_lines() -> None:
    tensors = tuple(TensorIr(i, (2, 3), dtypes.float32) for i in range(12))
    names = tuple(f"layer{i}.weight" for i in range(12))
    ir = GraphIr(tensors, tensors, (), (), names, names)
    assert max(map(len, to_text(ir).splitlines())) <= 120
    assert is_same(from_text(to_text(ir)), ir)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_a_constant_of_any_bits_is_exact(dtype: dtypes.DType) -> None:
    bits = np.arange(256, dtype=np.uint8)[: 2 if dtype.is_bool else 16 if dtype.bits == 4 else 256]
    if dtype.itemsize > 1:
        bits = np.random.default_rng(0).integers(0, 256, 256 * dtype.itemsize, dtype=np.uint8)
    values = bits.view(dtype.numpy)
    constants = tuple(ConstantIr(i, values[i : i + 1].copy()) for i in range(len(values)))
    ir = GraphIr((), (), (), constants)
    assert from_text(to_text(ir)).constants == constants


def test_short_constants_stand_in_the_line_in_their_own_precision() -> None:
    ir = GraphIr((), (), (), (ConstantIr(0, np.asarray([0.1], np.float32)), ConstantIr(1, np.asarray(0.1))))
    assert to_text(ir) == ("graph v1 () -> ()\n  %0: float32[1] = constant [0.1]\n  %1: float64[] = constant [0.1]\n")


def test_an_ill_formed_graph_shows_where_it_is() -> None:
    ir = graphs.chain()
    wrong = replace(ir, outputs=(replace(ir.outputs[0], shape=(4,)), TensorIr(9, (Size.named("k"),), dtypes.int8)))
    operations = (replace(ir.operations[0], inputs=(TensorIr(0, (1, 4), dtypes.float32), 7)), *ir.operations[1:])
    text = to_text(replace(wrong, operations=operations))
    assert "y %6: float32[4], again.x %9: int8[k]" in text
    assert "matmul(%0: float32[1, 4], 7)" in text
    with pytest.raises(GraphError):
        from_text(text)


HEAD = "graph v1 (x %0: float32[2, n]) -> (y %1: float32[2, n])\n"
WRONG = {
    "nothing": ("", r"line 1: 'graph' is wanted, but the text ends"),
    "another thing": ("digraph {}", r"line 1: 'graph' is wanted here, not 'digraph"),
    "no version": ("graph (", r"line 1: a version such as v1"),
    "a newer version": ("graph v2 () -> ()", r"version 2, and this intermodal reads up to 1"),
    "a dtype that is none": ("graph v1 (x %0: float31[2]) -> ()", r"line 1: a dtype is wanted here, not 'float31\[2\]\) -> \(\)'"),
    "a size that is none": ("graph v1 (x %0: float32[2n]) -> ()", r"line 1: "),
    "a size over zero": ("graph v1 (\nx %0: float32[1/0*n]) -> ()", r"line 2: '1/0\*n' divides by zero"),
    "a negative size": ("graph v1 (x %0: float32[-3]) -> ()", r"-3 is no size"),
    "a tensor of nowhere": (HEAD + "  %1: float32[2, n] = sin(%7)", r"line 2: a tensor that is made on an earlier line than %7"),
    "an unknown op": (HEAD + "  %1: float32[2, n] = sine(%0)", r"line 2: op 0, sine: 'sine' is no op of the table"),
    "a wrong shape": ("graph v1 (x %0: int8[2]) -> (y %1: int8[3])\n\n  %1: int8[3] = abs(%0)", r"line 3: op 0, abs: %1 is int8 of shape \(3,\); the op gives int8 of shape \(2,\)"),
    "a missing attribute": (HEAD + "  %1: float32[2, n] = flip(%0)", r"line 2: op 0, flip: its attributes must be axis, each once"),
    "an attribute twice": (HEAD + "  %1: float32[2, n] = flip(%0, axis=(0,), axis=(0,))", r"line 2: another attribute than axis"),
    "an operand after attributes": (HEAD + "  %1: float32[2, n] = flip(axis=0, %0)", r"line 2: an attribute such as axis=0"),
    "a last use that is none": (HEAD + "  %1: float32[2, n] = sin(%0!)", r"line 2: op 0, sin: a tensor has another status"),
    "no end": (HEAD + "  %1: float32[2, n] = sin(%0", r"line 2: '\)' is wanted, but the text ends"),
    "more after the end": ("graph v1 () -> ()\ndata\n}", r"line 3: a tensor such as %3 is wanted here, not '}'"),
    "levels without end": (HEAD + "  %1: float32[2, n] = flip(%0, axis=" + "(" * 50_000, r"line 2: a value of at most 8 levels"),
    "a text without end": (HEAD + '  %1: float32[2, n] = pad(%0, mode="consta', r"line 2: a text in double quotes"),
    "missing data": ("graph v1 () -> ()\n%0: int8[9] = constant data", r"line 2: the data of %0 is wanted"),
    "data of none": ("graph v1 () -> ()\ndata\n%0: AAAA", r"line 3: a constant whose data is missing, other than %0"),
    "data that is none": ("graph v1 () -> ()\n%0: int8[3] = constant data\ndata\n%0: AA=A", r"line 4: the data of %0"),
    "too little data": ("graph v1 () -> ()\n%0: int8[9] = constant data\ndata\n%0: AAAA", r"a constant of 3 bytes"),
    "a huge constant": (f"graph v1 () -> ()\n%0: int8[{2**40}, {2**40}] = constant data\ndata\n%0: AAAA", r"3 bytes"),
    "too few values": ("graph v1 () -> ()\n%0: int8[3] = constant [1, 2]", r"line 2: 2 values are given for shape \(3,\)"),
    "values of another type": ("graph v1 () -> ()\n%0: int8[1] = constant [1.0]", r"line 2: 1.0 is no element of int8. Write 1, say"),
    "a value beyond": ("graph v1 () -> ()\n%0: int4[1] = constant [8]", r"line 2: a value does not fit int4"),
    "a float beyond": ("graph v1 () -> ()\n%0: float32[1] = constant [1e39]", r"line 2: a value is out of the range of float32"),
    "bits that are no NaN": ("graph v1 () -> ()\n%0: float64[1] = constant [nan(3ff0000000000000)]", r"bits that are no NaN"),
    "an integer without end": (HEAD + "  %1: float32[2, n] = add(%0, " + "9" * 5000 + ")", r"line 2: "),
    "a reserved name": ("graph v1 (x %0: float32[float32]) -> ()", r"'float32' is no size, or has a name that the text form reads"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_an_error_names_the_line(case: str) -> None:
    text, message = WRONG[case]
    with pytest.raises(GraphError, match=message):
        from_text(text)
