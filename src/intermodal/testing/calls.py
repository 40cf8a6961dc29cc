"""Calls: a sample on a device, in a memory layout, by the engine's native or by decomposition, and its text for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from intermodal import dtypes
from intermodal.backend import DTypeUsage, backend_of
from intermodal.conversion import asarray
from intermodal.devices import Device, DeviceLike, as_device
from intermodal.dtypes import DType
from intermodal.ops.manipulation import permute_dims
from intermodal.ops.searching import basic_index
from intermodal.ops.table import TABLE, Op
from intermodal.places import place_of
from intermodal.tensor import Tensor
from intermodal.testing.samples import HostArray, Sample, case

__all__ = ["LAYOUTS", "arrays_in", "decomposed", "layouts_of", "mapped", "on", "replay", "results", "text"]

SHORT = 24
"""The most elements that the arrays of a call may have for a failure to write them out."""

SEED = 7
"""The seed of a random op whose sample names none."""


def _plain(array: HostArray, device: Device) -> Tensor:
    return asarray(array, device=device, copy=True)


def _reversed(array: HostArray, device: Device) -> Tensor:
    key = (slice(None, None, -1),) * array.ndim
    return basic_index(_plain(array[key], device), key=key) if array.ndim else _plain(array, device)


def _strided(array: HostArray, device: Device) -> Tensor:
    """The axes turned, and every second element of the last one skipped."""
    if array.ndim == 0:
        return _plain(array, device)
    turned = tuple(reversed(range(array.ndim)))
    wider = np.repeat(array.transpose(turned), 2, axis=-1)
    key = (*(slice(None),) * (array.ndim - 1), slice(None, None, 2))
    return permute_dims(basic_index(_plain(wider, device), key=key), turned)


LAYOUTS: Final[dict[str, Callable[[HostArray, Device], Tensor]]] = {
    "plain": _plain,
    "reversed": _reversed,
    "strided": _strided,
}
"""The ways in which the elements of an operand lie in the device's memory."""


def layouts_of(device: Device) -> tuple[str, ...]:
    """The layouts that differ on a device: PyTorch has no negative strides, and JAX keeps every array in C order.

    There a turned operand is a plain one by the time that the op sees it, so nothing new would be tested.
    Where the engine does not show its memory, all of them are tried.
    """
    backend = backend_of(device.engine)
    dtype = next(d for d in dtypes.ALL if DTypeUsage.STORAGE in backend.dtype_usage(device, d))

    def differs(layout: str) -> bool:
        try:
            view = backend.host_view(LAYOUTS[layout](np.ones((3, 4), dtype.numpy), device)._data)
        except Exception:  # a faulty engine fails in any way; the rows that turn arrays report it
            return True
        return view is None or not view.flags.c_contiguous

    return ("plain", *(layout for layout in LAYOUTS if layout != "plain" and differs(layout)))


def mapped(value: Any, change: Callable[[HostArray], Any]) -> Any:
    """A value with each array in it, alone or in a list, replaced."""
    if isinstance(value, np.ndarray):
        return change(value)
    if isinstance(value, (list, tuple)) and any(isinstance(v, np.ndarray) for v in value):
        return type(value)(mapped(v, change) for v in value)
    return value


def arrays_in(sample: Sample) -> list[HostArray]:
    """All arrays of a sample."""
    found: list[HostArray] = []
    for value in (*sample.args, *sample.kwargs.values()):
        mapped(value, found.append)
    return found


def on(row: Op, sample: Sample, device: Device, layout: str = "plain") -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a sample with tensors on a device in place of its arrays."""

    def put(array: HostArray) -> Tensor:
        return LAYOUTS[layout](array, device)

    args = tuple(mapped(v, put) for v in sample.args)
    kwargs = {name: mapped(v, put) for name, v in sample.kwargs.items()}
    if row.takes_device:
        kwargs.setdefault("device", device)
    if row.takes_seed:
        kwargs.setdefault("seed", SEED)
    return args, kwargs


def results(value: Any) -> list[Tensor]:
    """The tensors that an op gave."""
    return list(value) if isinstance(value, tuple) else [value]


@contextmanager
def decomposed(row: Op, device: Device) -> Iterator[None]:
    """Inside the block the row runs by its decomposition on the device, even where the engine has a native for it."""
    backend = backend_of(device.engine)
    places = [place_of(device, d) for d in dtypes.ALL if DTypeUsage.STORAGE in backend.dtype_usage(device, d)]
    # A place remembers the engine's function for a row; None there means that it has none.
    memories: list[dict[str, Any]] = [memory for p in places for memory in (p.natives, p.short)]
    before = [memory.get(row.name, decomposed) for memory in memories]
    for memory in memories:
        memory[row.name] = None
    try:
        yield
    finally:
        for memory, native in zip(memories, before, strict=True):
            if native is decomposed:
                del memory[row.name]
            else:
                memory[row.name] = native


def replay(op: str, dtype: str, index: int, device: DeviceLike, *, layout: str = "plain", seed: int = 0) -> Any:
    """Run one sample again, as a failure names it."""
    row, target = TABLE[op], as_device(device)
    args, kwargs = on(row, case(op, dtype, index, seed=seed), target, layout)
    return row.function(*args, **kwargs)


def text(row: Op, sample: Sample, dtype: DType, index: int, device: Device, layout: str, seed: int) -> str:
    """Python code that makes the call: with its data where that is short, else by the sample's index."""
    if layout == "plain" and sum(a.size for a in arrays_in(sample)) <= SHORT:
        given = [_literal(v, device) for v in sample.args]
        given += [f"{name}={_literal(v, device)}" for name, v in sample.kwargs.items()]
        if row.takes_device and "device" not in sample.kwargs:
            given.append(f"device={str(device)!r}")
        if row.takes_seed and "seed" not in sample.kwargs:
            given.append(f"seed={SEED}")
        return f"im.{row.qualified_name}({', '.join(given)})"
    return f"intermodal.testing.replay({row.name!r}, {str(dtype)!r}, {index}, {str(device)!r}, layout={layout!r}, seed={seed})"


def _literal(value: Any, device: Device) -> str:
    if isinstance(value, np.ndarray):
        dtype = dtypes.as_dtype(value.dtype)
        return f"im.asarray({_numbers(value.tolist(), dtype)}, dtype={str(dtype)!r}, device={str(device)!r})"
    if isinstance(value, list):
        return f"[{', '.join(_literal(v, device) for v in value)}]"
    if isinstance(value, tuple):
        return f"({', '.join(_literal(v, device) for v in value)}{',' * (len(value) == 1)})"
    if isinstance(value, DType):
        return repr(str(value))
    return repr(value).replace("inf", "im.inf").replace("nan", "im.nan") if isinstance(value, (float, complex)) else repr(value)


def _numbers(value: Any, dtype: DType) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_numbers(v, dtype) for v in value)}]"
    plain = value if isinstance(value, (bool, int, float, complex)) else int(value) if dtype.is_integer else float(value)
    return repr(plain).replace("inf", "im.inf").replace("nan", "im.nan")
