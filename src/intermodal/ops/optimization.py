"""Steps of optimizers: one op for one parameter, so that an engine goes over its memory as seldom as it can."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from intermodal import dtypes
from intermodal.errors import ShapeError
from intermodal.ops import rules
from intermodal.ops.rules import FLOAT
from intermodal.ops.table import Inferred, Spec, op, public_names

if TYPE_CHECKING:
    from intermodal.ops.table import Operand
    from intermodal.tensor import Tensor

_NUMBER: Final = dtypes.float32  # what a count is brought to before logarithms are taken


class AdamStep(NamedTuple):
    """The next value of a parameter, and the next running means of its gradient and of its square."""

    parameter: Tensor
    mean: Tensor
    mean_square: Tensor


def _infer_adam(
    parameter: Spec, gradient: Spec, mean: Spec, mean_square: Spec, step: object, rate: object, **attrs: float
) -> Inferred:
    dtype = rules.require(rules.operand_dtype(parameter, gradient, mean, mean_square), FLOAT)
    if not parameter.shape == gradient.shape == mean.shape == mean_square.shape:
        raise ShapeError(
            f"the parameter has shape {parameter.shape}, the others {gradient.shape}, {mean.shape}, {mean_square.shape}. All four must be equal."
        )
    for name, value in (("step", step), ("rate", rate)):
        if isinstance(value, Spec) and value.shape:
            raise ShapeError(f"{name} has shape {value.shape}. Give a number, or a tensor of one without axes.")
    return Inferred((Spec(parameter.shape, dtype),) * 3, attrs, (dtype,) * 4 + (None, None))


@op(infer=_infer_adam, namespace="nn", result=AdamStep)
def adam_step(
    parameter: Tensor,
    gradient: Tensor,
    mean: Tensor,
    mean_square: Tensor,
    /,
    *,
    step: Operand,
    rate: Operand = 1e-3,
    first: float = 0.9,
    second: float = 0.999,
    eps: float = 1e-8,
    decay: float = 0.0,
) -> AdamStep:
    """One step of Adam, the ``step``-th, counted from 1; ``decay`` shrinks the parameter itself by ``rate * decay`` (AdamW).

    Step and rate may be tensors, so that a compiled step need not be compiled anew for the next one.

    Example:
        >>> import intermodal as im
        >>> w, g, zero = im.asarray([1.0]), im.asarray([0.5]), im.zeros(1)
        >>> im.nn.adam_step(w, g, zero, zero, step=1, rate=0.25).parameter
        Tensor([0.75], dtype=float32, device=numpy:cpu)
    """
    mean = lerp(mean, gradient, 1.0 - first)
    mean_square = addcmul(mean_square * second, gradient, gradient, value=1.0 - second)
    size = sqrt(mean_square) * _like(1.0 / sqrt_of(correction(second, step)), parameter) + eps
    kept = parameter * _like(1.0 - rate * decay, parameter) if decay else parameter
    return AdamStep(kept - mean / size * _like(rate / correction(first, step), parameter), mean, mean_square)


def correction(beta: float, step: Any) -> Any:
    """By how much a running mean that began at 0 is too small: 1 - beta**step, to the last digit."""
    if isinstance(step, (int, float)):
        return 1.0 - beta**step
    return -expm1(astype(step, _NUMBER) * math.log(beta)) if beta else 1.0


def sqrt_of(value: Any) -> Any:
    """The root of a number, or of a tensor of one."""
    return math.sqrt(value) if isinstance(value, float) else sqrt(value)


def _like(value: Any, x: Tensor) -> Any:
    """A factor in the dtype of what it scales."""
    return value if isinstance(value, (int, float)) else astype(value, x.dtype)


from intermodal.ops.elementwise import addcmul, expm1, lerp, sqrt  # families use each other; bodies look names up when they run
from intermodal.ops.manipulation import astype

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
