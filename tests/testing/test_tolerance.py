"""The bound holds for every right way of computing and for no wrong one; complaints see what equality misses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import intermodal as im
from intermodal.ops import TABLE
from intermodal.testing import Sample, cases
from intermodal.testing.calls import mapped
from intermodal.testing.checks import Reference
from intermodal.testing.tolerance import NUDGES, bound, complaint, epsilon, nudged

SEEDS = st.integers(0, 2**32 - 1)


def moved(f: Any, *arrays: Any) -> list[Any]:
    random = np.random.default_rng(1)
    return [np.asarray(f(*(nudged(a, random, turn) for a in arrays))) for turn in range(NUDGES)]


@given(seed=SEEDS, n=st.integers(2, 200), dtype=st.sampled_from([np.float16, np.float32, np.float64]))
@settings(max_examples=60, deadline=None)
def test_a_sum_in_any_order_is_within_the_bound(seed: int, n: int, dtype: Any) -> None:
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, n).astype(dtype)
    want = np.asarray(np.sum(x, dtype=dtype))
    one_by_one = dtype(0)
    for v in random.permutation(x):
        one_by_one = dtype(one_by_one + v)
    allowed = bound(want, moved(lambda a: np.sum(a, dtype=dtype), x), im.dtypes.as_dtype(dtype), n, elementwise=False)
    assert complaint(np.asarray(one_by_one), want, allowed) is None


@given(seed=SEEDS, k=st.integers(1, 64))
@settings(max_examples=40, deadline=None)
def test_a_matrix_product_in_float32_and_in_float64_are_within_the_bound(seed: int, k: int) -> None:
    random = np.random.default_rng(seed)
    a, b = random.normal(size=(3, k)).astype(np.float32), random.normal(size=(k, 4)).astype(np.float32)
    exact = (a.astype(np.float64) @ b).astype(np.float32)
    assert complaint(a @ b, exact, bound(exact, moved(np.matmul, a, b), im.float32, k, elementwise=False)) is None
    assert complaint(exact * np.float32(1.01), exact, bound(exact, moved(np.matmul, a, b), im.float32, k, elementwise=False))


@pytest.mark.parametrize("f", [np.exp, np.sin, np.tan, np.log1p, np.cbrt])
def test_a_function_computed_in_float64_and_rounded_is_within_the_bound_of_an_elementwise_op(f: Any) -> None:
    x = np.linspace(-0.99, 9.0, 1001, dtype=np.float32)
    exact = f(x.astype(np.float64)).astype(np.float32)
    assert complaint(f(x), exact, bound(exact, moved(f, x), im.float32, 1, elementwise=True)) is None


def test_a_formula_that_loses_small_numbers_is_outside_the_bound_of_an_elementwise_op() -> None:
    x = np.asarray([1e-6, 1.0], np.float32)
    exact = np.log1p(x.astype(np.float64)).astype(np.float32)
    lossy = np.log(np.float32(1) + x)
    assert complaint(lossy, exact, bound(exact, moved(np.log1p, x), im.float32, 1, elementwise=True))


def test_an_ill_conditioned_result_may_differ_and_a_well_conditioned_one_beside_it_may_not() -> None:
    x = np.asarray([np.pi / 2, 1.0], np.float32)
    want = np.tan(x)
    allowed = bound(want, moved(np.tan, x), im.float32, 1, elementwise=True)
    assert allowed[0] > 1e3
    assert allowed[1] < 1e-4


@pytest.mark.parametrize(
    ("got", "want", "words"),
    [
        ([1.0, np.nan], [1.0, 2.0], "nan instead of 2.0 at (1,)"),
        ([np.inf], [1e30], "inf instead of"),
        ([np.inf], [-np.inf], "inf instead of -inf"),
        ([1.0], [np.nan], "1.0 instead of nan"),
    ],
)
def test_no_bound_excuses_a_nan_or_an_infinity(got: Any, want: Any, words: str) -> None:
    found = complaint(np.asarray(got, np.float32), np.asarray(want, np.float32), 1e9)
    assert found is not None
    assert words in found


def test_equal_infinities_and_nans_are_equal() -> None:
    x = np.asarray([np.nan, np.inf, -np.inf, 0.0, -0.0])
    assert complaint(x, x.copy()) is None
    assert complaint(np.asarray(0.0), np.asarray(-0.0)) is None


def test_large_integers_are_compared_exactly() -> None:
    a, b = np.asarray([2**63 - 1]), np.asarray([2**63 - 2])
    assert complaint(a, b) is not None
    assert complaint(np.asarray([2**64 - 1], np.uint64), np.asarray([2**64 - 2], np.uint64)) is not None
    assert complaint(np.zeros((2, 0)), np.zeros((2, 0))) is None
    assert complaint(np.zeros((2, 0)), np.zeros((0, 2))) == "shape (2, 0) instead of (0, 2)"


def test_the_worst_element_is_named_with_its_bound() -> None:
    found = complaint(np.asarray([[1.0, 2.0], [3.0, 9.0]]), np.asarray([[1.0, 2.1], [3.0, 4.0]]), 0.01)
    assert found == "9.0 instead of 4.0 at (1, 1), and rounding explains a difference of 0.01 only; 2 of 4 elements differ"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64", "complex64", "complex128"])
def test_a_nudge_moves_every_number_by_about_one_step(dtype: str) -> None:
    kind = im.dtypes.as_dtype(dtype)
    x = np.asarray([1.0, -2.5, 100.0]).astype(kind.numpy)
    for turn in range(NUDGES):
        y = nudged(x, np.random.default_rng(0), turn)
        wide = np.complex128 if kind.is_complex else np.float64
        share = np.abs(y.astype(wide) - x.astype(wide)) / np.abs(x.astype(wide))
        assert (share > 0).all()
        assert (share <= 2 * epsilon(kind)).all()
    assert epsilon(im.int32) == 0.0


@pytest.mark.parametrize("family", sorted({row.family for row in TABLE.values()}))
def test_every_op_in_float32_is_within_the_bound_of_the_same_op_in_float64(family: str) -> None:
    wrong = []
    with np.errstate(all="ignore"):
        for row in [r for r in TABLE.values() if r.family == family and not r.takes_seed and r.name != "nextafter"]:
            for i, given in enumerate(cases(row, im.float32)):
                narrow, wide = Reference(row, given), Reference(row, widened(given))
                if given.law is None and given.raises is None and narrow.error is None and wide.error is None:
                    rounded = [w.astype(n.dtype) for n, w in zip(narrow.values, wide.values, strict=True)]
                    wrong += [(row.name, i, found)] if (found := narrow.differs(rounded)) else []
    assert wrong == []


def widened(given: Sample) -> Sample:
    """The same call in float64."""

    def widen(value: Any) -> Any:
        if value is im.float32:
            return im.float64
        return mapped(value, lambda a: a.astype(np.float64) if a.dtype == np.float32 else a)

    return given.but(args=tuple(map(widen, given.args)), kwargs={k: widen(v) for k, v in given.kwargs.items()})
