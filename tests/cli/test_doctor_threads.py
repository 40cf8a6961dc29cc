"""What the doctor says about the threads of engines that share the cores."""

from __future__ import annotations

import os
from typing import Any

import pytest

from .commands import intermodal

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def about_threads(document: dict[str, Any]) -> list[dict[str, str]]:
    return [f for f in document["findings"] if f["subject"] == "threads"]


def test_what_intermodal_has_set_is_told_apart_from_what_the_user_has() -> None:
    found = intermodal("doctor", "--engine", "numpy", "--json", OPENBLAS_THREAD_TIMEOUT="6").json()["threads"]
    assert (found["environment"]["OPENBLAS_THREAD_TIMEOUT"], found["environment"]["GOMP_SPINCOUNT"]) == ("6", "10000")
    assert found["set_by_intermodal"] == {"GOMP_SPINCOUNT": "10000"}


def test_people_are_told_too() -> None:
    lines = [
        line.split(maxsplit=1)
        for line in intermodal("doctor", "--engine", "numpy", OMP_WAIT_POLICY="PASSIVE").out.splitlines()
        if line
    ]
    shown = {line[0]: line[1].strip() for line in lines if len(line) == 2}
    assert shown["OPENBLAS_THREAD_TIMEOUT"] == "16, set by intermodal"
    assert (shown["OMP_WAIT_POLICY"], shown["GOMP_SPINCOUNT"]) == ("PASSIVE", "not set")


def test_with_our_defaults_two_engines_do_not_fight() -> None:
    pytest.importorskip("torch")
    assert about_threads(intermodal("doctor", "--engine", "torch", "--json").json()) == []


@pytest.mark.skipif(CORES < 2, reason="there is one core, and nobody to fight with")
def test_without_them_the_fight_is_seen_and_explained() -> None:
    pytest.importorskip("torch")
    (finding,) = about_threads(intermodal("doctor", "--engine", "torch", "--json", INTERMODAL_CALM_THREADS="0").json())
    assert finding["severity"] == "warning"
    assert "slow each other down when a program alternates between them" in finding["message"]
    assert finding["cure"].startswith("unset INTERMODAL_CALM_THREADS")
