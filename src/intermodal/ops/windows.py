"""Windows: the mechanism under convolution and pooling. Windows along an axis, their overlapping sum, im2col and col2im.

`sliding_window` reads every window of one axis, `overlap_add` is its adjoint. Over several axes they are applied one
axis after the other, so a kernel of 7 by 7 costs 14 slices and not 49.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from intermodal.errors import InvalidValueError, ShapeError
from intermodal.ops import rules
from intermodal.ops.rules import NUMERIC
from intermodal.ops.table import Inferred, Shape, Spec, op, public_names

if TYPE_CHECKING:
    from intermodal.tensor import Tensor

Sizes: TypeAlias = int | Sequence[int]
Padding: TypeAlias = int | str | Sequence[int | tuple[int, int]]
Pairs: TypeAlias = tuple[tuple[int, int], ...]

# --- how windows lie ---------------------------------------------------------------------------------------------


def at_least(least: int, value: object, name: str) -> int:
    """An integer that is not below the least one allowed."""
    number = rules.integer(value, name)
    if number < least:
        raise InvalidValueError(f"{name} {value} must be {least} or more.")
    return number


def per_axis(value: object, rank: int, name: str, *, least: int = 1) -> Shape:
    """One integer for each spatial axis; one alone is for all of them."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank
    if len(given) != rank:
        raise InvalidValueError(f"{name} {value} has {len(given)} numbers, but there are {rank} spatial axes. Give one for each.")
    return tuple(at_least(least, n, name) for n in given)


def reach(size: int, dilation: int) -> int:
    """How many elements a window spans, gaps included."""
    return dilation * (size - 1) + 1


class Geometry(NamedTuple):
    """How windows lie on the spatial axes: attributes in normal form."""

    kernel: Shape
    stride: Shape
    padding: Pairs
    dilation: Shape

    @classmethod
    def of(cls, rank: int, kernel: object, stride: object, padding: object, dilation: object) -> Geometry:
        """From attributes as users write them: one number for all axes, or one for each."""
        sizes, steps = per_axis(kernel, rank, "kernel_size"), per_axis(stride, rank, "stride")
        gaps = per_axis(dilation, rank, "dilation")
        return cls(sizes, steps, _pairs(padding, rank, sizes, steps, gaps), gaps)

    @property
    def attrs(self) -> dict[str, object]:
        """As the attributes of a row without kernel_size."""
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}

    @property
    def reach(self) -> Shape:
        """How many elements a window spans along each axis."""
        return tuple(reach(k, d) for k, d in zip(self.kernel, self.dilation, strict=True))

    def padded(self, sizes: Shape) -> Shape:
        """The sizes of the spatial axes with their padding."""
        return tuple(n + before + after for n, (before, after) in zip(sizes, self.padding, strict=True))

    def counts(self, sizes: Shape) -> Shape:
        """How many windows fit each spatial axis; these start at axis 2."""
        return tuple(
            window_count(n, k, s, d, axis=2 + i, padded=any(p))
            for i, (n, k, s, p, d) in enumerate(zip(self.padded(sizes), *self, strict=True))
        )


