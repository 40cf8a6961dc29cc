"""Arrays of the engine: `OrtValue`s that know their device, dtype and shape, and how they share memory with NumPy."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnxruntime as ort

from intermodal import dtypes
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.engines.numpy.memory import aligned_copy
from intermodal.engines.onnx.kernels import ONNX, OURS
from intermodal.engines.onnx.providers import provider_of
from intermodal.errors import ExchangeError

__all__ = ["CPU", "FOUR_BITS", "OnnxArray", "enter", "fetch", "host", "packed", "reinterpreted", "send", "unpacked", "wrap"]

HostArray = np.ndarray[Any, Any]
CPU: Final = Device("onnx:cpu")
FOUR_BITS: Final = frozenset((dtypes.int4, dtypes.uint4))
_HOST: Final = ort.OrtDevice.make("cpu", 0)._get_c_device()
_c = ort.capi.onnxruntime_pybind11_state.OrtValue


class OnnxArray(ort.OrtValue):  # type: ignore[misc]  # ONNX Runtime carries no annotations
    """An `onnxruntime.OrtValue` with what the engine asks for at every op; ONNX Runtime would answer in half a microsecond each."""

    def __init__(self, value: Any, device: Device, dtype: DType, sizes: tuple[int, ...], keep: object = None) -> None:
        # As the class above does, but for its check of the type, which takes half of the time.
        self._ortvalue, self._numpy_obj, self._session = value, keep, None
        self.device, self.dtype, self.sizes = device, dtype, sizes

    def __repr__(self) -> str:
        return f"OnnxArray(shape={self.sizes}, dtype={self.dtype}, device={self.device})"


def wrap(value: Any, device: Device, keep: object = None) -> OnnxArray:
    """ONNX Runtime's own value as an array of a device."""
    return OnnxArray(value, device, OURS[value.element_type()], tuple(value.shape()), keep)


def enter(data: HostArray, device: Device = CPU) -> OnnxArray:
    """An array over the memory of NumPy's; a copy where it is not in C order and this machine's byte order, or of 4 bits."""
    dtype = dtypes.as_dtype(data.dtype)
    if not data.flags.c_contiguous or not data.dtype.isnative or not data.flags.aligned:
        data = aligned_copy(data.astype(data.dtype.newbyteorder("="), copy=False))
    if dtype in FOUR_BITS:
        raw = packed(data)  # ONNX Runtime looks at the shape alone, and two numbers share a byte
        return OnnxArray(_c.ortvalue_from_numpy_with_onnx_type(raw, ONNX[dtype]), device, dtype, data.shape, raw)
    if dtype.numpy.isbuiltin == 1:  # not the data's own, which is another object after pickling
        return OnnxArray(_c.ortvalue_from_numpy(data, _HOST), device, dtype, data.shape, data)
    raw = data.view(np.uint16 if dtype.bits == 16 else np.uint8)
    return OnnxArray(_c.ortvalue_from_numpy_with_onnx_type(raw, ONNX[dtype]), device, dtype, data.shape, data)


class _Window:
    """The memory of an array on the host, for NumPy, which keeps the array alive through it."""

    def __init__(self, array: OnnxArray, code: str, shape: tuple[int, ...]) -> None:
        self.array = array
        self.__array_interface__ = {"version": 3, "typestr": code, "shape": shape, "data": (array.data_ptr(), False)}


def host(array: OnnxArray) -> HostArray:
    """The array's own memory as NumPy sees it; integers of 4 bits are unpacked into a copy."""
    kind, shape = array.dtype.numpy, array.sizes
    if 0 in shape:
        return np.empty(shape, kind)
    if array.dtype in FOUR_BITS:
        raw = np.asarray(_Window(array, "|u1", ((int(np.prod(shape)) + 1) // 2,)))
        return unpacked(raw, shape, array.dtype)
    if kind.isbuiltin == 1:
        return np.asarray(_Window(array, kind.str, shape))
    return np.asarray(_Window(array, "<u2" if array.dtype.bits == 16 else "|u1", shape)).view(kind)


def packed(data: HostArray) -> HostArray:
    """Integers of 4 bits, two to the byte, the first one low. As many bytes as numbers, for ONNX Runtime's checks of the size."""
    flat = data.astype(np.int8).reshape(-1).view(np.uint8) & 0x0F
    result = np.zeros(data.size, np.uint8)
    result[: (data.size + 1) // 2] = flat[::2]
    result[: data.size // 2] |= flat[1::2] << 4
    return result.reshape(data.shape)


def unpacked(raw: HostArray, shape: tuple[int, ...], dtype: DType) -> HostArray:
    """The numbers of 4 bits in some bytes."""
    pairs = np.stack([raw & 0x0F, raw >> 4], axis=1).reshape(-1)[: int(np.prod(shape))].astype(np.int8)
    signed = np.where(pairs > 7, pairs - 16, pairs) if dtype is dtypes.int4 else pairs
    return np.asarray(signed.astype(dtype.numpy)).reshape(shape)


def send(data: HostArray, device: Device) -> OnnxArray:
    """A copy of host data in the memory of another device."""
    dtype = dtypes.as_dtype(data.dtype)
    if dtype.numpy.isbuiltin != 1:
        raise ExchangeError(f"asarray: ONNX Runtime copies no {dtype} to {device}. Send float32 or integers, and cast there.")
    plain = np.ascontiguousarray(data.astype(data.dtype.newbyteorder("="), copy=False))
    where = ort.OrtDevice.make(provider_of(device).memory, device.index)._get_c_device()
    return OnnxArray(_c.ortvalue_from_numpy(plain, where), device, dtype, data.shape)


def fetch(array: OnnxArray) -> HostArray:
    """A copy of a device's data on the host."""
    if array.dtype.numpy.isbuiltin != 1:
        raise ExchangeError(f"numpy: ONNX Runtime copies no {array.dtype} from {array.device}. Cast to float32 there first.")
    found: HostArray = array.numpy()
    return found


def reinterpreted(array: Any, source: DType, target: DType) -> Any:
    """The memory of an array of one dtype as another of the same size; anything else as it is."""
    if isinstance(array, list):
        return [reinterpreted(a, source, target) for a in array]
    if not isinstance(array, OnnxArray) or array.dtype is not source:
        return array
    return enter(host(array).view(target.numpy), array.device)
