"""Samples: the calls on which an op is tested. One registry, by op; a default for ops whose signature says enough.

A sample is a call with NumPy arrays where the op takes tensors. `cases` lists the samples of an op for a dtype: they
follow from the seed alone, so that the same index is the same call on every device and in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, TypeVar
from zlib import crc32

import numpy as np

from intermodal import dtypes
from intermodal.dtypes import DType, DTypeLike
from intermodal.errors import IntermodalError, InvalidValueError
from intermodal.inspection import finfo
from intermodal.ops.rules import integer_range
from intermodal.ops.table import TABLE, Op, Param, Role

__all__ = ["Draw", "Law", "Sample", "call", "case", "cases", "has_sample", "sample"]

HostArray: TypeAlias = "np.ndarray[Any, Any]"
Law: TypeAlias = "Callable[[Sample, list[HostArray]], str | None]"
Generate: TypeAlias = "Callable[[Draw], Iterable[Sample]]"
G = TypeVar("G", bound="Callable[..., Iterable[Sample]]")


@dataclass(frozen=True, slots=True)
class Sample:
    """One call of an op.

    Attributes:
        args: the positional arguments; arrays are NumPy's.
        kwargs: the keyword arguments.
        terms: how many terms meet in one element of the result (the length of a sum, the inner size of a product).
        exact: the result must be equal, not only close; None leaves it to the row: integers, bools and moved elements must.
        law: where many results are right (random numbers, the signs of eigenvectors), what a right one fulfils:
            it is given the sample and the results and answers with a complaint or None.
        raises: the error that this call must raise.
        large: left out by the quick run.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    terms: int = 1
    exact: bool | None = None
    law: Law | None = None
    raises: type[IntermodalError] | None = None
    large: bool = False

    def but(self, **changes: Any) -> Sample:
        """The same call with other attributes of the sample."""
        return replace(self, **changes)


def call(*args: Any, **kwargs: Any) -> Sample:
    """A sample, written as the call it stands for."""
    return Sample(args, kwargs)


class Draw:
    """Seeded inputs of one dtype, for one op."""

    def __init__(self, dtype: DType, key: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.random = np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))

    def array(self, *shape: int, low: float = -4.0, high: float = 4.0, dtype: DTypeLike | None = None) -> HostArray:
        """Numbers between low and high, as far as the dtype has them; both parts of complex ones."""
        kind = self.dtype if dtype is None else dtypes.as_dtype(dtype)
        if kind.is_bool:
            return self.random.integers(0, 2, shape).astype(np.bool_)
        if kind.is_integer:
            least, most = integer_range(kind)
            first, last = max(int(np.ceil(low)), least), min(int(np.floor(high)), most)
            return self.random.integers(first, max(first, last), shape, endpoint=True).astype(kind.numpy)
        values = self.random.uniform(low, high, shape)
        if kind.is_complex:
            return np.asarray(values + 1j * self.random.uniform(low, high, shape)).astype(kind.numpy)
        return np.asarray(values).astype(kind.numpy)

    def integers(self, *shape: int, low: int, high: int, dtype: DTypeLike = "int64") -> HostArray:
        """Integers from low up to, not including, high: indices, say."""
        return self.random.integers(low, high, shape).astype(dtypes.as_dtype(dtype).numpy)

    def ties(self, *shape: int) -> HostArray:
        """Few different values, so that many are equal."""
        return self.array(*shape, low=0, high=2, dtype="int8").astype(self.dtype.numpy)

    def bools(self, *shape: int) -> HostArray:
        """True and False."""
        return self.array(*shape, dtype="bool")

    def edges(self) -> HostArray:
        """The values at which implementations differ: limits of the range, zeros of both signs, halves, infinities, NaN."""
        if self.dtype.is_bool:
            return np.asarray([True, False])
        if self.dtype.is_integer:
            least, most = integer_range(self.dtype)
            return np.asarray([v for v in (least, -1, 0, 1, 2, most) if v >= least]).astype(self.dtype.numpy)
        plain = [0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5]
        if self.dtype.is_complex:
            return np.asarray([complex(a, b) for a in plain[1:5] for b in plain[1:5]], self.dtype.numpy)
        with np.errstate(all="ignore"):
            large = finfo(self.dtype).max / 4
            return np.asarray([*plain, -0.0, large, -large, np.inf, -np.inf, np.nan]).astype(self.dtype.numpy)


