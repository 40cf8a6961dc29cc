"""Movement between engines: decided before it is done, checked before an engine sees the array, shared where that is possible.

`plan` says whether a move copies and why; `move` carries out just that. Engines on the host meet in NumPy's view of
their memory: the one that takes says in `Backend.shares` what memory it can use as it is, and everything else is copied
here first, into contiguous memory on a 64-byte boundary. So no engine ever sees strides, byte orders or read-only
memory that it would refuse, misread or abort the process over.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from weakref import finalize

import numpy as np
from numpy.lib.array_utils import byte_bounds

from intermodal.backend import Array, Backend, backend_of
from intermodal.devices import Device, DeviceLike, as_device
from intermodal.dtypes import DType
from intermodal.errors import CopyRequiredError, DeviceError, NoDataError

if TYPE_CHECKING:
    from intermodal.tensor import Place, Tensor

__all__ = ["Plan", "Route", "move", "plan"]

HostArray: TypeAlias = np.ndarray[Any, Any]
Route: TypeAlias = Literal["same", "share", "dlpack", "host", "engine", "shape"]
_Carry: TypeAlias = Callable[[], Array]
_NUMPY: Final = Device("numpy:cpu")


@dataclass(frozen=True, slots=True)
class Plan:
    """What moving a tensor to a device will do.

    Attributes:
        source: where the tensor is.
        target: where it goes.
        copies: whether the result has memory of its own.
        route: ``same``: it is there already; ``share``: both engines use the same host memory; ``dlpack``: both use
            the same memory of an accelerator; ``host``: a copy made in or over host memory; ``engine``: a copy that the
            engine makes on its own device; ``shape``: the target keeps the shape and the dtype and no data.
        reason: why, in one sentence.
    """

    source: Device
    target: Device
    copies: bool
    route: Route
    reason: str


def plan(x: Tensor, device: DeviceLike, *, copy: bool | None = None) -> Plan:
    """What ``x.to(device, copy=copy)`` will do, before it is done. A move that cannot be made raises here too.

    Example:
        >>> import intermodal as im
        >>> from intermodal import transfer
        >>> transfer.plan(im.ones(2), "numpy:cpu")
        Plan(source=Device('numpy:cpu'), target=Device('numpy:cpu'), copies=False, route='same', reason='The tensor is on numpy:cpu already.')
    """
    return _decide(x, as_device(device), copy)[0]


def move(x: Tensor, device: DeviceLike, copy: bool | None = None) -> Tensor:
    """The tensor on a device. It is a value of its own: a write to it is not seen by ``x``, nor the other way round.

    Args:
        x: the tensor.
        device: where to.
        copy: True copies always, False never (and raises CopyRequiredError), None where needed.
    """
    target = as_device(device)
    if target is x._place.device and not copy:
        return x
    if target is x._place.device and x._place.backend.lifts:
        from intermodal.ops.manipulation import astype

        return astype(x, x.dtype)  # in a record, the op that copies
    made, carry, place = _decide(x, target, copy)
    if made.copies and copy is False:
        raise CopyRequiredError(f"to: {made.reason} copy=False forbids the copy.")
    return type(x)(carry(), place)


def enter(data: HostArray, place: Place, *, copy: bool | None, fresh: bool = False) -> Array:
    """An array of an engine with the data of a host array, which nobody else holds if it is fresh."""
    if not place.backend.holds_data:
        return place.backend.from_host(data, place.device)
    why = "copy=True asks for a copy" if copy and not fresh else _obstacle(data, place.backend, place.device)
    if why is None:
        return _share(data, place)
    if copy is False:
        raise CopyRequiredError(f"asarray: {why}, so only a copy can go to {place.device}, and copy=False forbids it.")
    return _copy(data, place, fresh)


# --- the decision ------------------------------------------------------------------------------------------------


def _decide(x: Tensor, target: Device, copy: bool | None) -> tuple[Plan, _Carry, Place]:
    """The plan of a move, the function that carries it out, and the place of the result. The questions come in order of preference."""
    from intermodal.places import place_of

    place = place_of(target, x._place.dtype)  # raises for a device that is not there or a dtype that it does not store
    source, giver, taker, array = x._place.device, x._place.backend, place.backend, x._data

    def planned(copies: bool, route: Route, reason: str, carry: _Carry) -> tuple[Plan, _Carry, Place]:
        return Plan(source, target, copies, route, reason), carry, place

    if source is target and not copy:
        return planned(False, "same", f"The tensor is on {target} already.", lambda: array)
    if not taker.holds_data and not taker.lifts:
        outline = np.broadcast_to(np.zeros((), x._place.dtype.numpy), x.shape)
        reason = f"{target} keeps the shape and the dtype and no data, so there is nothing to share."
        return planned(True, "shape", reason, lambda: taker.from_host(outline, target))
    if not giver.holds_data:
        raise NoDataError(f"to: a tensor on {source} has no data to move to {target}. Make it on {target} in the first place.")
    if source is target and source.kind != "cpu":
        return planned(True, "engine", f"copy=True asks for a copy, which {target} makes itself.", lambda: _engine_copy(x))
    if not copy and _meets_by_dlpack(x, taker, target):
        reason = f"{source} and {target} are the same memory, handed over by DLPack."
        return planned(False, "dlpack", reason, lambda: taker.from_dlpack(x, target))
    view = giver.host_view(array)
    if view is None:
        # Memory that came off an accelerator is nobody else's; a host engine may have handed out its own.
        fresh = source.kind != "cpu"
        reason = f"{source} gives its data to others only as a copy."
        return planned(True, "host", reason, lambda: _copy(giver.to_host(array), place, fresh))
    why = "copy=True asks for a copy" if copy else _obstacle(view, taker, target)
    if why is not None:
        return planned(True, "host", f"{why}.", lambda: _copy(view, place, False))
    return planned(False, "share", f"{source} and {target} can use the same host memory.", lambda: _share(view, place))


def _obstacle(data: HostArray, taker: Backend, device: Device) -> str | None:
    """Why an engine cannot use a host array's memory as it is; None where it can."""
    if device.kind != "cpu":
        return f"{device} has memory of its own"
    if taker.shares is None:
        return f"{taker.engine} keeps its arrays in memory of its own"
    return taker.shares.obstacle(data, taker.engine)


