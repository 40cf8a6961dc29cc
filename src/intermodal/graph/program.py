"""`Program`: a graph in the ops that one backend has, with its function for each. It is what an engine compiles.

`Program.function` is plain Python over the engine's arrays, written out op by op: it runs as it stands, and `jax.jit` and
PyTorch's compiler trace through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from intermodal.backend import Array, Backend, Native, backend_of
from intermodal.devices import Device
from intermodal.dtypes import as_dtype
from intermodal.graph.capture import Trace, tracing
from intermodal.graph.graph import run_operation
from intermodal.graph.ir import ConstantIr, GraphIr, OperationIr, Status, TensorIr, tensors_of
from intermodal.graph.sizes import evaluated
from intermodal.ops.table import Spec
from intermodal.tensor import Tensor

__all__ = ["Program", "Step", "lowered"]


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
            reuses: which natives take, behind their operands, an array of the result's shape and dtype to write to.
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
                    arguments.append(_name(taken))
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
            results = run_operation(operation, values, sizes, device)
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


def _draws(operation: OperationIr) -> bool:
    return operation.row.takes_seed and not any(tensors_of(operation.inputs))
