"""What a run found: counts by family and dtype, failures with the call that shows them, and reasons of what is unsupported."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Counts", "Failure", "Report"]

SHOWN = 2
"""How many failures of one op and check are written out; the machine form has all."""


@dataclass(slots=True)
class Counts:
    """How many calls passed, failed, or are unsupported on the device."""

    passed: int = 0
    failed: int = 0
    unsupported: int = 0

    @property
    def calls(self) -> int:
        """All of them."""
        return self.passed + self.failed + self.unsupported

    def __str__(self) -> str:
        text = str(self.passed)
        if self.unsupported:
            text += f" ~{self.unsupported}"
        return f"{text} !{self.failed}" if self.failed else text


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that is wrong.

    Attributes:
        op: the op, or the method of the backend.
        dtype: the dtype of the sample.
        check: what was checked: ``values``, ``decomposition``, ``infer``, ``dtype``, ``input``, ``error``, ``law``,
            ``seed``, ``missing``, ``dtype_usage``, ``backend``, ``sample``.
        message: what is wrong.
        call: Python code that shows it.
    """

    op: str
    dtype: str
    check: str
    message: str
    call: str


@dataclass(slots=True)
class Report:
    """The outcome of a run; its text is the table that the command prints."""

    device: str
    name: str
    seed: int
    quick: bool
    ops: int = 0
    seconds: float = 0.0
    counts: dict[tuple[str, str], Counts] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    without_sample: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    @property
    def total(self) -> Counts:
        """All counts together."""
        every = self.counts.values()
        return Counts(sum(c.passed for c in every), sum(c.failed for c in every), sum(c.unsupported for c in every))

    def count(self, family: str, dtype: str) -> Counts:
        """The counts of a family and a dtype, to be added to."""
        return self.counts.setdefault((family, dtype), Counts())

    def fail(self, family: str, failure: Failure) -> None:
        """Add a failure."""
        self.failures.append(failure)
        self.count(family, failure.dtype).failed += 1

    def as_dict(self) -> dict[str, Any]:
        """The machine form."""
        families: dict[str, dict[str, Any]] = {}
        for (family, dtype), counts in self.counts.items():
            families.setdefault(family, {})[dtype] = asdict(counts)
        return {
            "device": self.device,
            "name": self.name,
            "seed": self.seed,
            "quick": self.quick,
            "ops": self.ops,
            "seconds": round(self.seconds, 3),
            "ok": self.ok,
            "total": asdict(self.total),
            "families": families,
            "failures": [asdict(f) for f in self.failures],
            "unsupported": dict(self.reasons),
            "without_sample": self.without_sample,
        }

    def to_json(self) -> str:
        """The machine form as text."""
        return json.dumps(self.as_dict(), indent=2)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        total = self.total
        yield f"{self.device} ({self.name}): {self.ops} ops, {total.calls} calls, seed {self.seed}, {self.seconds:.1f} s"
        yield ""
        yield from self._table()
        if self.reasons:
            yield ""
            yield "unsupported (~):"
            yield from (f"  {n:6} {reason}" for reason, n in sorted(self.reasons.items(), key=lambda r: (-r[1], r[0])))
        if self.failures:
            yield ""
            yield "failed (!):"
            yield from self._failures()
        yield ""
        yield f"{total.passed} passed, {total.failed} failed, {total.unsupported} unsupported: {'the engine conforms.' if self.ok else 'the engine does not conform.'}"

    def _table(self) -> Iterator[str]:
        families = list(dict.fromkeys(f for f, _ in self.counts))
        rows = [["", *families]]
        for dtype in dict.fromkeys(d for _, d in self.counts):
            rows.append([dtype, *(str(self.counts.get((f, dtype), "")) for f in families)])
        widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
        for row in rows:
            yield "  ".join(
                cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            )

    def _failures(self) -> Iterator[str]:
        groups: dict[tuple[str, str], list[Failure]] = {}
        for failure in self.failures:
            groups.setdefault((failure.op, failure.check), []).append(failure)
        for (op, check), group in groups.items():
            for failure in group[:SHOWN]:
                yield f"  {op} [{check}] {failure.dtype}: {failure.message}"
                yield from (f"      {line}" for line in failure.call.splitlines())
            if len(group) > SHOWN:
                yield f"  {op} [{check}]: {len(group) - SHOWN} more"
