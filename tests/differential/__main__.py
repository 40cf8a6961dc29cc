"""The long form by hand, in parts that can be run one by one and again: ``PYTHONPATH=tests python -m differential --help``."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from pathlib import Path

os.environ.setdefault("INTERMODAL_JAX_X64", "1")  # before the engine loads; without it JAX has half of the dtypes

from differential.long import PART, report, run_parts  # reads the environment


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m differential", description=__doc__)
    parser.add_argument("--devices", default="torch:cpu", help="the devices to compare with numpy:cpu, by commas")
    parser.add_argument("--programs", type=int, default=20_000, help="how many programs")
    parser.add_argument("--first", type=int, default=0, help="the number of the first part")
    parser.add_argument("--narrow", action="store_true", help="fewer dtypes, shapes and samples, for an engine that compiles")
    parser.add_argument("--log", type=Path, help="a file of finished parts, which are not run again")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    numbers = range(options.first, options.first + -(-options.programs // PART))
    totals = run_parts(numbers, options.devices.split(","), narrow=options.narrow, log=options.log)
    print(report(totals))
    return 1 if totals.mismatches else 0


sys.exit(main())
