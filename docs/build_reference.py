"""Writes docs/reference.md from the op table: run it after adding or changing an op."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import intermodal as im
from intermodal.backend import backend_of
from intermodal.ops import TABLE, Op

TARGET = Path(__file__).with_name("reference.md")
HEAD = """# Reference: the ops

This page is generated from the op table by `python docs/build_reference.py`; a test fails when it is out of date.

| column | meaning |
|---|---|
| op | the public signature; before `/` by position only, after `*` by keyword only |
| what it is | the first line of its documentation; `help(im.clip)` shows all of it for `clip` |
| kind | `primitive`: every engine provides it; `decomposed`: it has a body in other ops, so every engine has it |
| NumPy | `native` where the engine `numpy` has a function of its own |
"""


def families() -> dict[str, list[Op]]:
    """The families in alphabetical order, and the rows of each by name."""
    found: dict[str, list[Op]] = {}
    for row in TABLE.values():
        found.setdefault(row.family, []).append(row)
    return {family: sorted(rows, key=lambda row: row.qualified_name) for family, rows in sorted(found.items())}


def lines() -> Iterator[str]:
    """The page, line by line."""
    rows = list(TABLE.values())
    numpy = backend_of("numpy")
    yield HEAD
    yield f"{len(rows)} ops, of which {sum(row.is_primitive for row in rows)} are primitives.\n"
    for family, members in families().items():
        yield f"## {family}\n"
        yield "| op | what it is | kind | NumPy |"
        yield "|---|---|---|---|"
        for row in members:
            prefix = f"im.{row.namespace}." if row.namespace else "im."
            native = numpy.native(row, im.float32) is not None
            kind = "primitive" if row.is_primitive else "decomposed"
            yield f"| `{prefix}{row.signature}` | {row.doc.strip().splitlines()[0]} | {kind} | {'native' if native else ''} |"
        yield ""


def text() -> str:
    """The whole page."""
    return "\n".join(lines())


if __name__ == "__main__":
    TARGET.write_text(text())
