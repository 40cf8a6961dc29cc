"""PyTorch natives of pooling over one, two and three axes; over more, the decomposition serves."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch.nn import functional

from intermodal.engines.torch.natives import FLOATS, NATIVES, ONLY, WIDE, traced
from intermodal.ops.pooling import pool_geometry
from intermodal.ops.table import Shape
from intermodal.ops.windows import Geometry, Pairs

__all__: list[str] = []

_MAX: Final = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
_AVG: Final = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}
_PARTS: Final[dict[int, Any]] = {
    1: functional.adaptive_avg_pool1d,
    2: functional.adaptive_avg_pool2d,
    3: functional.adaptive_avg_pool3d,
}


def _sides(padding: Pairs) -> list[int]:
    """As `pad` takes them: the last axis first."""
    return [n for pair in reversed(padding) for n in pair]


def _is_plain(kernel: Shape, padding: Pairs) -> bool:
    """Whether PyTorch pads like this itself: the same at both ends, by half a window at most."""
    return all(before == after and 2 * before <= k for k, (before, after) in zip(kernel, padding, strict=True))


def _max_pool(x: Any, kernel_size: Shape, stride: Shape, padding: Pairs, dilation: Shape, ceil_mode: bool) -> Any:
    padding = pool_geometry(tuple(x.shape[2:]), kernel_size, stride, padding, dilation, ceil_mode).padding
    if not _is_plain(kernel_size, padding):
        x, padding = functional.pad(x, _sides(padding), value=-math.inf), ((0, 0),) * len(kernel_size)
    return _MAX[len(kernel_size)](x, kernel_size, stride, [before for before, _ in padding], dilation)


def _max_pool_with_indices(x: Any, kernel_size: Shape, stride: Shape, padding: Pairs, dilation: Shape, ceil_mode: bool) -> Any:
    attrs = (kernel_size, stride, padding, dilation, ceil_mode)
    values, indices = _indexed(x, *attrs)
    holes = values.isnan()
    if traced(x) or bool(holes.any()):  # of several NaN PyTorch finds the last
        indices = torch.where(holes, _indexed(x.isnan().to(x.dtype), *attrs)[1], indices)
    return values, indices


def _indexed(x: Any, kernel_size: Shape, stride: Shape, padding: Pairs, dilation: Shape, ceil_mode: bool) -> Any:
    pool, sizes = _MAX[len(kernel_size)], tuple(x.shape[2:])
    if _is_plain(kernel_size, padding):
        sides = [before for before, _ in padding]
        return pool(x, kernel_size, stride, sides, dilation, ceil_mode=ceil_mode, return_indices=True)
    geometry = pool_geometry(sizes, kernel_size, stride, padding, dilation, ceil_mode)
    values, found = pool(
        functional.pad(x, _sides(geometry.padding), value=-math.inf), kernel_size, stride, 0, dilation, return_indices=True
    )
    return values, _unpadded(found, sizes, geometry)


def _unpadded(found: Any, sizes: Shape, geometry: Geometry) -> Any:
    """Indices into the padded input as such into the input. Where all is -inf, the window's first real element stands for padding."""
    result, scale = torch.zeros_like(found), 1
    for i in reversed(range(len(sizes))):
        before, gap = geometry.padding[i][0], geometry.dilation[i]
        start = torch.arange(found.shape[2 + i], device=found.device) * geometry.stride[i] - before
        first = start + (-start.clamp(max=0) + gap - 1) // gap * gap
        padded = geometry.padded(sizes)[i]
        place = torch.maximum(found % padded - before, first.reshape(-1, *(1,) * (found.ndim - 3 - i)))
        result, found, scale = result + place * scale, found // padded, scale * sizes[i]
    return result


def _avg_pool(x: Any, kernel_size: Shape, stride: Shape, padding: Pairs, ceil_mode: bool, count_include_pad: bool) -> Any:
    whole = pool_geometry(tuple(x.shape[2:]), kernel_size, stride, padding, 1, ceil_mode).padding
    pool = _AVG[len(kernel_size)]
    if whole == padding and _is_plain(kernel_size, padding):
        return pool(x, kernel_size, stride, [before for before, _ in padding], count_include_pad=count_include_pad)
    # The share of each window that counts, as the mean of ones; a window's mean over that is the mean of what counts.
    counted = torch.ones(
        (1, 1, *x.shape[2:]), dtype=torch.float64 if x.dtype is torch.float64 else torch.float32, device=x.device
    )
    counted = functional.pad(counted, _sides(padding), value=float(count_include_pad))
    beyond = tuple((0, after - given) for (_, after), (_, given) in zip(whole, padding, strict=True))
    shares = pool(functional.pad(counted, _sides(beyond)), kernel_size, stride)
    return (pool(functional.pad(x, _sides(whole)).to(counted.dtype), kernel_size, stride) / shares).to(x.dtype)


def _adaptive_avg_pool(x: Any, output_size: Shape) -> Any:
    return _PARTS[len(output_size)](x, output_size)


for _rank in (1, 2, 3):
    for _name, _function in (
        (f"max_pool{_rank}d", _max_pool),
        (f"max_pool{_rank}d_with_indices", _max_pool_with_indices),
        (f"avg_pool{_rank}d", _avg_pool),
        (f"adaptive_avg_pool{_rank}d", _adaptive_avg_pool),
    ):
        NATIVES[_name], ONLY[_name] = _function, FLOATS
ONLY["avg_pool3d"] = FLOATS & WIDE  # no kernel for the narrow ones
