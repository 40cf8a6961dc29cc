"""Which dtypes ONNX Runtime's kernels compute, and through which wider dtype the others go. The one place for casts around an operator.

An operator that is not in the table takes every dtype that a tensor can have. A dtype that a kernel lacks goes

* by value through the first wider dtype that the kernel has: what is cut off on the way back wraps, as NumPy's integers do;
* ``uint64`` by its bits through ``int64``, where the operator is the same for both (sums, products, moves) or only
  compares, with the highest bit turned, which keeps the order.
"""

from __future__ import annotations

from typing import Final

from intermodal import dtypes
from intermodal.dtypes import DType

__all__ = ["KERNELS", "ONNX", "OURS", "Route", "route"]

# The numbers of TensorProto.DataType, by our names: https://onnx.ai/onnx/intro/concepts.html
ONNX: Final[dict[DType, int]] = {
    dtypes.float32: 1,
    dtypes.uint8: 2,
    dtypes.int8: 3,
    dtypes.uint16: 4,
    dtypes.int16: 5,
    dtypes.int32: 6,
    dtypes.int64: 7,
    dtypes.bool_: 9,
    dtypes.float16: 10,
    dtypes.float64: 11,
    dtypes.uint32: 12,
    dtypes.uint64: 13,
    dtypes.bfloat16: 16,
    dtypes.float8_e4m3fn: 17,
    dtypes.float8_e5m2: 19,
    dtypes.uint4: 21,
    dtypes.int4: 22,
}
OURS: Final = {number: dtype for dtype, number in ONNX.items()}

_F: Final = "float32 "
_FF: Final = "float32 float64 "
_II: Final = "int32 int64 "
_INTEGERS: Final = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
_MOVED: Final = "bool float16 bfloat16 " + _FF + _INTEGERS  # all but the small dtypes that are only stored
_STORED: Final = _MOVED + "float8_e4m3fn float8_e5m2 "

_TABLE: Final = {
    "Acos Acosh Asin Asinh Atan Atanh AveragePool Conv ConvTranspose Cosh Det Elu Erf Gelu HardSigmoid": _F,
    "InstanceNormalization LeakyRelu PRelu Selu Sinh Softplus Softsign Tan Attention": _F,
    "BatchNormalization Ceil Cos DeformConv Exp Floor Gemm GridSample LayerNormalization Log LogSoftmax": _FF,
    "MaxPool Reciprocal RMSNormalization Round Sigmoid Sin Softmax Sqrt Tanh": _FF,
    "Abs Add Div Greater GreaterOrEqual Less LessOrEqual Mod Mul Sub Sign": _FF + _INTEGERS,
    "Neg": _FF + "int8 int16 int32 int64",
    "Equal": _FF + _INTEGERS + "bool",
    "And Not Or Xor": "bool",
    "BitwiseAnd BitwiseNot BitwiseOr BitwiseXor": _INTEGERS,
    "BitShift": "uint8 uint32 uint64",
    "Max Min Clip": _FF + _II + "int8 uint8 uint32 uint64",
    "MatMul": _FF + _II,  # those of uint32 and uint64 fail where there is nothing to add up
    "Relu": _FF + "int8 int32",
    "Pow CumSum ReduceSum ReduceProd ReduceMean ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp": _FF + _II,
    "CumProd": _FF + _II + "uint32 uint64",
    "ReduceMax ReduceMin": _FF + _II + "int8 uint8 bool",
    "ArgMax ArgMin": _FF + _II + "int8 uint8",
    "TopK": _FF + _II + "int8 int16 uint8",
    "NonZero": "bool float32 int32 int64 uint8",
    "IsNaN IsInf": _FF + "float16 bfloat16",
    "Where": _FF + _II + "int8 uint8 uint32",
    "Pad": _FF + _II + "bool int8 uint8 uint32 uint64",
    "Trilu": _FF + _II + "bool",
    "Range": _FF + "int16 int32 int64",
    "Resize": _F,
    "Expand": _FF + _INTEGERS + "bool float16",
    "Compress Concat Flatten Gather GatherElements GatherND ScatterElements ScatterND Slice Split Squeeze Unsqueeze": _MOVED,
    "Identity Reshape Shape Transpose": _STORED,
}  # fmt: skip
KERNELS: Final[dict[str, frozenset[DType]]] = {
    operator: frozenset(dtypes.as_dtype(name) for name in names.split())
    for operators, names in _TABLE.items()
    for operator in operators.split()
}
"""The dtypes that ONNX Runtime's CPU kernels have, for each operator that we emit and that does not take all. A test compares it with ONNX Runtime."""

_WIDER: Final[dict[DType, tuple[DType, ...]]] = {
    dtypes.bool_: (dtypes.uint8, dtypes.int32, dtypes.int64),
    dtypes.int8: (dtypes.int32, dtypes.int64),
    dtypes.int16: (dtypes.int32, dtypes.int64),
    dtypes.uint8: (dtypes.int32, dtypes.int64),
    dtypes.uint16: (dtypes.int32, dtypes.uint32, dtypes.int64),
    dtypes.int32: (dtypes.int64,),
    dtypes.uint32: (dtypes.int64, dtypes.uint64),
    dtypes.float16: (dtypes.float32,),
    dtypes.bfloat16: (dtypes.float32,),
    dtypes.float8_e4m3fn: (dtypes.float32,),
    dtypes.float8_e5m2: (dtypes.float32,),
    dtypes.int4: (dtypes.int8, dtypes.int32),
    dtypes.uint4: (dtypes.uint8, dtypes.int32),
}
_MODULAR: Final = frozenset(("CumSum", "MatMul", "Where", "Trilu"))
_ORDERED: Final = frozenset(("ArgMax", "ArgMin", "ReduceMax", "ReduceMin", "TopK"))

Route = tuple[DType, str]
"""The dtype in which an operator is computed, and how its operands get there: ``value``, ``bits`` or ``order``."""


def route(operator: str, dtype: DType) -> Route | None:
    """How a dtype gets through an operator whose kernel lacks it; None where there is no way. The way of one that it has is itself."""
    kernel = KERNELS.get(operator)
    if kernel is None or dtype in kernel:
        return dtype, "value"
    if dtype is dtypes.uint64 and dtypes.int64 in kernel and operator in _MODULAR | _ORDERED:
        return dtypes.int64, "order" if operator in _ORDERED else "bits"
    return next(((wide, "value") for wide in _WIDER.get(dtype, ()) if wide in kernel), None)
