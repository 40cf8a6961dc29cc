"""Recorders: what runs an op on tracked arrays and makes its node, with all that does not change from call to call made ready.

Of a `Recorder` there is one for each plan (see `intermodal.plans`), on the long way; `one` and `two` make the functions that
stand for the engine's own on the short way. An op under a keeper goes back to the layer, which knows tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from intermodal.autodiff.keeping import Keeper, saved
from intermodal.autodiff.nodes import Node, Saved, Tracked, _recording, as_parent
from intermodal.autodiff.rules import Derivative
from intermodal.ops.table import Spec
from intermodal.plans import Plan
from intermodal.tensor import Place, Tensor
from intermodal.views import join

__all__ = ["Recorder", "one", "two", "unwrapping"]

as_spec = partial(tuple.__new__, Spec)  # a third of the time of Spec(...)
# Records a result in a keeper's way: the operands, their parents, the result, the keeper.
Kept: TypeAlias = Callable[..., Any]


class Recorder:
    """Runs a plan below the layer and records it."""

    __slots__ = ("derived", "keeps", "kept", "outs", "plan", "scalars", "shapes", "specs")

    def __init__(
        self, plan: Plan, derived: Derivative | None, outs: list[Place | None], specs: list[Any], scalars: list[int], kept: Kept
    ) -> None:
        self.plan: Plan = plan
        self.derived: Derivative | None = derived  # None: no result has a derivative, and nothing is recorded
        self.outs: list[Place | None] = outs  # the layer's place of each result, None for one without a derivative
        self.specs: list[Any] = specs
        self.scalars: list[int] = scalars  # the operands that are numbers, which may be others each time
        self.shapes: list[Any] = [s.shape for s in plan.outputs]
        self.kept: Kept = kept
        self.keeps: dict[
            int, tuple[list[int], list[int], bool]
        ] = {}  # what to save, by the bits of the operands that are tracked

    def run(self, given: Sequence[Any], arrays: list[Any]) -> Any:
        """The results for tensors, whose arrays are given too."""
        plan = self.plan
        below: list[Any] = []
        parents: list[Any] = []
        tracked, bit = 0, 1
        for array in arrays:
            kind = type(array)
            if kind is Tracked:
                below.append(array.value)
                parent = _parent(array)
            elif kind is list:
                below.append([a.value if type(a) is Tracked else a for a in array])
                parent = [_parent(a) if type(a) is Tracked else None for a in array]
                if not any(parent):
                    parent = None
            else:
                below.append(array)
                parent = None
            parents.append(parent)
            if parent is not None:
                tracked |= bit
            bit <<= 1
        found = plan.compute(below)
        mode = _recording.get()
        derived = self.derived
        if derived is None or tracked == 0 or mode is False:
            return plan.wrap(given, found)
        if mode is not True:
            return self._kept(given, arrays, parents, found, mode)
        needs = self.keeps.get(tracked)
        if needs is None:
            keep = derived.keep(tuple([p is not None for p in parents]))
            needs = self.keeps[tracked] = (sorted(keep.operands), sorted(keep.outputs), keep.only_specs)
        which, results, specs = needs
        operands: Any = ()
        if which:
            operands = [None] * len(arrays)
            for i in which:
                array = arrays[i]
                if type(array) is Tracked and array.node is not None:
                    operands[i] = array
                else:
                    operands[i] = array if i in self.scalars else saved(given[i])
        node = Node(
            derived,
            parents,
            operands,
            {i: found[i] for i in results} if results else None,
            self._specs(arrays) if specs else None,
            plan.attrs,
            self.shapes,
            plan.places,
        )
        row, outs = plan.row, self.outs
        if not row.multiple:
            result = Tensor(Tracked(found[0], node, 0), outs[0])  # type: ignore[arg-type]  # with a derivative, so with a place
            return result if plan.step is None else join(result, given[0], plan.step)
        wrapped = [
            Tensor(found[i], plan.places[i]) if out is None else Tensor(Tracked(found[i], node, i), out)
            for i, out in enumerate(outs)
        ]
        return tuple(wrapped) if row.result is None else row.result(*wrapped)

    def _specs(self, arrays: list[Any]) -> list[Any]:
        if not self.scalars:
            return self.specs
        return [arrays[i] if i in self.scalars else spec for i, spec in enumerate(self.specs)]

    def _kept(self, given: Sequence[Any], arrays: list[Any], parents: list[Any], found: Sequence[Any], keeper: Keeper) -> Any:
        plan = self.plan
        values = [
            a if i in self.scalars else list(g) if type(g) is tuple else g
            for i, (g, a) in enumerate(zip(given, arrays, strict=True))
        ]
        results = [Tensor(a, p) for a, p in zip(found, plan.places, strict=True)]
        result = self.kept(plan.row, values, parents, plan.attrs, tuple(results) if plan.row.multiple else results[0], keeper)
        return result if plan.step is None else join(result, given[0], plan.step)


def _parent(array: Tracked) -> Any:
    node = array.node
    return node if node is None or array.index == 0 else as_parent((node, array.index))


# --- the short way -------------------------------------------------------------------------------------------------


def unwrapping(native: Callable[..., Any]) -> Callable[..., Any]:
    """The engine's function for tracked arrays, where the result has no derivative."""

    def run(*arrays: Any) -> Any:
        return native(*[a.value if type(a) is Tracked else a for a in arrays])

    return run