_generators: Final[dict[str, Generate]] = {}


def sample(*names: str) -> Callable[[G], G]:
    """Write down the samples of ops: a function that yields them for a `Draw`.

    Example:
        >>> import intermodal as im
        >>> from intermodal import Tensor
        >>> from intermodal.testing import Draw, Sample, call, run, sample
        >>> @im.op()
        ... def shifted(x: Tensor, /, *, by: int) -> Tensor:
        ...     return x + by
        >>> @sample("shifted")
        ... def shifted_samples(draw: Draw) -> list[Sample]:
        ...     return [call(draw.array(3, 4), by=2), call(draw.array(0), by=1)]
        >>> run("numpy:cpu", ops=["shifted"], quick=True).ok
        True
        >>> im.ops.TABLE.remove("shifted")
    """

    def write(generate: G) -> G:
        for name in names:
            _generators[name] = generate
        return generate

    return write


def has_sample(row: Op) -> bool:
    """Whether an op has samples of its own, or a signature from which some follow."""
    return row.name in _generators or _default_fits(row)


def cases(row: Op, dtype: DType, seed: int = 0) -> list[Sample]:
    """The samples of an op for a dtype."""
    draw = Draw(dtype, (seed, crc32(row.name.encode()), dtypes.ALL.index(dtype)))
    generate = _generators.get(row.name)
    with np.errstate(all="ignore"):
        return list(default_samples(row, draw) if generate is None else generate(draw))


def case(op: str, dtype: DTypeLike, index: int, *, seed: int = 0) -> Sample:
    """One sample by its index, as a failure names it."""
    found = cases(TABLE[op], dtypes.as_dtype(dtype), seed)
    if not 0 <= index < len(found):
        raise InvalidValueError(f"case: {op} has {len(found)} samples for {dtype}, so {index} is no index of one.")
    return found[index]


# --- from the signature ------------------------------------------------------------------------------------------


def _default_fits(row: Op) -> bool:
    """Tensors to draw, and no attribute that only the op's author can choose."""
    return bool(row.tensor_params) and not any(p.role is Role.ATTRIBUTE and p.required for p in row.params)


def default_samples(row: Op, draw: Draw, **ranges: tuple[float, float]) -> Iterator[Sample]:
    """Calls on the usual shapes with the attributes' defaults; ``ranges`` bounds the numbers of a parameter."""
    needed = [p for p in row.tensor_params if p.role is not Role.OPTIONAL]

    def build(shapes: tuple[tuple[int, ...], ...]) -> Sample:
        arrays = [_argument(p, draw, shapes[i % len(shapes)], ranges) for i, p in enumerate(needed)]
        return arranged(row, needed, arrays)

    single: tuple[tuple[int, ...], ...] = ((3, 4), (), (7,), (0,), (2, 0, 3))
    for shape in single:
        yield build((shape,))
    yield build(((67, 129),)).but(large=True)
    if row.family != "elementwise":
        return
    if len(needed) == 1:
        yield arranged(row, needed, [draw.edges()])
        return
    for shapes in (((3, 1), (1, 4)), ((2, 3, 4), (4,)), ((), (5,)), ((0, 3), (1,))):
        yield build(shapes)
    if len(needed) == 2 and not ranges:
        yield arranged(row, needed, [draw.edges()[:, None], draw.edges()])


def _argument(param: Param, draw: Draw, shape: tuple[int, ...], ranges: Mapping[str, tuple[float, float]]) -> Any:
    low, high = ranges.get(param.name, (-4.0, 4.0))
    if param.role in (Role.SEQUENCE, Role.VARIADIC):
        return [draw.array(*shape, low=low, high=high) for _ in range(3)]
    return draw.array(*shape, low=low, high=high)


def arranged(row: Op, params: list[Param], values: list[Any]) -> Sample:
    """Values for some parameters as a call that fits the signature."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for param, value in zip(params, values, strict=True):
        if param.place == "*args":
            args.extend(value)
        elif param.place == "*" or any(p.name not in {q.name for q in params} for p in _before(row, param)):
            kwargs[param.name] = value
        else:
            args.append(value)
    return Sample(tuple(args), kwargs)


def _before(row: Op, param: Param) -> tuple[Param, ...]:
    return row.params[: row.params.index(param)]
