"""The kit can fail: every kind of defect is put into an engine on purpose, is found, and is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from kit_engines import engine, primitives_only, spoiling, with_natives

import intermodal as im
from intermodal.backend import DTypeUsage
from intermodal.engines.numpy import NumpyBackend
from intermodal.engines.numpy.natives import NATIVES
from intermodal.ops import TABLE
from intermodal.testing import Failure, run

DTYPES = ("bool", "int16", "int64", "float16", "float32", "float64")
FAMILIES = sorted({row.family for row in TABLE.values()})


def last_argmax(x: Any, axis: Any, keepdims: bool) -> Any:
    if axis is None:
        return np.asarray(x.size - 1 - np.argmax(x.ravel()[::-1])).reshape((1,) * x.ndim if keepdims else ())
    return np.asarray(x.shape[axis] - 1 - np.argmax(np.flip(x, axis), axis=axis, keepdims=keepdims))


def mutating_negative(x: Any) -> Any:
    x.flags.writeable = True
    np.negative(x, out=x)
    return x.copy()


def in_memory_order(x: Any) -> Any:
    """The exponential of the elements as they lie in memory, which is right for one layout only."""
    return np.exp(np.ravel(x, order="K")).reshape(x.shape)


def narrow_from_host(self: Any, data: Any, device: Any, *, copy: bool | None = None) -> Any:
    return (
        data.astype(np.float32).astype(data.dtype)
        if data.dtype == np.float64
        else NumpyBackend.from_host(self, data, device, copy=copy)
    )


def sharing_from_host(self: Any, data: Any, device: Any, *, copy: bool | None = None) -> Any:
    return data


def no_int16(self: Any, row: Any, dtype: Any) -> Any:
    return None if dtype is im.int16 and row.name == "add" else NumpyBackend.native(self, row, dtype)


def no_storage(self: Any, device: Any, dtype: Any) -> DTypeUsage:
    return DTypeUsage.ARITHMETIC if dtype is im.float16 else NumpyBackend.dtype_usage(self, device, dtype)


def raw_error(self: Any, row: Any, arrays: Any, attrs: Any, outputs: Any, native: Any) -> Any:
    if row.name == "cumulative_sum":
        raise KeyError("out of luck")
    return NumpyBackend.execute(self, row, arrays, attrs, outputs, native)


@contextmanager
def forgetful(self: Any, device: Any) -> Iterator[None]:
    raise RuntimeError("no arena")
    yield


def without(name: str) -> dict[str, Any]:
    return {"natives": {k: v for k, v in NATIVES.items() if k != name}}


def unseeded(shape: Any, low: int, high: int, dtype: Any, device: Any, seed: int) -> Any:
    return np.random.default_rng().integers(low, high, shape, dtype=dtype.numpy)


def one_seed(shape: Any, low: int, high: int, dtype: Any, device: Any, seed: int) -> Any:
    return np.random.default_rng(1).integers(low, high, shape, dtype=dtype.numpy)


def too_low(shape: Any, low: int, high: int, dtype: Any, device: Any, seed: int) -> Any:
    return np.random.default_rng(seed).integers(low, max(high // 2, low + 1), shape, dtype=dtype.numpy)


DEFECTS: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("ties of argmax", with_natives(argmax=last_argmax), "argmax", "values", "instead of"),
    ("dtype of sum", with_natives(sum=lambda x, axis, dtype, keepdims: np.asarray(np.sum(x, axis=axis, keepdims=keepdims), np.float64)), "sum", "dtype", "float64"),
    ("shape of sum", with_natives(sum=lambda x, axis, dtype, keepdims: np.asarray(np.sum(x, axis=axis, dtype=dtype.numpy))), "sum", "infer", "but infer says"),
    ("input changed", with_natives(negative=mutating_negative), "negative", "input", "changed its operand 0"),
    ("layout ignored", with_natives(exp=in_memory_order), "exp", "values", "instead of"),
    ("NaN lost", with_natives(max=lambda x, axis, keepdims: np.fmax.reduce(x, axis=axis, keepdims=keepdims, out=...)), "max", "values", "instead of nan"),
    ("index out of range", with_natives(take=lambda x, indices, axis: np.take(x, indices, axis=axis, mode="wrap")), "take", "error", "IndexRangeError must be raised"),
    ("halves rounded up", with_natives(round=lambda x, decimals: x if x.dtype.kind in "iub" else np.floor(x + 0.5)), "round", "values", "instead of"),
    ("integer power by floats", with_natives(pow=lambda x1, x2: np.asarray(np.power(np.asarray(x1, np.float64), x2)).astype(x1.dtype)), "pow", "values", "instead of"),
    ("scalar forgotten", with_natives(add=lambda x1, x2: np.add(x1, 1) if isinstance(x2, (int, float)) else np.add(x1, x2)), "add", "values", "instead of"),
    ("primitive missing", without("sort"), "sort", "missing", "a primitive: every engine owes it"),
    ("primitive below missing", without("scatter"), "scatter_nd", "missing", "lacks this primitive"),
    ("dtype missing", {"native": no_int16}, "add", "dtype_usage", "declares ARITHMETIC"),
    ("usage without storage", {"dtype_usage": no_storage}, "dtype_usage", "dtype_usage", "without STORAGE"),
    ("foreign error", {"execute": raw_error}, "cumulative_sum", "error", "no IntermodalError"),
    ("seed ignored", with_natives(randint=unseeded), "randint", "seed", "other numbers the second time"),
    ("one seed for all", with_natives(randint=one_seed), "randint", "seed", "another seed gives the same"),
    ("wrong distribution", with_natives(randint=too_low), "randint", "law", "the mean"),
    ("bits lost", {"from_host": narrow_from_host}, "to_host", "backend", "bit by bit"),
    ("copy shared", {"from_host": sharing_from_host}, "from_host", "backend", "shares memory"),
    ("transaction cut", {"transaction": lambda self, arrays: [self.to_host(a) for a in arrays[1:]]}, "transaction", "backend", "2 arrays instead of 3"),
    ("staging turned", {"staging": lambda self, data, device: [d[::-1] if d.ndim else d for d in data]}, "staging", "backend", "instead of"),
    ("nameless", {"name": lambda self, device: ""}, "name", "backend", "not a text"),
    ("miscounted", {"device_count": lambda self, kind="cpu": 7}, "device_count", "backend", "7 devices"),
    ("foreign device", {"devices": lambda self: (im.Device("broken:cpu"), im.Device("numpy:cpu"))}, "devices", "backend", "another engine"),
    ("no arena", {"persistent_allocations": forgetful}, "persistent_allocations", "backend", "no arena"),
    ("seed stuck", {"next_seed": lambda self, device: 4}, "seed", "backend", "stream"),
    ("sync fails", {"sync": lambda self, device: 1 / 0}, "sync", "backend", "ZeroDivisionError"),
    ("memory freed", {"memory_cleanup": lambda self, device: 1 / 0}, "memory_cleanup", "backend", "ZeroDivisionError"),
    ("listed shape", {"shape": lambda self, array: list(array.shape)}, "shape", "backend", "plain tuple"),
    ("index shifted", {"getitem": lambda array, key: array[key] + 1}, "getitem", "backend", "x[0]"),
    ("DLPack of another", {"to_dlpack": lambda self, array, **options: np.zeros_like(array).__dlpack__(**options)}, "to_dlpack", "backend", "instead of"),
]  # fmt: skip


@pytest.mark.parametrize(("members", "op", "check", "words"), [pytest.param(*d[1:], id=d[0].replace(" ", "-")) for d in DEFECTS])
def test_a_defect_is_found_and_named(members: dict[str, Any], op: str, check: str, words: str) -> None:
    with engine("broken", **members) as device:
        report = run(device, ops=[op if op in TABLE else "backend"], dtypes=DTYPES)
    assert not report.ok
    named = [f for f in report.failures if f.op == op and f.check == check]
    assert named, [(f.op, f.check, f.message) for f in report.failures[:5]]
    assert any(words in f.message for f in named), named[0].message


def test_a_decomposition_that_differs_from_the_native_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TABLE["log2"], "decompose", lambda x, /: im.log(x))
    report = run("numpy", ops=["log2"], dtypes=["float32"])
    assert {f.check for f in report.failures} == {"decomposition"}
    assert "native against decomposition" in report.failures[0].message


def test_a_rule_that_promises_another_shape_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    infer = TABLE["cumulative_max"].infer
    assert infer is not None

    def longer(x: Any, **attrs: Any) -> Any:
        found = infer(x, **attrs)
        return found._replace(outputs=(found.outputs[0]._replace(shape=(*x.shape, 1)),))  # type: ignore[union-attr]

    monkeypatch.setattr(TABLE["cumulative_max"], "infer", longer)
    im.config.set(infer_cache=0)
    try:
        report = run("numpy", ops=["cumulative_max"], dtypes=["float32"])
    finally:
        im.config.set(infer_cache=None)
    assert {f.check for f in report.failures} == {"infer"}


def test_an_error_in_a_layout_names_the_layout() -> None:
    with engine("broken", **with_natives(exp=in_memory_order)) as device:
        failures = run(device, ops=["exp"], dtypes=["float32"]).failures
        assert failures
        assert all("layout='strided'" in f.call or "layout='reversed'" in f.call for f in failures)


def shown(failure: Failure) -> Any:
    """What the code of a failure gives."""
    return eval(failure.call, {"im": im, "intermodal": im})


def test_the_call_of_a_failure_shows_it() -> None:
    with engine("broken", **with_natives(argmax=last_argmax)) as device:
        failures = run(device, ops=["argmax"], dtypes=["int64", "float32"]).failures
        written = next(f for f in failures if "im.argmax(" in f.call)
        right = eval(written.call.replace("broken:cpu", "numpy:cpu"), {"im": im})
        assert not np.array_equal(shown(written).numpy(), right.numpy())
        replayed = next(f for f in failures if "replay(" in f.call)
        right = eval(replayed.call.replace("broken:cpu", "numpy:cpu"), {"intermodal": im})
        assert not np.array_equal(shown(replayed).numpy(), right.numpy())


@pytest.mark.parametrize("family", FAMILIES)
def test_no_op_can_be_a_little_wrong_unnoticed(family: str) -> None:
    # Floats are off by 2 parts in 10000, random numbers by a twentieth, integers by one, truths are turned.
    free = {"empty", "empty_like"}  # whose elements may be anything
    unnoticed = []
    for row in [r for r in TABLE.values() if r.family == family and r.name not in free]:
        asked_for: list[str] = []
        with engine("spoiled", native=spoiling(row, asked_for)) as device:
            if run(device, ops=[row.name], dtypes=["bool", "int64", "float32"], quick=True).ok and asked_for:
                unnoticed.append(row.name)
    assert unnoticed == []


def test_an_engine_with_its_primitives_alone_conforms() -> None:
    with engine("minimal", natives=primitives_only(), takes_scalars=False) as device:
        report = run(device, quick=True)
    assert report.ok, str(report)
    assert report.ops == len(TABLE)


@pytest.mark.long
def test_an_engine_with_its_primitives_alone_conforms_in_full() -> None:
    with engine("minimal", natives=primitives_only(), takes_scalars=False) as device:
        report = run(device)
    assert report.ok, str(report)


def test_a_device_that_stores_fewer_dtypes_conforms_and_says_so() -> None:
    lacking = {"float64", "int64", "uint64", "complex64", "complex128"}

    def usage(self: Any, device: Any, dtype: Any) -> DTypeUsage:
        return DTypeUsage.NONE if str(dtype) in lacking else NumpyBackend.dtype_usage(self, device, dtype)

    ops = ["add", "exp", "sum", "full", "where", "reshape", "logical_and", "maximum"]
    with engine("small", dtype_usage=usage) as device:
        report = run(device, ops=ops)
    assert report.ok, str(report)
    assert any("does not store float64" in reason for reason in report.reasons)
