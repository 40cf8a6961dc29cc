"""What rows' derivatives share. A derivative is written in the row, as functions of the result's gradient (`vjp`).

The gradient of a real number by a complex tensor is the one along which the number grows, ∂/∂a + i ∂/∂b for
x = a + i b; so a holomorphic function's rule multiplies by the conjugate of its derivative. What was broadcast is
summed, and what was promoted is cast back, by the tape: a rule gives the gradient in whatever shape it arises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from intermodal.ops.table import TABLE, NotDifferentiable, Operand, Spec

if TYPE_CHECKING:
    from intermodal.tensor import Tensor

__all__ = ["CONSTANT", "DISCRETE", "conj_of", "spread"]

DISCRETE = NotDifferentiable("its result is not a floating-point number.")
CONSTANT = NotDifferentiable("its result does not depend on the values of a tensor.")


def conj_of(x: Operand) -> Operand:
    """The conjugate of a complex operand; what is real is its own, and costs nothing."""
    if isinstance(x, complex):
        return x.conjugate()
    complex_tensor = not isinstance(x, (bool, int, float)) and x.dtype.is_complex
    return TABLE["conj"].function(x) if complex_tensor else x


def spread(g: Tensor, x_spec: Spec, axis: tuple[int, ...] | None, keepdims: bool) -> Tensor:
    """What was reduced over axes, back in the shape from before: the derivative of a sum."""
    if not keepdims and 0 != g.ndim != x_spec.ndim:  # a single number goes to every shape as it is
        g = g.reshape(tuple(1 if axis is None or i in axis else n for i, n in enumerate(x_spec.shape)))
    wide: Tensor = TABLE["broadcast_to"].function(g, x_spec.shape)
    return wide
