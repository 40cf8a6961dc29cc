"""Graphs as pictures: `to_dot` writes the language of Graphviz, `to_svg` has its program ``dot`` draw it."""

from __future__ import annotations

import html
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np

from intermodal.errors import ExecutionError, UnsupportedError
from intermodal.graph.ir import ConstantIr, GraphIr, OperationIr, TensorIr
from intermodal.ops.table import Role

__all__ = ["to_dot", "to_svg"]

_LARGE: Final = 60  # ops above which each names its result and constants itself, for labels on edges need room of their own
_LONGEST: Final = 40  # characters of an attribute
_FEW: Final = 4  # elements of a constant that are written out
_COLOURS: Final = {
    "input": "#cfe8cf",
    "output": "#f7d9b0",
    "constant": "#ececec",
    "products": "#a9c9ee",
    "movement": "#f6f6f6",
    "other": "#dbe9f9",
}
_CONSTANT: Final = 'fontsize=9, style="filled"'
_STYLE: Final = """\
  rankdir=TB; bgcolor="white"; nodesep=0.35; ranksep=0.4; ordering=in;
  node [fontname="Helvetica,Arial,sans-serif", fontsize=11, shape=box, style="rounded,filled", color="#5b6b7b", penwidth=0.8, margin="0.14,0.06", height=0.3];
  edge [fontname="Helvetica,Arial,sans-serif", fontsize=9, fontcolor="#4a5560", color="#5b6b7b", penwidth=0.8, arrowsize=0.6];"""


def to_dot(ir: GraphIr) -> str:
    """A graph in the language of Graphviz.

    Ops show the scalars among their operands and the attributes that differ from the defaults, edges what flows along them.
    With more than 60 ops, each shows its result and its constants itself and edges are bare, so that the picture stays small.
    """
    return "\n".join(["digraph {", _STYLE, *(f"  {line};" for line in _lines(ir)), "}", ""])


def to_svg(ir: GraphIr, path: str | PathLike[str] | None = None) -> str:
    """A graph as an SVG picture, drawn by the program ``dot`` of Graphviz; written to a file too if a path is given."""
    program = shutil.which("dot")
    if program is None:
        raise UnsupportedError(
            "to_svg: the program dot, which draws graphs, is not on the PATH. Install the package graphviz, for example with "
            "apt-get install graphviz, brew install graphviz or conda install graphviz; or draw the text of to_dot elsewhere."
        )
    done = subprocess.run([program, "-Tsvg"], input=to_dot(ir), capture_output=True, encoding="utf-8", check=False)  # noqa: S603  # names in the text are quoted
    if done.returncode:
        raise ExecutionError(f"to_svg: dot ended with {done.returncode}: {done.stderr.strip()}", reason=done.stderr.strip())
    if path is not None:
        Path(path).write_text(done.stdout, encoding="utf-8")
    return done.stdout


def _lines(ir: GraphIr) -> Iterator[str]:
    compact = len(ir.operations) > _LARGE
    constants = {c.id: c for c in ir.constants}
    makers = {t.id: f"in{i}" for i, t in enumerate(ir.inputs)}
    several: dict[int, int] = {}  # which result a tensor is, where its op has more than one
    for i, _ in enumerate(ir.inputs):
        yield _node(f"in{i}", _text(_name(ir.input_names, i, "input")), "input")
    for step, operation in enumerate(ir.operations):
        node = f"op{step}"
        yield _node(node, _label(operation, constants if compact else {}, compact), _kind(operation))
        for place, (name, tensor) in enumerate(_operands(operation)):
            source = makers.get(tensor.id)
            if source is None and compact:
                continue  # the op names it
            if source is None:  # a constant is drawn beside each op that reads it: one for all would cross the picture
                source = f"c{step}_{place}"
                yield _node(source, _text(_value(constants[tensor.id], name)), "constant", _CONSTANT)
                yield _edge(source, node, _form(tensor))
            else:
                yield _edge(source, node, "" if compact else _flow(tensor, name, several.get(tensor.id)), "weight=4")
        for i, tensor in enumerate(operation.outputs):
            makers[tensor.id] = node
            if len(operation.outputs) > 1:
                several[tensor.id] = i
    for i, tensor in enumerate(ir.outputs):
        source = makers.get(tensor.id)
        if source is None:
            source = f"c_out{i}"
            yield _node(source, _text(_value(constants[tensor.id], "")), "constant", _CONSTANT)
        yield _node(f"out{i}", _text(_name(ir.output_names, i, "output")), "output")
        yield _edge(source, f"out{i}", "" if compact else _flow(tensor, "", several.get(tensor.id)))


