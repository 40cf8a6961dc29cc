"""Every row of the op table is differentiated on the samples of the conformance kit, or says why it cannot be."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
import pytest

import intermodal as im
from intermodal.ops.table import TABLE, NotDifferentiable, Op
from intermodal.testing import Sample, cases, check_grad
from intermodal.testing.calls import arrays_in, mapped, on, results
from intermodal.testing.gradients import COARSEST
from intermodal.testing.samples import HostArray, has_sample

# JAX compiles each op for each shape, so it has its turn in the long run, or where it is asked for.
_JAX: Final = pytest.param("jax", marks=() if os.environ.get("INTERMODAL_TEST_JAX") == "1" else pytest.mark.long)
EAGER: Final = ["numpy", *(["torch"] if find_spec("torch") else [])]
ENGINES: Final = [*EAGER, *([_JAX] if find_spec("jax") else [])]
DTYPES: Final = ("float64", "complex128")
FEW: Final = 4  # samples of one dtype and row in the default run; the long one takes all
SMALL: Final = 2000  # elements of a sample's arrays


class Composed(NamedTuple):
    """What stands before and behind an op in its check, where its operands are bound to a form or its results are not unique."""

    reason: str
    before: Callable[[im.Tensor], im.Tensor] = lambda x: x
    behind: Callable[[list[im.Tensor]], list[im.Tensor]] = lambda found: found


def hermitian(x: im.Tensor) -> im.Tensor:
    return (x + im.conj(im.matrix_transpose(x))) * 0.5


def of_eigenvectors(found: list[im.Tensor]) -> list[im.Tensor]:
    """A function of eigenvalues and eigenvectors that neither their order nor the vectors' phases change."""
    values, vectors = found
    return [im.sum(im.expand_dims(values, axis=-2) * im.real(vectors * im.conj(vectors)), axis=-1), im.sum(values * values)]


def of_singular_vectors(found: list[im.Tensor]) -> list[im.Tensor]:
    """What the phases, which two vectors share, do not change; nor the vectors beyond the singular values, that any basis is good for."""
    u, s, vh = found
    n = s.shape[-1]
    return [s, (u[..., :n] * im.expand_dims(s * s, axis=-2)) @ vh[..., :n, :]]


def of_determined_columns(found: list[im.Tensor]) -> list[im.Tensor]:
    q, r = found
    n = min(q.shape[-2], r.shape[-1])
    return [q[..., :n], r[..., :n, :]]


COMPOSED: Final = {
    "cholesky": Composed("it reads one half of a matrix that is Hermitian, and the gradient is that of both halves", hermitian),
    "eigvalsh": Composed("it reads one half of a matrix that is Hermitian, and the gradient is that of both halves", hermitian),
    "eigvals": Composed("the order of the values is free", behind=lambda found: [im.sum(found[0] * found[0], axis=-1)]),
    "eigh": Composed("as of eigvalsh; and the phase of a vector is free", hermitian, of_eigenvectors),
    "eig": Composed("the order of the values and the phase of a vector are free", behind=of_eigenvectors),
    "svd": Composed("the phase that two vectors share is free", behind=of_singular_vectors),
    "qr": Composed("columns of Q that no column of the operand determines are free", behind=of_determined_columns),
}
"""Rows whose operands or results need others around them for the derivative to be defined."""

EXCLUDED: Final = {"empty_like": "its values are arbitrary, so that differences of them say nothing"}


def generic(array: HostArray, random: np.random.Generator) -> HostArray:
    """The array at a generic point: no zeros, ones, ties or infinities, and no way out of an interval like [-1, 1] or [0, inf)."""
    if array.dtype.kind not in "fc":
        return array
    if array.dtype.kind == "c":
        return np.asarray(generic(array.real, random) + 1j * generic(array.imag, random), array.dtype)
    usual = np.isfinite(array) & (np.abs(array) < 100)
    small = np.abs(array) < 0.02  # where a quotient would still be steep after a small step
    step = random.uniform(0.01, 0.03, array.shape) * np.where(small, 5.0, 1.0)
    moved = np.where(usual, array, 0) * (1 - 2.5 * step) + step
    return np.where(usual, moved, random.uniform(0.5, 1.5, array.shape)).astype(array.dtype)


def usable(row: Op, dtype: str) -> Iterator[tuple[int, Sample]]:
    """The samples of a row whose calls are right and small and have something to differentiate by, moved to generic points."""
    for index, given in enumerate(cases(row, im.dtypes.as_dtype(dtype))):
        arrays = arrays_in(given)
        if given.raises or given.large or sum(a.size for a in arrays) > SMALL or not any(a.dtype.kind in "fc" for a in arrays):
            continue
        random = np.random.default_rng([index, crc32(row.name.encode())])
        move = partial(generic, random=random)
        yield index, given.but(args=tuple(mapped(v, move) for v in given.args),
                               kwargs={k: mapped(v, move) for k, v in given.kwargs.items()})  # fmt: skip


