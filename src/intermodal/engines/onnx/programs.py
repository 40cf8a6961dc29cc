"""Whole programs: every op lowered into one model, and the model as one session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx

from intermodal import dtypes
from intermodal.backend import Program
from intermodal.dtypes import DType
from intermodal.engines.onnx.arrays import scalar
from intermodal.engines.onnx.builder import Builder, Value, spelled
from intermodal.engines.onnx.host import HOST
from intermodal.engines.onnx.lowering import lower, lowers
from intermodal.engines.onnx.memory import OnnxArray, enter
from intermodal.engines.onnx.sessions import Session
from intermodal.errors import UnsupportedError

__all__ = ["compiled", "write"]

_SMALL: Final = 1024  # bytes of a constant that stands in the model, where ONNX Runtime reads it as it plans


def write(g: Builder, program: Program, names: Sequence[str] = ()) -> list[Value]:
    """A program's ops in a model, and its results there. Constants become part of the model; its other inputs are the model's."""
    values: dict[int, Value] = {}
    constants = {t.id: c.value for t, c in zip(program.ir.inputs, program.constants, strict=False)}
    given = [t for t in program.ir.inputs if t.id not in constants]
    for t in program.ir.inputs[: len(constants)]:
        held = constants[t.id]
        values[t.id] = g.constant(held, t.dtype) if held.nbytes <= _SMALL or t.dtype.bits == 4 else g.weight(held, t.dtype)
    for t, name in zip(given, names or [f"x{i}" for i in range(len(given))], strict=True):
        values[t.id] = g.input(name, t.dtype, spelled(t.shape))
    for step in program.steps:
        made = _lowered(g, step, values)
        values.update((t.id, v) for t, v in zip(step.operation.outputs, made, strict=True))
    return [values[t.id] for t in program.ir.outputs]


def _lowered(g: Builder, step: Any, values: Mapping[int, Value]) -> Sequence[Value]:
    operation, dtype = step.operation, getattr(step.native, "dtype", None)
    row, outputs = operation.row, operation.outputs
    if dtype is None:
        raise UnsupportedError(
            f"{row.name}: a model of ONNX cannot hold it, because a size depends on data between its steps. Run this part of the program op by op."
        )
    if all(0 in t.shape and all(isinstance(n, int) for n in t.shape) for t in outputs):
        return [g.constant(np.zeros(t.shape), t.dtype) for t in outputs]  # nothing is to be computed, which some kernels refuse
    if not lowers(row, dtype):
        why = HOST.get(row.name, "there is no lowering for it")
        raise UnsupportedError(
            f"{row.name}: a model of ONNX cannot hold it for {dtype}: {why}. Run this part of the program op by op."
        )
    operands = [
        [values[t.id] for t in v] if isinstance(v, tuple) else values[v.id] if hasattr(v, "id") else _scalar(g, v, dtype)
        for v in operation.inputs
    ]
    try:
        return lower(g, row, operands, operation.attrs, [spelled(t.shape) for t in outputs])
    except UnsupportedError as error:
        raise UnsupportedError(f"{row.name}: a model of ONNX cannot hold it: {error}") from error


def _scalar(g: Builder, value: Any, dtype: DType) -> Value | None:
    """A number among the operands: of the op's dtype, or of its own where it is a count beside other numbers."""
    if value is None:
        return None
    if not isinstance(value, (bool, int, float)):
        return scalar(g, value, dtype)
    kind = type(value)
    joins = dtype.is_bool if kind is bool else dtype.is_integer if kind is int else dtype.is_floating
    return g.constant(value, dtype if joins else dtypes.as_dtype(np.asarray(value).dtype))


def compiled(program: Program) -> Callable[..., Sequence[OnnxArray]]:
    """A program as one session, with the constants in it. It takes them with each call all the same, as programs do."""
    if not program.ir.outputs:
        return lambda *_: []  # ONNX Runtime takes no model without results
    g = Builder()
    results = write(g, program)
    for proto, array in g.weights:
        proto.data_location = onnx.TensorProto.EXTERNAL
        for key, text in (("location", "memory"), ("offset", "0"), ("length", str(array.nbytes))):
            proto.external_data.add(key=key, value=text)
    model = g.model(results)  # which leaves out the weights that no operator takes
    weights = {proto.name: enter(array) for proto, array in g.weights}
    try:
        session = Session(model, program.device, weights, whole=True)
    except Exception as error:  # classes of ONNX Runtime's own, one for each kind of status
        raise UnsupportedError(f"compile: ONNX Runtime refuses this program: {error}. Run it as a graph instead.") from error
    held = len(program.constants)
    if session.provider.memory != "cpu" or not all(isinstance(n, int) for t in program.ir.outputs for n in t.shape):
        return lambda *arrays: session.run(arrays[held:])
    # On the host, with results whose shapes are known, nothing is left but to run: what a session asks of each result takes 3 µs.
    run, device, inputs, outputs = session.bare, program.device, session.inputs, session.outputs
    kinds = [(i, t.dtype, t.shape) for i, t in enumerate(program.ir.outputs)]

    def call(*arrays: OnnxArray) -> Sequence[OnnxArray]:
        found = run({name: a._ortvalue for name, a in zip(inputs, arrays[held:], strict=True)}, outputs, None)
        return [OnnxArray(found[i], device, dtype, shape) for i, dtype, shape in kinds]

    return call
