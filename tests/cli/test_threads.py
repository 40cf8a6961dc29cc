from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from intermodal.cli import threads

OPENBLAS = {"library": "libopenblas", "api": "openblas", "layer": "pthreads", "version": "0.3", "threads": 8}
OPENMP = {"library": "libgomp", "api": "openmp", "layer": None, "version": None, "threads": 8}


def pools(torch: int | None = 8, blas: str = "scipy-openblas", found: Any = (OPENBLAS, OPENMP)) -> dict[str, Any]:
    return {"torch": torch, "blas": blas, "found": found}


CALM = {"OPENBLAS_THREAD_TIMEOUT": "16", "GOMP_SPINCOUNT": "10000"}
WITH_AND_WITHOUT = pytest.mark.parametrize("found", [(OPENBLAS, OPENMP), None], ids=["threadpoolctl", "without"])


@WITH_AND_WITHOUT
def test_two_pools_that_spin_are_found_and_the_cure_is_named(found: Any) -> None:
    finding = threads.contention(pools(found=found), {}, 8)
    assert finding is not None
    assert finding["severity"] == "warning"
    assert "8 threads of OpenBLAS" in finding["message"]
    assert finding["cure"] == "set OPENBLAS_THREAD_TIMEOUT=16 and GOMP_SPINCOUNT=10000 before Python starts"


@WITH_AND_WITHOUT
@pytest.mark.parametrize(
    "cure",
    [
        CALM,
        {"OPENBLAS_THREAD_TIMEOUT": "4", "OMP_WAIT_POLICY": "passive"},
        {**CALM, "GOMP_SPINCOUNT": "0", "OMP_WAIT_POLICY": "ACTIVE"},
    ],
)
def test_settings_that_let_threads_sleep_end_the_warning(cure: dict[str, str], found: Any) -> None:
    assert threads.contention(pools(found=found), cure, 8) is None


@pytest.mark.parametrize(
    ("half", "busy"),
    [
        ({"OMP_WAIT_POLICY": "PASSIVE"}, "OpenBLAS"),
        ({**CALM, "OPENBLAS_THREAD_TIMEOUT": "26"}, "OpenBLAS"),
        ({"OPENBLAS_THREAD_TIMEOUT": "4"}, "OpenMP"),
        ({**CALM, "GOMP_SPINCOUNT": "300000", "OMP_WAIT_POLICY": "PASSIVE"}, "OpenMP"),
    ],
)
def test_one_pool_that_spins_is_a_note(half: dict[str, str], busy: str) -> None:
    finding = threads.contention(pools(), half, 8)
    assert finding is not None
    assert finding["severity"] == "note"
    assert f"the threads of {busy} keep a core busy" in finding["message"]


@pytest.mark.parametrize("none", [{"OMP_WAIT_POLICY": "ACTIVE"}, {"OPENBLAS_THREAD_TIMEOUT": "26"}, {"GOMP_SPINCOUNT": "many"}])
def test_settings_that_let_threads_spin_do_not(none: dict[str, str]) -> None:
    finding = threads.contention(pools(), none, 8)
    assert finding is not None
    assert finding["severity"] == "warning"
    assert finding["cure"].startswith(f"unset {next(iter(none))}, or set ")


def test_who_has_switched_our_defaults_off_is_told_to_switch_them_on() -> None:
    finding = threads.contention(pools(), {"INTERMODAL_CALM_THREADS": "0"}, 8)
    assert finding is not None
    assert finding["cure"].startswith(
        "unset INTERMODAL_CALM_THREADS, and intermodal sets OPENBLAS_THREAD_TIMEOUT=16 and GOMP_SPINCOUNT=10000"
    )


@pytest.mark.parametrize(
    "alone",
    [
        pools(torch=None),
        pools(torch=1),
        pools(found=({**OPENBLAS, "threads": 1}, OPENMP)),
        pools(found=({**OPENBLAS, "layer": "openmp"}, OPENMP)),
        pools(found=(OPENMP,)),
        pools(blas="accelerate", found=None),
    ],
    ids=[
        "no torch",
        "torch on one thread",
        "numpy on one thread",
        "one pool for both",
        "another blas",
        "another blas by its build",
    ],
)
def test_a_pool_without_a_rival_is_no_finding(alone: dict[str, Any]) -> None:
    assert threads.contention(alone, {}, 8) is None


@pytest.mark.parametrize(
    ("environment", "warned"),
    [
        ({"OPENBLAS_NUM_THREADS": "1"}, False),
        ({"OMP_NUM_THREADS": "1"}, False),
        ({"OMP_NUM_THREADS": "4,2"}, True),
        ({"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "1"}, True),
    ],
)
def test_without_threadpoolctl_the_variables_tell_how_many_threads_openblas_has(
    environment: dict[str, str], warned: bool
) -> None:
    assert (threads.contention(pools(found=None), environment, 8) is not None) is warned


def test_one_core_leaves_nothing_to_fight_for_unless_threads_were_asked_for() -> None:
    assert threads.contention(pools(found=None), {}, 1) is None


def test_the_pools_of_this_process_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(get_num_threads=lambda: 3))
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)  # which makes its import fail
    found = threads.pools()
    assert (found["torch"], found["found"]) == (3, None)
    assert isinstance(found["blas"], str)


def test_threadpoolctl_is_asked_where_it_is_installed() -> None:
    pytest.importorskip("threadpoolctl")
    found = threads.pools()["found"]
    assert [set(pool) for pool in found if set(pool) != {"library", "api", "layer", "version", "threads"}] == []
