"""Derivatives of ops that move elements, and that views of tracked tensors are views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import intermodal as im
from intermodal.testing import check_grad

MATRIX = np.arange(6.0).reshape(2, 3)


def leaf(values: Any, device: im.Device) -> im.Tensor:
    return im.asarray(values, dtype="float64", device=device).require_grad()


def equals(x: im.Tensor, wanted: Any) -> None:
    np.testing.assert_array_equal(x.numpy(), np.asarray(wanted))


def test_a_row_that_comes_up_again_has_the_sum_of_the_gradients(device: im.Device) -> None:
    x = leaf(MATRIX, device)
    weights = im.asarray([[1.0], [2.0], [4.0]], dtype="float64", device=device)
    equals((im.repeat(x, im.asarray([2, 1], device=device), axis=0) * weights).backward()[x], [[3] * 3, [4] * 3])
    equals((im.repeat(x, im.asarray([0, 3], device=device), axis=0) * weights).backward()[x], [[0] * 3, [7] * 3])
    equals(im.repeat(x, 0).backward()[x], np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("mode", "wanted"), [("constant", [1, 1, 1]), ("edge", [3, 1, 3]), ("wrap", [2, 3, 2]), ("reflect", [2, 3, 2])]
)
def test_padding_takes_back_the_gradients_of_all_places_where_an_element_stands(
    device: im.Device, mode: str, wanted: list[int]
) -> None:
    x = leaf([1.0, 2.0, 3.0], device)
    equals(im.pad(x, ((2, 2),), mode=mode, value=7.0).backward()[x], wanted)


def test_an_axis_may_be_wrapped_around_more_than_once(device: im.Device) -> None:
    x = leaf([1.0, 2.0], device)
    equals(im.pad(x, ((4, 3),), mode="wrap").backward()[x], [5, 4])


def test_joined_tensors_get_their_parts_in_their_dtypes(device: im.Device) -> None:
    x, y = leaf(MATRIX, device), im.asarray([[1.0]], dtype="float32", device=device).require_grad()
    weights = im.asarray(np.arange(7.0), device=device)
    grads = (im.concat([y, x, y], axis=None)[:7] * weights).backward()
    equals(grads[x], [[1, 2, 3], [4, 5, 6]])
    equals(grads[y], [[0]])
    assert grads[y].dtype is im.float32


def test_a_part_that_is_not_used_has_a_gradient_of_zeros(device: im.Device) -> None:
    x = leaf(MATRIX, device)
    _, middle, _ = im.split(x, 3, axis=1)
    equals((middle * 5.0).backward()[x], [[0, 5, 0], [0, 5, 0]])
    equals((im.unstack(x)[1] * 2.0).backward()[x], [[0, 0, 0], [2, 2, 2]])


@pytest.mark.parametrize(("shift", "axis"), [(1, None), ((-2,), None), ((1, -1), (0, 1)), (4, 1)])
def test_rolling_is_undone(device: im.Device, shift: Any, axis: Any) -> None:
    x = leaf(MATRIX, device)
    weights = np.arange(6.0).reshape(2, 3) + 1
    back = -shift if isinstance(shift, int) else tuple(-s for s in shift)
    found = (im.roll(x, shift, axis=axis) * im.asarray(weights, device=device)).backward()[x]
    equals(found, np.roll(weights, back, axis))


@pytest.mark.parametrize(
    "move",
    [
        lambda x: x.T,
        lambda x: x.reshape(-1),
        lambda x: im.flip(x, axis=0),
        lambda x: im.roll(x, 1),
        lambda x: im.tile(x, (0, 2)),
        lambda x: im.pad(x, 1),
        lambda x: im.repeat(x, 2),
        lambda x: im.concat([x, x]),
        lambda x: im.stack([x, x], axis=1),
        lambda x: im.broadcast_to(x, (2, 0, 3)),
        lambda x: im.diff(x, axis=0),
    ],
)
def test_nothing_moves_back_as_nothing(device: im.Device, move: Callable[[im.Tensor], im.Tensor]) -> None:
    x = leaf(np.zeros((0, 3)), device)
    assert move(x).backward()[x].shape == (0, 3)


# --- views ---------------------------------------------------------------------------------------------------------


def test_the_rows_of_a_tracked_tensor_are_tracked_and_their_gradients_its_own(device: im.Device) -> None:
    x = leaf(MATRIX, device)
    total = im.zeros((), dtype="float64", device=device)
    for i, row in enumerate(x):
        assert row.is_tracked
        total = total + im.sum(row * row) * float(i + 1)
    equals(total.backward()[x], MATRIX * [[2], [4]])


def test_iteration_costs_one_gradient_and_not_one_for_each_row(device: im.Device) -> None:
    x = leaf(np.ones((50, 2)), device)
    rows = list(x)
    assert len({id(row._data.node) for row in rows}) == 1
    equals(im.sum(im.concat(rows)).backward()[x], np.ones((50, 2)))


VIEWS: dict[str, Callable[[im.Tensor], im.Tensor]] = {
    "x[1]": lambda x: x[1],
    "x[:, ::-1]": lambda x: x[:, ::-1],
    "x[..., None, 0]": lambda x: x[..., None, 0],
    "x.T": lambda x: x.T,
    "x.mT[1:]": lambda x: x.mT[1:],
    "reshape": lambda x: x.reshape(-1),
    "reshape[::2]": lambda x: x.reshape(3, 2)[::2],
    "flip": lambda x: im.flip(x, axis=1),
    "expand_dims": lambda x: im.expand_dims(x, axis=1),
    "squeeze": lambda x: im.squeeze(x[:1], 0),
    "moveaxis": lambda x: im.moveaxis(x, 0, 1),
    "flatten": im.flatten,
    "a row": lambda x: list(x)[1],
    "a column": lambda x: im.unstack(x, axis=1)[2],
    "a part": lambda x: im.split(x, (1, 2), axis=1)[1],
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_write_to_a_view_reaches_the_tracked_tensor_and_its_derivatives(device: im.Device, name: str) -> None:
    view = VIEWS[name]

    def in_place(x: im.Tensor) -> im.Tensor:
        h = x * 1.0
        part = view(h)
        part *= x[0, 1]
        part[0] += 2.0
        return h * h

    host = MATRIX * 1.0
    number = float(host[0, 1])
    seen = im.asarray(host)  # the same on an untracked tensor says what the values are
    part = view(seen)
    part *= number
    part[0] += 2.0
    x = im.asarray(MATRIX, device=device)
    equals(in_place(x.require_grad()), seen.numpy() ** 2)
    check_grad(in_place, x, order=2)


def test_a_view_sees_the_writes_to_its_tensor_and_to_other_views(device: im.Device) -> None:
    x = leaf(MATRIX, device)
    h = x * 1.0
    row, flat = h[0], h.reshape(-1)
    h[0, 0] = im.sum(x)
    flat[1:3] *= 2.0
    equals(row, [15, 2, 4])
    equals((row * row).backward()[x], [[30, 38, 46], [30, 30, 30]])


def test_a_view_of_an_untracked_tensor_follows_when_a_tracked_value_is_written(device: im.Device) -> None:
    x = leaf(3.0, device)
    buffer = im.zeros(3, dtype="float64", device=device)
    view = buffer[1:]
    buffer[1] = x * x
    assert (view == buffer[1:]).numpy().tolist() == [True, True]
    assert view.is_tracked
    assert view.shape == (2,)
    equals(view, [9, 0])
    equals((view * 2.0).backward()[x], 12)


def test_a_view_that_is_first_read_where_nothing_is_recorded_still_leads_back(device: im.Device) -> None:
    x = leaf(MATRIX, device)
    h = x * 1.0
    row = h[0]
    h *= 2.0
    with im.no_grad():
        equals(row, [0, 2, 4])
    equals((row * 3.0).backward()[x], [[6, 6, 6], [0, 0, 0]])


def test_a_write_where_nothing_is_recorded_leads_nowhere(device: im.Device) -> None:
    x = leaf(MATRIX, device)
    h = x * 1.0
    with im.no_grad():
        for row in h:
            row *= 0.5
    assert not h.is_tracked
    equals(h, MATRIX / 2)


def test_what_a_derivative_needs_is_the_value_from_before_a_write(device: im.Device) -> None:
    x = leaf([1.0, 2.0], device)
    h = x * 1.0
    squares = h * h
    h[0] = 100.0
    equals(squares.backward()[x], [2, 4])


def test_a_leaf_that_was_written_to_is_a_result_and_says_so(device: im.Device) -> None:
    x = leaf([1.0, 2.0], device)
    before = im.asarray(x)
    x[0] = 5.0
    grads = (x * x).backward()
    with pytest.raises(im.errors.GradientError, match="this tensor is a result of basic_put"):
        grads[x]
    equals(before, [1, 2])


def test_gradients_are_tensors_of_their_own(device: im.Device) -> None:
    x, y = leaf([1.0, 2.0], device), leaf([3.0, 4.0], device)
    grads = (x + y).backward()
    mine = grads[x]
    mine *= 0.0
    equals(grads[y], [1, 1])
