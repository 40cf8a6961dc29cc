"""The IR: a program as data. Tensors have numbers, ops are rows of the op table, attributes are plain values.

One form serves capture, compilation, export and the wire. It knows shapes and dtypes, no engine and no device: a graph
runs where its operands are. The text form is in `intermodal.graph.text`, the binary one in `intermodal.graph.binary`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, TypeAlias

import numpy as np

from intermodal.dtypes import DType
from intermodal.graph.sizes import AnySize, Size
from intermodal.ops.table import TABLE, Op

__all__ = ["VERSION", "Attribute", "ConstantIr", "GraphIr", "Operand", "OperationIr", "Status", "TensorIr", "tensors_of"]

VERSION: Final = 1
"""Of the IR; a graph of a newer one is refused."""


class Status(Enum):
    """What becomes of a tensor at the place where it is named."""

    READ_ONLY = "read-only"  # it is used again later, or belongs to the caller
    LAST_USE = "last use"  # nobody needs it afterwards: its memory may be taken
    NOT_YET = "not yet"  # it is made here


@dataclass(frozen=True, slots=True)
class TensorIr:
    """A tensor in a graph, as it is named at one place: its number, shape, dtype, and what becomes of it there."""

    id: int
    shape: tuple[AnySize, ...]
    dtype: DType
    status: Status = Status.READ_ONLY


# What stands for one tensor parameter of a row: a tensor, several for a list of them, a scalar (a count may be a Size), or None.
Operand: TypeAlias = TensorIr | tuple[TensorIr, ...] | Size | bool | int | float | complex | None
# What an attribute may be: plain values, and tuples of them, however deep.
Attribute: TypeAlias = "bool | int | float | complex | str | DType | slice | Size | tuple[Attribute, ...] | None"


@dataclass(frozen=True, slots=True)
class OperationIr:
    """One op: a row of the table by name, what stands for each of its tensor parameters, what it makes, its attributes.

    Attributes are in the normal form that the row's ``infer`` gives them. ``device`` is never among them: a graph runs where
    its operands are. A ``seed`` of None is drawn anew in each run.
    """

    op: str
    inputs: tuple[Operand, ...]
    outputs: tuple[TensorIr, ...]
    attrs: Mapping[str, Attribute] = field(default_factory=dict)

    @property
    def row(self) -> Op:
        return TABLE[self.op]

    def tensors(self) -> Iterator[TensorIr]:
        """The tensors it reads, lists taken apart."""
        return tensors_of(self.inputs)


@dataclass(frozen=True, slots=True, eq=False)
class ConstantIr:
    """A tensor whose value is part of the graph. Two are equal if their values are, bit by bit."""

    id: int
    value: np.ndarray[Any, Any]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConstantIr):
            return NotImplemented
        mine, its = self.value, other.value
        return (self.id, mine.shape, mine.dtype) == (other.id, its.shape, its.dtype) and mine.tobytes() == its.tobytes()

    def __hash__(self) -> int:
        return hash((self.id, self.value.shape, self.value.dtype))


@dataclass(frozen=True, slots=True)
class GraphIr:
    """A program: what goes in, what comes out, the values it carries along, and its ops in an order in which they can run.

    A tensor may be an output several times, and an input or a constant may be one. ``input_names`` and ``output_names`` are for
    people and for formats that need them; they are as many as the inputs and outputs, and each differs from the others.
    """

    inputs: tuple[TensorIr, ...]
    outputs: tuple[TensorIr, ...]
    operations: tuple[OperationIr, ...]
    constants: tuple[ConstantIr, ...] = ()
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    version: int = VERSION

    @property
    def symbols(self) -> tuple[str, ...]:
        """The named sizes of the inputs, in the order of their first use."""
        found: dict[str, None] = {}
        for tensor in self.inputs:
            for size in tensor.shape:
                if isinstance(size, Size):
                    found.update(dict.fromkeys(sorted(size.names)))
        return tuple(found)

    def with_status(self) -> GraphIr:
        """The same graph with the status of every tensor as its use says: what a pass that moved ops calls at its end."""
        kept = {t.id for t in (*self.inputs, *self.outputs)} | {c.id for c in self.constants}
        operations: list[OperationIr] = []
        for operation in reversed(self.operations):

            def named(tensor: TensorIr) -> TensorIr:
                return replace(tensor, status=Status.READ_ONLY if tensor.id in kept else Status.LAST_USE)

            inputs = tuple(_mapped(value, named) for value in operation.inputs)
            kept.update(t.id for t in operation.tensors())
            outputs = tuple(replace(t, status=Status.NOT_YET) for t in operation.outputs)
            operations.append(replace(operation, inputs=inputs, outputs=outputs))
        return replace(
            self,
            inputs=tuple(replace(t, status=Status.READ_ONLY) for t in self.inputs),
            outputs=tuple(replace(t, status=Status.READ_ONLY) for t in self.outputs),
            operations=tuple(reversed(operations)),
        )


def _mapped(value: Operand, function: Any) -> Operand:
    if isinstance(value, TensorIr):
        return function(value)  # type: ignore[no-any-return]  # it is given and gives a TensorIr
    return tuple(function(t) for t in value) if isinstance(value, tuple) else value


def tensors_of(operands: tuple[Operand, ...]) -> Iterator[TensorIr]:
    """The tensors among operands, lists taken apart."""
    for value in operands:
        if isinstance(value, TensorIr):
            yield value
        elif isinstance(value, tuple):
            yield from value
