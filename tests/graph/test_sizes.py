"""Sizes that are not numbers yet."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from intermodal.errors import InvalidValueError
from intermodal.graph.sizes import Size, evaluated

names = st.sampled_from(["n", "m", "batch", "_k2"])
fractions = st.builds(Fraction, st.integers(-50, 50), st.integers(1, 6))
sizes = st.dictionaries(st.lists(names, max_size=3).map(lambda n: tuple(sorted(n))), fractions, min_size=1, max_size=4).map(Size)


@given(sizes.filter(lambda s: s.names))
def test_a_size_is_read_back_from_its_text(size: Size) -> None:
    assert Size.parse(str(size)) == size


@given(sizes, st.dictionaries(names, st.integers(0, 40), min_size=4))
def test_a_size_is_a_number_once_its_names_are(size: Size, known: dict[str, int]) -> None:
    value = sum((c * math.prod(known[n] for n in key) for key, c in size.terms), Fraction(0))
    if value.denominator == 1:
        assert size.at(known) == value
    else:
        with pytest.raises(InvalidValueError, match="not a whole number"):
            size.at(known)


@pytest.mark.parametrize(
    "text",
    ["", "1", "n n", "2n*", "n/0", "1/0*n", "*n", "n**2", "n + ", "é", "né", "-", "n" * 65, "n" * 2000, "__import__('os')"],
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError):
        Size.parse(text)


@pytest.mark.parametrize("text", ["a" * 60 + "!", "a" * 900 + "!", "1" * 999, "a*" * 400 + "!", " " * 999 + "!", "+" * 999])
def test_refusing_a_text_takes_no_longer_than_reading_one(text: str) -> None:
    start = time.perf_counter()
    with pytest.raises(InvalidValueError):
        Size.parse(text)
    assert time.perf_counter() - start < 1


def test_a_shape_is_evaluated_size_by_size() -> None:
    assert evaluated((3, Size.parse("2*n + 1"), 0), {"n": 4}) == (3, 9, 0)


def test_an_unknown_name_is_told() -> None:
    with pytest.raises(InvalidValueError, match="the size n of 2\\*n"):
        Size.parse("2*n").at({"m": 1})
