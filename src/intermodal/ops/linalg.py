"""Linear algebra: products, decompositions, solving, norms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intermodal.errors import ShapeError
from intermodal.ops import rules
from intermodal.ops.rules import NUMERIC
from intermodal.ops.table import Inferred, Spec, op, primitive, public_names

if TYPE_CHECKING:
    from intermodal.tensor import Tensor


def _infer_matmul(x1: Spec, x2: Spec) -> Inferred:
    if x1.ndim == 0 or x2.ndim == 0:
        raise ShapeError(f"cannot multiply {x1.shape} by {x2.shape}: a 0-d tensor is no matrix. Use im.multiply.")
    inner = x2.shape[-2] if x2.ndim > 1 else x2.shape[0]
    if x1.shape[-1] != inner:
        raise ShapeError(f"cannot multiply {x1.shape} by {x2.shape}: inner sizes {x1.shape[-1]} and {inner} differ.")
    dtype = rules.require(rules.operand_dtype(x1, x2), NUMERIC)
    batch = rules.broadcast(x1.shape[:-2], x2.shape[:-2])
    return Inferred((Spec(batch + x1.shape[-2:-1] * (x1.ndim > 1) + x2.shape[-1:] * (x2.ndim > 1), dtype),), {}, dtype)


@primitive(infer=_infer_matmul)
def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product; leading axes broadcast as stacks of matrices, a 1-d tensor is a vector."""


def _infer_matrix_transpose(x: Spec) -> Spec:
    if x.ndim < 2:
        raise ShapeError(f"a tensor of shape {x.shape} has no matrices. At least two axes are needed.")
    return Spec((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)


@op(infer=_infer_matrix_transpose, movement=True)
def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged."""
    return permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _infer_transpose(x: Spec) -> Spec:
    if x.ndim != 2:
        raise ShapeError(
            f".T is the transpose of a matrix, but the shape is {x.shape}. Use .mT for stacks of matrices, im.permute_dims for other orders."
        )
    return Spec(x.shape[::-1], x.dtype)


@op(infer=_infer_transpose, movement=True)
def transpose(x: Tensor, /) -> Tensor:
    """The transpose of a matrix."""
    return permute_dims(x, (1, 0))


from intermodal.ops.manipulation import permute_dims  # families use each other; bodies look names up when they run

__all__ = public_names(__name__)
