"""What a graph costs, counted without running it."""

from __future__ import annotations

import numpy as np
import pytest

from graph.building import Builder, samples
from intermodal.errors import InvalidValueError
from intermodal.graph.ir import GraphIr
from intermodal.graph.sizes import Size
from intermodal.graph.summary import summarise
from intermodal.ops.table import TABLE


def mlp() -> GraphIr:
    """Two layers on named many rows, the second one with the first's result added: 784 → 128 → 10."""
    n = Size.named("n")
    b = Builder()
    x = b.input((n, 784))
    w1, b1 = b.constant(np.zeros((784, 128), np.float32)), b.constant(np.zeros(128, np.float32))
    w2, b2 = b.constant(np.zeros((128, 10), np.float32)), b.constant(np.zeros(10, np.float32))
    hidden = b.op("relu", b.op("add", b.op("matmul", x, w1, shapes=[(n, 128)]), b1, shapes=[(n, 128)]), shapes=[(n, 128)])
    out = b.op("add", b.op("matmul", hidden, w2, shapes=[(n, 10)]), b2, shapes=[(n, 10)])
    return b.graph(b.op("softmax", out, axis=-1, shapes=[(n, 10)]))


def test_an_mlp_is_counted_as_by_hand() -> None:
    found = summarise(mlp(), {"n": 32})
    layers = 2 * 32 * 784 * 128 + 2 * 32 * 128 + 2 * 32 * 128 * 10 + 32 * 10 + 5 * 32 * 10
    assert found.flops == layers
    assert found.counts == {"matmul": 2, "add": 2, "relu": 1, "softmax": 1}
    assert found.parameters == 784 * 128 + 128 + 1280 + 10
    assert found.parameter_bytes == 4 * found.parameters
    assert (found.input_bytes, found.output_bytes) == (4 * 32 * 784, 4 * 32 * 10)
    first = found.operations[0]
    assert (first.op, first.shapes) == ("matmul", ((32, 128),))
    assert (first.bytes_read, first.bytes_written) == (4 * (32 * 784 + 784 * 128), 4 * 32 * 128)
    # Most is held while a layer of 128 makes the next: two of them, beside what came in and the constants.
    assert found.peak_memory == found.input_bytes + found.parameter_bytes + 2 * 4 * 32 * 128


def test_it_reads_as_a_table() -> None:
    lines = str(summarise(mlp(), {"n": 32})).splitlines()
    assert lines[0].split() == ["op", "count", "FLOPs", "share", "read", "written"]
    assert lines[2].split()[:5] == ["matmul", "2", "6.50", "M", "99.8%"]
    assert lines[-5].split()[:5] == ["in", "all", "6", "6.51", "M"]
    assert [line.split("  ")[0] for line in lines[-3:]] == ["parameters", "in and out", "peak memory"]
    assert "101.77 k, 397.54 KiB" in lines[-3]
    assert len({len(line) for line in lines[:7]}) == 1


def test_a_graph_without_ops_has_a_table_too() -> None:
    b = Builder()
    text = str(summarise(b.graph(b.input((2,)))))
    assert "in all" in text
    assert "8 B, 8 B" in text


@pytest.mark.parametrize(
    ("sizes", "said"),
    [(None, 'sizes={"n": 8}'), ({"m": 3}, "the sizes n have no numbers"), ({"n": 3, "m": 3}, "the graph has no sizes m")],
)
def test_named_sizes_have_to_be_told_and_no_others(sizes: dict[str, int] | None, said: str) -> None:
    with pytest.raises(InvalidValueError, match=said):
        summarise(mlp(), sizes)


def test_memory_is_freed_after_the_last_use() -> None:
    b = Builder()
    x = b.input((256,))  # 1024 bytes
    one = b.op("negative", x)
    two = b.op("negative", one)
    three = b.op("add", one, two)
    found = summarise(b.graph(b.op("negative", three)))
    assert [o.memory for o in found.operations] == [2048, 3072, 4096, 3072]
    assert found.peak_memory == 4096


