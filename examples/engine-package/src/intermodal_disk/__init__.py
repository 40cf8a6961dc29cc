"""Tensors in files: an engine whose arrays are mapped from disk, so that together they may be larger than memory."""

import math
import os
import shutil
import tempfile

import numpy as np

from intermodal import Device
from intermodal.backend import Backend, MemoryInfo
from intermodal.engines.numpy import NumpyBackend
from intermodal.errors import CopyRequiredError, OutOfMemoryError
from intermodal.ops.rules import Elementwise

CPU = Device("disk:cpu")


class DiskBackend(Backend):
    engine = "disk"
    defers = True  # every call comes through execute, which decides where its result lives

    def __init__(self):
        super().__init__()
        self.library = NumpyBackend()
        self.folder = os.environ.get("DISK_ENGINE_FOLDER") or tempfile.gettempdir()
        self.piece = max(1, int(os.environ.get("DISK_ENGINE_PIECE") or 2**22))  # smaller arrays stay in memory

    def devices(self):
        return (CPU,)

    def dtype_usage(self, device, dtype):
        return self.library.dtype_usage(device, dtype)

    def shape(self, array):
        return array.shape

    def to_host(self, array):
        return array

    host_view = to_host  # NumPy sees the file's own pages: reading copies nothing

    def from_host(self, data, device, *, copy=None):
        if copy is False:
            raise CopyRequiredError(f"asarray: {device} keeps data in files of its own, and copy=False forbids a copy.")
        array = self.empty(data.shape, data.dtype.newbyteorder("="))
        array[...] = data
        return array

    def empty(self, shape, dtype):
        size = math.prod(shape) * dtype.itemsize
        if size < self.piece:
            return np.empty(shape, dtype)
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:  # without a name: it goes with its last array
                if hasattr(os, "posix_fallocate"):  # else a full disk ends the process when the array is written
                    os.posix_fallocate(file.fileno(), 0, size)
                return np.asarray(np.memmap(file, dtype, "r+", shape=shape))
        except OSError as error:
            raise OutOfMemoryError(f"{self.folder} has no room for {size} bytes. Set DISK_ENGINE_FOLDER.") from error

    def native(self, row, dtype):
        return self.library.native(row, dtype)

    def execute(self, row, arrays, attrs, outputs, native):
        shape, dtype = outputs[0]
        if shape and isinstance(row.infer, Elementwise) and math.prod(shape) * dtype.numpy.itemsize >= self.piece:
            return [self.in_pieces(row, arrays, attrs, outputs, native)]
        results = map(np.asarray, super().execute(row, arrays, attrs, outputs, native))
        return [r if r.nbytes < self.piece or shares(r, arrays) else self.from_host(r, CPU) for r in results]

    def in_pieces(self, row, arrays, attrs, outputs, native):
        shape, dtype = outputs[0]
        result, operands = self.empty(shape, dtype.numpy), [np.broadcast_to(a, shape) for a in arrays]
        step = max(1, self.piece * shape[0] // result.nbytes)
        for i in range(0, shape[0], step):
            part = slice(i, i + step)
            (result[part],) = super().execute(row, [a[part] for a in operands], attrs, outputs, native)
        return result

    def memory_info(self, device):
        disk = shutil.disk_usage(self.folder)
        return MemoryInfo(disk.total, disk.free)


def shares(result, arrays):
    """Whether a result is a view: then it lives in an operand's file, and needs none of its own."""
    flat = [a for one in arrays for a in (one if isinstance(one, list) else [one])]
    return any(a is not None and np.may_share_memory(result, a) for a in flat)
