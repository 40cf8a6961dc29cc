"""How many threads the engines use, who has set what about them, and when two pools of threads get into each other's way."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import numpy as np

from intermodal import pools as defaults

__all__ = ["VARIABLES", "contention", "cores", "ours", "pools", "settings"]

VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "GOMP_SPINCOUNT",
    "OPENBLAS_THREAD_TIMEOUT",
)
_SHORT_WAIT: Final = 18
"""OpenBLAS waits 2**n ticks of the clock before a thread sleeps: 2**18 is some 0.1 ms, the default of 2**26 some 25 ms."""
_FEW_SPINS: Final = 10_000
"""OpenMP waits so many turns of a loop: 10000 are some 0.5 ms, the default of 300000 some 15 ms."""


def cores() -> dict[str, int]:
    """The cores of the machine, and those that this process may use."""
    total = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else total
    return {"machine": total, "usable": usable}


def settings(environment: Mapping[str, str]) -> dict[str, str | None]:
    """The environment variables that decide about threads."""
    return {name: environment.get(name) for name in VARIABLES}


def ours() -> dict[str, str]:
    """Those of them that intermodal has set itself, when it was imported."""
    return dict(defaults.SET)


def pools() -> dict[str, Any]:
    """The pools of threads in this process: what PyTorch says if it is loaded, and what threadpoolctl finds if it is installed."""
    torch = sys.modules.get("torch")
    return {
        "torch": None if torch is None else int(torch.get_num_threads()),
        "blas": np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {}).get("name"),
        "found": _found(),
    }


def _found() -> list[dict[str, Any]] | None:
    try:
        threadpool_info = import_module("threadpoolctl").threadpool_info
    except ImportError:
        return None
    return [
        {
            "library": pool["prefix"],
            "api": pool["internal_api"],
            "layer": pool.get("threading_layer"),
            "version": pool.get("version"),
            "threads": pool["num_threads"],
        }
        for pool in threadpool_info()
    ]


def contention(found: Mapping[str, Any], environment: Mapping[str, str], usable: int) -> dict[str, str] | None:
    """The finding that NumPy's and PyTorch's threads fight, or None.

    OpenBLAS, which most builds of NumPy carry, and the OpenMP of PyTorch each keep a pool whose threads spin while they
    wait. When a program alternates between the two, the idle pool's spinning threads take the cores from the one that works.

    Args:
        found: the answer of `pools` in a process that has loaded PyTorch.
        environment: the environment variables.
        usable: how many cores there are to fight for.
    """
    openblas = _openblas_threads(found, environment, usable)
    busy = [name for name, calm in (("OpenBLAS", _openblas_calm), ("OpenMP", _openmp_calm)) if not calm(environment)]
    if (found["torch"] or 0) < 2 or openblas < 2 or not busy:
        return None
    both = len(busy) == 2
    return {
        "severity": "warning" if both else "note",
        "subject": "threads",
        "message": f"NumPy ({openblas} threads of OpenBLAS) and PyTorch ({found['torch']} threads of OpenMP) slow each other down "
        f"when a program alternates between them: the threads of {'each' if both else busy[0]} keep a core busy while they wait. "
        "Matrix products on 2 cores took, beside the sum of both alone, "
        + ("3 to 4 times as long (512 x 512) and 2 times (1024 x 1024)." if both else "1.1 to 1.7 times as long."),
        "cure": _cure(environment),
    }


def _cure(environment: Mapping[str, str]) -> str:
    if environment.get(defaults.SWITCH) == "0":
        return f"unset {defaults.SWITCH}, and intermodal sets {_assignments()} when it is imported before NumPy and PyTorch"
    names = [name for d in defaults.DEFAULTS for name in d.decided_by]
    given = [name for name in names if name in environment and environment[name] != defaults.SET.get(name)]
    unset = f"unset {' and '.join(given)}, or " if given else ""
    return f"{unset}set {_assignments()} before Python starts"


def _assignments() -> str:
    return " and ".join(f"{d.variable}={d.value}" for d in defaults.DEFAULTS)


def _openblas_threads(found: Mapping[str, Any], environment: Mapping[str, str], usable: int) -> int:
    if found["found"] is not None:
        # A build on OpenMP shares PyTorch's pool, and then there is nobody to fight with.
        threads = [p["threads"] for p in found["found"] if p["api"] == "openblas" and p["layer"] != "openmp"]
        return max(threads, default=0)
    if "openblas" not in (found["blas"] or ""):
        return 0
    given = (_number(environment.get(name)) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"))
    return next((n for n in given if n), usable)


def _openblas_calm(environment: Mapping[str, str]) -> bool:
    wait = _number(environment.get("OPENBLAS_THREAD_TIMEOUT"))
    return wait is not None and wait <= _SHORT_WAIT


def _openmp_calm(environment: Mapping[str, str]) -> bool:
    spins = _number(environment.get("GOMP_SPINCOUNT"))  # where both are set, it decides
    return spins <= _FEW_SPINS if spins is not None else environment.get("OMP_WAIT_POLICY", "").strip().upper() == "PASSIVE"


def _number(text: str | None) -> int | None:
    try:
        return int((text or "").split(",")[0])  # OMP_NUM_THREADS may list a number for each level of nesting
    except ValueError:
        return None
