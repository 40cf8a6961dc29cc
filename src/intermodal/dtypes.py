"""Data types: the names, their kinds and limits, and how two of them promote. No arrays here.

A dtype is one object per name, so ``is`` compares. Promotion follows the Array API standard inside a kind and
NumPy where the standard is silent (an integer with a float, say); the small types that NumPy does not know
promote as the NumPy type of their range does.
"""

from __future__ import annotations

from typing import Final, TypeAlias, cast

import ml_dtypes
import numpy as np

from intermodal.errors import DTypeError

__all__ = ["DType", "DTypeLike", "as_dtype", "can_cast", "isdtype", "names", "promote", "promote_scalar", "to_inexact"]

Scalar: TypeAlias = bool | int | float | complex


class DType:
    """A data type of tensor elements, such as ``im.float32``.

    Attributes:
        name: ``"float32"``.
        kind: one of ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"real floating"``, ``"complex floating"``.
        bits: the width of one element; 4 for ``int4`` although NumPy stores it in a byte.
        numpy: the NumPy dtype that holds it on the host.
        is_standard: whether the Array API standard lists it.
    """

    __slots__ = ("bits", "is_standard", "kind", "name", "numpy")

    def __init__(self, name: str, kind: str, bits: int, numpy: np.dtype[np.generic], is_standard: bool) -> None:
        self.name: Final = name
        self.kind: Final = kind
        self.bits: Final = bits
        self.numpy: Final = numpy
        self.is_standard: Final = is_standard

    @property
    def itemsize(self) -> int:
        """Bytes of one element on the host."""
        return self.numpy.itemsize

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def is_integer(self) -> bool:
        return self.kind.endswith("integer")

    @property
    def is_floating(self) -> bool:
        return self.kind == "real floating"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex floating"

    @property
    def is_inexact(self) -> bool:
        return self.kind.endswith("floating")

    @property
    def component(self) -> DType:
        """The real dtype of a complex one's parts; any other dtype itself."""
        return _COMPONENT.get(self.name, self)

    @property
    def as_complex(self) -> DType:
        """The complex dtype whose parts have at least this dtype's precision."""
        return self if self.is_complex else complex128 if promote(self, float32) is float64 else complex64

    def __repr__(self) -> str:
        return f"intermodal.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return as_dtype, (self.name,)


def _standard(name: str, kind: str, bits: int) -> DType:
    return DType(name, kind, bits, np.dtype(name), True)


def _extra(name: str, kind: str, bits: int, numpy: type[np.generic]) -> DType:
    return DType(name, kind, bits, np.dtype(numpy), False)


bool_: Final = _standard("bool", "bool", 8)
int8: Final = _standard("int8", "signed integer", 8)
int16: Final = _standard("int16", "signed integer", 16)
int32: Final = _standard("int32", "signed integer", 32)
int64: Final = _standard("int64", "signed integer", 64)
uint8: Final = _standard("uint8", "unsigned integer", 8)
uint16: Final = _standard("uint16", "unsigned integer", 16)
uint32: Final = _standard("uint32", "unsigned integer", 32)
uint64: Final = _standard("uint64", "unsigned integer", 64)
float32: Final = _standard("float32", "real floating", 32)
float64: Final = _standard("float64", "real floating", 64)
complex64: Final = _standard("complex64", "complex floating", 64)
complex128: Final = _standard("complex128", "complex floating", 128)
float16: Final = _extra("float16", "real floating", 16, np.float16)
bfloat16: Final = _extra("bfloat16", "real floating", 16, ml_dtypes.bfloat16)
float8_e4m3fn: Final = _extra("float8_e4m3fn", "real floating", 8, ml_dtypes.float8_e4m3fn)
float8_e5m2: Final = _extra("float8_e5m2", "real floating", 8, ml_dtypes.float8_e5m2)
int4: Final = _extra("int4", "signed integer", 4, ml_dtypes.int4)
uint4: Final = _extra("uint4", "unsigned integer", 4, ml_dtypes.uint4)

ALL: Final[tuple[DType, ...]] = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64, complex64, complex128,
    float16, bfloat16, float8_e4m3fn, float8_e5m2, int4, uint4,
)  # fmt: skip
STANDARD: Final = tuple(d for d in ALL if d.is_standard)

DTypeLike: TypeAlias = "type[np.generic | (bool | int | float | complex)] | DType | str | np.dtype[np.generic]"

