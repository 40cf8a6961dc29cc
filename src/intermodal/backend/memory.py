"""How much memory a device has: the figures, and those of the host, which every engine on the CPU shares."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

__all__ = ["MemoryInfo", "host_memory"]

_MEMINFO: Final = "/proc/meminfo"


class MemoryInfo(NamedTuple):
    """The memory of a device in bytes. `free` is what a program could still get; None where nobody can tell."""

    total: int
    free: int | None

    @property
    def used(self) -> int | None:
        return None if self.free is None else self.total - self.free


def host_memory() -> MemoryInfo | None:
    """The memory of this machine, as its operating system tells; None where it does not.

    Example:
        >>> info = host_memory()
        >>> info is None or info.total > 0
        True
    """
    try:
        # MemAvailable counts what the page cache would give back, so it is what a program can still get.
        with open(_MEMINFO) as file:
            fields = dict(line.split(":", 1) for line in file)
        return MemoryInfo(*(int(fields[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable")))
    except (OSError, ValueError, KeyError):
        return _by_sysconf()


def _by_sysconf() -> MemoryInfo | None:
    def pages(name: str) -> int | None:
        try:
            count = os.sysconf(name)
        except (AttributeError, ValueError, OSError):  # no sysconf on this system, or not this name
            return None
        return count if count >= 0 else None

    size, total, free = pages("SC_PAGE_SIZE"), pages("SC_PHYS_PAGES"), pages("SC_AVPHYS_PAGES")
    if size is None or total is None:
        return None
    return MemoryInfo(total * size, None if free is None else free * size)
