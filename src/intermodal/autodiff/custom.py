"""`custom_vjp`: a function with a derivative of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from intermodal.autodiff import trees
from intermodal.autodiff.gradients import detach
from intermodal.autodiff.keeping import saved
from intermodal.autodiff.layer import attached
from intermodal.autodiff.nodes import Node, is_recording, node_of, recording
from intermodal.autodiff.rules import Derivative, Kind, Need, Rule
from intermodal.errors import ArgumentError, GradientError
from intermodal.tensor import Tensor

__all__ = ["CustomFunction", "custom_vjp"]


class CustomFunction:
    """A function of tensors whose derivative is written by its author, with `rule`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._signature = inspect.signature(function)
        self._rule: Callable[..., Any] | None = None
        self.__name__: str = getattr(function, "__name__", "function")
        update_wrapper(self, function)

    def rule(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Say what the derivative is: a function of the result's gradient and, by name, of arguments and the result (``out``).

        It returns a gradient for each tensor argument in their order, None for one that has none; with one tensor argument
        just that gradient. Only what it names is kept for the backward pass.
        """
        known = [*self._signature.parameters, "out"]
        for name in list(inspect.signature(rule).parameters)[1:]:
            if name not in known:
                raise ArgumentError(f"{self.__name__}: its rule asks for {name!r}. What there is: {', '.join(known)}.")
        self._rule = rule
        return rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = {name: value for name, value in bound.arguments.items() if isinstance(value, Tensor)}
        parents = [node_of(x) for x in given.values()]
        if not is_recording() or not any(parents):
            return self._function(*args, **kwargs)
        if self._rule is None:
            raise GradientError(f"{self.__name__}: no derivative was given. Write one with @{self.__name__}.rule.")
        for name, value in given.items():
            bound.arguments[name] = detach(value)
        with recording(True):  # of detached arguments nothing is recorded, so what is comes from elsewhere
            result = self._function(*bound.args, **bound.kwargs)
        if any(node_of(x) is not None for x in trees.leaves(result)):
            raise GradientError(
                f"{self.__name__}: it closes over a tracked tensor, whose gradient would be lost. Pass it as an argument, or detach it."
            )
        outputs = [detach(x) for x in trees.leaves(result)]
        multiple = not isinstance(result, Tensor)
        names = list(inspect.signature(self._rule).parameters)[1:]
        node = Node(
            Derivative(self.__name__, [], joint=self._read(names, list(given), multiple), multiple=multiple),
            parents,
            [saved(x) if name in names else None for name, x in given.items()],
            {i: x._data for i, x in enumerate(outputs)} if "out" in names else None,
            None,
            bound.arguments,
            [x.shape for x in outputs],
            [x._place for x in outputs],
        )
        made = iter(attached(outputs, node))
        return trees.map_leaves(lambda _: next(made), result)

    def _read(self, names: list[str], tensors: list[str], multiple: bool) -> Rule:
        rule = self._rule
        assert rule is not None

        def joint(g: Any, *values: Any) -> Any:
            answer = rule(g, *values)
            answers = (answer,) if len(tensors) == 1 and not isinstance(answer, (tuple, list)) else answer
            if len(answers) != len(tensors):
                raise GradientError(
                    f"{self.__name__}: its rule gave {len(answers)} gradients for the tensor arguments {tensors}."
                )
            return answers

        if multiple and "out" in names:
            raise ArgumentError(
                f"{self.__name__}: it has several results, and its rule asks for 'out'. Compute what is needed from the arguments."
            )
        kinds = {name: Need(Kind.OPERAND, i) for i, name in enumerate(tensors)} | {"out": Need(Kind.OUTPUT, 0)}
        return Rule(joint, tuple(kinds.get(name, Need(Kind.ATTRIBUTE, name)) for name in names))


def custom_vjp(function: Callable[..., Any]) -> CustomFunction:
    """A function whose derivative is given, not followed through its inside.

    Example:
        >>> import intermodal as im
        >>> @im.custom_vjp
        ... def straight_through_round(x):
        ...     return im.round(x)
        >>> @straight_through_round.rule
        ... def _(g):
        ...     return g
        >>> x = im.asarray([0.2, 1.7]).require_grad()
        >>> im.sum(straight_through_round(x) * 3.0).backward()[x]
        Tensor([3., 3.], dtype=float32, device=numpy:cpu)
    """
    return CustomFunction(function)
