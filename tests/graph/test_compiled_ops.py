"""Every op of the table compiled gives what it gives eagerly: all its samples in one program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pytest

import intermodal as im
from intermodal import dtypes
from intermodal.backend import backend_of
from intermodal.errors import IntermodalError, UnsupportedError
from intermodal.ops.table import TABLE, Op
from intermodal.testing import families  # noqa: F401  # importing it writes the samples
from intermodal.testing.calls import on, results
from intermodal.testing.checks import Reference
from intermodal.testing.samples import HostArray, Sample, cases

DTYPES = ("float32", "int64", "bool", "complex64", "bfloat16")
"""The dtypes of the short form. A program of XLA's takes half a second to compile."""
CHOSEN = ("softmax", "sort", "matmul", "where", "var", "floor_divide", "index_put", "layer_norm")
"""Rows that the short form tries on PyTorch, whose compiler takes seconds for each program."""


class Call(NamedTuple):
    """A sample of a row with its tensors, and what it gives eagerly."""

    row: Op
    sample: Sample
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    want: list[HostArray]


def calls_of(row: Op, device: im.Device, names: Sequence[str]) -> Iterator[Call]:
    """The samples that the device runs. Of sizes that depend on data and memory as it was found nothing can be said."""
    for dtype in names:
        for sample in cases(row, dtypes.as_dtype(dtype)):
            if sample.large or sample.raises is not None:
                continue
            try:
                args, kwargs = on(row, sample, device)
                want = [np.array(t.numpy()) for t in results(row.function(*args, **kwargs))]
            except IntermodalError:  # a dtype that the device lacks, or one that the op does not take
                continue
            yield Call(row, sample, args, kwargs, want)


def _tensors(value: Any) -> list[im.Tensor]:
    if isinstance(value, im.Tensor):
        return [value]
    return [t for v in value for t in _tensors(v)] if isinstance(value, (list, tuple)) else []


def _with(value: Any, others: Iterator[im.Tensor]) -> Any:
    if isinstance(value, im.Tensor):
        return next(others)
    if isinstance(value, (list, tuple)) and _tensors(value):
        return type(value)(_with(v, others) for v in value)
    return value


def compiled(calls: Sequence[Call]) -> list[list[HostArray]]:
    """What calls give in one compiled program."""

    def program(*tensors: im.Tensor) -> list[tuple[im.Tensor, ...]]:
        others = iter(tensors)
        told = []
        for call in calls:
            args = [_with(a, others) for a in call.args]
            kwargs = {name: _with(v, others) for name, v in call.kwargs.items()}
            told.append(tuple(results(call.row.function(*args, **kwargs))))
        return told

    given = [t for c in calls for t in (*_tensors(c.args), *_tensors(tuple(c.kwargs.values())))]
    before = [np.array(t.numpy()) for t in given]
    answer = im.compile(program)(*given)
    for tensor, old in zip(given, before, strict=True):
        assert tensor.numpy().tobytes() == old.tobytes(), "the program has changed its argument"
    return [[t._place.backend.to_host(t._data) for t in one] for one in answer]


def complaint(call: Call, got: list[HostArray], device: im.Device) -> str | None:
    """What is wrong with the results of a call, as the conformance kit judges."""
    row, sample, want = call.row, call.sample, call.want
    if [(g.shape, g.dtype) for g in got] != [(w.shape, w.dtype) for w in want]:
        return f"{[(g.shape, g.dtype) for g in got]} instead of {[(w.shape, w.dtype) for w in want]}"
    if row.name.startswith("empty") or all(g.tobytes() == w.tobytes() for g, w in zip(got, want, strict=True)):
        return None
    if sample.law is not None and not row.takes_seed:
        return sample.law(sample, got)
    flushes = backend_of(device.engine).flushes_subnormals(device)
    return Reference(row, sample, flushes=flushes).differs(got, want)


def check(calls: Sequence[Call], device: im.Device) -> None:
    for call, got in zip(calls, compiled(calls), strict=True):
        wrong = complaint(call, got, device)
        assert wrong is None, f"{call.row.name}{call.sample.args, call.sample.kwargs}: {wrong}"


ENGINES = [e for e in ("numpy", "jax") if e == "numpy" or find_spec(e)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", TABLE)
def test_an_op_compiled_gives_what_it_gives_eagerly(name: str, engine: str) -> None:
    device, row = im.Device(f"{engine}:cpu"), TABLE[name]
    calls = list(calls_of(row, device, DTYPES if engine != "numpy" else tuple(map(str, dtypes.ALL))))
    if row.data_dependent and engine != "numpy":
        for call in calls[:1]:
            with pytest.raises(UnsupportedError, match="depends on"):
                compiled([call])
        return
    check(calls, device)


@pytest.mark.skipif(not find_spec("torch"), reason="needs PyTorch")
def test_chosen_ops_compiled_by_pytorch_give_what_they_give_eagerly() -> None:
    device = im.Device("torch:cpu")
    check([call for name in CHOSEN for call in calls_of(TABLE[name], device, ("float32",))], device)


@pytest.mark.long
@pytest.mark.skipif(not find_spec("torch"), reason="needs PyTorch")
@pytest.mark.parametrize("name", TABLE)
def test_every_op_compiled_by_pytorch_gives_what_it_gives_eagerly(name: str) -> None:
    device, row = im.Device("torch:cpu"), TABLE[name]
    calls = list(calls_of(row, device, DTYPES))
    if row.data_dependent:
        for call in calls[:1]:
            with pytest.raises(UnsupportedError, match="depends on"):
                compiled([call])
        return
    check(calls, device)