def test_a_view_takes_no_memory_and_holds_what_it_shows() -> None:
    b = Builder()
    x = b.input((16, 16))
    made = b.op("negative", x)
    turned = b.op("permute_dims", made, (1, 0))
    wide = b.op("broadcast_to", b.op("expand_dims", turned, axis=0), (5, 16, 16))
    copied = b.op("reshape", turned, (256,))  # its elements do not lie in this order
    found = summarise(b.graph(b.op("sum", wide, axis=0), copied))
    assert [o.memory for o in found.operations] == [2048, 2048, 2048, 2048, 3072, 4096]
    assert [o.bytes_written for o in found.operations] == [1024, 0, 0, 0, 1024, 1024]
    assert found.operations[1].bytes_read == 0
    assert [o.flops for o in found.operations] == [256, 0, 0, 0, 0, 5 * 256]


def test_a_lookup_reads_what_it_gives() -> None:
    b = Builder()
    rows = b.op("embedding", b.constant(np.zeros((1000, 8), np.float32)), b.input((3,), "int64"))
    assert summarise(b.graph(rows)).operations[0].bytes_read == 3 * 8 * 4 + 3 * 8


def test_products_are_counted_by_what_they_contract() -> None:
    b = Builder()
    x, y = b.input((2, 3, 4)), b.input((4, 5))
    image, weight, bias = b.input((2, 6, 8, 8)), b.input((10, 3, 3, 3)), b.input((10,))
    query, key = b.input((2, 4, 7, 16)), b.input((2, 2, 9, 16))
    matrix, side = b.input((5, 3, 3)), b.input((5, 3, 2))
    made = {
        b.op("matmul", x, y): 2 * 2 * 3 * 4 * 5,
        b.op("tensordot", x, y, axes=1): 2 * 2 * 3 * 4 * 5,
        b.op("einsum", "abc,cd->abd", x, y): 2 * 2 * 3 * 4 * 5,
        b.op("vecdot", x, x): 2 * 2 * 3 * 4,
        b.op("conv2d", image, weight, bias, groups=2): 2 * (2 * 10 * 6 * 6) * 27 + 2 * 10 * 6 * 6,
        b.op("conv_transpose2d", b.input((2, 10, 6, 6)), weight): 2 * (2 * 10 * 6 * 6) * 27,
        b.op("attention", query, key, key): 2 * 4 * 7 * 9 * (2 * 16 + 2 * 16 + 5),
        b.op("max_pool2d", image, kernel_size=2): 2 * 6 * 4 * 4 * 4,
        b.op("sum", image): 2 * 6 * 8 * 8,
        b.op("fft", b.input((3, 8), "complex64")): 5 * 3 * 8 * 3,
        b.op("solve", matrix, side): 5 * (18 + 2 * 9 * 2),
        b.op("inv", matrix): 5 * 2 * 27,
        b.op("where", b.input((3,), "bool"), 1.0, b.input((3,))): 0,
        b.op("exp", x): 24,
    }
    found = summarise(b.graph(*made))
    assert {o.op: o.flops for o in found.operations} == {o.op: made[o.outputs[0]] for o in b.operations}


def test_a_size_that_depends_on_data_is_told_like_a_named_one() -> None:
    b = Builder()
    found = b.op("unique_values", b.input((8,)), shapes=[(Size.named("_1_0"),)])
    assert summarise(b.graph(found), {"_1_0": 5}).operations[0].bytes_written == 20


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if not row.data_dependent])
def test_every_row_can_be_counted(name: str) -> None:
    rows = [summarise(ir).operations[0] for ir, _ in samples(name)]
    assert rows
    assert all(type(o.flops) is int and o.flops >= 0 and o.bytes_written >= 0 for o in rows)
    elements = [sum(int(np.prod(s)) for s in o.shapes) for o in rows]
    assert TABLE[name].movement or any(o.flops for o in rows) or not any(elements)
