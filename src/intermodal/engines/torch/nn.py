"""PyTorch natives of neural network ops: the fused kernels of `torch.nn.functional`, for floats."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple
from weakref import ref

import torch
from torch.nn import functional

from intermodal.engines.torch.natives import FLOATS, NATIVES, ONLY, native, traced
from intermodal.ops.windows import places, reach

__all__: list[str] = []

# --- activation --------------------------------------------------------------------------------------------------

_SAME: Final = {
    "relu": torch.relu,
    "selu": torch.selu,
    "sigmoid": torch.sigmoid,
    "log_sigmoid": functional.logsigmoid,
    "silu": functional.silu,
}
for _name, _function in _SAME.items():
    NATIVES[_name], ONLY[_name] = _function, FLOATS


@native(only=FLOATS)
def leaky_relu(x: Any, negative_slope: float) -> Any:
    return functional.leaky_relu(x, negative_slope)


@native(only=FLOATS)
def elu(x: Any, alpha: float) -> Any:
    return functional.elu(x, alpha)


@native(only=FLOATS)
def gelu(x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return functional.gelu(x, approximate="tanh")
    # PyTorch's own adds 1 to erf, which leaves nothing of the lower tail; in a narrow dtype the tail's argument would round.
    wide = x.to(torch.float32) if x.itemsize < 4 else x
    if traced(x) or wide.numel() <= _BLOCK or not wide.is_contiguous():
        return _gelu(wide, torch.empty_like(wide)).to(x.dtype)
    result = torch.empty_like(wide)
    for part, out in zip(wide.view(-1).split(_BLOCK), result.view(-1).split(_BLOCK), strict=True):
        _gelu(part, out)
    return result.to(x.dtype)


_BLOCK: Final = 1 << 17  # elements that stay in a core's cache from one pass to the next


def _gelu(x: Any, out: Any) -> Any:
    return torch.mul(x, -math.sqrt(0.5), out=out).erfc_().mul_(0.5).mul_(x)  # the half first: twice the largest float is infinite


@native(only=FLOATS)
def softplus(x: Any, beta: float) -> Any:
    # Beyond the threshold PyTorch takes x itself; there what is left out is below the dtype's precision.
    return functional.softplus(x, beta, 40 if x.dtype is torch.float64 else 20)


@native(only=FLOATS)
def softmax(x: Any, axis: int) -> Any:
    return _without_dead(torch.softmax(x, axis), x, axis, 0.0)


@native(only=FLOATS)
def log_softmax(x: Any, axis: int) -> Any:
    return _without_dead(torch.log_softmax(x, axis), x, axis, -math.inf)


def _without_dead(result: Any, x: Any, axis: int, value: float) -> Any:
    """A line of nothing but -inf, for which PyTorch has NaN, gets a value. On the host one look at its first element saves the work."""
    if x.numel() == 0 or (x.is_cpu and not traced(x) and not bool(result.select(axis, 0).isnan().any())):
        return result
    return torch.where(torch.amax(x, axis, keepdim=True) == -math.inf, value, result)


# --- windows and convolution -------------------------------------------------------------------------------------


@native
def sliding_window(x: Any, axis: int, size: int, step: int, dilation: int) -> Any:
    count = (x.shape[axis] - reach(size, dilation)) // step + 1
    by = x.stride(axis)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :], size)
    strides = (*x.stride()[:axis], by * step, *x.stride()[axis + 1 :], by * dilation)
    return x.as_strided(shape, strides, x.storage_offset())


@native(only=FLOATS)
def overlap_add(x: Any, axis: int, length: int, step: int, dilation: int) -> Any:
    result = x.new_zeros((*x.shape[:axis], length, *x.shape[axis + 1 : -1]))
    for k in range(x.shape[-1]):
        result[places(axis, k * dilation, step, x.shape[axis])] += x[..., k]
    return result


_CONV: Final = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED: Final = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}


@native(only=FLOATS)
def conv(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    if len(stride) > 3 or 0 in x.shape or 0 in weight.shape:
        return _conv_by_windows(x, weight, bias, stride, padding, dilation, groups)
    if any(before != after for before, after in padding):
        x, padding = _padded(x, padding), ((0, 0),) * len(stride)
    return _CONV[len(stride)](x, weight, bias, stride, [before for before, _ in padding], dilation, groups)


def _padded(x: Any, padding: Any) -> Any:
    return functional.pad(x, [n for pair in reversed(padding) for n in pair])


def _conv_by_windows(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """Over more than three axes, or of nothing: what PyTorch's kernels do not take."""
    rank, batch, out = x.ndim - 2, x.shape[0], weight.shape[0]
    found = _padded(x, padding)
    for i in range(rank):
        found = sliding_window(found, 2 + i, weight.shape[2 + i], stride[i], dilation[i])
    counts = tuple(found.shape[2 : 2 + rank])
    found = found.permute(0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    depth = math.prod(weight.shape[1:])
    columns = found.reshape(batch, groups, depth, math.prod(counts))
    result = torch.matmul(weight.reshape(groups, out // groups, depth), columns).reshape(batch, out, *counts)
    return result if bias is None else result + bias.reshape(-1, *(1,) * rank)


for _rank in (1, 2, 3):
    NATIVES[f"conv{_rank}d"], ONLY[f"conv{_rank}d"] = conv, FLOATS


def _conv_transpose(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, dilation: Any, groups: int
) -> Any:
    rank = len(stride)
    if 0 in x.shape or 0 in weight.shape:  # which PyTorch's kernels do not take: nothing but bias
        lengths = [
            (x.shape[2 + i] - 1) * stride[i] + reach(weight.shape[2 + i], dilation[i]) - sum(padding[i]) + output_padding[i]
            for i in range(rank)
        ]
        shape = (x.shape[0], weight.shape[1] * groups, *lengths)
        return x.new_zeros(shape) if bias is None else bias.reshape(-1, *(1,) * rank).expand(shape).clone()
    if all(before == after for before, after in padding):
        taken = [before for before, _ in padding]
        return _TRANSPOSED[rank](x, weight, bias, stride, taken, output_padding, groups, dilation)
    whole = _TRANSPOSED[rank](x, weight, None, stride, 0, 0, groups, dilation)
    # Cut off in front and behind; output padding reaches past the last kernel, where the output is nothing but bias.
    sizes = zip(padding, output_padding, strict=True)
    result = functional.pad(whole, [n for (before, after), more in reversed(list(sizes)) for n in (-before, more - after)])
    return result if bias is None else result + bias.reshape(-1, *(1,) * rank)


for _rank in (1, 2, 3):
    NATIVES[f"conv_transpose{_rank}d"], ONLY[f"conv_transpose{_rank}d"] = _conv_transpose, FLOATS


@native(only=FLOATS)
def linear(x: Any, weight: Any, bias: Any) -> Any:
    return functional.linear(x, weight, bias)


# --- attention ---------------------------------------------------------------------------------------------------


@native(only=FLOATS)
def attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    bias: Any,
    scale: float,
    softcap: float | None,
    is_causal: bool,
    causal_alignment: str,
) -> Any:
    queries, keys = query.shape[-2], key.shape[-2]
    behind = keys - queries if causal_alignment == "bottom_right" else 0
    plain = mask is None and bias is None and behind == 0  # the kernel's own causal mask starts at the first key
    if is_causal:
        seen = torch.ones((queries, keys), dtype=torch.bool, device=query.device).tril(behind)
        mask = seen if mask is None else mask & seen
    if softcap is not None or (mask is not None and traced(query)):
        return _attention_in_steps(query, key, value, mask, bias, scale, softcap)
    added = mask if bias is None else bias if mask is None else torch.where(mask, bias, -math.inf)
    batch = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])
    q, k, v = (a.expand(*batch, *a.shape[-3:]) for a in (query, key, value))
    causal = is_causal and plain
    sizes: Any = None
    if (causal or added is None) and _has_cpu_kernel(q, k, v):
        result, sizes = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, scale=scale)
    else:
        result = functional.scaled_dot_product_attention(
            q, k, v, None if causal else added, 0.0, causal, scale=scale, enable_gqa=q.shape[-3] != k.shape[-3]
        )
    # The kernel adds -inf where a mask hides a key, and a hidden NaN or infinity then comes through. A sum finds a NaN without
    # an array of answers; that infinities of both signs make one too costs time alone.
    if mask is not None and bool(result.sum().isnan()):
        return _attention_in_steps(query, key, value, mask, bias, scale, None)
    if sizes is not None:
        result.intermodal_sizes = RowSizes(sizes, ref(query), ref(key), scale, causal)
    return result


