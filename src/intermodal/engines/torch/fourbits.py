"""Integers of 4 bits, of which PyTorch has the names and no kernels: moved as the bytes that hold them, as NumPy does."""

from __future__ import annotations

from functools import wraps
from typing import Any, Final

import torch

from intermodal import dtypes
from intermodal.backend import Native
from intermodal.dtypes import DType
from intermodal.engines.torch.natives import TORCH

__all__ = ["FOUR_BITS", "four_bits", "from_four_bits", "to_four_bits"]

FOUR_BITS: Final = frozenset((dtypes.int4, dtypes.uint4))
_BYTE: Final = {TORCH[d]: (d, b) for d, b in ((dtypes.int4, dtypes.int8), (dtypes.uint4, dtypes.uint8)) if d in TORCH}


def from_four_bits(x: Any) -> Any:
    """Bytes with the values of integers of 4 bits; anything else as it is."""
    return _within(x.view(TORCH[_BYTE[x.dtype][1]])) if isinstance(x, torch.Tensor) and x.dtype in _BYTE else x


def to_four_bits(x: torch.Tensor, dtype: DType) -> torch.Tensor:
    """Numbers as integers of 4 bits: the lowest bits stay."""
    return _within(x.to(TORCH[_BYTE[TORCH[dtype]][1]])).view(TORCH[dtype])


def _within(x: torch.Tensor) -> torch.Tensor:
    return (x << 4) >> 4  # the last shift spreads the sign of int8, and zeros in uint8


def four_bits(name: str, function: Native, dtype: DType) -> Native:
    """A native that moves elements, on the bytes that hold integers of 4 bits."""
    kind = TORCH[dtype]
    byte = _BYTE[kind][1]

    def inside(value: Any) -> Any:
        if isinstance(value, list):
            return [inside(v) for v in value]
        return value.view(TORCH[byte]) if isinstance(value, torch.Tensor) and value.dtype is kind else value

    @wraps(function)
    def on_bytes(*arrays: Any, **attrs: Any) -> Any:
        if name == "astype" and attrs["dtype"] is not dtype:
            return function(from_four_bits(arrays[0]), **attrs)
        if attrs.get("dtype") is dtype:
            attrs["dtype"] = byte
        if attrs.get("mode", "assign") == "assign":
            return function(*map(inside, arrays), **attrs).view(kind)
        return to_four_bits(function(*map(from_four_bits, arrays), **attrs), dtype)  # which looks at the values

    return on_bytes
