"""`Tensor` and its `Place`: what a tensor is, its operators, and how it leaves for Python and other libraries.

This is the hot path, in one typed module, which the wheel carries compiled by mypyc; the same source runs as it stands
where no compiler is. The common case (two tensors of one place) goes from the operator to the engine's own function
with one identity check in between; everything else, and every error, goes through the op's public function, which
checks, promotes and explains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final, Never, Self, TypeAlias, final

from intermodal import conversion, indexing, methods, views
from intermodal.backend import Backend
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.ops import elementwise as _e, linalg as _l, manipulation as _m, reduction as _r, searching as _s

if TYPE_CHECKING:
    from types import ModuleType

    import numpy as np

    from intermodal.ops.table import Operand, Shape

__all__ = ["ARITHMETIC", "COMPARISONS", "UNARY", "Place", "Tensor"]

# Never stands for NotImplemented, by which an operator leaves the answer to the other operand.
Answer: TypeAlias = "Tensor | Never"  # noqa: RUF020  # compiled, a mere Tensor would be checked to be one
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
        "at",
        "backend",
        "boolean",
        "device",
        "dtype",
        "getitem",
        "natives",
        "plain",
        "scalars",
        "short",
        *ARITHMETIC,
        *COMPARISONS,
        *UNARY,
    )
    device: Device
    dtype: DType
    backend: Backend
    plain: Place  # the place below a layer: where its values are without it; of a place without a layer, itself
    at: Callable[[DType], Place]  # where a result of another dtype goes
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


@final
class Tensor:  # noqa: D101  # its docstring is assigned, for one proper does not come through the compiler
    __doc__: ClassVar[str] = (  # type: ignore[misc]  # object declares it for instances
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
    )

    __slots__ = ("_raw", "_share", "_spot")
    _raw: Any  # the engine's array; of a tensor with views it may be out of date, `_data` is not
    _spot: Place  # so may this be, if a tracked value was written; `_place` is not
    _share: views.Share | None  # what it shares with its views, once there are any
    __hash__: ClassVar[None]  # type: ignore[assignment]  # == compares elements, so a tensor is no dictionary key
    __array_priority__: ClassVar[int] = 1000  # NumPy's own operators then leave the work to ours

    def __init__(self, data: Any, place: Place) -> None:
        self._raw = data
        self._spot = place
        self._share = None

    @property
    def _data(self) -> Any:
        if self._share is not None:
            views.settle(self)
        return self._raw

    @property
    def _place(self) -> Place:
        if self._share is not None:
            views.settle(self)
        return self._spot

    # --- what it is --------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> DType:
        """The data type of the elements."""
        return self._spot.dtype  # a write changes neither dtype nor device

    @property
    def device(self) -> Device:
        """Where the data is."""
        return self._spot.device

    @property
    def is_tracked(self) -> bool:
        """Whether derivatives lead back from here."""
        return self._place.plain is not self._place and self._data.node is not None

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

    def __add__(self, other: Operand) -> Answer:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.add(self._raw, other._raw), place)
            elif type(other) in place.scalars:
                return Tensor(place.add(self._raw, other), place)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.add(self, other)

    def __sub__(self, other: Operand) -> Answer:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.subtract(self._raw, other._raw), place)
            elif type(other) in place.scalars:
                return Tensor(place.subtract(self._raw, other), place)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.subtract(self, other)

    def __mul__(self, other: Operand) -> Answer:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.multiply(self._raw, other._raw), place)
            elif type(other) in place.scalars:
                return Tensor(place.multiply(self._raw, other), place)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.multiply(self, other)

    def __truediv__(self, other: Operand) -> Answer:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.divide(self._raw, other._raw), place)
            elif type(other) in place.scalars:
                return Tensor(place.divide(self._raw, other), place)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.divide(self, other)

    def __floordiv__(self, other: Operand) -> Answer:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.floor_divide(self._raw, other._raw), place)
            elif type(other) in place.scalars:
                return Tensor(place.floor_divide(self._raw, other), place)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.floor_divide(self, other)

    def __mod__(self, other: Operand) -> Answer:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.remainder(self._raw, other._raw), place)
            elif type(other) in place.scalars:
                return Tensor(place.remainder(self._raw, other), place)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.remainder(self, other)

    def __pow__(self, other: Operand) -> Answer:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.pow(self._raw, other._raw), place)
            elif type(other) in place.scalars:
                return Tensor(place.pow(self._raw, other), place)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.pow(self, other)

    def __matmul__(self, other: Operand) -> Answer:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.matmul(self._raw, other._raw), place)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _l.matmul(self, other)  # type: ignore[arg-type]  # a scalar is refused there

    def __and__(self, other: Operand) -> Answer:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.bitwise_and(self._raw, other._raw), place)
            elif type(other) in place.scalars:
                return Tensor(place.bitwise_and(self._raw, other), place)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.bitwise_and(self, other)

    def __or__(self, other: Operand) -> Answer:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.bitwise_or(self._raw, other._raw), place)
            elif type(other) in place.scalars:
                return Tensor(place.bitwise_or(self._raw, other), place)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.bitwise_or(self, other)

    def __xor__(self, other: Operand) -> Answer:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.bitwise_xor(self._raw, other._raw), place)
            elif type(other) in place.scalars:
                return Tensor(place.bitwise_xor(self._raw, other), place)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.bitwise_xor(self, other)

    def __lshift__(self, other: Operand) -> Answer:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.bitwise_left_shift(self._raw, other._raw), place)
            elif type(other) in place.scalars:
                return Tensor(place.bitwise_left_shift(self._raw, other), place)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.bitwise_left_shift(self, other)

    def __rshift__(self, other: Operand) -> Answer:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.bitwise_right_shift(self._raw, other._raw), place)
            elif type(other) in place.scalars:
                return Tensor(place.bitwise_right_shift(self._raw, other), place)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.bitwise_right_shift(self, other)

    # --- comparison --------------------------------------------------------------------------------------------

    def __lt__(self, other: Operand) -> Answer:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.less(self._raw, other._raw), place.boolean)
            elif type(other) in place.scalars:
                return Tensor(place.less(self._raw, other), place.boolean)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.less(self, other)

    def __le__(self, other: Operand) -> Answer:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.less_equal(self._raw, other._raw), place.boolean)
            elif type(other) in place.scalars:
                return Tensor(place.less_equal(self._raw, other), place.boolean)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.less_equal(self, other)

    def __gt__(self, other: Operand) -> Answer:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.greater(self._raw, other._raw), place.boolean)
            elif type(other) in place.scalars:
                return Tensor(place.greater(self._raw, other), place.boolean)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.greater(self, other)

    def __ge__(self, other: Operand) -> Answer:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.greater_equal(self._raw, other._raw), place.boolean)
            elif type(other) in place.scalars:
                return Tensor(place.greater_equal(self._raw, other), place.boolean)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.greater_equal(self, other)

    def __eq__(self, other: Operand) -> Answer:  # type: ignore[override]  # == and != compare elements
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.equal(self._raw, other._raw), place.boolean)
            elif type(other) in place.scalars:
                return Tensor(place.equal(self._raw, other), place.boolean)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.equal(self, other)

    def __ne__(self, other: Operand) -> Answer:  # type: ignore[override]  # == and != compare elements
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            if isinstance(other, Tensor):
                if other._share is not None:
                    views.settle(other)
                if other._spot is place:
                    return Tensor(place.not_equal(self._raw, other._raw), place.boolean)
            elif type(other) in place.scalars:
                return Tensor(place.not_equal(self._raw, other), place.boolean)
        except Exception:
            pass
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.not_equal(self, other)

    # --- one operand -------------------------------------------------------------------------------------------

    def __neg__(self) -> Tensor:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            return Tensor(place.negative(self._raw), place)
        except Exception:
            return _e.negative(self)

    def __invert__(self) -> Tensor:
        try:
            if self._share is not None:
                views.settle(self)
            place = self._spot
            return Tensor(place.bitwise_invert(self._raw), place)
        except Exception:
            return _e.bitwise_invert(self)

    def __pos__(self) -> Tensor:
        return _e.positive(self)

    def __abs__(self) -> Tensor:
        return _e.abs(self)

    # --- reflected and in place --------------------------------------------------------------------------------

    def __radd__(self, other: Operand) -> Answer:
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.add(other, self)

    def __rsub__(self, other: Operand) -> Answer:
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.subtract(other, self)

    def __rmul__(self, other: Operand) -> Answer:
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.multiply(other, self)

    def __rtruediv__(self, other: Operand) -> Answer:
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.divide(other, self)

    def __rfloordiv__(self, other: Operand) -> Answer:
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.floor_divide(other, self)

    def __rmod__(self, other: Operand) -> Answer:
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.remainder(other, self)

    def __rpow__(self, other: Operand) -> Answer:
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.pow(other, self)

    def __rmatmul__(self, other: Operand) -> Answer:
        if not conversion.is_operand(other):
            return NotImplemented
        return _l.matmul(other, self)  # type: ignore[arg-type]  # a scalar is refused there

    def __rand__(self, other: Operand) -> Answer:
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.bitwise_and(other, self)

    def __ror__(self, other: Operand) -> Answer:
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.bitwise_or(other, self)

    def __rxor__(self, other: Operand) -> Answer:
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.bitwise_xor(other, self)

    def __rlshift__(self, other: Operand) -> Answer:
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.bitwise_left_shift(other, self)

    def __rrshift__(self, other: Operand) -> Answer:
        if not conversion.is_operand(other):
            return NotImplemented
        return _e.bitwise_right_shift(other, self)

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
        conversion.check_in_place(self, value, op)
        views.write(self, value)
        return self

    # --- indexing ----------------------------------------------------------------------------------------------

    def __getitem__(self, key: object) -> Tensor:
        try:
            if type(key) in _BASIC or (type(key) is tuple and _BASIC.issuperset(map(type, key))):
                place = self._place
                return views.join(Tensor(place.getitem(self._raw, key), place), self, (None, key))
        except Exception:
            pass
        return indexing.get(self, key)

    def __setitem__(self, key: object, value: Operand) -> None:
        self._become(indexing.put(self, key, value), "__setitem__")

    # --- a sequence of its first axis ----------------------------------------------------------------------------

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
        return conversion.to_dlpack(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._place.backend.dlpack_device(self._data)

    def __reduce__(self) -> tuple[object, ...]:
        return conversion.rebuild, (self.numpy(), str(self.device))

    def __copy__(self) -> Tensor:
        return Tensor(self._data, self._place)

    def __deepcopy__(self, memo: object) -> Tensor:
        return Tensor(self._data, self._place)  # a value is never changed under another's feet, so sharing it is a copy

    def __repr__(self) -> str:
        return conversion.show(self)

    # --- ops that are usual as methods: the public functions, or their wider forms --------------------------------

    all: ClassVar = methods.all
    any: ClassVar = methods.any
    argmax: ClassVar = methods.argmax
    argmin: ClassVar = methods.argmin
    argsort: ClassVar = _s.argsort
    astype: ClassVar = _m.astype
    backward: ClassVar = methods.backward
    clip: ClassVar = _e.clip
    conj: ClassVar = _e.conj
    cumulative_prod: ClassVar = _r.cumulative_prod
    cumulative_sum: ClassVar = _r.cumulative_sum
    detach: ClassVar = methods.detach
    diagonal: ClassVar = _l.diagonal
    dot: ClassVar = _l.matmul
    exp: ClassVar = _e.exp
    expand_dims: ClassVar = _m.expand_dims
    flip: ClassVar = _m.flip
    log: ClassVar = _e.log
    item: ClassVar = methods.item
    max: ClassVar = methods.max
    mean: ClassVar = methods.mean
    min: ClassVar = methods.min
    nonzero: ClassVar = _s.nonzero
    numpy: ClassVar = methods.numpy
    permute_dims: ClassVar = methods.permute_dims
    prod: ClassVar = methods.prod
    register_hook: ClassVar = methods.register_hook
    repeat: ClassVar = _m.repeat
    require_grad: ClassVar = methods.require_grad
    reshape: ClassVar = methods.reshape
    retain_grad: ClassVar = methods.retain_grad
    round: ClassVar = _e.round
    sort: ClassVar = _s.sort
    sqrt: ClassVar = _e.sqrt
    squeeze: ClassVar = methods.squeeze
    std: ClassVar = methods.std
    sum: ClassVar = methods.sum
    take: ClassVar = _s.take
    to: ClassVar = methods.to
    to_device: ClassVar = methods.to_device
    tolist: ClassVar = methods.tolist
    trace: ClassVar = _l.trace
    var: ClassVar = methods.var

    @property
    def real(self) -> Tensor:
        """The real part."""
        return _e.real(self)

    @property
    def imag(self) -> Tensor:
        """The imaginary part."""
        return _e.imag(self)


# Compiled, a class has no slot for __index__ until it is set from outside (mypyc 2.4 fills every other one used here).
setattr(Tensor, "__index__", conversion.index)  # noqa: B010  # an assignment is no plainer: it has to be excused to the type checker
