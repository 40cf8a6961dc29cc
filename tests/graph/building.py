"""Graphs made by hand, op by op, and a plain run of them on NumPy: what the tests of passes hold results against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import intermodal as im
from intermodal import dispatch
from intermodal.graph.ir import ConstantIr, GraphIr, Operand, OperationIr, TensorIr
from intermodal.graph.sizes import AnySize, Size, evaluated
from intermodal.ops.table import TABLE, Spec
from intermodal.testing import calls
from intermodal.testing.samples import cases


class Builder:
    def __init__(self) -> None:
        self.inputs: list[TensorIr] = []
        self.constants: list[ConstantIr] = []
        self.operations: list[OperationIr] = []
        self.count = 0

    def tensor(self, shape: Sequence[AnySize], dtype: Any) -> TensorIr:
        self.count += 1
        return TensorIr(self.count - 1, tuple(shape), im.dtypes.as_dtype(dtype))

    def input(self, shape: Sequence[AnySize], dtype: Any = "float32") -> TensorIr:
        self.inputs.append(self.tensor(shape, dtype))
        return self.inputs[-1]

    def constant(self, value: Any, dtype: Any = None) -> TensorIr:
        array = np.asarray(value, None if dtype is None else im.dtypes.as_dtype(dtype).numpy)
        tensor = self.tensor(array.shape, array.dtype)
        self.constants.append(ConstantIr(tensor.id, array))
        return tensor

    def op(self, name: str, *args: Any, shapes: Sequence[Sequence[AnySize]] = (), **kwargs: Any) -> Any:
        """An op by its public signature; what it makes. With named sizes, the shapes of the results have to be told."""
        row = TABLE[name]
        given, attrs = row.bind(*args, **kwargs)
        attrs.pop("device", None)
        operands: list[Operand] = [tuple(v) if isinstance(v, list) else v for v in given]  # type: ignore[misc]
        if shapes:
            first = next(t for v in operands for t in (v if isinstance(v, tuple) else (v,)) if isinstance(t, TensorIr))
            specs: list[Any] = [(shape, first.dtype) for shape in shapes]
        else:
            wanted: dict[str, object] = {**attrs, "device": im.Device("meta:cpu")} if row.takes_device else dict(attrs)
            drawn = row.takes_seed and attrs["seed"] is None  # when it runs
            if drawn:
                wanted["seed"] = 0
            found = dispatch.infer(row, [_spec(v) for v in operands], wanted)
            specs, attrs = list(found.outputs), {k: v for k, v in found.attrs.items() if k != "device"}
            attrs |= {"seed": None} if drawn else {}
        outputs = tuple(self.tensor(*spec) for spec in specs)
        self.operations.append(OperationIr(name, tuple(operands), outputs, attrs))  # type: ignore[arg-type]  # plain values
        return outputs if row.multiple else outputs[0]

    def graph(self, *outputs: TensorIr) -> GraphIr:
        names = tuple(f"x{i}" for i in range(len(self.inputs))), tuple(f"y{i}" for i in range(len(outputs)))
        return GraphIr(tuple(self.inputs), outputs, tuple(self.operations), tuple(self.constants), *names).with_status()


def samples(name: str) -> Iterator[tuple[GraphIr, list[np.ndarray[Any, Any]]]]:
    """Graphs of one op each on constants, from the samples of the kit, and what the op gives by itself on NumPy."""
    row = TABLE[name]
    for dtype in ("float32", "int64", "bool", "complex64"):
        for sample in cases(row, im.dtypes.as_dtype(dtype)):
            if sample.large or sample.raises:
                continue
            b = Builder()
            kwargs = {"seed": calls.SEED, **sample.kwargs} if row.takes_seed else dict(sample.kwargs)
            try:
                args, tensors = calls.on(row, sample, im.Device("numpy:cpu"))
                expected = calls.results(row.function(*args, **tensors))
            except im.IntermodalError:
                continue  # not of this dtype
            args = tuple(calls.mapped(v, b.constant) for v in sample.args)
            made = b.op(name, *args, **{k: calls.mapped(v, b.constant) for k, v in kwargs.items()})
            yield b.graph(*(made if row.multiple else (made,))), [np.asarray(t) for t in expected]


def _spec(value: Any) -> Any:
    if isinstance(value, TensorIr):
        return Spec(value.shape, value.dtype)
    return [_spec(v) for v in value] if isinstance(value, tuple) else value


def run(ir: GraphIr, *arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """What the graph gives, op by op on numpy:cpu; each tensor is forgotten where its status says so."""
    assert len(arrays) == len(ir.inputs)
    sizes: dict[str, int] = {}
    known: dict[int, Any] = {c.id: im.asarray(c.value, device="numpy:cpu") for c in ir.constants}
    for tensor, array in zip(ir.inputs, arrays, strict=True):
        known[tensor.id] = im.asarray(array, device="numpy:cpu")
        for size, n in zip(tensor.shape, array.shape, strict=True):
            if isinstance(size, Size) and str(size).isidentifier():
                sizes[str(size)] = n
    for operation in ir.operations:
        values = [_value(v, known) for v in operation.inputs]
        attrs = {name: _number(value, sizes) for name, value in operation.attrs.items()}
        row = operation.row
        made = dispatch.call_bound(row, values, {**attrs, "device": "numpy:cpu"} if row.takes_device else attrs)
        for tensor, result in zip(operation.outputs, made if row.multiple else (made,), strict=True):
            assert (result.shape, result.dtype) == (evaluated(tensor.shape, sizes), tensor.dtype)
            known[tensor.id] = result
        for tensor in operation.tensors():
            if tensor.status.name == "LAST_USE":
                known.pop(tensor.id, None)
    return [np.asarray(known[t.id]) for t in ir.outputs]


def _value(value: Operand, known: Mapping[int, Any]) -> Any:
    if isinstance(value, TensorIr):
        return known[value.id]
    return [known[t.id] for t in value] if isinstance(value, tuple) else value


def _number(value: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(value, Size):
        return value.at(sizes)
    return tuple(_number(v, sizes) for v in value) if isinstance(value, tuple) else value


def assert_same(mine: Sequence[np.ndarray[Any, Any]], its: Sequence[np.ndarray[Any, Any]]) -> None:
    """The same bits; of two NaNs the sign and payload may differ, which no standard fixes."""
    assert len(mine) == len(its)
    for x, y in zip(mine, its, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        nan = np.isnan(x) & np.isnan(y) if x.dtype.kind in "fc" else np.zeros(x.shape, bool)
        assert np.where(nan, x.dtype.type(0), x).tobytes() == np.where(nan, x.dtype.type(0), y).tobytes()
