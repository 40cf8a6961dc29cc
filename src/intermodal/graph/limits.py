"""`Limits`: how large a graph may be that comes from elsewhere, so that reading and checking it is bounded in time and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["LIMITS", "Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a graph may have at most. The defaults let every program of people through; give others for what is larger.

    Example:
        >>> from dataclasses import replace
        >>> replace(LIMITS, operations=10).operations
        10
    """

    operations: int = 100_000
    tensors: int = 500_000  # that are inputs, constants or results
    constant_bytes: int = 2**31  # of all constants together
    dims: int = 64  # of one tensor; NumPy's own limit
    size: int = 2**40  # of one axis
    named_sizes: int = 1_000  # different names; ten times as many different sizes may be made of them
    values: int = 10_000  # in one attribute or one list of tensors, however nested
    depth: int = 8  # of tuples in tuples
    string: int = 10_000  # characters of an attribute
    name: int = 256  # characters of the name of an input or output


LIMITS: Final = Limits()
