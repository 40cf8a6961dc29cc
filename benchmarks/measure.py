"""How one thing is timed against another: calibrated loops, samples in alternation, medians with their spread.

A time means little by itself: it moves with the machine's clock and with what else runs. Two things that are sampled
in turn (A B B A) move together, so the difference and the ratio of neighbours hold still. Times are in nanoseconds.
"""

from __future__ import annotations

import datetime as dt
import gc
import os
import platform
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import intermodal as im
from intermodal import tensor

__all__ = [
    "Comparison",
    "Loop",
    "Summary",
    "alternate",
    "compare",
    "environment",
    "process",
    "quantile",
    "quiet",
    "summarise",
    "table",
    "timed",
]

Sampler = Callable[[], float]

# Long against the clock's resolution, short against the milliseconds for which another process takes the core: few
# samples are hit then, and the median does not see them.
SAMPLE_NS: Final = 200_000


class Summary(NamedTuple):
    """The middle of some samples, and the 10th and 90th percentile."""

    median: float
    low: float
    high: float


class Comparison(NamedTuple):
    """Two sides sampled in alternation; added time and ratio are those of neighbours, summarised then."""

    bare: Summary
    other: Summary
    added: Summary
    ratio: Summary


def quantile(samples: Sequence[float], q: float) -> float:
    """The value below which the fraction ``q`` of the samples lies, linear between neighbours."""
    ordered = sorted(samples)
    position = q * (len(ordered) - 1)
    index = min(int(position), len(ordered) - 2) if len(ordered) > 1 else 0
    low, high = ordered[index], ordered[min(index + 1, len(ordered) - 1)]
    return low + (high - low) * (position - index)


def summarise(samples: Sequence[float]) -> Summary:
    """The median of samples with its spread."""
    return Summary(quantile(samples, 0.5), quantile(samples, 0.1), quantile(samples, 0.9))


@contextmanager
def quiet() -> Iterator[None]:
    """No garbage collection inside the block: when it strikes has nothing to do with what is timed."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Loop:
    """A statement run in a loop, whose length is chosen so that one sample takes at least `SAMPLE_NS`."""

    def __init__(self, statement: str, names: dict[str, Any]) -> None:
        # The setup makes local variables of the names: a global's lookup would be counted on both sides.
        setup = "; ".join(f"{name} = _{name}" for name in names)
        self._timer = timeit.Timer(statement, setup, globals={f"_{name}": value for name, value in names.items()})
        self.number = 1
        # The best of three: a call that another process interrupts would end the search at once.
        while (taken := min(self.sample() for _ in range(3)) * self.number) < SAMPLE_NS:
            self.number = max(self.number + 1, min(10 * self.number, int(1.2 * SAMPLE_NS * self.number / max(taken, 1.0))))

    def sample(self) -> float:
        """Nanoseconds per run of the statement, averaged over one loop."""
        return self._timer.timeit(self.number) / self.number * 1e9


def timed(call: Callable[[], object]) -> Sampler:
    """A sampler of calls that are long enough to be timed one by one."""

    def sample() -> float:
        begin = time.perf_counter_ns()
        call()
        return float(time.perf_counter_ns() - begin)

    return sample


def process(program: str, variables: dict[str, str]) -> float:
    """Nanoseconds from the start of a fresh interpreter to its end, when it runs a program."""
    begin = time.perf_counter_ns()
    subprocess.run([sys.executable, "-c", program], check=True, env=variables)
    return float(time.perf_counter_ns() - begin)


def alternate(samplers: Sequence[Sampler], passes: int) -> list[list[float]]:
    """Samples of each sampler, taken in passes that go there and back: A B C, C B A, and so on."""
    samples: list[list[float]] = [[] for _ in samplers]
    there = list(zip(samplers, samples, strict=True))
    for i in range(passes):
        for sampler, found in there if i % 2 == 0 else reversed(there):
            found.append(sampler())
    return samples


def compare(bare: Sampler, other: Sampler, rounds: int) -> Comparison:
    """Sample two sides in rounds of A B B A.

    Neighbours are compared. A steady drift of the machine adds to one half of the differences and takes the same from
    the other half, where the order is the other way round, so it is gone from their median.
    """
    with quiet():
        first, second = alternate((bare, other), 2 * rounds)
    added = [b - a for a, b in zip(first, second, strict=True)]
    ratio = [b / a for a, b in zip(first, second, strict=True)]
    return Comparison(summarise(first), summarise(second), summarise(added), summarise(ratio))


def environment() -> dict[str, str]:
    """Where and when a report was made."""
    load = " ".join(f"{v:.1f}" for v in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": f"{_processor()}, {os.cpu_count()} cores, load {load} at the start",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": np.__version__,
        "intermodal": f"{im.__version__} ({'pure Python' if tensor.__file__.endswith('.py') else 'compiled'})",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Rows in aligned columns, the first ``left`` of them to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        aligned = (cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(cells, widths, strict=True)))
        return "  ".join(aligned).rstrip()

    return "\n".join((line(header), "  ".join("-" * w for w in widths), *map(line, rows)))
