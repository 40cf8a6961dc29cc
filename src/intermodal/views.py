"""Views: tensors that share elements, as NumPy's do, on every engine alike, also on those whose arrays cannot be written.

``x[1:]`` and ``x.reshape(-1)`` share their elements with ``x``. All tensors that share are one *family*; it holds the
value of the original, and each member knows the steps that lead from there to itself. A write to one member is carried
back to the original by the steps' reverse, which is written in the rows; the others see at their next use that the
family has a newer value, and follow their steps again. A tensor without views pays one comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

from intermodal import indexing
from intermodal.errors import CaptureError

if TYPE_CHECKING:
    from intermodal.backend import Layer
    from intermodal.ops.table import Op
    from intermodal.tensor import Tensor

__all__ = ["Share", "join", "settle", "write"]

# One way from a tensor to its view: a row with its attributes, or None with the key of a basic index.
Step: TypeAlias = "tuple[Op | None, Any]"


class Family:
    """What tensors share: the value of the original, and how often it was written."""

    __slots__ = ("base", "version")

    def __init__(self, base: Tensor) -> None:
        self.base = base
        self.version = 0


class Share:
    """A tensor's part in a family: the steps from the original to it, and the version of the value it has."""

    __slots__ = ("family", "seen", "steps")

    def __init__(self, family: Family, steps: tuple[Step, ...]) -> None:
        self.family = family
        self.steps = steps
        self.seen = family.version


def join(view: Tensor, source: Tensor, step: Step) -> Tensor:
    """Make a tensor a view of another, into whose family it comes."""
    share = source._share
    if share is None:
        share = source._share = Share(Family(_alone(source)), ())
    view._share = Share(share.family, (*share.steps, step))
    return view


def settle(x: Tensor) -> None:
    """Bring a tensor that shares its elements up to date."""
    share = x._share
    if share is not None and share.seen != share.family.version:
        share.seen = share.family.version
        base = share.family.base
        place = base._place
        if place.plain is place:
            newer = _followed(base, share.steps)
        else:
            with cast("Layer", place.backend).following():
                newer = _followed(base, share.steps)
        x._raw, x._spot = newer._data, newer._place  # a tracked value may have been written


def write(x: Tensor, value: Tensor) -> None:
    """Give a tensor another value, and with it all that share its elements."""
    share = x._share
    if value._place.plain.backend.lifts and not (x if share is None else share.family.base)._place.plain.backend.lifts:
        raise CaptureError(
            "a tensor from outside is written to inside a trace, which would leave it without a value. Return what is to be written instead."
        )
    if share is not None:
        family = share.family
        family.base = _carried_back(family.base, share.steps, value)
        family.version += 1
        share.seen = family.version  # it takes its value as given: there is no need to derive it again
    x._raw, x._spot = value._data, value._place


def _alone(x: Tensor) -> Tensor:
    """The same value in a tensor that shares with none."""
    return type(x)(x._data, x._place)


def _followed(base: Tensor, steps: tuple[Step, ...]) -> Tensor:
    from intermodal.dispatch import call_bound  # it stands above this module

    for row, how in steps:
        base = indexing.get(base, how) if row is None else call_bound(row, [base], how)
    return base


def _carried_back(base: Tensor, steps: tuple[Step, ...], value: Tensor) -> Tensor:
    """The original as it is when the end of the steps has the value."""
    if not steps:
        return _alone(value)
    *before, (row, how) = steps
    source = _followed(base, tuple(before))
    if row is None:
        changed = indexing.put(source, how, value)
    else:
        assert row.view is not None  # only rows that say so make views
        changed = row.view(source, value, **how)
    return _carried_back(base, tuple(before), changed)
