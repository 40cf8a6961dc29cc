"""The NumPy engine: the reference on the host, always there."""

from intermodal.engines.numpy.backend import NumpyBackend

__all__ = ["NumpyBackend"]
