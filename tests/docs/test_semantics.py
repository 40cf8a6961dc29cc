from __future__ import annotations

import re

import intermodal as im
from intermodal import config, errors

from .blocks import ROOT

TEXT = (ROOT / "docs" / "semantics.md").read_text()


def table(heading: str) -> list[list[str]]:
    """The cells of the first table after a heading, without its head."""
    after = TEXT.split(f"## {heading}\n")[1]
    lines = after[after.index("|---") :].split("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_tree_of_errors_has_every_class_with_its_bases() -> None:
    tree = TEXT.split("## Errors\n")[1].split("```")[1]
    drawn = {}
    for line in tree.strip().splitlines():
        name, bases = re.match(r"[│├└─ ]*(\w+) *(?:\(([\w, ]+)\))?", line).groups()  # type: ignore[union-attr]
        drawn[name] = set(bases.split(", ")) if bases else set()
    builtin = {
        name: {base.__name__ for base in getattr(errors, name).__bases__ if base.__module__ == "builtins"}
        for name in errors.__all__
    }
    builtin["IntermodalError"] = set()
    assert drawn == builtin


def test_the_table_of_settings_has_each_with_its_variable_and_default() -> None:
    listed = [(name, variable, default) for name, variable, _, default in table("Settings")]
    assert listed == [(f"`{s.name}`", f"`{s.variable}`", f"`{s.default}`") for s in config.SETTINGS.values()]


def test_the_table_of_dtypes_has_each_with_its_kind_and_use() -> None:
    words = {
        im.DTypeUsage.STORAGE: "stores",
        im.DTypeUsage.GENERAL: "computes",
        im.DTypeUsage.GENERAL | im.DTypeUsage.ACCELERATED: "computes, fast matrix product",
    }
    listed = [(name, row) for row in table("Dtypes") for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(name for name, _ in listed) == sorted(im.dtypes.names())
    for name, (_, kind, standard, use) in listed:
        dtype = im.dtypes.as_dtype(name)
        assert dtype.kind.split()[0] in kind, name
        assert standard == ("yes" if dtype.is_standard else "no"), name
        assert use.startswith(words[im.dtype_usage(dtype, "numpy:cpu")]), name
