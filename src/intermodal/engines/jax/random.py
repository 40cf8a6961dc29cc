"""JAX natives of the random family: one threefry key per call, made of the op's seed."""

from __future__ import annotations

from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from intermodal import dtypes
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.engines.jax import memory
from intermodal.engines.jax.logarithms import log1p
from intermodal.engines.jax.natives import has_x64, native, static
from intermodal.ops.random import last_before

__all__: list[str] = []

Shape = tuple[int, ...]
# The bits of a number in [0, 1): as many as keep every multiple of the step exact.
_BITS: Final = {dtypes.float64: 53, dtypes.float32: 24, dtypes.float16: 11, dtypes.bfloat16: 8}


def _key(seed: int, device: Device) -> Any:
    """The key that `jax.random.key(seed)` is with 64-bit integers, whether this process has them or not."""
    return memory.enter(np.asarray([seed >> 32, seed & 0xFFFFFFFF], np.uint32), device)


def _bits(key: Any, shape: Shape, bits: int) -> Any:
    return jax.random.bits(jax.random.wrap_key_data(key, impl="threefry2x32"), shape, jnp.uint64 if bits > 32 else jnp.uint32)


def _unit(key: Any, shape: Shape, dtype: DType) -> Any:
    """Numbers in [0, 1), every multiple of the dtype's step equally likely."""
    bits = _BITS[dtype]
    drawn = _bits(key, shape, bits)
    return (drawn >> (jnp.iinfo(drawn.dtype).bits - bits)).astype(dtype.numpy) * dtype.numpy.type(2.0**-bits)


def _computed(dtype: DType) -> DType:
    """In a narrow dtype a uniform number has so few bits that a logarithm of it would cut the tails off."""
    return dtypes.promote(dtype, dtypes.float32)


@static("shape", "span", "dtype")
def _integers(key: Any, low: Any, shape: Shape, span: int, dtype: DType) -> Any:
    wide = jnp.uint64 if dtype.bits > 32 else jnp.uint32
    if span == 2 ** jnp.iinfo(wide).bits:
        drawn = _bits(key, shape, jnp.iinfo(wide).bits)
    else:  # JAX joins two draws, so that the remainder favours no number by more than 1 in 2**32
        drawn = jax.random.randint(jax.random.wrap_key_data(key, impl="threefry2x32"), shape, 0, np.asarray(span, wide), wide)
    return (drawn + low).astype(dtype.numpy)


@native
def randint(shape: Shape, low: int, high: int, dtype: DType, device: Device, seed: int) -> Any:
    wide = np.uint64 if dtype.bits > 32 else np.uint32
    first = np.asarray(low % 2 ** np.iinfo(wide).bits, wide)  # sums of unsigned integers wrap around to the signed ones
    return _integers(_key(seed, device), first, shape=shape, span=high - low, dtype=dtype)


@static("shape", "low", "high", "dtype")
def _uniform(key: Any, shape: Shape, low: float, high: float, dtype: DType) -> Any:
    unit = _unit(key, shape, dtype)
    if (low, high) == (0.0, 1.0):
        return unit
    most = jnp.asarray(last_before(high, low, dtype), dtype.numpy)  # rounding may reach high
    return jnp.minimum(unit * (high - low) + low, most)


@native
def uniform(shape: Shape, low: float, high: float, dtype: DType, device: Device, seed: int) -> Any:
    return _uniform(_key(seed, device), shape=shape, low=low, high=high, dtype=dtype)


@static("shape", "dtype")
def _normal(key: Any, mean: Any, std: Any, shape: Shape, dtype: DType) -> Any:
    drawn = jax.random.normal(jax.random.wrap_key_data(key, impl="threefry2x32"), shape, _computed(dtype).numpy)
    return (drawn * std + mean).astype(dtype.numpy)


@native
def normal(shape: Shape, mean: float, std: float, dtype: DType, device: Device, seed: int) -> Any:
    return _normal(_key(seed, device), mean, std, shape=shape, dtype=dtype)


@static("shape", "dtype")
def _exponential(key: Any, scale: Any, shape: Shape, dtype: DType) -> Any:
    return (-log1p(-_unit(key, shape, _computed(dtype))) * scale).astype(dtype.numpy)


@native
def exponential(shape: Shape, scale: float, dtype: DType, device: Device, seed: int) -> Any:
    return _exponential(_key(seed, device), scale, shape=shape, dtype=dtype)


@static("shape", "dtype")
def _below(key: Any, p: Any, shape: Shape, dtype: DType) -> Any:
    return _unit(key, shape, dtype) < p


@native
def bernoulli(shape: Shape, p: float, device: Device, seed: int) -> Any:
    finest = dtypes.float64 if has_x64() else dtypes.float32
    return _below(_key(seed, device), finest.numpy.type(p), shape=shape, dtype=finest)


@static("n")
def _permuted(key: Any, n: int) -> Any:
    return jax.random.permutation(jax.random.wrap_key_data(key, impl="threefry2x32"), n).astype(jnp.int64)


@native
def permutation(n: int, device: Device, seed: int) -> Any:
    return _permuted(_key(seed, device), n=n)
