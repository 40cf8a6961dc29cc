"""Write tensor code once; run it on any engine, several at a time.

This module is an Array API namespace (revision 2025.12) and more: ``import intermodal as im``.

Example:
    >>> import intermodal as im
    >>> x = im.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> im.mean(x @ x.T)
    Tensor(13., dtype=float32, device=numpy:cpu)
"""

import math as _math
import os as _os
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any, Final as _Final

from intermodal import pools as pools  # first of all: what it sets is read when NumPy loads

if _os.environ.get("INTERMODAL_PURE") == "1":
    _import_module("intermodal._pure")

from intermodal import (
    backend as backend,
    config as config,
    dispatch as _dispatch,  # which connects the public functions with the engines
    dtypes as dtypes,
    errors as errors,
    fft as fft,
    linalg as linalg,
    nn as nn,
    ops as ops,
    random as random,
)
from intermodal.backend import Backend as Backend, DTypeUsage as DTypeUsage
from intermodal.config import default_device as default_device
from intermodal.conversion import asarray as asarray, from_dlpack as from_dlpack
from intermodal.devices import Device as Device
from intermodal.dtypes import (
    DType as DType,
    bfloat16 as bfloat16,
    complex64 as complex64,
    complex128 as complex128,
    float8_e4m3fn as float8_e4m3fn,
    float8_e5m2 as float8_e5m2,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    int4 as int4,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    isdtype as isdtype,
    uint4 as uint4,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from intermodal.errors import *
from intermodal.execution import (
    device_count as device_count,
    devices as devices,
    dtype_usage as dtype_usage,
    memory_cleanup as memory_cleanup,
    persistent_allocations as persistent_allocations,
    read as read,
    supports_dtype as supports_dtype,
    sync as sync,
)
from intermodal.inspection import (
    __array_namespace_info__ as __array_namespace_info__,
    broadcast_shapes as broadcast_shapes,
    can_cast as can_cast,
    finfo as finfo,
    iinfo as iinfo,
    result_type as result_type,
)
from intermodal.ops.creation import *
from intermodal.ops.einsum import *
from intermodal.ops.elementwise import *
from intermodal.ops.linalg import (
    kron as kron,
    matmul as matmul,
    matrix_transpose as matrix_transpose,
    tensordot as tensordot,
    vecdot as vecdot,
)
from intermodal.ops.manipulation import *
from intermodal.ops.reduction import *
from intermodal.ops.searching import *
from intermodal.ops.table import (
    TABLE as _TABLE,
    NotDifferentiable as NotDifferentiable,
    Op as Op,
    Spec as Spec,
    op as op,
    primitive as primitive,
)
from intermodal.tensor import Tensor as Tensor

if _TYPE_CHECKING:
    from intermodal import autodiff as autodiff, graph as graph, optim as optim
    from intermodal.autodiff import (
        Gradients as Gradients,
        custom_vjp as custom_vjp,
        grad as grad,
        hessian as hessian,
        hvp as hvp,
        jvp as jvp,
        no_grad as no_grad,
        value_and_grad as value_and_grad,
        vjp as vjp,
    )
    from intermodal.backend import (
        BackendCapabilities as BackendCapabilities,
        BackendConfig as BackendConfig,
        BackendFactory as BackendFactory,
        BackendMemoryConfig as BackendMemoryConfig,
        BackendRequirements as BackendRequirements,
        BackendStatus as BackendStatus,
        probe as probe,
    )
    from intermodal.graph import Graph as Graph, compile as compile, trace as trace
    from intermodal.selection import Candidate as Candidate, Choice as Choice, best as best
    from intermodal.training.precision import autocast as autocast

# Loaded when asked for: most programs never do, and the import stays light.
_LATER_MODULES: _Final = ("autodiff", "graph", "optim")
_LATER: _Final = {
    "autodiff": ("Gradients", "custom_vjp", "grad", "hessian", "hvp", "jvp", "no_grad", "value_and_grad", "vjp"),
    "backend": (
        "BackendCapabilities",
        "BackendConfig",
        "BackendFactory",
        "BackendMemoryConfig",
        "BackendRequirements",
        "BackendStatus",
        "probe",
    ),
    "graph": ("Graph", "compile", "trace"),
    "selection": ("Candidate", "Choice", "best"),
    "training.precision": ("autocast",),
}

__version__: _Final = "0.1.0.dev0"
__array_api_version__: _Final = "2025.12"

bool: _Final = dtypes.bool_
e: _Final = _math.e
inf: _Final = _math.inf
nan: _Final = _math.nan
pi: _Final = _math.pi
newaxis: _Final = None


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER_MODULES, *(name for names in _LATER.values() for name in names)})


def __getattr__(name: str) -> _Any:
    if name in _LATER_MODULES:
        return _import_module(f"intermodal.{name}")
    for module, names in _LATER.items():
        if name in names:
            return getattr(_import_module(f"intermodal.{module}"), name)
    # An op whose row was written after this module was loaded (by a plugin, say) is found here.
    row = _TABLE.get(name)
    if row is not None and not row.namespace:
        return row.function
    raise AttributeError(f"module 'intermodal' has no attribute {name!r}")
