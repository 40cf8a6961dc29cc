"""Attention, and the tables that tokens index: embedding and one-hot vectors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from intermodal import dtypes
from intermodal.dtypes import DTypeLike
from intermodal.errors import InvalidValueError, ShapeError
from intermodal.ops import rules
from intermodal.ops.derivatives import CONSTANT
from intermodal.ops.precision import narrow, wide
from intermodal.ops.rules import BOOL, FLOAT, INTEGER
from intermodal.ops.table import Inferred, Shape, Spec, op, public_names
from intermodal.ops.windows import at_least

if TYPE_CHECKING:
    from intermodal.tensor import Tensor

# --- attention ---------------------------------------------------------------------------------------------------


def _scores_shape(query: Spec, key: Spec, value: Spec) -> Shape:
    """(*batch, heads, queries, keys), after all sizes have been checked."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim < 3:
            raise ShapeError(
                f"the {name} has shape {x.shape}, but (*batch, heads, sequence, features) is needed. Add missing axes."
            )
    heads, kept = query.shape[-3], key.shape[-3]
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(
            f"the query has {query.shape[-1]} features and the key {key.shape[-1]}, but both are multiplied. Their last sizes must be equal."
        )
    if key.shape[-2] != value.shape[-2] or kept != value.shape[-3]:
        raise ShapeError(
            f"the key has shape {key.shape} and the value {value.shape}. Both need the same heads and the same sequence length."
        )
    if kept == 0 or heads % kept:
        raise ShapeError(f"the query has {heads} heads and the key {kept}. The first must be a multiple of the second.")
    batch = rules.broadcast(query.shape[:-3], key.shape[:-3], value.shape[:-3])
    return (*batch, heads, query.shape[-2], key.shape[-2])


def _infer_attention(
    query: Spec,
    key: Spec,
    value: Spec,
    mask: Spec | None,
    bias: Spec | None,
    *,
    scale: float | None,
    softcap: float | None,
    is_causal: bool,
    causal_alignment: str,
) -> Inferred:
    dtype = rules.require(rules.operand_dtype(query, key, value, bias), FLOAT)
    scores = _scores_shape(query, key, value)
    if mask is not None:
        rules.require(mask.dtype, BOOL, of="the mask")
    for name, x in (("mask", mask), ("bias", bias)):
        if x is not None and (x.ndim > len(scores) or rules.broadcast(x.shape, scores) != scores):
            raise ShapeError(f"the {name} has shape {x.shape}, which does not broadcast to the scores' shape {scores}.")
    if softcap is not None and not softcap > 0:
        raise InvalidValueError(f"softcap {softcap} must be greater than 0, or None.")
    attrs = {
        "scale": 1 / math.sqrt(max(1, query.shape[-1])) if scale is None else float(scale),
        "softcap": None if softcap is None else float(softcap),
        "is_causal": bool(is_causal),
        "causal_alignment": rules.one_of(causal_alignment, "causal_alignment", ("bottom_right", "top_left")),
    }
    return Inferred((Spec((*scores[:-1], value.shape[-1]), dtype),), attrs, (dtype, dtype, dtype, None, dtype))


