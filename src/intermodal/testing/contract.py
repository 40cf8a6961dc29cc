"""The checks of a backend's methods besides ops: devices, dtypes, host transfer, seeds, memory, DLPack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from intermodal.backend import Backend, DTypeUsage, backend_of
from intermodal.conversion import asarray
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.errors import CopyRequiredError, ExchangeError, IntermodalError, UnsupportedError
from intermodal.ops.elementwise import add, multiply
from intermodal.ops.random import uniform
from intermodal.testing.samples import Draw, HostArray

__all__ = ["Check", "contract_checks"]


class Check(NamedTuple):
    """One check of a backend: the method, the dtype it is about, and the function that complains or is silent."""

    method: str
    dtype: str
    run: Callable[[], str | None]
    call: str


def contract_checks(device: Device, chosen: Sequence[DType]) -> Iterator[Check]:
    """All checks of a device's backend, those of dtypes for the ones chosen."""
    backend = backend_of(device.engine)
    for method, check in _METHODS.items():
        yield Check(method, "", lambda check=check: check(backend, device), f"backend_of({device.engine!r}).{method}")  # type: ignore[misc]  # mypy reads the default as an argument
    for dtype in chosen:
        for method, typed in _BY_DTYPE.items():
            yield Check(
                method,
                str(dtype),
                lambda typed=typed, dtype=dtype: typed(backend, device, dtype),  # type: ignore[misc]  # mypy reads the defaults as arguments
                f"backend_of({device.engine!r}).{method} of {dtype} on {str(device)!r}",
            )


# --- once for each device ----------------------------------------------------------------------------------------


def _devices(backend: Backend, device: Device) -> str | None:
    there = backend.devices()
    if device not in there:
        return f"{device} is not among its devices {', '.join(map(str, there))}"
    foreign = [str(d) for d in there if d.engine != backend.engine]
    return f"devices of another engine: {', '.join(foreign)}" if foreign else None


def _device_count(backend: Backend, device: Device) -> str | None:
    wanted = sum(d.kind == device.kind for d in backend.devices())
    found = backend.device_count(device.kind)
    return None if found == wanted else f"{found} devices of kind {device.kind!r}, but devices() lists {wanted}"


def _name(backend: Backend, device: Device) -> str | None:
    name: object = backend.name(device)
    return None if isinstance(name, str) and name else f"the name is {name!r}, not a text"


def _seed(backend: Backend, device: Device) -> str | None:
    streams = []
    for seed in (5, 5, 6):
        backend.seed(device, seed)
        streams.append(([backend.next_seed(device) for _ in range(3)], uniform((4,), device=device).numpy().tolist()))
    if streams[0] != streams[1]:
        return "the same seed starts another stream the second time"
    if streams[0] == streams[2]:
        return "another seed starts the same stream"
    return None if len(set(streams[0][0])) == 3 else "a stream repeats its seeds"


def _sync(backend: Backend, device: Device) -> str | None:
    x = _numbers(device)
    y = add(x, x)
    backend.sync(device)
    return _same(y.numpy(), x.numpy() * 2)


def _memory_cleanup(backend: Backend, device: Device) -> str | None:
    x = _numbers(device)
    before = np.array(x.numpy())
    backend.memory_cleanup(device)
    return _same(x.numpy(), before)


def _persistent_allocations(backend: Backend, device: Device) -> str | None:
    with backend.persistent_allocations(device):
        x = _numbers(device)
        y = add(x, x)
    return _same(y.numpy(), x.numpy() * 2)


def _transaction(backend: Backend, device: Device) -> str | None:
    tensors = [_numbers(device), asarray(np.arange(6).reshape(2, 3), device=device), asarray(np.asarray(True), device=device)]
    read = backend.transaction([t._data for t in tensors])
    if len(read) != len(tensors):
        return f"{len(read)} arrays instead of {len(tensors)}"
    return next((wrong for r, t in zip(read, tensors, strict=True) if (wrong := _same(r, t.numpy()))), None)


def _staging(backend: Backend, device: Device) -> str | None:
    data: list[HostArray] = [np.arange(5, dtype=np.float32), np.zeros((0, 2), np.int8), np.asarray(3)]
    staged = backend.staging(iter(data), device)
    if len(staged) != len(data):
        return f"{len(staged)} arrays instead of {len(data)}"
    return next((wrong for s, d in zip(staged, data, strict=True) if (wrong := _same(s, d))), None)


def _from_host_copy(backend: Backend, device: Device) -> str | None:
    data = np.arange(6, dtype=np.float32)
    array = backend.from_host(data, device, copy=True)
    data[0] = 99.0
    if backend.to_host(array)[0] == 99.0:
        return "copy=True shares memory with the host's array"
    try:
        shared = backend.from_host(data, device, copy=False)
    except CopyRequiredError:
        return None
    data[1] = 77.0
    return None if backend.to_host(shared)[1] == 77.0 else "copy=False copied instead of raising CopyRequiredError"


def _shape(backend: Backend, device: Device) -> str | None:
    for shape in ((), (0,), (2, 0, 3), (4, 5)):
        found = backend.shape(backend.from_host(np.zeros(shape, np.float32), device))
        if type(found) is not tuple or found != shape or not all(type(n) is int for n in found):
            return f"{found!r} instead of the plain tuple {shape}"
    return None


