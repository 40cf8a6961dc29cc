"""``intermodal ops``: which ops an engine has itself, which it takes apart, and which it lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from intermodal.cli import engines
from intermodal.cli.output import STYLES, grid, heading
from intermodal.cli.survey import ask
from intermodal.ops import TABLE

__all__ = ["collect", "families", "show"]

SUPPORT: Final = ("native", "decomposed", "missing")


def families() -> list[str]:
    """The families of the op table, in its order."""
    return list(dict.fromkeys(row.family for row in TABLE.values()))


def collect(chosen: Sequence[str], family: Sequence[str], missing: bool, timeout: float) -> dict[str, Any]:
    """The machine form: ops by engine, for all engines that are available or for the chosen ones."""
    answers = ask(engines.natives_of, chosen, timeout)
    support = {a.engine: a.facts["ops"] for a in answers if a.status == "available"}
    listed: list[dict[str, Any]] = [
        {
            "op": row.qualified_name,
            "family": row.family,
            "primitive": row.is_primitive,
            "engines": {engine: ops.get(row.name, "missing") for engine, ops in support.items()},
        }
        for row in TABLE.values()
        if not family or row.family in family
    ]
    counts = {engine: Counter(row["engines"][engine] for row in listed) for engine in support}
    return {
        "engines": [a.as_dict() for a in answers],
        "ops": [row for row in listed if not missing or "missing" in row["engines"].values()],
        "counts": {engine: {word: counted[word] for word in SUPPORT} for engine, counted in counts.items()},
    }


def show(document: dict[str, Any], out: Console) -> None:
    """The form for people: a table, and the counts below it."""
    available = list(document["counts"])
    if available and document["ops"]:
        _table(document["ops"], available, out)
    elif available:
        out.print("No op is missing.")
    if available:
        heading(out, "counts")
        counts = ([engine, *(str(n) for n in by_word.values())] for engine, by_word in document["counts"].items())
        grid(out, [["", *(Text(word) for word in SUPPORT)], *counts])
    absent = [e for e in document["engines"] if e["status"] != "available"]
    if absent:
        heading(out, "not listed")
        grid(out, [(e["engine"], e["status"], e["reason"] + (f": {e['install']}" if e["install"] else "")) for e in absent])


def _table(rows: list[dict[str, Any]], available: Sequence[str], out: Console) -> None:
    # Words where they fit; with many engines in a narrow terminal their first letters, which the first line explains.
    columns = sum(max(len(e), len("decomposed")) + 2 for e in available)
    words = max(len(row["op"]) for row in rows) + 2 + columns <= out.width
    if not words:
        out.print(", ".join(f"{word[0]}: {word}" for word in SUPPORT))
        out.print()
    lines: list[list[str | Text]] = [["", *(Text(engine, style="bold") for engine in available)]]
    family = None
    for row in rows:
        if row["family"] != family:
            family = row["family"]
            lines.append([Text(family, style="bold"), *("" for _ in available)])
        cells = (Text(word if words else word[0], style=STYLES[word]) for word in row["engines"].values())
        lines.append([f"  {row['op']}", *cells])
    grid(out, lines, indent=0)
