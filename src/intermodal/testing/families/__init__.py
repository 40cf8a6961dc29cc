"""The samples of our own ops, a file per family. Importing this package writes them into the registry."""

from intermodal.testing.families import (
    activation,
    convolution,
    creation,
    elementwise,
    fft,
    image,
    linalg,
    manipulation,
    network,
    pooling,
    random,
    reduction,
    searching,
)

__all__ = [
    "activation",
    "convolution",
    "creation",
    "elementwise",
    "fft",
    "image",
    "linalg",
    "manipulation",
    "network",
    "pooling",
    "random",
    "reduction",
    "searching",
]
