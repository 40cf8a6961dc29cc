"""Attention, and the tables that tokens index: embedding and one-hot vectors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

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


class AttentionGrad(NamedTuple):
    """Gradients of attention by its query, key and value."""

    query: Any
    key: Any
    value: Any


class _Shares(NamedTuple):
    """How much each query takes of each value, (*batch, heads, queries, keys), and the products as `softcap` held them."""

    shares: Tensor
    held: Tensor


def _shares(
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    scale: float,
    softcap: float | None,
    is_causal: bool,
    causal_alignment: str,
) -> _Shares:
    heads, kept = query.shape[-3], key.shape[-3]
    scores = matmul(_grouped(multiply(query, scale), kept), matrix_transpose(_one_group(key, heads)))
    scores = _ungrouped(scores, heads, kept)
    held = scores if softcap is None else multiply(tanh(divide(scores, softcap)), softcap)
    scores = held if bias is None else add(held, wide(bias))
    if mask is not None:
        scores = where(mask, scores, -math.inf)
    if is_causal:
        queries, keys = scores.shape[-2:]
        offset = keys - queries if causal_alignment == "bottom_right" else 0
        last = add(expand_dims(positions(queries, query.device, keys), axis=-1), offset)
        scores = where(less_equal(positions(keys, query.device), last), scores, -math.inf)
    return _Shares(softmax(scores, axis=-1), held)


def _grouped(x: Tensor, kept: int) -> Tensor:
    """(*batch, heads, …) as (*batch, kept heads, group, …), unless each kept head serves one query head."""
    group = x.shape[-3] // kept
    return x if group == 1 else reshape(x, (*x.shape[:-3], kept, group, *x.shape[-2:]))


def _one_group(x: Tensor, heads: int) -> Tensor:
    """Key or value beside queries that are in groups."""
    return x if x.shape[-3] == heads else expand_dims(x, axis=-3)


def _ungrouped(x: Tensor, heads: int, kept: int) -> Tensor:
    return x if heads == kept else reshape(x, (*x.shape[:-4], heads, *x.shape[-2:]))


def _over_groups(x: Tensor, kept: int) -> Tensor:
    """The queries of a group one after the other: a product that sums over them sums over the group too."""
    return reshape(x, (*x.shape[:-3], kept, x.shape[-3] // kept * x.shape[-2], x.shape[-1]))


def _attention_back(
    g: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    out: Tensor,
    scale: float,
    softcap: float | None,
    is_causal: bool,
    causal_alignment: str,
) -> tuple[Tensor, Tensor, Tensor, None, Tensor | None]:
    batch = out.shape[:-3]
    query, key, value = (broadcast_to(x, (*batch, *x.shape[-3:])) for x in (query, key, value))
    if bias is None:
        attrs: dict[str, Any] = {"softcap": softcap, "is_causal": is_causal, "causal_alignment": causal_alignment}
        found = attention_grad(query, key, value, out, g, mask=mask, scale=scale, **attrs)
        return found.query, found.key, found.value, None, None
    by_scores, (by_query, by_key, by_value) = _gradients(
        g, query, key, value, mask, bias, out, scale, softcap, is_causal, causal_alignment
    )
    return by_query, by_key, by_value, None, by_scores


def _gradients(
    g: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    out: Tensor,
    scale: float,
    softcap: float | None,
    is_causal: bool,
    causal_alignment: str,
) -> tuple[Tensor, AttentionGrad]:
    """By the scores, and by query, key and value; the shares are computed again, so that nothing of their size is kept."""
    heads, kept = query.shape[-3], key.shape[-3]
    q, k, v, g, out = (wide(x) for x in (query, key, value, g, out))
    shares, held = _shares(q, k, mask, bias, scale, softcap, is_causal, causal_alignment)
    by_shares = _ungrouped(matmul(_grouped(g, kept), matrix_transpose(_one_group(v, heads))), heads, kept)
    # The mean of these by the shares is the gradient along the result, which is shorter than a row of scores.
    by_scores = multiply(shares, subtract(by_shares, sum(multiply(g, out), axis=-1, keepdims=True)))
    slope = by_scores
    if softcap is not None:
        slope = multiply(by_scores, subtract(1.0, square(divide(held, softcap))))
    by_query = _ungrouped(matmul(_grouped(slope, kept), _one_group(k, heads)), heads, kept)
    by_key = matmul(matrix_transpose(_over_groups(slope, kept)), _over_groups(q, kept))
    by_value = matmul(matrix_transpose(_over_groups(shares, kept)), _over_groups(g, kept))
    return by_scores, AttentionGrad(multiply(by_query, scale), multiply(by_key, scale), by_value)


@op(infer=_infer_attention, autocast=True, namespace="nn", vjp=_attention_back)
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
    heads, kept = query.shape[-3], key.shape[-3]
    scale = 1 / math.sqrt(max(1, query.shape[-1])) if scale is None else scale
    shares, _ = _shares(wide(query), wide(key), mask, bias, scale, softcap, is_causal, causal_alignment)
    result = matmul(_grouped(shares, kept), _one_group(wide(value), heads))
    return narrow(_ungrouped(result, heads, kept), query.dtype)


def _infer_attention_grad(
    query: Spec, key: Spec, value: Spec, out: Spec, gradient: Spec, mask: Spec | None, **attrs: Any
) -> Inferred:
    found = _infer_attention(query, key, value, mask, None, **attrs)
    (result,) = found.outputs
    dtype = rules.require(rules.operand_dtype(query, key, value, out, gradient), FLOAT)
    batch = result.shape[:-3]
    for name, x, shape in (
        ("query", query, (*batch, *query.shape[-3:])),
        ("key", key, (*batch, *key.shape[-3:])),
        ("value", value, (*batch, *value.shape[-3:])),
        ("out", out, result.shape),
        ("gradient", gradient, result.shape),
    ):
        if x.shape != shape:
            raise ShapeError(f"the {name} has shape {x.shape}, but {shape} is needed. Broadcast it first.")
    outputs = tuple(Spec(x.shape, dtype) for x in (query, key, value))
    return Inferred(outputs, found.attrs, (dtype, dtype, dtype, dtype, dtype, None))


@op(infer=_infer_attention_grad, namespace="nn", result=AttentionGrad)
def attention_grad(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    gradient: Tensor,
    /,
    *,
    mask: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    is_causal: bool = False,
    causal_alignment: str = "bottom_right",
) -> AttentionGrad:
    """The derivatives of `attention` by query, key and value, from its operands and its result.

    Args:
        query: as of the attention; the batch axes of all are the same.
        key: as of the attention.
        value: as of the attention.
        out: the result of the attention.
        gradient: of the result.
        mask: as of the attention.
        scale: as of the attention.
        softcap: as of the attention.
        is_causal: as of the attention.
        causal_alignment: as of the attention.
    """
    scale = 1 / math.sqrt(max(1, query.shape[-1])) if scale is None else scale
    _, found = _gradients(gradient, query, key, value, mask, None, out, scale, softcap, is_causal, causal_alignment)
    return AttentionGrad(*(narrow(x, query.dtype) for x in found))


# --- tables ------------------------------------------------------------------------------------------------------


def _infer_embedding(weight: Spec, indices: Spec) -> Spec:
    rules.require(indices.dtype, INTEGER, of="indices")
    if weight.ndim != 2:
        raise ShapeError(f"the weight has shape {weight.shape}, but a table (entries, features) is needed.")
    return Spec((*indices.shape, weight.shape[1]), weight.dtype)


def _embedding_back(g: Tensor, weight_spec: Spec, indices: Tensor) -> Tensor:
    """Rows that were taken more than once add up, in float32 at least."""
    rows = wide(reshape(g, (math.prod(indices.shape), weight_spec.shape[1])))
    empty = full(weight_spec.shape, 0.0, dtype=rows.dtype, device=g.device)
    return scatter_slices(empty, reshape(indices, (rows.shape[0],)), rows, axis=0, mode="add")


@op(infer=_infer_embedding, namespace="nn", movement=True, vjp={"weight": _embedding_back})
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
from intermodal.ops.creation import full, positions
from intermodal.ops.elementwise import add, divide, less_equal, multiply, square, subtract, tanh, where
from intermodal.ops.linalg import matmul, matrix_transpose
from intermodal.ops.manipulation import broadcast_to, expand_dims, reshape
from intermodal.ops.reduction import sum
from intermodal.ops.searching import scatter, scatter_slices, take

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
