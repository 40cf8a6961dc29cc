"""Fourier transforms, as users import them: the rows of this namespace."""

from intermodal.ops.fft import *
