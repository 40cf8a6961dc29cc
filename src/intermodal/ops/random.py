"""Random numbers: every op's numbers follow from its ``seed`` alone, so a recorded op gives them again.

Where a call names no seed, dispatch draws one from the device's stream (`Backend.next_seed`) before the row runs.
Two engines draw different numbers from one seed; their distributions are the same.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from intermodal import config, dtypes
from intermodal.dtypes import DType, DTypeLike
from intermodal.errors import InvalidValueError, ShapeError
from intermodal.ops import rules
from intermodal.ops.derivatives import CONSTANT, DISCRETE
from intermodal.ops.rules import FLOAT, INTEGER
from intermodal.ops.table import Infer, Inferred, Spec, op, primitive, public_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intermodal.devices import Device, DeviceLike
    from intermodal.tensor import Tensor

_PRECISION = {
    dtypes.float64: 53,
    dtypes.float32: 24,
    dtypes.float16: 11,
    dtypes.bfloat16: 8,
    dtypes.float8_e4m3fn: 4,
    dtypes.float8_e5m2: 3,
}
"""How many bits a number in [0, 1) has: as many as keep every multiple of the step exact."""


def check_seed(seed: object) -> int:
    """A seed: an integer that every engine's generator takes."""
    value = rules.integer(seed, "seed")
    if not 0 <= value < 2**63:
        raise InvalidValueError(f"seed {value} must lie in [0, 2**63).")
    return value


def _seed(seed: object) -> int | None:
    """The seed of an op; None in a graph, whose runs draw their own."""
    return None if seed is None else check_seed(seed)


def _number(value: object, name: str, *, least: float = -math.inf, most: float = math.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)) or not math.isfinite(value):
        raise InvalidValueError(f"{name} must be a finite number, not {value!r}.")
    if not least <= value <= most:
        limits = f"at least {least}" if most == math.inf else f"between {least} and {most}"
        raise InvalidValueError(f"{name} {value} must be {limits}.")
    return float(value)


def _float_dtype(dtype: DTypeLike | None) -> DType:
    chosen = config.default_float.get() if dtype is None else dtypes.as_dtype(dtype)
    return rules.require(chosen, FLOAT, of="the result")


def _drawn(shape: object, dtype: DType, device: Device, seed: object, **parameters: object) -> Inferred:
    sizes = rules.shape(shape)
    return Inferred((Spec(sizes, dtype),), {"shape": sizes, **parameters, "dtype": dtype, "device": device, "seed": _seed(seed)})


def continuous(**least: float) -> Infer:
    """The rule of a distribution over floats; each parameter is a finite number, ``least`` says which have a lower limit."""

    def infer(*, shape: object, dtype: DTypeLike | None, device: Device, seed: object, **parameters: object) -> Inferred:
        values = {name: _number(v, name, least=least.get(name, -math.inf)) for name, v in parameters.items()}
        return _drawn(shape, _float_dtype(dtype), device, seed, **values)

    return infer


def _infer_uniform(
    *, shape: object, low: object, high: object, dtype: DTypeLike | None, device: Device, seed: object
) -> Inferred:
    chosen = _float_dtype(dtype)
    kind = chosen.numpy.type
    with np.errstate(over="ignore"):
        first, last = float(kind(_number(low, "low"))), float(kind(_number(high, "high")))
        width = float(kind(last - first))
    if not first < last or not math.isfinite(width):
        raise InvalidValueError(
            f"low {low} and high {high} leave no range in {chosen}. low must be less than high, and their difference finite."
        )
    return _drawn(shape, chosen, device, seed, low=first, high=last)


def last_before(high: float, low: float, dtype: DType) -> float:
    """The number of a dtype next to ``high``, toward ``low``."""
    kind = dtype.numpy.type
    return float(np.nextafter(kind(high), kind(low)))


@op(infer=_infer_uniform, namespace="random", vjp=CONSTANT)
def uniform(
    shape: int | Sequence[int],
    *,
    low: float = 0.0,
    high: float = 1.0,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    seed: int | None = None,
) -> Tensor:
    """Numbers that are equally likely anywhere from low up to, never reaching, high.

    Example:
        >>> import intermodal as im
        >>> x = im.random.uniform((2, 3), low=-1, high=1)
        >>> x.shape, bool(im.all((x >= -1) & (x < 1)))
        ((2, 3), True)
    """
    chosen = _float_dtype(dtype)
    bits = _PRECISION[chosen]
    steps = randint(shape, low=0, high=2**bits, dtype=dtypes.int64 if bits > 31 else dtypes.int32, device=device, seed=seed)
    unit = multiply(astype(steps, chosen), 2.0**-bits)
    if (low, high) == (0.0, 1.0):
        return unit
    return minimum(add(multiply(unit, high - low), low), last_before(high, low, chosen))  # rounding may reach high


