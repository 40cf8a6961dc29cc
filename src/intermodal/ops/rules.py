"""The rules that rows share: broadcasting, axes, promotion, and the `infer` of whole families.

A rule raises without the op's name; dispatch puts it in front, so a message reads ``add: cannot broadcast …``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from intermodal import config, dtypes
from intermodal.dtypes import DType, Scalar
from intermodal.errors import AxisError, DTypeError, InvalidValueError, ShapeError
from intermodal.ops.table import Inferred, Shape, Spec

__all__ = [
    "ANY",
    "BOOL",
    "FLOAT",
    "INEXACT",
    "INTEGER",
    "INTEGER_OR_BOOL",
    "NUMERIC",
    "REAL",
    "axes",
    "axis",
    "broadcast",
    "elementwise",
    "operand_dtype",
    "require",
    "same",
]

AxisLike: TypeAlias = int | Sequence[int] | None

BOOL: Final = frozenset(("bool",))
INTEGER: Final = frozenset(("signed integer", "unsigned integer"))
FLOAT: Final = frozenset(("real floating",))
INEXACT: Final = frozenset(("real floating", "complex floating"))
INTEGER_OR_BOOL: Final = INTEGER | BOOL
REAL: Final = INTEGER | FLOAT
NUMERIC: Final = INTEGER | INEXACT
ANY: Final = NUMERIC | BOOL

_KIND_ORDER: Final = ("bool", "signed integer", "unsigned integer", "real floating", "complex floating")


def require(dtype: DType, kinds: frozenset[str], *, of: str = "the input") -> DType:
    """The dtype itself if it is of one of the kinds, else the error that names them."""
    if dtype.kind not in kinds:
        wanted = ", ".join(k for k in _KIND_ORDER if k in kinds)
        raise DTypeError(
            f"{of} has dtype {dtype}, but this op takes {wanted}. Cast it first, for example with im.astype(x, im.{_example(kinds)})."
        )
    return dtype


def _example(kinds: frozenset[str]) -> str:
    return (
        "float32"
        if "real floating" in kinds
        else "int64"
        if "signed integer" in kinds
        else "complex64"
        if "complex floating" in kinds
        else "bool"
    )


def broadcast(*shapes: Shape) -> Shape:
    """The shape to which all shapes broadcast."""
    first = shapes[0] if shapes else ()
    if all(s == first for s in shapes):
        return first
    ndim = max(map(len, shapes))
    result = []
    for i in range(-ndim, 0):
        size = 1
        for shape in shapes:
            n = shape[i] if -i <= len(shape) else 1
            if n not in (size, 1):
                if size != 1:
                    raise ShapeError(
                        f"cannot broadcast shapes {', '.join(map(str, shapes))}: sizes {size} and {n} at axis {i} differ. Each must be equal or 1."
                    )
                size = n
        result.append(size)
    return tuple(result)


def axis(value: object, ndim: int, *, name: str = "axis") -> int:
    """One axis, counted from the front."""
    index = integer(value, name)
    if not -ndim <= index < ndim:
        allowed = f"{name} must lie in [-{ndim}, {ndim - 1}]" if ndim else "a 0-d tensor has no axes"
        raise AxisError(f"{name} {index} is out of range for {ndim} dimension{'s' * (ndim != 1)}: {allowed}.")
    return index + ndim if index < 0 else index


def axes(value: AxisLike, ndim: int, *, name: str = "axis") -> tuple[int, ...]:
    """Axes counted from the front, all of them for None; an axis may not come twice."""
    if value is None:
        return tuple(range(ndim))
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    result = tuple(axis(a, ndim, name=name) for a in given)
    if len(set(result)) != len(result):
        raise AxisError(f"{name} {value} names an axis twice. Name each axis once.")
    return result


def integer(value: object, name: str) -> int:
    """A Python integer; anything with ``__index__`` counts, a bool does not."""
    if type(value) is int:
        return value
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        return int(value.__index__())
    raise InvalidValueError(f"{name} must be an integer, not {value!r}.")


def one_of(value: str, name: str, allowed: Sequence[str]) -> str:
    """A name out of a closed list."""
    if value not in allowed:
        raise InvalidValueError(f"{name} {value!r} is not known. Use one of {', '.join(map(repr, allowed))}.")
    return value


def shape(value: object, *, name: str = "shape") -> Shape:
    """A shape: an integer or a sequence of integers, none negative."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    result = tuple(integer(n, name) for n in given)
    if any(n < 0 for n in result):
        raise ShapeError(f"{name} {result} has a negative size. Sizes must be 0 or more.")
    return result


