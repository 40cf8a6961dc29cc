"""`run`: all checks of a device over the op table, in a bounded time, into one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from intermodal.backend import DTypeUsage, backend_of, check_device
from intermodal.devices import Device, DeviceLike, as_device
from intermodal.dtypes import ALL, DType, DTypeLike, as_dtype
from intermodal.errors import InvalidValueError
from intermodal.ops.table import TABLE, Op
from intermodal.testing import families  # noqa: F401  # importing the package writes the samples of our own ops
from intermodal.testing.calls import layouts_of, text
from intermodal.testing.checks import Outcome, Reference, check
from intermodal.testing.contract import contract_checks, run_check
from intermodal.testing.report import Failure, Report
from intermodal.testing.samples import Sample, cases, has_sample
from intermodal.testing.wrong import mistakes, wrong_with

__all__ = ["resolve", "run"]

Progress: TypeAlias = Callable[[int, int, str], None]

METHODS = "backend"
"""The name that stands for the backend's methods among those of ops."""
QUICK = ("bool", "int64", "uint8", "float32", "bfloat16", "complex64", "float8_e5m2")
"""The dtypes of the quick run: one of each kind, one that is computed through another, one that NumPy only stores."""
TURNED = ("int64", "float32")
"""The dtypes for which the quick run tries every memory layout; wrong calls are made with one of these."""
REST = 20.0
"""After how many seconds of the processor the engine is asked to give back what it keeps. One that compiles a function for each
shape spends them on compiling: it makes a few hundred in that time, of 1 to 2 MB each."""


def resolve(target: DeviceLike) -> Device:
    """The device that an engine's name or a device's address stands for; an engine's first device is its default."""
    if isinstance(target, str) and ":" not in target and "/" not in target:
        there = backend_of(target).devices()
        if not there:
            raise InvalidValueError(f"the engine {target!r} has no devices here.")
        return there[0]
    device = as_device(target)
    check_device(device)
    return device