class Direction:
    """An op on one sample as a function of a number for each operand: how far to go in a direction drawn for that operand.

    A wrong gradient is wrong in a direction drawn at random too, so two calls say for an operand what two for each of its
    elements would.
    """

    def __init__(self, row: Op, given: Sample, device: im.Device) -> None:
        self.row, self.around = row, COMPOSED.get(row.name, Composed(""))
        self.args, self.kwargs = on(row, given, device)
        self.operands: list[im.Tensor] = []
        self._each(self.operands.append)
        self.operands = [x for x in self.operands if x.dtype.is_inexact]
        random = np.random.default_rng(len(self.operands))
        self.ways = [im.asarray(_normal(random, x), device=device) for x in self.operands]
        self.start = [im.asarray(0.0, dtype="float64", device=device) for _ in self.operands]

    def _each(self, change: Callable[[im.Tensor], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        def in_value(value: Any) -> Any:
            if isinstance(value, im.Tensor):
                return change(value)
            if isinstance(value, (list, tuple)) and any(isinstance(v, im.Tensor) for v in value):
                return type(value)(in_value(v) for v in value)
            return value

        return tuple(map(in_value, self.args)), {k: in_value(v) for k, v in self.kwargs.items()}

    def at(self, *operands: im.Tensor) -> list[im.Tensor]:
        """The op's results that have a derivative, for other operands."""
        moved = iter(operands)
        args, kwargs = self._each(lambda x: self.around.before(next(moved)) if x.dtype.is_inexact else x)
        found = [y for y in results(self.row.function(*args, **kwargs)) if y.dtype.is_inexact]
        return self.around.behind(found)

    def along(self, *numbers: im.Tensor) -> list[im.Tensor]:
        """The results, a number's way along each direction."""
        return self.at(*(x + t * way for x, t, way in zip(self.operands, numbers, self.ways, strict=True)))

    def bent(self, *numbers: im.Tensor) -> list[im.Tensor]:
        """The results put through a function that is not linear: then the gradient that reaches the op's rule varies as well."""
        return [y + y * y * 0.25 for y in self.along(*numbers)]

    def check(self, order: int) -> None:
        function = self.along if order == 1 else self.bent
        try:
            check_grad(function, *self.start, order=order)
        except AssertionError:
            if order == 1 and sum(x.size for x in self.operands) < 100:
                check_grad(self.at, *self.operands)  # which names the operand and the element
            raise


def _normal(random: np.random.Generator, x: im.Tensor) -> HostArray:
    values = random.uniform(0.2, 1.0, x.shape) * random.choice((-1, 1), x.shape)
    return np.asarray(values + 1j * random.uniform(-1, 1, x.shape) if x.dtype.is_complex else values)


def check_row(row: Op, device: im.Device, order: int, many: int | None) -> int:
    """Check a row's samples on a device; how many there were."""
    done = 0
    for dtype in DTYPES:
        ran = 0
        for index, given in usable(row, dtype):
            if many is not None and ran == many:
                break
            try:
                direction = Direction(row, given, device)
                there = direction.along(*direction.start)
            except im.IntermodalError:  # the row does not take complex numbers, or the engine has no such op
                continue
            if not there or not all(np.isfinite(y.numpy()).all() for y in there):
                continue
            gap = max(im.finfo(y.dtype).eps for y in there)
            if gap > COARSEST or (order > 1 and gap > im.finfo(im.float64).eps):
                continue  # astype: what is rounded to fewer digits on the way has no derivative that differences could see
            try:
                direction.check(order)
            except Exception as error:
                raise AssertionError(f"sample {index} of {row.name} in {dtype} on {device}: {error}") from error
            ran += 1
        done += ran
    return done


ROWS: Final = sorted(name for name, row in TABLE.items() if not isinstance(row.vjp, NotDifferentiable) and name not in EXCLUDED)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_row_has_a_rule_a_body_or_a_reason_why_it_has_no_derivative(name: str) -> None:
    row = TABLE[name]
    if isinstance(row.vjp, NotDifferentiable):
        assert re.fullmatch(r"[a-z].*\.", row.vjp.reason), "the reason ends the sentence '<op> has no derivative: '"
    else:
        assert row.vjp is not None or row.decompose is not None, "a primitive needs one"
        assert has_sample(row)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_derivatives_of_a_row_agree_with_finite_differences(name: str, engine: str) -> None:
    device, many = im.Device(f"{engine}:cpu"), 1 if engine == "jax" else FEW
    assert check_row(TABLE[name], device, 1, many), "no sample of the row could be differentiated: mark it, or write one that can"
    assert check_row(TABLE[name], device, 2, many)


@pytest.mark.long
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("engine", EAGER)
def test_the_derivatives_of_a_row_agree_with_finite_differences_on_all_samples(name: str, engine: str) -> None:
    for order in (1, 2):
        assert check_row(TABLE[name], im.Device(f"{engine}:cpu"), order, None)


def test_a_wrong_rule_is_found() -> None:
    @im.op(vjp={"x": lambda g, x: g * x * 2.0000001})
    def slightly_wrong_square(x: im.Tensor, /) -> im.Tensor:
        """The square, with a derivative that is off in the eighth digit."""
        return x * x

    try:
        with pytest.raises(
            AssertionError, match=r"sample 0 of slightly_wrong_square in float64 on numpy:cpu: .*argument 0, element"
        ):
            check_row(TABLE["slightly_wrong_square"], im.Device("numpy:cpu"), 1, 1)
    finally:
        TABLE.remove("slightly_wrong_square")


def test_a_rule_that_is_right_but_cannot_be_differentiated_again_is_found() -> None:
    @im.op(vjp={"x": lambda g, x: g * im.conj(x.detach()) * 2.0})
    def square_once(x: im.Tensor, /) -> im.Tensor:
        """The square, whose derivative is a constant to the tape."""
        return x * x

    row, device = TABLE["square_once"], im.Device("numpy:cpu")
    try:
        assert check_row(row, device, 1, 1)
        with pytest.raises(AssertionError, match=r"the derivative of order 2 by"):
            check_row(row, device, 2, 1)
    finally:
        TABLE.remove("square_once")
