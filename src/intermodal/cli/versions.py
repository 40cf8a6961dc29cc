"""Releases of other libraries that are known to be wrong somewhere, with what that means here."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Final

__all__ = ["KNOWN", "Known", "known_problems", "release"]


@dataclass(frozen=True, slots=True)
class Known:
    """A fault of some releases of a library.

    Attributes:
        library: the distribution's name.
        first: the oldest release that is known to have it.
        fixed: the first release without it; None while there is none.
        severity: ``note`` where intermodal guards against it, ``warning`` where the user must know.
        message: what happens, and what intermodal does about it.
        cure: what to do.
    """

    library: str
    first: tuple[int, ...]
    fixed: tuple[int, ...] | None
    severity: str
    message: str
    cure: str


KNOWN: Final = (
    Known(
        "torch",
        (2, 12, 1),
        (2, 14),
        "note",
        "torch.from_dlpack of an array with negative strides (x[::-1]) aborts the process. intermodal checks the strides first "
        "and copies, or raises where copy=False.",
        "where you call torch.from_dlpack yourself, make the array contiguous before",
    ),
)


def release(version: str) -> tuple[int, ...]:
    """The numbers of a release: ``2.13.0+cpu`` is (2, 13, 0)."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def known_problems(version_of: Callable[[str], str] = metadata.version) -> list[dict[str, str]]:
    """The faults of the installed releases, as findings."""
    found = []
    for known in KNOWN:
        try:
            version = version_of(known.library)
        except metadata.PackageNotFoundError:
            continue
        if known.first <= release(version) and (known.fixed is None or release(version) < known.fixed):
            found.append(
                {
                    "severity": known.severity,
                    "subject": f"{known.library} {version}",
                    "message": known.message,
                    "cure": known.cure,
                }
            )
    return found
