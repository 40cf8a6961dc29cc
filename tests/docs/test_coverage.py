from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import intermodal as im

from .blocks import ROOT

LATER = {"quantization", "router", "distributed"}
SPEC = [tuple(line.split()) for line in (Path(__file__).parent / "spec_names.txt").read_text().splitlines()]


class Row(NamedTuple):
    section: str
    names: list[str]
    place: str


def rows(text: str) -> Iterator[Row]:
    section = ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("| `"):
            names, place, _ = (cell.strip() for cell in line.strip("|").split("|"))
            yield Row(section, quoted(names), place)


def quoted(cell: str) -> list[str]:
    assert re.fullmatch(r"`[^`]+`(, `[^`]+`)*", cell), f"{cell!r} is not a list of quoted names"
    return re.findall(r"`([^`]+)`", cell)


def resolve(path: str) -> object:
    """What a path names: parts of the package are imported, the rest are attributes."""
    found: object = im
    walked = "intermodal"
    for part in path.removeprefix("im.").split("."):
        walked += f".{part}"
        if not hasattr(found, part):
            importlib.import_module(walked)
        found = getattr(found, part)
    return found


def exists(place: str) -> bool:
    try:
        resolve(place)
    except (ImportError, AttributeError):
        return False
    return True


ROWS = list(rows((ROOT / "docs" / "coverage.md").read_text()))


def test_every_name_of_the_specification_has_one_row() -> None:
    mapped = [(row.section, name) for row in ROWS for name in row.names]
    assert sorted(set(SPEC) - set(mapped)) == [], "these names have no row in docs/coverage.md"
    assert sorted(set(mapped) - set(SPEC)) == [], "these rows name nothing in spec_names.txt"
    assert len(mapped) == len(set(mapped)), "a name has two rows"


def test_every_place_exists_or_names_the_work_that_brings_it() -> None:
    missing = [
        f"{row.section}: {place}" for row in ROWS if row.place not in LATER for place in quoted(row.place) if not exists(place)
    ]
    assert missing == []


def test_no_name_waits_for_work_that_has_landed() -> None:
    # When a part has come, its names move from the word to their places; until then the package has no such part.
    assert [word for word in LATER if any(row.place == word for row in ROWS) and exists(word)] == []


@pytest.mark.parametrize("place", ["im.no_such_op", "Backend.no_such_method", "im.nn.no_such_op", "no_such_module.name"])
def test_a_place_that_does_not_exist_is_found_out(place: str) -> None:
    assert not exists(place)


def test_the_list_of_names_has_every_op_family() -> None:
    sections = [section for section, _ in SPEC]
    counts = {section: sections.count(section) for section in sections}
    # The families have 397 functions in the specification's release; later releases added 37.
    families = ("FloatTensorOps", "IntTensorOps", "BoolTensorOps", "QTensorOps", "ModuleOps", "ActivationOps", "TransactionOps")
    assert [counts[f] for f in families] == [129, 109, 40, 81, 60, 14, 1]
