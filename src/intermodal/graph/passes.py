"""Passes: a graph in, a graph out that computes the same with less. None of them changes what goes in or comes out.

`clean` runs them all. Outputs keep their number, order and names; one may become an input or a constant. A pass drops the
error that an op would have raised, if nobody reads the op's result.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextvars import Context
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from intermodal import config, conversion
from intermodal.dispatch import call_bound, infer
from intermodal.dtypes import as_dtype
from intermodal.errors import IntermodalError
from intermodal.graph.ir import ConstantIr, GraphIr, Operand, OperationIr, TensorIr
from intermodal.graph.sizes import Size
from intermodal.ops.table import Spec

__all__ = [
    "FOLD_LIMIT",
    "PERMUTATIONS",
    "REFLOWS",
    "clean",
    "drop_dead_code",
    "fold_constants",
    "merge_movements",
    "share_common_subexpressions",
]

Host: TypeAlias = np.ndarray[Any, Any]

FOLD_LIMIT: Final = 1 << 20
"""Bytes up to which `fold_constants` keeps the result of an op in place of the op."""

REFLOWS: Final = frozenset(("reshape", "expand_dims", "squeeze", "flatten"))
"""Rows that give the elements in their order another shape."""
PERMUTATIONS: Final = frozenset(("permute_dims", "moveaxis", "swapaxes", "transpose", "matrix_transpose"))
"""Rows that give the axes another order."""
# What these give is not decided by their operands alone: memory as it was found, vectors up to a sign or a phase.
_OF_THE_ENGINE: Final = frozenset(("empty", "empty_like", "qr", "svd", "eigh", "eig"))
_ROUNDS: Final = 8  # of `clean`; each but the last makes the graph smaller, and two were enough for all that was tried


def clean(ir: GraphIr, *, limit: int = FOLD_LIMIT) -> GraphIr:
    """The graph after all passes, again and again until it gets no smaller.

    Args:
        ir: the graph.
        limit: as in `fold_constants`.
    """
    for _ in range(_ROUNDS):
        before = len(ir.operations) + len(ir.constants)
        ir = share_common_subexpressions(merge_movements(fold_constants(drop_dead_code(ir), limit=limit)))
        if len(ir.operations) + len(ir.constants) == before:
            break
    return ir


def drop_dead_code(ir: GraphIr) -> GraphIr:
    """The graph without the ops and constants on which no output depends. Inputs stay, used or not."""
    needed = {t.id for t in ir.outputs}
    operations: list[OperationIr] = []
    for operation in reversed(ir.operations):
        if any(t.id in needed for t in operation.outputs):
            needed.update(t.id for t in operation.tensors())
            operations.append(operation)
    constants = tuple(c for c in ir.constants if c.id in needed)
    return replace(ir, operations=tuple(reversed(operations)), constants=constants).with_status()


def share_common_subexpressions(ir: GraphIr) -> GraphIr:
    """The graph with each op once for the same operands and attributes, and each constant once.

    An op that draws its seed when it runs is never shared: each draws its own. Scalars are the same if their types and bits are.
    """
    renamed = _equal_constants(ir.constants)
    seen: dict[object, tuple[TensorIr, ...]] = {}
    operations: list[OperationIr] = []
    for operation in ir.operations:
        operation = _with_inputs(operation, renamed)
        row = operation.row
        if row.data_dependent or (row.takes_seed and operation.attrs.get("seed") is None):
            operations.append(operation)
            continue
        specs = tuple((t.shape, t.dtype) for t in operation.outputs)
        key = (row.name, _key(operation.inputs), _key(tuple(sorted(operation.attrs.items()))), specs)
        first = seen.setdefault(key, operation.outputs)
        if first is operation.outputs:
            operations.append(operation)
        else:
            renamed.update((t.id, other) for t, other in zip(operation.outputs, first, strict=True))
    return _finished(ir, operations, renamed)


def fold_constants(ir: GraphIr, *, limit: int = FOLD_LIMIT) -> GraphIr:
    """The graph with the results of those ops that depend on no input, computed on ``numpy:cpu``, in place of the ops.

    Ops with a seed stay, and ops whose result is the engine's choice, such as the signs of singular vectors.

    Args:
        ir: the graph.
        limit: bytes of an op's results up to which they are kept. Above it the op stays, unless its results take no more
            than the constants which it alone reads and which thus leave the graph.
    """
    known = {c.id: c.value for c in ir.constants}
    readers = Counter(i for op in ir.operations for i in {t.id for t in op.tensors()})
    readers.update({t.id for t in ir.outputs})
    operations: list[OperationIr] = []
    added: list[ConstantIr] = []
    for operation in ir.operations:
        own = sum(known[i].nbytes for i in {t.id for t in operation.tensors()} if i in known and readers[i] == 1)
        values = _folded(operation, known, max(limit, own))
        if values is None:
            operations.append(operation)
            continue
        for tensor, value in zip(operation.outputs, values, strict=True):
            known[tensor.id] = value
            added.append(ConstantIr(tensor.id, value))
    return _finished(replace(ir, constants=(*ir.constants, *added)), operations, {})


def merge_movements(ir: GraphIr) -> GraphIr:
    """The graph with one reshape for a row of them, one transposition, one broadcast, and none for those that change nothing."""
    made: dict[int, OperationIr] = {}
    renamed: dict[int, TensorIr] = {}
    operations: list[OperationIr] = []
    for operation in ir.operations:
        operation = _with_inputs(operation, renamed)
        if operation.attrs.get("copy") is not False:  # this one raises where it cannot be a view
            operation = _merged(operation, made)
            same = _unchanged(operation)
            if same is not None:
                renamed[operation.outputs[0].id] = same
                continue
        made.update((t.id, operation) for t in operation.outputs)
        operations.append(operation)
    return _finished(ir, operations, renamed)


# Names of tensors.


def _finished(ir: GraphIr, operations: Iterable[OperationIr], renamed: Mapping[int, TensorIr]) -> GraphIr:
    outputs = tuple(renamed.get(t.id, t) for t in ir.outputs)
    return drop_dead_code(replace(ir, operations=tuple(operations), outputs=outputs))


def _with_inputs(operation: OperationIr, renamed: Mapping[int, TensorIr]) -> OperationIr:
    """The op with its operands under their new names. Whoever renames does so in order, so one look is enough."""
    if not any(t.id in renamed for t in operation.tensors()):
        return operation

    def named(value: Operand) -> Operand:
        if isinstance(value, TensorIr):
            return renamed.get(value.id, value)
        return tuple(renamed.get(t.id, t) for t in value) if isinstance(value, tuple) else value

    return replace(operation, inputs=tuple(named(value) for value in operation.inputs))


# What is the same.


def _key(value: object) -> object:
    """What two operands or attributes must have in common to be the same: Python holds 1, 1.0 and True equal, and NaN to nothing."""
    if isinstance(value, TensorIr):
        return (TensorIr, value.id)
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, complex):
        return struct.pack("<dd", value.real, value.imag)
    if isinstance(value, slice):
        return (slice, _key(value.start), _key(value.stop), _key(value.step))
    return (type(value), value)


def _equal_constants(constants: Iterable[ConstantIr]) -> dict[int, TensorIr]:
    """For each constant that there is already, the first of its value."""
    renamed: dict[int, TensorIr] = {}
    alike: dict[object, list[ConstantIr]] = {}
    for constant in constants:
        value = constant.value
        few = value.flat[:16].tobytes()  # large constants that differ mostly do so here, and are not compared in full
        others = alike.setdefault((value.shape, value.dtype, few), [])
        first = next((c for c in others if replace(constant, id=c.id) == c), None)
        if first is None:
            others.append(constant)
        else:
            renamed[constant.id] = TensorIr(first.id, value.shape, as_dtype(value.dtype))
    return renamed


# Folding.


def _folded(operation: OperationIr, known: Mapping[int, Host], limit: int) -> list[Host] | None:
    """The results of an op, where they are known now and not larger than the limit."""
    row = operation.row
    if row.takes_seed or row.data_dependent or row.name in _OF_THE_ENGINE or any(t.id not in known for t in operation.tensors()):
        return None
    if any(map(_is_symbolic, operation.attrs.values())) or any(_is_symbolic(t.shape) for t in operation.outputs):
        return None
    if sum(_nbytes(t) for t in operation.outputs) > limit:
        return None
    try:
        # In a context of its own, for the caller's may have a trace under way or autocast.
        results = Context().run(_computed, operation, known)
    except IntermodalError:
        return None  # it is raised when the graph runs
    specs = [(t.shape, t.dtype.numpy) for t in operation.outputs]
    return results if [(r.shape, r.dtype) for r in results] == specs else None  # a setting is another than at the capture


def _computed(operation: OperationIr, known: Mapping[int, Host]) -> list[Host]:
    row = operation.row
    values = [_mapped(v, lambda t: conversion.asarray(known[t.id], device="numpy:cpu")) for v in operation.inputs]
    with config.scope(device="numpy:cpu"), np.errstate(all="ignore"):  # a pass does not warn of an overflow
        made = call_bound(row, values, {**operation.attrs, "device": "numpy:cpu"} if row.takes_device else operation.attrs)
    # The order in memory is kept: a product of a turned matrix adds up in the order that it would have without the pass.
    return [np.array(conversion.to_numpy(t), order="K") for t in (made if row.multiple else (made,))]


def _mapped(value: Operand, function: Callable[[TensorIr], object]) -> object:
    if isinstance(value, TensorIr):
        return function(value)
    return [function(t) for t in value] if isinstance(value, tuple) else value


def _nbytes(tensor: TensorIr) -> int:
    total = tensor.dtype.itemsize
    for size in tensor.shape:
        assert isinstance(size, int)  # symbolic results are not folded
        total *= size
    return total


def _is_symbolic(value: object) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_symbolic, value))
    if isinstance(value, slice):
        return any(map(_is_symbolic, (value.start, value.stop, value.step)))
    return isinstance(value, Size)


# Movements.


def _order(operation: OperationIr) -> tuple[int, ...]:
    """The order of axes that a permutation gives, found with axes which their sizes tell apart."""
    sizes = tuple(range(1, len(operation.outputs[0].shape) + 1))
    found = infer(operation.row, [Spec(sizes, operation.outputs[0].dtype)], dict(operation.attrs))
    return tuple(size - 1 for size in found.outputs[0].shape)


def _merged(operation: OperationIr, made: Mapping[int, OperationIr]) -> OperationIr:
    """The op, or one that does at once what it and the op before it do."""
    source = operation.inputs[0] if operation.inputs else None
    before = made.get(source.id) if isinstance(source, TensorIr) else None
    if before is None or before.attrs.get("copy") is False:
        return operation
    shape = operation.outputs[0].shape
    if operation.op in REFLOWS and before.op in REFLOWS:
        return replace(operation, op="reshape", inputs=before.inputs, attrs={"shape": shape, "copy": None})
    if operation.op == before.op == "broadcast_to":
        return replace(operation, inputs=before.inputs)
    if operation.op in PERMUTATIONS and before.op in PERMUTATIONS:
        first = _order(before)
        axes = tuple(first[a] for a in _order(operation))
        return replace(operation, op="permute_dims", inputs=before.inputs, attrs={"axes": axes})
    return operation


def _unchanged(operation: OperationIr) -> TensorIr | None:
    """The operand, where the op gives it back as it is."""
    source = operation.inputs[0] if operation.inputs else None
    if not isinstance(source, TensorIr):
        return None
    if operation.op in REFLOWS or operation.op == "broadcast_to":
        same = source.shape == operation.outputs[0].shape
    elif operation.op in PERMUTATIONS:
        same = _order(operation) == tuple(range(len(source.shape)))
    else:
        same = operation.op == "astype" and source.dtype is operation.outputs[0].dtype
    return source if same else None
