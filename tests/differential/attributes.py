"""Attributes of ops, drawn by their names against the shape of the first operand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from intermodal.ops.table import Op, Param, Role

T = TypeVar("T")


class Chooses(Protocol):
    """Where choices come from."""

    def below(self, n: int) -> int: ...
    def pick(self, options: Sequence[T]) -> T: ...
    def chance(self, n: int) -> bool: ...


def axis_of(choose: Chooses, ndim: int) -> int:
    """An axis from either end; now and then one that is not there."""
    if ndim == 0 or choose.chance(30):
        return choose.pick((0, -1, ndim, -ndim - 1))
    return choose.below(2 * ndim) - ndim


def _axis(choose: Chooses, ndim: int, param: Param) -> Any:
    if "None" in param.annotation and choose.chance(3):
        return None
    if ("tuple" in param.annotation or "Sequence" in param.annotation) and choose.chance(3):
        first = choose.below(ndim + 1)
        return tuple(range(first, ndim))[: choose.below(3)] if not choose.chance(2) else tuple(range(-ndim, 0))[:2]
    return axis_of(choose, ndim)


def _of(*options: Any) -> Callable[[Chooses, int, Param], Any]:
    return lambda choose, ndim, param: choose.pick(options)


BY_NAME: Final[dict[str, Callable[[Chooses, int, Param], Any]]] = {
    "axis": _axis,
    "axis1": _axis,
    "axis2": _axis,
    "axes": _axis,
    "start_axis": _axis,
    "end_axis": _axis,
    "source": _axis,
    "destination": _axis,
    "keepdims": _of(False, True),
    "descending": _of(False, True),
    "largest": _of(True, False),
    "include_initial": _of(False, True),
    "invert": _of(False, True),
    "full_matrices": _of(True, False),
    "upper": _of(False, True),
    "correction": _of(0.0, 1.0, 0.5),
    "decimals": _of(0, 1, -1, 2),
    "k": _of(0, 1, -1, 2),
    "offset": _of(0, 1, -1),
    "n": _of(1, 2, 3, 0),
    "shift": _of(1, -1, 2),
    "repeats": _of(1, 2, 0),
    "repetitions": _of((2,), (1, 2), (), (0,), (2, 1, 1)),
    "pad_width": _of(1, 0, 2),
    "mode": _of("constant", "edge", "wrap", "reflect"),
    "norm": _of("backward", "ortho", "forward"),
    "ord": _of(2, 1, 0, math.inf, -math.inf, 3),
    "value": _of(1.0, 0.5, 2.0),
    "negative_slope": _of(0.01, 0.5, 0.0),
    "alpha": _of(1.0, 0.5),
    "beta": _of(1.0, 2.0, 0.5),
    "approximate": _of("none", "tanh"),
    "fill_value": _of(1, 0, 2, True),
    "minlength": _of(0, 4),
    "reduction": _of("mean", "sum", "none"),
    "eps": _of(1e-5, 1e-3),
    "indexing": _of("xy", "ij"),
}
"""How to draw an attribute, where its name says enough in every op that has it."""

KEPT: Final = {"fft": ("n",), "ifft": ("n",), "rfft": ("n",), "irfft": ("n",), "hfft": ("n",), "ihfft": ("n",)}
"""Attributes that are left to their defaults half of the time: a transform's length is mostly that of its signal."""


def fits(row: Op) -> bool:
    """Whether all attributes that the op needs can be drawn by their names."""
    attributes = [p for p in row.params if p.role is Role.ATTRIBUTE]
    return bool(row.tensor_params) and all(p.name in BY_NAME or not p.required for p in attributes)


def drawn(choose: Chooses, row: Op, ndim: int) -> tuple[list[Any], dict[str, Any]]:
    """The attributes of a call: those that follow the tensors by position, and those by name."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for param in row.params:
        if param.role is not Role.ATTRIBUTE or param.name not in BY_NAME:
            continue
        if not param.required and (choose.chance(2) if param.name in KEPT.get(row.name, ()) else choose.chance(4)):
            continue
        value = BY_NAME[param.name](choose, ndim, param)
        if param.place == "/":
            positional.append(value)
        else:
            named[param.name] = value
    return positional, named