def _meets_by_dlpack(x: Tensor, taker: Backend, target: Device) -> bool:
    kind = taker.dlpack_kinds.get(target.kind)
    giver = x._place.backend
    return (
        kind is not None and x._place.device.kind in giver.dlpack_kinds and giver.dlpack_device(x._data) == (kind, target.index)
    )


# --- how it is carried out ---------------------------------------------------------------------------------------


def _copy(data: HostArray, place: Place, fresh: bool) -> Array:
    """A copy on the device. The engine sees plain memory only: this machine's byte order, C order, aligned."""
    taker, device = place.backend, place.device
    plain = data.dtype.isnative and data.flags.c_contiguous and data.flags.aligned and min(data.strides, default=0) >= 0
    if device.kind != "cpu":
        (staged,) = taker.staging([data if plain else _host_copy(data)], device)
        return taker.from_host(staged, device)
    if taker.shares is None and plain:
        return taker.from_host(data, device, copy=None if fresh else True)
    if fresh and taker.shares is not None and taker.shares.obstacle(data, taker.engine) is None:
        return taker.from_host(data, device, copy=None)
    return taker.from_host(_host_copy(data), device, copy=None)  # which the engine may keep: nobody else has it


def _host_copy(data: HostArray) -> HostArray:
    """A copy in C order on a 64-byte boundary, which every engine on the host can share."""
    copied: HostArray = backend_of("numpy").from_host(data, _NUMPY, copy=True)
    return copied


def _engine_copy(x: Tensor) -> Array:
    from intermodal.ops.manipulation import astype

    return astype(x, x._place.dtype, copy=True)._data


def _share(data: HostArray, place: Place) -> Array:
    """The engine's array over the same memory; memory that is read-only stays so for everybody outside."""
    taker, device = place.backend, place.device
    assert taker.shares is not None  # else there had been an obstacle
    if taker.shares.keeps_read_only:
        if data.flags.writeable and _lent and _is_lent(data):
            data = data.view()
            data.flags.writeable = False
        return taker.from_host(data, device, copy=False)
    if not data.size:
        data = _host_copy(data)  # no element is copied; the engine is spared the odd strides that empty arrays may have
    elif not data.flags.writeable or (_lent and _is_lent(data)):
        data = _lend(data)
    return taker.from_host(data, device, copy=False)


# --- read-only memory --------------------------------------------------------------------------------------------
# Engines such as PyTorch have no read-only arrays. Sharing such memory with them does no harm, because no native writes
# to an operand; but what they export must not be a way to write to it. So the memory is remembered while it is lent.

_lent: dict[int, tuple[int, int]] = {}
_numbers: Final = count()


class _Loan:
    """The owner of an array's memory, as NumPy's interface asks for it; the memory is on loan while this lives."""

    def __init__(self, data: HostArray) -> None:
        self.data = data  # keeps the memory alive
        self.__array_interface__ = {
            "version": 3,
            "shape": data.shape,
            "strides": data.strides,
            "typestr": f"|V{data.itemsize}",  # the interface does not know the small floats, so it hears of plain bytes
            "data": (data.__array_interface__["data"][0], False),
        }


def _lend(data: HostArray) -> HostArray:
    """The same memory without the read-only mark, remembered for as long as an engine holds it."""
    loan, number = _Loan(data), next(_numbers)
    _lent[number] = byte_bounds(data)
    finalize(loan, _lent.pop, number, None)
    lent: HostArray = np.asarray(loan).view(data.dtype)
    return lent


def _is_lent(data: HostArray) -> bool:
    low, high = byte_bounds(data)
    return data.size > 0 and any(start <= low and high <= end for start, end in list(_lent.values()))


def must_not_be_written(x: Tensor) -> bool:
    """Whether a tensor's memory is somebody's read-only array, although its engine would hand it out for writing."""
    view = x._place.backend.host_view(x._data) if _lent else None
    return view is not None and _is_lent(view)


# --- arrays of other libraries -----------------------------------------------------------------------------------

# The engine of each library whose arrays are recognised, by the module that their type comes from.
_LIBRARIES: Final = {"torch": "torch", "jax": "jax", "jaxlib": "jax", "onnxruntime": "onnx"}


def adopted(obj: object) -> tuple[Array, Device, DType] | None:
    """An array of an engine's own library with its device and dtype, as it is; nothing is imported to find that out."""
    for base in type(obj).__mro__:
        library = base.__module__.partition(".")[0]
        if library in _LIBRARIES and library in sys.modules:
            try:
                backend = backend_of(_LIBRARIES[library])
            except DeviceError:  # the library is here, its engine is not
                return None
            return backend.adopt(obj)
    return None
