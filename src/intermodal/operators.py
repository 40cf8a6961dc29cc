"""The hot path: a tensor's operators, the same-place check and the call into the engine.

One small, fully typed module, so that it can be compiled. The common case (two tensors of one place) goes from
the operator to the engine's own function with one identity check in between; everything else, and every error,
goes through the op's public function, which checks, promotes and explains.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, cast

from intermodal import conversion, indexing, views
from intermodal.backend import Backend
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.ops import elementwise as _e, linalg as _l

if TYPE_CHECKING:
    from intermodal.ops.table import Operand
    from intermodal.tensor import Tensor

__all__ = ["ARITHMETIC", "COMPARISONS", "UNARY", "Operators", "Place", "install"]

Binary = Callable[[Any, Any], Any]
Unary = Callable[[Any], Any]

# The ops that have an operator; a place holds the engine's function for each.
ARITHMETIC: Final = (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "pow", "matmul",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
)  # fmt: skip
COMPARISONS: Final = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
UNARY: Final = ("negative", "bitwise_invert")
_BASIC: Final = frozenset((int, slice, type(None), type(...)))  # what a basic index is made of


class Place:
    """Where and as what a tensor lives: a device, a dtype, the backend, and the backend's functions for the operators.

    There is one object per combination, so one identity check tells that two tensors go together. A function
    that must not take the short way (another dtype comes out, say) is replaced by one that raises, which sends
    the call the long way round. `intermodal.places` makes them.
    """

    __slots__ = (
        "backend",
        "boolean",
        "device",
        "dtype",
        "getitem",
        "natives",
        "scalars",
        "short",
        *ARITHMETIC,
        *COMPARISONS,
        *UNARY,
    )
    device: Device
    dtype: DType
    backend: Backend
    boolean: Place
    scalars: frozenset[type]
    natives: dict[str, Callable[..., Any] | None]
    short: dict[str, tuple[Callable[..., Any], Place] | None]
    getitem: Binary
    add: Binary
    subtract: Binary
    multiply: Binary
    divide: Binary
    floor_divide: Binary
    remainder: Binary
    pow: Binary
    matmul: Binary
    bitwise_and: Binary
    bitwise_or: Binary
    bitwise_xor: Binary
    bitwise_left_shift: Binary
    bitwise_right_shift: Binary
    less: Binary
    less_equal: Binary
    greater: Binary
    greater_equal: Binary
    equal: Binary
    not_equal: Binary
    negative: Unary
    bitwise_invert: Unary

    def __repr__(self) -> str:
        return f"Place({str(self.device)!r}, {str(self.dtype)!r})"


class Operators:
    """What every `Tensor` inherits: its data and place, and the operators on them."""

    __slots__ = ("_data", "_place")
    _data: Any
    _place: Place
    __hash__: ClassVar[None]  # type: ignore[assignment]  # == compares elements, so a tensor is no dictionary key

    def __init__(self, data: Any, place: Place) -> None:
        self._data = data
        self._place = place

    # --- arithmetic --------------------------------------------------------------------------------------------

    def __add__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.add(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return _class(place.add(self._data, other), place)
        except Exception:
            pass
        return _long_way(_e.add, self, other)

    def __sub__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.subtract(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return _class(place.subtract(self._data, other), place)
        except Exception:
            pass
        return _long_way(_e.subtract, self, other)

    def __mul__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.multiply(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return _class(place.multiply(self._data, other), place)
        except Exception:
            pass
        return _long_way(_e.multiply, self, other)

    def __truediv__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.divide(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return _class(place.divide(self._data, other), place)
        except Exception:
            pass
        return _long_way(_e.divide, self, other)

    def __floordiv__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.floor_divide(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return _class(place.floor_divide(self._data, other), place)
        except Exception:
            pass
        return _long_way(_e.floor_divide, self, other)

    def __mod__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.remainder(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return _class(place.remainder(self._data, other), place)
        except Exception:
            pass
        return _long_way(_e.remainder, self, other)

    def __pow__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.pow(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return _class(place.pow(self._data, other), place)
        except Exception:
            pass
        return _long_way(_e.pow, self, other)

    def __matmul__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.matmul(self._data, other._data)
                out._place = place
                return out
        except Exception:
            pass
        return _long_way(_l.matmul, self, other)

    def __and__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.bitwise_and(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return _class(place.bitwise_and(self._data, other), place)
        except Exception:
            pass
        return _long_way(_e.bitwise_and, self, other)

    def __or__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.bitwise_or(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return _class(place.bitwise_or(self._data, other), place)
        except Exception:
            pass
        return _long_way(_e.bitwise_or, self, other)

    def __xor__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.bitwise_xor(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return _class(place.bitwise_xor(self._data, other), place)
        except Exception:
            pass
        return _long_way(_e.bitwise_xor, self, other)

    def __lshift__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.bitwise_left_shift(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return _class(place.bitwise_left_shift(self._data, other), place)
        except Exception:
            pass
        return _long_way(_e.bitwise_left_shift, self, other)

    def __rshift__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.bitwise_right_shift(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return _class(place.bitwise_right_shift(self._data, other), place)
        except Exception:
            pass
        return _long_way(_e.bitwise_right_shift, self, other)

    # --- comparison --------------------------------------------------------------------------------------------

    def __lt__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.less(self._data, other._data)
                out._place = place.boolean
                return out
            if type(other) in place.scalars:
                return _class(place.less(self._data, other), place.boolean)
        except Exception:
            pass
        return _long_way(_e.less, self, other)

    def __le__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.less_equal(self._data, other._data)
                out._place = place.boolean
                return out
            if type(other) in place.scalars:
                return _class(place.less_equal(self._data, other), place.boolean)
        except Exception:
            pass
        return _long_way(_e.less_equal, self, other)

    def __gt__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.greater(self._data, other._data)
                out._place = place.boolean
                return out
            if type(other) in place.scalars:
                return _class(place.greater(self._data, other), place.boolean)
        except Exception:
            pass
        return _long_way(_e.greater, self, other)

    def __ge__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.greater_equal(self._data, other._data)
                out._place = place.boolean
                return out
            if type(other) in place.scalars:
                return _class(place.greater_equal(self._data, other), place.boolean)
        except Exception:
            pass
        return _long_way(_e.greater_equal, self, other)

    def __eq__(self, other: Operand) -> Tensor:  # type: ignore[override]  # == and != compare elements
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.equal(self._data, other._data)
                out._place = place.boolean
                return out
            if type(other) in place.scalars:
                return _class(place.equal(self._data, other), place.boolean)
        except Exception:
            pass
        return _long_way(_e.equal, self, other)

    def __ne__(self, other: Operand) -> Tensor:  # type: ignore[override]  # == and != compare elements
        place = self._place
        try:
            if isinstance(other, Operators) and other._place is place:
                out = _new(_class)
                out._data = place.not_equal(self._data, other._data)
                out._place = place.boolean
                return out
            if type(other) in place.scalars:
                return _class(place.not_equal(self._data, other), place.boolean)
        except Exception:
            pass
        return _long_way(_e.not_equal, self, other)

    # --- one operand -------------------------------------------------------------------------------------------

    def __neg__(self) -> Tensor:
        place = self._place
        try:
            return _class(place.negative(self._data), place)
        except Exception:
            return _e.negative(cast("Tensor", self))

    def __invert__(self) -> Tensor:
        place = self._place
        try:
            return _class(place.bitwise_invert(self._data), place)
        except Exception:
            return _e.bitwise_invert(cast("Tensor", self))

    def __pos__(self) -> Tensor:
        return _e.positive(cast("Tensor", self))

    def __abs__(self) -> Tensor:
        return _e.abs(cast("Tensor", self))

    # --- reflected and in place --------------------------------------------------------------------------------

    def __radd__(self, other: Operand) -> Tensor:
        return _long_way_reflected(_e.add, self, other)

    def __rsub__(self, other: Operand) -> Tensor:
        return _long_way_reflected(_e.subtract, self, other)

    def __rmul__(self, other: Operand) -> Tensor:
        return _long_way_reflected(_e.multiply, self, other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return _long_way_reflected(_e.divide, self, other)

    def __rfloordiv__(self, other: Operand) -> Tensor:
        return _long_way_reflected(_e.floor_divide, self, other)

    def __rmod__(self, other: Operand) -> Tensor:
        return _long_way_reflected(_e.remainder, self, other)

    def __rpow__(self, other: Operand) -> Tensor:
        return _long_way_reflected(_e.pow, self, other)

    def __rmatmul__(self, other: Operand) -> Tensor:
        return _long_way_reflected(_l.matmul, self, other)

    def __rand__(self, other: Operand) -> Tensor:
        return _long_way_reflected(_e.bitwise_and, self, other)

    def __ror__(self, other: Operand) -> Tensor:
        return _long_way_reflected(_e.bitwise_or, self, other)

    def __rxor__(self, other: Operand) -> Tensor:
        return _long_way_reflected(_e.bitwise_xor, self, other)

    def __rlshift__(self, other: Operand) -> Tensor:
        return _long_way_reflected(_e.bitwise_left_shift, self, other)

    def __rrshift__(self, other: Operand) -> Tensor:
        return _long_way_reflected(_e.bitwise_right_shift, self, other)

    def __iadd__(self, other: Operand) -> Self:
        return self._become(self + other, "__iadd__")

    def __isub__(self, other: Operand) -> Self:
        return self._become(self - other, "__isub__")

    def __imul__(self, other: Operand) -> Self:
        return self._become(self * other, "__imul__")

    def __itruediv__(self, other: Operand) -> Self:
        return self._become(self / other, "__itruediv__")

    def __ifloordiv__(self, other: Operand) -> Self:
        return self._become(self // other, "__ifloordiv__")

    def __imod__(self, other: Operand) -> Self:
        return self._become(self % other, "__imod__")

    def __ipow__(self, other: Operand) -> Self:
        return self._become(self**other, "__ipow__")

    def __imatmul__(self, other: Operand) -> Self:
        return self._become(self @ other, "__imatmul__")

    def __iand__(self, other: Operand) -> Self:
        return self._become(self & other, "__iand__")

    def __ior__(self, other: Operand) -> Self:
        return self._become(self | other, "__ior__")

    def __ixor__(self, other: Operand) -> Self:
        return self._become(self ^ other, "__ixor__")

    def __ilshift__(self, other: Operand) -> Self:
        return self._become(self << other, "__ilshift__")

    def __irshift__(self, other: Operand) -> Self:
        return self._become(self >> other, "__irshift__")

    def _become(self, value: Tensor, op: str) -> Self:
        conversion.check_in_place(cast("Tensor", self), value, op)
        views.write(cast("Tensor", self), value)
        return self

    # --- indexing ----------------------------------------------------------------------------------------------

    def __getitem__(self, key: object) -> Tensor:
        place = self._place
        try:
            if type(key) in _BASIC or (type(key) is tuple and _BASIC.issuperset(map(type, key))):
                return views.join(_class(place.getitem(self._data, key), place), cast("Tensor", self), (None, key))
        except Exception:
            pass
        return indexing.get(cast("Tensor", self), key)

    def __setitem__(self, key: object, value: Operand) -> None:
        self._become(indexing.put(cast("Tensor", self), key, value), "__setitem__")


def _long_way(function: Callable[..., Tensor], x: Operators, other: object) -> Tensor:
    return function(x, other) if conversion.is_operand(other) else NotImplemented


def _long_way_reflected(function: Callable[..., Tensor], x: Operators, other: object) -> Tensor:
    return function(other, x) if conversion.is_operand(other) else NotImplemented


_class: type[Tensor]
_new: Callable[[type[Tensor]], Tensor]


def install(cls: type[Tensor]) -> None:
    """Say which class the operators' results have: `Tensor`, which stands above this module."""
    global _class, _new
    _class = cls
    _new = cls.__new__  # without the call of __init__ an operator is a tenth faster
