"""`HostMemory`: which memory of the host an engine can use as it is. Data only; `intermodal.transfer` holds arrays to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from intermodal import dtypes
from intermodal.dtypes import DType

__all__ = ["HostMemory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemory:
    """What an array in host memory must be like, so that an engine can share it instead of copying it.

    Attributes:
        strides: ``"any"``; ``"positive"``: zero or more, in whole elements; ``"contiguous"``: in C order without gaps.
        alignment: the bytes of whose multiple the first element must have its address; 1 asks only that elements lie
            at multiples of their own size, 0 asks for nothing.
        other_form: dtypes that the engine stores in other bits than NumPy does.
        keeps_read_only: whether its arrays can be marked as not writable, as NumPy's can.
    """

    strides: Literal["any", "positive", "contiguous"] = "any"
    alignment: int = 0
    other_form: frozenset[DType] = frozenset()
    keeps_read_only: bool = False

    def obstacle(self, data: np.ndarray[Any, Any], engine: str) -> str | None:
        """Why the engine cannot use this array's memory as it is; None where it can."""
        if not data.dtype.isnative:
            return f"{data.dtype} is not in this machine's byte order"
        if self.other_form and (dtype := dtypes.as_dtype(data.dtype)) in self.other_form:
            return f"{engine} stores {dtype} in another form than the host"
        if not data.size:
            return None  # there is no element whose place could be wrong
        contiguous = data.flags.c_contiguous
        if self.strides != "any" and min(data.strides, default=0) < 0 and not (contiguous and self.strides == "contiguous"):
            return f"{engine} has no negative strides, and the array has strides {data.strides}"
        if self.strides == "contiguous" and not contiguous:
            return f"{engine} takes only memory in C order without gaps, and the array has strides {data.strides}"
        if self.alignment and not (data.flags.aligned and (contiguous or all(s % data.itemsize == 0 for s in data.strides))):
            return f"{engine} needs each element at a multiple of its size, {data.itemsize} bytes"
        if self.alignment > 1 and data.ctypes.data % self.alignment:
            return f"{engine} shares memory only from a {self.alignment}-byte boundary on"
        return None
