"""What intermodal sets so that engines can alternate, when, and what it leaves alone; in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from intermodal import pools

PREFIXES = ("OMP_", "GOMP_", "OPENBLAS_", "INTERMODAL_")
SHOW = "import os, intermodal.pools as p; print(p.SET, p.LATE, *(os.environ.get(d.variable) for d in p.DEFAULTS), sep='|')"


def python(program: str, **environment: str) -> list[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(PREFIXES)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**clean, **environment}, timeout=120
    )
    return done.stdout.strip().split("|")


def test_the_import_sets_both_variables_and_says_so() -> None:
    set_, late, *values = python(f"import intermodal; {SHOW}")
    assert set_ == "{'OPENBLAS_THREAD_TIMEOUT': '16', 'GOMP_SPINCOUNT': '10000'}"
    assert (late, values) == ("()", ["16", "10000"])


def test_they_are_set_before_numpy_is_imported() -> None:
    watch = (
        "import os, sys\n"
        "class Watch:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'numpy': print(os.environ.get('OPENBLAS_THREAD_TIMEOUT'))\n"
        "sys.meta_path.insert(0, Watch())\n"
        "import {module}\n"
    )
    assert python(watch.format(module="numpy")) == ["None"]
    assert python(watch.format(module="intermodal")) == ["16"]
    assert python(watch.format(module="intermodal.testing.runner")) == ["16"]


def test_a_library_that_was_loaded_before_is_named() -> None:
    assert python(f"import numpy, intermodal; {SHOW}")[1] == "('numpy',)"


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({"OPENBLAS_THREAD_TIMEOUT": "20"}, ["20", "10000"]),
        ({"GOMP_SPINCOUNT": "5"}, ["16", "5"]),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, ["16", "None"]),
        ({"OPENBLAS_THREAD_TIMEOUT": "", "OMP_WAIT_POLICY": "PASSIVE"}, ["", "None"]),
        ({"INTERMODAL_CALM_THREADS": "0"}, ["None", "None"]),
        ({"INTERMODAL_CALM_THREADS": "1"}, ["16", "10000"]),
    ],
)
def test_what_the_user_has_set_is_never_changed(given: dict[str, str], values: list[str]) -> None:
    set_, _, *found = python(f"import intermodal; {SHOW}", **given)
    assert found == values
    assert [name for name in given if name in set_] == []


def test_the_answer_tells_what_was_set_and_for_whom_it_was_too_late() -> None:
    environment = {"OMP_WAIT_POLICY": "PASSIVE"}
    assert pools.calm(environment, {"numpy", "torch"}) == ({"OPENBLAS_THREAD_TIMEOUT": "16"}, ("numpy",))
    assert environment == {"OMP_WAIT_POLICY": "PASSIVE", "OPENBLAS_THREAD_TIMEOUT": "16"}
    assert pools.calm(environment, {"numpy", "torch"}) == ({}, ())
