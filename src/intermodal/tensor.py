"""The hot path: `Tensor`, its operators, the same-place check and the call into the engine.

One small, fully typed module, so that it can be compiled. The common case (two tensors of one place) goes from
the operator to the engine's own function with one identity check in between; everything else, and every error,
goes through the op's public function, which checks, promotes and explains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from intermodal import conversion, indexing, methods, views
from intermodal.backend import Backend
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.ops import elementwise as _e, linalg as _l, manipulation as _m, reduction as _r, searching as _s

if TYPE_CHECKING:
    from types import ModuleType

    import numpy as np

    from intermodal.devices import DeviceLike
    from intermodal.ops.table import Operand, Shape

__all__ = ["Place", "Tensor"]

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


class Tensor:
    """An array on a device: a value with a shape, a dtype and a device.

    Make one with `im.asarray`, `im.zeros` and their kin. ``x[i] = v`` and ``x += y`` give this tensor, and every view of
    it, a new value, on every engine alike; memory that is shared with another library is never written.

    Example:
        >>> import intermodal as im
        >>> x = im.asarray([[1.0, 2.0], [3.0, 4.0]])
        >>> x @ x + 1
        Tensor([[ 8., 11.],
                [16., 23.]], dtype=float32, device=numpy:cpu)
    """

    __slots__ = ("__weakref__", "_data", "_family", "_place")
    _data: Any
    _place: Place
    _family: tuple[views.Family, tuple[views.Step, ...]]  # set once there are views, by `views` alone
    __hash__: ClassVar[None]  # type: ignore[assignment]  # == compares elements, so a tensor is no dictionary key
    __array_priority__: ClassVar[int] = 1000  # NumPy's own operators then leave the work to ours

    def __init__(self, data: Any, place: Place) -> None:
        self._data = data
        self._place = place

    # --- what it is --------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> DType:
        """The data type of the elements."""
        return self._place.dtype

    @property
    def device(self) -> Device:
        """Where the data is."""
        return self._place.device

    @property
    def shape(self) -> Shape:
        """The size of each axis."""
        return self._place.backend.shape(self._data)

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements there are."""
        total = 1
        for n in self.shape:
            total *= n
        return total

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix."""
        return _l.transpose(self)

    @property
    def mT(self) -> Tensor:
        """The transpose of the last two axes."""
        return _l.matrix_transpose(self)

    # --- arithmetic --------------------------------------------------------------------------------------------

    def __add__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.add(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return Tensor(place.add(self._data, other), place)
        except Exception:
            pass
        return _e.add(self, other) if conversion.is_operand(other) else NotImplemented

    def __sub__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.subtract(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return Tensor(place.subtract(self._data, other), place)
        except Exception:
            pass
        return _e.subtract(self, other) if conversion.is_operand(other) else NotImplemented

    def __mul__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.multiply(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return Tensor(place.multiply(self._data, other), place)
        except Exception:
            pass
        return _e.multiply(self, other) if conversion.is_operand(other) else NotImplemented

    def __truediv__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.divide(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return Tensor(place.divide(self._data, other), place)
        except Exception:
            pass
        return _e.divide(self, other) if conversion.is_operand(other) else NotImplemented

    def __floordiv__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.floor_divide(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return Tensor(place.floor_divide(self._data, other), place)
        except Exception:
            pass
        return _e.floor_divide(self, other) if conversion.is_operand(other) else NotImplemented

    def __mod__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.remainder(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return Tensor(place.remainder(self._data, other), place)
        except Exception:
            pass
        return _e.remainder(self, other) if conversion.is_operand(other) else NotImplemented

    def __pow__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.pow(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return Tensor(place.pow(self._data, other), place)
        except Exception:
            pass
        return _e.pow(self, other) if conversion.is_operand(other) else NotImplemented

    def __matmul__(self, other: Tensor) -> Tensor:
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.matmul(self._data, other._data)
                out._place = place
                return out
        except Exception:
            pass
        return _l.matmul(self, other) if conversion.is_operand(other) else NotImplemented

    def __and__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.bitwise_and(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return Tensor(place.bitwise_and(self._data, other), place)
        except Exception:
            pass
        return _e.bitwise_and(self, other) if conversion.is_operand(other) else NotImplemented

    def __or__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.bitwise_or(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return Tensor(place.bitwise_or(self._data, other), place)
        except Exception:
            pass
        return _e.bitwise_or(self, other) if conversion.is_operand(other) else NotImplemented

    def __xor__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.bitwise_xor(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return Tensor(place.bitwise_xor(self._data, other), place)
        except Exception:
            pass
        return _e.bitwise_xor(self, other) if conversion.is_operand(other) else NotImplemented

    def __lshift__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.bitwise_left_shift(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return Tensor(place.bitwise_left_shift(self._data, other), place)
        except Exception:
            pass
        return _e.bitwise_left_shift(self, other) if conversion.is_operand(other) else NotImplemented

    def __rshift__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.bitwise_right_shift(self._data, other._data)
                out._place = place
                return out
            if type(other) in place.scalars:
                return Tensor(place.bitwise_right_shift(self._data, other), place)
        except Exception:
            pass
        return _e.bitwise_right_shift(self, other) if conversion.is_operand(other) else NotImplemented

    # --- comparison --------------------------------------------------------------------------------------------

    def __lt__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.less(self._data, other._data)
                out._place = place.boolean
                return out
            if type(other) in place.scalars:
                return Tensor(place.less(self._data, other), place.boolean)
        except Exception:
            pass
        return _e.less(self, other) if conversion.is_operand(other) else NotImplemented

    def __le__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.less_equal(self._data, other._data)
                out._place = place.boolean
                return out
            if type(other) in place.scalars:
                return Tensor(place.less_equal(self._data, other), place.boolean)
        except Exception:
            pass
        return _e.less_equal(self, other) if conversion.is_operand(other) else NotImplemented

    def __gt__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.greater(self._data, other._data)
                out._place = place.boolean
                return out
            if type(other) in place.scalars:
                return Tensor(place.greater(self._data, other), place.boolean)
        except Exception:
            pass
        return _e.greater(self, other) if conversion.is_operand(other) else NotImplemented

    def __ge__(self, other: Operand) -> Tensor:
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.greater_equal(self._data, other._data)
                out._place = place.boolean
                return out
            if type(other) in place.scalars:
                return Tensor(place.greater_equal(self._data, other), place.boolean)
        except Exception:
            pass
        return _e.greater_equal(self, other) if conversion.is_operand(other) else NotImplemented

    def __eq__(self, other: Operand) -> Tensor:  # type: ignore[override]  # == and != compare elements
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.equal(self._data, other._data)
                out._place = place.boolean
                return out
            if type(other) in place.scalars:
                return Tensor(place.equal(self._data, other), place.boolean)
        except Exception:
            pass
        return _e.equal(self, other) if conversion.is_operand(other) else NotImplemented

    def __ne__(self, other: Operand) -> Tensor:  # type: ignore[override]  # == and != compare elements
        place = self._place
        try:
            if type(other) is Tensor and other._place is place:
                out = _new(Tensor)
                out._data = place.not_equal(self._data, other._data)
                out._place = place.boolean
                return out
            if type(other) in place.scalars:
                return Tensor(place.not_equal(self._data, other), place.boolean)
        except Exception:
            pass
        return _e.not_equal(self, other) if conversion.is_operand(other) else NotImplemented

    # --- one operand -------------------------------------------------------------------------------------------

    def __neg__(self) -> Tensor:
        place = self._place
        try:
            return Tensor(place.negative(self._data), place)
        except Exception:
            return _e.negative(self)

    def __invert__(self) -> Tensor:
        place = self._place
        try:
            return Tensor(place.bitwise_invert(self._data), place)
        except Exception:
            return _e.bitwise_invert(self)

    def __pos__(self) -> Tensor:
        return _e.positive(self)

    def __abs__(self) -> Tensor:
        return _e.abs(self)

    # --- reflected and in place --------------------------------------------------------------------------------

    def __radd__(self, other: Operand) -> Tensor:
        return _e.add(other, self) if conversion.is_operand(other) else NotImplemented

    def __rsub__(self, other: Operand) -> Tensor:
        return _e.subtract(other, self) if conversion.is_operand(other) else NotImplemented

    def __rmul__(self, other: Operand) -> Tensor:
        return _e.multiply(other, self) if conversion.is_operand(other) else NotImplemented

    def __rtruediv__(self, other: Operand) -> Tensor:
        return _e.divide(other, self) if conversion.is_operand(other) else NotImplemented

    def __rfloordiv__(self, other: Operand) -> Tensor:
        return _e.floor_divide(other, self) if conversion.is_operand(other) else NotImplemented

    def __rmod__(self, other: Operand) -> Tensor:
        return _e.remainder(other, self) if conversion.is_operand(other) else NotImplemented

    def __rpow__(self, other: Operand) -> Tensor:
        return _e.pow(other, self) if conversion.is_operand(other) else NotImplemented

    def __rmatmul__(self, other: Tensor) -> Tensor:
        return _l.matmul(other, self) if conversion.is_operand(other) else NotImplemented

    def __rand__(self, other: Operand) -> Tensor:
        return _e.bitwise_and(other, self) if conversion.is_operand(other) else NotImplemented

    def __ror__(self, other: Operand) -> Tensor:
        return _e.bitwise_or(other, self) if conversion.is_operand(other) else NotImplemented

    def __rxor__(self, other: Operand) -> Tensor:
        return _e.bitwise_xor(other, self) if conversion.is_operand(other) else NotImplemented

    def __rlshift__(self, other: Operand) -> Tensor:
        return _e.bitwise_left_shift(other, self) if conversion.is_operand(other) else NotImplemented

    def __rrshift__(self, other: Operand) -> Tensor:
        return _e.bitwise_right_shift(other, self) if conversion.is_operand(other) else NotImplemented

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

    def __imatmul__(self, other: Tensor) -> Self:
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
        conversion.check_in_place(self, value, op)
        views.write(self, value)
        return self

    # --- indexing ----------------------------------------------------------------------------------------------

    def __getitem__(self, key: object) -> Tensor:
        place = self._place
        try:
            if type(key) in _BASIC or (type(key) is tuple and _BASIC.issuperset(map(type, key))):
                return views.join(Tensor(place.getitem(self._data, key), place), self, (None, key))
        except Exception:
            pass
        return indexing.get(self, key)

    def __setitem__(self, key: object, value: Operand) -> None:
        self._become(indexing.put(self, key, value), "__setitem__")

    def __len__(self) -> int:
        return conversion.length(self)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(_m.unstack(self)) if conversion.length(self) else iter(())

    # --- out to Python, NumPy and other libraries --------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(conversion.item(self, "bool"))

    def __int__(self) -> int:
        return int(conversion.item(self, "int"))  # type: ignore[arg-type]  # a complex raises there

    def __float__(self) -> float:
        return float(conversion.item(self, "float"))  # type: ignore[arg-type]  # a complex raises there

    def __complex__(self) -> complex:
        return complex(conversion.item(self, "complex"))

    def __index__(self) -> int:
        return conversion.index(self)

    def item(self) -> bool | int | float | complex:
        """The one element as a Python scalar."""
        return conversion.item(self, "item")

    def tolist(self) -> Any:
        """The elements as nested lists of Python scalars; a scalar for a 0-d tensor."""
        return self.numpy().tolist()

    def numpy(self) -> np.ndarray[Any, Any]:
        """The data as a NumPy array, read-only where it shares memory with this tensor."""
        return conversion.to_numpy(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return conversion.to_array(self, dtype, copy)

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        return conversion.namespace(api_version)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        return self._place.backend.to_dlpack(self._data, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._place.backend.dlpack_device(self._data)

    def to(self, device: DeviceLike, *, copy: bool | None = None) -> Tensor:
        """This tensor on another device.

        Args:
            device: where to.
            copy: True copies always, False never (and raises CopyRequiredError), None where needed.
        """
        return conversion.to_device(self, device, copy)

    def to_device(self, device: DeviceLike, /, *, stream: object = None) -> Tensor:
        """The Array API's name for `to`; a stream is for engines that have them."""
        return conversion.to_device(self, device, None, stream)

    def __reduce__(self) -> tuple[object, ...]:
        return conversion.rebuild, (self.numpy(), str(self.device))

    def __copy__(self) -> Tensor:
        return Tensor(self._data, self._place)

    def __deepcopy__(self, memo: object) -> Tensor:
        return Tensor(self._data, self._place)  # a value is never changed under another's feet, so sharing it is a copy

    def __repr__(self) -> str:
        return conversion.show(self)

    # --- ops that are usual as methods: the public functions, or their wider forms --------------------------------

    all = methods.all
    any = methods.any
    argmax = methods.argmax
    argmin = methods.argmin
    argsort = _s.argsort
    astype = _m.astype
    clip = _e.clip
    conj = _e.conj
    cumulative_prod = _r.cumulative_prod
    cumulative_sum = _r.cumulative_sum
    diagonal = _l.diagonal
    dot = _l.matmul
    exp = _e.exp
    expand_dims = _m.expand_dims
    flip = _m.flip
    log = _e.log
    max = methods.max
    mean = methods.mean
    min = methods.min
    nonzero = _s.nonzero
    permute_dims = methods.permute_dims
    prod = methods.prod
    repeat = _m.repeat
    reshape = methods.reshape
    round = _e.round
    sort = _s.sort
    sqrt = _e.sqrt
    squeeze = methods.squeeze
    std = methods.std
    sum = methods.sum
    take = _s.take
    trace = _l.trace
    var = methods.var

    @property
    def real(self) -> Tensor:
        """The real part."""
        return _e.real(self)

    @property
    def imag(self) -> Tensor:
        """The imaginary part."""
        return _e.imag(self)


# Without the call of __init__ an operator is a tenth faster.
_new: Final[Callable[[type[Tensor]], Tensor]] = Tensor.__new__
