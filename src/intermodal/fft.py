"""Fourier transforms, as users import it: the rows of this namespace."""

from intermodal.ops.fft import *
from intermodal.ops.fft import __all__ as __all__
