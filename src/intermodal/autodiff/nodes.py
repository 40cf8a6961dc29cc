"""What a computation leaves behind: a `Node` for each op, and `Tracked` arrays that point to the node they came from.

Every result of a recorded op points to its node, a node points to the nodes of its operands, and nothing else holds
them: when the last tensor of a computation is gone, so is its record.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import _GeneratorContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from intermodal.autodiff.rules import Derivative

if TYPE_CHECKING:
    from intermodal.autodiff.keeping import Cell, Keeper, Recipe
    from intermodal.tensor import Place, Tensor

__all__ = ["Node", "Parent", "Saved", "Tracked", "ancestors", "is_recording", "no_grad", "node_of", "recording"]

_number = itertools.count()
# False: nothing is recorded. True: in the plain way. A keeper: in its way.
_recording: ContextVar[bool | Keeper] = ContextVar("intermodal_recording", default=True)


class Tracked:
    """An array with the node that made it; the arrays of tensors in the autodiff layer are of this class."""

    __slots__ = ("index", "node", "value")

    def __init__(self, value: Any, node: Node | None, index: int = 0) -> None:
        self.value = value
        self.node = node
        self.index = index


class Node:
    """One op of a computation: its operands' nodes, and what its derivative needs."""

    __slots__ = (
        "attrs",
        "cells",
        "derivative",
        "hooks",
        "id",
        "keep",
        "operands",
        "origin",
        "outputs",
        "parents",
        "places",
        "recipe",
        "shapes",
        "specs",
    )

    def __init__(
        self,
        derived: Derivative | None,
        parents: Sequence[Any],
        operands: Any,
        outputs: Any,
        specs: Any,
        attrs: Any,
        shapes: Sequence[Any],
        places: Sequence[Place],
    ) -> None:
        self.id = next(_number)
        self.derivative = derived
        self.parents = parents  # for each tensor parameter a Node (its first result), a Parent, a list of them, or None
        self.operands = operands  # what is saved of each tensor parameter: Tracked, Saved, a scalar, a list; None once freed
        self.outputs = outputs  # the arrays of the results that are saved, by number
        self.specs = specs
        self.attrs = attrs
        self.shapes = shapes  # of the results, as the engine gives them
        self.places = places  # of the results, below the layer
        self.hooks: list[tuple[int, Callable[[Tensor], Any]]] | None = None  # compiled, another type would be checked unexplained
        self.keep = derived is None  # a leaf keeps its gradient
        self.cells: dict[int, Cell] | None = None  # these two: of a node under a keeper alone
        self.recipe: Recipe | None = None
        self.origin: str | None = None

    def __repr__(self) -> str:
        return f"<node {self.id}: {self.name}>"

    @property
    def name(self) -> str:
        return "leaf" if self.derivative is None else self.derivative.name

    @property
    def freed(self) -> bool:
        return self.derivative is not None and self.operands is None

    def free(self) -> None:
        """Drop what was saved and the way to the operands."""
        self.operands = self.outputs = self.specs = self.cells = self.recipe = None
        self.parents = ()

    @property
    def node(self) -> Node:
        """A node stands for its first result where a `Parent` may stand: most have but one."""
        return self

    @property
    def output(self) -> int:
        return 0

    def all_parents(self) -> list[Node]:
        """The nodes of the operands."""
        found: list[Node] = []
        for parent in self.parents:
            if type(parent) is Node:
                found.append(parent)
            elif type(parent) is list:
                found.extend([p.node for p in parent if p is not None])
            elif parent is not None:
                found.append(parent.node)
        return found


class Parent(NamedTuple):
    """Where an operand came from: the node and which of its results."""

    node: Node
    output: int


as_parent = partial(tuple.__new__, Parent)  # from a pair, in half the time of Parent(...)


class Saved(NamedTuple):
    """A value that a rule will need and that no node made: the array and the place of its tensor."""

    array: Any
    place: Place


def node_of(x: Tensor) -> Parent | None:
    """The node that made a tensor; None for one that is not tracked."""
    array = x._data
    return as_parent((array.node, array.index)) if type(array) is Tracked and array.node is not None else None


def ancestors(nodes: Iterable[Node], without: Iterable[Node] = ()) -> list[Node]:
    """Some nodes and all that they were computed from, each once; not those to leave out, nor what lies behind them alone."""
    seen, stack, found = set(without), list(nodes), []
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            found.append(node)
            stack += node.all_parents()
    return found


def is_recording() -> bool:
    """Whether ops on tracked tensors are recorded here."""
    return _recording.get() is not False


@contextmanager
def recording(on: bool | Keeper) -> Iterator[None]:
    """Record, or do not, inside the block; for this thread or task alone. True leaves a keeper that is there in charge."""
    token = _recording.set(_recording.get() or True if on is True else on)
    try:
        yield
    finally:
        _recording.reset(token)


def no_grad() -> _GeneratorContextManager[None]:
    """A block, or a decorator of a function, in which nothing is recorded.

    Example:
        >>> import intermodal as im
        >>> w = im.ones(2).require_grad()
        >>> with im.no_grad():
        ...     print((w * 2).is_tracked)
        False
    """
    return recording(False)
