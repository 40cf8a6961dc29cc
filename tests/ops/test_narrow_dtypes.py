"""The dtypes that NumPy does not have itself: scalars do not widen them, and they cast to each other."""

from __future__ import annotations

import numpy as np
import pytest

import intermodal as im

NARROW = ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("dtype", NARROW)
def test_where_with_a_scalar_keeps_the_engine_array_in_its_dtype(device: im.Device, dtype: str) -> None:
    x = im.asarray(np.asarray([1.0, -2.0]), dtype=dtype, device=device)
    mask = im.asarray([True, False], device=device)
    for result in (im.where(mask, x, 0.5), im.where(mask, 0.5, x), im.masked_fill(x, mask, 0.5)):
        assert result.dtype is im.dtypes.as_dtype(dtype)
        assert result.numpy().dtype == result.dtype.numpy


def test_the_small_integers_cast_to_each_other(device: im.Device) -> None:
    x = im.asarray([0, 3, 7], dtype="int4", device=device)
    y = im.astype(x, "uint4")
    assert y.dtype is im.uint4
    assert y.numpy().astype(int).tolist() == [0, 3, 7]
    assert im.astype(y, "int4").numpy().astype(int).tolist() == [0, 3, 7]