def _pairs(value: object, rank: int, kernel: Shape, stride: Shape, dilation: Shape) -> Pairs:
    """(before, after) for each axis, from a number, a number or a pair for each axis, ``valid`` or ``same``."""
    if isinstance(value, str):
        rules.one_of(value, "padding", ("valid", "same"))
        if value == "same" and any(s != 1 for s in stride):
            raise InvalidValueError(f"padding 'same' needs stride 1, but stride is {stride}. Give the padding in numbers.")
        total = [reach(k, d) - 1 if value == "same" else 0 for k, d in zip(kernel, dilation, strict=True)]
        return tuple((t // 2, t - t // 2) for t in total)
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank
    pairs = [tuple(p) if isinstance(p, (tuple, list)) else (p, p) for p in given]
    if len(pairs) != rank or any(len(p) != 2 for p in pairs):
        raise InvalidValueError(
            f"padding {value} does not fit {rank} spatial axes. Give a number, or a number or (before, after) for each axis."
        )
    return tuple((at_least(0, before, "padding"), at_least(0, after, "padding")) for before, after in pairs)


def window_count(n: int, size: int, step: int, dilation: int, *, axis: int, padded: bool = False) -> int:
    """How many windows fit an axis of n elements."""
    span = reach(size, dilation)
    if span > n:
        raise ShapeError(
            f"a window of {size}{f' with dilation {dilation}' if dilation > 1 else ''} spans {span} elements, but axis {axis} has {n}"
            f"{' with its padding' if padded else ''}. Take a smaller window, or pad the input."
        )
    return (n - span) // step + 1


def require_spatial(x: Spec, rank: int | None = None, *, of: str = "the input") -> int:
    """The number of spatial axes of a tensor (batch, channels, *spatial); another than ``rank`` is refused."""
    if x.ndim < 3 or (rank is not None and x.ndim != rank + 2):
        wanted = "one or more spatial axes" if rank is None else f"{rank} spatial {'axis' if rank == 1 else 'axes'}"
        raise ShapeError(
            f"{of} has shape {x.shape}, but (batch, channels, *spatial) with {wanted} is needed. Add a missing axis with x[None]."
        )
    return x.ndim - 2


# --- along one axis ----------------------------------------------------------------------------------------------


def _infer_sliding_window(x: Spec, *, axis: int, size: int, step: int, dilation: int) -> Inferred:
    along = rules.axis(axis, x.ndim)
    size, step, dilation = at_least(1, size, "size"), at_least(1, step, "step"), at_least(1, dilation, "dilation")
    count = window_count(x.shape[along], size, step, dilation, axis=along)
    shape = (*x.shape[:along], count, *x.shape[along + 1 :], size)
    return Inferred((Spec(shape, x.dtype),), {"axis": along, "size": size, "step": step, "dilation": dilation})


def _windows_back(g: Tensor, x_spec: Spec, axis: int, step: int, dilation: int) -> Tensor:
    return overlap_add(g, axis=axis, length=x_spec.shape[axis], step=step, dilation=dilation)


@op(infer=_infer_sliding_window, namespace="nn", movement=True, vjp={"x": _windows_back})
def sliding_window(x: Tensor, /, *, axis: int, size: int, step: int = 1, dilation: int = 1) -> Tensor:
    """The windows along an axis: the axis counts the windows, a new last axis holds the elements of each.

    Args:
        x: the tensor.
        axis: the axis to cut into windows.
        size: elements of a window.
        step: from the start of a window to the start of the next.
        dilation: from one element of a window to its next.

    Example:
        >>> import intermodal as im
        >>> im.nn.sliding_window(im.arange(5), axis=0, size=3, step=2)
        Tensor([[0, 1, 2],
                [2, 3, 4]], dtype=int64, device=numpy:cpu)
    """
    along = rules.axis(axis, x.ndim)
    count = window_count(x.shape[along], size, step, dilation, axis=along)
    return stack([x[places(along, k * dilation, step, count)] for k in range(size)], axis=-1)


def places(axis: int, start: int, step: int, count: int) -> tuple[slice, ...]:
    """The key of ``count`` elements along an axis: start, start + step and so on."""
    return (slice(None),) * axis + (slice(start, start + step * (count - 1) + 1 if count else start, step),)


def _infer_overlap_add(x: Spec, *, axis: int, length: int, step: int, dilation: int) -> Inferred:
    rules.require(x.dtype, NUMERIC)
    if x.ndim < 2:
        raise ShapeError(f"a tensor of shape {x.shape} holds no windows: one axis counts them, the last holds their elements.")
    along = rules.axis(axis, x.ndim - 1)
    length, step, dilation = at_least(0, length, "length"), at_least(1, step, "step"), at_least(1, dilation, "dilation")
    count, size = x.shape[along], x.shape[-1]
    end = step * (count - 1) + reach(size, dilation) if count and size else 0
    if end > length:
        raise ShapeError(
            f"{count} windows of {size} at step {step} and dilation {dilation} span {end} elements, but length is {length}. Give a length of {end} or more."
        )
    shape = (*x.shape[:along], length, *x.shape[along + 1 : -1])
    return Inferred((Spec(shape, x.dtype),), {"axis": along, "length": length, "step": step, "dilation": dilation})


def _windows_again(g: Tensor, x_spec: Spec, axis: int, step: int, dilation: int) -> Tensor | None:
    count, size = x_spec.shape[axis], x_spec.shape[-1]
    if count == 0 or size == 0:
        return None
    # What lies beyond the last window would else be cut into further ones.
    span = step * (count - 1) + reach(size, dilation)
    return sliding_window(g[places(axis, 0, 1, span)], axis=axis, size=size, step=step, dilation=dilation)


@op(infer=_infer_overlap_add, namespace="nn", vjp={"x": _windows_again})
def overlap_add(x: Tensor, /, *, axis: int, length: int, step: int = 1, dilation: int = 1) -> Tensor:
    """The adjoint of `sliding_window`: windows back at their places along an axis of a length, added where they overlap.

    Example:
        >>> import intermodal as im
        >>> im.nn.overlap_add(im.ones((2, 3)), axis=0, length=5, step=2)
        Tensor([1., 1., 2., 1., 1.], dtype=float32, device=numpy:cpu)
    """
    along = rules.axis(axis, x.ndim - 1)
    result = full((*x.shape[:along], length, *x.shape[along + 1 : -1]), 0, dtype=x.dtype, device=x.device)
    for k in range(x.shape[-1]):
        result = basic_put(result, x[..., k], key=places(along, k * dilation, step, x.shape[along]), mode="add")
    return result


# --- of images ---------------------------------------------------------------------------------------------------


def windows(x: Tensor, geometry: Geometry) -> Tensor:
    """All windows of padded images: (batch, channels, *counts, *kernel)."""
    for i, (size, step, dilation) in enumerate(zip(geometry.kernel, geometry.stride, geometry.dilation, strict=True)):
        x = sliding_window(x, axis=2 + i, size=size, step=step, dilation=dilation)
    return x


def overlapped(x: Tensor, sizes: Shape, geometry: Geometry) -> Tensor:
    """The adjoint of `windows`: (batch, channels, *counts, *kernel) to (batch, channels, *sizes)."""
    for i in reversed(range(len(sizes))):
        x = overlap_add(x, axis=2 + i, length=sizes[i], step=geometry.stride[i], dilation=geometry.dilation[i])
    return x


def exchange(x: Tensor, rank: int) -> Tensor:
    """The last ``rank`` axes exchanged with the ``rank`` axes before them: counts with kernel."""
    return permute_dims(x, (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank)))


def pad_spatial(x: Tensor, padding: Pairs, value: float = 0.0) -> Tensor:
    """Images with their spatial axes padded."""
    return pad(x, ((0, 0), (0, 0), *padding), value=value) if any(map(any, padding)) else x


def crop_spatial(x: Tensor, starts: Sequence[int], sizes: Shape) -> Tensor:
    """Images of the sizes, cut out of larger ones."""
    return x[(..., *(slice(start, start + n) for start, n in zip(starts, sizes, strict=True)))]


def _infer_unfold(x: Spec, *, kernel_size: Sizes, stride: Sizes, padding: Padding, dilation: Sizes) -> Inferred:
    geometry = Geometry.of(require_spatial(x), kernel_size, stride, padding, dilation)
    rows, columns = x.shape[1] * math.prod(geometry.kernel), math.prod(geometry.counts(x.shape[2:]))
    return Inferred((Spec((x.shape[0], rows, columns), x.dtype),), {"kernel_size": geometry.kernel, **geometry.attrs})


def _unfold_by_x(g: Tensor, x_spec: Spec, kernel_size: Sizes, stride: Sizes, padding: Padding, dilation: Sizes) -> Tensor:
    sizes = x_spec.shape[2:]
    return fold(g, output_size=sizes, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation)


@op(infer=_infer_unfold, namespace="nn", movement=True, vjp={"x": _unfold_by_x})
def unfold(x: Tensor, /, *, kernel_size: Sizes, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1) -> Tensor:
    """The windows of images as columns (im2col): (batch, channels * elements of a window, windows).

    Args:
        x: images (batch, channels, *spatial), with any number of spatial axes.
        kernel_size: the window's size along each spatial axis.
        stride: from one window to the next.
        padding: zeros at both ends of each axis, or (before, after) for each.
        dilation: from one element of a window to its next.
    """
    rank = x.ndim - 2
    geometry = Geometry.of(rank, kernel_size, stride, padding, dilation)
    found = exchange(windows(pad_spatial(x, geometry.padding), geometry), rank)
    return reshape(found, (x.shape[0], math.prod(found.shape[1 : 2 + rank]), math.prod(found.shape[2 + rank :])))


def _infer_fold(x: Spec, *, output_size: Sizes, kernel_size: Sizes, stride: Sizes, padding: Padding, dilation: Sizes) -> Inferred:
    rules.require(x.dtype, NUMERIC)
    if x.ndim != 3:
        raise ShapeError(f"the columns have shape {x.shape}, but (batch, channels * elements of a window, windows) is needed.")
    sizes = _output_size(output_size)
    geometry = Geometry.of(len(sizes), kernel_size, stride, padding, dilation)
    counts, elements = geometry.counts(sizes), math.prod(geometry.kernel)
    if x.shape[1] % elements:
        raise ShapeError(
            f"the columns have {x.shape[1]} rows, which is no multiple of a window's {elements} elements. Check kernel_size."
        )
    if x.shape[2] != math.prod(counts):
        raise ShapeError(
            f"there are {x.shape[2]} columns, but images of {sizes} have {math.prod(counts)} windows, {counts} along each axis. "
            "Check output_size, stride, padding and dilation."
        )
    shape = (x.shape[0], x.shape[1] // elements, *sizes)
    return Inferred((Spec(shape, x.dtype),), {"output_size": sizes, "kernel_size": geometry.kernel, **geometry.attrs})


def _output_size(value: Sizes) -> Shape:
    """The sizes of the spatial axes; one number stands for a square image."""
    return per_axis(value, len(value) if isinstance(value, (tuple, list)) else 2, "output_size", least=0)


def _fold_by_x(g: Tensor, kernel_size: Sizes, stride: Sizes, padding: Padding, dilation: Sizes) -> Tensor:
    return unfold(g, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation)


@op(infer=_infer_fold, namespace="nn", vjp={"x": _fold_by_x})
def fold(
    x: Tensor,
    /,
    *,
    output_size: Sizes,
    kernel_size: Sizes,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
) -> Tensor:
    """The adjoint of `unfold` (col2im): columns back to images of a size, added where windows overlap."""
    sizes = _output_size(output_size)
    geometry = Geometry.of(len(sizes), kernel_size, stride, padding, dilation)
    channels = x.shape[1] // math.prod(geometry.kernel)
    parts = reshape(x, (x.shape[0], channels, *geometry.kernel, *geometry.counts(sizes)))
    whole = overlapped(exchange(parts, len(sizes)), geometry.padded(sizes), geometry)
    return crop_spatial(whole, [before for before, _ in geometry.padding], sizes)


from intermodal.ops.creation import full  # families use each other; bodies look names up when they run
from intermodal.ops.manipulation import pad, permute_dims, reshape, stack
from intermodal.ops.searching import basic_put

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
