"""The programs that are drawn: any op of the table on earlier values or on data of the conformance kit, writes, indices, mistakes.

A step is drawn against the values that the reference has at that point, so most are valid. One that raises is kept now and then: every engine
must refuse it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, TypeVar

import numpy as np
from hypothesis import strategies as st

import intermodal as im
from differential import attributes
from differential.programs import IN_PLACE, LAYOUTS, OPERATORS, HostArray, Program, Step, V, array, perform
from intermodal import dtypes
from intermodal.dtypes import DType
from intermodal.errors import IntermodalError
from intermodal.ops.rules import integer_range
from intermodal.ops.table import TABLE, Op, Role
from intermodal.testing import families  # noqa: F401  # importing it writes the samples
from intermodal.testing.calls import arrays_in, mapped, on
from intermodal.testing.samples import Sample, cases

T = TypeVar("T")

REFERENCE: Final = im.Device("numpy:cpu")
SHORTEST, LONGEST = 5, 40
CHOICES = 600
"""The most bytes of choices that a program takes; 226 on average, 475 the most of 300."""
MISTAKES = 3
"""The most steps of a program that raise."""
LARGEST = 2000
"""The most elements of a value. The samples of convolutions in space have 1680."""

# Few sizes, for JAX compiles each op for each shape; few but every kind of dtype, the common ones more often.
SHAPES: Final = ((3,), (2, 3), (), (1,), (3, 1), (1, 3), (2, 2), (0,), (2, 0), (3, 3), (2, 1, 3), (2, 2, 2), (2, 3), (3,))
DTYPES: Final = (
    "float32", "float32", "float32", "float32", "float64", "float64", "float64", "int64", "int64", "int32", "int8", "int16", "uint8",
    "uint16", "uint32", "uint64", "bool", "float16", "bfloat16", "bfloat16", "complex64", "complex64", "complex128",
)  # fmt: skip
NARROW_SHAPES: Final = ((3,), (2, 3), (), (0,))
NARROW_DTYPES: Final = ("float32", "float32", "float32", "int64", "bool", "complex64")
ALL: Final = tuple(dict.fromkeys(DTYPES))
TAME: Final = (1.0, 2.0, -1.0, 0.5, 3.0, -0.25, 0.0, 1.5, -2.0, 0.75, -3.5)
WILD: Final = (0.0, 1.0, -0.0, float("nan"), -1.0, float("inf"), 2.5, -float("inf"), "max", 0.5, "subnormal", "-max", "tiny")

INDEXED: Final = (
    "indices",
    "target",
    "targets",
    "input_lengths",
    "target_lengths",
    "sorter",
    "repeats",
    "mask",
    "condition",
    "grid",
    "offset",
)
"""Parameters whose numbers have a meaning of their own, so that no earlier value takes their place."""
KEEPING: Final = tuple(layout for layout in LAYOUTS if layout != "broadcast")
"""The layouts that keep all elements; broadcast data is its first row again and again."""
CONDITIONED: Final = ("factorization",)
"""Families whose results are determined for well-conditioned matrices only: they get the kit's."""


def programs(*, narrow: bool = False) -> st.SearchStrategy[Program]:
    """Programs of 5 to 40 ops.

    The narrow ones keep to few dtypes, shapes and samples, so that an engine which compiles each op for each of them meets them again.

    One draw of bytes holds all choices of a program: a draw for each would take longer than running the program does, and Hypothesis would
    make most programs by changing a few choices of an earlier one.
    """
    return st.binary(min_size=CHOICES, max_size=CHOICES).map(lambda choices: Drawing(choices, narrow).program())


