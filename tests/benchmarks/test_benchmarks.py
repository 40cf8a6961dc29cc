from __future__ import annotations

import gc
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import __main__ as command, measure, reports
from hypothesis import given, strategies as st

ROOT = Path(__file__).parents[2]
FIGURES = {"median", "low", "high"}


def run(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


# --- statistics --------------------------------------------------------------------------------------------------


def test_the_summary_of_known_samples_is_their_median_and_outer_tenths() -> None:
    assert measure.summarise([10.0, 0.0, 5.0, 1.0, 2.0, 3.0, 4.0, 6.0, 7.0, 8.0, 9.0]) == (5.0, 1.0, 9.0)
    assert measure.summarise([4.0]) == (4.0, 4.0, 4.0)
    assert measure.summarise([1.0, 2.0]) == pytest.approx((1.5, 1.1, 1.9))


@given(st.lists(st.floats(-1e9, 1e9), min_size=1), st.floats(0, 1))
def test_a_quantile_is_numpys(samples: list[float], q: float) -> None:
    # Both interpolate between the same neighbours; they differ by the rounding of that one step.
    step = np.spacing(np.max(np.abs(samples)))
    assert measure.quantile(samples, q) == pytest.approx(np.quantile(samples, q), rel=0, abs=4 * step)


@given(st.lists(st.floats(-1e9, 1e9), min_size=2))
def test_one_wild_sample_leaves_the_median_among_the_others(samples: list[float]) -> None:
    assert min(samples) <= measure.summarise([*samples, 1e300]).median <= max(samples)


def test_sides_are_sampled_there_and_back() -> None:
    order: list[str] = []

    def sampler(name: str) -> measure.Sampler:
        return lambda: float(len(order.append(name) or order))  # type: ignore[func-returns-value]

    found = measure.alternate([sampler(name) for name in "ABC"], 3)
    assert "".join(order) == "ABCCBAABC"
    assert found == [[1.0, 6.0, 7.0], [2.0, 5.0, 8.0], [3.0, 4.0, 9.0]]


def test_a_steady_drift_of_the_machine_is_gone_from_the_added_time() -> None:
    clock = itertools.count()
    found = measure.compare(lambda: 100.0 + next(clock), lambda: 130.0 + next(clock), 9)
    assert found.added == (30.0, 29.0, 31.0)  # half of the differences are taken in the other order
    assert found.bare.median == 100.0 + 17.5  # the drift is still in each side's own time
    assert found.bare.high > found.bare.low


def test_the_ratio_is_that_of_the_two_sides() -> None:
    assert measure.compare(lambda: 200.0, lambda: 250.0, 3).ratio == (1.25, 1.25, 1.25)


def test_garbage_is_not_collected_while_samples_are_taken() -> None:
    assert gc.isenabled()
    seen: list[bool] = []
    measure.compare(lambda: 1.0, lambda: 1.0 + len(seen.append(gc.isenabled()) or ()), 2)  # type: ignore[func-returns-value]
    assert seen == [False] * 4
    assert gc.isenabled()


def test_a_loop_is_made_long_enough_for_the_clock() -> None:
    loop = measure.Loop("x + 1", {"x": 1})
    assert loop.number > 100
    assert 0 < loop.sample() < measure.SAMPLE_NS


def test_columns_are_aligned() -> None:
    assert measure.table(["op", "ns"], [["add", "5"], ["matmul", "1,000"]]).splitlines() == [
        "op         ns",
        "------  -----",
        "add         5",
        "matmul  1,000",
    ]


# --- the reports, end to end -------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["numpy", "torch", "jax"])
def test_overhead_prints_a_table_of_every_size_and_the_targets(engine: str) -> None:
    pytest.importorskip(engine)
    text = run("overhead", "--engine", engine, "--ops", "add,getitem", "--repeat", "1")
    rows = [line.split()[:4] for line in text.splitlines() if line.startswith(("add ", "getitem "))]
    assert [row for row in rows if row[1] == "x"] == [["add", "x", "+", "y"]] * 3
    assert "intermodal" in text
    assert text.count("target: add at size") == 2
    for peer, (_, _, engines) in reports.PEERS.items():
        assert (f"\n{peer}: " in text) == (engine in engines)


def test_overhead_gives_json_with_the_spread_of_every_figure() -> None:
    report = json.loads(run("overhead", "--ops", "function,matmul", "--repeat", "1", "--json"))
    own = [r for r in report["results"] if r["contender"] == "intermodal"]
    assert [(r["op"], r["size"]) for r in own] == [
        (op, size)
        for op, sizes in {"function": ["1", "1000", "1000000"], "matmul": ["1x1", "32x32", "1024x1024"]}.items()
        for size in sizes
    ]
    for result in report["results"]:
        for figure in ("bare", "other", "added", "ratio"):
            assert set(result[figure]) == FIGURES
        assert result["bare"]["low"] > 0
        assert result["ratio"]["median"] > 0
    assert [t["what"] for t in report["targets"]] == ["matmul at size 1024x1024"]  # the others are about `x + y`
    assert set(report["contenders"]) == {
        "intermodal",
        *(name for name, (_, _, engines) in reports.PEERS.items() if "numpy" in engines),
    }


def test_imports_prints_the_ratio_to_numpy_gross_and_net() -> None:
    report = json.loads(run("imports", "--repeat", "1", "--json"))
    nothing, numpy, own = report["results"]
    assert [r["import"] for r in report["results"]] == ["nothing", "numpy", "intermodal"]
    assert (numpy["ratio"], numpy["net_ratio"], nothing["net"]) == (1.0, 1.0, 0.0)
    assert own["ratio"] == own["time"]["median"] / numpy["time"]["median"]
    assert nothing["modules"] < numpy["modules"] < own["modules"]
    assert 0 < nothing["bytes"] < numpy["bytes"] < own["bytes"]
    text = reports.show_imports(report)
    assert [line.split()[0] for line in text.splitlines()[6:9]] == ["nothing", "numpy", "intermodal"]
    assert "target: import: " in text


def test_a_peer_that_is_missing_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(engine: str) -> reports.Contender:
        raise ModuleNotFoundError("No module named 'nowhere'", name="nowhere")

    monkeypatch.setattr(reports, "PEERS", {"nowhere": (absent, "nowhere-to-be-found", {"numpy"})})
    report = reports.overhead("numpy", ["slice"], 1)
    assert report["contenders"]["nowhere"] == "not installed (nowhere is missing): pip install nowhere-to-be-found"
    assert "nowhere: not installed" in reports.show_overhead(report)


def test_a_library_that_answers_wrongly_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: dict[str, Any] = {"add": reports.Case("x + y", None, "x - y")}
    monkeypatch.setattr(reports, "CASES", wrong)
    liar = reports.Contender("liar", "1", np, np.asarray, lambda case: case.eagerpy)
    monkeypatch.setattr(reports, "PEERS", {"liar": (lambda engine: liar, "liar", {"numpy"})})
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        reports.overhead("numpy", ["add"], 1)


def test_an_unknown_op_is_refused_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["overhead", "--ops", "add,frobnicate"])
    assert "no such op: frobnicate. The ops are add, multiply" in capsys.readouterr().err
