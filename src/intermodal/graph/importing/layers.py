"""ONNX's operators of neural networks as ops of the table: products, convolutions, pooling, normalization, attention."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any, Final

from intermodal.errors import GraphError
from intermodal.graph.importing.node import Node, f, operator
from intermodal.tensor import Tensor

__all__: list[str] = []

_WIDEST: Final = 1000  # channels that LRN takes together, each of which is an op
Pairs = tuple[tuple[int, int], ...]


@operator("Gemm")
def gemm(n: Node) -> Any:
    a = f("matrix_transpose")(n[0]) if n.get("transA", 0) else n[0]
    b = f("matrix_transpose")(n[1]) if n.get("transB", 0) else n[1]
    alpha, beta, c = n.get("alpha", 1.0), n.get("beta", 1.0), n.maybe(2)
    product = f("matmul")(a, b)
    product = product if alpha == 1.0 else product * alpha
    if c is None:
        return product
    return product + (c if beta == 1.0 else c * beta)


# --- windows -----------------------------------------------------------------------------------------------------


def _padding(n: Node, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]) -> Pairs:
    auto, rank = n.get("auto_pad", "NOTSET"), len(kernel)
    pads = n.get("pads") or [0] * (2 * rank)
    if auto == "VALID":
        return ((0, 0),) * rank
    if auto == "NOTSET":
        return tuple(zip(pads[:rank], pads[rank:], strict=True))
    pairs = []
    for size, k, s, d in zip(n[0].shape[2:], kernel, stride, dilation, strict=True):
        total = max((math.ceil(size / s) - 1) * s + (k - 1) * d + 1 - size, 0)
        small, large = total // 2, total - total // 2
        pairs.append((small, large) if auto == "SAME_UPPER" else (large, small))
    return tuple(pairs)


def _ranked(name: str, rank: int) -> Any:
    """The op for as many spatial axes, which engines have themselves; the one for any number is a composition."""
    return f(f"{name}{rank}d" if rank <= 3 else name)


def _geometry(n: Node, kernel: tuple[int, ...]) -> dict[str, Any]:
    rank = len(kernel)
    stride, dilation = (tuple(n.get(name) or (1,) * rank) for name in ("strides", "dilations"))
    if tuple(n.get("kernel_shape", kernel)) != tuple(kernel):
        raise GraphError(f"kernel_shape is {n.get('kernel_shape')}, and the kernel has the shape {kernel}.")
    return {"stride": stride, "dilation": dilation, "padding": _padding(n, kernel, stride, dilation)}


@operator("Conv")
def conv(n: Node) -> Any:
    return _ranked("conv", n[0].ndim - 2)(n[0], n[1], n.maybe(2), groups=n.get("group", 1), **_geometry(n, n[1].shape[2:]))


@operator("ConvTranspose")
def conv_transpose(n: Node) -> Any:
    if n.get("output_shape") or n.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise GraphError("output_shape and auto_pad are not read. Write pads and output_padding.")
    more = tuple(n.get("output_padding") or (0,) * (n[0].ndim - 2))
    geometry = _geometry(n, n[1].shape[2:])
    return _ranked("conv_transpose", n[0].ndim - 2)(
        n[0], n[1], n.maybe(2), output_padding=more, groups=n.get("group", 1), **geometry
    )


@operator("MaxPool")
def max_pool(n: Node) -> Any:
    n.ignore("storage_order")  # of the second result
    kernel = tuple(n.get("kernel_shape"))
    return _ranked("max_pool", len(kernel))(
        n[0], kernel_size=kernel, ceil_mode=bool(n.get("ceil_mode", 0)), **_geometry(n, kernel)
    )


@operator("AveragePool")
def average_pool(n: Node) -> Any:
    kernel = tuple(n.get("kernel_shape"))
    geometry = _geometry(n, kernel)
    if any(d != 1 for d in geometry.pop("dilation")):
        raise GraphError("dilations are not read.")
    edges = bool(n.get("count_include_pad", 0))
    ceil = bool(n.get("ceil_mode", 0))
    return _ranked("avg_pool", len(kernel))(n[0], kernel_size=kernel, ceil_mode=ceil, count_include_pad=edges, **geometry)


@operator("GlobalAveragePool", "GlobalMaxPool")
def global_pool(n: Node) -> Any:
    return f("mean" if n.op == "GlobalAveragePool" else "max")(n[0], axis=tuple(range(2, n[0].ndim)), keepdims=True)


# What ONNX says in three attributes: how places are counted, how they are rounded; and our mode, and whether corners stay.
_RESIZED: Final = {
    ("nearest", "asymmetric", "floor"): ("nearest", False),
    ("nearest", "half_pixel", "round_prefer_ceil"): ("nearest_exact", False),
    ("linear", "half_pixel", ""): ("linear", False),
    ("linear", "align_corners", ""): ("linear", True),
    ("cubic", "half_pixel", ""): ("cubic", False),
    ("cubic", "align_corners", ""): ("cubic", True),
}


@operator("Resize")
def resize(n: Node) -> Any:
    n.only(antialias=0, exclude_outside=0, keep_aspect_ratio_policy="stretch", cubic_coeff_a=-0.75)
    n.ignore("extrapolation_value")
    mode, counted = n.get("mode", "nearest"), n.get("coordinate_transformation_mode", "half_pixel")
    rounded = n.get("nearest_mode", "round_prefer_floor")
    key = (mode, "half_pixel" if counted == "pytorch_half_pixel" else counted, rounded if mode == "nearest" else "")
    if key not in _RESIZED:
        raise GraphError(
            f"{mode} by {counted} and {rounded} is not read; {', '.join(' '.join(k).strip() for k in _RESIZED)} are."
        )
    scales, sizes, ndim = n.known(2), n.numbers(3), n[0].ndim
    axes = [a + ndim if a < 0 else a for a in n.get("axes") or range(ndim)]
    new, factors = list(n[0].shape), [1.0] * ndim
    for i, axis in enumerate(axes):
        if sizes:
            new[axis] = sizes[i]
        elif scales is not None and scales.size:
            factors[axis] = float(scales[i])
            new[axis] = int(n[0].shape[axis] * factors[axis])
    if tuple(new[:2]) != n[0].shape[:2] or (counted == "pytorch_half_pixel" and 1 in new[2:]):
        raise GraphError("batch, channels, and lines of one element by pytorch_half_pixel are not read.")
    how, corners = _RESIZED[key]
    if corners and any(n[0].shape[a] * factors[a] != new[a] for a in range(ndim) if factors[a] != 1.0):
        raise GraphError("align_corners with scales that leave parts of an element is not read. Give the sizes.")
    target: dict[str, Any] = {"size": tuple(new[2:])} if sizes or corners else {"scale_factor": tuple(factors[2:])}
    return f("interpolate")(n[0], mode=how, align_corners=corners, **target)


# --- normalization -----------------------------------------------------------------------------------------------


@operator("BatchNormalization")
def batch_normalization(n: Node) -> Any:
    n.only(training_mode=0)
    n.ignore("momentum")
    return f("batch_norm")(n[0], n[3], n[4], n[1], n[2], axis=1, eps=n.get("epsilon", 1e-5))


def _fitted(part: Tensor | None, x: Tensor, axis: int) -> Tensor | None:
    """A scale or bias with all the sizes of the axes that are normalized."""
    return part if part is None or part.shape == x.shape[axis:] else f("broadcast_to")(part, x.shape[axis:])


@operator("LayerNormalization", "RMSNormalization")
def layer_normalization(n: Node) -> Any:
    axis = n.axis(-1)
    n.only(stash_type=1)
    how = {"axis": tuple(range(axis, n[0].ndim)), "eps": n.get("epsilon", 1e-5)}
    weight = _fitted(n[1], n[0], axis)
    if n.op == "RMSNormalization":
        return f("rms_norm")(n[0], weight, **how)
    made = f("layer_norm")(n[0], weight, _fitted(n.maybe(2), n[0], axis), **how)
    if n.outputs == 1:
        return made
    along = {"axis": how["axis"], "keepdims": True}
    return [made, f("mean")(n[0], **along), f("rsqrt")(f("var")(n[0], **along) + how["eps"])]


@operator("LRN")
def local_response(n: Node) -> Any:
    """Each channel over a power of the mean square of its neighbours."""
    size, x = n.get("size"), n[0]
    if not 0 < size <= _WIDEST:
        raise GraphError(f"size is {size}; 1 to {_WIDEST} is read.")
    before = (size - 1) // 2
    pairs = tuple((before, size - 1 - before) if axis == 1 else (0, 0) for axis in range(x.ndim))
    squares = f("pad")(f("square")(x), pairs)
    total = reduce(f("add"), [squares[:, i : i + x.shape[1]] for i in range(size)])
    return x / (total * (n.get("alpha", 1e-4) / size) + n.get("bias", 1.0)) ** n.get("beta", 0.75)


@operator("InstanceNormalization")
def instance_normalization(n: Node) -> Any:
    return f("instance_norm")(n[0], n[1], n[2], eps=n.get("epsilon", 1e-5))


@operator("GroupNormalization")
def group_normalization(n: Node) -> Any:
    groups, weight, bias = n.get("num_groups"), n[1], n[2]
    n.only(stash_type=1)
    if n.opset < 21:  # where there is one number for each group
        weight, bias = (f("repeat")(v, n[0].shape[1] // groups) for v in (weight, bias))
    return f("group_norm")(n[0], weight, bias, num_groups=groups, eps=n.get("epsilon", 1e-5))


# --- attention ---------------------------------------------------------------------------------------------------


@operator("Attention")
def attention(n: Node) -> Any:
    if any(n.maybe(i) is not None for i in range(4, len(n.inputs))):
        raise GraphError("earlier keys and values are not read.")
    n.only(softcap=0.0, qk_matmul_output_mode=0, softmax_precision=1)
    q, k, v, mask = n[0], n[1], n[2], n.maybe(3)
    flat = q.ndim == 3
    heads, kept = n.get("q_num_heads"), n.get("kv_num_heads")
    if flat:
        q, k, v = _heads(q, heads), _heads(k, kept), _heads(v, kept)
    seen: dict[str, Any] = {} if mask is None else {"mask" if mask.dtype.is_bool else "bias": mask}
    causal = {"is_causal": bool(n.get("is_causal", 0)), "causal_alignment": "top_left"}
    made = f("attention")(q, k, v, scale=n.get("scale"), **seen, **causal)
    if not flat:
        return made
    b, h, length, d = made.shape
    return f("reshape")(f("permute_dims")(made, (0, 2, 1, 3)), (b, length, h * d))


def _heads(x: Tensor, count: int) -> Any:
    b, length, d = x.shape
    return f("permute_dims")(f("reshape")(x, (b, length, count, d // count)), (0, 2, 1, 3))
