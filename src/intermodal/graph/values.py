"""Values as text: numbers whose type and bits survive, and constants that are short enough to be written out."""

from __future__ import annotations

import json
import math
import struct
import sys
from typing import Any, Final

import numpy as np

from intermodal.dtypes import DType
from intermodal.errors import GraphError
from intermodal.graph.sizes import Size
from intermodal.ops.rules import integer_range

__all__ = ["FLOAT", "array_of", "bytes_of", "from_numbers", "number", "numbers_of", "read_float", "text_of"]

FLOAT: Final = r"(?:[0-9]{1,40}(?:\.[0-9]{1,40}(?:e[+-]?[0-9]{1,3})?|e[+-]?[0-9]{1,3})|inf|nan(?:\([0-9a-f]{16}\))?)"
_SHORT: Final = 8  # elements of a constant that is written out


def text_of(value: object) -> str:
    """An attribute or a scalar as text."""
    if isinstance(value, tuple):
        return f"({', '.join(map(text_of, value))}{',' * (len(value) == 1)})"
    if isinstance(value, slice):
        return ":".join("" if part is None else text_of(part) for part in (value.start, value.stop, value.step))
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return str(value) if value is None or isinstance(value, (DType, Size)) else number(value)


def number(value: object) -> str:
    """A number as text from which its type and its bits follow."""
    if isinstance(value, complex):
        imaginary = number(value.imag)
        return f"{number(value.real)}{'' if imaginary.startswith('-') else '+'}{imaginary}j"
    if isinstance(value, float) and math.isnan(value):
        bits = struct.pack(">d", value).hex()
        return "nan" if bits == "7ff8000000000000" else f"nan({bits})"
    return repr(value)


def read_float(text: str) -> float:
    """A float from the text that `number` gives it."""
    if text.startswith("nan("):
        value: float = struct.unpack(">d", bytes.fromhex(text[4:20]))[0]
        if not math.isnan(value):
            raise GraphError(f"{text} has bits that are no NaN.")
        return value
    return float(text)


def numbers_of(value: np.ndarray[Any, Any], dtype: DType) -> str | None:
    """A constant written out, or None where it is long or would not be read back bit by bit."""
    if value.size > _SHORT:
        return None
    elements = [_element(v, dtype) for v in value.reshape(-1)]
    read = from_numbers(elements, dtype, value.shape)
    return f"[{', '.join(map(number, elements))}]" if read.tobytes() == value.tobytes() else None


def _element(value: Any, dtype: DType) -> Any:
    if dtype.is_complex:
        return complex(_shortest(value.real), _shortest(value.imag))
    return _shortest(value) if dtype.is_floating else bool(value) if dtype.is_bool else int(value)


def _shortest(value: Any) -> float:
    """The float with the shortest text that is this value in the value's own dtype: 0.1, not 0.10000000149011612."""
    return float(str(value)) if np.isfinite(value) else float(value)


def from_numbers(elements: list[Any], dtype: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A constant from the numbers that are written out."""
    if len(elements) != math.prod(shape):
        raise GraphError(f"{len(elements)} values are given for shape {shape}.")
    kind = bool if dtype.is_bool else int if dtype.is_integer else complex if dtype.is_complex else float
    for element in elements:
        if type(element) is not kind:
            raise GraphError(f"{element!r} is no element of {dtype}. Write {_EXAMPLES[kind]}, say.")
    if kind is int:
        low, high = integer_range(dtype)
        if any(not low <= e <= high for e in elements):
            raise GraphError(f"a value does not fit {dtype}, whose range is [{low}, {high}].")
        wide = np.asarray(elements, np.uint64 if dtype.kind == "unsigned integer" else np.int64)
    else:
        wide = np.asarray(elements, {bool: np.bool_, float: np.float64, complex: np.complex128}[kind])
    with np.errstate(all="ignore"):
        array = wide.astype(dtype.numpy).reshape(shape)
        if kind in (float, complex) and (np.isfinite(wide) & ~np.isfinite(array.reshape(-1))).any():
            raise GraphError(f"a value is out of the range of {dtype}.")
    return array


_EXAMPLES: Final = {bool: "True", int: "1", float: "1.0", complex: "1.0+0.0j"}


def bytes_of(value: np.ndarray[Any, Any]) -> bytes:
    """The elements in C order, little-endian."""
    return (value if sys.byteorder == "little" else value.byteswap()).tobytes()


def array_of(data: bytes, dtype: DType, shape: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """The array whose `bytes_of` are given; it cannot be written to. The shape may be anything that was read."""
    if not all(type(n) is int and 0 <= n <= len(data) + 1 for n in shape if 0 not in shape) or len(shape) > 64:
        raise GraphError(f"a constant of {len(data)} bytes does not have the shape that is given for it.")
    if math.prod(n if type(n) is int else -1 for n in shape) * dtype.itemsize != len(data):
        raise GraphError(f"a constant of {len(data)} bytes is not {dtype} of shape {shape}.")
    array = np.frombuffer(data, dtype.numpy)
    return (array if sys.byteorder == "little" else array.byteswap()).reshape(shape)
