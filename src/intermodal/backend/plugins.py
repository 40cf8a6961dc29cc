"""Plugins: the engines that installed distributions offer by entry point, found without importing any of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from intermodal.backend.contract import Backend

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

__all__ = ["HOME", "PluginWarning", "Source", "disabled", "scan", "winners"]

GROUP: Final = "intermodal.engines"
DISABLE: Final = "INTERMODAL_DISABLE_PLUGINS"
HOME: Final = "intermodal"  # the distribution whose engines are ours


class PluginWarning(UserWarning):
    """A plugin whose engine cannot be reached, because its name belongs to another."""


class Source(NamedTuple):
    """Where an engine comes from.

    Attributes:
        name: the engine's.
        target: where its class is, as an entry point writes it.
        origin: the distribution, or ``registered``.
        install: the command that mends it.
        factory: makes the backend, where it was given by hand.
        broken: why it cannot be loaded, where that is known without trying.
    """

    name: str
    target: str
    origin: str
    install: str = ""
    factory: Callable[[], Backend] | None = None
    broken: str = ""


def disabled() -> bool:
    """Whether the environment leaves all plugins out."""
    return os.environ.get(DISABLE, "0") not in ("", "0")


def scan() -> list[Source]:
    """Every entry point of the group, also of distributions beside one whose metadata is broken."""
    from importlib import metadata

    try:
        return [_source(entry, entry.dist) for entry in metadata.entry_points(group=GROUP)]
    except Exception:  # one distribution's metadata is broken: read them one by one and leave that one out
        found: list[Source] = []
        names = set()
        for distribution in metadata.distributions():
            name = _name(distribution)
            if name in names:  # found a second time, further back on the path
                continue
            names.add(name)
            try:
                found += (_source(e, distribution) for e in distribution.entry_points if e.group == GROUP)
            except Exception as error:
                text = distribution.read_text("entry_points.txt") or ""
                if GROUP in text:
                    reason = f"the entry points of {name} cannot be read: {error}"
                    found.append(Source(_normal(name), "", name, f"pip install --upgrade {name}", None, reason))
        return found


def _source(entry: EntryPoint, distribution: Distribution | None) -> Source:
    name = _name(distribution)
    extras = ",".join(entry.extras)
    install = f"pip install --upgrade '{name}[{extras}]'" if extras else f"pip install --upgrade {name}"
    broken = ""
    if not re.fullmatch("[a-z][a-z0-9_-]*", entry.name):
        broken = f"{entry.name!r} is no name of an engine; one has small letters, digits, - and _"
    return Source(entry.name, f"{entry.module}:{entry.attr}", name, "" if distribution is None else install, None, broken)


def _name(distribution: Distribution | None) -> str:
    try:
        return str(distribution.metadata["Name"]) if distribution is not None else "an unknown distribution"
    except Exception:
        return "a distribution without metadata"


def _normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def winners(found: Iterable[Source], own: Mapping[str, Source]) -> tuple[dict[str, Source], list[Source]]:
    """The engine that each name stands for, and those that it hides: ours come first, then the distributions by name."""
    first: dict[str, Source] = {}
    losers = []
    for source in sorted(found, key=lambda s: (_normal(s.origin) != HOME, _normal(s.origin), s.target)):
        winner = own.get(source.name) or first.setdefault(source.name, source)
        if winner is not source and not (_normal(source.origin) == HOME and winner.origin == HOME):
            reason = f"the engine {source.name!r} of {source.origin} is hidden by the one of {winner.origin}"
            losers.append(source._replace(broken=reason, install=""))
    return {name: source for name, source in first.items() if name not in own}, losers
