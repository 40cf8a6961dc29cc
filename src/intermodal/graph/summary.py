"""`summarise`: what a graph costs, op by op and in all, counted from shapes and dtypes alone; nothing runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from intermodal.errors import InvalidValueError
from intermodal.graph.flops import Call, flops
from intermodal.graph.ir import GraphIr, OperationIr, TensorIr
from intermodal.graph.passes import PERMUTATIONS, REFLOWS
from intermodal.graph.sizes import Size, evaluated

__all__ = ["OperationSummary", "Summary", "summarise"]

# These read what they give and their indices, not all of their first operand.
_GATHERS: Final = frozenset(("take", "take_along_axis", "embedding", "index", "gather_nd", "masked_select"))
# These read the form of their operand, not its elements.
_FORMS: Final = frozenset(("full_like", "zeros_like", "ones_like", "empty_like"))


@dataclass(frozen=True, slots=True)
class OperationSummary:
    """What one op costs."""

    op: str
    shapes: tuple[tuple[int, ...], ...]
    """Of its results."""
    flops: int
    bytes_read: int
    bytes_written: int
    memory: int
    """Bytes that are held while it runs, inputs and constants of the graph included."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a graph costs. As text it is a table of its ops by name."""

    operations: tuple[OperationSummary, ...]
    parameters: int
    """Elements of all constants."""
    parameter_bytes: int
    input_bytes: int
    output_bytes: int
    peak_memory: int
    """Bytes held at the worst moment, inputs and constants included, if each result is freed after its last use."""

    @property
    def flops(self) -> int:
        return sum(o.flops for o in self.operations)

    @property
    def bytes_read(self) -> int:
        return sum(o.bytes_read for o in self.operations)

    @property
    def bytes_written(self) -> int:
        return sum(o.bytes_written for o in self.operations)

    @property
    def counts(self) -> dict[str, int]:
        """How often each op is there, the most frequent first."""
        return dict(Counter(o.op for o in self.operations).most_common())

    def __str__(self) -> str:
        rows = [("op", "count", "FLOPs", "share", "read", "written"), *self._rows(), ("in all", *self._figures(self.operations))]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join([r[0].ljust(widths[0]), *map(str.rjust, r[1:], widths[1:])]).rstrip() for r in rows]
        rule = "-" * (sum(widths) + 2 * len(widths) - 2)
        facts = [
            f"parameters    {_number(self.parameters)}, {_bytes(self.parameter_bytes)}",
            f"in and out    {_bytes(self.input_bytes)}, {_bytes(self.output_bytes)}",
            f"peak memory   {_bytes(self.peak_memory)}",
        ]
        return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1], "", *facts])

    def _rows(self) -> Iterator[tuple[str, ...]]:
        by_name: dict[str, list[OperationSummary]] = {}
        for operation in self.operations:
            by_name.setdefault(operation.op, []).append(operation)
        for name, group in sorted(by_name.items(), key=lambda item: -sum(o.flops for o in item[1])):
            yield (name, *self._figures(group))

    def _figures(self, group: Sequence[OperationSummary]) -> tuple[str, ...]:
        count = sum(o.flops for o in group)
        share = f"{count / self.flops:.1%}" if self.flops else "-"
        read, written = sum(o.bytes_read for o in group), sum(o.bytes_written for o in group)
        return str(len(group)), _number(count), share, _bytes(read), _bytes(written)


def summarise(ir: GraphIr, sizes: Mapping[str, int] | None = None) -> Summary:
    """What a graph costs: FLOPs, bytes, memory.

    A result that is a view of its operand takes no memory, and making it reads and writes nothing. FLOPs are estimates by
    the formulas of `intermodal.graph.flops`.

    Args:
        ir: the graph.
        sizes: a number for each named size of the graph, such as ``{"n": 8}``.
    """
    known = dict(sizes or {})
    _check(ir, known)
    owners = _owners(ir)
    held = sum(c.value.nbytes for c in ir.constants) + _bytes_of(ir.inputs, known)
    ends: dict[int, list[TensorIr]] = {}  # by step, what nobody needs after it
    last = _last_uses(ir, owners)
    live = peak = held
    found: list[OperationSummary] = []
    for step, operation in enumerate(ir.operations):
        made = [t for t in operation.outputs if owners[t.id] == t.id]
        for tensor in made:
            ends.setdefault(last[tensor.id], []).append(tensor)
        live += _bytes_of(made, known)
        peak = max(peak, live)
        found.append(_summary(operation, owners, known, live))
        live -= _bytes_of(ends.get(step, ()), known)
    return Summary(
        operations=tuple(found),
        parameters=sum(c.value.size for c in ir.constants),
        parameter_bytes=sum(c.value.nbytes for c in ir.constants),
        input_bytes=_bytes_of(ir.inputs, known),
        output_bytes=_bytes_of(ir.outputs, known),
        peak_memory=peak,
    )


