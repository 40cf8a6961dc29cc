"""`trace`: a function run on symbols, and what it did as a `Graph`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from intermodal import config, dtypes
from intermodal.autodiff import trees
from intermodal.backend import Backend, backend_of
from intermodal.devices import Device, DeviceLike, as_device
from intermodal.errors import ArgumentError, CaptureError
from intermodal.graph.capture import Symbol, Trace, tracing
from intermodal.graph.generalise import generalised, probed
from intermodal.graph.graph import Graph
from intermodal.graph.ir import GraphIr, TensorIr
from intermodal.graph.sizes import Size, evaluated
from intermodal.ops.table import Spec
from intermodal.tensor import Tensor

__all__ = ["captured", "spec_of", "trace"]


def trace(function: Callable[..., Any], /, *specs: Any, device: DeviceLike | None = None) -> Graph:
    """What a function does, as a graph. It is run on shapes and dtypes alone: no data is touched, and no engine is needed.

    Args:
        function: of tensors and trees of tensors (dicts, lists, tuples, dataclasses).
        specs: for each argument a `Spec`, a tensor (whose shape and dtype count), or a tree of them; other values are handed on
            as they are. A size may be a name, ``im.Spec(("n", 256), "float32")``: then the graph is for every ``n``.
        device: for what device; by default that of the tensors, else the default device. Tensors of that device which the
            function uses without being given them become constants of the graph.

    Example:
        >>> import intermodal as im
        >>> graph = im.trace(lambda x: im.sum(x * 2, axis=1), im.Spec(("n", 3), "float32"))
        >>> graph.run(im.ones((4, 3)))
        Tensor([6., 6., 6., 6.], dtype=float32, device=numpy:cpu)
    """
    given = [_outlined(s) for s in specs]
    known = {t.device for s in specs for t in trees.leaves(s)}
    if device is None and len(known) > 1:
        raise ArgumentError(f"trace: the tensors are on {', '.join(map(str, known))}. A graph runs on one device.")
    where = as_device(device) if device is not None else known.pop() if known else config.default_device()
    names = list(
        dict.fromkeys(n for s in _specs(given) for size in s.shape if isinstance(size, Size) for n in sorted(size.names))
    )
    found, sizes = probed(names, lambda sizes: _traced(function, given, where, backend_of("meta"), sizes))
    return Graph(generalised([graph for graph, _ in found], sizes).with_status(), where, given, found[0][1])


def captured(function: Callable[..., Any], arguments: Sequence[Any], device: Device, stores: Backend) -> Graph:
    """What a function does with arguments of these very shapes, on a device whose backend stores what it stores."""
    given = [_outlined(a) for a in arguments]
    ir, answer = _traced(function, given, device, stores, {})
    return Graph(ir.with_status(), device, given, answer)


def spec_of(value: Tensor | Spec) -> Spec:
    """A tensor's shape and dtype; a spec with its sizes and dtype in normal form."""
    if isinstance(value, Tensor):
        return Spec(value.shape, value.dtype)
    shape = tuple(Size.parse(n) if isinstance(n, str) else n for n in value.shape)
    return Spec(shape, dtypes.as_dtype(value.dtype))


def _outlined(tree: Any) -> Any:
    """A tree with specs in place of tensors."""
    if isinstance(tree, (Tensor, Spec)):
        return spec_of(tree)
    parts = trees.children(tree)
    return tree if parts is None else trees.rebuild(tree, [_outlined(part) for _, part in parts])


def _specs(tree: Any) -> list[Spec]:
    if isinstance(tree, Spec):
        return [tree]
    return [s for _, part in trees.children(tree) or () for s in _specs(part)]


def _paths(tree: Any, path: str = "") -> list[str]:
    if isinstance(tree, (Spec, Tensor)):
        return [path]
    return [p for step, part in trees.children(tree) or () for p in _paths(part, path + step)]


def _traced(
    function: Callable[..., Any], given: Sequence[Any], device: Device, stores: Backend, sizes: dict[str, int]
) -> tuple[GraphIr, Any]:
    """The ops of one run, and the answer with specs in place of its tensors."""
    trace = Trace(device, stores)
    inputs: list[TensorIr] = []
    entered: list[tuple[Tensor, Symbol]] = []

    def enter(tree: Any) -> Any:
        if isinstance(tree, Spec):
            made = trace.tensor(Spec(evaluated(tree.shape, sizes), tree.dtype))
            inputs.append(trace.named(made._data))
            entered.append((made, made._data))
            return made
        parts = trees.children(tree)
        return tree if parts is None else trees.rebuild(tree, [enter(part) for _, part in parts])

    arguments = [enter(tree) for tree in given]
    with tracing(trace):
        answer = function(*arguments)
        outputs = [_named(trace, t) for t in trees.leaves(answer)]
    names = _unique([p for name, tree in zip(_parameters(function, len(given)), given, strict=True) for p in _paths(tree, name)])
    for name, (tensor, symbol) in zip(names, entered, strict=True):
        if tensor._raw is not symbol or (tensor._share is not None and tensor._share.family.version):
            raise CaptureError(
                f"the function writes to its argument {name}, and a captured program changes no argument. Return the new value, or write to a copy: im.asarray(x, copy=True)."
            )
    results = _unique(_paths(answer, "result"))
    outline = trees.map_leaves(lambda t: Spec(None, t.dtype), answer)
    ir = GraphIr(tuple(inputs), tuple(outputs), tuple(trace.operations), tuple(trace.constants), names, results)
    return ir, outline


def _named(trace: Trace, x: Tensor) -> TensorIr:
    if x.device is not trace.device:
        raise CaptureError(f"the function answers with a tensor on {x.device}, but its graph is for {trace.device}.")
    if x.is_tracked:
        raise CaptureError(
            "the function answers with a tracked tensor, and a record does not leave a graph. Detach it, or return its gradient."
        )
    array = x._place.backend.value(x._data) if x._place.plain is not x._place else x._data  # type: ignore[attr-defined]  # a layer has it
    return trace.named(array if isinstance(array, Symbol) else trace.lift(array))


def _parameters(function: Callable[..., Any], count: int) -> list[str]:
    """The names of a function's parameters, as far as it tells them."""
    try:
        positional = [
            p.name for p in signature(function).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):  # a builtin may have no signature
        positional = []
    return [positional[i] if i < len(positional) else f"x{i}" for i in range(count)]


def _unique(paths: Sequence[str]) -> tuple[str, ...]:
    """Paths as names, each once."""
    seen: dict[str, int] = {}
    found = []
    for path in paths:
        name = re.sub(r"\W+", "_", path).strip("_")
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return tuple(found)
