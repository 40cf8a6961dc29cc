"""Engines to try the kit on: one that is right with its primitives alone, and some that are wrong on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import intermodal as im
from intermodal import backend
from intermodal.backend import Native
from intermodal.dtypes import DType
from intermodal.engines.numpy import NumpyBackend
from intermodal.engines.numpy.natives import NATIVES
from intermodal.ops import TABLE, Op


@contextmanager
def engine(name: str, /, **members: Any) -> Iterator[im.Device]:
    """A subclass of NumPy's backend under another name, there for as long as the block runs."""
    device = im.Device(f"{name}:cpu")
    made = type(name, (NumpyBackend,), {"engine": name, "devices": lambda self: (device,), **members})
    backend.register(name, made)
    try:
        yield device
    finally:
        backend.unregister(name)


def with_natives(**changed: Native) -> dict[str, Any]:
    """NumPy's natives with some replaced."""
    return {"natives": {**NATIVES, **changed}}


def primitives_only() -> Mapping[str, Native]:
    """The natives that every engine owes."""
    return {name: function for name, function in NATIVES.items() if TABLE[name].is_primitive}


def spoiling(row: Op, asked_for: list[str]) -> Callable[[Any, Op, DType], Native | None]:
    """A ``native`` method that gives wrong results for one op, whether NumPy has a native for it or not."""

    def native(self: Any, asked: Op, dtype: DType) -> Native | None:
        right = NumpyBackend.native(self, asked, dtype)
        if asked is not row:
            return right

        def wrong(*arrays: Any, **attrs: Any) -> Any:
            asked_for.append(row.name)
            result = _decomposed(row, arrays, attrs) if right is None else right(*arrays, **attrs)
            return tuple(map(_spoil, result)) if isinstance(result, (tuple, list)) else _spoil(result)

        def _spoil(array: Any) -> Any:
            return spoil(array, 0.05 if row.takes_seed else 2e-4)

        return wrong

    return native


def _decomposed(row: Op, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """The op on the NumPy engine, arrays in and arrays out."""

    def lift(value: Any) -> Any:
        if isinstance(value, (np.ndarray, np.generic)):
            return im.asarray(np.asarray(value))
        return [lift(v) for v in value] if isinstance(value, list) else value

    given = iter(arrays)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for p in row.params:
        value = attrs[p.name] if p.name in attrs else lift(next(given))
        value = "numpy:cpu" if p.name == "device" else value
        if p.place == "*args":
            args.extend(value)
        elif p.place == "*":
            kwargs[p.name] = value
        else:
            args.append(value)
    result = row.function(*args, **kwargs)
    return tuple(t.numpy() for t in result) if isinstance(result, tuple) else result.numpy()


def spoil(result: Any, by: float) -> Any:
    """A result that is a little wrong: numbers by a share of themselves, integers by one, truths turned."""
    array = np.array(result)
    dtype = im.dtypes.as_dtype(array.dtype)
    if dtype.is_bool:
        return ~array
    if dtype.is_integer:
        return (array.astype(np.int64) + 1).astype(array.dtype)
    wide = array.astype(np.complex128 if dtype.is_complex else np.float64)
    return np.where(wide == 0, 1e-3, wide * (1 + by)).astype(array.dtype)
