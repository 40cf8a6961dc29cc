"""NumPy natives of the random family: one Philox generator per call, started from the op's seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from intermodal import dtypes
from intermodal.dtypes import DType
from intermodal.engines.numpy.natives import native
from intermodal.ops.random import last_before

__all__: list[str] = []

Shape = tuple[int, ...]


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def _scaled(unit: Any, scale: float, offset: float, dtype: DType) -> Any:
    result = np.multiply(unit, scale, out=...)
    result += offset
    return result.astype(dtype.numpy, copy=False)


def _kernel(dtype: DType) -> Any:
    """The dtype in which NumPy draws: it has generators for float32 and float64."""
    return np.float64 if dtype is dtypes.float64 else np.float32


@native
def randint(shape: Shape, low: int, high: int, dtype: DType, device: object, seed: int) -> Any:
    return np.asarray(_generator(seed).integers(low, high, shape, dtype=dtype.numpy))


@native
def uniform(shape: Shape, low: float, high: float, dtype: DType, device: object, seed: int) -> Any:
    unit = np.asarray(_generator(seed).random(shape, _kernel(dtype)))
    if (low, high) == (0.0, 1.0) and unit.dtype == dtype.numpy:
        return unit
    values = _scaled(unit, high - low, low, dtype)
    return np.minimum(values, dtype.numpy.type(last_before(high, low, dtype)), out=...)  # rounding may reach high


@native
def normal(shape: Shape, mean: float, std: float, dtype: DType, device: object, seed: int) -> Any:
    return _scaled(_generator(seed).standard_normal(shape, _kernel(dtype)), std, mean, dtype)


@native
def exponential(shape: Shape, scale: float, dtype: DType, device: object, seed: int) -> Any:
    return _scaled(_generator(seed).standard_exponential(shape, _kernel(dtype)), scale, 0.0, dtype)


@native
def bernoulli(shape: Shape, p: float, device: object, seed: int) -> Any:
    return np.less(_generator(seed).random(shape), p, out=...)


@native
def permutation(n: int, device: object, seed: int) -> Any:
    return _generator(seed).permutation(n)