class Drawing:
    """A program as it is drawn, with the reference's values so far."""

    def __init__(self, choices: bytes, narrow: bool) -> None:
        self._choices = iter(choices)
        self.narrow = narrow
        self.shapes = NARROW_SHAPES if narrow else SHAPES
        self.steps: list[Step] = []
        self.values: list[im.Tensor] = []
        self.ops = self.mistakes = 0
        # A program keeps to two dtypes, so that values meet; promotion and casts bring in others.
        known = NARROW_DTYPES if narrow else DTYPES
        self.main, self.other = self.pick(known), self.pick(known)

    # --- choices -------------------------------------------------------------------------------------------------

    def below(self, n: int) -> int:
        """A number from 0 up to, not including, n; 0 when the choices are used up."""
        if n > 256:
            return (256 * next(self._choices, 0) + next(self._choices, 0)) % n
        return next(self._choices, 0) % n

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))] if len(options) > 1 else options[0]

    def chance(self, n: int) -> bool:
        """True once in n times."""
        return self.below(n) == n - 1

    # --- the program ---------------------------------------------------------------------------------------------

    def program(self) -> Program:
        length = SHORTEST + self.below(LONGEST - SHORTEST + 1)
        self.source(self.main)
        for _ in range(4 * LONGEST):
            if self.ops >= length:
                break
            self.step()
        while self.ops > LONGEST:  # the last step may have brought others along that fit its operands
            self.ops -= self.steps.pop().op != "source"
        return Program(*self.steps)

    def step(self) -> None:
        kind = self.below(20)
        if kind == 0:
            self.read()
        elif kind == 1:
            self.write()
        elif kind == 2:
            self.operator()
        else:
            row = TABLE[self.pick(OPS)]
            if not _dtypes_of(row.name):  # the kit has no sample of it that is small; the long form says so
                return
            if row.name in SIGNED and not self.chance(4):
                self.by_signature(row)
            else:
                self.by_sample(row)

    def attempt(self, step: Step) -> list[V]:
        """Run a step on the reference and keep it, if it fits; its values."""
        results, error = perform(step, self.values, REFERENCE)
        if error is not None:
            if not isinstance(error, IntermodalError) or (self.mistakes < MISTAKES and self.chance(4)):
                self.mistakes += 1
                self.ops += 1
                self.steps.append(step)
            return []
        if any(r.size > LARGEST or r.ndim > 6 for r in results):
            return []
        self.steps.append(step)
        self.ops += step.op != "source"
        first = len(self.values)
        self.values += results
        return [V(first + i) for i in range(len(results))]

    # --- values --------------------------------------------------------------------------------------------------

    def source(self, dtype: str, shape: tuple[int, ...] | None = None) -> V:
        """New data, in any layout."""
        shape = self.pick(self.shapes) if shape is None else shape
        pool = _pool(dtype, wild=self.chance(3))
        start, stride = self.below(len(pool)), 1 + self.below(3)
        n = int(np.prod(shape))
        return self.given(array([pool[(start + stride * i) % len(pool)] for i in range(n)], dtype).reshape(shape), tuple(LAYOUTS))

    def given(self, data: HostArray, layouts: Sequence[str] = KEEPING) -> V:
        data = np.asarray(data)
        layout = self.pick(layouts) if self.chance(2) else "plain"
        # The other byte order is refused, on every engine.
        return (self.attempt(Step("source", data, layout)) or self.attempt(Step("source", data, "plain")))[0]

    def value(self, allowed: Sequence[str], like: tuple[int, ...] | None = None) -> V:
        """An earlier value of one of the dtypes that broadcasts with a shape, or a new one; large ones are cut down first."""
        found = [i for i, v in enumerate(self.values) if str(v.dtype) in allowed and (like is None or _meets(v.shape, like))]
        if not found or self.chance(5):
            dtypes_ = [d for d in (self.main, self.main, self.other) if d in allowed] or allowed
            return self.source(self.pick(dtypes_), None if like is None else self.pick(_partners(like)))
        usual = [i for i in found if (self.values[i].shape in self.shapes if self.narrow else _cut(self.values[i].shape) is None)]
        if self.narrow and not usual:
            return self.source(self.pick([d for d in (self.main, self.other) if d in allowed] or allowed))
        found = usual if usual and (self.narrow or not self.chance(6)) else found
        i = found[-1 - self.below(min(len(found), 8))]
        key = _cut(self.values[i].shape)
        return V(i) if key is None else self.attempt(Step("getitem", V(i), key))[0]

    def of(self, v: V) -> im.Tensor:
        return self.values[v.index]

    def scalar(self, dtype: DType) -> Any:
        if dtype.is_bool:
            return self.pick((True, False))
        if dtype.is_integer:
            return self.pick((1, 2, 0, 3) if dtype.kind == "unsigned integer" else (1, 2, 0, -1, 3))
        return self.pick((1.5, 2, -0.5, 0, float("inf")) if not dtype.is_complex else (1.5, 2, 1 + 2j))

    # --- ops -----------------------------------------------------------------------------------------------------

    def by_signature(self, row: Op) -> None:
        """A call on earlier values as they are, with attributes drawn by name."""
        allowed = _dtypes_of(row.name)
        if self.chance(12):
            allowed = ALL
        first = self.value(allowed)
        if row.name == "searchsorted":  # in a sequence that is in no order, where the search ends is nobody's promise
            first = (self.attempt(Step("sort", first)) or [first])[0]
        x = self.of(first)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for param in row.tensor_params:
            taken: Any
            if param.role in (Role.SEQUENCE, Role.VARIADIC):
                taken = [first, *(self.value([str(x.dtype)], None if self.chance(2) else x.shape) for _ in range(self.below(3)))]
            elif not args and not kwargs:
                taken = first
            elif param.role is Role.OPTIONAL and (param.name in INDEXED or self.chance(2)):
                continue
            elif param.role is not Role.TENSOR and self.chance(4):
                taken = self.scalar(x.dtype)
            else:
                taken = self.value(allowed, x.shape if row.family == "elementwise" and not self.chance(12) else None)
            if param.place == "*args":
                args += taken
            elif param.place == "*" or any(
                p.name not in kwargs and not p.required for p in row.params[: row.params.index(param)]
            ):
                kwargs[param.name] = taken
            else:
                args.append(taken)
        positional, named = attributes.drawn(self, row, x.ndim)
        self.attempt(Step(row.name, *args, *positional, **kwargs, **named))

    def by_sample(self, row: Op) -> None:
        """A call of the conformance kit, some of its arrays replaced by earlier values."""
        allowed = _dtypes_of(row.name)
        dtype = self.pick([d for d in (self.main, self.other) if d in allowed] or allowed)
        sample = self.pick(_samples(row.name, dtype)[: 2 if self.narrow else None])
        wanted = {id(a): p.name for p, v in _bound(row, sample) for a in _arrays(v)}

        def put(data: HostArray) -> V:
            replaceable = data.size and wanted.get(id(data)) not in INDEXED and not _needs_its_data(row, sample)
            return (self.poured(row, data) if replaceable and self.chance(3) else None) or self.given(data)

        args = [mapped(v, put) for v in sample.args]
        kwargs = {name: mapped(v, put) for name, v in sample.kwargs.items()}
        self.attempt(Step(row.name, *args, terms=sample.terms if sample.terms > 1 else None, **kwargs))

    def poured(self, row: Op, data: HostArray) -> V | None:
        """An earlier value in the form of an array of a sample: as it is if it fits, else its elements in turn."""
        dtype = str(dtypes.as_dtype(data.dtype))
        found = [i for i, v in enumerate(self.values) if v.size and str(v.dtype) == dtype and (row.movement or _is_tame(v))]
        if not found:
            return None
        i = self.pick(found)
        if self.values[i].shape == data.shape:
            return V(i)
        places = np.arange(data.size).reshape(data.shape) % self.values[i].size
        flat = self.attempt(Step("reshape", V(i), (-1,)))
        return self.attempt(Step("take", flat[0], self.given(places)))[0]

    def operator(self) -> None:
        name = self.pick(tuple(OPERATORS))
        allowed = _dtypes_of(OPERATORS[name][1])
        first = self.value(allowed)
        if len(TABLE[OPERATORS[name][1]].tensor_params) == 1:
            self.attempt(Step(name, first))
        elif name != "operator.matmul" and self.chance(3):
            both = (first, self.scalar(self.of(first).dtype))
            self.attempt(Step(name, *(both if self.chance(2) else reversed(both))))
        else:
            self.attempt(Step(name, first, self.value(allowed, None if self.chance(10) else self.of(first).shape)))

    # --- indices and writes --------------------------------------------------------------------------------------

    def read(self) -> None:
        x = self.value(ALL)
        self.attempt(Step("getitem", x, self.key(self.of(x))))

    def write(self) -> None:
        x = self.value(ALL)
        tensor = self.of(x)
        if self.chance(2):
            key = self.key(tensor)
            if self.chance(3):
                value: Any = self.scalar(tensor.dtype)
            else:
                part, error = perform(Step("getitem", x, key), self.values, REFERENCE)
                value = self.value([str(tensor.dtype)], None if error or self.chance(8) else part[0].shape)
            self.attempt(Step("setitem", x, key, value))
        else:
            name = self.pick(tuple(IN_PLACE))
            value = self.scalar(tensor.dtype) if self.chance(3) else self.value([str(tensor.dtype)], tensor.shape)
            self.attempt(Step(name, x, value))

    def key(self, x: im.Tensor) -> Any:
        """Integers, slices, None, ..., index tensors, masks."""
        if self.chance(6):
            mask = np.resize(np.asarray([True, False, True]), x.shape[: self.below(x.ndim + 1)])
            return self.given(mask)
        parts: list[Any] = []
        for n in x.shape[: self.below(x.ndim + 1)]:
            form = self.below(8)
            if form < 2 and n:
                parts.append(self.below(2 * n) - n)
            elif form == 2 and n:
                parts.append(self.given(np.asarray([self.below(2 * n) - n for _ in range(2)])))
            elif form == 3:
                parts.append(self.pick((n, -n - 1)) if self.chance(8) else slice(None))
            else:
                parts.append(
                    slice(*self.pick(((None,), (None, None, -1), (1, None), (None, None, 2), (None, -1), (2, 0, -1), (1, 2))))
                )
        if self.chance(5):
            parts.insert(self.below(len(parts) + 1), self.pick((None, ...)))
        return parts[0] if len(parts) == 1 else tuple(parts)


