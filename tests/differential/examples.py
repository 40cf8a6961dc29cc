"""Programs on which engines once differed, each under the sentence that holds now."""

from __future__ import annotations

from math import inf, nan
from typing import Final

import numpy as np

from differential.programs import Program, Step, V, array

EXAMPLES: Final[dict[str, Program]] = {
    "a scalar for an optional tensor is refused": Program(
        Step("source", array([[0.0, 1.0, 2.5]], "float32"), "plain"),
        Step("layer_norm", V(0), bias=2, axis=1),
        Step("diff", V(0), prepend=1),
    ),
    "an attribute of another type is refused": Program(
        Step("source", array([[0.0, 1.0, 2.5]], "float32"), "plain"),
        Step("permute_dims", V(0), axes=-1),
    ),
    "sorters are of any integer dtype": Program(
        Step("source", array([5, 0, 3], "uint64"), "plain"),
        Step("source", array([1, 2, 0], "uint64"), "reversed"),
        Step("searchsorted", V(0), V(0), sorter=V(1)),
    ),
    "a sorter beyond the end is refused": Program(
        Step("source", array([5, 0, 3], "int64"), "plain"),
        Step("source", array([5, 0, 1], "uint32"), "plain"),
        Step("searchsorted", V(0), V(0), sorter=V(1)),
    ),
    "the sign of an infinite complex number is finite": Program(
        Step(
            "source",
            array([complex(inf, 1.0), complex(-inf, 0.5), complex(1.0, -inf), complex(inf, inf)], "complex64"),
            "stepped",
        ),
        Step("sign", V(0)),
    ),
    "the sign of a large complex number has length 1": Program(
        Step("source", array([complex(1.7e308, 1.7e308), complex(-1.7e308, 0.0)], "complex128"), "plain"),
        Step("sign", V(0)),
    ),
    "a complex number to the power of 0 is 1": Program(
        Step("source", array([complex(0.0, 0.0), complex(2.0, 1.0)], "complex128"), "plain"),
        Step("source", array(complex(0.0, 0.0), "complex128"), "plain"),
        Step("pow", V(0), V(1)),
    ),
    "a complex number to an integer power": Program(
        Step("source", array([[0], [1], [4]], "int64"), "plain"),
        Step(
            "source",
            array([[complex(1e-39, -0.0)], [complex(2.938735877055719e-39, -0.0)], [complex(1e-38, -1.0)]], "complex64"),
            "plain",
        ),
        Step("pow", V(1), V(0)),
    ),
    "a power of complex 0 is 0": Program(
        Step("source", array([complex(0.0, 0.0)], "complex64"), "plain"),
        Step("source", array([complex(1.0, 1.0), complex(2.5, 0.0)], "complex64"), "plain"),
        Step("operator.pow", V(0), V(1)),
    ),
    "no integers to a negative power are no mistake": Program(
        Step("source", array(np.zeros((0,)), "int32"), "plain"),
        Step("ipow", V(0), -1),
        Step("pow", V(0), -1),
    ),
    "minus infinity to the power of a half is infinity": Program(
        Step("source", array([-inf, -0.0, 4.0], "float64"), "plain"),
        Step("pow", V(0), 0.5),
        Step("pow", V(0), -0.5),
    ),
    "a remainder is exact where the quotient overflows": Program(
        Step("source", array([-1.7976931348623157e308, 1.7976931348623157e308, 2.5, inf], "float64"), "plain"),
        Step("operator.mod", V(0), -0.5),
        Step("remainder", V(0), 2.2250738585072014e-308),
        Step("floor_divide", V(0), -0.5),
    ),
    "unsigned integers are rounded to tens": Program(
        Step("source", array([4, 15, 25, 2**64 - 1], "uint64"), "reversed"),
        Step("round", V(0), decimals=-1),
    ),
    "large integers are rounded to tens with all their digits": Program(
        Step("source", array([2**62 + 5, 2**63 - 1, -(2**63)], "int64"), "plain"),
        Step("round", V(0), decimals=-1),
    ),
    "bounds of a narrower dtype do not narrow a number": Program(
        Step("source", array(4.097452671189252, "float64"), "plain"),
        Step("source", array([[1.0, 0.5], [0.75, 2.0]], "bfloat16"), "transposed"),
        Step("clip", V(0), V(1)),
    ),
    "bounds of uint64 hold a uint8": Program(
        Step("source", array([0, 7, 255], "uint8"), "plain"),
        Step("source", array([5], "uint64"), "plain"),
        Step("source", array(2**63 + 2, "uint64"), "plain"),
        Step("clip", V(0), V(1)),
        Step("clip", V(0), V(1), V(2)),
        Step("clip", V(0), V(2)),
        Step("clip", V(0), 1, V(1)),
    ),
    "no extremes of no elements are no mistake": Program(
        Step("source", array(np.zeros((0, 0)), "float32"), "plain"),
        Step("max", V(0), axis=-2),
        Step("min", V(0), axis=0),
    ),
    "complex numbers add up part by part": Program(
        Step("source", array([complex(1.0, 0.0)], "complex128"), "plain"),
        Step("source", array([complex(-inf, 2.0)], "complex128"), "plain"),
        Step("add", V(0), V(1)),
        Step("operator.add", V(0), V(1)),
        Step("subtract", V(0), V(1)),
        Step("iadd", V(0), V(1)),
    ),
    "log1p of a small complex number keeps its digits": Program(
        Step("source", array([complex(-6.66e-17, 0.0), complex(1e-9, 1e-9)], "complex128"), "plain"),
        Step("log1p", V(0)),
    ),
    "a transform of an empty signal is 0": Program(
        Step("source", array(np.zeros((2, 0)), "complex64"), "plain"),
        Step("hfft", V(0), n=1),
        Step("irfft", V(0), n=2, axis=1),
    ),
    "what a transform conjugates is conjugated": Program(
        Step("source", array([[0.0, -2.0, -3.5], [2.0, 0.5, -0.25]], "float32"), "plain"),
        Step("ihfft", V(0), n=1, axis=-2),
        Step("round", V(1), decimals=2),
    ),
    "gelu below zero has the digits that its formula leaves": Program(
        Step("source", array(-3.3934833824215884, "float64"), "plain"),
        Step("gelu", V(0), approximate="tanh"),
    ),
    "softplus of a large number is the number": Program(
        Step("source", array([1.7976931348623157e308, inf, nan, -1.0], "float64"), "plain"),
        Step("softplus", V(0), beta=2.0),
    ),
}

