"""Views: tensors that share elements, as NumPy's do, on every engine alike, also on those whose arrays cannot be written.

``x[1:]`` and ``x.reshape(-1)`` share their elements with ``x``. All tensors that share are one *family*; it holds the
value of the original and for each member the steps that lead to it. A write to one member is carried back to the
original by the steps' reverse, which is written in the rows, and from there to the members that are alive.
A tensor without views pays nothing; a read never does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import ref

from intermodal import indexing

if TYPE_CHECKING:
    from intermodal.ops.table import Op
    from intermodal.tensor import Tensor

__all__ = ["join", "write"]

# One way from a tensor to its view: a row with its attributes, or None with the key of a basic index.
Step: TypeAlias = "tuple[Op | None, Any]"


class Family:
    """Tensors that share elements: the original's value, and the members with their steps from it."""

    __slots__ = ("base", "limit", "members")

    def __init__(self, original: Tensor) -> None:
        self.base = type(original)(original._data, original._place)
        self.members: list[tuple[ref[Tensor], tuple[Step, ...]]] = [(ref(original), ())]
        self.limit = 8

    def clear_away(self) -> None:
        """Drop the members that are gone; called before the list doubles."""
        self.members = [m for m in self.members if m[0]() is not None]
        self.limit = max(8, 2 * len(self.members))


def join(view: Tensor, source: Tensor, step: Step) -> Tensor:
    """Make a tensor a view of another, into whose family it comes."""
    try:
        family, steps = source._family
    except AttributeError:
        family, steps = Family(source), ()
        source._family = (family, steps)
    steps = (*steps, step)
    view._family = (family, steps)
    if len(family.members) >= family.limit:
        family.clear_away()
    family.members.append((ref(view), steps))
    return view


def write(x: Tensor, value: Tensor) -> None:
    """Give a tensor another value, and with it all that share its elements."""
    try:
        family, steps = x._family
    except AttributeError:
        x._data, x._place = value._data, value._place
        return
    family.base = base = _carried_back(family.base, steps, value)
    for member, way in family.members:
        found = member()
        if found is not None:
            # The one that was written takes its value as given: there is no need to derive it again.
            found._data = value._data if found is x else _followed(base, way)._data


def _followed(base: Tensor, steps: tuple[Step, ...]) -> Tensor:
    for row, how in steps:
        base = indexing.get(base, how) if row is None else row.function(base, **how)
    return base


def _carried_back(base: Tensor, steps: tuple[Step, ...], value: Tensor) -> Tensor:
    """The original as it is when the end of the steps has the value."""
    if not steps:
        return type(base)(value._data, value._place)
    *before, (row, how) = steps
    source = _followed(base, tuple(before))
    if row is None:
        changed = indexing.put(source, how, value)
    else:
        assert row.view is not None  # only rows that say so make views
        changed = row.view(source, value, **how)
    return _carried_back(base, tuple(before), changed)
