"""A program on which engines differ, made as short as it can be: steps are left out one by one while the same op still differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import intermodal as im
from differential.compare import Mismatch, mismatch
from differential.programs import Program, Step, V, filled, perform, used


def reduced(
    found: Mismatch,
    devices: Sequence[im.Device],
    mismatch: Callable[[Program, Sequence[im.Device]], Mismatch | None] = mismatch,
) -> Mismatch:
    """The mismatch in the shortest program that shows it."""
    best = found._replace(program=Program(*found.program.steps[: found.number + 1]))
    for number in reversed(range(found.number + 1)):
        shorter = _without(best.program, number, stop=best.number + 1)
        if shorter is None:
            continue
        again = mismatch(shorter, devices)
        if again is not None and again.step.op == best.step.op and again.device == best.device:
            best = again
    return best


def _without(program: Program, left_out: int, stop: int) -> Program | None:
    """The program without a step, its values counted anew; None where a later step needs what it makes."""
    places: dict[int, V] = {}
    values: list[im.Tensor] = []
    kept = 0
    steps: list[Step] = []
    for number, step in enumerate(program.steps[:stop]):
        results, _ = perform(step, values, im.Device("numpy:cpu"))
        if number != left_out:
            if not all(i in places for i in used(step)):
                return None
            args = [filled(a, places.__getitem__) for a in step.args]
            kwargs = {k: filled(a, places.__getitem__) for k, a in step.kwargs.items()}
            steps.append(Step(step.op, *args, terms=step.terms, **kwargs))
            places.update({len(values) + i: V(kept + i) for i in range(len(results))})
            kept += len(results)
        values += results
    return Program(*steps)
