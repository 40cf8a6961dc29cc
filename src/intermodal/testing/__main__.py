"""The command ``python -m intermodal.testing ENGINE_OR_DEVICE...``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from intermodal.errors import IntermodalError
from intermodal.testing.runner import resolve, run

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the kit; the answer is the exit code: 0 if every engine conforms, 1 if not, 2 if one could not be tested."""
    parser = argparse.ArgumentParser(prog="python -m intermodal.testing", description="Test engines over the whole op table.")
    parser.add_argument(
        "devices",
        nargs="+",
        metavar="ENGINE_OR_DEVICE",
        help="an engine (its first device) or a device: numpy, torch:cuda:0; several are tested in turn, in one process",
    )
    parser.add_argument("--ops", metavar="A,B", help="test these ops only; backend stands for the backend's methods")
    parser.add_argument("--dtypes", metavar="A,B", help="test the ops with these dtypes only")
    parser.add_argument("--json", action="store_true", help="print the machine form; of several devices, a list")
    parser.add_argument("--seed", type=int, default=0, help="of the data (default 0)")
    parser.add_argument("--quick", action="store_true", help="fewer dtypes, layouts and sizes")
    given = parser.parse_args(arguments)
    progress = _show if sys.stderr.isatty() else None
    ops, dtypes = _names(given.ops), _names(given.dtypes)
    try:
        devices = [resolve(device) for device in given.devices]  # all of them first: a run takes a minute
        reports = [run(d, ops=ops, dtypes=dtypes, seed=given.seed, quick=given.quick, progress=progress) for d in devices]
    except IntermodalError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if given.json:
        found = [report.as_dict() for report in reports]
        sys.stdout.write(json.dumps(found if len(found) > 1 else found[0], indent=2) + "\n")
    else:
        sys.stdout.write("\n\n".join(map(str, reports)) + "\n")
    return 0 if all(report.ok for report in reports) else 1


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _show(done: int, total: int, op: str) -> None:
    sys.stderr.write(f"\r\x1b[K[{done}/{total}] {op}")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
