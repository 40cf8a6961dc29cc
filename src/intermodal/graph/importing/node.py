"""`Node`: one node of a model as an operator's function sees it; and the table of these functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from intermodal.errors import GraphError
from intermodal.ops.table import TABLE
from intermodal.tensor import Tensor

__all__ = ["OPERATORS", "Node", "attributes", "f", "operator"]

HostArray = np.ndarray[Any, Any]
Results = Tensor | Sequence[Tensor]
OPERATORS: Final[dict[str, Callable[[Node], Results]]] = {}
F = TypeVar("F", bound=Callable[["Node"], Results])


def operator(*names: str) -> Callable[[F], F]:
    """Add a function under the names of ONNX's operators."""

    def collect(function: F) -> F:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return collect


def f(name: str) -> Callable[..., Any]:
    """The public function of an op."""
    return TABLE[name].function


class Node:
    """A node with its operands.

    Attributes:
        op: the operator's name.
        opset: the version of the operators.
        attrs: its attributes as Python values.
        inputs: its operands; None for one that is left out.
        outputs: how many results are asked for.
    """

    def __init__(
        self,
        op: str,
        opset: int,
        attrs: Mapping[str, Any],
        inputs: Sequence[Tensor | None],
        known: Sequence[HostArray | None],
        outputs: int,
    ) -> None:
        self.op, self.opset, self.attrs, self.inputs, self.outputs = op, opset, attrs, inputs, outputs
        self._known, self._read = known, set[str]()

    def __getitem__(self, i: int) -> Tensor:
        found = self.maybe(i)
        if found is None:
            raise GraphError(f"operand {i} is missing.")
        return found

    def maybe(self, i: int) -> Tensor | None:
        """An operand, or None where it is left out."""
        return self.inputs[i] if i < len(self.inputs) else None

    def known(self, i: int) -> HostArray | None:
        """The value of an operand that must be known now, such as a shape; None where it is left out."""
        if self.maybe(i) is None:
            return None
        value = self._known[i]
        if value is None:
            raise GraphError(f"operand {i} must be a constant, or follow from shapes. Here it depends on data.")
        return value

    def numbers(self, i: int, attribute: str | None = None) -> list[int] | None:
        """Whole numbers that are an operand or, in older opsets, an attribute; None where they are left out."""
        if attribute is not None and self.get(attribute) is not None:
            return [int(n) for n in self.attrs[attribute]]
        value = self.known(i)
        return None if value is None else [int(n) for n in value.reshape(-1)]

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        self._read.add(name)
        return self.attrs.get(name, default)

    def ignore(self, *names: str) -> None:
        """These attributes say nothing about the results that are read."""
        self._read.update(names)

    def check(self) -> None:
        """Refuse an attribute that was not looked at: it would change what the operator does."""
        for name in self.attrs:
            if name not in self._read:
                raise GraphError(f"its attribute {name} is not read. Write the model without it.")

    def axis(self, default: int | None = None, rank: int | None = None) -> int:
        """The attribute ``axis``, counted from the front."""
        value = self.get("axis", default)
        if value is None:
            raise GraphError("the attribute axis is missing.")
        ndim = self[0].ndim if rank is None else rank
        if not -ndim <= value <= ndim:
            raise GraphError(f"axis {value} does not fit {ndim} axes.")
        return int(value) + ndim if value < 0 else int(value)

    def only(self, **allowed: Any) -> None:
        """Refuse attributes with another value than the one that is read."""
        for name, value in allowed.items():
            given = self.get(name, value)
            if given != value:
                raise GraphError(f"{name}={given!r} is not read; {value!r} is.")


def attributes(node: Any) -> dict[str, Any]:
    """A node's attributes as Python values: numbers, text, lists of them, and tensors as ONNX has them."""
    found: dict[str, Any] = {}
    for a in node.attribute:
        reader = _READERS.get(a.type)
        if reader is None:
            raise GraphError(f"the attribute {a.name} is a graph, or of another kind that is not read.")
        found[a.name] = reader(a)
    return found


# By the numbers of AttributeProto.AttributeType.
_READERS: Final[dict[int, Callable[[Any], Any]]] = {
    1: lambda a: float(a.f),
    2: lambda a: int(a.i),
    3: lambda a: a.s.decode("utf-8", "replace"),
    4: lambda a: a.t,
    6: lambda a: [float(v) for v in a.floats],
    7: lambda a: [int(v) for v in a.ints],
    8: lambda a: [v.decode("utf-8", "replace") for v in a.strings],
}
