"""Fourier transforms: along one axis and several, of real and Hermitian signals, with their frequencies and shifts.

One transform is a primitive, `fft`; the others are its conjugate and its half, for engines that have no faster way.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING, Final

from intermodal import config, dtypes
from intermodal.dtypes import DType, DTypeLike
from intermodal.errors import InvalidValueError, ShapeError
from intermodal.ops import rules
from intermodal.ops.derivatives import CONSTANT
from intermodal.ops.matrices import to_inexact
from intermodal.ops.rules import FLOAT, AxisLike
from intermodal.ops.table import Infer, Inferred, Shape, Spec, op, primitive, public_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intermodal.devices import Device, DeviceLike
    from intermodal.tensor import Tensor

# The inverse of a transform is the conjugate of the transform of the conjugate, scaled as the other direction is.
_OTHER_NORM: Final = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


class Kind(Enum):
    """What a transform takes and gives."""

    COMPLEX = "complex to complex"
    HALF = "real to the half of a Hermitian spectrum"
    WHOLE = "the half of a Hermitian spectrum to real"


def _points(kind: Kind, size: int, n: object) -> int:
    """How many points the transform of an axis has: what was asked for, else what the axis holds."""
    points = rules.integer(n, "n") if n is not None else 2 * (size - 1) if kind is Kind.WHOLE else size
    if points < 1:
        raise ShapeError(f"{points} points of an axis of size {size} are no signal. Give a number of points of at least 1.")
    return points


def _transformed(kind: Kind, x: Spec, axes: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[Spec, DType]:
    """The result, and the dtype that the operand is brought to."""
    shape = list(x.shape)
    for a, n in zip(axes, sizes, strict=True):
        shape[a] = n
    if kind is Kind.HALF:
        shape[axes[-1]] = sizes[-1] // 2 + 1
        dtype = to_inexact(x.dtype, FLOAT)
        return Spec(tuple(shape), dtype.as_complex), dtype
    dtype = to_inexact(x.dtype).as_complex
    return Spec(tuple(shape), dtype.component if kind is Kind.WHOLE else dtype), dtype


def along_axis(kind: Kind) -> Infer:
    """The rule of a transform along one axis."""

    def infer(x: Spec, *, n: int | None, axis: int, norm: str) -> Inferred:
        rules.one_of(norm, "norm", tuple(_OTHER_NORM))
        place = rules.axis(axis, x.ndim)
        points = _points(kind, x.shape[place], n)
        spec, dtype = _transformed(kind, x, (place,), (points,))
        return Inferred((spec,), {"n": points, "axis": place, "norm": norm}, dtype)

    return infer


def _grid(kind: Kind, shape: Shape, s: Sequence[int] | None, axes: Sequence[int] | None) -> tuple[Shape, Shape]:
    """The axes of a transform along several, and the points of each; -1 is what the axis holds."""
    places = rules.axes(axes, len(shape), name="axes")
    if s is not None and (axes is None or not isinstance(s, (tuple, list)) or len(s) != len(places)):
        raise InvalidValueError(f"s {s} and axes {axes} do not go together. Give the axes, and one size for each.")
    if kind is not Kind.COMPLEX and not places:
        raise ShapeError("there is no axis to transform. Name at least one.")
    wanted = [None if s is None or s[i] == -1 else s[i] for i in range(len(places))]
    kinds = [kind if i == len(places) - 1 else Kind.COMPLEX for i in range(len(places))]
    return places, tuple(_points(k, shape[a], n) for k, a, n in zip(kinds, places, wanted, strict=True))


def along_axes(kind: Kind) -> Infer:
    """The rule of a transform along several axes, the last of which is the one that is halved or made whole."""

    def infer(x: Spec, *, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str) -> Inferred:
        rules.one_of(norm, "norm", tuple(_OTHER_NORM))
        places, sizes = _grid(kind, x.shape, s, axes)
        spec, dtype = _transformed(kind, x, places, sizes)
        return Inferred((spec,), {"s": sizes, "axes": places, "norm": norm}, dtype)

    return infer


# --- derivatives -------------------------------------------------------------------------------------------------

# A transform is linear, and what carries gradients back is its conjugate transpose: the inverse with the other norm. Half
# a spectrum stands for a whole one, whose inner points come twice: the first, and of an even number of points the last, come once.


def _times(x: Tensor, factor: float, axis: int, n: int) -> Tensor:
    """The inner points of half a spectrum of n times a factor."""
    k = arange(n // 2 + 1, device=x.device)
    once = logical_or(equal(k, 0), equal(multiply(k, 2), n))
    weights = where(once, ones((), dtype=x.dtype.component, device=x.device), factor)
    return multiply(x, reshape(weights, (-1,) + (1,) * (x.ndim - 1 - axis)))


def _fit_all(x: Tensor, shape: Shape, axes: Shape) -> Tensor:
    for a in axes:
        x = _fit(x, a, shape[a])
    return x


def _fft_rule(g: Tensor, x_spec: Spec, axis: int, norm: str) -> Tensor:
    return _fit(ifft(g, axis=axis, norm=_OTHER_NORM[norm]), axis, x_spec.shape[axis])


def _ifft_rule(g: Tensor, x_spec: Spec, axis: int, norm: str) -> Tensor:
    return _fit(fft(g, axis=axis, norm=_OTHER_NORM[norm]), axis, x_spec.shape[axis])


def _rfft_rule(g: Tensor, x_spec: Spec, n: int, axis: int, norm: str) -> Tensor:
    signal = irfft(_times(g, 0.5, axis, n), n=n, axis=axis, norm=_OTHER_NORM[norm])
    return _fit(signal, axis, x_spec.shape[axis])


def _irfft_rule(g: Tensor, x_spec: Spec, n: int, axis: int, norm: str) -> Tensor:
    half = _times(rfft(g, axis=axis, norm=_OTHER_NORM[norm]), 2.0, axis, n)
    return _fit(half, axis, x_spec.shape[axis])


def _fftn_rule(g: Tensor, x_spec: Spec, axes: Shape, norm: str) -> Tensor:
    return _fit_all(ifftn(g, axes=axes, norm=_OTHER_NORM[norm]), x_spec.shape, axes)


def _ifftn_rule(g: Tensor, x_spec: Spec, axes: Shape, norm: str) -> Tensor:
    return _fit_all(fftn(g, axes=axes, norm=_OTHER_NORM[norm]), x_spec.shape, axes)


def _rfftn_rule(g: Tensor, x_spec: Spec, s: Shape, axes: Shape, norm: str) -> Tensor:
    signal = irfftn(_times(g, 0.5, axes[-1], s[-1]), s=s, axes=axes, norm=_OTHER_NORM[norm])
    return _fit_all(signal, x_spec.shape, axes)


def _irfftn_rule(g: Tensor, x_spec: Spec, s: Shape, axes: Shape, norm: str) -> Tensor:
    half = _times(rfftn(g, axes=axes, norm=_OTHER_NORM[norm]), 2.0, axes[-1], s[-1])
    return _fit_all(half, x_spec.shape, axes)


# --- one axis ----------------------------------------------------------------------------------------------------


@primitive(infer=along_axis(Kind.COMPLEX), namespace="fft", vjp={"x": _fft_rule})
def fft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The discrete Fourier transform along an axis.

    Args:
        x: the signal; a real one is taken as complex.
        n: how many points; the axis is cut or filled with zeros to that size.
        axis: the axis.
        norm: which direction is divided by n: ``backward``, ``forward``, or ``ortho`` for both by its root.
    """


