"""Convolution of any rank, transposed convolution, and the linear layer. Deformable convolution is in `sampling`.

There is one row for all ranks, `conv`, and one for its adjoint, `conv_transpose`: these are what an engine provides.
`conv1d` to `conv3d` and their transposes only say how many spatial axes they expect. The derivative of one by its input
is the other; that by the weight is a row of its own, `conv_weight_grad`, for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from intermodal.errors import InvalidValueError, ShapeError
from intermodal.ops import rules
from intermodal.ops.derivatives import conj_of
from intermodal.ops.rules import NUMERIC
from intermodal.ops.table import TABLE, Inferred, Shape, Spec, Vjp, op, public_names
from intermodal.ops.windows import (
    Geometry,
    Padding,
    Pairs,
    Sizes,
    at_least,
    crop_spatial,
    exchange,
    overlapped,
    pad_spatial,
    per_axis,
    require_spatial,
    windows,
)

if TYPE_CHECKING:
    from intermodal.tensor import Tensor


def _check_weight(x: Spec, weight: Spec, rank: int | None) -> int:
    """The number of spatial axes, the same in input and weight."""
    rank = require_spatial(x, rank)
    if weight.ndim != x.ndim:
        raise ShapeError(
            f"the weight has shape {weight.shape}, but an input of shape {x.shape} needs a weight of {x.ndim} axes: two for channels, {rank} for the kernel."
        )
    if 0 in weight.shape[2:]:
        raise ShapeError(f"the weight has shape {weight.shape}, whose kernel is empty. Each kernel size must be 1 or more.")
    return rank


def _check_channels(x: Spec, groups: int, expected: int, how: str) -> None:
    if x.shape[1] != expected:
        raise ShapeError(
            f"the input has {x.shape[1]} channels, but the weight expects {expected}{how}. Its channels are axis 1; check the weight and groups={groups}."
        )


def check_bias(bias: Spec | None, channels: int) -> None:
    """Refuse a bias that has not one number for each channel of the output."""
    if bias is not None and bias.shape != (channels,):
        raise ShapeError(f"the bias has shape {bias.shape}, but the output has {channels} channels. Give shape ({channels},).")


def infer_conv(
    x: Spec,
    weight: Spec,
    bias: Spec | None,
    *,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
    rank: int | None = None,
) -> Inferred:
    """The rule of convolution: weight (out channels, in channels / groups, *kernel)."""
    dtype = rules.require(rules.operand_dtype(x, weight, bias), NUMERIC)
    rank, groups = _check_weight(x, weight, rank), at_least(1, groups, "groups")
    out, depth = weight.shape[:2]
    _check_channels(x, groups, groups * depth, f" ({groups} groups of {depth})" if groups > 1 else "")
    if out % groups:
        raise ShapeError(f"the weight has {out} output channels, which do not divide into {groups} groups.")
    check_bias(bias, out)
    geometry = Geometry.of(rank, weight.shape[2:], stride, padding, dilation)
    shape = (x.shape[0], out, *geometry.counts(x.shape[2:]))
    return Inferred((Spec(shape, dtype),), {**geometry.attrs, "groups": groups}, dtype)


# --- derivatives -------------------------------------------------------------------------------------------------


def _conv_by_x(g: Tensor, x_spec: Spec, weight: Tensor, stride: Shape, padding: Pairs, dilation: Shape, groups: int) -> Tensor:
    """The adjoint of a convolution: from its windows back to an input of known size."""
    sizes = x_spec.shape[2:]
    if 0 in sizes:  # all of it was padding
        return full(x_spec.shape, 0, dtype=g.dtype, device=g.device)
    rank = len(sizes)
    geometry = Geometry(weight.shape[2:], stride, padding, dilation)
    counts = geometry.counts(sizes)
    if g.shape[2:] != counts:  # windows that fit, but were not asked for
        g = pad_spatial(g, tuple((0, n - m) for n, m in zip(counts, g.shape[2:], strict=True)))
    extra = tuple((n - span) % step for n, span, step in zip(geometry.padded(sizes), geometry.reach, stride, strict=True))
    transposed = _of_rank("conv_transpose", rank)
    result: Tensor = transposed(g, _conj(weight), output_padding=extra, groups=groups, **geometry.attrs)
    return result


def _conj(x: Tensor) -> Tensor:
    return cast("Tensor", conj_of(x))


def _of_rank(name: str, rank: int) -> Callable[..., Any]:
    """The row that engines know best."""
    return TABLE[f"{name}{rank}d" if rank <= 3 else name].function


def _conv_by_weight(
    g: Tensor, x: Tensor, weight_spec: Spec, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Tensor:
    return conv_weight_grad(
        _conj(x), g, kernel_size=weight_spec.shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups
    )


def _by_bias(g: Tensor) -> Tensor:
    return total(g, axis=(0, *range(2, g.ndim)))


_CONV: Final[Vjp] = {"x": _conv_by_x, "weight": _conv_by_weight, "bias": _by_bias}


def _transpose_by_x(
    g: Tensor, x_spec: Spec, weight: Tensor, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Tensor:
    result = conv(g, _conj(weight), stride=stride, padding=padding, dilation=dilation, groups=groups)
    # Output padding may be so wide that another window fits on it.
    return result if result.shape == x_spec.shape else crop_spatial(result, (0,) * len(stride), x_spec.shape[2:])


def _transpose_by_weight(
    g: Tensor, x: Tensor, weight_spec: Spec, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Tensor:
    kernel = weight_spec.shape[2:]
    return conv_weight_grad(
        g,
        _conj(x),
        kernel_size=kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
    )


_TRANSPOSE: Final[Vjp] = {"x": _transpose_by_x, "weight": _transpose_by_weight, "bias": _by_bias}


def _infer_conv_weight_grad(
    x: Spec, gradient: Spec, *, kernel_size: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, groups: int
) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x, gradient), NUMERIC)
    rank, groups = require_spatial(x), at_least(1, groups, "groups")
    geometry = Geometry.of(rank, kernel_size, stride, padding, dilation)
    counts = geometry.counts(x.shape[2:])
    if (
        gradient.ndim != x.ndim
        or gradient.shape[0] != x.shape[0]
        or any(not 1 <= m <= n for m, n in zip(gradient.shape[2:], counts, strict=True))
    ):
        raise ShapeError(
            f"the gradient has shape {gradient.shape}, but an input of shape {x.shape} needs ({x.shape[0]}, channels, *windows) with windows up to {counts}."
        )
    if x.shape[1] % groups or gradient.shape[1] % groups:
        raise ShapeError(f"{x.shape[1]} and {gradient.shape[1]} channels do not both divide into {groups} groups.")
    shape = (gradient.shape[1], x.shape[1] // groups, *geometry.kernel)
    attrs = {"kernel_size": geometry.kernel, **geometry.attrs, "groups": groups}
    return Inferred((Spec(shape, dtype),), attrs, dtype)


def _weight_grad_by_x(
    g: Tensor, x_spec: Spec, gradient: Tensor, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Tensor:
    return _conv_by_x(_conj(gradient), x_spec, _conj(g), stride, padding, dilation, groups)


def _weight_grad_by_gradient(
    g: Tensor, x: Tensor, gradient_spec: Spec, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Tensor:
    return _transpose_by_x(_conj(x), gradient_spec, _conj(g), stride, padding, dilation, groups)


@op(infer=_infer_conv_weight_grad, namespace="nn", vjp={"x": _weight_grad_by_x, "gradient": _weight_grad_by_gradient})
def conv_weight_grad(
    x: Tensor,
    gradient: Tensor,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The derivative of `conv` by its weight: each window of the input times the gradient of what was computed from it.

    Args:
        x: the input of the convolution, (batch, in channels, *spatial).
        gradient: of its result, (batch, out channels, *windows).
        kernel_size: the sizes of the kernel.
        stride: as of the convolution.
        padding: as of the convolution.
        dilation: as of the convolution.
        groups: as of the convolution.
    """
    rank, batch, out, counts = x.ndim - 2, x.shape[0], gradient.shape[1], gradient.shape[2:]
    geometry = Geometry.of(rank, kernel_size, stride, padding, dilation)
    found = crop_windows(windows(pad_spatial(x, geometry.padding), geometry), counts)
    parts = reshape(found, (batch, groups, x.shape[1] // groups, *found.shape[2:]))
    # One product for each group, in which batch and windows are summed over together.
    order = (1, 0, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank))
    places, depth = batch * math.prod(counts), x.shape[1] // groups * math.prod(geometry.kernel)
    rows = reshape(permute_dims(parts, order), (groups, places, depth))
    kernels = reshape(permute_dims(gradient, (1, 0, *range(2, 2 + rank))), (groups, out // groups, places))
    return reshape(matmul(kernels, rows), (out, x.shape[1] // groups, *geometry.kernel))


def crop_windows(found: Tensor, counts: Shape) -> Tensor:
    """The first windows along each axis."""
    return found if found.shape[2 : 2 + len(counts)] == counts else found[(slice(None), slice(None), *map(slice, counts))]


# --- the rows ----------------------------------------------------------------------------------------------------


@op(infer=infer_conv, autocast=True, namespace="nn", vjp=_CONV)
def conv(
    x: Tensor,
    /,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The convolution (as networks have it: the kernel is not flipped) over any number of spatial axes.

    Args:
        x: the input, (batch, in channels, *spatial).
        weight: the kernels, (out channels, in channels / groups, *kernel).
        bias: a number for each output channel.
        stride: from one window to the next, one number or one for each axis.
        padding: zeros at both ends of each axis; (before, after) for each axis; ``valid`` for none, ``same`` to keep sizes.
        dilation: from one element of a window to its next.
        groups: parts into which the channels fall, each with its own kernels.

    Example:
        >>> import intermodal as im
        >>> im.nn.conv(im.ones((1, 1, 4)), im.asarray([[[1.0, 2.0, 3.0]]]), padding=1)
        Tensor([[[5., 6., 6., 3.]]], dtype=float32, device=numpy:cpu)
    """
    geometry = Geometry.of(x.ndim - 2, weight.shape[2:], stride, padding, dilation)
    return correlate(exchange(windows(pad_spatial(x, geometry.padding), geometry), x.ndim - 2), weight, bias, groups)


def correlate(found: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Tensor:
    """The windows (batch, in channels, *kernel, *counts) times the kernels: one matrix product for each group."""
    batch, out, counts = found.shape[0], weight.shape[0], found.shape[weight.ndim :]
    depth = math.prod(weight.shape[1:])
    columns = reshape(found, (batch, groups, depth, math.prod(counts)))
    result = matmul(reshape(weight, (groups, out // groups, depth)), columns)
    return _add_bias(reshape(result, (batch, out, *counts)), bias)


def _add_bias(x: Tensor, bias: Tensor | None) -> Tensor:
    return x if bias is None else add(x, reshape(bias, (-1, *(1,) * (x.ndim - 2))))


def _infer_conv_transpose(
    x: Spec,
    weight: Spec,
    bias: Spec | None,
    *,
    stride: Sizes,
    padding: Padding,
    output_padding: Sizes,
    dilation: Sizes,
    groups: int,
    rank: int | None = None,
) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x, weight, bias), NUMERIC)
    rank, groups = _check_weight(x, weight, rank), at_least(1, groups, "groups")
    _check_channels(x, groups, weight.shape[0], "")
    if weight.shape[0] % groups:
        raise ShapeError(f"the weight has {weight.shape[0]} input channels, which do not divide into {groups} groups.")
    out = weight.shape[1] * groups
    check_bias(bias, out)
    geometry = Geometry.of(rank, weight.shape[2:], stride, padding, dilation)
    extra = per_axis(output_padding, rank, "output_padding", least=0)
    for more, step, gap in zip(extra, geometry.stride, geometry.dilation, strict=True):
        if more >= max(step, gap):
            raise InvalidValueError(
                f"output_padding {more} must be smaller than stride {step} or dilation {gap}: it only chooses among the sizes that one stride maps to the same."
            )
    sizes = _transposed_sizes(x.shape[2:], geometry, extra)
    if 0 in x.shape[2:] or min(sizes) < 1:
        raise ShapeError(f"the output would have spatial sizes {sizes}. Pad less: padding {geometry.padding} is taken off it.")
    return Inferred(
        (Spec((x.shape[0], out, *sizes), dtype),), {**geometry.attrs, "output_padding": extra, "groups": groups}, dtype
    )


def _transposed_sizes(sizes: Shape, geometry: Geometry, extra: Shape) -> Shape:
    """The spatial sizes that come out of a transposed convolution."""
    return tuple(
        (n - 1) * step + span - before - after + more
        for n, step, span, (before, after), more in zip(
            sizes, geometry.stride, geometry.reach, geometry.padding, extra, strict=True
        )
    )


@op(infer=_infer_conv_transpose, autocast=True, namespace="nn", vjp=_TRANSPOSE)
def conv_transpose(
    x: Tensor,
    /,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The adjoint of `conv` with the same attributes: each input element puts a scaled kernel into the output.

    Args:
        x: the input, (batch, in channels, *spatial).
        weight: the kernels, (in channels, out channels / groups, *kernel).
        bias: a number for each output channel.
        stride: from one kernel's place in the output to the next.
        padding: what is taken off both ends of the output.
        output_padding: what is added at the end of the output, to choose among the sizes that a stride maps to the same.
        dilation: from one element of a kernel to its next.
        groups: parts into which the channels fall, each with its own kernels.
    """
    rank = x.ndim - 2
    geometry = Geometry.of(rank, weight.shape[2:], stride, padding, dilation)
    sizes = _transposed_sizes(x.shape[2:], geometry, per_axis(output_padding, rank, "output_padding", least=0))
    batch, channels, depth = x.shape[0], x.shape[1], math.prod(weight.shape[1:])
    kernels = matrix_transpose(reshape(weight, (groups, channels // groups, depth)))
    products = matmul(kernels, reshape(x, (batch, groups, channels // groups, math.prod(x.shape[2:]))))
    parts = reshape(products, (batch, weight.shape[1] * groups, *weight.shape[2:], *x.shape[2:]))
    starts = [before for before, _ in geometry.padding]
    # Output padding may reach past the last kernel, so the canvas is as long as either needs.
    spans = zip(x.shape[2:], geometry.stride, geometry.reach, starts, sizes, strict=True)
    canvas = tuple(max((n - 1) * step + span, start + size) for n, step, span, start, size in spans)
    return _add_bias(crop_spatial(overlapped(exchange(parts, rank), canvas, geometry), starts, sizes), bias)


# --- by rank -----------------------------------------------------------------------------------------------------


@op(infer=partial(infer_conv, rank=1), autocast=True, namespace="nn", vjp=_CONV)
def conv1d(
    x: Tensor,
    /,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """`conv` over one spatial axis: input (batch, channels, length), weight (out, in / groups, kernel)."""
    return conv(x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


@op(infer=partial(infer_conv, rank=2), autocast=True, namespace="nn", vjp=_CONV)
def conv2d(
    x: Tensor,
    /,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """`conv` over images: input (batch, channels, height, width), weight (out, in / groups, height, width).

    Example:
        >>> import intermodal as im
        >>> im.nn.conv2d(im.ones((1, 3, 8, 8)), im.ones((4, 3, 3, 3)), stride=2, padding=1).shape
        (1, 4, 4, 4)
    """
    return conv(x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


@op(infer=partial(infer_conv, rank=3), autocast=True, namespace="nn", vjp=_CONV)
def conv3d(
    x: Tensor,
    /,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """`conv` over volumes: input (batch, channels, depth, height, width)."""
    return conv(x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


@op(infer=partial(_infer_conv_transpose, rank=1), autocast=True, namespace="nn", vjp=_TRANSPOSE)
def conv_transpose1d(
    x: Tensor,
    /,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """`conv_transpose` over one spatial axis."""
    return conv_transpose(
        x, weight, bias, stride=stride, padding=padding, output_padding=output_padding, dilation=dilation, groups=groups
    )


@op(infer=partial(_infer_conv_transpose, rank=2), autocast=True, namespace="nn", vjp=_TRANSPOSE)
def conv_transpose2d(
    x: Tensor,
    /,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """`conv_transpose` over images."""
    return conv_transpose(
        x, weight, bias, stride=stride, padding=padding, output_padding=output_padding, dilation=dilation, groups=groups
    )


@op(infer=partial(_infer_conv_transpose, rank=3), autocast=True, namespace="nn", vjp=_TRANSPOSE)
def conv_transpose3d(
    x: Tensor,
    /,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """`conv_transpose` over volumes."""
    return conv_transpose(
        x, weight, bias, stride=stride, padding=padding, output_padding=output_padding, dilation=dilation, groups=groups
    )


# --- linear ------------------------------------------------------------------------------------------------------


def _infer_linear(x: Spec, weight: Spec, bias: Spec | None) -> Inferred:
    dtype = rules.require(rules.operand_dtype(x, weight, bias), NUMERIC)
    if weight.ndim != 2:
        raise ShapeError(f"the weight has shape {weight.shape}, but (out features, in features) is needed.")
    out, depth = weight.shape
    if x.ndim == 0 or x.shape[-1] != depth:
        raise ShapeError(
            f"the input has shape {x.shape}, but a weight of shape {weight.shape} takes {depth} features along the last axis. The weight is (out, in)."
        )
    if bias is not None and bias.shape != (out,):
        raise ShapeError(f"the bias has shape {bias.shape}, but the output has {out} features. Give shape ({out},).")
    return Inferred((Spec((*x.shape[:-1], out), dtype),), {}, dtype)


def _linear_by_x(g: Tensor, weight: Tensor) -> Tensor:
    return matmul(g, _conj(weight))


def _linear_by_weight(g: Tensor, x: Tensor) -> Tensor:
    rows = math.prod(x.shape[:-1])  # all examples in one product
    return matmul(matrix_transpose(reshape(g, (rows, g.shape[-1]))), reshape(_conj(x), (rows, x.shape[-1])))


@op(infer=_infer_linear, autocast=True, namespace="nn", vjp={"x": _linear_by_x, "weight": _linear_by_weight, "bias": lambda g: g})
def linear(x: Tensor, /, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The linear layer x @ weight.T + bias, for a weight (out features, in features).

    Example:
        >>> import intermodal as im
        >>> im.nn.linear(im.asarray([1.0, 2.0]), im.asarray([[3.0, 4.0]]), im.asarray([0.5]))
        Tensor([11.5], dtype=float32, device=numpy:cpu)
    """
    result = matmul(x, matrix_transpose(weight))
    return result if bias is None else add(result, bias)


from intermodal.ops.creation import full  # families use each other; bodies look names up when they run
from intermodal.ops.elementwise import add
from intermodal.ops.linalg import matmul, matrix_transpose
from intermodal.ops.manipulation import permute_dims, reshape
from intermodal.ops.reduction import sum as total

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
