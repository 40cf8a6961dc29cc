"""PyTorch natives of the random family: one generator per call, started from the op's seed."""

from __future__ import annotations

from typing import Any, Final

import torch

from intermodal import dtypes
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.engines.torch.natives import TORCH, native, on
from intermodal.ops.random import last_before

__all__: list[str] = []

Shape = tuple[int, ...]
_WHOLE: Final = 2**63  # a draw of 63 bits


def _generator(device: Device, seed: int) -> torch.Generator:
    return torch.Generator(on(device)).manual_seed(seed)


def _kernel(dtype: DType) -> torch.dtype:
    """The dtype in which to draw: a narrow one has too few bits."""
    return torch.float64 if dtype is dtypes.float64 else torch.float32


@native
def randint(shape: Shape, low: int, high: int, dtype: DType, device: Device, seed: int) -> Any:
    # PyTorch's own takes the remainder of 32 or 64 bits, so that small numbers come up more often than large ones.
    generator, span = _generator(device, seed), high - low

    def draw() -> torch.Tensor:
        return torch.empty(shape, dtype=torch.int64, device=on(device)).random_(generator=generator)

    if span > _WHOLE:  # more numbers than 63 bits tell apart: one bit more, and another draw where it is too much
        bits = draw() ^ (draw() << 63)
        while bool((over := _at_least(bits, span)).any()):
            bits = torch.where(over, draw() ^ (draw() << 63), bits)
    else:
        bits = draw()
        limit = _WHOLE - _WHOLE % span
        while limit < _WHOLE and bool((over := bits >= limit).any()):
            bits = torch.where(over, draw(), bits)
        bits = bits if span == _WHOLE else bits % span
    return (bits + _as_signed(low)).to(TORCH[dtype])


def _as_signed(number: int) -> int:
    """The number with the same 64 bits that int64 can hold."""
    return (number + _WHOLE) % (2 * _WHOLE) - _WHOLE


def _at_least(bits: torch.Tensor, number: int) -> torch.Tensor:
    """Whether 64 bits read as an unsigned number reach another; what is less than 2**64 fits."""
    if number == 2 * _WHOLE:
        return torch.zeros_like(bits, dtype=torch.bool)
    return (bits ^ -_WHOLE) >= (_as_signed(number) ^ -_WHOLE)


@native
def uniform(shape: Shape, low: float, high: float, dtype: DType, device: Device, seed: int) -> Any:
    unit = torch.rand(shape, generator=_generator(device, seed), dtype=_kernel(dtype), device=on(device))
    if (low, high) == (0.0, 1.0) and unit.dtype is TORCH[dtype]:
        return unit
    values = unit.mul_(high - low).add_(low).to(TORCH[dtype])
    return values.clamp_(max=last_before(high, low, dtype))  # rounding may reach high


@native
def normal(shape: Shape, mean: float, std: float, dtype: DType, device: Device, seed: int) -> Any:
    unit = torch.randn(shape, generator=_generator(device, seed), dtype=_kernel(dtype), device=on(device))
    return unit.mul_(std).add_(mean).to(TORCH[dtype])


@native
def exponential(shape: Shape, scale: float, dtype: DType, device: Device, seed: int) -> Any:
    unit = torch.empty(shape, dtype=_kernel(dtype), device=on(device)).exponential_(generator=_generator(device, seed))
    return unit.mul_(scale).to(TORCH[dtype])


@native
def bernoulli(shape: Shape, p: float, device: Device, seed: int) -> Any:
    wide = torch.float32 if device.kind == "mps" else torch.float64
    return torch.rand(shape, generator=_generator(device, seed), dtype=wide, device=on(device)) < p


@native
def permutation(n: int, device: Device, seed: int) -> Any:
    return torch.randperm(n, generator=_generator(device, seed), device=on(device))
