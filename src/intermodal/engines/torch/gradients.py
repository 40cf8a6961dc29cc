"""PyTorch natives of the rows that are derivatives: the kernels that PyTorch's own autograd runs."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch.nn import functional

from intermodal import dtypes
from intermodal.engines.torch.arrays import take_along_axis
from intermodal.engines.torch.natives import FLOATS, native, traced
from intermodal.engines.torch.nn import RowSizes, attention, attention_shares, sliding_window, softmax
from intermodal.ops.windows import Geometry

__all__: list[str] = []


@native(only=FLOATS)
def conv_weight_grad(x: Any, gradient: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    geometry = Geometry(kernel_size, stride, padding, dilation)
    empty = 0 in x.shape or 0 in gradient.shape
    counts = tuple(gradient.shape[2:])
    plain = all(before == after for before, after in padding) and geometry.counts(tuple(x.shape[2:])) == counts
    if not plain or empty or len(stride) > 3:
        x, geometry = _under(x, counts, geometry), geometry._replace(padding=((0, 0),) * len(stride))
    if empty or len(stride) > 3:
        return _weight_grad_by_windows(x, gradient, geometry, groups)
    weight = x.new_empty((gradient.shape[1], x.shape[1] // groups, *kernel_size))
    sides = [before for before, _ in geometry.padding]
    answers = (False, True, False)
    return torch.ops.aten.convolution_backward(
        gradient, x, weight, None, stride, sides, dilation, False, [0] * len(stride), groups, answers
    )[1]


def _under(x: Any, counts: tuple[int, ...], geometry: Geometry) -> Any:
    """The input padded, or cut off, to what so many windows lie on."""
    sides = []
    for n, count, step, span, (before, _) in zip(
        x.shape[2:], counts, geometry.stride, geometry.reach, geometry.padding, strict=True
    ):
        sides.append((before, (count - 1) * step + span - n - before))
    return functional.pad(x, [side for pair in reversed(sides) for side in pair])


def _weight_grad_by_windows(x: Any, gradient: Any, geometry: Geometry, groups: int) -> Any:
    """Over more than three axes, or of nothing: what PyTorch's kernels do not take."""
    rank, batch, out, channels = len(geometry.kernel), x.shape[0], gradient.shape[1], x.shape[1] // groups
    for i in range(rank):
        x = sliding_window(x, 2 + i, geometry.kernel[i], geometry.stride[i], geometry.dilation[i])
    places, depth = batch * math.prod(gradient.shape[2:]), channels * math.prod(geometry.kernel)
    parts = x.reshape(batch, groups, channels, *x.shape[2:])
    rows = parts.permute(1, 0, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank)).reshape(groups, places, depth)
    return torch.matmul(gradient.transpose(0, 1).reshape(groups, out // groups, places), rows).reshape(
        out, channels, *geometry.kernel
    )


@native(only=FLOATS)
def relu_grad(gradient: Any, out: Any) -> Any:
    return torch.ops.aten.threshold_backward(*torch.broadcast_tensors(gradient, out), 0)


@native(only=FLOATS - {dtypes.float64})  # whose lower tail PyTorch's kernel loses
def gelu_grad(gradient: Any, x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        x = x.clamp(-16.0, 16.0)  # beyond, the slope is 0 or 1, and the cube of a large x overflows in the kernel
    return torch.ops.aten.gelu_backward(*torch.broadcast_tensors(gradient, x), approximate=approximate)


# --- attention ---------------------------------------------------------------------------------------------------

_LONG: Final = (
    1 << 16
)  # scores of a head from which on PyTorch's kernel, which never holds them all, is faster than four products


@native(only=FLOATS)
def attention_grad(
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    gradient: Any,
    mask: Any,
    scale: float,
    softcap: float | None,
    is_causal: bool,
    causal_alignment: str,
) -> Any:
    queries, keys = query.shape[-2], key.shape[-2]
    behind = keys - queries if causal_alignment == "bottom_right" else 0
    causal = is_causal and behind == 0
    if softcap is None and mask is None and causal == is_causal:
        sizes = RowSizes.of(out, query, key, scale, causal)
        if sizes is not None:
            gradient = gradient if gradient.stride(-1) == 1 else gradient.contiguous()
            backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
            return backward(gradient, query, key, value, out, sizes, 0.0, causal, scale=scale)
    if softcap is None and queries * keys >= _LONG:
        found = _attention_by_autograd((query, key, value), gradient, mask, scale, is_causal, causal_alignment)
        # A query that sees no key may come back as NaN; without a mask each sees one.
        blind = mask is not None or (is_causal and behind < 0)
        if not blind or not (traced(query) or any(bool(a.isnan().any()) for a in found)):
            return found
    if is_causal:
        seen = torch.ones((queries, keys), dtype=torch.bool, device=query.device).tril(behind)
        mask = seen if mask is None else mask & seen
    kept, group = key.shape[-3], query.shape[-3] // key.shape[-3]
    wide = torch.float64 if query.dtype is torch.float64 else torch.float32
    q, k, v, g, result = (
        a.to(wide) for a in (query, key.repeat_interleave(group, -3), value.repeat_interleave(group, -3), gradient, out)
    )
    shares, held = attention_shares(q, k, mask, None, scale, softcap)
    slope = torch.matmul(g, v.mT).sub_((g * result).sum(-1, keepdim=True)).mul_(shares)
    if softcap is not None:
        slope *= 1 - (held / softcap).square_()
    by_key, by_value = torch.matmul(slope.mT, q).mul_(scale), torch.matmul(shares.mT, g)
    if group > 1:
        by_key, by_value = (a.unflatten(-3, (kept, group)).sum(-3) for a in (by_key, by_value))
    return tuple(a.to(query.dtype) for a in (torch.matmul(slope, k).mul_(scale), by_key, by_value))


def _attention_by_autograd(
    operands: tuple[Any, ...], gradient: Any, mask: Any, scale: float, is_causal: bool, causal_alignment: str
) -> Any:
    with torch.inference_mode(False), torch.enable_grad():
        leaves = [(a.clone() if a.is_inference() else a.detach()).requires_grad_() for a in operands]
        query, key, value = leaves
        result = attention(query, key, value, mask, None, scale, None, is_causal, causal_alignment)
        return torch.autograd.grad(result, leaves, gradient.clone() if gradient.is_inference() else gradient)


# --- losses ------------------------------------------------------------------------------------------------------


@native(only=FLOATS)
def cross_entropy_grad(x: Any, target: Any, factor: Any, axis: int) -> Any:
    result = softmax(x.to(torch.float32) if x.itemsize < 4 else x, axis)
    places = target.to(torch.int64).unsqueeze(axis)
    true = take_along_axis(result, places, axis)  # which refuses a class that there is not
    result.scatter_(axis, torch.where(places < 0, places + x.shape[axis], places), true - 1)
    return result.mul_(factor.unsqueeze(axis)).to(x.dtype)
