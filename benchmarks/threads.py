"""The report on engines side by side: how long they take in alternation, beside the sum of what each takes alone.

Each figure is taken in fresh interpreters, because the libraries read their settings when they load. A sample is one
call, or one call of each engine in turn. Between blocks of calls there is a pause, after which no pool of threads is
awake. Load from outside only adds time, so a process answers with the lower quartile of its samples, and of the
processes the best counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import combinations
from typing import Any, Final, NamedTuple

from benchmarks.measure import environment, table

__all__ = ["ENGINES", "LIMIT", "Job", "best", "contest", "rows", "show", "threads"]

Report = dict[str, Any]
Case = list[tuple[str, str, int]]  # engine, op, size; several are called in turn

ENGINES: Final = ("numpy", "torch", "jax")
LIMIT: Final = 1.2
"""What the project holds itself to: alternating engines take at most so many times the sum of each alone."""
SIZES: Final = (512, 1024)
WORK: Final = (("matmul", 512), ("matmul", 1024), ("add", 1_000_000))
ORDERS: Final = {"intermodal first": "", "numpy first": "import numpy\n"}
SWITCH: Final = "INTERMODAL_CALM_THREADS"
SPEAKING: Final = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "INTERMODAL_")

PROGRAM: Final = """
import json, sys, time
import intermodal as im
cases, rounds = json.loads(sys.argv[1])
operands = {}
def made(engine, op, size):
    shape = (size, size) if op == "matmul" else (size,)
    x = operands.setdefault((engine, op, size), im.ones(shape, device=engine + ":cpu"))
    def call():
        result = x @ x if op == "matmul" else x + x
        im.sync(x.device)  # which waits for what is still referred to
        return result
    return call
calls = [[made(*part) for part in case] for case in cases]
samples = [[] for _ in cases]
for i in range(rounds + 1):
    for case, found in zip(calls, samples):
        time.sleep(0.04)
        for k in range(12):
            begin = time.perf_counter()
            for call in case:
                call()
            if i and k > 1:  # the first round compiles, the first calls wake the threads
                found.append(time.perf_counter() - begin)
print(json.dumps([sorted(found)[len(found) // 4] * 1e3 for found in samples]))
"""


class Job(NamedTuple):
    """What one process measures: cases, what it imports first, and whether intermodal's defaults are on."""

    cases: tuple[Case, ...]
    order: str
    on: bool


def contest(pair: tuple[str, str], order: str, on: bool) -> Job:
    """Two engines, each alone and then in turn, at each size."""
    sides = [[(engine, "matmul", size) for engine in pair] for size in SIZES]
    return Job(tuple(case for one, other in sides for case in ([one], [other], [one, other])), order, on)


def threads(pairs: Sequence[tuple[str, str]] | None, processes: int, rounds: int = 6) -> Report:
    """Time pairs of engines in alternation and alone, with and without intermodal's defaults, imported first and after NumPy."""
    where = environment()
    there = [engine for engine in ENGINES if find_spec(engine) is not None]
    chosen = list(combinations(there, 2)) if pairs is None else list(pairs)
    contests = [(pair, contest(pair, order, on)) for pair in chosen for order in ORDERS for on in (True, False)]
    engines = list(dict.fromkeys(engine for pair in chosen for engine in pair))
    works = [tuple([(engine, op, size)] for op, size in WORK) for engine in engines]
    costs = [Job(cases, "intermodal first", on) for cases in works for on in (True, False)]
    found = best([*(job for _, job in contests), *costs], processes, rounds)
    results = [
        {"engines": list(pair), "order": job.order, "defaults": job.on, **row}
        for (pair, job), times in zip(contests, found, strict=False)
        for row in rows(times)
    ]
    alone = [
        {"engine": engine, "op": op, "size": size, "on": with_, "off": without, "ratio": with_ / without}
        for engine, on, off in zip(engines, found[len(contests) :: 2], found[len(contests) + 1 :: 2], strict=True)
        for (op, size), with_, without in zip(WORK, on, off, strict=True)
    ]
    worst = max((r["ratio"] for r in results if r["defaults"] and r["order"] == "intermodal first"), default=None)
    targets = (
        [] if worst is None else [{"what": "alternating engines", "measured": worst, "limit": LIMIT, "unit": "times the sum"}]
    )
    return {"environment": where, "processes": processes, "results": results, "alone": alone, "targets": targets}


def rows(times: Sequence[float]) -> Iterator[Report]:
    """The times of a contest by size, with the ratio."""
    for i, size in enumerate(SIZES):
        one, other, both = times[3 * i : 3 * i + 3]
        yield {"size": size, "alone": [one, other], "alternating": both, "ratio": both / (one + other)}


def best(jobs: Sequence[Job], processes: int, rounds: int) -> list[list[float]]:
    """The best times of each job's cases; the processes go through the jobs there and back."""
    runs: dict[int, list[list[float]]] = {i: [] for i in range(len(jobs))}
    for n in range(processes):
        for i in runs if n % 2 == 0 else reversed(runs):
            runs[i].append(_process(jobs[i], rounds))
    return [[min(times) for times in zip(*found, strict=True)] for found in runs.values()]


def _process(job: Job, rounds: int) -> list[float]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(SPEAKING)}
    command = [sys.executable, "-c", ORDERS[job.order] + PROGRAM, json.dumps([job.cases, rounds])]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**variables, SWITCH: str(int(job.on))})
    times: list[float] = json.loads(done.stdout)
    return times


def show(report: Report) -> str:
    """The report as text."""
    e = report["environment"]
    contests = [
        [" + ".join(r["engines"]), str(r["size"]), r["order"], _word(r["defaults"]), *(f"{ms:.2f}" for ms in (*r["alone"], r["alternating"])), f"{r['ratio']:.2f}"]
        for r in report["results"]
    ]  # fmt: skip
    costs = [
        [r["engine"], f"{r['op']} {r['size']}", f"{r['off']:.3f}", f"{r['on']:.3f}", f"{r['ratio']:.2f}"] for r in report["alone"]
    ]
    header = ["engines", "size", "imports", "defaults", "ms first", "second", "in turn", "ratio"]
    return "\n".join(
        (
            f"{e['date']}: {e['machine']}",
            f"{e['python']}, NumPy {e['numpy']}, intermodal {e['intermodal']}",
            f"matrix products, float32, ms per call: the best of {report['processes']} processes, each with the lower quartile of its samples",
            "",
            table(header, contests, left=4),
            "",
            "What the defaults cost one engine alone, ms per call",
            table(["engine", "op", "off", "on", "ratio"], costs, left=2),
            *("" if i == 0 else f"target: {t['what']}: {t['measured']:.3g} {t['unit']}, meant to be at most {t['limit']:g}"
              for t in report["targets"] for i in range(2)),
        )
    )  # fmt: skip


def _word(on: bool) -> str:
    return "on" if on else "off"