def _name(names: Sequence[str], i: int, else_: str) -> str:
    return names[i] if i < len(names) else f"{else_} {i}"


def _node(node: str, label: str, kind: str, more: str = "") -> str:
    return f'{node} [label={label}, fillcolor="{_COLOURS[kind]}"{", " + more if more else ""}]'


def _edge(source: str, target: str, label: str, more: str = "") -> str:
    # A space before the text keeps it off the line.
    options = ", ".join(filter(None, (f"label={_text(' ' + label)}" if label else "", more)))
    return f"{source} -> {target}" + (f" [{options}]" if options else "")


def _text(text: str) -> str:
    """Text in quotes; what Graphviz would read as more than text is escaped: its own signs, and the entities of HTML."""
    return '"' + text.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _kind(operation: OperationIr) -> str:
    if operation.row.autocast or operation.row.family in ("convolution", "attention"):
        return "products"
    return "movement" if operation.row.movement else "other"


def _operands(operation: OperationIr) -> Iterator[tuple[str, TensorIr]]:
    """The tensors that an op reads, with the names of their parameters where those say more than the order of the edges."""
    for param, value in zip(operation.row.tensor_params, operation.inputs, strict=True):
        name = "" if param.name in ("x", "x1", "x2") or param.role in (Role.SEQUENCE, Role.VARIADIC) else param.name
        for tensor in value if isinstance(value, tuple) else (value,):
            if isinstance(tensor, TensorIr):
                yield name, tensor


def _label(operation: OperationIr, constants: dict[int, ConstantIr], compact: bool) -> str:
    lines = [f"{name}={_short(value)}" for name, value in _settings(operation)]
    for name, tensor in _operands(operation):
        if tensor.id in constants:
            lines.append(f"{name or 'constant'}: {_form(tensor)}")
    if compact:
        lines.append("→ " + ", ".join(map(_form, operation.outputs)))
    small = "".join(f'<br/><font point-size="9" color="#4a5560">{html.escape(line)}</font>' for line in lines)
    return f"<<b>{html.escape(operation.op)}</b>{small}>"


def _settings(operation: OperationIr) -> Iterator[tuple[str, object]]:
    """Scalars in place of tensors, and attributes that are neither the default nor said by the result's form."""
    row = operation.row
    for param, value in zip(row.tensor_params, operation.inputs, strict=True):
        if not isinstance(value, (TensorIr, tuple)) and value is not None:
            yield param.name, value
    defaults = {p.name: p.default for p in row.params}
    form: dict[str, object] = (
        {"shape": operation.outputs[0].shape, "dtype": operation.outputs[0].dtype} if operation.outputs else {}
    )
    for name, attribute in operation.attrs.items():
        if attribute != form.get(name, defaults.get(name)) and attribute != defaults.get(name):
            yield name, attribute


def _short(value: object) -> str:
    text = _written(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_written, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, slice):
        parts = ("" if v is None else _written(v) for v in (value.start, value.stop, value.step))
        return ":".join(parts).removesuffix(":") if value.step is None else ":".join(parts)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _form(tensor: TensorIr) -> str:
    return f"{tensor.dtype} {_written(tensor.shape)}"


def _flow(tensor: TensorIr, name: str, result: int | None) -> str:
    """What an edge says: the form of the tensor, which of several results it is, and what it is for."""
    which = "" if result is None else f"[{result}] "
    return f"{name + ': ' if name else ''}{which}{_form(tensor)}"


def _value(constant: ConstantIr, name: str) -> str:
    value = constant.value
    few = np.array2string(value, precision=4, separator=", ").replace("\n", "") if value.size <= _FEW else ""
    return " = ".join(filter(None, (name, few))) or "constant"
