"""`Program`: a graph in the ops that one backend has, with its function for each. It is what an engine compiles.

`Program.function` is plain Python over the engine's arrays, written out op by op: it runs as it stands, and `jax.jit` and
PyTorch's compiler trace through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from intermodal import dispatch
from intermodal.backend import Array, Backend, Native, backend_of
from intermodal.devices import Device
from intermodal.dtypes import as_dtype
from intermodal.errors import UnsupportedError
from intermodal.graph.attributes import at
from intermodal.graph.capture import Trace, tracing
from intermodal.graph.generalise import generalised, probed
from intermodal.graph.graph import run_operation
from intermodal.graph.ir import ConstantIr, GraphIr, OperationIr, Status, TensorIr, tensors_of
from intermodal.graph.sizes import AnySize, Size, evaluated
from intermodal.ops.table import Op, Spec
from intermodal.places import engine_place
from intermodal.tensor import Tensor

__all__ = ["Program", "Step", "lowered", "lowered_for_all"]


@dataclass(frozen=True, slots=True)
class Step:
    """One op of a program: the op, and the backend's function for it."""

    operation: OperationIr
    native: Native

    @property
    def outputs(self) -> tuple[Spec, ...]:
        return tuple(Spec(t.shape, t.dtype) for t in self.operation.outputs)

    def attrs(self, device: Device) -> dict[str, object]:
        """The attributes as the native takes them."""
        found: dict[str, object] = dict(self.operation.attrs)
        return {**found, "device": device} if self.operation.row.takes_device else found


@dataclass(frozen=True, slots=True)
class Program:
    """A graph for one device, in its backend's own ops.

    Attributes:
        ir: the graph. Its first inputs are its constants, which an engine is handed with each call: none is built into code.
        constants: their values.
        steps: its ops, each with the backend's function.
        device: where it runs.
        donated: the numbers of the inputs whose memory may be taken.
    """

    ir: GraphIr
    constants: tuple[ConstantIr, ...]
    steps: tuple[Step, ...]
    device: Device
    donated: tuple[int, ...] = ()

    @property
    def backend(self) -> Backend:
        return backend_of(self.device.engine)

    def function(
        self, direct: Callable[[Step], bool] | None = None, reuses: Callable[[Step], bool] | None = None
    ) -> Callable[..., tuple[Array, ...]]:
        """The program as a Python function of the engine's arrays.

        Args:
            direct: for which steps the native can be called as it is; the others go by `Backend.execute`.
            reuses: which natives take, as ``out``, an array of the result's shape and dtype to write to.
        """
        scope: dict[str, Any] = {}
        lines: list[str] = []
        spare = frozenset[int]() if reuses is None else self._own(reuses)
        for i, step in enumerate(self.steps):
            operation = step.operation
            plain = direct is not None and direct(step)
            scope[f"f{i}"] = step.native if plain else _executed(self.backend, self.device, step)
            arguments = [_argument(value, scope, f"c{i}_{j}") for j, value in enumerate(operation.inputs)]
            if plain:
                for name, value in step.attrs(self.device).items():
                    scope[f"a{i}_{name}"] = value
                    arguments.append(f"{name}=a{i}_{name}")
                taken = next((t for t in operation.tensors() if t.id in spare and _can_become(t, operation)), None)
                if taken is not None and reuses is not None and reuses(step):
                    arguments.append(f"out={_name(taken)}")  # by name: NumPy frowns on more than two operands of maximum
            results = "".join(f"{_name(t)}, " for t in operation.outputs)
            single = plain and not operation.row.multiple
            lines.append(f"{_name(operation.outputs[0]) if single else results} = f{i}({', '.join(arguments)})")
            gone = {_name(t) for t in operation.tensors() if t.status is Status.LAST_USE}
            if gone:
                lines.append(f"del {', '.join(sorted(gone))}")
        parameters = ", ".join(_name(t) for t in self.ir.inputs)
        lines.append(f"return ({''.join(f'{_name(t)}, ' for t in self.ir.outputs)})")
        exec(f"def program({parameters}):\n    " + "\n    ".join(lines), scope)  # noqa: S102  # our own text: numbers of tensors and ops
        return scope["program"]  # type: ignore[no-any-return]  # it was just defined

    def require_sizes(self) -> None:
        """Refuse ops whose results have sizes that depend on data, for an engine that compiles for known sizes."""
        found = sorted({o.op for o in self.ir.operations if not _is_sized(o, {})})
        if found:
            raise UnsupportedError(
                f"compile: a size of what {', '.join(found)} gives depends on data, and {self.device} compiles for known sizes. "
                "Compute it outside and pass it in, or use a mask and im.where."
            )

    def _own(self, reuses: Callable[[Step], bool]) -> frozenset[int]:
        """Tensors whose memory is theirs alone: made by such natives, which always make a new array, and read by such alone."""
        made = {t.id for s in self.steps if reuses(s) for t in s.operation.outputs}
        return frozenset(made - {t.id for s in self.steps if not reuses(s) for t in s.operation.tensors()})


def _can_become(tensor: TensorIr, operation: OperationIr) -> bool:
    out = operation.outputs[0]
    return tensor.status is Status.LAST_USE and (tensor.shape, tensor.dtype) == (out.shape, out.dtype)


def _name(tensor: TensorIr) -> str:
    return f"t{tensor.id}"