def _summary(operation: OperationIr, owners: Mapping[int, int], sizes: Mapping[str, int], live: int) -> OperationSummary:
    results = tuple(evaluated(t.shape, sizes) for t in operation.outputs)
    operands = tuple(_shapes(operation, sizes))
    written = sum(_nbytes(t, sizes) for t in operation.outputs if owners[t.id] == t.id)
    read = {t.id: _nbytes(t, sizes) for t in operation.tensors()} if written else {}
    first = next((t.id for t in operation.tensors()), None)
    if first in read and operation.op in _GATHERS:
        read[first] = min(read[first], written)
    return OperationSummary(
        op=operation.op,
        shapes=results,
        flops=flops(Call(operation.op, operands, results, operation.attrs)),
        bytes_read=0 if operation.op in _FORMS else sum(read.values()),
        bytes_written=written,
        memory=live,
    )


def _shapes(operation: OperationIr, sizes: Mapping[str, int]) -> Iterator[tuple[int, ...] | None]:
    for value in operation.inputs:
        for member in value if isinstance(value, tuple) else (value,):
            yield evaluated(member.shape, sizes) if isinstance(member, TensorIr) else None


def _owners(ir: GraphIr) -> dict[int, int]:
    """For each tensor the one whose memory it lies in: itself, or what it is a view of."""
    owners = {t.id: t.id for t in ir.inputs} | {c.id: c.id for c in ir.constants}
    scattered: set[int] = set()  # views whose elements do not lie in their order
    for operation in ir.operations:
        owners.update((t.id, t.id) for t in operation.outputs)
        source = operation.inputs[0] if operation.inputs else None
        is_view = operation.row.view is not None or operation.op in REFLOWS | PERMUTATIONS
        if not is_view or not isinstance(source, TensorIr):
            continue
        if operation.op in ("reshape", "flatten") and source.id in scattered:
            continue  # it has to be copied
        result = operation.outputs[0].id
        owners[result] = owners[source.id]
        if operation.op not in REFLOWS or source.id in scattered:
            scattered.add(result)
    return owners


def _last_uses(ir: GraphIr, owners: Mapping[int, int]) -> dict[int, int]:
    """For each tensor the step after which neither it nor a view of it is needed."""
    last: dict[int, int] = {}
    for step, operation in enumerate(ir.operations):
        last.update((owners[t.id], step) for t in (*operation.tensors(), *operation.outputs))
    last.update((owners[t.id], len(ir.operations)) for t in ir.outputs)
    return last


def _check(ir: GraphIr, sizes: Mapping[str, int]) -> None:
    """Whether all named sizes are told, and no others."""
    tensors = (*ir.inputs, *(t for o in ir.operations for t in o.outputs))
    wanted = {name: None for t in tensors for size in t.shape if isinstance(size, Size) for name in sorted(size.names)}
    missing, unknown = [n for n in wanted if n not in sizes], [n for n in sizes if n not in wanted]
    if missing:
        example = ", ".join(f'"{n}": 8' for n in missing)
        raise InvalidValueError(f"summarise: the sizes {', '.join(missing)} have no numbers yet. Give them: sizes={{{example}}}.")
    if unknown:
        raise InvalidValueError(
            f"summarise: the graph has no sizes {', '.join(unknown)}. Its named sizes are {', '.join(wanted) or 'none'}."
        )


def _nbytes(tensor: TensorIr, sizes: Mapping[str, int]) -> int:
    return math.prod(evaluated(tensor.shape, sizes)) * tensor.dtype.itemsize


def _bytes_of(tensors: Iterable[TensorIr], sizes: Mapping[str, int]) -> int:
    return sum(_nbytes(t, sizes) for t in {t.id: t for t in tensors}.values())


def _number(n: int) -> str:
    for unit, scale in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if n >= scale:
            return f"{n / scale:.2f} {unit}"
    return str(n)


def _bytes(n: int) -> str:
    for unit, scale in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= scale:
            return f"{n / scale:.2f} {unit}"
    return f"{n} B"
