"""Every case of one source engine and one target engine, run as a process of its own: an abort is then a failure of one test.

Prints one line of JSON: how many cases there were, what failed, and which layouts were copied on entering the target.
"""

from __future__ import annotations

import json
import re
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import intermodal as im
from intermodal import dtypes, transfer
from intermodal.backend import DTypeUsage, backend_of

POINTERS = {
    "numpy": lambda a: np.asarray(a).__array_interface__["data"][0],  # of a scalar: that of an array made for the question
    "torch": lambda a: a.data_ptr(),
    "jax": lambda a: a.unsafe_buffer_pointer(),
    "onnx": lambda a: a.data_ptr(),
}
# Layouts that an engine's own arrays can have, made by ops on the source engine.
VIEWS = {
    "contiguous": lambda x: x,
    "reversed": lambda x: x[::-1],
    "stepped": lambda x: x[:, ::2],
    "transposed": lambda x: x.T,
    "0-d": lambda x: x[1, 2],
    "empty": lambda x: x[:0, ::-1],
    "broadcast": lambda x: im.broadcast_to(x[0], (3, 6)),
    "shifted": lambda x: x[1, 1:],
}


def read_only(a: np.ndarray) -> np.ndarray:
    a = a.view()
    a.flags.writeable = False
    return a


def at_odd_bytes(a: np.ndarray) -> np.ndarray:
    raw = np.zeros(a.nbytes + 1, np.uint8)
    raw[1:] = np.ascontiguousarray(a).reshape(-1).view(np.uint8)
    return raw[1:].view(a.dtype).reshape(a.shape)


# Layouts of host arrays, in the words of the table in docs/move-tensors.md. What they are made of is contiguous and aligned.
HOST = {
    "in C order, on a 64-byte boundary": lambda a: a,
    "in C order, elsewhere": lambda a: a.reshape(-1)[1:],
    "elements not at a multiple of their size": at_odd_bytes,
    "transposed": lambda a: a.T,
    "with a step": lambda a: a[:, ::2],
    "broadcast": lambda a: np.broadcast_to(a[0], (3, 6)),
    "reversed": lambda a: a[::-1],
    "reversed, of one element": lambda a: a[:1, :1][::-1],
    "read-only": read_only,
    "0-d": lambda a: a[0, :1].reshape(()),
    "empty": lambda a: a[::-1, ::2][:0],
}


def base(dtype: im.DType) -> np.ndarray:
    """24 numbers on a 64-byte boundary, the awkward ones among them."""
    data = im.empty((4, 6), dtype=dtype)._data
    with np.errstate(all="ignore"):
        data[...] = np.arange(24).reshape(4, 6) % 7
    if dtype.is_inexact:
        data[0, :3] = (float("nan"), float("inf"), -0.0) if dtype is not im.float8_e4m3fn else (float("nan"), 448, -0.0)
    return data


def bits(x: im.Tensor) -> bytes:
    return np.ascontiguousarray(x.numpy()).tobytes()


def pointer(x: im.Tensor) -> int:
    return POINTERS[x.device.engine](x._data)


def check(x: im.Tensor, target: str, want: np.ndarray) -> None:
    """One tensor crosses: equal in value and dtype, and shared or copied as the plan says."""
    assert bits(x) == np.ascontiguousarray(want).tobytes(), "it was not equal before the move"
    plan = transfer.plan(x, target)
    y = x.to(target)
    assert (y.device, y.dtype, y.shape) == (target, x.dtype, x.shape), (y.device, y.dtype, y.shape)
    assert bits(y) == bits(x), f"{y.numpy()} instead of {x.numpy()}"
    if x.size:
        shared = pointer(x) == pointer(y)
        assert shared == (not plan.copies) or plan.route == "same", f"memory is {'shared' if shared else 'copied'}, {plan}"
    if plan.copies:
        with pytest.raises(im.CopyRequiredError, match=re.escape(plan.reason)):
            x.to(target, copy=False)
    elif x.size:
        assert pointer(x.to(target, copy=False)) == pointer(x)
    copied = x.to(target, copy=True)
    assert transfer.plan(x, target, copy=True).copies
    assert bits(copied) == bits(x)
    assert not x.size or pointer(copied) != pointer(x), "copy=True shares memory"


def enters(a: np.ndarray, target: str) -> bool:
    """Whether a host array goes to a device without a copy; held to its pointer."""
    x = im.asarray(a, device=target)
    assert bits(x) == np.ascontiguousarray(a).tobytes(), "it is not equal"
    try:
        shared = im.asarray(a, device=target, copy=False)
    except im.CopyRequiredError:
        assert not np.shares_memory(x.numpy(), a), "copy=False raised where copy=None shares"
        return False
    assert not a.size or pointer(shared) == pointer(x) == a.__array_interface__["data"][0], "copy=False copied"
    return True


def cases(source: str, target: str, dtype: im.DType) -> Iterator[tuple[str, Any]]:
    """Names of cases, and functions that run them."""
    # JAX's arrays are contiguous whatever op made them, and it compiles each op for each dtype: one dtype will do there.
    laid_out = source != "jax:cpu" or dtype is im.float32
    for name, make in VIEWS.items() if laid_out else [("contiguous", VIEWS["contiguous"])]:
        yield (
            name,
            lambda make=make: check(
                make(im.asarray(base(dtype), device=source, copy=True)), target, make(im.asarray(base(dtype))).numpy()
            ),
        )
    for name, make in HOST.items():
        yield (
            f"from a host array {name}",
            lambda make=make: check(im.asarray(make(base(dtype)), device=source), target, make(base(dtype))),
        )
    yield "big-endian", lambda: refuses_big_endian(base(dtype), target)


def refuses_big_endian(a: np.ndarray, target: str) -> None:
    if a.dtype.kind in "iufc" and a.dtype.itemsize > 1 and a.dtype.isbuiltin:
        with pytest.raises(im.DTypeError, match="byte order"):
            im.asarray(a.astype(a.dtype.newbyteorder(">")), device=target)


def refuses(source: str, target: str, dtype: im.DType) -> None:
    """A dtype that one of the two does not store is refused by name, never narrowed."""
    for device in (source, target):
        if not stores(device, dtype):
            with pytest.raises(im.UnsupportedError, match=str(dtype)):
                im.asarray(base(dtype), device=device)
            with pytest.raises(im.UnsupportedError, match=str(dtype)):
                transfer.plan(im.asarray(base(dtype)), device)


def stores(device: str, dtype: im.DType) -> bool:
    return DTypeUsage.STORAGE in backend_of(im.Device(device).engine).dtype_usage(im.Device(device), dtype)


def main(source: str, target: str) -> dict[str, Any]:
    failures, number = [], 0
    for dtype in dtypes.ALL:
        there = stores(source, dtype) and stores(target, dtype)
        for name, run in (
            cases(source, target, dtype) if there else [("refusal", lambda dtype=dtype: refuses(source, target, dtype))]
        ):
            number += 1
            try:
                run()
            except Exception as error:  # every failure is reported, not the first
                where = traceback.extract_tb(error.__traceback__)[-1]
                failures.append(f"{dtype}, {name}: {type(error).__name__}: {error} ({where.name}, line {where.lineno})")
    plain = [d for d in (im.float32, im.bfloat16, im.uint16, im.bool, im.complex64) if stores(target, d)]
    shares = {
        name: sorted({enters(make(base(d)), target) for d in plain if d.itemsize > 1 or "multiple" not in name})
        for name, make in HOST.items()
    }
    return {"cases": number, "failures": failures, "shares": shares}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
