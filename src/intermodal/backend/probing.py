"""Probing: what a device really does with a dtype and an op, found by running something small. Answers are kept, in bounded number.

A small call of an op is found by asking the op's own rule, on the device ``meta``, which shapes it takes; the few ops whose
signature does not say enough have theirs in a table. Whether results are *right* is the conformance kit's question.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import islice, product
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from intermodal import dtypes
from intermodal.backend.contract import DTypeUsage
from intermodal.backend.registry import check_device, on_unregister
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.errors import DTypeError, UnsupportedError
from intermodal.ops.table import TABLE, Op, Role

__all__ = ["Probed", "Support", "dimensions", "dtype_support", "op_support", "small_call"]

LIMIT: Final = 16384
"""How many answers a process keeps: more than all ops, dtypes and devices of a machine with two engines."""
DIMENSIONS: Final = 64  # NumPy's limit; no engine is asked for more

T = TypeVar("T")


class Support(Enum):
    """How a device runs an op on a dtype."""

    NATIVE = "native"
    """By the engine's own function."""
    DECOMPOSED = "decomposed"
    """By the ops in its body."""
    NOT_TAKEN = "not taken"
    """The op does not take the dtype, on any device."""
    NONE = "none"
    """It fails here."""


class Probed(NamedTuple):
    """The answer of a probe: how it runs, and why not where it does not."""

    support: Support
    reason: str = ""

    @property
    def runs(self) -> bool:
        return self.support in (Support.NATIVE, Support.DECOMPOSED)


class _Call(NamedTuple):
    """A small call: the shape and dtype of each tensor parameter, and the attributes."""

    shapes: tuple[tuple[int, ...] | None, ...]
    dtypes: tuple[DType, ...]
    attrs: dict[str, object]


# The shapes to try, in this order; a matrix first, because most ops take one.
_SHAPES: Final = ((3, 3), (3,), (1, 3, 3), (1, 1, 3, 3), (1, 1, 3, 3, 3), ())
_VALUES: Final[dict[str, object]] = {"axis": 0, "axes": (0,), "shape": (3, 3), "seed": 0}  # every other required attribute gets 1
_calls: Final[dict[str, tuple[tuple[tuple[int, ...], ...], dict[str, object]]]] = {}
_answers: dict[tuple[Device, Op, DType], Probed] = {}  # by the row itself: another of its name is another op
_usages: dict[tuple[Device, DType], tuple[DTypeUsage, str]] = {}
_found: dict[tuple[Op, DType], _Call | Probed] = {}


def small_call(op: str, *shapes: tuple[int, ...], **attrs: object) -> None:
    """Say how an op is probed whose signature does not say enough: the shapes of its tensors, its attributes."""
    _calls[op] = (shapes, attrs)
    for key in [k for k in _found if k[0].name == op]:
        _found.pop(key, None)
    for asked in [k for k in _answers if k[1].name == op]:
        _answers.pop(asked, None)


def _keep(answers: dict[Any, T], key: object, answer: T) -> T:
    while len(answers) >= LIMIT:
        answers.pop(next(iter(answers), None), None)  # the oldest goes; another thread may have been faster
    answers[key] = answer
    return answer


def _forget(engine: str) -> None:
    for key in [k for k in _answers if k[0].engine == engine]:
        _answers.pop(key, None)
    for seen in [k for k in _usages if k[0].engine == engine]:
        _usages.pop(seen, None)


def forget(device: Device) -> None:
    """Drop what is known of a device, so that it is probed again."""
    _forget(device.engine)


on_unregister(_forget)


# --- dtypes ----------------------------------------------------------------------------------------------------------


def dtype_support(device: Device, dtype: DType) -> tuple[DTypeUsage, str]:
    """What the device was seen to do with a dtype, and why not more.

    Storage: elements come back from the device as they went. Arithmetic: a sum is right. Acceleration is what the engine
    says of its matrix products, if its own one runs: only a stopwatch could tell more.
    """
    key = (device, dtype)
    known = _usages.get(key)
    return known if known is not None else _keep(_usages, key, _dtype_support(device, dtype))


