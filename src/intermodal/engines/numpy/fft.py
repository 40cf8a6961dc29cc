"""NumPy natives of Fourier transforms along one axis; pocketfft computes each in its operand's own precision."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from intermodal.engines.numpy.natives import NATIVES, native

__all__: list[str] = []

NATIVES.update({transform.__name__: transform for transform in (np.fft.fft, np.fft.ifft, np.fft.rfft)})


@native
def irfft(x: Any, n: int | None, axis: int, norm: Literal["backward", "ortho", "forward"]) -> Any:
    if x.shape[axis] == 0:  # NumPy 2 leaves the first frequency of an empty signal as it finds it in memory
        x = np.zeros(tuple(1 if i == axis % x.ndim else k for i, k in enumerate(x.shape)), x.dtype)
    return np.fft.irfft(x, n, axis, norm)