def one(derived: Derivative, native: Callable[..., Any], plain: Place, out: Place, kept: Kept) -> Callable[[Any], Any]:
    """A function of one tracked array, recorded; ``kept`` records it in a keeper's way."""
    keep = derived.keep((True,))
    keeps_operand, keeps_output, specs = bool(keep.operands), bool(keep.outputs), keep.only_specs
    shape, places, recording, dtype = plain.backend.shape, (out,), _recording.get, plain.dtype

    def run(x: Any) -> Any:
        value = native(x.value)
        node = x.node
        if node is None or (mode := recording()) is False:
            return Tracked(value, None, 0)
        if mode is not True:
            return kept((x,), value, mode)
        made = Node(
            derived,
            (node if x.index == 0 else as_parent((node, x.index)),),
            (x,) if keeps_operand else (),
            {0: value} if keeps_output else None,
            (as_spec((shape(x.value), dtype)),) if specs else None,
            None,
            (shape(value),),
            places,
        )
        return Tracked(value, made, 0)

    return run


def two(derived: Derivative, native: Callable[..., Any], plain: Place, out: Place, kept: Kept) -> Callable[[Any, Any], Any]:
    """A function of two arrays, of which one at least is tracked, recorded; ``kept`` records it in a keeper's way."""
    scalars, shape, places, recording, dtype = plain.scalars, plain.backend.shape, (out,), _recording.get, plain.dtype

    def keeping(x: bool, y: bool) -> tuple[bool, bool, bool, bool]:
        keep = derived.keep((x, y))
        return 0 in keep.operands, 1 in keep.operands, bool(keep.outputs), keep.only_specs

    both, left, right = keeping(True, True), keeping(True, False), keeping(False, True)

    def held(array: Any) -> Any:
        if type(array) is Tracked:
            return Saved(array.value, plain)
        return array if type(array) in scalars else Saved(array, plain)

    def specified(array: Any) -> Any:
        return array if type(array) in scalars else as_spec((shape(array), dtype))

    def run(x: Any, y: Any) -> Any:
        first = second = None
        a, b = x, y
        if type(x) is Tracked:
            a, first = x.value, x.node
        if type(y) is Tracked:
            b, second = y.value, y.node
        value = native(a, b)
        if first is None:
            if second is None:
                return Tracked(value, None, 0)
            keeps_x, keeps_y, keeps_output, specs = right
        else:
            keeps_x, keeps_y, keeps_output, specs = left if second is None else both
        mode = recording()
        if mode is not True:
            return Tracked(value, None, 0) if mode is False else kept((x, y), value, mode)
        made = Node(
            derived,
            (
                first if first is None or x.index == 0 else as_parent((first, x.index)),
                second if second is None or y.index == 0 else as_parent((second, y.index)),
            ),
            (
                None if not keeps_x else x if first is not None else held(x),
                None if not keeps_y else y if second is not None else held(y),
            ),
            {0: value} if keeps_output else None,
            (specified(a), specified(b)) if specs else None,
            None,
            (shape(value),),
            places,
        )
        return Tracked(value, made, 0)

    return run
