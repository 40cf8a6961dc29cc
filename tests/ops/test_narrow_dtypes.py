"""The dtypes that NumPy does not have itself: scalars do not widen them, and they cast to each other."""

from __future__ import annotations

import numpy as np
import pytest

import intermodal as im
from intermodal import backend
from intermodal.engines.numpy import NumpyBackend
from intermodal.engines.numpy.natives import NATIVES

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


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_the_next_number_is_the_next_of_the_dtype_itself(device: im.Device, dtype: str) -> None:
    x = im.asarray([1.0, -1.0, 2.0], dtype=dtype, device=device)
    step = im.finfo(dtype).eps
    up = im.nextafter(x, 4.0).numpy().astype(np.float64)
    assert up.tolist() == [1 + step, -1 + step / 2, 2 + 2 * step]
    assert im.nextafter(im.asarray(1.0, dtype=dtype, device=device), x).numpy().astype(np.float64).tolist() == [
        1,
        1 - step / 2,
        1 + step,
    ]


def test_a_result_in_a_dtype_that_the_device_lacks_is_refused_before_the_engine_is_asked() -> None:
    asked = []

    class Narrow(NumpyBackend):
        engine = "narrow"
        natives = {**NATIVES, "sum": lambda x, **attrs: asked.append(x)}

        def devices(self) -> tuple[im.Device, ...]:
            return (im.Device("narrow:cpu"),)

        def dtype_usage(self, device: im.Device, dtype: im.DType) -> im.DTypeUsage:
            return im.DTypeUsage.NONE if dtype is im.uint64 else super().dtype_usage(device, dtype)

    backend.register("narrow", Narrow)
    try:
        with pytest.raises(im.UnsupportedError, match="narrow:cpu does not store uint64"):
            im.sum(im.asarray([1, 2], dtype="uint8", device="narrow:cpu"))
    finally:
        backend.unregister("narrow")
    assert asked == []
