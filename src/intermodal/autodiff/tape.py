"""The walk back over the nodes: gradients of results become gradients of operands, in ops of the table.

Nodes are taken in the reverse order of their making, without recursion, and what each saved is dropped as soon as it
has been used. When the derivative is itself to be differentiated, the rules run on tracked tensors and are recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

from intermodal.autodiff.keeping import Cell, restored
from intermodal.autodiff.layer import tracked_place
from intermodal.autodiff.nodes import Node, Parent, Saved, Tracked, _recording, ancestors
from intermodal.autodiff.rules import Kind, Rule
from intermodal.dispatch import low_dtype
from intermodal.errors import GradientError
from intermodal.ops import creation as _c, elementwise as _e, manipulation as _m, reduction as _r
from intermodal.ops.table import Spec
from intermodal.tensor import Tensor

__all__ = ["backward"]

_ATTRIBUTE, _SPEC, _OPERAND = Kind.ATTRIBUTE, Kind.SPEC, Kind.OPERAND  # a member is found slowly through its class


def backward(
    roots: Sequence[tuple[Parent, Tensor]], wanted: Sequence[Parent] | None, *, retain_graph: bool, create_graph: bool
) -> dict[tuple[Node, int], Tensor]:
    """The gradients of the roots' sum (each weighted by its tensor) by the wanted results, or by every node that keeps one."""
    mode = _recording.set((_recording.get() or True) if create_graph else False)
    dtype = low_dtype.set(None)  # a derivative has the dtypes of its op, whatever scope is open here
    try:
        return _walk(roots, wanted, create_graph, not (retain_graph or create_graph))
    finally:
        low_dtype.reset(dtype)
        _recording.reset(mode)


def _walk(
    roots: Sequence[tuple[Parent, Tensor]], wanted: Sequence[Parent] | None, create_graph: bool, frees: bool
) -> dict[tuple[Node, int], Tensor]:
    useful = None if wanted is None else _leading_to([r.node for r, _ in roots], wanted)
    targets = set() if wanted is None else {(p.node, p.output) for p in wanted}
    arrived: dict[Node, list[Tensor | None]] = {}
    found: dict[tuple[Node, int], Tensor] = {}
    heap: list[tuple[int, Node]] = []
    node: Node | None = None
    gradients: list[Tensor | None] = []
    pulled: Sequence[tuple[Any, Tensor]] = roots
    while True:
        for parent, gradient in pulled:
            gradient = fit(gradient, parent)
            if node is not None and node.origin is not None:
                _check_finite(node, gradients, gradient)
            behind, index = (parent, 0) if type(parent) is Node else parent
            slots = arrived.get(behind)
            if slots is None:
                slots = arrived[behind] = [None] * len(behind.shapes)
                heappush(heap, (-behind.id, behind))
            before = slots[index]
            slots[index] = gradient if before is None else before + gradient
        if node is not None and frees:
            node.free()
        node, pulled = None, ()  # nothing here holds a gradient that has been handed on
        while node is None:
            if not heap:
                return found
            candidate = heappop(heap)[1]
            gradients = _arrived(candidate, arrived.pop(candidate), targets, found)
            if candidate.derivative is not None and (useful is None or candidate in useful):
                node = candidate
        if node.freed:
            raise GradientError(
                f"backward: the record of {node.name} was given up by an earlier backward pass. Pass retain_graph=True to all but the last one."
            )
        pulled = _pull(node, gradients, create_graph)


def _arrived(
    node: Node, gradients: list[Tensor | None], targets: set[tuple[Node, int]], found: dict[tuple[Node, int], Tensor]
) -> list[Tensor | None]:
    """The gradients of a node's results as its hooks leave them, noted where they are asked for."""
    if node.hooks is not None:
        gradients = [_hooked(node, i, g) for i, g in enumerate(gradients)]
    if node.keep or targets:
        for i, g in enumerate(gradients):
            if g is not None and (node.keep or (node, i) in targets):
                found[node, i] = Tensor(g._data, g._place)  # its own: a rule may hand one tensor to all operands
    return gradients


def _check_finite(node: Node, given: list[Tensor | None], gradient: Tensor) -> None:
    """The first NaN that a derivative makes of numbers is reported with the line that computed the op."""
    if bool(_r.any(_e.isnan(gradient))) and not any(bool(_r.any(_e.isnan(g))) for g in given if g is not None):
        raise GradientError(f"backward: the derivative of {node.name} is NaN.{_origin(node)}")


def _hooked(node: Node, index: int, gradient: Tensor | None) -> Tensor | None:
    for which, hook in node.hooks or ():
        if gradient is not None and which == index:
            answer: Any = hook(gradient)
            if answer is not None:
                if not isinstance(answer, Tensor) or answer.shape != gradient.shape:
                    given = f"a tensor of shape {answer.shape}" if isinstance(answer, Tensor) else f"a {type(answer).__name__}"
                    raise GradientError(
                        f"backward: a hook of {node.name} answered with {given} to a gradient of shape {gradient.shape}. Return a tensor of that shape, or None."
                    )
                gradient = fit(answer, Parent(node, index))
    return gradient


