from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import intermodal as im

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def _array(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_basic_indexing_agrees_with_numpy(data: Any) -> None:
    a = _array(data.draw(SHAPES))
    key = data.draw(hnp.basic_indices(a.shape, allow_newaxis=True))
    np.testing.assert_array_equal(im.asarray(a)[key].numpy(), a[key])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_basic_assignment_agrees_with_numpy(data: Any) -> None:
    a = _array(data.draw(SHAPES))
    key = data.draw(hnp.basic_indices(a.shape, allow_newaxis=True))
    x = im.asarray(a)
    want = a.copy()
    want[key] = -1
    x[key] = -1
    np.testing.assert_array_equal(x.numpy(), want)
    part = np.asarray(want[key]) * 3
    want[key] = part
    x[key] = im.asarray(part)
    np.testing.assert_array_equal(x.numpy(), want)


@st.composite
def advanced_key(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Integer arrays, integers, slices, None and one ellipsis, in any order that NumPy takes."""
    index_shape = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3))
    key: list[Any] = []
    axes = draw(st.integers(1, len(shape)))
    for n in shape[:axes]:
        kind = draw(st.sampled_from(["array", "array", "int", "slice"]))
        if kind == "array":
            key.append(
                draw(
                    hnp.arrays(
                        np.int64, draw(st.sampled_from([index_shape, (1,) * len(index_shape)])), elements=st.integers(-n, n - 1)
                    )
                )
            )
        elif kind == "int":
            key.append(draw(st.integers(-n, n - 1)))
        else:
            key.append(draw(st.slices(n)))
        if draw(st.booleans()) and draw(st.booleans()):
            key.append(None)
    if draw(st.booleans()):
        key.append(Ellipsis)
    return tuple(key)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_integer_tensors_index_as_numpys_arrays_do(data: Any) -> None:
    a = _array(data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)))
    key = data.draw(advanced_key(a.shape))
    ours = tuple(im.asarray(k) if isinstance(k, np.ndarray) else k for k in key)
    np.testing.assert_array_equal(im.asarray(a)[ours].numpy(), a[key])
    x, want = im.asarray(a), a.copy()
    x[ours] = -7
    want[key] = -7
    np.testing.assert_array_equal(x.numpy(), want)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_masks_index_as_numpys_do(data: Any) -> None:
    a = _array(data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)))
    depth = data.draw(st.integers(0, a.ndim))
    mask = data.draw(hnp.arrays(np.bool_, a.shape[:depth]))
    x = im.asarray(a)
    np.testing.assert_array_equal(x[im.asarray(mask)].numpy(), a[mask])
    want = a.copy()
    want[mask] = 99
    x[im.asarray(mask)] = 99
    np.testing.assert_array_equal(x.numpy(), want)
    values = -np.arange(int(mask.sum()) * int(np.prod(a.shape[depth:])), dtype=np.int64).reshape(mask.sum(), *a.shape[depth:])
    want[mask] = values
    x[im.asarray(mask)] = im.asarray(values)
    np.testing.assert_array_equal(x.numpy(), want)


def test_a_mask_may_stand_among_other_parts() -> None:
    a = _array((3, 4, 5))
    mask = np.array([True, False, True, True])
    x, m = im.asarray(a), im.asarray(mask)
    np.testing.assert_array_equal(x[:, m].numpy(), a[:, mask])
    np.testing.assert_array_equal(x[..., m, 0].numpy(), a[..., mask, 0])
    np.testing.assert_array_equal(x[im.asarray([0, 1, 2]), m].numpy(), a[np.array([0, 1, 2]), mask])


def test_lists_and_numpy_arrays_index_too() -> None:
    x = im.asarray(_array((3, 2)))
    assert x[[2, 0]].tolist() == [[4, 5], [0, 1]]
    assert x[np.array([1])].tolist() == [[2, 3]]
    assert x[[True, False, True]].tolist() == [[0, 1], [4, 5]]


def test_negative_steps_and_views_of_views(device: im.Device) -> None:
    a = _array((5, 6))
    x = im.asarray(a, device=device)
    np.testing.assert_array_equal(x[::-1, ::-2][1:, :2].numpy(), a[::-1, ::-2][1:, :2])
    np.testing.assert_array_equal((x[::-1] + x[::-1, ::1]).numpy(), a[::-1] * 2)


def test_assignment_casts_integers_into_floats_and_refuses_the_rest(device: im.Device) -> None:
    x = im.zeros(3, device=device)
    x[0] = 1
    x[1:] = im.asarray([2, 3], device=device)
    assert x.tolist() == [1.0, 2.0, 3.0]
    y = im.zeros(3, dtype="int32", device=device)
    with pytest.raises(im.DTypeError, match=r"1\.5 does not fit a tensor of int32"):
        y[0] = 1.5
    with pytest.raises(im.DTypeError, match="float32 does not fit a tensor of int32"):
        y[:] = x
    with pytest.raises(im.DTypeError, match="float64 does not fit a tensor of float32"):
        x[:] = im.ones(3, dtype="float64", device=device)
    assert y.tolist() == [0, 0, 0]


def test_assignment_with_repeated_indices_keeps_the_last() -> None:
    x = im.zeros(3)
    x[im.asarray([1, 1])] = im.asarray([5.0, 6.0])
    assert x.tolist() == [0.0, 6.0, 0.0]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (5, "index 5 is out of range for axis 0 of size 3"),
        ((0, -9), "index -9 is out of range for axis 1 of size 2"),
        ((0, 0, 0), "3 indices and 0 ellipses do not fit a tensor of 2 dimensions"),
        ((..., ...), "0 indices and 2 ellipses"),
        ("a", "'a' is no index"),
        (1.0, "1.0 is no index"),
        (slice(None, None, 0), "step must not be 0"),
    ],
)
def test_a_wrong_key_says_what_is_wrong(key: Any, message: str, device: im.Device) -> None:
    with pytest.raises(IndexError, match=message):
        im.zeros((3, 2), device=device)[key]


def test_an_index_tensor_out_of_range_raises(device: im.Device) -> None:
    x = im.asarray(_array((3, 2)), device=device)
    with pytest.raises(im.IndexRangeError, match="index 3 is out of"):
        x[im.asarray([0, 3], device=device)]
    with pytest.raises(im.IndexRangeError):  # must not wrap around into the neighbouring row
        x[im.asarray([0], device=device), im.asarray([2], device=device)]
    with pytest.raises(im.IndexRangeError):
        x[im.asarray([0], device=device), im.asarray([2], device=device)] = 1


def test_a_mask_that_is_empty_along_an_axis_selects_nothing(device: im.Device) -> None:
    x = im.ones((3, 2), device=device)
    mask = im.zeros((0,), dtype="bool", device=device)
    assert x[mask].shape == (0, 2)
    x[mask] = 5.0
    assert x.tolist() == [[1.0, 1.0]] * 3


def test_a_mask_of_another_shape_is_refused(device: im.Device) -> None:
    with pytest.raises(im.IndexRangeError, match=r"mask of shape \(2,\) does not fit"):
        im.zeros((3, 2), device=device)[im.asarray([True, False], device=device)]
    x = im.zeros(3, device=device)
    with pytest.raises(im.ShapeError, match="the mask selects 1 places, the value has 2"):
        x[im.asarray([True, False, False], device=device)] = im.asarray([1.0, 2.0], device=device)
