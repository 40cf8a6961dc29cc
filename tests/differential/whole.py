"""A program as one compiled function, beside the reference step by step.

The function answers with every value of the program, and after a write with all of them, so that each step is judged on the operands it
had. What compiled code does not do enters as an argument: sizes that depend on data, random numbers. Steps that raise are left out,
for compiled code does not raise what depends on values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import intermodal as im
from differential.compare import REFERENCE, Mismatch, Tally, judge, wrong_form
from differential.programs import LAYOUTS, UNSET, WRITES, HostArray, Program, Step, perform, performed, used
from intermodal.backend import DTypeUsage, backend_of
from intermodal.errors import IntermodalError, UnsupportedError
from intermodal.testing.tolerance import complaint


class Part(NamedTuple):
    """A step of a program, and what it gives if it is not computed by the compiled function: arrays in the form that they come in."""

    number: int
    step: Step
    given: list[HostArray] | None


def mismatch(program: Program, devices: Sequence[im.Device], tally: Tally | None = None) -> Mismatch | None:
    """The first step on which the program compiled for one of the devices, and the reference, differ."""
    tally = Tally() if tally is None else tally
    tally.programs += 1
    parts = _parts(program, tally)
    for device in devices:
        wrong = _compared(program, parts, device, tally)
        if wrong is not None:
            return wrong
    return None


def _parts(program: Program, tally: Tally) -> list[Part]:
    values: list[im.Tensor] = []
    found: list[Part] = []
    for number, step in enumerate(program.steps):
        fixed = step.op == "source" or _depends_on_data(step, values)
        results, error = perform(step, values, REFERENCE)
        tally.steps[step.op] += 1
        tally.raised[step.op] += error is not None
        if error is None:
            given = [LAYOUTS[step.args[1]](step.args[0])] if step.op == "source" else [np.array(t.numpy()) for t in results]
            found.append(Part(number, step, given if fixed else None))
        values += results
    return found


def _depends_on_data(step: Step, values: Sequence[im.Tensor]) -> bool:
    row = step.row
    if row is not None:
        return row.data_dependent or row.takes_seed or step.op in UNSET
    return step.op == "getitem" and any(values[i].dtype is im.bool for i in used(Step("key", step.args[1])))


def _compiled(parts: Sequence[Part], device: im.Device) -> list[list[im.Tensor]]:
    """What the compiled function answers: for each part the values that it made or may have changed."""

    def whole(*inputs: im.Tensor) -> list[list[im.Tensor]]:
        remaining = iter(inputs)
        values: list[im.Tensor] = []
        told: list[list[im.Tensor]] = []
        for part in parts:
            if part.given is not None:
                made = [im.asarray(next(remaining), copy=True) for _ in part.given]
            else:
                made = performed(part.step, values, device)
            values += made
            told.append([im.Tensor(t._data, t._place) for t in (values if part.step.op in WRITES else made)])
        return told

    inputs = [im.asarray(a, device=device) for part in parts for a in part.given or ()]
    before = [np.array(t.numpy()) for t in inputs]
    answer: list[list[im.Tensor]] = im.compile(whole)(*inputs)
    for tensor, old in zip(inputs, before, strict=True):
        assert tensor.numpy().tobytes() == old.tobytes(), "the compiled function has changed its argument"
    return answer


def _compared(program: Program, parts: Sequence[Part], device: im.Device, tally: Tally) -> Mismatch | None:
    try:
        told = [[_host(t) for t in one] for one in _compiled(parts, device)]
    except Exception as error:  # whatever it is, the program runs step by step
        place, error = _first_refused(parts, device, error)
        if device.engine == "onnx" and isinstance(error, UnsupportedError):
            tally.excused["a step that a model of ONNX cannot hold"] += 1
            return _compared(program, _around(parts, place, device), device, tally)
        message = f"compiled, it raised {type(error).__name__}: {error}"
        return Mismatch(str(device), parts[place].number, message, program)
    there: list[im.Tensor] = []
    for part, got in zip(parts, told, strict=True):
        wrong = _judged(part, there, got, device, tally)
        if wrong is not None:
            return Mismatch(str(device), part.number, f"compiled: {wrong}", program)
    return None


def _first_refused(parts: Sequence[Part], device: im.Device, error: Exception) -> tuple[int, Exception]:
    """The place of the part without which the program would compile, and what is said of it."""
    low, high = 0, len(parts)  # of the first `low` parts a program compiles, of the first `high` none does
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _compiled(parts[:middle], device)
            low = middle
        except Exception as found:
            high, error = middle, found
    return high - 1, error


def _around(parts: Sequence[Part], place: int, device: im.Device) -> list[Part]:
    """Parts without one: what it gives enters as an argument, or, where the device has no such dtype, the program ends before it."""
    values: list[im.Tensor] = []
    for part in parts[:place]:
        values += [im.asarray(a) for a in part.given] if part.given is not None else perform(part.step, values, REFERENCE)[0]
    results = perform(parts[place].step, values, REFERENCE)[0]
    stored = [DTypeUsage.STORAGE in backend_of(device.engine).dtype_usage(device, t.dtype) for t in results]
    if parts[place].given is not None or not results or not all(stored):
        return list(parts[:place])
    held = parts[place]._replace(given=[np.array(t.numpy()) for t in results])
    return [*parts[:place], held, *parts[place + 1 :]]


def _judged(part: Part, there: list[im.Tensor], got: list[HostArray], device: im.Device, tally: Tally) -> str | None:
    """What is wrong with what a part gave. The reference takes over what differs by roundings."""
    step = part.step
    operands = {i: np.array(there[i].numpy()) for i in used(step)}
    if part.given is not None:
        want, error = [im.asarray(a, device=REFERENCE, copy=True) for a in part.given], None
    else:
        want, error = perform(step, there, REFERENCE)
    if error is not None:
        # A rounding before this step has made it one that raises: compiled code does not. Its values are as good as any.
        tally.excused["a step that raises on the values that the compiled program has"] += 1
        if step.op not in WRITES:
            there += [im.asarray(a, device=REFERENCE, copy=True) for a in got]
        return None if isinstance(error, IntermodalError) else f"the reference raised {type(error).__name__} ({error})"
    if step.op in WRITES:
        return _judged_write(step, operands, there, got, device, tally)
    wanted = [t.numpy() for t in want]
    wrong = wrong_form(wanted, got)
    differing = [i for i, (a, b) in enumerate(zip(got, wanted, strict=True)) if wrong is None and a.tobytes() != b.tobytes()]
    if differing:
        wrong = judge(step, operands, wanted, got, device, tally) if part.given is None else complaint(got[0], wanted[0])
    for i in differing:
        want[i] = im.asarray(got[i], device=REFERENCE, copy=True)
    there += want
    return wrong


def _judged_write(
    step: Step, operands: dict[int, HostArray], there: list[im.Tensor], got: list[HostArray], device: im.Device, tally: Tally
) -> str | None:
    target = step.args[0].index
    wrong = wrong_form([t.numpy() for t in there], got)
    if wrong is None and got[target].tobytes() != there[target].numpy().tobytes():
        wrong = judge(step, operands, [there[target].numpy()], [got[target]], device, tally)
        there[target][...] = im.asarray(got[target], device=REFERENCE, copy=True)
    if wrong is not None:
        return wrong
    wrongs = ((i, complaint(a, b.numpy())) for i, (a, b) in enumerate(zip(got, there, strict=True)))
    return next((f"V({i}) after the write: {w}" for i, w in wrongs if w), None)


def _host(tensor: im.Tensor) -> HostArray:
    return np.array(tensor._place.backend.to_host(tensor._data))