def _leading_to(roots: Iterable[Node], wanted: Iterable[Parent]) -> set[Node]:
    """The nodes on a way from the roots to a wanted one; a wanted node itself only if another lies behind it."""
    useful: set[Node] = set()
    goals = {p.node for p in wanted}
    for node in sorted(ancestors(roots), key=lambda n: n.id):
        if any(p in goals or p in useful for p in node.all_parents()):
            useful.add(node)
    return useful


def fit(gradient: Tensor, parent: Any) -> Tensor:
    """A gradient in the shape and dtype of the result it belongs to: summed where it was broadcast, cast where it was promoted."""
    node, index = (parent, 0) if type(parent) is Node else parent
    shape, place = node.shapes[index], node.places[index]
    given = gradient.shape
    if given != shape:
        extra = len(given) - len(shape)
        axes = tuple([i for i, n in enumerate(given) if i < extra or (shape[i - extra] == 1 and n != 1)])
        gradient = _m.reshape(_r.sum(gradient, axis=axes, keepdims=True), tuple(shape))
    if gradient.dtype is not place.dtype:
        if gradient.dtype.is_complex and not place.dtype.is_complex:
            gradient = _e.real(gradient)
        gradient = _m.astype(gradient, place.dtype)
    return gradient


def _pull(node: Node, gradients: list[Tensor | None], create_graph: bool) -> list[tuple[Any, Tensor]]:
    """The gradients that a node hands to its operands."""
    derived = node.derivative
    assert derived is not None
    if derived.refusal is not None:
        raise GradientError(f"backward: {node.name} has no derivative: {derived.refusal}{_origin(node)}")
    given: Any = gradients[0] if len(gradients) == 1 and not derived.multiple else _all_given(node, gradients)
    parents = node.parents
    answers: Any
    if derived.joint is not None:
        answers = _apply(derived.joint, node, given, create_graph)
    else:
        answers = [
            None if rule is None or parent is None else _apply(rule, node, given, create_graph)
            for rule, parent in zip(derived.rules, parents, strict=True)
        ]
    pulled: list[tuple[Any, Tensor]] = []
    for parent, answer in zip(parents, answers, strict=True):
        if parent is None or answer is None:
            continue
        if type(parent) is list:
            pulled += [(p, a) for p, a in zip(parent, answer, strict=True) if p is not None and a is not None]
        else:
            pulled.append((parent, answer))
    return pulled


def _origin(node: Node) -> str:
    return "" if node.origin is None else f" It was computed here:\n{node.origin}"


def _all_given(node: Node, gradients: list[Tensor | None]) -> tuple[Tensor, ...]:
    """Zeros where no gradient came, so that rules of several results need not ask."""
    return tuple(
        _c.zeros(tuple(shape), dtype=place.dtype, device=place.device) if g is None else g
        for g, shape, place in zip(gradients, node.shapes, node.places, strict=True)
    )


def _apply(rule: Rule, node: Node, given: Any, create_graph: bool) -> Any:
    needs = rule.needs
    if not needs:
        return rule.function(given)
    return rule.function(given, *[_fetch(node, kind, which, create_graph) for kind, which in needs])


def _fetch(node: Node, kind: Kind, which: Any, create_graph: bool) -> Any:
    if kind is _ATTRIBUTE:
        return node.attrs[which]
    if kind is _SPEC:
        return _spec(node.operands[which]) if node.specs is None else node.specs[which]
    if kind is _OPERAND:
        return _restore(node.operands[which], node.parents[which], create_graph)
    array, place = node.outputs[which], node.places[which]
    array = array.get() if type(array) is Cell else array
    return Tensor(Tracked(array, node, which), tracked_place(place)) if create_graph else Tensor(array, place)


def _spec(saved: Any) -> Any:
    """What is known of a saved operand without its value."""
    if type(saved) is Tracked and saved.node is not None:
        return Spec(saved.node.shapes[saved.index], saved.node.places[saved.index].dtype)
    if type(saved) is Saved:
        return Spec(saved.place.backend.shape(saved.array), saved.place.dtype)
    return [_spec(s) for s in saved] if type(saved) is list else saved


def _restore(saved: Any, parent: Any, create_graph: bool) -> Any:
    """A saved operand as a tensor: in the layer if its own derivative is asked for, below it otherwise."""
    if type(saved) is list:
        parents = parent or [None] * len(saved)
        return [_restore(s, p, create_graph) for s, p in zip(saved, parents, strict=True)]
    found = restored(saved)
    if not create_graph or parent is None:
        return found
    return Tensor(Tracked(found._data, parent.node, parent.output), tracked_place(found._place))
