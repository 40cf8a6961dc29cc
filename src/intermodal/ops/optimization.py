"""Steps of optimizers: one op for one parameter, so that an engine goes over its memory as seldom as it can."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from intermodal.errors import ShapeError
from intermodal.ops import rules
from intermodal.ops.rules import FLOAT
from intermodal.ops.table import Inferred, Spec, op, public_names

if TYPE_CHECKING:
    from intermodal.tensor import Tensor


class AdamStep(NamedTuple):
    """The next value of a parameter, and the next running means of its gradient and of its square."""

    parameter: Tensor
    mean: Tensor
    mean_square: Tensor


def _infer_adam(parameter: Spec, gradient: Spec, mean: Spec, mean_square: Spec, **attrs: float) -> Inferred:
    dtype = rules.require(rules.operand_dtype(parameter, gradient, mean, mean_square), FLOAT)
    if not parameter.shape == gradient.shape == mean.shape == mean_square.shape:
        raise ShapeError(
            f"the parameter has shape {parameter.shape}, the others {gradient.shape}, {mean.shape}, {mean_square.shape}. All four must be equal."
        )
    return Inferred((Spec(parameter.shape, dtype),) * 3, attrs, dtype)


@op(infer=_infer_adam, namespace="nn", result=AdamStep)
def adam_step(
    parameter: Tensor,
    gradient: Tensor,
    mean: Tensor,
    mean_square: Tensor,
    /,
    *,
    step: int,
    rate: float = 1e-3,
    first: float = 0.9,
    second: float = 0.999,
    eps: float = 1e-8,
    decay: float = 0.0,
) -> AdamStep:
    """One step of Adam, the ``step``-th, counted from 1; ``decay`` shrinks the parameter itself by ``rate * decay`` (AdamW).

    Example:
        >>> import intermodal as im
        >>> w, g, zero = im.asarray([1.0]), im.asarray([0.5]), im.zeros(1)
        >>> im.nn.adam_step(w, g, zero, zero, step=1, rate=0.25).parameter
        Tensor([0.75], dtype=float32, device=numpy:cpu)
    """
    mean = lerp(mean, gradient, 1.0 - first)
    mean_square = addcmul(mean_square * second, gradient, gradient, value=1.0 - second)
    size = sqrt(mean_square) * (1.0 / math.sqrt(1.0 - second**step)) + eps
    kept = parameter * (1.0 - rate * decay) if decay else parameter
    return AdamStep(kept - mean / size * (rate / (1.0 - first**step)), mean, mean_square)


from intermodal.ops.elementwise import addcmul, lerp, sqrt  # families use each other; bodies look names up when they run

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