@op(infer=along_axis(Kind.COMPLEX), namespace="fft", vjp={"x": _ifft_rule})
def ifft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft`."""
    return conj(fft(conj(x), n=n, axis=axis, norm=_OTHER_NORM[norm]))


@op(infer=along_axis(Kind.HALF), namespace="fft", vjp={"x": _rfft_rule})
def rfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The Fourier transform of a real signal: the first half of the spectrum, of which the second is the conjugate."""
    spectrum = fft(x, n=n, axis=axis, norm=norm)
    return _fit(spectrum, rules.axis(axis, x.ndim), spectrum.shape[axis] // 2 + 1)


@op(infer=along_axis(Kind.WHOLE), namespace="fft", vjp={"x": _irfft_rule})
def irfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `rfft`; an odd number of points must be asked for."""
    place = rules.axis(axis, x.ndim)
    points = _points(Kind.WHOLE, x.shape[place], n)
    half = _fit(x, place, points // 2 + 1)
    mirrored = half[(slice(None),) * place + (slice(1, (points + 1) // 2),)]
    return real(ifft(concat([half, flip(conj(mirrored), axis=place)], axis=place), axis=place, norm=norm))


def _fit(x: Tensor, axis: int, n: int) -> Tensor:
    """An axis cut or filled with zeros to a size."""
    size = x.shape[axis]
    if size >= n:
        return x if size == n else x[(slice(None),) * axis + (slice(n),)]
    return concat([x, zeros((*x.shape[:axis], n - size, *x.shape[axis + 1 :]), dtype=x.dtype, device=x.device)], axis=axis)


@op(infer=along_axis(Kind.WHOLE), namespace="fft")
def hfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The Fourier transform of a signal with Hermitian symmetry, of which the first half is given; the result is real."""
    return irfft(conj(x), n=n, axis=axis, norm=_OTHER_NORM[norm])


@op(infer=along_axis(Kind.HALF), namespace="fft")
def ihfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft`."""
    return conj(rfft(x, n=n, axis=axis, norm=_OTHER_NORM[norm]))


# --- several axes ------------------------------------------------------------------------------------------------


@op(infer=along_axes(Kind.COMPLEX), namespace="fft", vjp={"x": _fftn_rule})
def fftn(x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward") -> Tensor:
    """The discrete Fourier transform along several axes, all of them by default.

    Args:
        x: the signal; a real one is taken as complex.
        s: how many points for each axis, -1 for what it holds; needs axes.
        axes: the axes.
        norm: as in `fft`.
    """
    x = x if x.dtype.is_complex else astype(x, x.dtype.as_complex)
    for a, n in zip(*_grid(Kind.COMPLEX, x.shape, s, axes), strict=True):
        x = fft(x, n=n, axis=a, norm=norm)
    return x


@op(infer=along_axes(Kind.COMPLEX), namespace="fft", vjp={"x": _ifftn_rule})
def ifftn(x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward") -> Tensor:
    """The inverse of `fftn`."""
    x = x if x.dtype.is_complex else astype(x, x.dtype.as_complex)
    for a, n in zip(*_grid(Kind.COMPLEX, x.shape, s, axes), strict=True):
        x = ifft(x, n=n, axis=a, norm=norm)
    return x


@op(infer=along_axes(Kind.HALF), namespace="fft", vjp={"x": _rfftn_rule})
def rfftn(x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward") -> Tensor:
    """The Fourier transform of a real signal along several axes; the spectrum is halved along the last of them."""
    places, sizes = _grid(Kind.HALF, x.shape, s, axes)
    return fftn(rfft(x, n=sizes[-1], axis=places[-1], norm=norm), s=sizes[:-1], axes=places[:-1], norm=norm)


@op(infer=along_axes(Kind.WHOLE), namespace="fft", vjp={"x": _irfftn_rule})
def irfftn(x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward") -> Tensor:
    """The inverse of `rfftn`; an odd number of points along the last axis must be asked for."""
    places, sizes = _grid(Kind.WHOLE, x.shape, s, axes)
    return irfft(ifftn(x, s=sizes[:-1], axes=places[:-1], norm=norm), n=sizes[-1], axis=places[-1], norm=norm)


# --- frequencies and shifts --------------------------------------------------------------------------------------


def _infer_frequencies(n: object, d: object, dtype: DTypeLike | None) -> tuple[int, float, DType]:
    points = rules.integer(n, "n")
    if points < 1:
        raise InvalidValueError(f"n {points} must be at least 1.")
    if not isinstance(d, (int, float)) or not math.isfinite(d) or d == 0:
        raise InvalidValueError(f"the spacing d must be a finite number other than 0, not {d!r}.")
    chosen = config.default_float.get() if dtype is None else dtypes.as_dtype(dtype)
    return points, float(d), rules.require(chosen, FLOAT, of="the result")


def _infer_fftfreq(*, n: object, d: object, dtype: DTypeLike | None, device: Device) -> Inferred:
    points, spacing, chosen = _infer_frequencies(n, d, dtype)
    return Inferred((Spec((points,), chosen),), {"n": points, "d": spacing, "dtype": chosen, "device": device})


def _infer_rfftfreq(*, n: object, d: object, dtype: DTypeLike | None, device: Device) -> Inferred:
    points, spacing, chosen = _infer_frequencies(n, d, dtype)
    return Inferred((Spec((points // 2 + 1,), chosen),), {"n": points, "d": spacing, "dtype": chosen, "device": device})


def _over(steps: Tensor, length: float, dtype: DTypeLike | None) -> Tensor:
    chosen = config.default_float.get() if dtype is None else dtypes.as_dtype(dtype)
    exact = dtypes.promote(chosen, dtypes.float32)  # float16 does not hold every integer above 2048
    return astype(divide(astype(steps, exact), length), chosen)


@op(infer=_infer_fftfreq, namespace="fft", vjp=CONSTANT)
def fftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """The frequencies of `fft`'s n results for samples that are d apart: from 0 up, then the negative ones.

    Example:
        >>> import intermodal as im
        >>> im.fft.fftfreq(4)
        Tensor([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32, device=numpy:cpu)
    """
    half = n // 2
    steps = subtract(remainder(add(arange(n, device=device), half), n), half)
    return _over(steps, n * d, dtype)


@op(infer=_infer_rfftfreq, namespace="fft", vjp=CONSTANT)
def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """The frequencies of `rfft`'s results for n samples that are d apart."""
    return _over(arange(n // 2 + 1, device=device), n * d, dtype)


def _infer_shift(x: Spec, *, axes: AxisLike) -> Inferred:
    return Inferred((x,), {"axes": rules.axes(axes, x.ndim, name="axes")})


@op(infer=_infer_shift, namespace="fft", movement=True)
def fftshift(x: Tensor, /, *, axes: AxisLike = None) -> Tensor:
    """The zero frequency moved to the middle of axes, all of them by default."""
    places = rules.axes(axes, x.ndim, name="axes")
    return roll(x, tuple(x.shape[a] // 2 for a in places), axis=places)


@op(infer=_infer_shift, namespace="fft", movement=True)
def ifftshift(x: Tensor, /, *, axes: AxisLike = None) -> Tensor:
    """The inverse of `fftshift`."""
    places = rules.axes(axes, x.ndim, name="axes")
    return roll(x, tuple(-(x.shape[a] // 2) for a in places), axis=places)


from intermodal.ops.creation import arange, ones, zeros  # families use each other; bodies look names up when they run
from intermodal.ops.elementwise import (
    add,
    conj,
    divide,
    equal,
    logical_or,
    multiply,
    real,
    remainder,
    subtract,
    where,
)
from intermodal.ops.manipulation import astype, concat, flip, reshape, roll

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
