"""Out of a tensor and into one: Python scalars, NumPy, pickles, text, and other array libraries by DLPack."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from intermodal import config, dtypes, transfer
from intermodal.devices import Device, DeviceLike, as_device
from intermodal.dtypes import DType, DTypeLike
from intermodal.errors import (
    ArgumentError,
    CopyRequiredError,
    DeviceMismatchError,
    DTypeError,
    ExchangeError,
    InvalidValueError,
    ShapeError,
)

if TYPE_CHECKING:
    from types import ModuleType

    from intermodal.backend import Layer
    from intermodal.tensor import Tensor

__all__ = ["API_VERSIONS", "asarray", "from_dlpack"]

API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
_SCALARS = (bool, int, float, complex)
_CPU = (1, 0)  # DLPack's kDLCPU


def is_operand(other: object) -> bool:
    """Whether an operator may take it; an array of another library is refused with the way out, not converted."""
    if hasattr(other, "_place") or isinstance(other, (*_SCALARS, np.generic)):
        return True
    if hasattr(other, "__dlpack__") or hasattr(other, "__array_namespace__"):
        raise DeviceMismatchError(
            f"a Tensor does not mix with {type(other).__module__}.{type(other).__name__}. Bring it in first with im.asarray(...), or take this one out with .numpy()."
        )
    return False


# --- to Python ---------------------------------------------------------------------------------------------------


def item(x: Tensor, target: str) -> bool | int | float | complex:
    """The one element of a tensor; the error says what was asked for."""
    if x.size != 1:
        raise ShapeError(
            f"{target}: a tensor of shape {x.shape} has {x.size} elements, only one can become a Python scalar. Reduce it first, for example with im.any or im.sum."
        )
    if x.dtype.is_complex and target in ("int", "float"):
        raise DTypeError(f"{target}: a {x.dtype} does not convert to {target}. Take x.real first.")
    value = to_numpy(x).reshape(()).item()
    return value if isinstance(value, _SCALARS) else _from_extended(value, x.dtype)


def _from_extended(value: object, dtype: DType) -> int | float:
    return int(cast("int", value)) if dtype.is_integer else float(cast("float", value))  # ml_dtypes gives its own scalars


def index(x: Tensor) -> int:
    """A 0-d integer tensor as a Python index."""
    if not x.dtype.is_integer or x.ndim != 0:
        raise DTypeError(
            f"index: only a 0-d integer tensor can be an index, not one of shape {x.shape} and dtype {x.dtype}. Cast it with im.astype(x, im.int64)."
        )
    return int(cast("int", item(x, "index")))


def length(x: Tensor) -> int:
    """The size of the first axis."""
    shape = x.shape
    if not shape:
        raise ArgumentError("len: a 0-d tensor has no length. Use .size, or .item() for its value.")
    return shape[0]


# --- to NumPy and others -----------------------------------------------------------------------------------------


def to_numpy(x: Tensor) -> np.ndarray[Any, Any]:
    """The data on the host; not writable, because a tensor's value must not change from outside."""
    return read_only(x._place.backend.to_host(x._data))


