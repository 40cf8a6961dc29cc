"""How a lowering is written down: functions collected by the op's name, and `lower`, which applies one to values of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, overload

from intermodal.dtypes import DType
from intermodal.engines.onnx.builder import Builder, Shape, Value
from intermodal.errors import UnsupportedError
from intermodal.ops.table import Op

__all__ = ["LOWERINGS", "ONLY", "Lowering", "lower", "lowering", "lowers"]

Lowering = Callable[..., Any]
F = TypeVar("F", bound=Lowering)
LOWERINGS: Final[dict[str, Lowering]] = {}
ONLY: Final[dict[str, frozenset[DType]]] = {}
"""The dtypes of a lowering that is not for all; elsewhere the row's decomposition serves, or the host."""


@overload
def lowering(function: F) -> F: ...
@overload
def lowering(*, only: frozenset[DType]) -> Callable[[F], F]: ...
def lowering(function: F | None = None, *, only: frozenset[DType] | None = None) -> F | Callable[[F], F]:
    """Add a function under its own name; a trailing underscore keeps it off a builtin's or keyword's name."""

    def collect(function: F) -> F:
        name = function.__name__.rstrip("_")
        LOWERINGS[name] = function
        if only is not None:
            ONLY[name] = only
        return function

    return collect if function is None else collect(function)


def lowers(row: Op, dtype: DType) -> bool:
    """Whether there is a lowering of an op for a dtype."""
    return row.name in LOWERINGS and (row.name not in ONLY or dtype in ONLY[row.name])


def lower(
    g: Builder, row: Op, operands: Sequence[Any], attrs: Mapping[str, object], shapes: Sequence[Shape] = ()
) -> tuple[Value, ...]:
    """The results of an op in a model.

    Args:
        g: the model in the making.
        row: the op.
        operands: values in the order of the row's tensor parameters; a list where the row takes one, None where it may.
        attrs: every attribute by name, in normal form; ``device`` and ``copy`` say nothing here.
        shapes: the shapes of the results, where they are known.
    """
    function = LOWERINGS.get(row.name)
    if function is None:
        raise UnsupportedError(f"{row.name}: there is no lowering to ONNX. Decompose it, or compute it outside of the model.")
    given = {name: value for name, value in attrs.items() if name not in ("device", "copy")}
    found = function(g, *operands, **given)
    results: tuple[Value, ...] = tuple(found) if row.multiple else (found,)
    return tuple(Value(r.name, r.dtype, s) for r, s in zip(results, shapes, strict=True)) if shapes else results