def _getitem(backend: Backend, device: Device) -> str | None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    keys: tuple[Any, ...] = (
        0,
        -1,
        slice(None, None, -1),
        (1, slice(1, 3)),
        (..., 2),
        (None, 0, ...),
        (slice(5, 9),),
        (0, 1, 2),
        (),
    )
    for key in keys:
        wrong = _same(asarray(x, device=device, copy=True)[key].numpy(), np.asarray(x[key]))
        if wrong:
            return f"x[{key}]: {wrong}"
    return None


def _flushes_subnormals(backend: Backend, device: Device) -> str | None:
    smallest = asarray(np.full(3, np.finfo(np.float32).smallest_normal), device=device)
    found = bool((multiply(smallest, 0.5).numpy() == 0).all())
    if found == backend.flushes_subnormals(device):
        return None
    return f"half of the smallest normal number is {'' if found else 'not '}0, but the device says otherwise"


def _numbers(device: Device) -> Any:
    return asarray(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), device=device)


def _same(got: object, want: HostArray) -> str | None:
    if not isinstance(got, np.ndarray) or got.dtype != want.dtype or got.shape != want.shape:
        return f"{getattr(got, 'dtype', type(got).__name__)} of shape {getattr(got, 'shape', '?')} instead of {want.dtype} of shape {want.shape}"
    if np.ascontiguousarray(got).tobytes() == np.ascontiguousarray(want).tobytes():
        return None
    return f"{np.asarray(got).ravel()[:8]} instead of {want.ravel()[:8]}"


_METHODS: Final[dict[str, Callable[[Backend, Device], str | None]]] = {
    "devices": _devices,
    "device_count": _device_count,
    "name": _name,
    "shape": _shape,
    "from_host": _from_host_copy,
    "seed": _seed,
    "sync": _sync,
    "memory_cleanup": _memory_cleanup,
    "persistent_allocations": _persistent_allocations,
    "transaction": _transaction,
    "staging": _staging,
    "getitem": _getitem,
    "flushes_subnormals": _flushes_subnormals,
}


# --- for each dtype ----------------------------------------------------------------------------------------------


def _usage(backend: Backend, device: Device, dtype: DType) -> str | None:
    usage = backend.dtype_usage(device, dtype)
    if usage and DTypeUsage.STORAGE not in usage:
        return f"{usage} without STORAGE: what cannot be stored cannot be used"
    if DTypeUsage.ACCELERATED in usage and DTypeUsage.ARITHMETIC not in usage:
        return f"{usage}: ACCELERATED without ARITHMETIC"
    if backend.supports_dtype(device, dtype) != (DTypeUsage.GENERAL in usage):
        return f"supports_dtype does not agree with dtype_usage {usage}"
    if not usage:
        try:
            asarray(np.zeros(2, dtype.numpy), device=device)
        except UnsupportedError:
            return None
        return "declared as NONE, but a tensor of it is accepted"
    return None


def _round_trip(backend: Backend, device: Device, dtype: DType) -> str | None:
    if DTypeUsage.STORAGE not in backend.dtype_usage(device, dtype):
        return None
    for data in _patterns(dtype):
        wrong = _same(backend.to_host(backend.from_host(data, device)), data)
        if wrong:
            return f"an array of shape {data.shape} and strides {data.strides} does not come back bit by bit: {wrong}"
    return None


def _patterns(dtype: DType) -> Iterator[HostArray]:
    """Every bit pattern of a small dtype, many of a large one, in several shapes and layouts."""
    draw = Draw(dtype, (3,))
    if dtype.is_bool:
        data = draw.array(256)
    elif dtype.bits < 8:
        data = draw.array(256, low=-8, high=15)
    else:
        data = draw.random.integers(0, 256, 256 * dtype.itemsize, dtype=np.uint8).view(dtype.numpy)
        if dtype.bits == 8:
            data = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    yield data
    yield data[::-1]
    yield data.reshape(16, 16).T
    yield data.reshape(4, 4, 16)[:, ::-1, ::3]
    yield data[:1].reshape(())
    yield data[:0].reshape(2, 0, 3)


def _dlpack(backend: Backend, device: Device, dtype: DType) -> str | None:
    if DTypeUsage.STORAGE not in backend.dtype_usage(device, dtype) or dtype.numpy.isbuiltin != 1:
        return None  # NumPy, which reads it back, takes its own dtypes only
    data = Draw(dtype, (4,)).array(3, 4)
    array = backend.from_host(data, device, copy=True)
    try:
        kind, _ = backend.dlpack_device(array)
    except ExchangeError:
        return None  # the contract lets an engine do without
    if int(kind) != 1:  # kDLCPU: NumPy reads host memory only
        return None
    return _same(np.array(np.from_dlpack(_Exporter(backend, array))), data)  # type: ignore[arg-type]  # a capsule is an object


class _Exporter:
    """What `from_dlpack` of any library asks for."""

    def __init__(self, backend: Backend, array: Any) -> None:
        self.backend, self.array = backend, array

    def __dlpack__(self, **options: Any) -> object:
        return self.backend.to_dlpack(self.array, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.backend.dlpack_device(self.array)


_BY_DTYPE: Final[dict[str, Callable[[Backend, Device, DType], str | None]]] = {
    "dtype_usage": _usage,
    "to_host": _round_trip,
    "to_dlpack": _dlpack,
}


def run_check(check: Check) -> str | None:
    """The complaint of a check; any exception is one."""
    try:
        return check.run()
    except IntermodalError as error:
        return f"raised {type(error).__name__}: {error}"
    except Exception as error:  # the contract's methods raise IntermodalErrors only
        return f"raised {type(error).__name__} ({error}), which is no IntermodalError"
