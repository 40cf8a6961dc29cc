"""Keepers: how recorded ops hold the values that their derivatives need, where the plain way is not wanted.

Plainly a node holds the arrays it needs until the backward pass is through with it. Under a keeper it holds `Cell`s: a
cell may give its array up and compute it again from the operands of the op that made it. Every cell is one result of
one op, shared by all that need it, so nothing is kept or computed twice.
"""

from __future__ import annotations

import itertools
import math
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from intermodal import dispatch
from intermodal.autodiff.nodes import Node, Saved, Tracked, recording
from intermodal.errors import GradientError
from intermodal.tensor import Tensor

if TYPE_CHECKING:
    from intermodal.ops.table import Op

__all__ = ["Cell", "Keeper", "Report", "saved"]

_clock = itertools.count()


class Report:
    """What was kept for the backward pass and what was computed again, in bytes."""

    def __init__(self) -> None:
        self.saved = 0
        self.peak = 0
        self.recomputed = 0
        self.recomputations = 0

    def add(self, size: int) -> None:
        self.saved += size
        self.peak = max(self.peak, self.saved)

    def __repr__(self) -> str:
        return f"<saved now {self.saved:,} bytes, at most {self.peak:,}; computed again {self.recomputed:,} bytes in {self.recomputations:,} ops>"


class Cell:
    """One result of a recorded op, held for derivatives: the array, or the way to compute it again.

    It does not know its node, which holds it: the record would be a cycle otherwise, and outlive its last tensor.
    """

    __slots__ = ("__weakref__", "_array", "keeper", "output", "place", "recipe", "size", "used")

    def __init__(self, keeper: Keeper, node: Node, output: int, array: Any) -> None:
        self.keeper, self.recipe, self.output, self.place = keeper, node.recipe, output, node.places[output]
        self._array: Any = None
        self.size = math.prod(node.shapes[output]) * self.place.dtype.itemsize
        self.used = next(_clock)
        if self.recipe is None or not keeper.is_cheap(self.recipe.row):
            self.hold(array)

    @property
    def held(self) -> bool:
        return self._array is not None

    def hold(self, array: Any) -> None:
        self.keeper.make_room(self.size)
        self._array = array
        self.keeper.report.add(self.size)
        self.keeper.cells.add(self)

    def drop(self) -> None:
        """Give the array up; it is computed again when it is asked for."""
        if self._array is not None:
            self._array = None
            self.keeper.report.saved -= self.size
            self.keeper.cells.discard(self)

    def get(self) -> Any:
        """The array, computed again if it was given up."""
        self.used = next(_clock)
        if self._array is None:
            self._compute_again()
        return self._array

    def _compute_again(self) -> None:
        # Depth first without recursion: a chain of cheap ops may be as long as the program.
        keeper, todo = self.keeper, [self]
        while todo:
            cell = todo[-1]
            assert cell.recipe is not None  # a cell without one never gives its array up
            missing = [] if cell.held else [c for c in cell.recipe.cells() if not c.held]
            if missing:
                todo.extend(missing)
                continue
            if not cell.held:
                keeper.pinned = {c for t in todo if t.recipe is not None for c in t.recipe.cells()}
                cell.hold(cell.recipe.run(cell.output))
                keeper.report.recomputed += cell.size
                keeper.report.recomputations += 1
            todo.pop()
        keeper.pinned = set()

    def __del__(self) -> None:
        self.drop()


def saved(value: Any, hold: Callable[[Node, int, Any], Any] | None = None) -> Any:
    """What is kept of an operand: the array, not the tensor, which its user may write to. Of a tracked one, what ``hold`` makes of it."""
    if type(value) is Tensor:
        array, place = value._data, value._place
        if type(array) is not Tracked:
            return Saved(array, place)
        if array.node is None:
            return Saved(array.value, place.plain)
        return array if hold is None else hold(array.node, array.index, array.value)
    return [saved(v, hold) for v in value] if type(value) is list else value


class Recipe:
    """How an op's results are computed again: the row, its operands as they are kept, its attributes."""

    __slots__ = ("attrs", "operands", "row")

    def __init__(self, row: Op, operands: list[Any], attrs: Any) -> None:
        self.row, self.operands, self.attrs = row, operands, attrs

    def cells(self) -> list[Cell]:
        return [c for o in self.operands for c in (o if type(o) is list else (o,)) if type(c) is Cell]

    def run(self, output: int) -> Any:
        with recording(False):
            result = dispatch.call_bound(self.row, [restored(o) for o in self.operands], self.attrs)
        found = result[output] if self.row.multiple else result
        return found._data


def restored(kept: Any) -> Any:
    """A kept operand as a tensor below the layer."""
    kind = type(kept)
    if kind is Cell:
        return Tensor(kept.get(), kept.place)
    if kind is Tracked:
        return Tensor(kept.value, kept.node.places[kept.index])
    if kind is Saved:
        return Tensor(kept.array, kept.place)
    return [restored(k) for k in kept] if kind is list else kept


class Keeper:
    """A way of keeping: which ops' results are never held, how many bytes may be, whether origins are noted."""

    def __init__(self, cheap: Callable[[Op], bool] | None = None, limit: int | None = None, origins: bool = False) -> None:
        self.cheap, self.limit, self.origins = cheap, limit, origins
        self.report = Report()
        self.cells: WeakSet[Cell] = WeakSet()
        self.pinned: set[Cell] = set()

    def is_cheap(self, row: Op) -> bool:
        """Whether an op's results are never held."""
        return self.cheap is not None and self.cheap(row)

    def saved(self, value: Any) -> Any:
        """What is kept of an operand."""
        return saved(value, self.cell)

    def cell(self, node: Node, output: int, array: Any) -> Any:
        """The one cell of a result; a leaf's value is its user's, and held as it is."""
        if node.derivative is None:
            return Tracked(array, node, output)
        if node.cells is None:
            node.cells = {}
        found = node.cells.get(output)
        if found is None:
            found = node.cells[output] = Cell(self, node, output, array)
        return found

    def make_room(self, size: int) -> None:
        """Give up what is cheapest to miss, until so many bytes more fit the limit."""
        if self.limit is None:
            return
        while self.report.saved + size > self.limit:
            now = next(_clock)
            spare = [c for c in self.cells if c.held and c.recipe is not None and c not in self.pinned]
            if not spare:
                raise GradientError(
                    f"budget: {self.report.saved + size:,} bytes are needed at once, and the limit is {self.limit:,}. Raise the limit, or put parts of the program into im.autodiff.segment."
                )
            max(spare, key=lambda c: c.size * (now - c.used)).drop()  # large, and not used for long

    def recipe(self, row: Op, values: list[Any], attrs: Any) -> Recipe | None:
        """How to compute an op again, if this keeper ever gives values up."""
        if row.data_dependent or (self.limit is None and not self.is_cheap(row)):
            return None
        return Recipe(row, [self.saved(v) for v in values], attrs)


def origin() -> str:
    """Where in the user's program an op was called, as text."""
    stack = [f for f in traceback.extract_stack() if "/intermodal/" not in f.filename.replace("\\", "/")]
    return "".join(traceback.format_list(stack[-3:])).rstrip()
