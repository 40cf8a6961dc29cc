"""`read`: an ONNX model as a graph. Its nodes are called one after the other inside a trace, as ops of the table."""

from __future__ import annotations

import re
from contextvars import Context
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from intermodal import config, dtypes
from intermodal.conversion import asarray, to_numpy
from intermodal.errors import CaptureError, GraphError, IntermodalError
from intermodal.graph.importing import elementwise as _elementwise, layers as _layers, shapes as _shapes  # noqa: F401  # they fill the table
from intermodal.graph.importing.model import HostArray, Model, dtype_of, open_model
from intermodal.graph.importing.node import OPERATORS, Node, attributes
from intermodal.graph.ir import ConstantIr, GraphIr
from intermodal.graph.limits import LIMITS, Limits
from intermodal.graph.passes import clean
from intermodal.graph.sizes import Size
from intermodal.graph.tracing import trace
from intermodal.graph.validation import check
from intermodal.ops.table import Spec
from intermodal.tensor import Tensor

__all__ = ["read"]

_DEVICE: Final = "numpy:cpu"
_SHORT: Final = 1024  # elements of a value that is computed while the model is read: shapes, axes, bounds
_NAMES: Final = 8  # named sizes of a model; the number of traces grows with their square
_MALFORMED: Final = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
)  # of an attribute that is missing or of another kind than it must be
_WORDS: Final = frozenset((*dtypes.names(), "None", "True", "False", "inf", "nan"))


def read(path: Path, limits: Limits = LIMITS) -> GraphIr:
    """The graph of an ONNX model, checked. Names of sizes (``dim_param``) are kept."""
    try:
        model = open_model(path, limits)
        specs = _Inputs(limits).specs(model)
    except IntermodalError:
        raise
    except _MALFORMED as error:  # protobuf gives bytes for text that is no UTF-8, say
        raise GraphError(f"{path.name} is not well-formed: {error}.") from error
    names = [i.name for i in model.inputs]
    weights = dict(model.constants)

    def run(given: list[Tensor], held: list[Tensor]) -> tuple[Tensor, ...]:
        return _run(model, dict(zip(names, given, strict=True)), dict(zip(weights, held, strict=True)))

    held = [Spec(a.shape, dtypes.as_dtype(a.dtype)) for a in weights.values()]
    try:
        ir = trace(run, specs, held, device=_DEVICE).ir
    except CaptureError as error:  # what the names of its sizes cannot say
        raise GraphError(f"{path.name}: {error}") from error
    # Constants were operands while the model was traced, so that none was copied for each trace.
    count = len(specs)
    constants = tuple(ConstantIr(t.id, a) for t, a in zip(ir.inputs[count:], weights.values(), strict=True))
    ir = replace(
        ir,
        inputs=ir.inputs[:count],
        constants=(*constants, *ir.constants),
        input_names=tuple(names),
        output_names=_apart(model.outputs),
    )
    ir = clean(ir.with_status())
    check(ir, limits)
    return ir


def _apart(names: list[str]) -> tuple[str, ...]:
    """Names of results; a result that comes twice has two."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    return tuple(dict.fromkeys(names)) if len(seen) == len(names) else tuple(f"{n}_{i}" for i, n in enumerate(names))


class _Inputs:
    """The inputs as specs."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.names = limits, dict[str, str]()

    def specs(self, model: Model) -> list[Spec]:
        found = [self._spec(i) for i in model.inputs]
        if len({n for s in found for size in s.shape if isinstance(size, Size) for n in size.names}) > _NAMES:
            raise GraphError(f"the model has more than {_NAMES} sizes that are no numbers. Give it numbers for some of them.")
        return found

    def _spec(self, given: Any) -> Spec:
        kind = given.type.tensor_type
        if given.type.WhichOneof("value") != "tensor_type" or not kind.HasField("shape"):
            raise GraphError(f"the input {given.name} is no tensor of a known rank. Give it a shape in the model.")
        shape = []
        for axis, dim in enumerate(kind.shape.dim):
            if dim.HasField("dim_value"):
                if not 0 <= dim.dim_value <= self.limits.size:
                    raise GraphError(f"the input {given.name} has an axis of size {dim.dim_value}.")
                shape.append(dim.dim_value)
            else:
                shape.append(self._size(dim.dim_param or f"{given.name}_{axis}"))
        return Spec(tuple(shape), dtype_of(kind.elem_type))

    def _size(self, text: str) -> Size:
        """A size by its name: as it stands if it can, else with what is no letter, digit or _ replaced."""
        try:
            size = Size.parse(text[:1000])
            if not size.names & _WORDS:
                return size
        except IntermodalError:
            pass
        plain = re.sub(r"\W", "_", text, flags=re.ASCII)[:40] or "size"
        name = self.names.setdefault(text, f"{plain}_" if plain in _WORDS else f"_{plain}" if plain[0].isdigit() else plain)
        return Size.named(name)


