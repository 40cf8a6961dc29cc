"""The text form: one line per op, for people and for diffs, from which the same graph is read back bit by bit.

::

    graph v1 (x %0: float32[n, 256], w %1: float32[256, 10]) -> (y %4: float32[10])
      %2: float32[n, 10] = matmul(%0, %1)
      %3: float32[10] = constant data
      %4: float32[10] = sum(%2!, axis=(0,), dtype=float32, keepdims=False)
    data
      %3:
        AAAAAAAAAAA…

The page docs/the-ir.md has the grammar.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Final

from intermodal.dtypes import as_dtype
from intermodal.errors import GraphError
from intermodal.graph.ir import GraphIr, Operand, OperationIr, Status, TensorIr
from intermodal.graph.limits import LIMITS, Limits
from intermodal.graph.reading import BARE, Reader
from intermodal.graph.validation import check
from intermodal.graph.values import bytes_of, numbers_of, text_of
from intermodal.ops.table import TABLE, Role

__all__ = ["from_text", "to_text"]

_WIDTH: Final = 120


def to_text(ir: GraphIr) -> str:
    """A graph as text. An ill-formed one has a text too, to be read by people; `from_text` refuses it.

    Example:
        >>> from intermodal.dtypes import float32
        >>> x, y = TensorIr(0, (2, 3), float32), TensorIr(1, (2, 3), float32, Status.NOT_YET)
        >>> print(to_text(GraphIr((x,), (TensorIr(1, (2, 3), float32),), (OperationIr("sin", (x,), (y,)),), (), ("x",), ("y",))), end="")
        graph v1 (x %0: float32[2, 3]) -> (y %1: float32[2, 3])
          %1: float32[2, 3] = sin(%0)
    """
    made: dict[int, str] = {}

    def define(tensor: TensorIr) -> str:
        made[tensor.id] = _type(tensor)
        return f"%{tensor.id}: {_type(tensor)}"

    def use(tensor: TensorIr) -> str:
        known = made.get(tensor.id) == _type(tensor)  # else it is ill-formed, and the text says how
        return f"%{tensor.id}{'!' * (tensor.status is Status.LAST_USE)}" + ("" if known else f": {_type(tensor)}")

    lines, data = [], []
    inputs = _listed([f"{name}{define(t)}" for name, t in _named(ir.inputs, ir.input_names)])
    outputs = _listed([f"{name}%{t.id}: {_type(t)}" for name, t in _named(ir.outputs, ir.output_names)])
    lines.append(f"graph v{ir.version} {inputs} -> {outputs}")
    for constant in ir.constants:
        value = constant.value
        tensor = TensorIr(constant.id, value.shape, as_dtype(value.dtype))
        written = numbers_of(value, tensor.dtype)
        lines.append(f"  {define(tensor)} = constant {written or 'data'}")
        if written is None:
            encoded = base64.b64encode(bytes_of(value)).decode()
            data.append(f"  %{constant.id}:")
            data += (f"    {encoded[i : i + _WIDTH]}" for i in range(0, len(encoded), _WIDTH))
    for operation in ir.operations:
        call = ", ".join([*(_operand(v, use) for v in operation.inputs), *_attributes(operation)])
        lines.append(f"  {', '.join(map(define, operation.outputs)) or '()'} = {operation.op}({call})")
    return "\n".join([*lines, *(["data", *data] if data else []), ""])


def _type(tensor: TensorIr) -> str:
    return f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"


def _named(tensors: tuple[TensorIr, ...], labels: tuple[str, ...]) -> list[tuple[str, TensorIr]]:
    texts = [(label if BARE.fullmatch(label) else json.dumps(label, ensure_ascii=False)) + " " for label in labels]
    return list(zip([*texts, *[""] * len(tensors)], tensors, strict=False))


def _listed(parts: list[str]) -> str:
    line = f"({', '.join(parts)})"
    return line if len(line) <= _WIDTH else "(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def _operand(value: Operand, use: Callable[[TensorIr], str]) -> str:
    if isinstance(value, TensorIr):
        return use(value)
    return f"[{', '.join(map(use, value))}]" if isinstance(value, tuple) else text_of(value)


def _attributes(operation: OperationIr) -> list[str]:
    """In the order of the signature, so that equal ops are equal lines."""
    row = TABLE.get(operation.op)
    order = [p.name for p in row.params if p.role is Role.ATTRIBUTE] if row is not None else []
    named = sorted(operation.attrs, key=lambda name: order.index(name) if name in order else len(order))
    return [f"{name}={text_of(operation.attrs[name])}" for name in named]


def from_text(text: str, limits: Limits = LIMITS) -> GraphIr:
    """The graph that a text describes, checked. Errors name the line."""
    reader = Reader(text, limits)
    ir, lines = reader.graph()
    try:
        check(ir, limits)
    except GraphError as error:
        where = "" if error.operation is None else f"line {lines[error.operation]}: "
        raise GraphError(where + str(error), operation=error.operation) from error.__cause__
    return ir
