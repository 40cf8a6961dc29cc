"""Graphs in files. The ending says the form: ``.onnx``, ``.imgraph`` for our own bytes, ``.txt`` for our text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Protocol, cast

from intermodal.backend import Program, backend_of
from intermodal.devices import Device
from intermodal.errors import ArgumentError, GraphError, UnsupportedError
from intermodal.graph.binary import from_bytes, to_bytes
from intermodal.graph.ir import GraphIr
from intermodal.graph.limits import LIMITS, Limits
from intermodal.graph.passes import clean
from intermodal.graph.program import lowered_for_all
from intermodal.graph.text import from_text, to_text

__all__ = ["load", "save"]

PathLike = str | os.PathLike[str]
_ENDINGS: Final = (".onnx", ".imgraph", ".txt")
_TEXT: Final = 4  # bytes of text for a byte of a constant, at most


class _Writer(Protocol):
    """What the engine of ONNX has beside the contract."""

    def save(self, program: Program, path: Path, names: tuple[list[str], list[str]], external: bool | None) -> None: ...


def save(ir: GraphIr, path: PathLike, *, external: bool | None = None) -> None:
    """Write a graph; `Graph.save` says how."""
    target = Path(path)
    ending = _ending(target)
    if external is not None and ending != ".onnx":
        raise ArgumentError(f"save: external= is for .onnx, and {target.name} keeps all in one file.")
    if ending == ".imgraph":
        target.write_bytes(to_bytes(ir))
    elif ending == ".txt":
        target.write_text(to_text(ir), encoding="utf-8")
    else:
        writer = cast("_Writer", backend_of("onnx"))
        program, draws = lowered_for_all(clean(ir), Device("onnx:cpu"))
        if draws:
            raise UnsupportedError(
                f"{draws[0].op}: ONNX has no operator that draws the same numbers from a seed. Give the random numbers as an input."
            )
        writer.save(program, target, _names(ir), external)


def load(path: PathLike, limits: Limits = LIMITS) -> GraphIr:
    """Read a graph; `Graph.load` says how."""
    source = Path(path)
    ending = _ending(source)
    if not source.is_file():
        raise ArgumentError(f"load: there is no file {source}.")
    most = (_TEXT if ending == ".txt" else 1) * limits.constant_bytes + 1000 * limits.operations
    if source.stat().st_size > most:
        raise GraphError(
            f"load: {source.name} has {source.stat().st_size} bytes, more than the limits let through. Give larger ones."
        )
    if ending == ".imgraph":
        return from_bytes(source.read_bytes(), limits)
    if ending == ".txt":
        try:
            return from_text(source.read_text(encoding="utf-8"), limits)
        except UnicodeDecodeError as error:
            raise GraphError(f"load: {source.name} is no text: {error}.") from error
    from intermodal.graph.importing import read

    return read(source, limits)


def _ending(path: Path) -> str:
    if path.suffix not in _ENDINGS:
        raise ArgumentError(f"{path.name} has no ending that says a form. Use one of {', '.join(_ENDINGS)}.")
    return path.suffix


def _names(ir: GraphIr) -> tuple[list[str], list[str]]:
    """Names of inputs and outputs of which no two are alike, as ONNX asks."""
    seen: set[str] = set()

    def one(name: str, other: str) -> str:
        found = name or other
        while found in seen:
            found += "_"
        seen.add(found)
        return found

    inputs = [one(n, f"x{i}") for i, n in enumerate(ir.input_names or [""] * len(ir.inputs))]
    return inputs, [one(n, f"y{i}") for i, n in enumerate(ir.output_names or [""] * len(ir.outputs))]
