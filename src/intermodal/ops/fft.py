"""Rows of fft."""

from intermodal.ops.table import public_names

__all__ = public_names(__name__)