# --- what is known of ops, once ----------------------------------------------------------------------------------


@cache
def _samples(op: str, dtype: str) -> tuple[Sample, ...]:
    """The kit's samples of an op that are small."""
    found = cases(TABLE[op], dtypes.as_dtype(dtype))
    return tuple(s for s in found if not s.large and s.raises is None and all(a.size <= LARGEST for a in arrays_in(s)))


@cache
def _dtypes_of(op: str) -> tuple[str, ...]:
    """The dtypes that the op takes."""
    return tuple(d for d in ALL if _takes(TABLE[op], d))


def _takes(row: Op, dtype: str) -> bool:
    for sample in _samples(row.name, dtype):
        args, kwargs = on(row, sample, REFERENCE)
        if perform(Step(row.name, *args, **kwargs), (), REFERENCE)[1] is None:
            return True
    return False


def _bound(row: Op, sample: Sample) -> list[tuple[Any, Any]]:
    given, _ = row.bind(*sample.args, **sample.kwargs)
    return list(zip(row.tensor_params, given, strict=True))


def _needs_its_data(row: Op, sample: Sample) -> bool:
    """Whether the sample's numbers are chosen for what they are: well conditioned, in order, within the range of a cast."""
    if row.name == "astype":  # a float beyond an integer's range has no meaning there that engines share
        return dtypes.as_dtype(sample.args[0].dtype).is_inexact and dtypes.as_dtype(sample.args[1]).is_integer
    return row.name == "searchsorted" or row.family in CONDITIONED


