"""`Capture`: a backend whose arrays are `Symbol`s and whose ops become entries of a `Trace`. Nothing is computed.

It stands for the engine of one device: its tensors say that they are there, and it stores what that device stores. What
the engine computed before the trace, or computes beside it, enters as a constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NoReturn

import numpy as np

from intermodal import dtypes
from intermodal.autodiff.keeping import origin
from intermodal.backend import Array, Backend, DTypeUsage, Native, backend_of
from intermodal.backend.registry import on_unregister
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.errors import CaptureError, UnsupportedError
from intermodal.graph.ir import Attribute, ConstantIr, Operand, OperationIr, TensorIr
from intermodal.graph.sizes import AnySize, Size
from intermodal.ops.table import Op, Spec
from intermodal.places import made, traced
from intermodal.tensor import Place, Tensor

__all__ = ["Symbol", "Trace", "current", "tracing"]

_SCALARS: Final = (bool, int, float, complex)
current: Final[ContextVar[Trace | None]] = ContextVar("intermodal_trace", default=None)


class Symbol:
    """A tensor of a trace: its number, and what is known of it. A size that depends on data is None."""

    __slots__ = ("id", "spec", "trace")

    def __init__(self, id: int, spec: Spec, trace: Trace) -> None:
        self.id, self.spec, self.trace = id, spec, trace


class Trace:
    """The ops of one run of a function, as they come.

    Where it lowers, an op that the backend lacks is taken down as the ops of its body, and each with the backend's native.
    """

    def __init__(self, device: Device, stores: Backend, lowers: bool = False) -> None:
        self.device, self.stores, self.lowers = device, stores, lowers
        self.operations: list[OperationIr] = []
        self.natives: list[Native] = []
        self.constants: list[ConstantIr] = []
        self._lifted: dict[int, tuple[Symbol, Array]] = {}  # the array is held, so that its id stays its own
        self._count = 0

    def place(self, dtype: DType) -> Place:
        """Where tensors of this trace lie."""
        return _place(self.device, self.stores, self.lowers, dtype)

    def symbol(self, spec: Spec) -> Symbol:
        self._count += 1
        return Symbol(self._count - 1, spec, self)

    def tensor(self, spec: Spec) -> Tensor:
        """A new operand of the traced function."""
        return Tensor(self.symbol(spec), self.place(spec.dtype))

    def constant(self, value: np.ndarray[Any, Any]) -> Symbol:
        """A value that is part of the graph."""
        held = np.ascontiguousarray(value).reshape(value.shape)
        made = self.symbol(Spec(held.shape, dtypes.as_dtype(held.dtype)))
        self.constants.append(ConstantIr(made.id, held))
        return made

    def lift(self, array: Array) -> Symbol:
        """An array of the engine as a constant, the same one each time."""
        found = self._lifted.get(id(array))
        if found is None:
            host = array if isinstance(array, np.ndarray) else backend_of(self.device.engine).to_host(array)
            found = self._lifted[id(array)] = self.constant(np.array(host)), array
        return found[0]

    def named(self, array: Array) -> TensorIr:
        """An array as the graph names it."""
        symbol = array if isinstance(array, Symbol) else self.lift(array)
        if symbol.trace is not self:
            raise CaptureError(
                f"a tensor of another trace, which has ended, is used here. Return it from the traced function instead of keeping it.{_where()}"
            )
        return TensorIr(symbol.id, _sizes(symbol), symbol.spec.dtype)

    def add(
        self, row: Op, arrays: Sequence[Any], attrs: Mapping[str, object], outputs: Sequence[Spec], native: Native
    ) -> list[Symbol]:
        """Take an op down; what it will make."""
        inputs = tuple(self._operand(a) for a in arrays)
        made = [self.symbol(spec) for spec in outputs]
        plain = {name: _attribute(row, name, value) for name, value in attrs.items() if name != "device"}
        if row.infer is None and "dtype" in plain:  # it has no rule that would bring a name, or None, to the dtype that is meant
            plain["dtype"] = outputs[0].dtype
        self.operations.append(OperationIr(row.name, inputs, tuple(self.named(m) for m in made), plain))
        self.natives.append(native)
        return made

    def _operand(self, value: Any) -> Operand:
        if value is None or type(value) in _SCALARS:
            return value  # type: ignore[no-any-return]  # its type was just read
        return tuple(self.named(v) for v in value) if isinstance(value, list) else self.named(value)


def _sizes(symbol: Symbol) -> tuple[AnySize, ...]:
    return tuple(Size.named(f"_{symbol.id}_{i}") if n is None else n for i, n in enumerate(symbol.spec.shape))


def _attribute(row: Op, name: str, value: object) -> Attribute:
    if isinstance(value, (list, tuple)):
        return tuple(_attribute(row, name, v) for v in value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, complex, str, DType, slice)):
        return value
    raise CaptureError(f"{row.name}: {name} is a {type(value).__name__}, which a graph cannot hold. Give plain values.")


def _where() -> str:
    found = origin()
    return f" It happens here:\n{found}" if found else ""


class Capture(Backend):
    """The backend of traces on one device."""

    defers = True
    holds_data = False
    lifts = True

    def __init__(self, device: Device, stores: Backend, lowers: bool) -> None:
        super().__init__()
        self.engine = device.engine  # type: ignore[misc]  # it stands for that engine
        self.takes_scalars = stores.takes_scalars or not lowers  # type: ignore[misc]
        self.device, self.stores, self.lowers = device, stores, lowers

    def devices(self) -> Sequence[Device]:
        return (self.device,)

    def dtype_usage(self, device: Device, dtype: DType) -> DTypeUsage:
        return self.stores.dtype_usage(self.stores.devices()[0] if self.stores.engine == "meta" else device, dtype)

    def advice(self, device: Device, dtype: DType) -> str:
        return self.stores.advice(device, dtype)

    def shape(self, array: Array) -> tuple[int, ...]:
        if not isinstance(array, Symbol):
            return backend_of(self.device.engine).shape(array)
        if None in array.spec.shape:
            raise CaptureError(
                f"a size of this tensor depends on data, so nothing can be computed with it inside a trace; it can only be returned.{_where()}"
            )
        return array.spec.shape  # type: ignore[no-any-return]  # no size is None

    def from_host(self, data: np.ndarray[Any, Any], device: Device, *, copy: bool | None = None) -> Array:
        return _active().constant(np.array(data))

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        if not isinstance(array, Symbol):
            return backend_of(self.device.engine).to_host(array)
        raise CaptureError(
            "the value of a tensor is asked for inside a trace, where it has none yet: a Python if, while, int() or float() on it. "
            f"Use im.where for choices, or compute the value outside.{_where()}"
        )

    def native(self, row: Op, dtype: DType) -> Native | None:
        if not self.lowers:
            return None if row.decompose is not None and self._opens(row, dtype) else _never_called
        # What draws numbers beside its operands is taken apart, so that all drawing is done by ops without operands.
        drawn = row.takes_seed and row.tensor_params and row.decompose is not None
        return None if drawn else self.stores.native(row, dtype)

    def _opens(self, row: Op, dtype: DType) -> bool:
        """Whether the ops of a row's body are taken down in its place."""
        if row.movement and row.multiple:
            return True  # views of the operand, of which only the ops inside can say which
        return row.infer is None and DTypeUsage.ARITHMETIC not in self.dtype_usage(self.device, dtype)  # they cast it first

    def execute(
        self, row: Op, arrays: Sequence[Any], attrs: Mapping[str, object], outputs: Sequence[Spec], native: Native
    ) -> Sequence[Array]:
        return _active().add(row, arrays, attrs, outputs, native)


