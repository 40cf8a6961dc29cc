"""Small floats computed in float32: rows that add up many numbers would round at each step, or overflow, in float16."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intermodal import dtypes

if TYPE_CHECKING:
    from intermodal.dtypes import DType
    from intermodal.tensor import Tensor

__all__ = ["narrow", "wide"]


def wide(x: Tensor) -> Tensor:
    """The tensor in float32 if its floats are smaller, else itself."""
    return astype(x, dtypes.float32) if x.dtype.is_floating and x.dtype.bits < 32 else x


def narrow(x: Tensor, dtype: DType) -> Tensor:
    """A result computed on wide operands, in the dtype that the row promised."""
    return x if x.dtype is dtype else astype(x, dtype)


from intermodal.ops.manipulation import astype
