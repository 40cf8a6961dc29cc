"""How close is close enough: the bound on the difference of two right results, and what exceeds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from intermodal import dtypes
from intermodal.dtypes import DType
from intermodal.inspection import finfo
from intermodal.testing.samples import HostArray

__all__ = ["bound", "complaint", "epsilon", "nudged"]

ROUNDINGS = 8
"""How many roundings a right implementation may make besides those of a sum: each library's exp, sin or pow is
within 4 units in the last place, there are two implementations to compare, and a decomposition chains a few."""
NUDGES = 6
"""How often the operands are nudged to see how the result moves: all up, all down, four times at random."""


def epsilon(dtype: DType) -> float:
    """The gap between 1 and the next number of a floating dtype; 0 for a dtype that is exact."""
    return finfo(dtype).eps if dtype.is_inexact else 0.0


def bound(want: HostArray, moved: Sequence[HostArray], dtype: DType, terms: int, elementwise: bool, flushes: bool = False) -> Any:
    r"""The largest difference from ``want`` that rounding explains.

    An implementation is right if its result is the exact one for operands that were each off by a few roundings,
    rounded a few times itself (it is backward stable). A result of t roundings then differs from the exact one by at most

        t * (eps * abs(want) + change)

    where ``eps`` is the dtype's, and ``change`` is how far the exact result moves when each operand x becomes
    x * (1 + eps) or x * (1 - eps). ``moved`` holds the reference's results for such operands, so ``change`` is measured: it is
    large where the op itself is ill-conditioned (tan near its pole, the inverse of a nearly singular matrix) and nowhere else.

    t is `ROUNDINGS`, plus two for each of the ``terms`` that meet in an element: a sum of n terms in any order makes n - 1
    roundings, a product before each adds n more.

    For an elementwise op all of this holds for each element. Elsewhere elements share intermediate results, whose
    size is that of the largest element, so ``abs(want)`` and ``change`` are the largest of the whole result.

    Args:
        want: the reference's result.
        moved: the reference's results for nudged operands.
        dtype: the result's dtype.
        terms: how many terms meet in one element.
        elementwise: whether each element of the result depends on one element of each operand only.
        flushes: whether the device declares that it takes subnormal numbers for 0; then each rounding may lose one.
    """
    wide = _wide(want)
    size = _size(wide)
    change = np.zeros(want.shape)
    for other in moved:
        if other.shape == want.shape:
            change = np.maximum(change, _size(_wide(other) - wide))
    if not elementwise and want.size:
        size, change = size.max(), change.max()
    lost = finfo(dtype).smallest_normal if flushes and dtype.is_inexact else 0.0
    return (ROUNDINGS + 2 * terms) * (epsilon(dtype) * size + change + lost)


def nudged(array: HostArray, random: np.random.Generator, turn: int) -> HostArray:
    """The array with each element off by one relative step of its dtype, up or down; exact dtypes stay."""
    dtype = dtypes.as_dtype(array.dtype)
    if not dtype.is_inexact:
        return array
    sign = (1, -1)[turn] if turn < 2 else random.choice((-1, 1), array.shape)
    with np.errstate(all="ignore"):
        return np.asarray(_wide(array) * (1 + epsilon(dtype) * sign)).astype(array.dtype)


def complaint(got: HostArray, want: HostArray, allowed: Any = 0.0) -> str | None:
    """What is wrong with a result, or None: the worst element with its index, both values and the bound."""
    if got.shape != want.shape:
        return f"shape {got.shape} instead of {want.shape}"
    wrong = _excess(got, want, allowed)
    if not (wrong > 0).any():
        return None
    worst = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    limit = float(np.broadcast_to(allowed, wrong.shape)[worst])
    where = f" at {tuple(map(int, worst))}" if got.ndim else ""
    within = f", and rounding explains a difference of {limit:.3g} only" if limit else ""
    count = int((wrong > 0).sum())
    return f"{got[worst]!s} instead of {want[worst]!s}{where}{within}; {count} of {got.size} elements differ"


def _excess(got: HostArray, want: HostArray, allowed: Any) -> Any:
    """How far each element lies outside what is allowed."""
    if not dtypes.as_dtype(want.dtype).is_inexact:
        return (got != want).astype(np.float64)
    a, b = _wide(got), _wide(want)
    with np.errstate(all="ignore"):
        # A part that is infinite or NaN in both says nothing about the other.
        off = np.hypot(_apart(a.real, b.real), _apart(a.imag, b.imag)) if want.dtype.kind == "c" else _apart(a, b)
        excess = np.where(off == 0, 0.0, off - allowed)
    # A difference with a NaN or an infinity on one side is NaN or infinite: no bound allows it.
    return np.where(np.isnan(excess), np.inf, excess)


def _apart(a: Any, b: Any) -> Any:
    """How far numbers lie apart; two NaN and two equal infinities do not."""
    return np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))


def _wide(array: HostArray) -> Any:
    """Inexact values in a dtype in which their differences are exact enough."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _size(array: Any) -> Any:
    """How large numbers are, of their finite parts."""
    if array.dtype.kind == "c":
        return np.hypot(_size(array.real), _size(array.imag))
    return np.where(np.isfinite(array), np.abs(array), 0.0)
