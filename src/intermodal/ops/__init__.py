"""The op table and its families: what every op means, on every engine. Importing this package writes all rows."""

from intermodal.ops import (
    activation,
    convolution,
    creation,
    einsum,
    elementwise,
    factorization,
    fft,
    linalg,
    manipulation,
    random,
    reduction,
    searching,
    windows,
)
from intermodal.ops.table import TABLE, Inferred, NotDifferentiable, Op, Spec, op, primitive

__all__ = [
    "TABLE",
    "Inferred",
    "NotDifferentiable",
    "Op",
    "Spec",
    "activation",
    "convolution",
    "creation",
    "einsum",
    "elementwise",
    "factorization",
    "fft",
    "linalg",
    "manipulation",
    "op",
    "primitive",
    "random",
    "reduction",
    "searching",
    "windows",
]
