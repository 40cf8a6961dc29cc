"""Many programs in parts: each part follows from its number, is written down when it is done, and is not run again."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings

import intermodal as im
from differential import compare, whole
from differential.compare import Mismatch, Tally
from differential.programs import Program
from differential.reduce import reduced
from differential.strategies import programs as drawn
from intermodal.ops.table import TABLE

PART, NARROW_PART = 250, 50
"""How many programs a part has; a narrow one takes an engine that compiles a few minutes."""
MOST_MEMORY = 3 * 2**30
"""The bytes at which compiled functions are thrown away."""


@dataclass
class Totals:
    """What parts have found, together."""

    programs: int = 0
    seconds: float = 0.0
    steps: Counter[str] = field(default_factory=Counter)
    raised: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    mismatches: list[str] = field(default_factory=list)

    def add(self, other: Totals) -> None:
        self.programs += other.programs
        self.seconds += other.seconds
        self.steps += other.steps
        self.raised += other.raised
        self.excused += other.excused
        self.mismatches += other.mismatches


def run_parts(
    programs: int,
    devices: Sequence[str],
    *,
    first: int = 1,
    narrow: bool = False,
    compiled: bool = False,
    log: Path | None = None,
) -> Totals:
    """Run parts until there are so many programs, and add them up; those that the log has are read from it."""
    places = [im.Device(d) for d in devices]
    key = f"{','.join(devices)}{' narrow' if narrow else ''}{' compiled' if compiled else ''}"
    done = {line["part"]: line for line in _lines(log) if line["devices"] == key}
    totals = Totals()
    size = NARROW_PART if narrow else PART
    for number in range(first, first + -(-programs // size)):
        if number in done:
            found = _read(done[number])
        else:
            found = run_part(number, places, narrow=narrow, compiled=compiled, size=size)
            if log is not None:
                with log.open("a") as file:
                    file.write(json.dumps({"part": number, "devices": key, **vars(found)}) + "\n")
        totals.add(found)
        print(
            f"part {number}: {totals.programs} programs, {sum(totals.steps.values())} steps, {totals.seconds:.0f} s, {len(totals.mismatches)} mismatches",
            flush=True,
        )
        for wrong in found.mismatches:
            print(wrong, flush=True)
        _bound_memory(places)
    return totals


def run_part(number: int, devices: Sequence[im.Device], *, size: int, narrow: bool = False, compiled: bool = False) -> Totals:
    """Draw the programs of a part and compare the devices on them; of mismatches on one op the first is told, made short."""
    tally, start = Tally(), time.perf_counter()
    found: dict[tuple[str, str], Mismatch] = {}
    mismatch = whole.mismatch if compiled else compare.mismatch

    @seed(number)
    @settings(max_examples=size, phases=[Phase.generate], database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(drawn(narrow=narrow))
    def run(program: Program) -> None:
        wrong = mismatch(program, devices, tally)
        if wrong is not None:
            found.setdefault((wrong.device, wrong.step.op), wrong)

    with np.errstate(all="ignore"):
        run()
        told = [str(reduced(wrong, [im.Device(wrong.device)], mismatch)) for wrong in found.values()]
    return Totals(tally.programs, time.perf_counter() - start, tally.steps, tally.raised, tally.excused, told)


def report(totals: Totals) -> str:
    """The figures of a run."""
    drawn = {name: totals.steps[name] for name in TABLE}
    least = sorted(drawn, key=drawn.__getitem__)[:5]
    lines = [
        f"{totals.programs} programs, {sum(totals.steps.values())} steps, {sum(totals.raised.values())} of them raised, {totals.seconds:.0f} s",
        f"{sum(n > 0 for n in drawn.values())} of {len(TABLE)} ops; the fewest: {', '.join(f'{name} {drawn[name]}' for name in least)}",
        *(f"{n} results not compared: {why}" for why, n in totals.excused.most_common()),
        f"{len(totals.mismatches)} mismatches",
    ]
    return "\n".join(lines)


def _lines(log: Path | None) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log is not None and log.exists() else []


def _read(line: dict[str, object]) -> Totals:
    counts = {name: Counter(line[name]) for name in ("steps", "raised", "excused")}
    return Totals(line["programs"], line["seconds"], mismatches=line["mismatches"], **counts)


def _bound_memory(devices: Sequence[im.Device]) -> None:
    """An engine that compiles keeps what it has compiled until it is told."""
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * 4096 if Path("/proc/self/statm").exists() else MOST_MEMORY
    if resident >= MOST_MEMORY:
        for device in devices:
            im.memory_cleanup(device)
