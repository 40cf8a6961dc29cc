"""Graphs for the tests: one of each call in the conformance kit's samples, and some that are written out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

import intermodal as im
from intermodal import dispatch, dtypes
from intermodal.dtypes import DType
from intermodal.graph.ir import ConstantIr, GraphIr, Operand, OperationIr, TensorIr
from intermodal.graph.sizes import Size
from intermodal.ops.table import TABLE, Op, Spec
from intermodal.testing.samples import Sample, cases

DTYPES = (dtypes.float32, dtypes.int64, dtypes.bool_, dtypes.complex64, dtypes.bfloat16)


def of_sample(row: Op, sample: Sample) -> GraphIr | None:
    """A graph of one op; None for a call that is wrong on purpose. Small arrays are constants, the others inputs."""
    try:
        given, attrs = row.bind(*sample.args, **sample.kwargs)
    except TypeError:
        return None
    inputs: list[TensorIr] = []
    constants: list[ConstantIr] = []

    def tensor(value: Any) -> Operand:
        if isinstance(value, (list, tuple)):
            return tuple(t for t in map(tensor, value) if isinstance(t, TensorIr))
        if not isinstance(value, np.ndarray):
            return value.item() if isinstance(value, np.generic) else value
        made = TensorIr(len(inputs) + len(constants), value.shape, dtypes.as_dtype(value.dtype))
        if value.size < 12 and inputs:
            constants.append(ConstantIr(made.id, value))
        else:
            inputs.append(made)
        return made

    operands = tuple(map(tensor, given))
    if row.takes_device:
        attrs["device"] = im.Device("meta:cpu")
    try:
        found = dispatch.infer(row, [spec(v) for v in operands], attrs)
    except im.IntermodalError:
        return None
    first = len(inputs) + len(constants)
    outputs = tuple(
        TensorIr(first + i, tuple(Size.named(f"_u{j}") if n is None else n for j, n in enumerate(s.shape)), s.dtype)
        for i, s in enumerate(found.outputs)
    )
    normal: dict[str, Any] = {name: value for name, value in found.attrs.items() if name != "device"}
    if row.infer is None and "dtype" in normal:  # a row without a rule has no normal form
        normal["dtype"] = outputs[0].dtype
    return GraphIr(
        tuple(inputs),
        outputs,
        (OperationIr(row.name, operands, outputs, normal),),
        tuple(constants),
        tuple(f"x{i}" for i in range(len(inputs))),
        tuple(f"y{i}" for i in range(len(outputs))),
    ).with_status()


def spec(value: Operand) -> Any:
    if isinstance(value, TensorIr):
        return Spec(value.shape, value.dtype)
    return [spec(v) for v in value] if isinstance(value, tuple) else value


@cache
def of_row(name: str) -> tuple[GraphIr, ...]:
    """A graph for each sample of a row, of several dtypes."""
    row = TABLE[name]
    return tuple(graph for dtype in DTYPES for sample in cases(row, dtype) if (graph := of_sample(row, sample)) is not None)


def all_graphs() -> Iterator[GraphIr]:
    """The written ones, and two of each row."""
    yield from (chain(), dynamic(), numbers())
    for name in TABLE:
        yield from of_row(name)[:2]


def chain(dtype: DType = dtypes.float32) -> GraphIr:
    """A small network: two inputs, a constant, a list of operands, scalars, and an output that is named twice."""
    x, w = TensorIr(0, (5, 4), dtype), TensorIr(1, (4, 3), dtype)
    b = np.asarray([0.5, -0.0, np.nan]).astype(dtype.numpy)
    product, moved = TensorIr(3, (5, 3), dtype), TensorIr(4, (5, 3), dtype)
    joined, total = TensorIr(5, (10, 3), dtype), TensorIr(6, (3,), dtype)
    operations = (
        OperationIr("matmul", (x, w), (product,)),
        OperationIr("add", (product, TensorIr(2, (3,), dtype)), (moved,)),
        OperationIr("concat", ((moved, product),), (joined,), {"axis": 0}),
        OperationIr("sum", (joined,), (total,), {"axis": (0,), "dtype": dtype, "keepdims": False}),
    )
    return GraphIr((x, w), (total, x), operations, (ConstantIr(2, b),), ("x", "weights of it"), ("y", "again.x")).with_status()


def dynamic() -> GraphIr:
    """Named sizes in shapes and attributes, halves of them, and one that depends on the data."""
    n, f32 = Size.named("n"), dtypes.float32
    half, flat, some = Size.parse("1/2*n"), Size.parse("3*n"), Size.named("_u4")
    x = TensorIr(0, (n, 3), f32)
    pairs, row, found = TensorIr(1, (half, 6), f32), TensorIr(2, (flat,), f32), TensorIr(3, (some,), dtypes.int64)
    part, doubled = TensorIr(4, (half, 3), f32), TensorIr(5, (some,), dtypes.int64)
    operations = (
        OperationIr("reshape", (x,), (pairs,), {"shape": (half, 6), "copy": None}),
        OperationIr("reshape", (pairs,), (row,), {"shape": (flat,), "copy": None}),
        OperationIr("nonzero", (row,), (found,)),
        OperationIr("basic_index", (x,), (part,), {"key": (slice(0, half, None), slice(None))}),
        OperationIr("multiply", (found, 2), (doubled,)),
    )
    return GraphIr((x,), (part, doubled), operations, (), ("x",), ("part", "places")).with_status()


def numbers() -> GraphIr:
    """Constants of every dtype with the values at which forms differ, and scalars of every type as operands."""
    constants: list[ConstantIr] = []
    for dtype in dtypes.ALL:
        bits = np.arange(256, dtype=np.uint8)
        bits = bits & 1 if dtype.is_bool else bits & 15 if dtype.bits == 4 else bits
        constants += (
            ConstantIr(len(constants), np.resize(bits, 32 * dtype.itemsize).view(dtype.numpy).reshape(2, 16)),
            ConstantIr(len(constants) + 1, np.asarray([0, 1, 3]).astype(dtype.numpy)),
            ConstantIr(len(constants) + 2, np.zeros((0, 2), dtype.numpy)),
        )
    payload = np.frombuffer(bytes.fromhex("010000000000f87f 010000000000f8ff 000000000000f0ff 0000000000000080"), "<f8")
    constants.append(ConstantIr(len(constants), payload.astype(np.float64)))
    constants.append(ConstantIr(len(constants), np.asarray(complex(-0.0, np.inf))))
    operations: list[OperationIr] = []
    x = TensorIr(1000, (2,), dtypes.float64)
    for i, scalar in enumerate((1, 1.0, True, -0.0, float("nan"), float("-inf"), 1e-310, 2**62)):
        made = TensorIr(1001 + i, (2,), dtypes.float64)
        operations.append(OperationIr("add", (x, scalar), (made,)))
        x = made
    made = TensorIr(1100, (2,), dtypes.complex128)
    operations.append(OperationIr("add", (x, complex(-0.0, -1.5)), (made,)))
    given = TensorIr(1000, (2,), dtypes.float64)
    return GraphIr((given,), (made,), tuple(operations), tuple(constants), ('"quoted" #1, %2',), ("Größe",)).with_status()