_BY_NAME: Final = {d.name: d for d in ALL}
_BY_NUMPY: Final = {d.numpy: d for d in ALL}
_COMPONENT: Final = {"complex64": float32, "complex128": float64}
_KINDS: Final = {
    "bool": ("bool",),
    "signed integer": ("signed integer",),
    "unsigned integer": ("unsigned integer",),
    "integral": ("signed integer", "unsigned integer"),
    "real floating": ("real floating",),
    "complex floating": ("complex floating",),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}


def names() -> list[str]:
    """The names of all dtypes, standard ones first."""
    return list(_BY_NAME)


def as_dtype(dtype: DTypeLike) -> DType:
    """The dtype that an object, a name, a NumPy dtype or a Python type stands for.

    Example:
        >>> as_dtype("bfloat16")
        intermodal.bfloat16
        >>> import numpy as np
        >>> as_dtype(np.int8)
        intermodal.int8
    """
    if type(dtype) is DType:
        return dtype
    if isinstance(dtype, str) and dtype in _BY_NAME:
        return _BY_NAME[dtype]
    if not isinstance(dtype, str):
        try:
            found = _BY_NUMPY.get(np.dtype(cast("type[np.generic]", dtype or "V")))  # NumPy would read None as float64
        except TypeError:
            found = None
        if found is not None:
            return found
    raise DTypeError(f"{dtype!r} is not a dtype that intermodal knows. Use one of {', '.join(_BY_NAME)}.")


def isdtype(dtype: DTypeLike, kind: DTypeLike | str | tuple[DTypeLike | str, ...]) -> bool:
    """Whether a dtype is of a kind: a kind's name, a dtype, or a tuple of either.

    Example:
        >>> isdtype(int8, "integral"), isdtype(int8, ("bool", "real floating"))
        (True, False)
    """
    dtype = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str) and kind in _KINDS and not (kind == "bool" and dtype is not bool_):
        return dtype.kind in _KINDS[kind]
    try:
        return dtype is as_dtype(kind)
    except DTypeError:
        raise DTypeError(f"isdtype: {kind!r} is neither a dtype nor a kind. The kinds are {', '.join(_KINDS)}.") from None


_FLOAT8: Final = frozenset((float8_e4m3fn, float8_e5m2))
_SMALL_FLOATS: Final = _FLOAT8 | {bfloat16}
_SMALL_INTEGERS: Final = frozenset((int4, uint4))
_promoted: dict[tuple[DType, DType], DType] = {}


def promote(first: DType, second: DType) -> DType:
    """The dtype that can hold both: the Array API's lattice, NumPy's rules beyond it.

    Example:
        >>> promote(uint8, int8), promote(int32, float32), promote(bfloat16, float16)
        (intermodal.int16, intermodal.float64, intermodal.float32)
    """
    if first is second:
        return first
    key = (first, second)
    found = _promoted.get(key)
    if found is None:
        found = _promoted[key] = _promote(first, second)
    return found


def _promote(first: DType, second: DType) -> DType:
    for small, other in ((first, second), (second, first)):
        if small in _SMALL_INTEGERS:
            if other.is_bool:
                return small
            if other in _SMALL_INTEGERS:
                return int8
            # Every uint4 is an int8 too, so a signed partner needs no wider type than its own.
            return promote(int8 if small is int4 or other.kind == "signed integer" else uint8, other)
    for small, other in ((first, second), (second, first)):
        if small in _SMALL_FLOATS and other not in _SMALL_FLOATS:
            if other is float16:
                return float32 if small is bfloat16 else float16
            # An integer that float16 would take, a small float takes; a wider one asks for what NumPy gives float16.
            joint = promote(float16, other)
            return small if joint is float16 else joint
    if {first, second} & _SMALL_FLOATS:
        return bfloat16 if bfloat16 in (first, second) else float16
    return _BY_NUMPY[np.result_type(first.numpy, second.numpy)]


def promote_scalar(dtype: DType, scalar: Scalar) -> DType:
    """The dtype of an operation between a tensor and a Python scalar: the tensor's, unless the scalar's kind is higher."""
    if isinstance(scalar, bool):
        return dtype
    if isinstance(scalar, int):
        return int64 if dtype.is_bool else dtype
    if isinstance(scalar, float):
        return dtype if dtype.is_inexact else float64
    return dtype.as_complex if dtype.is_inexact else complex128


def to_inexact(dtype: DType) -> DType:
    """The floating dtype in which NumPy computes a function such as ``sqrt`` for this dtype."""
    if dtype.is_inexact:
        return dtype
    return float16 if dtype.bits <= 8 else float32 if dtype.bits == 16 else float64


def can_cast(source: DType, target: DType) -> bool:
    """Whether every value of one dtype has its place in the other, by the promotion rules."""
    return promote(source, target) is target
