"""`Graph`: a captured program that can be run, looked at, cleaned, saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from intermodal import config, dispatch
from intermodal.autodiff import trees
from intermodal.conversion import asarray
from intermodal.devices import Device, DeviceLike, as_device
from intermodal.errors import ArgumentError, GraphError
from intermodal.graph import drawing, passes
from intermodal.graph.attributes import at
from intermodal.graph.ir import GraphIr, OperationIr, Status, TensorIr
from intermodal.graph.limits import LIMITS, Limits
from intermodal.graph.sizes import AnySize, Size
from intermodal.graph.summary import Summary, summarise
from intermodal.graph.text import to_text
from intermodal.ops.table import Spec
from intermodal.tensor import Tensor

__all__ = ["Graph", "bound_sizes"]


class Graph:
    """A program as data, with the trees of its arguments and its answer.

    Example:
        >>> import intermodal as im
        >>> graph = im.trace(lambda x, y: {"sum": x + y}, im.Spec((2,), "float32"), im.Spec((2,), "float32"))
        >>> graph.run(im.ones(2), im.ones(2))
        {'sum': Tensor([2., 2.], dtype=float32, device=numpy:cpu)}
    """

    def __init__(
        self, ir: GraphIr, device: Device | None = None, arguments: Sequence[Any] | None = None, answer: Any = None
    ) -> None:
        self.ir = ir
        self.device = device
        self.arguments = [Spec(t.shape, t.dtype) for t in ir.inputs] if arguments is None else list(arguments)
        self.answer = _flat_answer(ir) if arguments is None else answer

    def __repr__(self) -> str:
        ir = self.ir
        return f"<graph of {len(ir.operations)} ops: {len(ir.inputs)} inputs, {len(ir.constants)} constants, {len(ir.outputs)} outputs>"

    def __str__(self) -> str:
        """The text form, a line for each op: see the page on the IR."""
        return to_text(self.ir)

    def clean(self) -> Graph:
        """The same program with fewer ops: nothing dead, nothing twice, constants computed, rows of movements merged."""
        return Graph(passes.clean(self.ir), self.device, self.arguments, self.answer)

    def summary(self, sizes: Mapping[str, int] | None = None) -> Summary:
        """What it costs: ops, FLOPs, bytes, peak memory. Named sizes have to be told, ``{"n": 64}``."""
        return summarise(self.ir, sizes)

    def to_dot(self) -> str:
        """The graph in the language of Graphviz."""
        return drawing.to_dot(self.ir)

    def to_svg(self, path: str | PathLike[str] | None = None) -> str:
        """The graph drawn, by the program ``dot`` of Graphviz; written to a file where a path is given."""
        return drawing.to_svg(self.ir, path)

    def run(self, *arguments: Any, device: DeviceLike | None = None) -> Any:
        """Run the program op by op, on the device of its arguments, or on another.

        Args:
            arguments: as the traced function took them; of a graph that was loaded, one tensor for each input.
            device: where to run; tensors that are elsewhere are moved there.
        """
        tensors = self.flatten(arguments)
        where = as_device(device) if device is not None else tensors[0].device if tensors else self.device
        where = config.default_device() if where is None else where
        tensors = [t if t.device is where else t.to(where) for t in tensors]
        return self.unflatten(replayed(self.ir, tensors, where))

    def save(self, path: str | PathLike[str], *, external: bool | None = None) -> None:
        """Write the program to a file. The ending says the form.

        Args:
            path: ``.onnx`` for ONNX, with named sizes kept (extra ``onnx``); ``.imgraph`` for intermodal's own bytes (extra ``graph``);
                ``.txt`` for its text.
            external: of ONNX, whether constants go to a file of their own beside it; by default if they have more than 1 GiB.
        """
        from intermodal.graph.files import save

        save(self.ir, path, external=external)

    @classmethod
    def load(cls, path: str | PathLike[str], *, limits: Limits = LIMITS) -> Graph:
        """A program from a file, as `save` writes it, or any ONNX model whose operators the op table has. Nothing in it is run.

        The graph takes one tensor for each input, and answers with one tensor, or a tuple of them.

        Args:
            path: the file; its ending says the form.
            limits: how large it may be.
        """
        from intermodal.graph.files import load

        return cls(load(path, limits))

    def flatten(self, arguments: Sequence[Any]) -> list[Tensor]:
        """The tensors of arguments, in the order of the graph's inputs; what does not fit is refused."""
        if len(arguments) != len(self.arguments):
            raise ArgumentError(f"run: {len(arguments)} arguments were given, the graph takes {len(self.arguments)}.")
        found: list[Tensor] = []
        for i, (wanted, given) in enumerate(zip(self.arguments, arguments, strict=True)):
            _gather(wanted, given, f"argument {i}", found)
        return found

    def unflatten(self, results: Sequence[Tensor]) -> Any:
        """Results, in the order of the graph's outputs, as the traced function answered."""
        remaining = iter(results)

        def put(tree: Any) -> Any:
            if isinstance(tree, Spec):
                return next(remaining)
            parts = trees.children(tree)
            return tree if parts is None else trees.rebuild(tree, [put(part) for _, part in parts])

        return put(self.answer)


