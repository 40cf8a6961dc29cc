"""Memory against time: what the backward pass computes again instead of keeping it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from intermodal.autodiff import tape, trees
from intermodal.autodiff.gradients import detach, node_of, require_grad
from intermodal.autodiff.layer import tracked_place
from intermodal.autodiff.nodes import Node, Tracked, is_recording, recording
from intermodal.autodiff.rules import Derivative, Rule
from intermodal.backend.contract import replayed_seeds
from intermodal.errors import GradientError
from intermodal.tensor import Tensor

__all__ = ["segment"]


def segment(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, of which the backward pass keeps the arguments alone and computes the inside again.

    Random ops inside draw the same numbers both times. The function must not close over tracked tensors: pass them.

    Example:
        >>> import intermodal as im
        >>> cube = im.autodiff.segment(lambda x: x * x * x)
        >>> x = im.asarray([1.0, 2.0]).require_grad()
        >>> cube(x).backward()[x]
        Tensor([ 3., 12.], dtype=float32, device=numpy:cpu)
    """

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        given = (args, kwargs)
        parents = [node_of(x) for x in trees.leaves(given)]
        if not is_recording() or not any(parents):
            return function(*args, **kwargs)
        seeds: list[int] = []
        with recording(False), replayed_seeds(seeds):
            result = function(*args, **kwargs)
        outputs = [detach(x) for x in trees.leaves(result)]
        kept = trees.map_leaves(detach, given)

        def again(gradients: Any) -> list[Tensor | None]:
            return _derived_again(function, kept, parents, gradients, seeds)

        node = Node(
            Derivative(f"segment {getattr(function, '__name__', 'function')}", [], joint=Rule(again, ()), multiple=True),
            parents,
            (),
            None,
            None,
            None,
            [x.shape for x in outputs],
            [x._place for x in outputs],
        )
        made = iter(
            Tensor(Tracked(x._data, node, i), tracked_place(x._place)) if x.dtype.is_floating or x.dtype.is_complex else x
            for i, x in enumerate(outputs)
        )
        return trees.map_leaves(lambda _: next(made), result)

    return run


def _derived_again(
    function: Callable[..., Any], kept: Any, parents: list[Any], gradients: tuple[Tensor, ...], seeds: list[int]
) -> list[Tensor | None]:
    tracked = iter(parents)
    variables = trees.map_leaves(lambda x: x if next(tracked) is None else require_grad(x), kept)
    args, kwargs = variables
    with recording(True), replayed_seeds(seeds):
        result = trees.leaves(function(*args, **kwargs))
    roots = [(p, g) for x, g in zip(result, gradients, strict=True) if (p := node_of(x)) is not None]
    own = [p for x in trees.leaves(variables) if (p := node_of(x)) is not None]
    found = tape.backward(roots, own, retain_graph=False, create_graph=False)
    strangers = [node for node, _ in found if node not in {p.node for p in own}]
    if strangers:
        raise GradientError(
            "segment: the function closes over a tracked tensor, whose gradient would be lost. Pass it as an argument."
        )
    return [None if (p := node_of(x)) is None else found.get((p.node, p.output)) for x in trees.leaves(variables)]
