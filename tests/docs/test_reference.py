from __future__ import annotations

import runpy

from intermodal.ops.table import TABLE

from .blocks import ROOT

REFERENCE = ROOT / "docs" / "reference.md"


def test_the_reference_is_up_to_date() -> None:
    generated: str = runpy.run_path(str(ROOT / "docs" / "build_reference.py"))["text"]()
    assert REFERENCE.read_text() == generated, "run python docs/build_reference.py"


def test_the_reference_has_one_line_for_each_op() -> None:
    listed = [line for line in REFERENCE.read_text().splitlines() if line.startswith("| `im.")]
    assert len(listed) == len(TABLE)
    assert all(line.count(" | ") == 3 for line in listed), "a documentation line must not break the table"
