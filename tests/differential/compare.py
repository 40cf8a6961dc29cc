"""Programs on several engines in lockstep with the reference: results, dtypes, errors and what a write changed.

An engine goes on from its own value where that is equal to the reference's bit by bit, so that layouts and views stay its own. Where rounding
explains the difference it goes on from the reference's value, for the next op may be discontinuous.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import intermodal as im
from differential.programs import WRITES, HostArray, Program, Step, filled, perform, used
from differential.undetermined import reason
from intermodal import dtypes
from intermodal.backend import backend_of
from intermodal.errors import IntermodalError
from intermodal.ops.table import Op
from intermodal.testing import families  # noqa: F401  # importing it writes the samples
from intermodal.testing.checks import Reference, inferred
from intermodal.testing.families.elementwise import EXACT
from intermodal.testing.samples import Law, Sample, cases
from intermodal.testing.tolerance import ROUNDINGS, complaint, epsilon

REFERENCE = im.Device("numpy:cpu")
# The sign of a zero is determined by IEEE 754, or the elements only move.
SIGNED_ZEROS = frozenset(
    ("add", "subtract", "multiply", "divide", "negative", "positive", "abs", "sqrt", "floor", "ceil", "trunc", "copysign")
)


class Mismatch(NamedTuple):
    """A step of a program on which a device and the reference differ."""

    device: str
    number: int
    message: str
    program: Program

    @property
    def step(self) -> Step:
        return self.program.steps[self.number]

    def __str__(self) -> str:
        return f"{self.device}, step {self.number} ({self.step.op}): {self.message}\n{self.program!r}"


class Tally:
    """What was run: programs, steps of each op, and the reasons for which values were not compared."""

    def __init__(self) -> None:
        self.programs = 0
        self.steps: Counter[str] = Counter()
        self.raised: Counter[str] = Counter()
        self.excused: Counter[str] = Counter()


def mismatch(program: Program, devices: Sequence[im.Device], tally: Tally | None = None) -> Mismatch | None:
    """The first step on which one of the devices and the reference differ."""
    tally = Tally() if tally is None else tally
    tally.programs += 1
    there: list[im.Tensor] = []
    engines: dict[im.Device, list[im.Tensor]] = {d: [] for d in devices}
    for number, step in enumerate(program.steps):
        before = {i: np.array(there[i].numpy()) for i in used(step)} if step.op in WRITES else None
        want, refused = perform(step, there, REFERENCE)
        tally.steps[step.op] += 1
        tally.raised[step.op] += refused is not None
        for device, values in engines.items():
            got, error = perform(step, values, device)
            operands = before if before is not None else {i: there[i].numpy() for i in used(step)}
            wrong = _wrong_error(error, refused) if error or refused else _wrong_results(step, operands, want, got, device, tally)
            if wrong is None and step.op in WRITES:
                wrong = _wrong_write(step, operands, there, values, device, tally)
            if wrong is not None:
                return Mismatch(str(device), number, wrong, program)
            values += got
        there += want
    return None


def _wrong_error(error: Exception | None, refused: Exception | None) -> str | None:
    if refused is not None and not isinstance(refused, IntermodalError):
        return f"the reference raised {type(refused).__name__} ({refused}), which is no IntermodalError"
    if type(error) is type(refused):
        return None
    return f"{_said(error)}, but the reference {_said(refused)}"


def _said(error: Exception | None) -> str:
    return "gave a result" if error is None else f"raised {type(error).__name__} ({error})"


def _wrong_results(
    step: Step, operands: dict[int, HostArray], want: list[im.Tensor], got: list[im.Tensor], device: im.Device, tally: Tally
) -> str | None:
    """What is wrong with results; those that differ by roundings are replaced in ``got``."""
    hosts = [_host(t) for t in got]
    wanted = [t.numpy() for t in want]
    wrong = wrong_form(wanted, hosts)
    if wrong is not None:
        return wrong
    for w, g in zip(want, got, strict=True):
        if g.dtype is not w.dtype or g.shape != w.shape:
            return f"a tensor of {g.dtype}{g.shape} instead of {w.dtype}{w.shape}"
    differing = [i for i, (a, b) in enumerate(zip(hosts, wanted, strict=True)) if a.tobytes() != b.tobytes()]
    if not differing:
        return None
    wrong = judge(step, operands, wanted, hosts, device, tally)
    for i in differing:
        got[i] = want[i].to(device, copy=True)
    return wrong


def wrong_form(want: list[HostArray], got: list[HostArray]) -> str | None:
    """Whether results have another number, dtypes or shapes than they should."""
    if len(want) != len(got):
        return f"{len(got)} results instead of {len(want)}"
    forms = ((f"{g.dtype}{g.shape}", f"{w.dtype}{w.shape}") for g, w in zip(got, want, strict=True))
    return next((f"an array of {g} instead of {w}" for g, w in forms if g != w), None)


def _wrong_write(
    step: Step, operands: dict[int, HostArray], there: list[im.Tensor], here: list[im.Tensor], device: im.Device, tally: Tally
) -> str | None:
    """What is wrong with the values after a write, or after one that was refused: all that share elements have changed alike."""
    target = step.args[0].index
    want, got = there[target].numpy(), _host(here[target])
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} after the write instead of {want.dtype}{want.shape}"
    if want.tobytes() != got.tobytes():
        wrong = judge(step, operands, [want], [got], device, tally)
        if wrong is not None:
            return wrong
        here[target][...] = there[target].to(device, copy=True)
    for i, (a, b) in enumerate(zip(there, here, strict=True)):
        wanted, host = a.numpy(), _host(b)
        if wanted.tobytes() != host.tobytes():
            wrong = complaint(host, wanted) or _zero_signs(host, wanted)
            if wrong is not None:
                return f"V({i}) after the write: {wrong}"
    return None


def _host(tensor: im.Tensor) -> HostArray:
    return tensor._place.backend.to_host(tensor._data)


# --- values ------------------------------------------------------------------------------------------------------


def judge(
    step: Step, operands: dict[int, HostArray], want: list[HostArray], got: list[HostArray], device: im.Device, tally: Tally
) -> str | None:
    """What of the difference of results rounding does not explain."""
    row = step.row
    flushes = backend_of(device.engine).flushes_subnormals(device)
    if row is None:  # getitem, setitem, source: elements move
        return next((w for a, b in zip(got, want, strict=True) if (w := complaint(a, b) or _zero_signs(a, b))), None)
    excuse = reason(row, list(operands.values()), want, flushes)
    if excuse is not None:
        tally.excused[excuse] += 1
        return None
    args = tuple(filled(a, operands.__getitem__) for a in step.args)
    kwargs = {k: filled(v, operands.__getitem__) for k, v in step.kwargs.items()}
    if row.family == "elementwise":
        args = _brought(row, args, kwargs)
    terms = step.terms or max([1, *(a.size for a in operands.values())])
    sample = Sample(args, kwargs, terms=1 if row.family == "elementwise" else terms, exact=_exact(row, step, want))
    law = _law(row)
    if law is not None:
        return law(sample, got)
    # The standard leaves open whether a result nearer to 0 than the smallest normal number is one or 0, and the libraries inside an engine
    # (MKL, oneDNN, SLEEF) choose for themselves: each rounding may lose one.
    wrong = Reference(row, sample, flushes=True).differs(got, want)
    if wrong is not None and row.name == "gelu" and kwargs.get("approximate") == "tanh":
        # x/2 and x/2 * tanh(u) cancel below zero, so that a rounding is as large as one of x, not of the result.
        x = np.abs(args[0].astype(np.float64))
        wrong = complaint(got[0], want[0], ROUNDINGS * epsilon(dtypes.as_dtype(want[0].dtype)) * np.where(np.isfinite(x), x, 0.0))
    if wrong is None and (row.movement or row.name in SIGNED_ZEROS):
        wrong = next((w for a, b in zip(got, want, strict=True) if (w := _zero_signs(a, b))), None)
    return wrong


def _brought(row: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The operands in the dtype in which the op computes: the bound asks how the result moves when they do, and integers do not move."""
    wanted = inferred(row, args, kwargs).operands
    if not isinstance(wanted, dtypes.DType) or not wanted.is_inexact:
        return args
    with np.errstate(all="ignore"):
        return tuple(a.astype(wanted.numpy) if isinstance(a, np.ndarray) else a for a in args)


def _exact(row: Op, step: Step, want: list[HostArray]) -> bool | None:
    if row.name in EXACT or row.family == "searching":
        return step.kwargs.get("mode", "assign") == "assign" and row.name != "bincount"
    return None


@cache
def _law(row: Op) -> Law | None:
    """Where many results are right, what a right one fulfils: the kit's law of the op."""
    if row.takes_seed or row.name.startswith("empty"):
        return None
    return next((s.law for s in cases(row, dtypes.float64) if s.law is not None), None)


def _zero_signs(got: HostArray, want: HostArray) -> str | None:
    """Zeros of the other sign; the sign of a NaN says nothing."""
    if not dtypes.as_dtype(want.dtype).is_floating:
        return None
    a, b = got.astype(np.float64), want.astype(np.float64)
    other = (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
    return f"a zero of the other sign at {tuple(map(int, np.argwhere(other)[0]))}" if other.any() else None
