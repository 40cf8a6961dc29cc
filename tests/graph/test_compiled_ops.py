"""Every op of the table compiled gives what it gives eagerly: all its samples in one program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
"""One of each kind; NumPy, which compiles nothing, gets them all."""
COMPILERS = [e for e in ("jax", "torch") if find_spec(e)]
"""Engines that take a second or more for each program: the table has its long form there."""
CHOSEN = ("softmax", "sort", "matmul", "where", "var", "floor_divide", "index_put", "layer_norm")
"""Rows that the short form tries on them, in one program."""
OUTSIDE_ONNX = frozenset(
    [
        "pow",
        "repeat",
        "argwhere",
        "masked_select",
        "unique_all",
        "unique_values",
        "unique_counts",
        "unique_inverse",
        "bincount",
        "matrix_norm",
        "qr",
        "svd",
        "svdvals",
        "eigh",
        "eigvalsh",
        "matrix_rank",
        "pinv",
    ]
)
"""Rows of which ONNX's operators lack something, for some dtypes at least: no factorizations, sizes that depend on data inside."""


class Call(NamedTuple):
    """A sample of a row with its tensors, and what it gives eagerly."""

    row: Op
    sample: Sample
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    want: list[HostArray]


def calls_of(row: Op, device: im.Device, names: Iterable[str]) -> Iterator[Call]:
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
            if device.engine == "torch" and any(dtypes.as_dtype(a.dtype).bits == 4 for a in want):
                continue  # its compiler does not know the four-bit dtypes, and says so
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


def compiled(calls: Sequence[Call], device: im.Device) -> list[list[HostArray]]:
    """What calls give in one compiled program."""

    def program(_: im.Tensor, *tensors: im.Tensor) -> list[tuple[im.Tensor, ...]]:
        others = iter(tensors)
        told = []
        for call in calls:
            args = [_with(a, others) for a in call.args]
            kwargs = {name: _with(v, others) for name, v in call.kwargs.items()}
            told.append(tuple(results(call.row.function(*args, **kwargs))))
        return told

    given = [t for c in calls for t in (*_tensors(c.args), *_tensors(tuple(c.kwargs.values())))]
    before = [np.array(t.numpy()) for t in given]
    answer = im.compile(program)(im.zeros((), device=device), *given)  # where all are creations, it says the device
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
    for call, got in zip(calls, compiled(calls, device), strict=True):
        wrong = complaint(call, got, device)
        assert wrong is None, f"{call.row.name}{call.sample.args, call.sample.kwargs}: {wrong}"


@pytest.mark.parametrize("engine", ["numpy", *(e for e in ("onnx",) if find_spec("onnxruntime"))])
@pytest.mark.parametrize("name", TABLE)
def test_an_op_compiled_gives_what_it_gives_eagerly(name: str, engine: str) -> None:
    device, row = im.Device(f"{engine}:cpu"), TABLE[name]
    calls = list(calls_of(row, device, map(str, dtypes.ALL) if engine == "numpy" else DTYPES))
    check([c for c in calls if engine != "onnx" or name not in OUTSIDE_ONNX or _is_held(c, device)], device)


def _is_held(call: Call, device: im.Device) -> bool:
    """Whether a model of ONNX can hold the call; if not, it says so."""
    try:
        compiled([call], device)
    except UnsupportedError as error:
        if "a model of ONNX cannot hold it" not in str(error):
            raise
        return False
    return True


@pytest.mark.parametrize("engine", COMPILERS)
def test_chosen_ops_compiled_give_what_they_give_eagerly(engine: str) -> None:
    device = im.Device(f"{engine}:cpu")
    check([call for name in CHOSEN for call in calls_of(TABLE[name], device, ("float32",))], device)


@pytest.mark.long
@pytest.mark.parametrize("engine", COMPILERS)
@pytest.mark.parametrize("name", TABLE)
def test_every_op_compiled_gives_what_it_gives_eagerly(name: str, engine: str) -> None:
    device, row = im.Device(f"{engine}:cpu"), TABLE[name]
    calls = list(calls_of(row, device, DTYPES))
    check([c for c in calls if not row.data_dependent or _is_sized(c, device)], device)


def _is_sized(call: Call, device: im.Device) -> bool:
    """Whether the sizes of a call do not depend on data; where they do, a compiler refuses it."""
    if call.row.name == "repeat" and not _tensors(call.args[1:]):
        return True
    with pytest.raises(UnsupportedError, match="depends on data"):
        compiled([call], device)
    return False
