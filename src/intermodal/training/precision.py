"""Mixed precision: `autocast` has matrices multiplied in 16 bits, `LossScale` keeps small gradients above float16's floor.

Parameters, the optimizer and everything that adds up stay in float32. Which ops take part is said by their rows
(``autocast=True`` in the op table), so an op that is added joins by saying so.
"""

from __future__ import annotations

from contextlib import _GeneratorContextManager
from dataclasses import dataclass, replace
from typing import Any

from intermodal import dispatch, dtypes, places
from intermodal.autodiff import trees
from intermodal.autodiff.nodes import no_grad
from intermodal.dtypes import DTypeLike
from intermodal.errors import DTypeError, InvalidValueError
from intermodal.ops import elementwise as _e, reduction as _r
from intermodal.tensor import Tensor

__all__ = ["LossScale", "autocast"]

_LOWEST, _HIGHEST = 2.0**-24, 2.0**24  # beyond these a scale is no remedy any more


def autocast(dtype: DTypeLike | None) -> _GeneratorContextManager[None]:
    """A block, or a decorator of a function, in which matrices are multiplied in a 16-bit dtype.

    Rows that take part (`matmul`, `linear`, convolutions, `attention`, `einsum` and their kin) bring operands of float32,
    float16 and bfloat16 to the dtype, and their results have it. Every other op keeps the dtypes of its operands.
    Where an operand is float64 or complex, nothing is cast. Derivatives run in the dtypes of the ops they belong to, wherever
    backward is called; a parameter's gradient comes back in the parameter's dtype.

    The scope holds for this thread or task. Its first use in a process makes each ``x @ y`` from then on ask whether a scope
    is open, which takes about a tenth of a microsecond.

    Args:
        dtype: ``float16`` or ``bfloat16``; None switches an outer scope off.

    Example:
        >>> import intermodal as im
        >>> x = im.ones((2, 2))
        >>> with im.autocast(im.bfloat16):
        ...     product, sum = x @ x, x + x
        >>> product.dtype, sum.dtype
        (intermodal.bfloat16, intermodal.float32)
    """
    low = None if dtype is None else dtypes.as_dtype(dtype)
    if low not in (None, dtypes.float16, dtypes.bfloat16):
        raise DTypeError(f"autocast: {low} is no dtype to compute matrices in. Use float16, bfloat16, or None to switch it off.")
    places.guard("matmul", dispatch.low_dtype.get)
    return dispatch.casting(low)


@dataclass(frozen=True)
class LossScale:
    """A factor on the loss that finds its own size: it keeps gradients in float16's range, and is taken off them again.

    It is a value like the optimizer's state: `unscale` gives the next one. Gradients that are infinite or NaN mean that the
    factor was too large: the step is to be skipped, and the factor halves. After ``interval`` good steps it doubles.

    Args:
        value: the factor; a power of two, so that taking it off again is exact.
        interval: how many good steps in a row double it.
        good: how many there were since it last changed.

    Example:
        >>> import intermodal as im
        >>> scale = im.optim.LossScale(1024.0)
        >>> grads = im.grad(lambda w: scale.scale(im.sum(w * 3.0)))(im.ones(2))
        >>> grads, is_finite, scale = scale.unscale(grads)
        >>> grads, is_finite, scale.good
        (Tensor([3., 3.], dtype=float32, device=numpy:cpu), True, 1)
    """

    value: float = 2.0**15
    interval: int = 2000
    good: int = 0

    def __post_init__(self) -> None:
        if not _LOWEST <= self.value <= _HIGHEST:
            raise InvalidValueError(f"LossScale: the value {self.value} is not between {_LOWEST} and {_HIGHEST}.")
        if self.interval < 1:
            raise InvalidValueError(f"LossScale: an interval of {self.interval} steps is none. Give 1 or more.")

    def scale(self, loss: Tensor) -> Tensor:
        """The loss to differentiate."""
        return loss * self.value

    def unscale(self, grads: Any) -> tuple[Any, bool, LossScale]:
        """The true gradients, whether they may be used (skip the step if not), and the scale for the next step.

        The answer is asked from the device, so this waits for it.
        """
        with no_grad():
            plain = trees.map_leaves(lambda g: g * (1.0 / self.value) if g.dtype.is_inexact else g, grads)
            finite = [_r.all(_e.isfinite(g)) for g in trees.leaves(grads) if g.dtype.is_inexact]
        is_finite = all(bool(f) for f in finite)
        return plain, is_finite, self._after(is_finite)

    def _after(self, is_finite: bool) -> LossScale:
        if not is_finite:
            return replace(self, value=max(self.value / 2, _LOWEST), good=0)
        if self.good + 1 < self.interval:
            return replace(self, good=self.good + 1)
        return replace(self, value=min(self.value * 2, _HIGHEST), good=0)
