"""JAX natives of Fourier transforms along one axis, each in its operand's own precision."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from intermodal.engines.jax.natives import compiled, wide

__all__: list[str] = []


@compiled
@wide
def fft(x: Any, n: int, axis: int, norm: str) -> Any:
    return jnp.fft.fft(x, n, axis, norm)


@compiled
@wide
def ifft(x: Any, n: int, axis: int, norm: str) -> Any:
    return jnp.fft.ifft(x, n, axis, norm)


@compiled
@wide
def rfft(x: Any, n: int, axis: int, norm: str) -> Any:
    return jnp.fft.rfft(x, n, axis, norm)


@compiled
@wide
def irfft(x: Any, n: int, axis: int, norm: str) -> Any:
    return jnp.fft.irfft(x, n, axis, norm)
