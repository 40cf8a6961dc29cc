"""Memory against time: what the backward pass computes again instead of keeping it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from intermodal.autodiff import tape, trees
from intermodal.autodiff.gradients import detach, require_grad, variable
from intermodal.autodiff.keeping import Keeper, Report
from intermodal.autodiff.layer import attached
from intermodal.autodiff.nodes import Node, ancestors, is_recording, node_of, recording
from intermodal.autodiff.rules import Derivative, Rule
from intermodal.backend.contract import replayed_seeds
from intermodal.dispatch import casting, low_dtype
from intermodal.errors import GradientError, InvalidValueError
from intermodal.ops.rules import Elementwise
from intermodal.tensor import Tensor

if TYPE_CHECKING:
    from intermodal.dtypes import DType
    from intermodal.ops.table import Op

__all__ = ["budget", "checkpointing", "detect_anomaly", "segment"]


@contextmanager
def checkpointing(strategy: str | Budget) -> Iterator[Report]:
    """Record in a way that saves memory inside the block, and report what was kept and computed again.

    Args:
        strategy: ``"none"`` keeps what derivatives need; ``"balanced"`` computes the results of elementwise ops and of ops
            that move elements again; ``budget(bytes)`` keeps at most so many bytes at once.

    Example:
        >>> import intermodal as im
        >>> x = im.ones(1000).require_grad()
        >>> with im.autodiff.checkpointing("balanced") as report:
        ...     y = im.sum(im.exp(x * 2.0))
        >>> grads = y.backward()
        >>> report.peak, report.recomputations
        (8000, 2)
    """
    if isinstance(strategy, Budget):
        keeper = Keeper(limit=strategy.bytes)
    elif strategy in ("none", "balanced"):
        keeper = Keeper(_moves_memory if strategy == "balanced" else None)
    else:
        raise InvalidValueError(
            f"checkpointing: {strategy!r} is no strategy. Use 'none', 'balanced', or im.autodiff.budget(bytes)."
        )
    with recording(keeper):
        yield keeper.report


class Budget(NamedTuple):
    """The strategy that keeps at most so many bytes."""

    bytes: int


def budget(bytes: int) -> Budget:
    """The strategy for `checkpointing` that keeps at most so many bytes for the backward pass at any time.

    What does not fit is given up, the largest first that was not used for long, and computed again when it is needed.
    """
    if bytes <= 0:
        raise InvalidValueError(f"budget: {bytes} bytes is no limit. Give a positive number.")
    return Budget(bytes)


def _moves_memory(row: Op) -> bool:
    """Whether an op costs about as much as reading its operands: elementwise ops and movements."""
    return row.movement or row.view is not None or type(row.infer) is Elementwise


@contextmanager
def detect_anomaly() -> Iterator[None]:
    """Inside the block, note where each op was called; a derivative that turns NaN is then reported with that line.

    It costs time for each op and each step back, so it is for finding faults.
    """
    with recording(Keeper(origins=True)):
        yield


def segment(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, of which the backward pass keeps the arguments alone and computes the inside again.

    Random ops inside draw the same numbers both times. The function must not close over tracked tensors: pass them.
    Where a derivative is itself to be differentiated, the inside that was computed again is kept for that.

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
        low = low_dtype.get()
        with recording(False), replayed_seeds(seeds):
            result = function(*args, **kwargs)
        outputs = [detach(x) for x in trees.leaves(result)]
        kept = trees.map_leaves(lambda x: Tensor(x._data, x._place), given)  # not the user's own, who may write to them

        def again(gradients: Any) -> list[Tensor | None]:
            return _derived_again(function, kept, gradients, seeds, low)

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
        made = iter(attached(outputs, node))
        return trees.map_leaves(lambda _: next(made), result)

    return run


def _derived_again(
    function: Callable[..., Any], kept: Any, gradients: tuple[Tensor, ...], seeds: list[int], low: DType | None
) -> list[Tensor | None]:
    deeper = is_recording()  # then this derivative is itself differentiated, and its variables stay connected to their past
    start = variable if deeper else require_grad
    variables = trees.map_leaves(lambda x: x if node_of(x) is None else start(x), kept)
    args, kwargs = variables
    with recording(True), replayed_seeds(seeds), casting(low):
        result = trees.leaves(function(*args, **kwargs))
    roots = [(p, g) for x, g in zip(result, gradients, strict=True) if (p := node_of(x)) is not None]
    own = [p for x in trees.leaves(variables) if (p := node_of(x)) is not None]
    first = min(p.node.id for p in own)
    if any(node.id < first for node in ancestors([p.node for p, _ in roots], without=[p.node for p in own])):
        raise GradientError(
            "segment: the function closes over a tracked tensor, whose gradient would be lost. Pass it as an argument."
        )
    found = tape.backward(roots, own, retain_graph=False, create_graph=deeper)
    return [None if (p := node_of(x)) is None else found.get((p.node, p.output)) for x in trees.leaves(variables)]