def _run(model: Model, inputs: dict[str, Tensor], weights: dict[str, Tensor]) -> tuple[Tensor, ...]:
    values: dict[str, Tensor] = {**weights, **inputs}
    known: dict[str, HostArray] = {name: a for name, a in model.constants.items() if a.size <= _SHORT}
    for i, proto in enumerate(model.nodes):
        try:
            _node(proto, model.opset, values, known)
        except (IntermodalError, *_MALFORMED) as error:
            label = f" ({proto.name})" if proto.name else ""
            what = error if isinstance(error, IntermodalError) else f"it is not well-formed: {error}"
            raise GraphError(f"node {i}, {proto.op_type}{label}: {what}") from error
    missing = [name for name in model.outputs if name not in values]
    if missing:
        raise GraphError(f"the model has no node that makes its result {missing[0]}.")
    return tuple(values[name] for name in model.outputs)


def _node(proto: Any, opset: int, values: dict[str, Tensor], known: dict[str, HostArray]) -> None:
    function = OPERATORS.get(proto.op_type) if proto.domain in ("", "ai.onnx") else None
    if function is None:
        domain = f" of {proto.domain}" if proto.domain else ""
        raise GraphError(f"there is no op for this operator{domain}. There are {', '.join(sorted(OPERATORS))}.")
    for name in proto.input:
        if name and name not in values:
            raise GraphError(f"its operand {name} is made by no node before it.")
    attrs = attributes(proto)
    inputs = [values[name] if name else None for name in proto.input]
    fixed = [known.get(name) if name else None for name in proto.input]

    def called(operands: list[Tensor | None]) -> list[Tensor]:
        node = Node(proto.op_type, opset, attrs, operands, fixed, len(proto.output))
        found = function(node)
        node.check()
        return [found] if isinstance(found, Tensor) else list(found)

    results = called(inputs)
    outputs = [name for name in proto.output if name]
    if len(results) < len(proto.output):
        raise GraphError(f"it has {len(proto.output)} results here, and {len(results)} are read.")
    values.update((name, r) for name, r in zip(proto.output, results, strict=False) if name)
    if proto.op_type in ("Shape", "Size"):
        shape = inputs[0].shape if inputs[0] is not None else ()
        whole = np.asarray(shape[slice(attrs.get("start"), attrs.get("end"))], np.int64)
        known[outputs[0]] = whole if proto.op_type == "Shape" else np.asarray(np.prod(shape, dtype=np.int64))
    elif _is_plain(function) and all(not name or name in known for name in proto.input) and all(map(_is_short, results)):
        # In a context of its own, where no trace is under way: the value itself, for whoever needs it as a number.
        try:
            computed = Context().run(_computed, called, fixed)
        except IntermodalError:  # it is raised when the graph runs, if it is so for its sizes too
            return
        known.update((name, a) for name, a in zip(proto.output, computed, strict=False) if name)


def _is_plain(function: Any) -> bool:
    """Whether an operator is one that shapes are computed with, and that needs no more memory than its operands and results."""
    return function.__module__ != _layers.__name__ and function is not OPERATORS["Einsum"]


def _is_short(x: Tensor) -> bool:
    try:
        return x.size <= _SHORT
    except IntermodalError:  # a size depends on data
        return False


def _computed(called: Any, fixed: list[HostArray | None]) -> list[HostArray]:
    with config.scope(device=_DEVICE), np.errstate(all="ignore"):
        return [to_numpy(r) for r in called([None if a is None else asarray(a, device=_DEVICE) for a in fixed])]
