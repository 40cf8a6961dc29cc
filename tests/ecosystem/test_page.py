from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import test_scipy, test_sklearn
from .rows import Kind, Row

PAGE = (Path(__file__).parents[2] / "docs" / "ecosystem.md").read_text()


def names(group: str, rows: list[Row], kind: Kind) -> str:
    """The functions that return one kind, without the submodule they share; where parts differ, the most are tensors."""
    found = [row for row in rows if (row.returns if isinstance(row.returns, str) else "tensor") == kind]
    return " ".join(f"`{row.name.removeprefix(f'{group}.')}`" for row in found)


def table(groups: dict[str, list[Row]], kinds: tuple[Kind, ...]) -> Iterator[str]:
    for group, rows in groups.items():
        cells = [group, *(names(group, rows, kind) for kind in kinds)]
        yield f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|"


def failures(params: list[Any]) -> Iterator[str]:
    for param in params:
        row, dtype = param.values
        (mark,) = param.marks
        yield f"| `{row.name}` | {dtype} | {mark.kwargs['reason']} |"


EXPECTED = [
    *table(test_sklearn.GROUPS, ("tensor", "number", "numpy")),
    *table(test_scipy.GROUPS, ("tensor", "numpy")),
    *failures(test_sklearn.KNOWN_TO_FAIL),
    *failures(test_scipy.KNOWN_TO_FAIL),
]


@pytest.mark.parametrize("line", EXPECTED, ids=lambda line: line.split("|")[1].strip())
def test_the_page_says_what_is_tested_and_what_comes_back(line: str) -> None:
    assert line in PAGE.splitlines()


def test_the_page_counts_the_rows_and_names_nothing_else() -> None:
    for library, groups in (("scikit-learn", test_sklearn.GROUPS), ("SciPy", test_scipy.GROUPS)):
        assert f"## {library}: {sum(map(len, groups.values()))} tested" in PAGE
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| part", "| function"))]
    assert sorted(rows) == sorted(EXPECTED)


@pytest.mark.parametrize("groups", [test_sklearn.GROUPS, test_scipy.GROUPS], ids=["scikit-learn", "SciPy"])
def test_no_row_stands_twice(groups: dict[str, list[Row]]) -> None:
    found = [row.name for rows in groups.values() for row in rows]
    assert len(found) == len(set(found))
