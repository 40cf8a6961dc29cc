"""`Form`: the form of a graph against the op table, without running a rule: numbers, roles, names, types, statuses, limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from intermodal import dtypes
from intermodal.dtypes import DType
from intermodal.errors import GraphError, IntermodalError
from intermodal.graph.attributes import check_attribute, same, sizes_in
from intermodal.graph.ir import VERSION, ConstantIr, GraphIr, Operand, OperationIr, Status, TensorIr
from intermodal.graph.limits import Limits
from intermodal.graph.sizes import AnySize, Size
from intermodal.ops.table import TABLE, Op, Param, Role

__all__ = ["Form"]

_SCALARS: Final = (bool, int, float, complex)
_RESERVED: Final = frozenset((*dtypes.names(), "None", "True", "False", "inf", "nan"))  # words of the text form
_MOST: Final = 2**63 - 1


class Form:
    """What is known while the form of a graph is checked in its order: tensors, named sizes, bytes of constants."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.tensors: dict[int, TensorIr] = {}
        self.names: dict[str, None] = {}
        self.sizes: dict[Size, None] = {}
        self.bytes = 0
        self.operation: int | None = None
        self.op = ""

    def fail(self, message: str) -> GraphError:
        where = "" if self.operation is None else f"op {self.operation}, {self.op}: "
        return GraphError(where + message, operation=self.operation)

    def graph(self, ir: GraphIr) -> None:
        if type(ir.version) is not int or ir.version < 1:
            raise self.fail(f"{ir.version!r} is no version of the IR.")
        if ir.version > VERSION:
            raise self.fail(f"the graph is of version {ir.version}, and this intermodal reads up to {VERSION}. Upgrade it.")
        self.count(ir.inputs, TensorIr, self.limits.tensors, "inputs")
        self.count(ir.outputs, TensorIr, self.limits.tensors, "outputs")
        self.count(ir.constants, ConstantIr, self.limits.tensors, "constants")
        self.count(ir.operations, OperationIr, self.limits.operations, "operations")
        self.labels(ir.input_names, len(ir.inputs), "input")
        self.labels(ir.output_names, len(ir.outputs), "output")
        for tensor in ir.inputs:
            self.define(tensor, introduces=True)
        for constant in ir.constants:
            self.constant(constant)
        for i, operation in enumerate(ir.operations):
            self.operation, self.op = i, str(operation.op)[:40]
            self.one(operation)
        self.operation = None
        for tensor in ir.outputs:
            self.use(tensor)
        self.statuses(ir)

    def count(self, values: object, kind: type, limit: int, what: str) -> None:
        if type(values) is not tuple or not all(type(v) is kind for v in values):
            raise self.fail(f"its {what} are not a tuple of {kind.__name__}.")
        if len(values) > limit:
            raise self.fail(f"it has {len(values)} {what}; at most {limit} are allowed.")

    def labels(self, names: object, wanted: int, what: str) -> None:
        if type(names) is not tuple or not all(type(n) is str for n in names):
            raise self.fail(f"the {what} names are not a tuple of text.")
        if len(names) != wanted:
            raise self.fail(f"{len(names)} {what} names are given for {wanted} {what}s. Give each one a name.")
        for name in names:
            if not 0 < len(name) <= self.limits.name or not name.isprintable():
                raise self.fail(
                    f"{name[:40]!r} is no name of an {what}. Use 1 to {self.limits.name} characters that can be printed."
                )
        if len(set(names)) != len(names):
            twice = next(n for n in names if names.count(n) > 1) if len(names) < 1000 else ""
            raise self.fail(f"the {what} name {twice} is given twice. Give each {what} a name of its own.")

    def tensor(self, tensor: TensorIr) -> None:
        if type(tensor.id) is not int or not 0 <= tensor.id <= _MOST:
            raise self.fail(f"{str(tensor.id)[:40]} is no number of a tensor. Use 0 or more, below 2**63.")
        if type(tensor.status) is not Status:
            raise self.fail(f"%{tensor.id} has no status. Call with_status() on the graph.")
        if type(tensor.dtype) is not DType or tensor.dtype not in dtypes.ALL:
            raise self.fail(f"%{tensor.id} has {str(tensor.dtype)[:40]!r} as dtype. Use one of {', '.join(dtypes.names())}.")
        if type(tensor.shape) is not tuple or len(tensor.shape) > self.limits.dims:
            raise self.fail(f"the shape of %{tensor.id} is no tuple of at most {self.limits.dims} sizes.")
        for size in tensor.shape:
            self.size(size)

    def size(self, size: AnySize) -> None:
        if type(size) is Size:
            if size not in self.sizes:
                self.named_size(size)
        elif type(size) is not int or not 0 <= size <= self.limits.size:
            raise self.fail(f"{str(size)[:40]} is no size. Use a whole number from 0 to {self.limits.size}, or a Size.")

    def named_size(self, size: Size) -> None:
        try:
            valid = Size.parse(str(size)) == size
        except Exception:  # what is in it was put there by others
            valid = False
        if not valid or size.names & _RESERVED:
            raise self.fail(f"{str(size)[:40]!r} is no size, or has a name that the text form reads otherwise.")
        self.sizes[size] = None
        if len(self.sizes) > 10 * self.limits.named_sizes:
            raise self.fail(f"more than {10 * self.limits.named_sizes} different sizes are in it.")

    def known_names(self, size: Size) -> None:
        for name in size.names:
            if name not in self.names:
                raise self.fail(f"the size {name} of {size} is not known here. It must be that of an input or of an earlier op.")

    def introduce(self, size: AnySize) -> None:
        if isinstance(size, Size):
            self.names.update(dict.fromkeys(sorted(size.names)))
            if len(self.names) > self.limits.named_sizes:
                raise self.fail(f"more than {self.limits.named_sizes} sizes have names.")

    def define(self, tensor: TensorIr, *, introduces: bool) -> None:
        self.tensor(tensor)
        if tensor.id in self.tensors:
            raise self.fail(f"%{tensor.id} is made twice. Give each tensor a number of its own.")
        for size in tensor.shape:
            if introduces:
                self.introduce(size)
            elif isinstance(size, Size):
                self.known_names(size)
        self.tensors[tensor.id] = tensor
        if len(self.tensors) > self.limits.tensors:
            raise self.fail(f"more than {self.limits.tensors} tensors are in it.")

    def use(self, tensor: TensorIr) -> None:
        known = self.tensors.get(tensor.id) if type(tensor.id) is int else None
        if known is None:
            raise self.fail(f"%{str(tensor.id)[:40]} is read before it is made, or never made.")
        if type(tensor.status) is not Status:
            raise self.fail(f"%{tensor.id} has no status. Call with_status() on the graph.")
        if type(tensor.shape) is not tuple or not same(tensor.shape, known.shape) or tensor.dtype is not known.dtype:
            raise self.fail(f"%{tensor.id} is read with another shape or dtype than it was made with.")

    def constant(self, constant: ConstantIr) -> None:
        value = constant.value
        if type(value) is not np.ndarray:
            raise self.fail(f"the value of a constant is {type(value).__name__}, not a NumPy array.")
        try:
            dtype = dtypes.as_dtype(value.dtype)
        except IntermodalError as error:
            raise self.fail(f"a constant has a NumPy dtype that is none of ours: {error}") from error
        self.bytes += value.nbytes
        if self.bytes > self.limits.constant_bytes:
            raise self.fail(f"its constants have more than {self.limits.constant_bytes} bytes.")
        self.define(TensorIr(constant.id, value.shape, dtype), introduces=False)
        highest = 1 if dtype.is_bool else 15 if dtype.bits == 4 else None
        if highest and value.size and int(np.ascontiguousarray(value).view(np.uint8).max()) > highest:
            raise self.fail(f"the constant %{constant.id} has bytes that are no value of {dtype}.")

    def one(self, operation: OperationIr) -> None:
        row = TABLE.get(operation.op) if type(operation.op) is str else None
        if row is None:
            raise self.fail(f"{str(operation.op)[:40]!r} is no op of the table. A plugin that has it must be imported first.")
        if type(operation.inputs) is not tuple or len(operation.inputs) != len(row.tensor_params):
            raise self.fail(f"it takes {len(row.tensor_params)} operands. The signature is {row.signature}.")
        for param, value in zip(row.tensor_params, operation.inputs, strict=True):
            self.operand(row, param, value)
        attrs: Any = operation.attrs  # of any type, until it is read
        wanted = [p for p in row.params if p.role is Role.ATTRIBUTE and p.name != "device"]
        if not isinstance(attrs, Mapping) or len(attrs) != len(wanted) or any(p.name not in attrs for p in wanted):
            raise self.fail(f"its attributes must be {', '.join(p.name for p in wanted) or 'none'}, each once and no others.")
        for param in wanted:
            try:
                check_attribute(param, attrs[param.name], self.limits)
            except GraphError as error:
                raise self.fail(str(error)) from None
            for size in sizes_in(attrs[param.name]):
                self.size(size)
                self.known_names(size)
        self.count(operation.outputs, TensorIr, self.limits.values, "outputs")
        for tensor in operation.outputs:
            self.define(tensor, introduces=row.data_dependent)

    def operand(self, row: Op, param: Param, value: Operand) -> None:
        if param.role in (Role.SEQUENCE, Role.VARIADIC):
            self.count(value, TensorIr, self.limits.values, f"operands {param.name}")
            for tensor in _tensors(value):
                self.use(tensor)
        elif type(value) is TensorIr:
            self.use(value)
        elif type(value) in (*_SCALARS, Size) and param.role is not Role.TENSOR and param.annotation != "Tensor | None":
            if isinstance(value, Size):
                self.size(value)
                self.known_names(value)
            elif type(value) is int and not -_MOST - 1 <= value < 2**64:
                raise self.fail(f"the scalar {param.name} does not fit 64 bits.")
        elif value is not None or param.role is not Role.OPTIONAL:
            raise self.fail(
                f"{param.name} is {type(value).__name__}, which does not fit its role. The signature is {row.signature}."
            )

    def statuses(self, ir: GraphIr) -> None:
        right = ir.with_status()
        if ir.inputs != right.inputs or ir.outputs != right.outputs:
            raise self.fail("its inputs and outputs must have the status read-only. Call with_status().")
        for i, (mine, other) in enumerate(zip(ir.operations, right.operations, strict=True)):
            if mine.inputs != other.inputs or mine.outputs != other.outputs:
                self.operation, self.op = i, mine.op
                raise self.fail("a tensor has another status there than its use says. Call with_status() on the graph.")


def _tensors(value: Any) -> Iterable[TensorIr]:
    return value if isinstance(value, tuple) else ()
