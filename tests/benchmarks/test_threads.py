from __future__ import annotations

import json
import os
from importlib.util import find_spec
from typing import Any

import pytest
from benchmarks import __main__ as command, threads

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def made(job: threads.Job, rounds: int) -> list[float]:
    """A stand-in for a process: each engine alone takes 1 ms, both in turn 1.1 times their sum, or 4 times without the defaults."""
    return [1.0 if len(case) == 1 else 2.0 * (1.1 if job.on else 4.0) for case in job.cases]


def test_the_report_states_the_ratio_to_the_sum_of_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_process", made)
    report = threads.threads([("numpy", "torch")], 1)
    assert [(r["order"], r["defaults"], r["size"], r["ratio"]) for r in report["results"]] == [
        (order, on, size, 1.1 if on else 4.0) for order in threads.ORDERS for on in (True, False) for size in threads.SIZES
    ]
    assert report["targets"] == [{"what": "alternating engines", "measured": 1.1, "limit": 1.2, "unit": "times the sum"}]
    assert {(r["engine"], r["ratio"]) for r in report["alone"]} == {("numpy", 1.0), ("torch", 1.0)}
    lines = threads.show(report).splitlines()
    assert lines[6].split() == ["numpy", "+", "torch", "512", "intermodal", "first", "on", "1.00", "1.00", "2.20", "1.10"]
    assert lines[-1] == "target: alternating engines: 1.1 times the sum, meant to be at most 1.2"


def test_the_best_of_the_processes_counts_and_they_go_there_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def process(job: threads.Job, rounds: int) -> list[float]:
        order.append(job.order)
        return [float(len(order)), 10.0 - len(order)]

    monkeypatch.setattr(threads, "_process", process)
    jobs = [threads.Job((), name, True) for name in ("a", "b")]
    assert threads.best(jobs, 2, 1) == [[1.0, 6.0], [2.0, 7.0]]
    assert order == ["a", "b", "b", "a"]


def test_the_command_prints_what_was_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(threads, "_process", made)
    command.main(["threads", "--json", "--repeat", "1"])
    there = [engine for engine in threads.ENGINES if find_spec(engine)]
    assert {tuple(r["engines"]) for r in json.loads(capsys.readouterr().out)["results"]} <= {(a, b) for a in there for b in there}


def test_a_process_times_every_case() -> None:
    cases: Any = ([("numpy", "matmul", 8)], [("numpy", "add", 10), ("numpy", "matmul", 8)])
    (found,) = threads.best([threads.Job(cases, "numpy first", True)], 2, 1)
    assert len(found) == 2
    assert all(0 < ms < 1000 for ms in found)


@pytest.mark.long
@pytest.mark.skipif(CORES < 2, reason="there is one core, and nobody to fight with")
@pytest.mark.parametrize("pair", [("numpy", "torch"), ("numpy", "jax"), ("torch", "jax")], ids="+".join)
def test_alternating_engines_take_at_most_1_2_times_the_sum_of_each_alone(pair: tuple[str, str]) -> None:
    # Other load only adds time: the best of several attempts, on each side by itself, is what the engines do by themselves.
    for engine in pair:
        pytest.importorskip(engine)
    job = threads.contest(pair, "intermodal first", True)
    best = [float("inf")] * len(job.cases)
    for _ in range(4):
        (times,) = threads.best([job], processes=3, rounds=6)
        best = [min(both) for both in zip(best, times, strict=True)]
        ratios = {found["size"]: found["ratio"] for found in threads.rows(best)}
        if max(ratios.values()) <= threads.LIMIT:
            break
    assert {size: ratio for size, ratio in ratios.items() if ratio > threads.LIMIT} == {}


@pytest.mark.long
@pytest.mark.skipif(CORES < 2, reason="there is one core, and nobody to fight with")
def test_without_our_defaults_numpy_and_torch_take_longer() -> None:
    pytest.importorskip("torch")
    (times,) = threads.best([threads.contest(("numpy", "torch"), "intermodal first", False)], processes=3, rounds=6)
    small, _ = threads.rows(times)
    assert small["ratio"] > 1.5  # else the defaults would be for nothing; 3.6 to 4.4 on two cores
