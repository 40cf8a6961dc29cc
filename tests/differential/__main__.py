"""The long form by hand, in parts that can be run one by one and again: ``PYTHONPATH=tests python -m differential --help``."""

from __future__ import annotations

import argparse
import os
import resource
import sys
import warnings
from pathlib import Path

os.environ.setdefault("INTERMODAL_JAX_X64", "1")  # before the engine loads; without it JAX has half of the dtypes

from differential.long import report, run_parts  # reads the environment

MOST_MEMORY = 16 * 2**30
"""The most bytes of addresses: a step that asks for more fails by itself, not the machine."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m differential", description=__doc__)
    parser.add_argument("--devices", default="torch:cpu", help="the devices to compare with numpy:cpu, by commas")
    parser.add_argument("--programs", type=int, default=20_000, help="how many programs")
    parser.add_argument("--first", type=int, default=1, help="the number of the first part")
    parser.add_argument("--narrow", action="store_true", help="fewer dtypes, shapes and samples, for an engine that compiles")
    parser.add_argument("--compiled", action="store_true", help="each program as one compiled function")
    parser.add_argument("--log", type=Path, help="a file of finished parts, which are not run again")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    devices = options.devices.split(",")
    totals = run_parts(
        options.programs, devices, first=options.first, narrow=options.narrow, compiled=options.compiled, log=options.log
    )
    print(report(totals))
    return 1 if totals.mismatches else 0


sys.exit(main())
