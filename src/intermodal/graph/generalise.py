"""From several traces with different sizes to one graph with named sizes.

A function is traced for several values of its named sizes. Its traces must be the same ops; each number in them that
changes from one to another is then written as a polynomial of the named sizes, of degree two at most, which is found
from as many traces as it has terms and must hold for one more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any, Final, TypeVar

from intermodal.errors import CaptureError, IntermodalError, InvalidValueError
from intermodal.graph.ir import GraphIr, OperationIr, TensorIr
from intermodal.graph.sizes import Size

__all__ = ["generalised", "probed", "probes"]

T = TypeVar("T")
_STEP: Final = 12  # sizes that are tried are its multiples, so that halves, thirds, quarters and sixths are whole
_ODD: Final = 7  # but for the last, which has no such divisors


def probes(names: Sequence[str]) -> list[dict[str, int]]:
    """The sizes for which a function is traced: as many as a polynomial has terms, one to check it, and one without divisors.

    The last may be more than the function can take; a function of no named size is traced once.
    """
    if not names:
        return [{}]
    base = {name: 1 + 3 * i for i, name in enumerate(names)}  # no two sizes are ever equal, and none is 1
    found = [{name: _STEP * (base[name] + key.count(name)) for name in names} for key in _monomials(names)]
    beyond = 3 * len(names) + 1
    return [
        *found,
        {name: _STEP * (beyond + b) for name, b in base.items()},
        {name: _STEP * b + _ODD + 6 * i for i, (name, b) in enumerate(base.items())},
    ]


def probed(names: Sequence[str], run: Callable[[dict[str, int]], T]) -> tuple[list[T], list[dict[str, int]]]:
    """What comes of each of the sizes that are tried, and which those are."""
    sizes = probes(names)
    found = [run(s) for s in (sizes[:-1] or sizes)]
    if names:
        try:
            found.append(run(sizes[-1]))
        except IntermodalError:  # the program wants sizes that can be divided, which is its right
            return found, sizes[:-1]
    return found, sizes


def _monomials(names: Sequence[str]) -> list[tuple[str, ...]]:
    return [key for degree in range(3) for key in combinations_with_replacement(sorted(names), degree)]


def generalised(graphs: Sequence[GraphIr], sizes: Sequence[dict[str, int]]) -> GraphIr:
    """One graph for all sizes, from the graphs of some."""
    if len(graphs) == 1:
        return graphs[0]
    lengths = {len(g.operations) for g in graphs}
    if len(lengths) > 1 or any(len({g.operations[i].op for g in graphs}) > 1 for i in range(len(graphs[0].operations))):
        raise CaptureError(
            f"the function takes other steps for other sizes of {', '.join(sizes[0])}: its traces have {sorted(lengths)} ops. Give the sizes as numbers."
        )
    if any(g.constants != graphs[0].constants for g in graphs):
        raise CaptureError(
            f"the function makes constants that depend on the sizes {', '.join(sizes[0])}. Compute them with ops, such as im.arange."
        )
    fit = _Fit(sizes)
    first = graphs[0]

    def tensors(which: str) -> tuple[TensorIr, ...]:
        return tuple(fit.tensor(same) for same in zip(*(getattr(g, which) for g in graphs), strict=True))

    operations = [fit.operation(same) for same in zip(*(g.operations for g in graphs), strict=True)]
    return replace(first, inputs=tensors("inputs"), outputs=tensors("outputs"), operations=tuple(operations))


class _Fit:
    """Finds what numbers that change with the sizes are made of."""

    def __init__(self, sizes: Sequence[dict[str, int]]) -> None:
        self.sizes = sizes
        self.monomials = _monomials(list(sizes[0]))
        self.known: dict[tuple[int, ...], Size] = {}
        values = [[_product(key, s) for key in self.monomials] for s in sizes]
        self.inverse = _inverted(values[: len(self.monomials)])

    def number(self, values: tuple[Any, ...], where: str, kinds: tuple[type, ...] = (int,)) -> Any:
        if all(type(v) is type(values[0]) and repr(v) == repr(values[0]) for v in values):  # NaN is not equal to itself
            return values[0]
        if any(type(v) not in kinds or v != int(v) for v in values):
            raise CaptureError(
                f"{where} is {values[0]!r} for {self.sizes[0]} and {values[1]!r} for {self.sizes[1]}, and a graph cannot say that of all sizes. Give the sizes as numbers."
            )
        key = tuple(int(v) for v in values)
        found = self.known.get(key)
        if found is None:
            rows = len(self.monomials)
            factors = [sum(a * v for a, v in zip(line, key[:rows], strict=True)) for line in self.inverse]
            found = self.known[key] = Size(dict(zip(self.monomials, map(Fraction, factors), strict=True)))
            if any(_value(found, s) != v for s, v in zip(self.sizes, key, strict=True)):
                raise CaptureError(
                    f"{where} is {', '.join(f'{v} for {s}' for s, v in zip(self.sizes[:3], key, strict=False))}, which is no polynomial of degree two. Give the sizes as numbers."
                )
        return found

    def value(self, values: tuple[Any, ...], where: str) -> Any:
        """Attributes and scalars, however deep."""
        first = values[0]
        if isinstance(first, tuple) and all(isinstance(v, tuple) and len(v) == len(first) for v in values):
            return tuple(self.value(parts, where) for parts in zip(*values, strict=True))
        if isinstance(first, slice) and all(isinstance(v, slice) for v in values):
            return slice(*(self.value(p, where) for p in zip(*((v.start, v.stop, v.step) for v in values), strict=True)))
        return self.number(values, where)

    def tensor(self, same: tuple[TensorIr, ...]) -> TensorIr:
        if len({(t.id, t.dtype, len(t.shape)) for t in same}) > 1:
            raise CaptureError("the function takes other steps for other sizes. Give the sizes as numbers.")
        shape = tuple(self.number(sizes, f"a size of %{same[0].id}") for sizes in zip(*(t.shape for t in same), strict=True))
        return replace(same[0], shape=shape)

    def operand(self, same: tuple[Any, ...], where: str) -> Any:
        if all(isinstance(v, TensorIr) for v in same):
            return self.tensor(same)
        if isinstance(same[0], tuple):
            if len({len(v) for v in same}) > 1:
                raise CaptureError("the function takes other steps for other sizes. Give the sizes as numbers.")
            return tuple(self.tensor(parts) for parts in zip(*same, strict=True))
        return self.number(same, where, (int, float))  # as an operand, a count is brought to the tensor's dtype either way

    def operation(self, same: tuple[OperationIr, ...]) -> OperationIr:
        first = same[0]
        inputs = tuple(self.operand(v, f"{first.op}: an operand") for v in zip(*(o.inputs for o in same), strict=True))
        outputs = tuple(self.tensor(t) for t in zip(*(o.outputs for o in same), strict=True))
        attrs = {n: self.value(tuple(o.attrs[n] for o in same), f"{first.op}: {n}") for n in first.attrs}
        return OperationIr(first.op, inputs, outputs, attrs)


def _value(size: Size, sizes: dict[str, int]) -> int | None:
    try:
        return size.at(sizes)
    except InvalidValueError:
        return None


def _product(names: tuple[str, ...], sizes: dict[str, int]) -> int:
    total = 1
    for name in names:
        total *= sizes[name]
    return total


def _inverted(matrix: list[list[int]]) -> list[list[Fraction]]:
    """The inverse by elimination, in fractions: exact, which no library of numbers is; a handful of rows."""
    n = len(matrix)
    rows = [[Fraction(v) for v in row] + [Fraction(int(i == j)) for j in range(n)] for i, row in enumerate(matrix)]
    for i in range(n):
        pivot = next(k for k in range(i, n) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for k in range(n):
            if k != i and rows[k][i]:
                rows[k] = [a - rows[k][i] * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[n:] for row in rows]