@op(infer=_infer_attention, autocast=True, namespace="nn")
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    /,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    is_causal: bool = False,
    causal_alignment: str = "bottom_right",
) -> Tensor:
    """Scaled dot-product attention, softmax(scale * query @ key.mT + bias) @ value.

    Each is (*batch, heads, sequence, features). The query may have more heads than key and value: each of theirs then
    serves as many neighbouring query heads (grouped queries). A query that sees no key gives zeros.

    Args:
        query: what is asked, (*batch, heads, queries, features).
        key: what it is compared with, (*batch, kept heads, keys, features).
        value: what is averaged, (*batch, kept heads, keys, value features).
        mask: True where a query sees a key; broadcasts to (*batch, heads, queries, keys).
        bias: added to the scores; broadcasts like the mask.
        scale: what the products are multiplied by, 1 / sqrt(features) by default.
        softcap: holds the scaled products between -softcap and softcap by softcap * tanh(score / softcap).
        is_causal: a query sees no later key.
        causal_alignment: with another number of keys than queries, ``bottom_right`` lets the last query see all keys, as in
            decoding with a cache; ``top_left`` lets the first query see the first key alone.

    Example:
        >>> import intermodal as im
        >>> x = im.zeros((1, 2, 4))
        >>> im.nn.attention(x, x, im.asarray([[[1.0], [3.0]]]), is_causal=True)
        Tensor([[[1.],
                 [2.]]], dtype=float32, device=numpy:cpu)
    """
    heads, kept, features = query.shape[-3], key.shape[-3], query.shape[-1]
    group = heads // kept
    q, k, v = wide(query), wide(key), wide(value)
    q = multiply(q, 1 / math.sqrt(max(1, features)) if scale is None else scale)
    if group > 1:
        q = reshape(q, (*q.shape[:-3], kept, group, *q.shape[-2:]))
        k, v = expand_dims(k, axis=-3), expand_dims(v, axis=-3)
    scores = matmul(q, matrix_transpose(k))
    grouped = scores.shape
    if group > 1:
        scores = reshape(scores, (*grouped[:-4], heads, *grouped[-2:]))
    if softcap is not None:
        scores = multiply(tanh(divide(scores, softcap)), softcap)
    if bias is not None:
        scores = add(scores, wide(bias))
    if mask is not None:
        scores = where(mask, scores, -math.inf)
    if is_causal:
        queries, keys = scores.shape[-2:]
        offset = keys - queries if causal_alignment == "bottom_right" else 0
        last = add(expand_dims(arange(queries, device=query.device), axis=-1), offset)
        scores = where(less_equal(arange(keys, device=query.device), last), scores, -math.inf)
    shares = softmax(scores, axis=-1)
    if group > 1:
        shares = reshape(shares, (*shares.shape[:-3], kept, group, *shares.shape[-2:]))
    result = matmul(shares, v)
    return narrow(reshape(result, (*result.shape[:-4], heads, *result.shape[-2:])) if group > 1 else result, query.dtype)


# --- tables ------------------------------------------------------------------------------------------------------


def _infer_embedding(weight: Spec, indices: Spec) -> Spec:
    rules.require(indices.dtype, INTEGER, of="indices")
    if weight.ndim != 2:
        raise ShapeError(f"the weight has shape {weight.shape}, but a table (entries, features) is needed.")
    return Spec((*indices.shape, weight.shape[1]), weight.dtype)


@op(infer=_infer_embedding, namespace="nn", movement=True)
def embedding(weight: Tensor, indices: Tensor, /) -> Tensor:
    """The rows of a table (entries, features) at the indices; an index outside raises.

    Example:
        >>> import intermodal as im
        >>> im.nn.embedding(im.asarray([[1.0, 2.0], [3.0, 4.0]]), im.asarray([1, 1, 0]))
        Tensor([[3., 4.],
                [3., 4.],
                [1., 2.]], dtype=float32, device=numpy:cpu)
    """
    return take(weight, indices, axis=0)


def _infer_one_hot(indices: Spec, *, num_classes: int, axis: int, dtype: DTypeLike | None) -> Inferred:
    rules.require(indices.dtype, INTEGER, of="indices")
    count, along = at_least(0, num_classes, "num_classes"), rules.axis(axis, indices.ndim + 1)
    chosen = indices.dtype if dtype is None else dtypes.as_dtype(dtype)
    shape = (*indices.shape[:along], count, *indices.shape[along:])
    return Inferred((Spec(shape, chosen),), {"num_classes": count, "axis": along, "dtype": chosen})


@op(infer=_infer_one_hot, namespace="nn", vjp=CONSTANT)
def one_hot(indices: Tensor, /, num_classes: int, *, axis: int = -1, dtype: DTypeLike | None = None) -> Tensor:
    """Vectors along a new axis that are 1 at the index and 0 elsewhere; an index outside raises.

    Args:
        indices: integers below ``num_classes``; a negative one counts from the end.
        num_classes: the length of the vectors.
        axis: where the new axis goes.
        dtype: of the result; the indices' own by default.

    Example:
        >>> import intermodal as im
        >>> im.nn.one_hot(im.asarray([0, 2]), 3)
        Tensor([[1, 0, 0],
                [0, 0, 1]], dtype=int64, device=numpy:cpu)
    """
    along = rules.axis(axis, indices.ndim + 1)
    chosen = indices.dtype if dtype is None else dtypes.as_dtype(dtype)
    shape = (*indices.shape[:along], num_classes, *indices.shape[along:])
    empty = full(shape, rules.as_scalar(0, chosen), dtype=chosen, device=indices.device)
    return scatter(empty, expand_dims(indices, axis=along), rules.as_scalar(1, chosen), axis=along)


from intermodal.ops.activation import softmax  # families use each other; bodies look names up when they run
from intermodal.ops.creation import arange, full
from intermodal.ops.elementwise import add, divide, less_equal, multiply, tanh, where
from intermodal.ops.linalg import matmul, matrix_transpose
from intermodal.ops.manipulation import expand_dims, reshape
from intermodal.ops.searching import scatter, take

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