@op(infer=continuous(std=0.0), namespace="random", vjp=CONSTANT)
def normal(
    shape: int | Sequence[int],
    *,
    mean: float = 0.0,
    std: float = 1.0,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    seed: int | None = None,
) -> Tensor:
    """Normally distributed numbers with a mean and a standard deviation.

    Example:
        >>> import intermodal as im
        >>> x = im.random.normal(4, seed=7)
        >>> bool(im.all(x == im.random.normal(4, seed=7)))
        True
    """
    chosen = _float_dtype(dtype)
    # Box and Muller: a length and an angle from two uniform numbers. 1 - u is never 0, so the logarithm is finite.
    u = uniform((2, *rules.shape(shape)), dtype=_wide(chosen), device=device, seed=seed)
    length = sqrt(multiply(log(subtract(1.0, u[0])), -2.0))
    result = add(multiply(multiply(length, cos(multiply(u[1], 2 * math.pi))), std), mean)
    return astype(result, chosen, copy=False)


def _wide(dtype: DType) -> DType:
    """In a narrow dtype a uniform number has so few bits that a logarithm of it would cut the tails off."""
    return dtypes.promote(dtype, dtypes.float32)


@op(infer=continuous(scale=0.0), namespace="random", vjp=CONSTANT)
def exponential(
    shape: int | Sequence[int],
    *,
    scale: float = 1.0,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    seed: int | None = None,
) -> Tensor:
    """Exponentially distributed numbers: waiting times with the mean ``scale``."""
    chosen = _float_dtype(dtype)
    u = uniform(shape, dtype=_wide(chosen), device=device, seed=seed)
    return astype(multiply(log1p(negative(u)), -scale), chosen, copy=False)


@op(infer=continuous(scale=0.0), namespace="random", vjp=CONSTANT)
def gumbel(
    shape: int | Sequence[int],
    *,
    loc: float = 0.0,
    scale: float = 1.0,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    seed: int | None = None,
) -> Tensor:
    """Gumbel distributed numbers; added to logits they make `argmax` draw from the softmax."""
    chosen = _float_dtype(dtype)
    wide = _wide(chosen)
    u = uniform(shape, dtype=wide, device=device, seed=seed)
    inside = maximum(u, 2.0 ** -(_PRECISION[wide] + 1))  # 0 stands for the step above it; its middle has a logarithm
    return astype(add(multiply(log(negative(log(inside))), -scale), loc), chosen, copy=False)


def _infer_bernoulli(*, shape: object, p: object, device: Device, seed: object) -> Inferred:
    sizes = rules.shape(shape)
    attrs = {"shape": sizes, "p": _number(p, "p", least=0.0, most=1.0), "device": device, "seed": _seed(seed)}
    return Inferred((Spec(sizes, dtypes.bool_),), attrs)


@op(infer=_infer_bernoulli, namespace="random", vjp=CONSTANT)
def bernoulli(shape: int | Sequence[int], *, p: float, device: DeviceLike | None = None, seed: int | None = None) -> Tensor:
    """True with the probability p, else False."""
    return less(randint(shape, low=0, high=2**53, device=device, seed=seed), math.ceil(p * 2**53))


def _infer_randint(*, shape: object, low: object, high: object, dtype: DTypeLike, device: Device, seed: object) -> Inferred:
    chosen = rules.require(dtypes.as_dtype(dtype), INTEGER, of="the result")
    first, last = rules.integer(low, "low"), rules.integer(high, "high")
    if first >= last:
        raise InvalidValueError(f"low {first} and high {last} leave no integer to draw. low must be less than high.")
    rules.check_integer(first, chosen)
    rules.check_integer(last - 1, chosen)
    return _drawn(shape, chosen, device, seed, low=first, high=last)