def run(
    device: DeviceLike,
    *,
    ops: Sequence[str] | None = None,
    dtypes: Sequence[DTypeLike] | None = None,
    seed: int = 0,
    quick: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Test an engine on a device: every op of the table, and the backend's own methods.

    Args:
        device: the device, or an engine's name for its first device.
        ops: the names of the ops to test, ``backend`` for the backend's methods; by default all.
        dtypes: the dtypes to test them with; by default all.
        seed: of the data.
        quick: fewer dtypes, layouts and sizes.
        progress: called with the number of ops done, their total, and the op that comes next.

    Example:
        >>> report = run("numpy", ops=["add", "sum"], quick=True)
        >>> report.ok, report.ops
        (True, 2)
    """
    target = resolve(device)
    if target.engine == "meta":
        raise InvalidValueError("meta:cpu has no data, so there is nothing to compare. Test a device that computes.")
    report = Report(str(target), backend_of(target.engine).name(target), seed, quick)
    rows = list(TABLE.values()) if ops is None else [_row(name) for name in ops if name != METHODS]
    chosen = [as_dtype(d) for d in dtypes] if dtypes is not None else [d for d in ALL if not quick or d.name in QUICK]
    start, rest = time.perf_counter(), _Rest(target)
    with np.errstate(all="ignore"):
        if ops is None or METHODS in ops:
            _check_contract(report, target, chosen)
        layouts = layouts_of(target)
        for i, row in enumerate(rows):
            if progress is not None:
                progress(i, len(rows), row.qualified_name)
            _check_row(report, row, chosen, target, layouts, rest)
    report.ops = len(rows)
    report.seconds = time.perf_counter() - start
    return report


class _Rest:
    """Keeps the memory of an engine bounded during a run."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.last = time.process_time()

    def __call__(self) -> None:
        """Clean up, if it is time to."""
        if time.process_time() - self.last >= REST:
            backend_of(self.device.engine).memory_cleanup(self.device)
            self.last = time.process_time()


def _row(name: str) -> Op:
    short = name.rpartition(".")[2]
    if short not in TABLE:
        raise InvalidValueError(f"there is no op {name!r} in the table. The ops are {', '.join(TABLE)}.")
    return TABLE[short]


def _check_contract(report: Report, device: Device, chosen: Sequence[DType]) -> None:
    for one in contract_checks(device, chosen):
        wrong = run_check(one)
        if wrong is None:
            report.count(METHODS, one.dtype).passed += 1
        else:
            kind = "dtype_usage" if one.method == "dtype_usage" else "backend"
            report.fail(METHODS, Failure(one.method, one.dtype, kind, wrong, one.call))


def _check_row(
    report: Report, row: Op, chosen: Sequence[DType], device: Device, layouts: Sequence[str], rest: Callable[[], None]
) -> None:
    if not has_sample(row):
        report.without_sample.append(row.name)
        message = f"no sample: its signature {row.signature} does not say what to call it with"
        report.fail(row.family, Failure(row.name, "", "sample", message, f"@intermodal.testing.sample({row.name!r})"))
        return
    stored = [d for d in ALL if DTypeUsage.STORAGE in backend_of(device.engine).dtype_usage(device, d)]
    if row.is_primitive and all(backend_of(device.engine).native(row, d) is None for d in stored):
        message = f"the engine has no native for {row.signature}, a primitive: every engine owes it"
        report.fail(row.family, Failure(row.name, "", "missing", message, f"natives[{row.name!r}]"))
        return
    found: list[tuple[DType, int, Sample, Outcome]] = []
    for dtype in chosen:
        if dtype not in stored:
            report.count(row.family, dtype.name).unsupported += 1
            report.reasons[f"the device does not store {dtype}"] += 1
            continue
        for index, sample in enumerate(cases(row, dtype, report.seed)):
            if not (report.quick and sample.large):
                outcome = _check_sample(report, row, dtype, index, sample, device, layouts)
                found += [(dtype, index, sample, outcome)] if outcome is not None else []
                rest()
    computed = [f for f in found if f[3].status != "unsupported"]
    owed = [f for f in found if f[3].owed]
    if not found and len(chosen) >= len(QUICK) and not _computes(row, chosen, report.seed):  # of few dtypes the op may take none
        code = f"@intermodal.testing.sample({row.name!r})"
        report.fail(row.family, Failure(row.name, "", "sample", "no sample of it computes on the reference", code))
    elif owed and not computed:
        dtype, index, sample, outcome = owed[0]
        code = text(row, sample, dtype, index, device, "plain", report.seed)
        message = f"the device never computes it, for none of its dtypes: {outcome.message}"
        report.fail(row.family, Failure(row.name, str(dtype), "missing", message, code))
    for dtype, index, sample, _ in [f for f in computed if f[0].name in TURNED][:1]:
        _check_mistakes(report, row, dtype, index, sample, device)


def _computes(row: Op, chosen: Sequence[DType], seed: int) -> bool:
    """Whether a sample computes on the reference: an op may be for dtypes alone that the device does not store."""
    return any(Reference(row, s).error is None for dtype in chosen for s in cases(row, dtype, seed))


def _check_sample(
    report: Report, row: Op, dtype: DType, index: int, sample: Sample, device: Device, layouts: Sequence[str]
) -> Outcome | None:
    """Check a sample in every layout; the answer is the outcome, or None where the reference computes nothing."""
    reference = Reference(row, sample, flushes=backend_of(device.engine).flushes_subnormals(device))
    counts = report.count(row.family, dtype.name)
    right = sample.law is None and sample.raises is None and reference.error is None
    turned = right and (not report.quick or dtype.name in TURNED)
    outcome = Outcome("passed")
    for layout in layouts if turned else ("plain",):
        outcome = check(row, sample, device, layout, reference)
        if outcome.status == "passed":
            counts.passed += 1
        elif outcome.status == "unsupported":
            counts.unsupported += 1
            report.reasons[outcome.message] += 1
        else:
            code = text(row, sample, dtype, index, device, layout, report.seed)
            report.fail(row.family, Failure(row.name, dtype.name, outcome.status, outcome.message, code))
    return outcome if reference.error is None else None


def _check_mistakes(report: Report, row: Op, dtype: DType, index: int, sample: Sample, device: Device) -> None:
    for mistake in mistakes(row, sample):
        wrong = wrong_with(mistake, device)
        if wrong is None:
            report.count(row.family, dtype.name).passed += 1
        else:
            code = text(row, sample, dtype, index, device, "plain", report.seed)
            report.fail(row.family, Failure(row.name, dtype.name, "error", wrong, f"{code}  # with this mistake"))
