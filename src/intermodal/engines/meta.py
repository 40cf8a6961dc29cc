"""The meta engine: tensors that have a shape and a dtype and no data. Every op follows from its row's `infer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from intermodal import dtypes
from intermodal.backend import Array, Backend, DTypeUsage, Native
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.errors import NoDataError, UnsupportedError
from intermodal.ops.table import Op, Spec

__all__ = ["MetaBackend"]


def _no_data(*_: object, **__: object) -> NoReturn:
    raise NoDataError("a meta tensor has no data to read. Run the program on another device, such as numpy:cpu.")


class MetaBackend(Backend):
    """Shapes and dtypes, no data: its arrays are `Spec`s."""

    engine = "meta"
    takes_scalars = True
    defers = True
    holds_data = False

    def devices(self) -> Sequence[Device]:
        return (Device("meta:cpu"),)

    def dtype_usage(self, device: Device, dtype: DType) -> DTypeUsage:
        return DTypeUsage.GENERAL

    def shape(self, array: Spec) -> tuple[int, ...]:
        return tuple(array.shape)

    def from_host(self, data: np.ndarray[Any, Any], device: Device, *, copy: bool | None = None) -> Spec:
        return Spec(data.shape, dtypes.as_dtype(data.dtype))

    def to_host(self, array: Spec) -> np.ndarray[Any, Any]:
        _no_data()

    def native(self, row: Op, dtype: DType) -> Native | None:
        return None if row.infer is None else _no_data  # `execute` answers for every op that has a rule and never calls it

    def execute(
        self, row: Op, arrays: Sequence[Any], attrs: Mapping[str, object], outputs: Sequence[Spec], native: Native
    ) -> Sequence[Array]:
        if row.data_dependent:
            raise UnsupportedError(f"{row.name}: the shape of its result depends on the data, and a meta tensor has none.")
        return outputs
