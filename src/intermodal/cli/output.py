"""How the command line writes: text for people, JSON for programs; nothing here knows what is written."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, TextIO

from rich.console import Console
from rich.text import Text

__all__ = ["STYLES", "console", "grid", "heading", "size", "write_json"]

STYLES: Final = {
    "available": "green", "ok": "green", "native": "green",
    "decomposed": "cyan", "note": "cyan",
    "missing": "yellow", "warning": "yellow",
    "broken": "red", "error": "red",
}  # fmt: skip
"""The colour of each word that says how something stands."""
_NARROWEST: Final = 20
"""Columns that the wrapped part of a line keeps, however long the labels before it are."""


def console(stream: TextIO | None = None) -> Console:
    """A console without markup: ``intermodal[torch]`` is text, and colours are given apart from it."""
    stream = stream or sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")  # a plugin's words may not fit the terminal's encoding
    return Console(file=stream, markup=False, highlight=False, emoji=False)


def write_json(document: dict[str, Any]) -> None:
    """The machine form, and nothing beside it."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def heading(out: Console, text: str) -> None:
    """A title with an empty line before it."""
    out.print()
    out.print(Text(text, style="bold"))


def grid(out: Console, rows: Iterable[Sequence[str | Text]], *, indent: int = 2) -> None:
    """Columns without lines: all but the last as wide as they need, the last one wrapped in what is left.

    A table of rich would do, but it fills each line with blanks, which a file or a pipe then keeps.
    """
    lines = [[Text(cell, style=STYLES.get(cell, "")) if isinstance(cell, str) else cell for cell in row] for row in rows]
    widths = [max(cell.cell_len for cell in column) for column in zip(*(line[:-1] for line in lines), strict=True)]
    margin = indent + sum(widths) + 2 * len(widths)
    for *labels, text in lines:
        start = Text(" " * indent)
        for label, width in zip(labels, widths, strict=True):
            start.append_text(label).append(" " * (width - label.cell_len + 2))
        for i, part in enumerate(text.wrap(out, max(out.width - margin, _NARROWEST)) or [Text()]):
            part.rstrip()
            line = (start if i == 0 else Text(" " * margin)) + part
            line.rstrip()
            out.print(line, soft_wrap=True)


def size(count: int) -> str:
    """Bytes for people: ``15.6 GiB``."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
