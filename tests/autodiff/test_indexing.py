"""Derivatives of reading and writing by index: places that come twice, ties, ways to combine, what is kept in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import intermodal as im
from intermodal.testing import check_grad

MODES = ("assign", "add", "multiply", "minimum", "maximum")
MATRIX = np.asarray([[0.3, -1.2, 0.8, 2.0], [1.1, 0.4, -0.6, 0.9], [-0.7, 1.6, 0.2, -1.4]])


def leaf(values: Any, device: im.Device | str = "numpy:cpu") -> im.Tensor:
    return im.asarray(values, dtype="float64", device=device).require_grad()


def equals(x: im.Tensor, wanted: Any) -> None:
    np.testing.assert_array_equal(x.numpy(), np.asarray(wanted))


# --- reading -------------------------------------------------------------------------------------------------------


def test_an_element_that_is_read_twice_has_both_gradients(device: im.Device) -> None:
    x = leaf([1.0, 2.0, 3.0], device)
    weights = im.asarray([1.0, 2.0, 4.0, 8.0], dtype="float64", device=device)
    places = im.asarray([0, 2, -1, 0], device=device)
    for found in (x[places], im.take(x, places), im.take_along_axis(x, places), im.index(x, [places])):
        equals((found * weights).backward()[x], [9, 0, 6])


KEYS: dict[str, Callable[[im.Device], Any]] = {
    "integers": lambda device: (1, -1),
    "steps": lambda device: (slice(None, None, -2), slice(1, 3)),
    "nothing": lambda device: (slice(1, 1),),
    "dots and None": lambda device: (..., None, 2),
    "places": lambda device: im.asarray([2, 0, 2], device=device),
    "places and steps": lambda device: (slice(None), im.asarray([[0, -1], [3, 3]], device=device)),
    "pairs": lambda device: (im.asarray([[2], [0]], device=device), im.asarray([1, 1, 3], device=device)),
    "no places": lambda device: im.zeros(0, dtype="int64", device=device),
    "a mask": lambda device: im.asarray(MATRIX > 0.5, device=device),
    "a mask of rows": lambda device: im.asarray([True, False, True], device=device),
    "a mask of nothing": lambda device: im.asarray(MATRIX > 100.0, device=device),
    "a mask beside a step": lambda device: (slice(0, 2), im.asarray([True, False, True, True], device=device)),
}


@pytest.mark.parametrize("name", KEYS)
def test_reading_and_writing_by_any_key_have_derivatives(device: im.Device, name: str) -> None:
    key = KEYS[name](device)
    x = im.asarray(MATRIX, device=device)

    def written(x: im.Tensor, value: im.Tensor) -> im.Tensor:
        h = x * x
        h[key] = value * h[key]
        return h

    check_grad(lambda x: x[key], x, order=2)
    distinct = name not in ("places", "places and steps", "pairs")
    value = x[key] * 0.5 + 1.0 if distinct else im.asarray(1.5, dtype="float64", device=device)
    check_grad(written, x, value, order=2)


def test_equal_elements_are_sorted_as_by_a_stable_sort_and_their_gradients_too(device: im.Device) -> None:
    weights = im.asarray([1.0, 2.0, 4.0, 8.0], dtype="float64", device=device)
    x = leaf([2.0, 1.0, 2.0, 1.0], device)
    equals((im.sort(x) * weights).backward()[x], [4, 1, 8, 2])
    equals((im.sort(x, stable=False) * weights).backward()[x], [4, 1, 8, 2])
    equals((im.sort(x, descending=True) * weights).backward()[x], [1, 4, 2, 8])
    equals((im.topk(x, 3).values * weights[:3]).backward()[x], [1, 4, 2, 0])


def test_nan_is_sorted_last_and_its_gradient_is_its_own(device: im.Device) -> None:
    x = leaf([math.nan, 1.0, 0.0], device)
    weights = im.asarray([1.0, 2.0, 4.0], dtype="float64", device=device)
    equals((im.sort(x) * weights).backward()[x], [4, 2, 1])


def test_of_equal_elements_the_first_is_the_unique_one(device: im.Device) -> None:
    x = leaf([2.0, 1.0, 2.0], device)
    weights = im.asarray([1.0, 2.0], dtype="float64", device=device)
    equals((im.unique_values(x) * weights).backward()[x], [2, 1, 0])


def test_weights_that_are_counted_have_the_gradients_of_their_bins(device: im.Device) -> None:
    w = leaf([1.0, 2.0, 3.0], device)
    bins = im.bincount(im.asarray([1, 0, 1], device=device), w, minlength=4)
    equals((bins * bins).backward()[w], [8, 4, 8])


# --- writing -------------------------------------------------------------------------------------------------------

PLACES = [[0, 0, -1, 2, 2], [1, 1, 1, 1, 1], [-4, 0, 2, -1, 0]]  # -4 and 0 are one place
VALUES = np.asarray([[0.5, 1.7, -0.3, 0.9, -2.0], [0.2, -0.1, 0.7, 1.3, 0.6], [2.2, -1.1, 0.4, 0.8, -0.5]])


@pytest.mark.parametrize("mode", MODES)
def test_scattered_values_have_derivatives_where_a_place_is_written_often(device: im.Device, mode: str) -> None:
    x, values, places = (im.asarray(a, device=device) for a in (MATRIX, VALUES, PLACES))
    check_grad(lambda x, v: im.scatter(x, places, v, axis=1, mode=mode), x, values, order=2)
    check_grad(lambda x, v: im.scatter(x.T, places.T, v.T, axis=0, mode=mode), x, values)
    check_grad(lambda x, v: im.scatter(x, places[:1], v, axis=1, mode=mode), x, values[:, :1])
    check_grad(lambda x: im.scatter(x, places, 0.25, axis=1, mode=mode), x)
    check_grad(lambda x, v: im.basic_put(x, v, key=(slice(None, None, -2), 1), mode=mode), x, values[:2, 0], order=2)


def test_the_last_value_stands_and_has_the_gradient(device: im.Device) -> None:
    x, values = leaf([1.0, 2.0, 3.0], device), leaf([4.0, 5.0, 6.0], device)
    grads = im.scatter(x, im.asarray([0, 2, -3], device=device), values).backward()
    equals(grads[x], [0, 1, 0])
    equals(grads[values], [0, 1, 1])
    h = x * 1.0
    h[im.asarray([1, 1, 1], device=device)] = values
    equals(h.backward()[values], [0, 0, 1])


@pytest.mark.parametrize("zeros", [1, 2, 3])
def test_factors_of_zero_have_exact_derivatives_of_both_orders(device: im.Device, zeros: int) -> None:
    values = np.asarray([2.0, 3.0, 5.0, 7.0])
    values[:zeros] = 0.0
    x = im.asarray([11.0, 13.0], dtype="float64", device=device)
    places = im.asarray([0, -2, 0, 1], device=device)

    def put(x: im.Tensor, values: im.Tensor) -> im.Tensor:
        return im.scatter(x, places, values, mode="multiply")

    values_ = im.asarray(values, device=device)
    found = im.vjp(put, x, values_)[1](im.ones(2, dtype="float64", device=device))
    equals(found[0], [values[:3].prod(), 7])
    equals(found[1], [*(11 * math.prod(values[j] for j in range(3) if j != i) for i in range(3)), 13])
    check_grad(put, x, values_, order=2)


@pytest.mark.parametrize(("mode", "sign"), [("maximum", 1.0), ("minimum", -1.0)])
def test_equal_extremes_share_with_the_element_that_was_there(device: im.Device, mode: str, sign: float) -> None:
    x = leaf(np.asarray([3.0, 1.0, math.nan]) * sign, device)
    values = leaf(np.asarray([3.0, 3.0, 2.0, 0.0]) * sign, device)
    grads = im.scatter(x, im.asarray([0, 0, 1, 1], device=device), values, mode=mode).backward()
    third = 1 / 3
    equals(grads[x], [third, 0, 1])
    equals(grads[values], [third, third, 1, 0])
    grads = im.basic_put(x, values[0], key=(slice(0, 2),), mode=mode).backward()
    equals(grads[x], [0.5, 0, 1])
    equals(grads[values], [1.5, 0, 0, 0])


def test_a_value_for_all_that_a_mask_selects_has_the_sum_of_their_gradients(device: im.Device) -> None:
    x, value = leaf(MATRIX, device), leaf(7.0, device)
    h = x * 1.0
    h[im.asarray(MATRIX > 0.5, device=device)] = value
    equals(h, np.where(MATRIX > 0.5, 7.0, MATRIX))
    grads = h.backward()
    equals(grads[x], MATRIX <= 0.5)
    equals(grads[value], (MATRIX > 0.5).sum())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("shape", "count"), [((0, 3), 2), ((2, 3), 0), ((2, 0), 0)])
def test_writes_of_nothing_and_to_nothing(device: im.Device, mode: str, shape: tuple[int, int], count: int) -> None:
    x, values = leaf(np.ones(shape), device), leaf(np.ones((shape[0], count)), device)
    places = im.zeros((shape[0], count), dtype="int64", device=device)
    grads = im.scatter(x, places, values, axis=1, mode=mode).backward()
    equals(grads[x], np.ones(shape))
    assert grads[values].shape == values.shape


def test_a_row_is_written_by_a_loop_that_reads_the_one_before(device: im.Device) -> None:
    def states(x: im.Tensor) -> im.Tensor:
        buffer = im.zeros((4, 3), dtype="float64", device=device)
        for i in range(4):
            buffer[i] = x * buffer[i - 1] + x
        return buffer

    check_grad(states, im.asarray([0.5, -1.0, 2.0], dtype="float64", device=device), order=2)


def test_a_write_keeps_neither_the_value_nor_the_tensor_from_before(device: im.Device) -> None:
    x = leaf(np.ones(1000), device)
    h = x * 1.0
    with im.autodiff.checkpointing("none") as report:
        for i in range(20):
            h[i] = im.sum(x[:2])
    equals(h[:1], [2])
    assert report.peak == 0


@given(st.lists(st.integers(-5, 4), max_size=8), st.sampled_from(MODES))
def test_a_write_is_its_values_read_back(places: list[int], mode: str) -> None:
    # For each way to combine: what is written, and what the derivatives say of it, are those of a loop over the values.
    index = im.asarray(np.asarray(places, np.int64))
    x = im.asarray([0.5, -1.0, 2.0, 0.25, 3.0], dtype="float64")
    values = im.asarray(np.arange(1.0, len(places) + 1) * 0.75)

    def one_by_one(x: im.Tensor, values: im.Tensor) -> im.Tensor:
        h = x * 1.0
        for i, place in enumerate(places):
            h = im.basic_put(h, values[i], key=(place,), mode=mode)
        return h

    weights = im.asarray([1.0, 2.0, 4.0, 8.0, 16.0], dtype="float64")
    value, pull = im.vjp(lambda x, v: im.scatter(x, index, v, mode=mode), x, values)
    wanted, wanted_pull = im.vjp(one_by_one, x, values)
    np.testing.assert_allclose(value.numpy(), wanted.numpy(), rtol=1e-15)
    for found, expected in zip(pull(weights), wanted_pull(weights), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-14)
