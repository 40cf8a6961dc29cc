from __future__ import annotations

import re

from intermodal.backend import Backend

from .blocks import ROOT


def test_the_guide_for_engines_names_every_member_of_the_contract() -> None:
    contract = (ROOT / "docs" / "how-to-add-an-engine.md").read_text().split("## The contract")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+)(?:\([^`]*\))?`", contract)) - {"Backend", "copy"}
    members = {name for name in {*vars(Backend), *Backend.__annotations__} if not name.startswith("_")}
    assert named == members
