"""Attributes of ops in a graph: which values a parameter takes, the named sizes in them, and equality that tells 1 from True."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import NoneType
from typing import Any, Final

from intermodal.dtypes import ALL, DType
from intermodal.errors import GraphError
from intermodal.graph.limits import Limits
from intermodal.graph.sizes import Size
from intermodal.ops.table import Param

__all__ = ["at", "check_attribute", "same", "sizes_in"]

# What a word of a parameter's annotation allows. A word that is not here, of a plugin say, allows everything.
_INTEGERS: Final = frozenset((int, Size))
_MANY: Final = _INTEGERS | {tuple}
_ALLOWED: Final[dict[str, frozenset[type]]] = {
    "None": frozenset((NoneType,)),
    "bool": frozenset((bool,)),
    "int": _INTEGERS,
    "float": _INTEGERS | {float},
    "complex": _INTEGERS | {float, complex},
    "str": frozenset((str,)),
    "slice": frozenset((slice,)),
    "DTypeLike": frozenset((DType,)),
    "tuple": frozenset((tuple,)),
    "Sequence": frozenset((tuple,)),
    "AxisLike": _MANY | {NoneType},
    "Sizes": _MANY,
    "Padding": _MANY | {str},
    "Parts": _MANY | {NoneType},
}
_EVERYTHING: Final[frozenset[type]] = frozenset().union(*_ALLOWED.values())


@lru_cache(maxsize=1024)
def _allowed(annotation: str) -> frozenset[type]:
    words = re.findall(r"\w+", annotation)
    if not words or any(word not in _ALLOWED for word in words):
        return _EVERYTHING
    return frozenset().union(*(_ALLOWED[word] for word in words))


def check_attribute(param: Param, value: object, limits: Limits) -> None:
    """Raise unless a value is one that the parameter takes, within the limits. Sizes in it are left to the caller."""
    allowed = _allowed(param.annotation)
    if type(value) not in allowed:
        raise GraphError(f"the attribute {param.name} is {type(value).__name__}; it is declared {param.annotation!r}.")
    left = limits.values
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        left -= 1
        if depth > limits.depth or left < 0:
            raise GraphError(f"the attribute {param.name} has more than {limits.values} values or {limits.depth} levels.")
        kind = type(part)
        if kind not in allowed:
            raise GraphError(f"the attribute {param.name} has a {kind.__name__} in it; it is declared {param.annotation!r}.")
        if kind is tuple:
            if len(part) > left:
                raise GraphError(f"the attribute {param.name} has more than {limits.values} values.")
            waiting += ((v, depth + 1) for v in part)
        elif kind is slice:
            for v in (part.start, part.stop, part.step):
                if v is not None and type(v) is not Size and not _is_int64(v):
                    raise GraphError(f"the attribute {param.name} has a slice of other things than whole numbers.")
        elif kind is str:
            if len(part) > limits.string or not part.isprintable():
                raise GraphError(f"the attribute {param.name} is no text of at most {limits.string} printable characters.")
        elif (kind is int and not _is_int64(part)) or (kind is DType and part not in ALL):
            raise GraphError(f"the attribute {param.name} has a value that does not fit 64 bits, or is no dtype.")


def _is_int64(value: object) -> bool:
    return type(value) is int and -(2**63) <= value < 2**64


def sizes_in(value: object) -> Iterator[Size]:
    """The named sizes in an attribute."""
    if isinstance(value, Size):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from sizes_in(part)
    elif isinstance(value, slice):
        yield from (part for part in (value.start, value.stop, value.step) if isinstance(part, Size))


def at(value: Any, numbers: Mapping[str, int]) -> Any:
    """An attribute with numbers in place of named sizes."""
    if isinstance(value, Size):
        return value.at(numbers)
    if isinstance(value, tuple):
        return tuple(at(part, numbers) for part in value)
    if isinstance(value, slice):
        return slice(at(value.start, numbers), at(value.stop, numbers), at(value.step, numbers))
    return value


def same(first: object, second: object) -> bool:
    """Whether two attributes are the same value of the same type, NaN and the sign of zero included."""
    if type(first) is not type(second):
        return False
    if isinstance(first, tuple) and isinstance(second, tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, slice) and isinstance(second, slice):
        return same((first.start, first.stop, first.step), (second.start, second.stop, second.step))
    if isinstance(first, complex) and isinstance(second, complex):
        return same(first.real, second.real) and same(first.imag, second.imag)
    if isinstance(first, float) and isinstance(second, float):
        return (math.isnan(first) and math.isnan(second)) or (
            first == second and math.copysign(1, first) == math.copysign(1, second)
        )
    return first == second
