"""Passes: the same results from fewer ops."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import intermodal as im
from graph.building import Builder, assert_same, run, samples
from intermodal.graph.ir import GraphIr, Status
from intermodal.graph.passes import (
    FOLD_LIMIT,
    clean,
    drop_dead_code,
    fold_constants,
    merge_movements,
    share_common_subexpressions,
)
from intermodal.graph.sizes import Size
from intermodal.ops.table import TABLE

Pass = Callable[[GraphIr], GraphIr]
PASSES: list[Pass] = [drop_dead_code, share_common_subexpressions, fold_constants, merge_movements, clean]
SPECIAL = np.asarray([0.0, -0.0, 1.5, -2.25, math.inf, -math.inf, math.nan, 3e38], np.float32)
n = Size.named("n")


def ops(ir: GraphIr) -> list[str]:
    return [operation.op for operation in ir.operations]


def check(change: Pass, ir: GraphIr, *arrays: np.ndarray[Any, Any]) -> list[str]:
    """The ops that a pass leaves, once it is clear that nothing else has changed and that it finds no more the second time."""
    after = change(ir)
    assert_same(run(after, *arrays), run(ir, *arrays))
    assert (after.inputs, after.input_names, after.output_names) == (ir.inputs, ir.input_names, ir.output_names)
    assert after == after.with_status()
    assert ops(change(after)) == ops(after)
    return ops(after)


def test_an_op_on_which_no_output_depends_goes_with_its_constants() -> None:
    b = Builder()
    x, unused = b.input((8,)), b.input((2,))
    b.op("add", b.op("exp", unused), b.constant([1.0, 2.0], "float32"))
    y = b.op("negative", x)
    ir = b.graph(y)
    assert check(drop_dead_code, ir, SPECIAL, SPECIAL[:2]) == ["negative"]
    assert drop_dead_code(ir).constants == ()


def test_an_op_stays_if_one_of_its_results_is_needed() -> None:
    b = Builder()
    first, _ = b.op("split", b.input((8,)), 2)
    assert check(drop_dead_code, b.graph(first), SPECIAL) == ["split"]


@pytest.mark.parametrize("change", PASSES)
def test_outputs_keep_number_order_and_names(change: Pass) -> None:
    b = Builder()
    x, c = b.input((2, 4)), b.constant(SPECIAL)
    same = b.op("reshape", x, (2, 4))
    ir = b.graph(same, x, c, same, b.op("negative", c))
    assert change(ir).output_names == ("y0", "y1", "y2", "y3", "y4")
    assert len(check(change, ir, SPECIAL.reshape(2, 4))) <= 2


def test_an_op_on_the_same_operands_is_computed_once() -> None:
    b = Builder()
    x = b.input((8,))
    one, two = (b.op("multiply", b.op("add", x, 1.0), b.constant(SPECIAL)) for _ in range(2))
    ir = b.graph(b.op("subtract", one, two), two)
    assert check(share_common_subexpressions, ir, SPECIAL) == ["add", "multiply", "subtract"]
    assert len(share_common_subexpressions(ir).constants) == 1


@pytest.mark.parametrize(
    ("one", "two"), [(0.0, -0.0), (1, 1.0), (math.nan, 1.0), (0j, -0.0), (complex(0.0, -0.0), 0j), (1.0, 1 + 0j)]
)
def test_scalars_that_differ_in_type_or_bits_are_not_shared(one: complex, two: complex) -> None:
    b = Builder()
    x = b.input((8,))
    ir = b.graph(*(b.op("multiply", x, s) for s in (one, two)))
    assert len(check(share_common_subexpressions, ir, SPECIAL)) == 2


@pytest.mark.parametrize("scalar", [math.nan, -0.0, 0, complex(math.nan, -0.0)])
def test_a_scalar_is_the_same_as_itself_even_nan(scalar: complex) -> None:
    b = Builder()
    x = b.input((8,))
    assert check(share_common_subexpressions, b.graph(b.op("multiply", x, scalar), b.op("multiply", x, scalar)), SPECIAL) == [
        "multiply"
    ]


@pytest.mark.parametrize(("one", "two"), [([0.0], [-0.0]), ([1], [1.0]), ([True], [1]), ([[1.0]], [1.0]), ([1.0], [math.nan])])
def test_constants_that_differ_in_shape_dtype_or_bits_are_not_shared(one: list[Any], two: list[Any]) -> None:
    b = Builder()
    ir = b.graph(b.constant(one), b.constant(two), b.constant(one))
    after = share_common_subexpressions(ir)
    assert len(after.constants) == 2
    assert_same(run(after), run(ir))


def test_attributes_are_compared_by_type_and_bits_too() -> None:
    b = Builder()
    x = b.input((8,))
    ways = [{"axis": 0}, {"axis": None}, {"axis": 0, "keepdims": True}, {"axis": 0, "keepdims": True}]
    slices = [b.op("basic_index", x, key=(slice(0, stop),)) for stop in (3, 4, 3)]
    made = [b.op("full", (2,), fill, dtype="float32") for fill in (0.0, -0.0, math.nan, math.nan)]
    ir = b.graph(*(b.op("max", x, **w) for w in ways), *slices, *made)
    assert check(share_common_subexpressions, ir, np.abs(SPECIAL)) == ["basic_index"] * 2 + ["full"] * 3 + ["max"] * 2


def test_an_attribute_of_1_is_not_one_of_true() -> None:
    b = Builder()
    x = b.input((2, 4))
    y, z = (b.op("tril", x, k=1) for _ in range(2))
    ir = b.graph(y, z)
    other = replace(ir, operations=(ir.operations[0], replace(ir.operations[1], attrs={"k": True})))
    assert [len(share_common_subexpressions(g).operations) for g in (ir, other)] == [1, 2]


@pytest.mark.parametrize(("seed", "left"), [(None, 2), (7, 1)])
def test_random_ops_are_shared_only_with_a_seed_and_never_folded(seed: int | None, left: int) -> None:
    b = Builder()
    ir = b.graph(*(b.op("uniform", (4,), seed=seed, dtype="float32") for _ in range(2)))
    assert ops(clean(ir)) == ["uniform"] * left


def test_an_op_on_constants_and_scalars_alone_becomes_a_constant() -> None:
    b = Builder()
    x, c = b.input((8,)), b.constant(SPECIAL)
    half = b.op("multiply", b.op("full", (8,), 0.5, dtype="float32"), b.op("negative", c))
    flags, whole = b.op("isnan", c), b.op("sum", b.constant([[1, 2], [3, 4]]), axis=0)
    ir = b.graph(b.op("add", x, half), flags, whole, b.op("reshape", c, (2, 4)))
    assert check(fold_constants, ir, SPECIAL) == ["add"]
    assert len(fold_constants(ir).constants) == 4


def test_ops_with_several_results_and_with_lists_of_operands_fold_too() -> None:
    b = Builder()
    parts = b.op("split", b.constant(SPECIAL), 2)
    ir = b.graph(b.op("concat", [parts[1], parts[0]]), parts[0], b.op("stack", [b.constant(np.int8(3)), b.constant(np.int8(4))]))
    assert check(fold_constants, ir) == []


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if not row.data_dependent])
def test_every_row_folds_to_what_it_gives(name: str) -> None:
    stays = name in ("empty", "empty_like", "qr", "svd", "eigh", "eig") or TABLE[name].takes_seed
    for ir, expected in samples(name):
        after = clean(ir)
        assert ops(after) == [name] * (stays and any(ir.outputs))
        if not name.startswith("empty"):
            assert_same(run(after), expected)


@pytest.mark.parametrize("name", ["full", "broadcast_to"])
def test_large_results_stay_ops(name: str) -> None:
    b = Builder()
    large = (FOLD_LIMIT // 4 + 1,)
    y = b.op("full", large, 1.0, dtype="float32") if name == "full" else b.op("broadcast_to", b.constant(np.float32(1)), large)
    assert check(fold_constants, b.graph(y)) == [name]
    assert ops(fold_constants(b.graph(y), limit=4 * large[0])) == []


def test_a_large_constant_may_change_its_form_if_it_leaves_the_graph() -> None:
    b = Builder()
    c = b.constant(np.arange(24, dtype=np.float32).reshape(4, 6))
    turned = b.op("permute_dims", c, (1, 0))
    assert [ops(fold_constants(ir, limit=8)) for ir in (b.graph(turned), b.graph(turned, c))] == [[], ["permute_dims"]]


def test_what_the_engine_chooses_is_not_folded() -> None:
    b = Builder()
    c = b.constant(np.eye(3, dtype=np.float32))
    ir = b.graph(*b.op("svd", c), *b.op("eigh", c), b.op("empty", (3,), dtype="float32"))
    assert ops(clean(ir)) == ["svd", "eigh", "empty"]


def test_an_op_that_fails_is_left_to_fail_when_it_runs() -> None:
    b = Builder()
    ir = fold_constants(b.graph(b.op("take", b.constant([1.0, 2.0]), b.constant([5]), axis=0)))
    with pytest.raises(im.IndexRangeError):
        run(ir)


def test_settings_of_the_caller_do_not_reach_into_folding() -> None:
    b = Builder()
    c = b.constant(np.eye(3, dtype=np.float32))
    ir = b.graph(b.op("matmul", c, c))
    with im.autocast("bfloat16"), im.config.scope(device="meta:cpu"):
        after = fold_constants(ir)
    assert after.operations == ()
    assert_same(run(after), [np.eye(3, dtype=np.float32)])


def test_a_row_of_reshapes_is_one_and_back_again_is_none() -> None:
    b = Builder()
    x = b.input((2, 4))
    flat = b.op("flatten", b.op("expand_dims", x, axis=0))
    back = b.op("squeeze", b.op("reshape", flat, (2, 1, 4)), axis=1)
    ir = b.graph(b.op("negative", flat), b.op("negative", back))
    assert check(merge_movements, ir, SPECIAL.reshape(2, 4)) == ["reshape", "negative", "negative"]


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        (("permute_dims", (1, 2, 0)), ("permute_dims", (2, 0, 1)), []),
        (("permute_dims", (1, 2, 0)), ("permute_dims", (1, 2, 0)), ["permute_dims"]),
        (("swapaxes", -1, 0), ("swapaxes", 0, 2), []),
        (("moveaxis", 0, -1), ("matrix_transpose",), ["permute_dims"]),
        (("matrix_transpose",), ("matrix_transpose",), []),
        (("permute_dims", (0, 1, 2)), ("matrix_transpose",), ["matrix_transpose"]),
    ],
)
def test_transpositions_merge(first: tuple[Any, ...], second: tuple[Any, ...], left: list[str]) -> None:
    b = Builder()
    x = b.input((2, 2, 2))  # equal sizes: the order must not be guessed from the shape
    y = b.op(second[0], b.op(first[0], x, *first[1:]), *second[1:])
    assert check(merge_movements, b.graph(y), SPECIAL.reshape(2, 2, 2)) == left


def test_casts_and_broadcasts_that_change_nothing_go() -> None:
    b = Builder()
    x = b.input((1, 8))
    same = b.op("astype", b.op("broadcast_to", x, (1, 8)), "float32")
    wide = b.op("broadcast_to", b.op("broadcast_to", same, (3, 8)), (2, 3, 8))
    half = b.op("astype", b.op("astype", wide, "float16"), "float32")  # loses bits: stays
    finite = np.asarray([[0.0, -0.0, 1.1, -2.3, math.inf, -math.inf, math.nan, 1e-7]], np.float32)
    assert check(merge_movements, b.graph(half), finite) == ["broadcast_to", "astype", "astype"]


def test_a_reshape_that_forbids_a_copy_is_not_touched() -> None:
    b = Builder()
    x = b.input((2, 4))
    y = b.op("reshape", b.op("permute_dims", x, (1, 0)), (4, 2), copy=False)
    assert check(merge_movements, b.graph(b.op("reshape", y, (4, 2))), SPECIAL.reshape(2, 4)) == ["permute_dims", "reshape"]


def test_named_sizes_are_compared_as_such() -> None:
    b = Builder()
    x = b.input((n, 4))
    flat = b.op("reshape", x, (Size.parse("4*n"),), shapes=[(Size.parse("4*n"),)])
    back = b.op("reshape", flat, (n, 4), shapes=[(n, 4)])
    pairs = b.op("reshape", flat, (2, Size.parse("2*n")), shapes=[(2, Size.parse("2*n"))])
    row = b.op("broadcast_to", b.constant(np.zeros((1, 4), np.float32)), (n, 4), shapes=[(n, 4)])
    again = b.op("broadcast_to", row, (n, 4), shapes=[(n, 4)])
    ir = b.graph(back, pairs, b.op("add", again, x, shapes=[(n, 4)]))
    for rows in (0, 2, 5):
        assert check(clean, ir, np.resize(SPECIAL, (rows, 4))) == ["reshape", "broadcast_to", "add"]


@pytest.mark.parametrize("shape", [(), (0, 5), (3, 0, 2)])
@pytest.mark.parametrize("dtype", ["float64", "int16", "uint8", "bool", "complex64", "bfloat16", "int4"])
def test_empty_and_0d_tensors_of_every_kind_pass_through(shape: tuple[int, ...], dtype: str) -> None:
    b = Builder()
    x, c = b.input(shape, dtype), b.constant(np.zeros(shape), dtype)
    flat = b.op("reshape", b.op("reshape", b.op("where", b.constant(True), c, c), (-1, 1)), shape)
    ir = b.graph(
        b.op("where", b.constant(False), b.op("reshape", x, shape), flat), b.op("concat", [b.op("reshape", x, (-1,))] * 2)
    )
    assert check(clean, ir, np.ones(shape, im.dtypes.as_dtype(dtype).numpy)) == ["where", "reshape", "concat"]


def test_clean_goes_on_until_nothing_is_left_to_do() -> None:
    b = Builder()
    x = b.input((2, 4))
    c = b.op("negative", b.op("full", (4, 2), 2.0, dtype="float32"))
    one = b.op("add", b.op("matrix_transpose", b.op("permute_dims", x, (1, 0))), b.op("reshape", c, (2, 4)))
    two = b.op("add", x, b.constant(np.full((2, 4), -2, np.float32)))
    ir = b.graph(b.op("subtract", one, two))
    assert len(ir.operations) == 8
    assert check(clean, ir, SPECIAL.reshape(2, 4)) == ["add", "subtract"]
    assert [t.status for t in clean(ir).operations[1].tensors()] == [Status.LAST_USE] * 2


# Random graphs. All ops here are exact, so that the layout of an operand in memory, which a pass may change, changes no bit.
UNARY = ["negative", "abs", "positive", "square", "sign"]
BINARY = ["add", "multiply", "subtract"]
SCALARS = [0, 1, -1, 2]
FLOAT_SCALARS = [0.0, -0.0, math.nan, math.inf, 1.0]
SHAPES = [(), (1,), (4,), (2, 2), (0, 3), (1, 4), (4, 1), (2, 1, 2)]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[GraphIr, list[np.ndarray[Any, Any]]]:
    b = Builder()
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    values, arrays = [], []

    def array(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        return rng.choice(SPECIAL if dtype == "float32" else [0, 1, 2, -3], shape).astype(dtype)

    for _ in range(draw(st.integers(1, 3))):
        shape, dtype = draw(st.sampled_from(SHAPES)), draw(st.sampled_from(["float32", "int32", "bool"]))
        arrays.append(array(shape, dtype))
        values.append(b.input(shape, dtype))
    for _ in range(draw(st.integers(1, 40))):
        kind = draw(st.sampled_from(["constant", "full", "unary", "binary", "scalar", "reshape", "permute", "broadcast", "astype", "count", "concat", "less", "random"]))  # fmt: skip
        x = draw(st.sampled_from(values))
        numeric = x if not x.dtype.is_bool else b.op("astype", x, "int32")
        if kind == "constant":
            y = b.constant(array(draw(st.sampled_from(SHAPES)), "float32"))
        elif kind == "full":
            y = b.op("full", draw(st.sampled_from(SHAPES)), draw(st.sampled_from(FLOAT_SCALARS)), dtype="float32")
        elif kind == "unary":
            y = b.op(draw(st.sampled_from(UNARY)), numeric)
        elif kind == "binary":
            others = [v for v in values if not v.dtype.is_bool and _meet(v.shape, numeric.shape)] or [numeric]
            y = b.op(draw(st.sampled_from(BINARY)), numeric, draw(st.sampled_from(others)))
        elif kind == "scalar":
            y = b.op("multiply", numeric, draw(st.sampled_from(FLOAT_SCALARS if x.dtype.is_floating else SCALARS)))
        elif kind == "reshape":
            total = math.prod(x.shape)
            y = b.op("reshape", x, draw(st.sampled_from([s for s in (*SHAPES, x.shape) if math.prod(s) == total])))
        elif kind == "permute":
            y = b.op("permute_dims", x, draw(st.permutations(range(len(x.shape)))))
        elif kind == "broadcast":
            y = b.op("broadcast_to", x, draw(st.sampled_from([x.shape, *([(2, *x.shape)] if len(x.shape) < 3 else [])])))
        elif kind == "astype":
            y = b.op("astype", x, draw(st.sampled_from(["float32", "float64", "bool"])))
        elif kind == "count":
            y = b.op("sum", b.op("astype", b.op("astype", x, "bool"), "int32"), axis=None)
        elif kind == "concat":
            y = b.op("concat", [b.op("reshape", x, (-1,)) if math.prod(x.shape) else b.op("reshape", x, (0,))] * 2)
        elif kind == "less":
            y = b.op("less", numeric, numeric)
        else:
            y = b.op("uniform", (4,), seed=draw(st.sampled_from([1, 2])), dtype="float32")
        if math.prod(y.shape) <= 256:
            values.append(y)
    return b.graph(*draw(st.lists(st.sampled_from(values), min_size=1, max_size=4))), arrays


def _meet(one: tuple[Any, ...], two: tuple[Any, ...]) -> bool:
    return all(a == b or 1 in (a, b) for a, b in zip(reversed(one), reversed(two), strict=False))


@settings(deadline=None, max_examples=200)
@given(graphs(), st.sampled_from(PASSES))
def test_no_pass_changes_what_a_random_graph_computes(made: tuple[GraphIr, list[np.ndarray[Any, Any]]], change: Pass) -> None:
    ir, arrays = made
    assert len(check(change, ir, *arrays)) <= len(ir.operations)