def _flat_answer(ir: GraphIr) -> Any:
    specs = tuple(Spec(t.shape, t.dtype) for t in ir.outputs)
    return specs[0] if len(specs) == 1 else specs


def _gather(wanted: Any, given: Any, path: str, found: list[Tensor]) -> None:
    if isinstance(wanted, Spec):
        if not isinstance(given, Tensor):
            raise ArgumentError(f"run: {path} is a {type(given).__name__}, the graph takes a tensor. Wrap data with im.asarray.")
        found.append(given)
        return
    parts = trees.children(wanted)
    if parts is None:
        if given is not wanted and given != wanted:
            raise ArgumentError(
                f"run: {path} is {given!r}, but the graph was traced with {wanted!r}. Trace it again for this value."
            )
        return
    others = trees.children(given)
    if others is None or [step for step, _ in others] != [step for step, _ in parts]:
        raise ArgumentError(
            f"run: {path} is a {type(given).__name__}, the graph takes a {type(wanted).__name__} with {[step for step, _ in parts]}."
        )
    for (step, part), (_, other) in zip(parts, others, strict=True):
        _gather(part, other, path + step, found)


# --- replay ----------------------------------------------------------------------------------------------------------


def replayed(ir: GraphIr, inputs: Sequence[Tensor], device: Device) -> list[Tensor]:
    """The results of a graph, each op dispatched as if it were called; what is not needed any more is let go."""
    sizes = bound_sizes(ir, inputs)
    values: dict[int, Tensor] = {t.id: x for t, x in zip(ir.inputs, inputs, strict=True)}
    values.update((c.id, asarray(c.value, device=device)) for c in ir.constants)
    for operation in ir.operations:
        results = run_operation(operation, values, sizes, device)
        for tensor in operation.tensors():
            if tensor.status is Status.LAST_USE:
                values.pop(tensor.id, None)  # an op may name a tensor twice
        values.update((t.id, r) for t, r in zip(operation.outputs, results, strict=True))
    return _apart([values[t.id] for t in ir.outputs], inputs)


def _apart(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Results of which none is an input or another result, so that a write to one changes it alone. No data is copied."""
    seen = {id(x) for x in inputs}
    found: list[Tensor] = []
    for x in results:
        found.append(Tensor(x._data, x._place) if id(x) in seen else x)
        seen.add(id(x))
    return found


def run_operation(
    operation: OperationIr, values: Mapping[int, Tensor], sizes: Mapping[str, int], device: Device
) -> Sequence[Tensor]:
    """The results of one op, its operands looked up by number."""

    def operand(value: Any) -> Any:
        if isinstance(value, TensorIr):
            return values[value.id]
        return [values[t.id] for t in value] if isinstance(value, tuple) else at(value, sizes)

    row = operation.row
    attrs = {name: at(value, sizes) for name, value in operation.attrs.items()}
    if row.takes_device:
        attrs["device"] = device
    answer = dispatch.call_bound(row, [operand(v) for v in operation.inputs], attrs)
    return answer if row.multiple else (answer,)


def bound_sizes(ir: GraphIr, inputs: Sequence[Tensor]) -> dict[str, int]:
    """The named sizes, as the inputs have them; inputs that do not fit the graph are refused."""
    if len(inputs) != len(ir.inputs):
        raise ArgumentError(f"run: {len(inputs)} tensors were given, the graph takes {len(ir.inputs)}.")
    known: dict[str, int] = {}
    for wanted, given, name in zip(ir.inputs, inputs, ir.input_names or map(str, range(len(inputs))), strict=True):
        if given.dtype is not wanted.dtype or len(given.shape) != len(wanted.shape):
            raise _misfit(name, wanted, given)
        for size, actual in zip(wanted.shape, given.shape, strict=True):
            if isinstance(size, Size) and len(size.terms) == 1 and size == Size.named(next(iter(size.names))):
                known.setdefault(next(iter(size.names)), actual)
    for wanted, given, name in zip(ir.inputs, inputs, ir.input_names or map(str, range(len(inputs))), strict=True):
        if any(_number(size, known) != actual for size, actual in zip(wanted.shape, given.shape, strict=True)):
            raise _misfit(name, wanted, given)
    return known


def _number(size: AnySize, known: Mapping[str, int]) -> int:
    return size.at(known) if isinstance(size, Size) else size


def _misfit(name: str, wanted: TensorIr, given: Tensor) -> GraphError:
    shape = f"({', '.join(map(str, wanted.shape))})"
    return GraphError(
        f"run: input {name} is {given.dtype} of shape {given.shape}, the graph takes {wanted.dtype} of shape {shape}. Trace it again for this one."
    )
