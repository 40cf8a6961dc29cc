"""The samples of our own ops, a file per family. Importing this package writes them into the registry."""

from intermodal.testing.families import creation, elementwise, fft, linalg, manipulation, nn, random, reduction, searching

__all__ = ["creation", "elementwise", "fft", "linalg", "manipulation", "nn", "random", "reduction", "searching"]
