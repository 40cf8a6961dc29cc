"""The fenced code blocks of a Markdown file, and how they are run."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


class Block(NamedTuple):
    file: Path
    line: int  # of the first line of code, counted from 1
    language: str
    code: str


def blocks(file: Path) -> Iterator[Block]:
    fence, start, body = "", 0, []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if not fence and line.startswith("```"):
            fence, start, body = line[3:].strip() or "text", number + 1, []
        elif fence and line.startswith("```"):
            yield Block(file, start, fence, "\n".join(body) + "\n")
            fence = ""
        else:
            body.append(line)
    assert not fence, f"{file}: the block before line {start} is not closed"


def is_python(block: Block) -> bool:
    return block.language.split()[0] == "python"


def can_run(block: Block) -> bool:
    """Python whose libraries are here: a block marked ``python torch`` needs torch."""
    return is_python(block) and all(find_spec(library) is not None for library in block.language.split()[1:])


def run(block: Block, namespace: dict[str, Any]) -> None:
    """Execute one block; a block of prompts has its output compared."""
    if block.code.startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(block.code, namespace, block.file.name, str(block.file), block.line - 1)
        report: list[str] = []
        doctest.DocTestRunner().run(test, out=report.append, clear_globs=False)
        assert not report, "".join(report)
        namespace.update(test.globs)
    else:
        exec(compile("\n" * (block.line - 1) + block.code, block.file, "exec", dont_inherit=True), namespace)


def run_all(file: Path) -> dict[str, Any]:
    """Execute the Python blocks of a file one after the other, in one namespace."""
    namespace: dict[str, Any] = {"__name__": file.stem.lower().replace("-", "_")}
    for block in blocks(file):
        if can_run(block):
            run(block, namespace)
    return namespace