def _dtype_support(device: Device, dtype: DType) -> tuple[DTypeUsage, str]:
    found = DTypeUsage.NONE
    try:
        backend = check_device(device)
        declared = backend.dtype_usage(device, dtype)
        if DTypeUsage.STORAGE not in declared:
            return found, f"{device} does not store it. {backend.advice(device, dtype)}".removesuffix(".")
        data = np.ones(3, dtype.numpy)
        back = backend.to_host(backend.from_host(data, device))
        if back.dtype != data.dtype or back.tobytes() != data.tobytes():
            return found, f"ones come back as {back.tolist()} of {back.dtype}"
        found = DTypeUsage.STORAGE
        ones = _tensor(device, (3,), dtype)
        total = (TABLE["logical_and"] if dtype.is_bool else TABLE["add"]).function(ones, ones).numpy()
        if total.tolist() != [1 if dtype.is_bool else 2] * 3:
            return found, f"1 + 1 is {total.tolist()[0]}"
        found = DTypeUsage.GENERAL
        if DTypeUsage.ACCELERATED in declared and op_support(device, "matmul", dtype).support is Support.NATIVE:
            found |= DTypeUsage.ACCELERATED
    except (Exception, SystemExit) as error:  # an engine may fail in any way: that is the answer
        return found, _sentence(error)
    return found, ""


# --- ops -------------------------------------------------------------------------------------------------------------


def op_support(device: Device, op: str, dtype: DType) -> Probed:
    """How the device runs an op on a dtype."""
    key = (device, TABLE[op], dtype)
    known = _answers.get(key)
    return known if known is not None else _keep(_answers, key, _op_support(*key))


def _op_support(device: Device, row: Op, dtype: DType) -> Probed:
    found = _find_call(row, dtype)
    if isinstance(found, Probed):
        return found
    try:
        backend = check_device(device)
        with np.errstate(all="ignore"):
            _read(_run(row, found, device, dtype))
        return Probed(Support.DECOMPOSED if backend.native(row, dtype) is None else Support.NATIVE)
    except (Exception, SystemExit) as error:  # an engine may fail in any way: that is the answer
        return Probed(Support.NONE, _sentence(error))


def _sentence(error: BaseException) -> str:
    """What happened; what to do about it is not the question here."""
    text = str(error).strip().partition("\n")[0]
    return text.partition(". ")[0].removesuffix(".") or type(error).__name__


def _read(result: Any) -> None:
    for part in result if isinstance(result, (tuple, list)) else (result,):
        part.numpy()


def _find_call(row: Op, dtype: DType) -> _Call | Probed:
    known = _found.get((row, dtype))
    return known if known is not None else _keep(_found, (row, dtype), _search(row, dtype))


def _search(row: Op, dtype: DType) -> _Call | Probed:
    refused: dict[object, list[bool]] = {}  # for each choice of shapes, whether it was for the dtypes
    for call in _candidates(row, dtype):
        try:
            _run(row, call, Device("meta:cpu"), dtype)
        except Exception as error:
            if row.data_dependent and isinstance(error, UnsupportedError):
                return call  # the rule took the operands; only the shape of the result is unknown without data
            refused.setdefault(call.shapes, []).append(isinstance(error, DTypeError))
        else:
            return call
    if any(map(all, refused.values())):  # these shapes are right, and no mixture of dtypes is
        return Probed(Support.NOT_TAKEN, f"{row.name} does not take {dtype}")
    return Probed(Support.NONE, f"no small call of {row.name} with {dtype} is known. Name one with im.backend.small_call")


