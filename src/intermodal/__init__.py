"""Write tensor code once; run it on any engine, several at a time.

This module is an Array API namespace (revision 2025.12) and more: ``import intermodal as im``.

Example:
    >>> import intermodal as im
    >>> x = im.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> im.mean(x @ x.T)
    Tensor(13., dtype=float32, device=numpy:cpu)
"""

from __future__ import annotations

import math
from typing import Any, Final

from intermodal import backend, config, dtypes, errors, fft, linalg, nn, ops, random
from intermodal.backend import Backend, DTypeUsage
from intermodal.conversion import asarray, from_dlpack
from intermodal.devices import Device
from intermodal.dispatch import default_device
from intermodal.dtypes import (
    DType,
    bfloat16,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int4,
    int8,
    int16,
    int32,
    int64,
    isdtype,
    uint4,
    uint8,
    uint16,
    uint32,
    uint64,
)
from intermodal.dtypes import bool_ as bool
from intermodal.errors import *
from intermodal.execution import (
    device_count,
    devices,
    dtype_usage,
    memory_cleanup,
    persistent_allocations,
    read,
    supports_dtype,
    sync,
)
from intermodal.inspection import __array_namespace_info__, broadcast_shapes, can_cast, finfo, iinfo, result_type
from intermodal.ops.creation import *
from intermodal.ops.einsum import *
from intermodal.ops.elementwise import *
from intermodal.ops.linalg import kron, matmul, matrix_transpose, tensordot, vecdot
from intermodal.ops.manipulation import *
from intermodal.ops.reduction import *
from intermodal.ops.searching import *
from intermodal.ops.table import TABLE as _TABLE
from intermodal.ops.table import NotDifferentiable, Op, op, primitive
from intermodal.tensor import Tensor

__version__: Final = "0.1.0.dev0"
__array_api_version__: Final = "2025.12"

e: Final = math.e
inf: Final = math.inf
nan: Final = math.nan
pi: Final = math.pi
newaxis: Final = None


def __getattr__(name: str) -> Any:
    # An op whose row was written after this module was loaded (by a plugin, say) is found here.
    row = _TABLE.get(name)
    if row is not None and not row.namespace:
        return row.function
    raise AttributeError(f"module 'intermodal' has no attribute {name!r}")
