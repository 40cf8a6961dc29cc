"""``intermodal devices``: the engines that there are and are not, their devices, memory and dtypes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

import intermodal as im
from intermodal.cli import engines
from intermodal.cli.output import STYLES, console, grid, size
from intermodal.cli.survey import Answer, ask
from intermodal.errors import IntermodalError

__all__ = ["collect", "show"]


def collect(chosen: Sequence[str], timeout: float) -> dict[str, Any]:
    """The machine form."""
    return {
        "intermodal": im.__version__,
        "default_device": _default(),
        "engines": [_engine(answer) for answer in ask(engines.devices_of, chosen, timeout)],
    }


def _default() -> str | None:
    try:
        return str(im.default_device())
    except IntermodalError as error:  # whoever has named a wrong device wants to see the right ones
        console(sys.stderr).print(f"warning: {error}", soft_wrap=True)
        return None


def _engine(answer: Answer) -> dict[str, Any]:
    return {**answer.as_dict(), "name": answer.facts.get("name"), "devices": answer.facts.get("devices", [])}


def show(document: dict[str, Any], out: Console) -> None:
    """The form for people."""
    out.print(f"intermodal {document['intermodal']}, default device {document['default_device'] or 'not valid'}")
    for engine in document["engines"]:
        out.print()
        title = Text(engine["engine"], style="bold")
        title.append(f"  {engine['status']}", style=STYLES[engine["status"]])
        about = engine["name"] if engine["name"] not in (None, engine["engine"]) else engine["version"]
        title.append(f"  {about}" if about else "", style="not bold")
        out.print(title)
        grid(out, ((label, engine[label]) for label in ("reason", "install") if engine[label]))
        for device in engine["devices"]:
            out.print(f"  {device['device']}")
            grid(out, _device(device), indent=4)


def _device(device: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    memory = device["memory"]
    if memory is not None:
        free = "" if memory["free"] is None else f", {size(memory['free'])} free"
        rows.append(("memory", size(memory["total"]) + free))
    shown: set[str] = set()
    for use, having in device["dtypes"].items():  # the best use first; a dtype stands where it does best
        rest = [name for name in having if name not in shown]
        shown.update(rest)
        if rest:
            rows.append((use, " ".join(rest)))
    return rows