def _candidates(row: Op, dtype: DType) -> Iterator[_Call]:
    attrs = {p.name: _VALUES.get(p.name, 1) for p in row.params if p.role is Role.ATTRIBUTE and (p.required or p.name == "seed")}
    if "dtype" in attrs or (not row.tensor_params and any(p.name == "dtype" for p in row.params)):
        attrs["dtype"] = dtype
    count = len(row.tensor_params)
    if row.name in _calls:
        shapes, given = _calls[row.name]
        attrs |= given
        choices: list[Any] = [(*shapes, *(None,) * (count - len(shapes)))]
    else:
        choices = [*((shape,) * count for shape in _SHAPES), ((3, 3), *((3,),) * (count - 1)) if count else ()]
    # Beside the dtype in question an op may take indices or a mask; 27 is every choice for three tensors.
    mixtures = [m for m in islice(product((dtype, dtypes.int64, dtypes.bool_), repeat=count), 27) if not m or dtype in m]
    for shapes in choices:
        for mixture in mixtures:
            yield _Call(shapes, mixture, attrs)


def _run(row: Op, call: _Call, device: Device, dtype: DType) -> Any:
    tensors = iter(zip(call.shapes, call.dtypes, strict=True))
    positional: list[Any] = []
    keywords: dict[str, Any] = {"device": device} if row.takes_device else {}
    for param in row.params:
        if param.role is Role.ATTRIBUTE:
            if param.name not in call.attrs:
                continue
            value: Any = call.attrs[param.name]
        else:
            shape, kind = next(tensors)
            if shape is None or param.role is Role.OPTIONAL:
                continue
            value = _tensor(device, shape, kind, index=kind is not dtype)
            if param.role is Role.SEQUENCE:
                value = [value, value]
        if param.place in ("/", "*args") or (param.place == "" and len(positional) == row.params.index(param)):
            positional.append(value)
        else:
            keywords[param.name] = value
    return row.function(*positional, **keywords)


def _tensor(device: Device, shape: tuple[int, ...], dtype: DType, *, index: bool = False) -> Any:
    """A tensor that suits most ops: never zero to divide by, a matrix has an inverse, an index is inside."""
    full = TABLE["full"].function
    if index and dtype.is_integer:
        return full(shape, 0, dtype=dtype, device=device)
    ones = full(shape, True if dtype.is_bool else 1, dtype=dtype, device=device)
    if shape != (3, 3):
        return ones
    try:
        unit = TABLE["eye"].function(3, dtype=dtype, device=device)
        return unit if dtype.is_bool else TABLE["add"].function(ones, unit)
    except Exception:  # a dtype that is only stored, or an engine that has no eye: ones will do
        return ones


def dimensions(device: Device) -> int:
    """The most axes that a tensor of the device was seen to have, up to 64."""
    backend = check_device(device)

    def holds(count: int) -> bool:
        try:
            return backend.to_host(backend.from_host(np.zeros((1,) * count, np.float32), device)).ndim == count
        except Exception:
            return False

    low, high = 0, DIMENSIONS
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


small_call("basic_index", (3, 3), key=(0,))
small_call("basic_put", (3, 3), (3,), key=(0,))
small_call("gather_nd", (3, 3), (2, 2))
small_call("scatter_nd", (3, 3), (2, 1), (2, 3))
small_call("one_hot", (3,), num_classes=3)
small_call("overlap_add", (3, 3), axis=0, length=5)
small_call("fold", (1, 4, 4), output_size=(3, 3), kernel_size=(2, 2))
small_call("ctc_loss", (3, 1, 3), (1, 2), (1,), (1,))
small_call("glu", (4,))
small_call("einsum", (3, 3), subscripts="ij->ji")
small_call("interpolate", (1, 1, 3, 3), size=(6, 6))
small_call("randint", shape=(3,), low=0, high=3)
small_call("conv_transpose1d", (1, 1, 3), (1, 1, 3))
small_call("grid_sample_2d", (1, 1, 3, 3), (1, 3, 3, 2))
small_call("deform_conv2d", (1, 1, 3, 3), (1, 18, 1, 1), (1, 1, 3, 3))