def _never_called(*_: object, **__: object) -> NoReturn:
    raise AssertionError("a trace runs no native")


def _active() -> Trace:
    trace = current.get()
    if trace is None:
        raise CaptureError(
            f"a tensor of a trace is used after the trace has ended. Return it from the traced function instead of keeping it.{_where()}"
        )
    return trace


@contextmanager
def tracing(trace: Trace) -> Iterator[None]:
    """Take down, inside the block, every op on the trace's tensors and every new tensor on its device."""
    token = current.set(trace)
    try:
        with traced(trace):
            yield
    finally:
        current.reset(token)


# --- places ----------------------------------------------------------------------------------------------------------

_backends: dict[tuple[Device, Backend, bool], Capture] = {}
_places: dict[tuple[Capture, DType], Place] = {}  # these two grow with the devices and dtypes that are traced


def _place(device: Device, stores: Backend, lowers: bool, dtype: DType) -> Place:
    backend = _backends.get((device, stores, lowers))
    if backend is None:
        backend = _backends.setdefault((device, stores, lowers), Capture(device, stores, lowers))
    found = _places.get((backend, dtype))
    if found is None:
        if DTypeUsage.STORAGE not in backend.dtype_usage(device, dtype):
            raise UnsupportedError(f"{device} does not store {dtype}. {backend.advice(device, dtype)}")
        found = made(backend, device, dtype, lambda other: _place(device, stores, lowers, other))
        found = _places.setdefault((backend, dtype), found)
    return found


def _forget(engine: str) -> None:
    gone = [key for key, backend in _backends.items() if engine in (backend.engine, backend.stores.engine)]
    for key in gone:
        backend = _backends.pop(key)
        for place in [p for p in _places if p[0] is backend]:
            del _places[place]


on_unregister(_forget)