def operand_dtype(*operands: object) -> DType:
    """The dtype to which tensors and Python scalars of one call promote."""
    dtype: DType | None = None
    for x in operands:
        if isinstance(x, Spec):
            dtype = x.dtype if dtype is None else _promote_checked(dtype, x.dtype)
    if dtype is None:
        raise DTypeError("at least one operand must be a tensor. Wrap a Python scalar with im.asarray.")
    for x in operands:
        if x is not None and not isinstance(x, Spec):
            dtype = _promote_scalar_checked(dtype, x)
    for x in operands:
        if isinstance(x, int) and not isinstance(x, bool) and dtype.is_integer:
            check_integer(x, dtype)
    return dtype


def _promote_checked(first: DType, second: DType) -> DType:
    if first is second:
        return first
    if _family(first) != _family(second) and config.promotion.get() == "strict":
        raise DTypeError(
            f"{first} and {second} are of different kinds, and the setting promotion='strict' does not mix them. Cast one with im.astype."
        )
    return dtypes.promote(first, second)


def _promote_scalar_checked(dtype: DType, scalar: object) -> DType:
    result = dtypes.promote_scalar(dtype, scalar)  # type: ignore[arg-type]  # dispatch lets only scalars through
    if result is not dtype and not (dtype.is_floating and result.is_complex) and config.promotion.get() == "strict":
        raise DTypeError(
            f"the scalar {scalar!r} does not fit dtype {dtype}, and the setting promotion='strict' does not mix kinds. Cast the tensor with im.astype."
        )
    return result


def _family(dtype: DType) -> str:
    return "integer" if dtype.is_integer else "inexact" if dtype.is_inexact else "bool"


def check_integer(value: int, dtype: DType) -> None:
    """Refuse a Python integer that the integer dtype cannot hold."""
    low, high = integer_range(dtype)
    if not low <= value <= high:
        raise InvalidValueError(
            f"the integer {value} does not fit {dtype}, whose range is [{low}, {high}]. Cast the tensor to a wider dtype."
        )


def integer_range(dtype: DType) -> tuple[int, int]:
    """The smallest and largest value of an integer dtype."""
    if dtype.kind == "unsigned integer":
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def shape_of(operand: object) -> Shape:
    """The shape of a spec; a scalar or None has none."""
    return operand.shape if isinstance(operand, Spec) else ()


def same(dtype: DType) -> DType:
    """A result of the operands' own dtype."""
    return dtype


def to_bool(_: DType) -> DType:
    """A result of bools."""
    return dtypes.bool_


def to_component(dtype: DType) -> DType:
    """A result of real numbers."""
    return dtype.component


class Elementwise:
    """The rule of an elementwise op: operands broadcast and promote, the result has their shape."""

    __slots__ = ("inexact", "kinds", "result")

    def __init__(self, kinds: frozenset[str], result: Callable[[DType], DType], inexact: bool | DType) -> None:
        self.kinds, self.result, self.inexact = kinds, result, inexact

    def __call__(self, *operands: Any, **attrs: Any) -> Inferred:
        dtype = operand_dtype(*operands)
        if self.inexact:
            dtype = floating(dtype, dtypes.to_inexact(dtype) if self.inexact is True else self.inexact)
        require(dtype, self.kinds)
        out = broadcast(*(shape_of(x) for x in operands))
        return Inferred((Spec(out, self.result(dtype)),), attrs, dtype)


def elementwise(kinds: frozenset[str], *, result: Callable[[DType], DType] = same, inexact: bool | DType = False) -> Elementwise:
    """The rule of an elementwise op.

    Args:
        kinds: the kinds of dtype that the op takes.
        result: the result's dtype from the operands' common one.
        inexact: integers are computed in this floating dtype, or for True in the one that NumPy chooses.
    """
    return Elementwise(kinds, result, inexact)


def floating(dtype: DType, for_integers: DType) -> DType:
    """The dtype in which an op that needs floats computes: an integer's stand-in, unless promotion is strict."""
    return for_integers if dtype.is_integer and config.promotion.get() != "strict" else dtype


def as_scalar(value: Scalar, dtype: DType) -> Scalar:
    """A Python scalar of the dtype's own kind."""
    if dtype.is_floating:
        if isinstance(value, complex):
            raise DTypeError(f"the complex scalar {value} does not fit {dtype}.")
        return float(value)
    if dtype.is_complex:
        return complex(value)
    return bool(value) if dtype.is_bool else int(value.real)