WHOLE: Final[dict[str, Program]] = {
    "the parts of a tensor that is tiled are copies": Program(
        Step("source", array([[0.5, 3.0], [-0.25, 0.0]], "float32"), "plain"),
        Step("tile", V(0), (1, 2)),
        Step("source", array(True, "bool"), "plain"),
        Step("setitem", V(0), V(2), 1.0),
    ),
    "a write reaches the transpose of what is written": Program(
        Step("source", array([[1, 2, 3], [4, 5, 6]], "int16"), "plain"),
        Step("matrix_transpose", V(0)),
        Step("getitem", V(0), (slice(None, 1, None), slice(1, None, None))),
        Step("ior", V(2), 8),
    ),
    "a write reaches what is broadcast from it": Program(
        Step("source", array([5], "int16"), "stepped"),
        Step("source", array([-2], "int16"), "plain"),
        Step("broadcast_arrays", V(0), V(1)),
        Step("ifloordiv", V(1), V(3)),
    ),
    "a write reaches an axis that was moved": Program(
        Step("source", array([[-2.0, -3.5], [0.5, -0.25]], "float32"), "plain"),
        Step("moveaxis", V(0), 0, -1),
        Step("isub", V(0), 1.0),
    ),
    "a value for each place that a mask selects": Program(
        Step("source", array([[65535, 0, 2]], "int32"), "plain"),
        Step("source", array([[True, False, True]], "bool"), "plain"),
        Step("source", array([3, 5], "int32"), "reversed"),
        Step("setitem", V(0), V(1), V(2)),
    ),
    "a step of Adam may be a fraction": Program(
        Step("source", array(3.0, "float32"), "plain"),
        Step("source", array(1.5, "float32"), "plain"),
        Step("adam_step", V(0), V(0), V(0), V(0), step=V(1), rate=V(0), eps=0.001),
    ),
    "the angle of a NaN is one": Program(
        Step(
            "source", array([complex(-3e38, nan), complex(1.0, nan), complex(nan, inf), complex(nan, 1.0)], "complex64"), "plain"
        ),
        Step("atan", V(0)),
    ),
    "an imaginary number is not zero": Program(
        Step("source", array([[complex(0.0, 3.0), complex(0.75, 2.0)], [0j, 0j]], "complex64"), "plain"),
        Step("all", V(0), axis=1),
        Step("any", V(0), axis=1),
    ),
    "the inverse of a matrix": Program(
        Step("source", array([[6.0, 0.5], [-0.5, 6.0]], "float64"), "plain"),
        Step("inv", V(0), terms=2),
        Step("solve", V(0), V(1), terms=2),
        Step("cholesky", V(0), terms=2),
    ),
}
"""Programs that once differed, or failed, when they were compiled as one function."""
