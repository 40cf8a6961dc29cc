"""ONNX's operators on shapes, parts and places as ops of the table. What they need as numbers must be known as the model is read."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from intermodal.dtypes import int64
from intermodal.errors import GraphError
from intermodal.graph.importing.model import array_of
from intermodal.graph.importing.node import Node, f, operator
from intermodal.tensor import Tensor

__all__: list[str] = []

_EVERYTHING: Final = slice(None)
_MODES: Final = {"none": "assign", "add": "add", "mul": "multiply", "min": "minimum", "max": "maximum"}


def _required(n: Node, i: int) -> list[int]:
    found = n.numbers(i)
    if found is None:
        raise GraphError(f"operand {i} is missing.")
    return found


# --- shapes ------------------------------------------------------------------------------------------------------


@operator("Shape")
def shape(n: Node) -> Any:
    sizes = n[0].shape[slice(n.get("start"), n.get("end"))]
    # Written as ops, so that a size with a name stays one.
    parts = [f("full")((1,), size, dtype=int64, device=n[0].device) for size in sizes]
    return f("concat")(parts) if parts else f("zeros")((0,), dtype=int64, device=n[0].device)


@operator("Size")
def size(n: Node) -> Any:
    return f("full")((), math.prod(n[0].shape), dtype=int64, device=n[0].device)


@operator("Reshape")
def reshape(n: Node) -> Any:
    sizes = _required(n, 1)
    if not n.get("allowzero", 0):
        sizes = [n[0].shape[i] if size == 0 and i < n[0].ndim else size for i, size in enumerate(sizes)]
    return f("reshape")(n[0], tuple(sizes))


@operator("Flatten")
def flatten(n: Node) -> Any:
    axis = n.axis(1)
    return f("reshape")(n[0], (math.prod(n[0].shape[:axis]), math.prod(n[0].shape[axis:])))


@operator("Squeeze")
def squeeze(n: Node) -> Any:
    axes = n.numbers(1, "axes")
    if axes is None:
        axes = [i for i, size in enumerate(n[0].shape) if size == 1]
    return f("squeeze")(n[0], tuple(axes))


@operator("Unsqueeze")
def unsqueeze(n: Node) -> Any:
    axes = n.numbers(1, "axes") or []
    return f("expand_dims")(n[0], tuple(axes))


@operator("Transpose")
def transpose(n: Node) -> Any:
    return f("permute_dims")(n[0], tuple(n.get("perm") or range(n[0].ndim)[::-1]))


@operator("Expand")
def expand(n: Node) -> Any:
    return f("broadcast_to")(n[0], np.broadcast_shapes(n[0].shape, tuple(_required(n, 1))))


@operator("Tile")
def tile(n: Node) -> Any:
    return f("tile")(n[0], tuple(_required(n, 1)))


@operator("Concat")
def concat(n: Node) -> Any:
    return f("concat")([n[i] for i in range(len(n.inputs))], axis=n.axis())


@operator("Split")
def split(n: Node) -> Any:
    axis, sizes = n.axis(0), n.numbers(1, "split")
    if n.get("num_outputs", n.outputs) != n.outputs:
        raise GraphError(f"num_outputs is {n.get('num_outputs')}, and it has {n.outputs} results.")
    if sizes is None:
        parts = n.outputs
        each = -(-n[0].shape[axis] // parts)
        sizes = [each] * (parts - 1) + [n[0].shape[axis] - each * (parts - 1)]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [n[0][(*(_EVERYTHING,) * axis, slice(a, a + k))] for a, k in zip(starts, sizes, strict=True)]


@operator("Slice")
def slice_(n: Node) -> Any:
    starts, ends = _required(n, 1), _required(n, 2)
    axes, steps = n.numbers(3) or list(range(len(starts))), n.numbers(4) or [1] * len(starts)
    key = [_EVERYTHING] * n[0].ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        length = n[0].shape[axis]
        low, high, by = slice(start, end, step).indices(length)
        # Up to the end is written without a number, so that it holds for every size.
        key[axis] = slice(low, None if by > 0 and high == length else high if high >= 0 else None, by)
    return n[0][tuple(key)]


@operator("Pad")
def pad(n: Node) -> Any:
    given, mode, ndim = _required(n, 1), n.get("mode", "constant"), n[0].ndim
    axes = [a + ndim if a < 0 else a for a in n.numbers(3) or range(ndim)]
    value = n.known(2)
    pairs, key = [(0, 0)] * ndim, [_EVERYTHING] * ndim
    for i, axis in enumerate(axes):
        before, after = given[i], given[i + len(axes)]
        pairs[axis] = max(before, 0), max(after, 0)
        key[axis] = slice(max(-before, 0), n[0].shape[axis] - max(-after, 0))  # a negative number cuts off
    x = n[0][tuple(key)] if any(k < 0 for k in given) else n[0]
    fill = 0 if value is None else value.reshape(-1)[0].item()
    return f("pad")(x, tuple(pairs), mode=mode, value=fill if not x.dtype.is_bool else bool(fill))


@operator("DepthToSpace")
def depth_to_space(n: Node) -> Any:
    (b, c, h, w), k = n[0].shape, n.get("blocksize")
    if n.get("mode", "DCR") == "DCR":
        x = f("permute_dims")(f("reshape")(n[0], (b, k, k, c // k**2, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        x = f("permute_dims")(f("reshape")(n[0], (b, c // k**2, k, k, h, w)), (0, 1, 4, 2, 5, 3))
    return f("reshape")(x, (b, c // k**2, h * k, w * k))


@operator("SpaceToDepth")
def space_to_depth(n: Node) -> Any:
    (b, c, h, w), k = n[0].shape, n.get("blocksize")
    x = f("permute_dims")(f("reshape")(n[0], (b, c, h // k, k, w // k, k)), (0, 3, 5, 1, 2, 4))
    return f("reshape")(x, (b, c * k**2, h // k, w // k))


# --- creation ----------------------------------------------------------------------------------------------------


@operator("ConstantOfShape")
def constant_of_shape(n: Node) -> Any:
    given = n.get("value")
    value = np.zeros(1, np.float32) if given is None else array_of(given)
    return f("full")(tuple(_required(n, 0)), value.reshape(-1)[0].item(), dtype=value.dtype, device=n[0].device)


@operator("Range")
def range_(n: Node) -> Any:
    ends = [n.known(i) for i in range(3)]
    start, stop, step = (0 if v is None else v.reshape(-1)[0].item() for v in ends)
    return f("arange")(start, stop, step, dtype=n[0].dtype, device=n[0].device)


@operator("Trilu")
def trilu(n: Node) -> Any:
    return f("triu" if n.get("upper", 1) else "tril")(n[0], k=(n.numbers(1) or [0])[0])


@operator("OneHot")
def one_hot(n: Node) -> Any:
    depth, values = _required(n, 1)[0], n[2]
    axis = n.axis(-1, n[0].ndim + 1)
    indices = f("astype")(n[0], int64)
    wrapped = f("expand_dims")(f("where")(indices < 0, indices + depth, indices), (axis,))
    places = f("arange")(depth, dtype=int64, device=n[0].device)
    places = f("reshape")(places, tuple(depth if i == axis else 1 for i in range(n[0].ndim + 1)))
    return f("where")(f("equal")(wrapped, places), values[1], values[0])


# --- places ------------------------------------------------------------------------------------------------------


@operator("Gather")
def gather(n: Node) -> Any:
    axis, indices = n.axis(0), n[1]
    flat = f("take")(n[0], f("reshape")(indices, (-1,)) if indices.ndim != 1 else indices, axis=axis)
    if indices.ndim == 1:
        return flat
    return f("reshape")(flat, (*n[0].shape[:axis], *indices.shape, *n[0].shape[axis + 1 :]))


def _cut(x: Tensor, like: Tensor, axis: int) -> Tensor:
    """As large as another tensor along every axis but one."""
    if all(a == b for i, (a, b) in enumerate(zip(x.shape, like.shape, strict=True)) if i != axis):
        return x
    return x[tuple(_EVERYTHING if i == axis else slice(0, k) for i, k in enumerate(like.shape))]


@operator("GatherElements")
def gather_elements(n: Node) -> Any:
    axis = n.axis(0)
    return f("take_along_axis")(_cut(n[0], n[1], axis), n[1], axis=axis)


@operator("ScatterElements")
def scatter_elements(n: Node) -> Any:
    axis = n.axis(0)
    if _cut(n[0], n[1], axis) is not n[0]:
        raise GraphError(
            f"indices of shape {n[1].shape} for data of shape {n[0].shape} are not read; sizes beside the axis must agree."
        )
    return f("scatter")(n[0], n[1], n[2], axis=axis, mode=_MODES[n.get("reduction", "none")])


@operator("GatherND")
def gather_nd(n: Node) -> Any:
    n.only(batch_dims=0)
    return f("gather_nd")(n[0], n[1])


@operator("ScatterND")
def scatter_nd(n: Node) -> Any:
    return f("scatter_nd")(n[0], n[1], n[2], mode=_MODES[n.get("reduction", "none")])


@operator("TopK")
def top_k(n: Node) -> Any:
    n.ignore("sorted")  # they are sorted always
    found = f("topk")(n[0], _required(n, 1)[0], axis=n.axis(-1), largest=bool(n.get("largest", 1)))
    return list(found)


@operator("Einsum")
def einsum(n: Node) -> Any:
    return f("einsum")(n.get("equation"), *(n[i] for i in range(len(n.inputs))))
