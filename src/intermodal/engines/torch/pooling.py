"""PyTorch natives of pooling over one, two and three axes; over more, the decomposition serves."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch.nn import functional

from intermodal.engines.torch.natives import FLOATS, NATIVES, ONLY, WIDE
from intermodal.ops.pooling import pool_geometry
from intermodal.ops.table import Shape
from intermodal.ops.windows import Pairs

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
    for _name, _function in (("max_pool", _max_pool), ("avg_pool", _avg_pool), ("adaptive_avg_pool", _adaptive_avg_pool)):
        NATIVES[f"{_name}{_rank}d"], ONLY[f"{_name}{_rank}d"] = _function, FLOATS
ONLY["avg_pool3d"] = FLOATS & WIDE  # no kernel for the narrow ones
