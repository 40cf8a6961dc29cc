"""The binary form: exact, small, and refused where it is wrong before anything is made of it."""

from __future__ import annotations

import sys
from dataclasses import replace

import msgpack
import pytest

from graph import graphs
from graph.test_text import is_same
from intermodal import dtypes
from intermodal.errors import GraphError, MissingExtraError
from intermodal.graph.binary import MAGIC, from_bytes, to_bytes
from intermodal.graph.ir import GraphIr, TensorIr
from intermodal.graph.limits import LIMITS
from intermodal.ops.table import TABLE

HEAD = MAGIC + b"\x01\x00"


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_op_is_read_back_from_its_bytes(name: str) -> None:
    for ir in graphs.of_row(name)[:12]:
        assert is_same(from_bytes(to_bytes(ir)), ir)


@pytest.mark.parametrize("ir", [graphs.chain(), graphs.chain(dtypes.float16), graphs.dynamic(), graphs.numbers()])
def test_a_graph_is_read_back_bit_by_bit(ir: GraphIr) -> None:
    assert is_same(from_bytes(to_bytes(ir)), ir)


def test_the_layout_is_as_the_page_says() -> None:
    data = to_bytes(graphs.chain())
    assert data[:10] == HEAD
    unpacker = msgpack.Unpacker()
    unpacker.feed(data[10:])
    inputs, constants, operations, outputs = unpacker
    assert inputs[1] == ["weights of it", 1, "float32", [4, 3]]
    assert constants == [[2, "float32", [3], bytes.fromhex("0000003f 00000080 0000c07f")]]
    assert operations[2] == ["concat", [[4, 3]], [[5, "float32", [10, 3]]], [["axis", 0]]]
    assert operations[3][3] == [["axis", [0]], ["dtype", {"dtype": "float32"}], ["keepdims", False]]
    assert outputs == [["y", 6], ["again.x", 0]]


def test_a_constant_that_was_read_cannot_be_written_to() -> None:
    value = from_bytes(to_bytes(graphs.chain())).constants[0].value
    with pytest.raises(ValueError, match="read-only"):
        value[0] = 1


def test_an_ill_formed_graph_has_no_bytes() -> None:
    ir = graphs.chain()
    with pytest.raises(GraphError, match="2 output names are given for 1 output"):
        to_bytes(replace(ir, outputs=ir.outputs[:1]))


def test_bytes_that_end_too_early_are_refused_wherever_they_end() -> None:
    data = to_bytes(graphs.dynamic())
    for end in range(len(data)):
        with pytest.raises(GraphError):
            from_bytes(data[:end])


def packed(inputs: object = (), constants: object = (), operations: object = (), outputs: object = ()) -> bytes:
    return HEAD + b"".join(map(msgpack.packb, (inputs, constants, operations, outputs)))


X = ["x", 0, "float32", [2]]
WRONG = {
    "nothing": (b"", r"these 0 bytes are no graph"),
    "another format": (b"PK\x03\x04" * 5, r"do not begin with"),
    "a newer version": (MAGIC + b"\x02\x00" + packed()[10:], r"of version 2, and this intermodal reads versions 1 to 1"),
    "version zero": (MAGIC + b"\x00\x00" + packed()[10:], r"version 0"),
    "more after the end": (packed() + b"\xc0", r"1 bytes follow after the graph"),
    "a length that is a lie": (HEAD + b"\xdd\xff\xff\xff\xff", r"4294967295 inputs; at most 500000"),
    "a length inside that is a lie": (HEAD + b"\x91\xdd\x00\xff\xff\xff", r"exceeds max_array_len"),
    "levels without end": (HEAD + b"\x91" * 5000, r"the bytes are no graph"),
    "a type of others": (HEAD + b"\x91\xc7\x03\x01abc", r"the bytes are no graph"),
    "a date": (HEAD + b"\x91\xd6\xff\x00\x00\x00\x00", r"the bytes are no graph"),
    "text that is none": (HEAD + b"\x91\xa2\xff\xff", r"the bytes are no graph"),
    "a map of others": (HEAD + b"\x91\x82\xa1a\x01\xa1b\x01", r"the bytes are no graph"),
    "a member too short": (packed([["x", 0, "float32"]]), r"the bytes are no graph"),
    "a dtype that is none": (packed([["x", 0, "object", [2]]]), r"'object' is not a dtype"),
    "a shape that is none": (packed([["x", 0, "int8", 2]]), r"a list is wanted, not int"),
    "a size that is none": (packed([["x", 0, "int8", ["n**2"]]]), r"'n\*\*2' is no size"),
    "an id that is none": (packed([["x", [], "int8", [2]]]), r"the bytes are no graph"),
    "an output of nowhere": (packed([X], outputs=[["y", 3]]), r"%3 is read before it is made"),
    "a constant that is text": (packed(constants=[[0, "int8", [2], "ab"]]), r"the value of a constant is str, not bytes"),
    "a constant of other bytes": (packed(constants=[[0, "int8", [3], b"ab"]]), r"2 bytes is not int8 of shape"),
    "a constant of a named size": (packed(constants=[[0, "int8", ["n"], b"ab"]]), r"does not have the shape"),
    "a bool that is none": (packed(constants=[[0, "bool", [2], b"\x00\x02"]]), r"%0 has bytes that are no value of bool"),
    "an int4 that is none": (packed(constants=[[0, "int4", [1], b"\x10"]]), r"no value of int4"),
    "a value of another kind": (packed([X], (), [["flip", [{"tensor": 0}], [[1, "float32", [2]]], [["axis", {"code": "1"}]]]]), r"'code' is no kind"),
    "an attribute twice": (packed([X], (), [["flip", [{"tensor": 0}], [[1, "float32", [2]]], [["axis", [0]]] * 2]]), r"attribute twice"),
    "a deep attribute": (packed([X], (), [["flip", [{"tensor": 0}], [], [["axis", [[[[[[[[[[[0]]]]]]]]]]]]]]]), r"more than 8 levels"),
    "an op that is none": (packed([X], (), [["os.system", [{"tensor": 0}], [[1, "float32", [2]]], []]]), r"'os.system' is no op of the table"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_graph_is_refused(case: str) -> None:
    data, message = WRONG[case]
    with pytest.raises(GraphError, match=message):
        from_bytes(data)


def test_limits_are_the_callers() -> None:
    data = to_bytes(graphs.chain())
    with pytest.raises(GraphError, match="it has 4 operations; at most 3 are allowed"):
        from_bytes(data, replace(LIMITS, operations=3))
    with pytest.raises(GraphError):
        from_bytes(data, replace(LIMITS, constant_bytes=8))


def test_names_of_any_letters_survive() -> None:
    x = TensorIr(0, (2,), dtypes.float32)
    ir = GraphIr((x,), (x,), (), (), ("größe 寸法",), ("a.b/c",))
    assert from_bytes(to_bytes(ir)) == ir


def test_without_msgpack_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)
    with pytest.raises(MissingExtraError, match=r'pip install "intermodal\[graph\]"'):
        to_bytes(graphs.chain())
