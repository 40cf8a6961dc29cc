"""Results that no rule determines, each with its reason: they are compared in shape and dtype only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import intermodal as im
from differential.programs import HostArray
from intermodal import dtypes
from intermodal.ops.table import Op

SUMS: Final = frozenset(
    [
        "reduction",
        "linalg",
        "factorization",
        "fft",
        "einsum",
        "convolution",
        "pooling",
        "adaptive",
        "windows",
        "normalization",
        "attention",
        "loss",
        "image",
        "sampling",
    ]
)
"""Families whose ops add up products."""
CHOSEN: Final = frozenset(["max", "min", "max_abs", "all", "any", "count_nonzero", "cumulative_max", "cumulative_min"])
"""Ops of these families that choose or count: nothing overflows on the way. So do the max_pool ones."""
PRODUCTS: Final = frozenset(
    [
        "multiply",
        "divide",
        "reciprocal",
        "square",
        "pow",
        "rsqrt",
        "addcmul",
        "lerp",
        "prod",
        "cumulative_prod",
        "mean",
        "var",
        "std",
        "logsumexp",
    ]
)


def reason(row: Op, operands: Sequence[HostArray], want: Sequence[HostArray], flushes: bool) -> str | None:
    """Why the values of a result are not determined; None where they are."""
    inexact = [a for a in operands if dtypes.as_dtype(a.dtype).is_inexact]
    sums = row.family in SUMS and not row.movement and row.name not in CHOSEN and "max_pool" not in row.name
    if row.takes_seed:
        return "random numbers: two engines draw different ones from one seed"
    if flushes and not row.movement and any(_subnormal(a) for a in inexact):
        return "a subnormal operand: the device declares that it takes it for 0"
    if sums and any(_huge(a) for a in inexact):
        return "a sum whose terms overflow on the way in one order and not in another"
    if (row.name in PRODUCTS or (sums and row.family != "reduction")) and _complex_edges([*operands, *want]):
        return "products of complex numbers with infinite or NaN parts: the standard leaves them open, and C's rules are optional"
    return None


def _complex_edges(arrays: Sequence[HostArray]) -> bool:
    some = any(a.dtype.kind == "c" for a in arrays)
    return some and not all(np.isfinite(a).all() for a in arrays if dtypes.as_dtype(a.dtype).is_inexact)


def _parts(a: HostArray) -> Any:
    wide = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    return np.stack([wide.real, wide.imag]) if a.dtype.kind == "c" else wide


def _info(a: HostArray) -> Any:
    dtype = dtypes.as_dtype(a.dtype)
    return im.finfo({"complex64": dtypes.float32, "complex128": dtypes.float64}.get(dtype.name, dtype))


def _subnormal(a: HostArray) -> bool:
    x = np.abs(_parts(a))
    return bool(((x > 0) & (x < _info(a).smallest_normal)).any())


def _huge(a: HostArray) -> bool:
    """Finite, but so large that a few of them, or of their squares, are not."""
    x = np.abs(_parts(a))
    with np.errstate(all="ignore"):
        return bool((np.isfinite(x) & (x > np.sqrt(_info(a).max) / 64)).any())
