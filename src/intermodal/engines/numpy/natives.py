"""How a NumPy native is written down: functions collected by name, and computing small floats in a wider dtype."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

import numpy as np

from intermodal import dtypes
from intermodal.backend import Native
from intermodal.dtypes import DType

__all__ = ["NATIVES", "native", "through"]

F = TypeVar("F", bound=Callable[..., Any])
NATIVES: Final[dict[str, Native]] = {}


def native(function: F) -> F:
    """Add a function under its own name; a trailing underscore keeps it off a builtin's or keyword's name."""
    NATIVES[function.__name__.rstrip("_")] = function
    return function


def through(function: Native, narrow: DType, wide: DType) -> Native:
    """The function computed in a wider dtype and rounded back, for a dtype that NumPy's kernels do not have."""
    small, large = narrow.numpy, wide.numpy

    def widen(value: Any) -> Any:
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype == small:
            return value.astype(large)
        return [widen(v) for v in value] if isinstance(value, list) else value

    def back(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return tuple(back(v) for v in value)
        return value.astype(small) if value.dtype == large else value

    @wraps(function)
    def wide_function(*arrays: Any, **attrs: Any) -> Any:
        wanted = attrs.get("dtype")
        if wanted is narrow:
            attrs["dtype"] = wide
        result = function(*map(widen, arrays), **attrs)
        return (
            result
            if isinstance(wanted, DType)
            and wanted is not narrow
            and wanted is not dtypes.bool_
            and not isinstance(result, tuple)
            and result.dtype == wanted.numpy
            else back(result)
        )

    return wide_function