def read_only(host: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same data, not writable through this view."""
    view = host.view()
    view.flags.writeable = False
    return view


def to_array(x: Tensor, dtype: Any, copy: bool | None) -> np.ndarray[Any, Any]:
    """NumPy's ``__array__``: a view where copy allows it, else a writable copy."""
    host = to_numpy(x)
    wanted = host.dtype if dtype is None else np.dtype(dtype)
    if wanted != host.dtype:
        if copy is False:
            raise CopyRequiredError(f"__array__: {host.dtype} becomes {wanted} only by a copy, and copy=False forbids it.")
        return host.astype(wanted)
    return host.copy() if copy else host


def to_dlpack(x: Tensor, **options: Any) -> object:
    """A DLPack capsule. Memory of somebody's read-only array, which the capsule could not say, leaves as a copy."""
    if transfer.must_not_be_written(x):
        if options["copy"] is False:
            raise ExchangeError(
                f"__dlpack__: the tensor shares memory with a read-only array, and {x.device} cannot hand it out as read-only. Ask for copy=True, or take .numpy()."
            )
        options["copy"] = True
    return x._place.backend.to_dlpack(x._data, **options)


def namespace(api_version: str | None) -> ModuleType:
    """The module that ``__array_namespace__`` answers with."""
    if api_version is not None and api_version not in API_VERSIONS:
        raise InvalidValueError(
            f"__array_namespace__: api_version {api_version!r} is not supported. Use one of {', '.join(API_VERSIONS)}."
        )
    return sys.modules["intermodal"]


def rebuild(data: np.ndarray[Any, Any], device: str) -> Tensor:
    """A pickled tensor, on the device it was on."""
    return asarray(data, device=device)


def show(x: Tensor) -> str:
    """The text of a tensor, shortened as NumPy does; one without data shows its shape."""
    tail = f"dtype={x.dtype}, device={x.device})"
    if not x._place.backend.holds_data:
        return f"Tensor(shape={x.shape}, {tail}"
    host = to_numpy(x)
    if host.size == 0 and host.shape != (0,):
        return f"Tensor([], shape={x.shape}, {tail}"
    return f"Tensor({np.array2string(host, separator=', ', prefix='Tensor(')}, {tail}"


def check_in_place(x: Tensor, value: Tensor, op: str) -> None:
    """An in-place operation keeps shape, dtype and device."""
    if value.dtype is not x.dtype:
        raise DTypeError(
            f"{op}: the result would be {value.dtype}, but the tensor is {x.dtype}, and an in-place operation keeps its dtype. Write x = x ... instead, or cast the operand."
        )
    if value.shape != x.shape:
        raise ShapeError(
            f"{op}: the result would have shape {value.shape}, but the tensor has {x.shape}, and an in-place operation keeps its shape."
        )


# --- between devices ---------------------------------------------------------------------------------------------


def to_device(x: Tensor, device: DeviceLike, copy: bool | None, stream: object = None) -> Tensor:
    """A tensor on another device; a stream is for engines that have them."""
    if stream is not None:
        raise InvalidValueError(f"to_device: stream must be None on {x.device}; {stream!r} was given.")
    place = x._place
    return transfer.move(x, device, copy) if place.plain is place else cast("Layer", place.backend).move(x, device, copy)


# --- into a tensor -----------------------------------------------------------------------------------------------


def asarray(
    obj: object, /, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, copy: bool | None = None
) -> Tensor:
    """A tensor from Python scalars, nested lists, a NumPy array, a tensor, or any array that speaks DLPack.

    Python floats become the setting ``default_float`` (float32, which every engine has), integers int64.

    Args:
        obj: the data.
        dtype: the dtype of the result; by default the data's own.
        device: where it goes; by default where a tensor is, the engine whose library made the array, else the default device.
        copy: True copies always, False never (and raises CopyRequiredError), None where needed.

    Example:
        >>> import intermodal as im
        >>> im.asarray([1, 2, 3], dtype="bfloat16")
        Tensor([1, 2, 3], dtype=bfloat16, device=numpy:cpu)
    """
    from intermodal.places import place_of
    from intermodal.tensor import Tensor

    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(obj, Tensor):
        return _from_tensor(obj, wanted, obj.device if device is None else as_device(device), copy)
    own = None if isinstance(obj, np.ndarray) else transfer.adopted(obj)
    if own is not None:
        data, where, found = own
        return _from_tensor(Tensor(data, place_of(where, found)), wanted, where if device is None else as_device(device), copy)
    target = config.default_device() if device is None else as_device(device)
    host, fresh = _host_array(obj, wanted, copy)
    place = place_of(target, dtypes.as_dtype(host.dtype))
    return Tensor(transfer.enter(host, place, copy=copy, fresh=fresh), place)


def _from_tensor(x: Tensor, dtype: DType | None, device: Device, copy: bool | None) -> Tensor:
    from intermodal.ops.manipulation import astype

    if dtype is not None and dtype is not x.dtype:
        if copy is False:
            raise CopyRequiredError(f"asarray: {x.dtype} becomes {dtype} only by a copy, and copy=False forbids it.")
        return to_device(astype(x, dtype), device, None)
    return to_device(x, device, copy)


def _host_array(obj: object, dtype: DType | None, copy: bool | None) -> tuple[np.ndarray[Any, Any], bool]:
    """The data as NumPy, and whether it is a fresh array that nobody else holds."""
    if isinstance(obj, (np.ndarray, np.generic)) or hasattr(obj, "__array_interface__"):
        given = np.asarray(obj)
    elif hasattr(obj, "__dlpack__"):
        given = _imported(obj, copy)
    elif copy is False:
        raise CopyRequiredError(f"asarray: a {type(obj).__name__} becomes a tensor only by a copy, and copy=False forbids it.")
    else:
        return _from_python(obj, dtype), True
    kept = _checked_dtype(given.dtype, obj)
    if dtype is None or dtype is kept:
        return given, False
    if copy is False:
        raise CopyRequiredError(f"asarray: {kept} becomes {dtype} only by a copy, and copy=False forbids it.")
    return given.astype(dtype.numpy), True


def _imported(obj: Any, copy: bool | None) -> np.ndarray[Any, Any]:
    """The data of an array that speaks DLPack, as NumPy."""
    where = tuple(int(n) for n in obj.__dlpack_device__())
    if where != _CPU:
        raise DeviceMismatchError(
            f"from_dlpack: the array is on DLPack device {where}, which no installed engine takes. Copy it to the host first."
        )
    try:
        return np.from_dlpack(obj, copy=False if copy is False else None)
    except Exception as error:  # the producer is anybody's
        kind = CopyRequiredError if copy is False else ExchangeError
        raise kind(
            f"from_dlpack: a {type(obj).__module__}.{type(obj).__name__} does not hand over its data: {error}. Convert it to NumPy first."
        ) from error


def _checked_dtype(dtype: np.dtype[Any], obj: object) -> DType:
    if dtype.byteorder not in "=|" and dtype.newbyteorder("=") != dtype:
        raise DTypeError(
            f"asarray: data of {dtype} is not in this machine's byte order. Convert it with x.astype(x.dtype.newbyteorder('='))."
        )
    try:
        return dtypes.as_dtype(dtype)
    except DTypeError:
        raise DTypeError(
            f"asarray: a {type(obj).__name__} of dtype {dtype} cannot become a tensor. Use one of {', '.join(dtypes.names())}."
        ) from None


def _from_python(obj: object, dtype: DType | None) -> np.ndarray[Any, Any]:
    obj = _unwrap_members(obj)
    try:
        array = np.asarray(obj)
    except (ValueError, TypeError, OverflowError) as error:
        raise ShapeError(f"asarray: the nested sequence has no regular shape: {error}. All rows must be equally long.") from error
    if array.dtype.kind not in "biufc" and array.dtype not in (d.numpy for d in dtypes.ALL):
        raise ArgumentError(
            f"asarray: a {type(obj).__name__} holding {array.dtype} cannot become a tensor. Give numbers, nested lists of numbers, or an array."
        )
    if dtype is None:
        if array.dtype.kind in "fc" and array.dtype.itemsize in (8, 16) and not isinstance(obj, np.ndarray):
            single = config.default_float.get() is dtypes.float32
            return array.astype(
                (np.complex64 if single else np.complex128) if array.dtype.kind == "c" else config.default_float.get().numpy
            )
        return array
    if dtype.is_integer and array.dtype.kind in "iu" and array.size:
        _check_range(array, dtype)
    if dtype.kind in ("bool", "signed integer", "unsigned integer") and array.dtype.kind == "c":
        raise DTypeError(f"asarray: complex numbers do not fit {dtype}. Take their real parts first.")
    with np.errstate(all="ignore"):
        return array.astype(dtype.numpy)


def _check_range(array: np.ndarray[Any, Any], dtype: DType) -> None:
    from intermodal.ops.rules import check_integer

    for value in (array.min(), array.max()):
        check_integer(int(value), dtype)


def _unwrap_members(obj: object) -> object:
    """Nested lists may hold 0-d tensors."""
    if isinstance(obj, (list, tuple)):
        return [_unwrap_members(v) for v in obj]
    return to_numpy(cast("Tensor", obj)) if hasattr(obj, "_place") else obj


def from_dlpack(x: object, /, *, device: DeviceLike | None = None, copy: bool | None = None) -> Tensor:
    """A tensor from any array that speaks DLPack, without a copy where possible.

    Args:
        x: an array with ``__dlpack__`` and ``__dlpack_device__``.
        device: where it goes; by default to the engine whose library made it, else to NumPy.
        copy: True copies always, False never (and raises CopyRequiredError), None where needed.
    """
    from intermodal.tensor import Tensor

    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy)
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise AttributeError(f"from_dlpack: a {type(x).__name__} has no __dlpack__. Use im.asarray for Python data.")
    if transfer.adopted(x) is None and device is None:
        device = "numpy:cpu"
    return asarray(x, device=device, copy=copy)