def _arrays(value: Any) -> list[HostArray]:
    return [v for v in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(v, np.ndarray)]


@cache
def _pool(dtype: str, wild: bool) -> list[Any]:
    kind = dtypes.as_dtype(dtype)
    if kind.is_bool:
        return [True, False, False, True, True]
    if kind.is_integer:
        least, most = integer_range(kind)
        return [v for v in ((0, 1, most, least, -1, 2, most // 2, 5) if wild else (1, 2, 0, 3, -1, 5, -2)) if v >= least]
    if not wild:
        return [complex(a, b) for a, b in zip(TAME, TAME[::-1], strict=True)] if kind.is_complex else list(TAME)
    part = dtypes.float32 if kind.is_complex and kind.bits == 64 else dtypes.float64 if kind.is_complex else kind
    info = im.finfo(part)
    special = {"max": info.max, "-max": -info.max, "tiny": info.smallest_normal, "subnormal": info.smallest_normal / 4}
    plain = [float(special.get(v, v)) for v in WILD]  # type: ignore[call-overload, arg-type]
    return [complex(a, b) for a, b in zip(plain, plain[5:] + plain[:5], strict=True)] if kind.is_complex else plain


def _is_tame(x: im.Tensor) -> bool:
    with np.errstate(all="ignore"):
        return bool((np.abs(x.numpy().astype(np.complex128 if x.dtype.is_complex else np.float64)) < 100).all())


def _meets(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(a in (b, 1) or b == 1 for a, b in zip(shape[::-1], other[::-1], strict=False))


def _partners(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [shape, shape, shape[1:], (1,) * len(shape), shape[:-1] + (1,) * bool(shape)]


def _cut(shape: tuple[int, ...]) -> Any:
    """The key that brings a large value to one of the usual sizes, or None."""
    if len(shape) <= 3 and all(n <= 3 for n in shape):
        return None
    return (*(slice(None, 3),) * min(len(shape), 3), *(0 if n else slice(None) for n in shape[3:]))


OPS: Final = tuple(TABLE)
SIGNED: Final = frozenset(
    row.name for row in TABLE.values() if attributes.fits(row) and row.family not in CONDITIONED and not row.takes_seed
    and not any(p.name in INDEXED for p in row.tensor_params if p.role is not Role.OPTIONAL)
) - {"bincount"}  # fmt: skip
"""Ops that are called on earlier values as they are. To count a number is to have room for all below it: gigabytes, for a large one."""