@primitive(infer=_infer_randint, namespace="random", vjp=CONSTANT)
def randint(
    shape: int | Sequence[int],
    *,
    low: int,
    high: int,
    dtype: DTypeLike = "int64",
    device: DeviceLike | None = None,
    seed: int | None = None,
) -> Tensor:
    """Integers that are equally likely from low up to, not including, high.

    Example:
        >>> import intermodal as im
        >>> dice = im.random.randint(100, low=1, high=7)
        >>> int(im.min(dice)) >= 1, int(im.max(dice)) <= 6
        (True, True)
    """


def _infer_permutation(*, n: object, device: Device, seed: object) -> Inferred:
    (count,) = rules.shape(rules.integer(n, "n"), name="n")
    return Inferred((Spec((count,), dtypes.int64),), {"n": count, "device": device, "seed": _seed(seed)})


@op(infer=_infer_permutation, namespace="random", vjp=CONSTANT)
def permutation(n: int, *, device: DeviceLike | None = None, seed: int | None = None) -> Tensor:
    """The integers from 0 to n - 1 in random order, every order equally likely."""
    # Two of n keys of 62 bits are equal with a probability below n**2 / 2**63, and the sort settles that without harm.
    return argsort(randint((n,), low=0, high=2**62, device=device, seed=seed))


def _infer_choice(x: Spec, *, n: object, axis: int, replace: bool, seed: object) -> Inferred:
    along = rules.axis(axis, x.ndim)
    (count,) = rules.shape(rules.integer(n, "n"), name="n")
    there = x.shape[along]
    if (count and not there) or (count > there and not replace):
        raise ShapeError(
            f"n {count} elements cannot be chosen from axis {along} of size {there}{'' if replace else ' without replacement'}."
        )
    attrs = {"n": count, "axis": along, "replace": bool(replace), "seed": _seed(seed)}
    return Inferred((Spec((*x.shape[:along], count, *x.shape[along + 1 :]), x.dtype),), attrs)


@op(infer=_infer_choice, namespace="random", movement=True)
def choice(x: Tensor, n: int, /, *, axis: int = 0, replace: bool = True, seed: int | None = None) -> Tensor:
    """Some elements (or slices) along an axis, each equally likely; without ``replace`` none comes twice."""
    there = x.shape[axis]
    if replace:
        places = randint((n,), low=0, high=max(there, 1), device=x.device, seed=seed)
    else:
        places = permutation(there, device=x.device, seed=seed)[:n]
    return take(x, places, axis=axis)


def _infer_categorical(logits: Spec, *, axis: int, seed: object) -> Inferred:
    rules.require(logits.dtype, FLOAT, of="logits")
    along = rules.axis(axis, logits.ndim)
    if logits.shape[along] == 0:
        raise ShapeError(f"logits of shape {logits.shape} have no classes along axis {along}. At least one is needed.")
    out = Spec(logits.shape[:along] + logits.shape[along + 1 :], dtypes.int64)
    return Inferred((out,), {"axis": along, "seed": _seed(seed)})


@op(infer=_infer_categorical, namespace="random", vjp=DISCRETE)
def categorical(logits: Tensor, /, *, axis: int = -1, seed: int | None = None) -> Tensor:
    """The index of one class for each line along an axis, drawn from the softmax of its logits."""
    wide = astype(logits, _wide(logits.dtype), copy=False)
    return argmax(add(wide, gumbel(logits.shape, dtype=wide.dtype, device=logits.device, seed=seed)), axis=axis)


def _infer_dropout(x: Spec, *, rate: object, seed: object) -> Inferred:
    rules.require(x.dtype, FLOAT)
    return Inferred((x,), {"rate": _number(rate, "rate", least=0.0, most=1.0), "seed": _seed(seed)})


@op(infer=_infer_dropout, namespace="random")
def dropout(x: Tensor, /, *, rate: float, seed: int | None = None) -> Tensor:
    """Each element set to zero with the probability ``rate``; the others grow so that the mean stays."""
    kept = bernoulli(x.shape, p=1.0 - rate, device=x.device, seed=seed)
    return where(kept, multiply(x, 1.0 / (1.0 - rate) if rate < 1.0 else 0.0), 0.0)


from intermodal.ops.elementwise import (  # families use each other; bodies look names up when they run
    add,
    cos,
    less,
    log,
    log1p,
    maximum,
    minimum,
    multiply,
    negative,
    sqrt,
    subtract,
    where,
)
from intermodal.ops.manipulation import astype
from intermodal.ops.searching import argmax, argsort, take

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
