"""What a program is: steps that make values out of earlier values. Printed, it is the code that makes it again.

A step names an op of the table, an operator (``operator.add``), a write (``iadd``, ``setitem``), ``getitem`` or ``source``; ``V(3)``
in its arguments is the fourth value of the program. A step adds its results to the values, a write or a step that raises adds none.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

import intermodal as im
from intermodal import dtypes
from intermodal.ops.table import TABLE, Op

HostArray = np.ndarray[Any, Any]

OPERATORS: Final[dict[str, tuple[Callable[..., Any], str]]] = {
    f"operator.{name}": (getattr(operator, name), row)
    for name, row in {
        "add": "add",
        "sub": "subtract",
        "mul": "multiply",
        "truediv": "divide",
        "floordiv": "floor_divide",
        "mod": "remainder",
        "pow": "pow",
        "matmul": "matmul",
        "and_": "bitwise_and",
        "or_": "bitwise_or",
        "xor": "bitwise_xor",
        "lshift": "bitwise_left_shift",
        "rshift": "bitwise_right_shift",
        "lt": "less",
        "le": "less_equal",
        "gt": "greater",
        "ge": "greater_equal",
        "eq": "equal",
        "ne": "not_equal",
        "neg": "negative",
        "pos": "positive",
        "abs": "abs",
        "invert": "bitwise_invert",
    }.items()
}
IN_PLACE: Final[dict[str, tuple[Callable[..., Any], str]]] = {
    f"i{name.partition('.')[2].rstrip('_')}": (getattr(operator, f"i{name.partition('.')[2].rstrip('_')}"), row)
    for name, (_, row) in OPERATORS.items()
    if hasattr(operator, f"i{name.partition('.')[2].rstrip('_')}") and name not in ("operator.neg", "operator.invert")
}
WRITES: Final = frozenset((*IN_PLACE, "setitem"))
UNSET: Final = ("empty", "empty_like")


class V(NamedTuple):
    """An earlier value of the program."""

    index: int

    def __repr__(self) -> str:
        return f"V({self.index})"


class Step:
    """One step: what is done, and to what. ``terms`` is how many terms meet in an element, where the conformance kit says so."""

    __slots__ = ("args", "kwargs", "op", "terms")

    def __init__(self, op: str, *args: Any, terms: int | None = None, **kwargs: Any) -> None:
        self.op, self.args, self.kwargs, self.terms = op, args, kwargs, terms

    @property
    def row(self) -> Op | None:
        """The row of the op table whose meaning the step has; None for what only moves elements."""
        name = OPERATORS.get(self.op, IN_PLACE.get(self.op, (None, self.op)))[1]
        return TABLE.get(name)

    def __repr__(self) -> str:
        given = [repr(self.op), *map(_text, self.args)]
        given += [f"{name}={_text(value)}" for name, value in self.kwargs.items()]
        return f"Step({', '.join(given)}{f', terms={self.terms}' if self.terms is not None else ''})"


class Program:
    """Steps in their order."""

    def __init__(self, *steps: Step) -> None:
        self.steps = steps

    def __repr__(self) -> str:
        return "\n".join(["Program(", *(f"    {step}," for step in self.steps), ")"])


# --- sources -----------------------------------------------------------------------------------------------------


def array(values: Any, dtype: str) -> HostArray:
    """The data of a source."""
    with np.errstate(all="ignore"):
        return np.asarray(values, dtype=dtypes.as_dtype(dtype).numpy)


def _reversed(x: HostArray) -> HostArray:
    return np.ascontiguousarray(np.flip(x))[(slice(None, None, -1),) * x.ndim]


def _stepped(x: HostArray) -> HostArray:
    return np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x


def _broadcast(x: HostArray) -> HostArray:
    return np.broadcast_to(x[:1], x.shape) if x.ndim else x


def _read_only(x: HostArray) -> HostArray:
    x = x.copy()
    x.flags.writeable = False
    return x


def _unaligned(x: HostArray) -> HostArray:
    memory = np.zeros(x.nbytes + 1, np.uint8)
    there = memory[1:].view(x.dtype).reshape(x.shape)
    there[...] = x
    return there


LAYOUTS: Final[dict[str, Callable[[HostArray], HostArray]]] = {
    "plain": np.copy,
    "reversed": _reversed,
    "stepped": _stepped,
    "transposed": lambda x: x.T.copy().T,
    "broadcast": _broadcast,
    "read-only": _read_only,
    # ml_dtypes' types have one byte order only
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")) if x.dtype.kind in "biufc" else x,
    "unaligned": _unaligned,
}
"""How the elements of a source lie in the host's memory."""


# --- running a step ----------------------------------------------------------------------------------------------


def perform(step: Step, values: Sequence[im.Tensor], device: im.Device) -> tuple[list[im.Tensor], Exception | None]:
    """The results of a step on a device, or the error it raised."""
    try:
        return performed(step, values, device), None
    except Exception as error:  # whatever it is, engines are compared in it
        return [], error


def performed(step: Step, values: Sequence[im.Tensor], device: im.Device) -> list[im.Tensor]:
    """The results of a step on a device."""
    if step.op == "source":
        data, layout = step.args
        return [im.asarray(LAYOUTS[layout](data), device=device)]
    args = [filled(a, values.__getitem__) for a in step.args]
    kwargs = {name: filled(a, values.__getitem__) for name, a in step.kwargs.items()}
    if step.op == "getitem":
        return [args[0][args[1]]]
    if step.op == "setitem":
        args[0][args[1]] = args[2]
        return []
    if step.op in IN_PLACE:
        result = IN_PLACE[step.op][0](*args)
        assert result is args[0], f"{step.op} answers with another tensor than the one that it changed"
        return []
    if step.op in OPERATORS:
        return [OPERATORS[step.op][0](*args)]
    row = TABLE[step.op]
    if row.takes_device and not any(isinstance(a, im.Tensor) for a in args):
        kwargs["device"] = device
    result = row.function(*args, **kwargs)
    results = list(result) if isinstance(result, tuple) else [result]
    return [im.zeros_like(r) for r in results] if step.op in UNSET else results  # what is not set may be anything


def filled(value: Any, find: Callable[[int], Any]) -> Any:
    """An argument with what stands for the earlier values in their places."""
    if isinstance(value, V):
        return find(value.index)
    if isinstance(value, (list, tuple)):
        return type(value)(filled(v, find) for v in value)
    return value


def used(step: Step) -> Iterator[int]:
    """The earlier values that a step takes."""
    found: list[int] = []
    for value in (*step.args, *step.kwargs.values()):
        filled(value, found.append)
    return iter(found)


# --- text --------------------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        dtype = dtypes.as_dtype(value.dtype)
        if not value.size:
            return f"array(np.zeros({value.shape}), {str(dtype)!r})"
        return f"array({_numbers(value.tolist(), dtype)}, {str(dtype)!r})"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if type(value) is tuple:
        return f"({', '.join(map(_text, value))}{',' * (len(value) == 1)})"
    if isinstance(value, dtypes.DType):
        return repr(str(value))
    return _number(value) if isinstance(value, (float, complex)) else repr(value)


def _numbers(value: Any, dtype: dtypes.DType) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_numbers(v, dtype) for v in value)}]"
    return _number(value if isinstance(value, (bool, int, float, complex)) else float(value))


def _number(value: Any) -> str:
    if isinstance(value, complex):  # the sum that repr writes loses the signs of zeros
        return f"complex({_number(value.real)}, {_number(value.imag)})"
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)  # inf, nan: names that whoever pastes the program imports from math
    return repr(value)
