"""NumPy natives of Fourier transforms along one axis; pocketfft computes each in its operand's own precision."""

from __future__ import annotations

import numpy as np

from intermodal.engines.numpy.natives import NATIVES

__all__: list[str] = []

NATIVES.update({transform.__name__: transform for transform in (np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft)})