class RowSizes(NamedTuple):
    """What PyTorch's kernel for CPUs hands to its derivative: the logarithm of each row's sum, and of which attention it is.

    It lies with the result, as an attribute, and holds neither query nor key.
    """

    sizes: Any
    query: ref[Any]
    key: ref[Any]
    scale: float
    causal: bool

    @classmethod
    def of(cls, out: Any, query: Any, key: Any, scale: float, causal: bool) -> Any:
        """The sums of a result, if it came from these operands; None where that is not known."""
        found = getattr(out, "intermodal_sizes", None)
        if found is None or (found.scale, found.causal) != (scale, causal):
            return None
        return found.sizes if _same_memory(found.query(), query) and _same_memory(found.key(), key) else None


def _same_memory(x: Any, y: Any) -> bool:
    return x is not None and (x.data_ptr(), x.shape, x.stride()) == (y.data_ptr(), y.shape, y.stride())


def _has_cpu_kernel(q: Any, k: Any, v: Any) -> bool:
    """Whether PyTorch's attention would choose its kernel for CPUs, which is then called by its own name, for all it returns."""
    return bool(
        q.is_cpu
        and q.ndim == 4
        and q.dtype in (torch.float32, torch.float64)
        and q.shape[:2] == k.shape[:2] == v.shape[:2]
        and q.shape[-1] == v.shape[-1]
        and q.numel()
        and k.numel()
        and q.stride(-1) == k.stride(-1) == v.stride(-1) == 1
    )


def _attention_in_steps(query: Any, key: Any, value: Any, mask: Any, bias: Any, scale: float, softcap: float | None) -> Any:
    """What the kernel does not have: scores held within bounds, and those replaced that a mask hides."""
    group = query.shape[-3] // key.shape[-3]
    wide = torch.float64 if query.dtype is torch.float64 else torch.float32
    q, k, v = (a.to(wide) for a in (query, key.repeat_interleave(group, -3), value.repeat_interleave(group, -3)))
    return torch.matmul(attention_shares(q, k, mask, bias, scale, softcap)[0], v).to(query.dtype)


def attention_shares(q: Any, k: Any, mask: Any, bias: Any, scale: float, softcap: float | None) -> tuple[Any, Any]:
    """How much each query takes of each value, and the products as the cap held them."""
    held = torch.matmul(q * scale, k.mT)
    if softcap is not None:
        held = torch.tanh(held / softcap) * softcap
    scores = held if bias is None else held + bias
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf)
    return softmax(scores, scores.ndim - 1), held
