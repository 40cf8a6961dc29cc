"""Optimizers as functions of trees: from parameters, gradients and a state to new parameters and a new state.

Nothing is changed in place, so a step can be repeated, compared, recorded and run on any engine. Gradients come from
`im.grad` and `im.value_and_grad`, in the form of the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from intermodal import dtypes
from intermodal.autodiff import trees
from intermodal.autodiff.nodes import no_grad
from intermodal.errors import InvalidValueError, ShapeError
from intermodal.ops import creation as _c, elementwise as _e, optimization as _o, reduction as _r
from intermodal.ops.precision import wide
from intermodal.tensor import Tensor

__all__ = ["SGD", "Adam", "AdamW", "clip_by_global_norm", "constant", "cosine", "global_norm", "warmup"]

Count: TypeAlias = int | Tensor
Rate: TypeAlias = float | Tensor
Schedule: TypeAlias = Callable[[Any], Any]  # from a count to a rate: of a number to a number, of a tensor to a tensor


class State(NamedTuple):
    """What an optimizer carries from step to step: how many there were, and trees of averages like the parameters."""

    step: Count
    averages: tuple[Any, ...]


class _Optimizer:
    """A learning rate, fixed or by a schedule, and the walk over the tree."""

    averages = 0

    def __init__(self, learning_rate: float | Schedule) -> None:
        if not callable(learning_rate):
            _check("learning_rate", learning_rate, 0.0, math.inf)
        self.learning_rate: Schedule = learning_rate if callable(learning_rate) else constant(learning_rate)

    def init(self, params: Any, *, on_device: bool = False) -> State:
        """The state before the first step.

        Args:
            params: the parameters.
            on_device: count the steps in a tensor beside the parameters. A compiled step takes the count as it comes then;
                a plain number would be part of the program, and the next one compiled anew.
        """
        first = next(iter(trees.leaves(params)), None)
        step: Count = _c.zeros((), dtype=dtypes.int32, device=first.device) if on_device and first is not None else 0
        return State(step, tuple(trees.map_leaves(_c.zeros_like, params) for _ in range(self.averages)))

    def update(self, params: Any, grads: Any, state: State) -> tuple[Any, State]:
        """The parameters and the state after one step."""
        count = state.step.astype(dtypes.float32) if isinstance(state.step, Tensor) else state.step
        rate, step = self.learning_rate(count), state.step + 1
        averages: list[list[Tensor]] = [[] for _ in state.averages]

        def stepped(p: Tensor, g: Tensor, *before: Tensor) -> Tensor:
            _check_gradient(p, g)
            p, *after = self.one(p.detach(), g.detach(), before, rate, step) if p.dtype.is_inexact else (p, *before)
            for column, value in zip(averages, after, strict=True):
                column.append(value)
            return p

        with no_grad():
            made = trees.map_leaves(stepped, params, grads, *state.averages)
        return made, State(step, tuple(trees.map_leaves(lambda _, new=new: next(new), params) for new in map(iter, averages)))

    def one(self, p: Tensor, g: Tensor, averages: Sequence[Tensor], rate: Rate, step: Count) -> tuple[Tensor, ...]:
        """One parameter's next value, and the next values of its averages."""
        raise NotImplementedError


class SGD(_Optimizer):
    """Gradient descent, with momentum where asked for; ``weight_decay`` is part of the gradient.

    Example:
        >>> import intermodal as im
        >>> descent = im.optim.SGD(0.25)
        >>> w = im.asarray([1.0, -2.0])
        >>> state = descent.init(w)
        >>> for _ in range(3):
        ...     w, state = descent.update(w, im.grad(lambda w: im.sum(w * w))(w), state)
        >>> w
        Tensor([ 0.125, -0.25 ], dtype=float32, device=numpy:cpu)
    """

    def __init__(
        self, learning_rate: float | Schedule, *, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0
    ) -> None:
        super().__init__(learning_rate)
        _check("momentum", momentum, 0.0, 1.0)
        _check("weight_decay", weight_decay, 0.0, math.inf)
        if nesterov and not momentum:
            raise InvalidValueError(
                "nesterov: it looks ahead along the momentum, which is 0. Give one, for example momentum=0.9."
            )
        self.momentum, self.nesterov, self.weight_decay = momentum, nesterov, weight_decay
        self.averages = 1 if momentum else 0

    def one(self, p: Tensor, g: Tensor, averages: Sequence[Tensor], rate: Rate, step: Count) -> tuple[Tensor, ...]:
        """P minus the rate times the (running) gradient."""
        if self.weight_decay:
            g = g + p * self.weight_decay
        rate = rate.astype(p.dtype) if isinstance(rate, Tensor) else rate
        if not self.momentum:
            return (p - g * rate,)
        velocity = averages[0] * self.momentum + g
        direction = g + velocity * self.momentum if self.nesterov else velocity
        return p - direction * rate, velocity


