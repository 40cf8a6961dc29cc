"""How many threads the engines use, and settings under which two pools of threads get into each other's way."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import numpy as np

__all__ = ["VARIABLES", "contention", "cores", "pools", "settings"]

VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "GOMP_SPINCOUNT",
    "OPENBLAS_THREAD_TIMEOUT",
)
_SHORT_WAIT: Final = 14
"""OpenBLAS waits 2**n ticks of the clock before a thread sleeps: 2**14 is some 6 µs, the default of 2**26 some 25 ms."""


def cores() -> dict[str, int]:
    """The cores of the machine, and those that this process may use."""
    total = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else total
    return {"machine": total, "usable": usable}


def settings(environment: Mapping[str, str]) -> dict[str, str | None]:
    """The environment variables that decide about threads."""
    return {name: environment.get(name) for name in VARIABLES}


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
    if (found["torch"] or 0) < 2 or openblas < 2 or _calm(environment):
        return None
    return {
        "severity": "warning",
        "subject": "threads",
        "message": f"NumPy ({openblas} threads of OpenBLAS) and PyTorch ({found['torch']} threads of OpenMP) slow each other down "
        "when a program alternates between them: the threads of each keep a core busy while they wait. "
        "Matrix products of 512 x 512 on 2 cores took 3.6 times (NumPy) and 4.4 times (PyTorch) as long.",
        "cure": "set OMP_WAIT_POLICY=PASSIVE or OPENBLAS_THREAD_TIMEOUT=4 before Python starts",
    }


def _openblas_threads(found: Mapping[str, Any], environment: Mapping[str, str], usable: int) -> int:
    if found["found"] is not None:
        # A build on OpenMP shares PyTorch's pool, and then there is nobody to fight with.
        threads = [p["threads"] for p in found["found"] if p["api"] == "openblas" and p["layer"] != "openmp"]
        return max(threads, default=0)
    if "openblas" not in (found["blas"] or ""):
        return 0
    given = (_number(environment.get(name)) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"))
    return next((n for n in given if n), usable)


def _calm(environment: Mapping[str, str]) -> bool:
    wait, spins = _number(environment.get("OPENBLAS_THREAD_TIMEOUT")), _number(environment.get("GOMP_SPINCOUNT"))
    return (
        environment.get("OMP_WAIT_POLICY", "").strip().upper() == "PASSIVE"
        or (wait is not None and wait <= _SHORT_WAIT)
        or spins == 0
    )


def _number(text: str | None) -> int | None:
    try:
        return int((text or "").split(",")[0])  # OMP_NUM_THREADS may list a number for each level of nesting
    except ValueError:
        return None