def _argument(value: Any, scope: dict[str, Any], name: str) -> str:
    if isinstance(value, TensorIr):
        return _name(value)
    if isinstance(value, tuple):
        return f"[{', '.join(_name(t) for t in value)}]"
    scope[name] = value
    return name


def _executed(backend: Backend, device: Device, step: Step) -> Callable[..., Sequence[Array]]:
    row, attrs, outputs, native = step.operation.row, step.attrs(device), step.outputs, step.native

    def run(*arrays: Array) -> Sequence[Array]:
        return backend.execute(row, arrays, attrs, outputs, native)

    return run


def lowered(
    ir: GraphIr, device: Device, sizes: Mapping[str, int], donated: Sequence[int] = ()
) -> tuple[Program, tuple[OperationIr, ...]]:
    """A graph, at known sizes, in the ops of a device's backend; and its draws: ops that make random numbers from nothing.

    The draws' results are inputs of the program, behind the graph's own: compiled code would draw the same numbers each time.
    """
    trace = Trace(device, backend_of(device.engine), lowers=True)

    def entered(tensor: TensorIr) -> Tensor:
        return trace.tensor(Spec(evaluated(tensor.shape, sizes), tensor.dtype))

    constants = {c.id: Tensor(trace.constant(c.value), trace.place(as_dtype(c.value.dtype))) for c in ir.constants}
    inputs = [entered(t) for t in ir.inputs]
    values: dict[int, Tensor] = {**constants, **{t.id: x for t, x in zip(ir.inputs, inputs, strict=True)}}
    with tracing(trace):
        for operation in ir.operations:
            if _is_sized(operation, sizes) or trace.stores.native(operation.row, operation.outputs[0].dtype) is not None:
                results = run_operation(operation, values, sizes, device)
            else:
                results = _taken_whole(trace, operation, values, sizes)
            values.update((t.id, r) for t, r in zip(operation.outputs, results, strict=True))
    pairs = list(zip(trace.operations, trace.natives, strict=True))
    draws = [o for o, _ in pairs if _draws(o)]
    rest = [(o, n) for o, n in pairs if not _draws(o)]
    named = [trace.named(x._data) for x in inputs]
    held = [TensorIr(c.id, tuple(c.value.shape), as_dtype(c.value.dtype)) for c in trace.constants]
    made = replace(
        ir,
        inputs=(*held, *named, *(t for o in draws for t in o.outputs)),
        outputs=tuple(trace.named(values[t.id]._data) for t in ir.outputs),
        operations=tuple(o for o, _ in rest),
        constants=(),
        input_names=(),
    ).with_status()
    steps = tuple(Step(o, n) for o, (_, n) in zip(made.operations, rest, strict=True))
    return Program(made, tuple(trace.constants), steps, device, tuple(len(held) + i for i in donated)), tuple(draws)


def lowered_for_all(ir: GraphIr, device: Device) -> tuple[Program, tuple[OperationIr, ...]]:
    """As `lowered`, with the graph's named sizes kept: found from several numbers for each, as a trace finds them."""
    found, sizes = probed(ir.symbols, lambda sizes: lowered(ir, device, sizes))
    first, draws = found[0]
    own = len(ir.constants)  # which are the same for all sizes; those that came with decompositions are compared
    irs = [replace(p.ir, constants=p.constants[own:]) for p, _ in found]
    made = replace(generalised(irs, sizes), constants=()).with_status()
    steps = tuple(Step(o, s.native) for o, s in zip(made.operations, first.steps, strict=True))
    return replace(first, ir=made, steps=steps), draws


def _draws(operation: OperationIr) -> bool:
    return operation.row.takes_seed and not any(tensors_of(operation.inputs))


def _is_sized(operation: OperationIr, sizes: Mapping[str, int]) -> bool:
    """Whether no size of the results depends on data."""
    return all(_size(n, sizes) is not None for t in operation.outputs for n in t.shape)


def _size(size: AnySize, sizes: Mapping[str, int]) -> int | None:
    if not isinstance(size, Size):
        return size
    return size.at(sizes) if size.names <= sizes.keys() else None


def _taken_whole(trace: Trace, operation: OperationIr, values: Mapping[int, Tensor], sizes: Mapping[str, int]) -> list[Tensor]:
    """An op of several ops taken down as one: between them nobody knows a size that depends on data."""

    def operand(value: Any) -> Any:
        if isinstance(value, TensorIr):
            return values[value.id]._data
        return [values[t.id]._data for t in value] if isinstance(value, tuple) else at(value, sizes)

    arrays = [operand(v) for v in operation.inputs]
    attrs = {name: at(value, sizes) for name, value in operation.attrs.items()}
    outputs = [Spec(tuple(_size(n, sizes) for n in t.shape), t.dtype) for t in operation.outputs]
    made = trace.add(operation.row, arrays, attrs, outputs, _run_whole(operation.row, trace.device))
    return [Tensor(symbol, trace.place(symbol.spec.dtype)) for symbol in made]


def _run_whole(row: Op, device: Device) -> Native:
    """An op by its body, as a function of the engine's arrays."""

    def run(*arrays: Any, **attrs: object) -> Any:
        given = [_wrapped(a, device) for a in arrays]
        answer = dispatch.call_bound(row, given, attrs)
        return tuple(t._data for t in answer) if row.multiple else answer._data

    return run


def _wrapped(value: Any, device: Device) -> Any:
    if isinstance(value, list):
        return [_wrapped(v, device) for v in value]
    return Tensor(value, engine_place(device, as_dtype(value.dtype))) if hasattr(value, "dtype") else value