class Adam(_Optimizer):
    """Steps in units of the gradient's running size (Kingma and Ba, 2015); ``weight_decay`` here is part of the gradient."""

    averages = 2
    decoupled = False

    def __init__(
        self,
        learning_rate: float | Schedule = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(learning_rate)
        for beta in betas:
            _check("betas", beta, 0.0, 1.0)
        _check("eps", eps, 0.0, math.inf)
        _check("weight_decay", weight_decay, 0.0, math.inf)
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay

    def one(self, p: Tensor, g: Tensor, averages: Sequence[Tensor], rate: Rate, step: Count) -> tuple[Tensor, ...]:
        """P minus the rate times mean over root of mean square, both corrected for their start at zero."""
        if p.dtype.is_complex:  # each part is a number of its own, as PyTorch has it
            parts = [self.one(of(p), of(g), [of(x) for x in averages], rate, step) for of in (_e.real, _e.imag)]
            return tuple(x + y * 1j for x, y in zip(*parts, strict=True))
        decay = self.weight_decay
        if decay and not self.decoupled:
            g, decay = g + p * decay, 0.0
        first, second = self.betas
        return tuple(_o.adam_step(p, g, *averages, step=step, rate=rate, first=first, second=second, eps=self.eps, decay=decay))


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters themselves (Loshchilov and Hutter, 2019)."""

    decoupled = True

    def __init__(
        self,
        learning_rate: float | Schedule = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(learning_rate, betas=betas, eps=eps, weight_decay=weight_decay)


def _check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value < high:
        raise InvalidValueError(f"{name}: {value} is not in [{low}, {high}).")


def _check_gradient(p: Tensor, g: object) -> None:
    if not isinstance(g, Tensor) or g.shape != p.shape:
        given = f"one of shape {g.shape}" if isinstance(g, Tensor) else f"a {type(g).__name__}"
        raise ShapeError(f"update: a parameter of shape {p.shape} got as its gradient {given}. Take gradients from im.grad.")


# --- schedules and clipping ----------------------------------------------------------------------------------------


def constant(rate: float) -> Schedule:
    """The same rate at every step."""
    return lambda step: rate


def warmup(schedule: float | Schedule, steps: int) -> Schedule:
    """A schedule that begins with a line from 0 over some steps."""
    after = schedule if callable(schedule) else constant(schedule)
    return lambda step: after(step) * _at_most((step + 1) / max(steps, 1), 1.0)


def cosine(rate: float, steps: int, *, floor: float = 0.0) -> Schedule:
    """Half a cosine from the rate down to the floor over some steps, and the floor from then on."""

    def schedule(step: Any) -> Any:
        angle = _at_most(step, steps) * (math.pi / max(steps, 1))
        return floor + (rate - floor) * 0.5 * (1.0 + (_e.cos(angle) if isinstance(angle, Tensor) else math.cos(angle)))

    return schedule


def _at_most(count: Any, limit: float) -> Any:
    """A count, or the rate that follows from it, as a number or as a tensor that is counted in."""
    return _e.minimum(count, limit) if isinstance(count, Tensor) else min(count, limit)


def global_norm(tree: Any) -> Tensor:
    """The length of all tensors of a tree taken as one vector, in float32 at least."""
    squares = [_r.sum(_e.square(_e.abs(wide(x)))) for x in trees.leaves(tree) if x.dtype.is_inexact]
    if not squares:
        raise InvalidValueError("global_norm: the tree has no floating-point tensor.")
    total = squares[0]
    for s in squares[1:]:
        total = total + s
    return _e.sqrt(total)


def clip_by_global_norm(grads: Any, limit: float) -> Any:
    """Gradients scaled down together where their length is above the limit."""
    _check("limit", limit, 0.0, math.inf)
    norm = global_norm(grads)
    factor = _e.minimum(limit / (norm + 1e-6), 1.0)  # the small number: a length of 0 is not divided by
    return trees.map_leaves(lambda g: g * factor.astype(g.dtype) if g.dtype.is_inexact else g, grads)
