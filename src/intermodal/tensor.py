"""`Tensor`: what it is, how it leaves for Python and other libraries, and its methods. The operators are in `operators`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from intermodal import conversion, methods, operators, views
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.operators import Operators, Place
from intermodal.ops import elementwise as _e, linalg as _l, manipulation as _m, reduction as _r, searching as _s

if TYPE_CHECKING:
    from types import ModuleType

    import numpy as np

    from intermodal.devices import DeviceLike
    from intermodal.ops.table import Shape

__all__ = ["Place", "Tensor"]


class Tensor(Operators):
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

    __slots__ = ("__weakref__", "_family")
    _family: tuple[views.Family, tuple[views.Step, ...]]  # set once there are views, by `views` alone
    __array_priority__: ClassVar[int] = 1000  # NumPy's own operators then leave the work to ours

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
        return conversion.to_dlpack(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

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


operators.install(Tensor)
