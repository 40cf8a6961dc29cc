"""Rows' derivatives made ready: which values a rule needs is read off its parameters, and only those are saved.

A row's ``vjp`` gives for each tensor parameter a function of the gradient of the result. Its further parameters name
what it needs: a tensor parameter of the row (its value), ``out`` (the result; for several results their names), a tensor
parameter with ``_spec`` appended (shape and dtype alone, which cost no memory), or an attribute. Where an attribute, a
mode say, decides what is needed, `ByAttribute` has such functions for each of its values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from intermodal.errors import InvalidValueError
from intermodal.ops.table import ByAttribute, NotDifferentiable, Op, Role

__all__ = ["Derivative", "Kind", "Rule", "derivative"]


class Kind(Enum):
    """What a parameter of a rule stands for."""

    OPERAND = "operand"
    SPEC = "spec"
    OUTPUT = "output"
    ATTRIBUTE = "attribute"


class Need(NamedTuple):
    """One value that a rule asks for: its kind, and the number or name of what it is."""

    kind: Kind
    which: Any


class Rule(NamedTuple):
    """A function of the gradient, and what it needs besides."""

    function: Callable[..., Any]
    needs: tuple[Need, ...]


class Keep(NamedTuple):
    """What an op's record must hold so that the rules of some operands can run."""

    operands: frozenset[int]
    outputs: frozenset[int]
    specs: bool
    only_specs: bool  # some operand's shape is needed and its value is not, which would tell it


class Derivative:
    """An op's derivative: a rule for each operand, or one for all (`joint`), or the reason why there is none."""

    __slots__ = ("_keeps", "joint", "multiple", "name", "refusal", "rules")

    def __init__(
        self,
        name: str,
        rules: list[Rule | None],
        *,
        joint: Rule | None = None,
        refusal: str | None = None,
        multiple: bool = False,
    ) -> None:
        self.name, self.rules, self.joint, self.refusal, self.multiple = name, rules, joint, refusal, multiple
        self._keeps: dict[tuple[bool, ...], Keep] = {}

    @classmethod
    def of(cls, name: str, function: Callable[..., Any]) -> Derivative:
        """The derivative of a step with one operand, that needs nothing but the gradient."""
        return cls(name, [Rule(function, ())])

    @classmethod
    def of_row(cls, row: Op, case: object = None) -> Derivative:
        """The derivative that is written in a row, for one case where an attribute chooses."""
        names = [p.name for p in row.tensor_params]
        rules: list[Rule | None] = [None] * len(names)
        given = row.vjp.cases[case] if isinstance(row.vjp, ByAttribute) else row.vjp
        if isinstance(given, NotDifferentiable):
            return cls(row.name, rules, refusal=given.reason, multiple=row.multiple)
        if given is None:
            return cls(row.name, rules, refusal="its row has neither a rule nor a body.", multiple=row.multiple)
        if not isinstance(given, Mapping):
            return cls(row.name, rules, joint=_read(row, given), multiple=row.multiple)
        for name, function in given.items():
            if name not in names:
                raise InvalidValueError(
                    f"{row.name}: vjp has a rule for {name!r}, which is no tensor parameter. They are {names}."
                )
            rules[names.index(name)] = None if function is None else _read(row, function)
        return cls(row.name, rules, multiple=row.multiple)

    def keep(self, tracked: tuple[bool, ...]) -> Keep:
        """What to save when these operands are tracked."""
        found = self._keeps.get(tracked)
        if found is None:
            rules = [self.joint] if self.joint else [r for r, t in zip(self.rules, tracked, strict=True) if t]
            needs = [n for r in rules if r is not None for n in r.needs]
            of = {kind: frozenset(n.which for n in needs if n.kind is kind) for kind in Kind}
            specs, operands = of[Kind.SPEC], of[Kind.OPERAND]
            found = self._keeps[tracked] = Keep(operands, of[Kind.OUTPUT], bool(specs), not specs <= operands)
        return found


def _read(row: Op, function: Callable[..., Any]) -> Rule:
    """The needs of a rule, from the names of its parameters."""
    code: Any = function.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    tensors = {p.name: i for i, p in enumerate(row.tensor_params)}
    attributes = {p.name for p in row.params if p.role is Role.ATTRIBUTE}
    outputs = {"out": 0} if row.result is None else {name: i for i, name in enumerate(getattr(row.result, "_fields", ()))}
    needs = []
    for name in names:
        if name in tensors:
            needs.append(Need(Kind.OPERAND, tensors[name]))
        elif name in outputs:
            needs.append(Need(Kind.OUTPUT, outputs[name]))
        elif name in attributes:
            needs.append(Need(Kind.ATTRIBUTE, name))
        elif name.endswith("_spec") and name[:-5] in tensors:
            needs.append(Need(Kind.SPEC, tensors[name[:-5]]))
        else:
            known = [*tensors, *outputs, *sorted(attributes), *(f"{t}_spec" for t in tensors)]
            raise InvalidValueError(f"{row.name}: its derivative asks for {name!r}. What there is: {', '.join(known)}.")
    return Rule(function, tuple(needs))


_derivatives: dict[tuple[Op, object], Derivative] = {}  # as many as there are rows, and cases of them


def derivative(row: Op, attrs: Mapping[str, object] | None = None) -> Derivative:
    """A row's derivative, read once."""
    case = attrs[row.vjp.attribute] if attrs is not None and isinstance(row.vjp, ByAttribute) else None
    found = _derivatives.get((row, case))
    if found is None:
        found = _derivatives[row, case] = Derivative.of_row(row, case)
    return found
