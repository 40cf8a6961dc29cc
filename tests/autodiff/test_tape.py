"""How the tape behaves: what is recorded, kept and given up, and what wrong uses are told."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pytest
from matrix import DEVICES

import intermodal as im
from intermodal import autodiff
from intermodal.autodiff.nodes import Node
from intermodal.testing import check_grad, no_leaked_nodes


def leaf(values: Any, device: im.Device | str = "numpy:cpu", dtype: str = "float64") -> im.Tensor:
    return im.asarray(values, dtype=dtype, device=device).require_grad()


def equals(x: im.Tensor, wanted: Any) -> None:
    """Equal to the last bit: the numbers of these tests are small integers and halves."""
    np.testing.assert_array_equal(x.numpy(), np.asarray(wanted))


# --- leaves and results --------------------------------------------------------------------------------------------


def test_a_leaf_is_a_new_tensor_with_the_same_value_and_the_original_stays_untracked(device: im.Device) -> None:
    x = im.asarray([1.0, 2.0], device=device)
    y = x.require_grad()
    assert (x.is_tracked, y.is_tracked, y.dtype, y.shape, y.device) == (False, True, x.dtype, x.shape, x.device)
    equals(y, [1, 2])


def test_gradients_are_found_by_the_tensors_they_belong_to(device: im.Device) -> None:
    x, y = leaf([1.0, 2.0], device), leaf([3.0, 4.0], device)
    grads = im.sum(x * y + x).backward()
    equals(grads[x], [4, 5])
    equals(grads[y], [1, 2])
    assert (len(grads), x in grads, 3 in grads, repr(grads)) == (2, True, False, "<gradients of 2 tensors>")


def test_the_gradient_of_a_leaf_that_is_used_often_is_the_sum_of_its_uses(device: im.Device) -> None:
    x = leaf(3.0, device)
    y = x * x
    equals((y * y + y + x).backward()[x], 4 * 27 + 6 + 1)


def test_backward_of_a_tensor_of_many_elements_is_that_of_its_sum(device: im.Device) -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0]], device)
    equals((x * x).backward()[x], [[2, 4], [6, 8]])
    equals((x * x).backward(im.asarray([[1.0, 0.0], [0.0, 10.0]], dtype="float64", device=device))[x], [[2, 0], [0, 80]])


def test_the_gradient_of_a_leaf_by_itself_is_one(device: im.Device) -> None:
    x = leaf([1.0, 2.0], device)
    equals(x.backward()[x], [1, 1])


def test_a_result_keeps_its_gradient_if_asked_to(device: im.Device) -> None:
    x = leaf([1.0, 2.0], device)
    h = (x * 3.0).retain_grad()
    grads = im.sum(h * h).backward()
    equals(grads[h], [6, 12])
    equals(grads[x], [18, 36])


def test_tracked_and_untracked_operands_mix(device: im.Device) -> None:
    x, c = leaf([1.0, 2.0], device), im.asarray([10.0, 20.0], dtype="float64", device=device)
    for y in (x * c, c * x, x * c + c, c + c * x):
        grads = y.backward()
        equals(grads[x], [10, 20])
        assert grads.get(c) is None


def test_a_gradient_can_be_taken_out_and_replaced() -> None:
    x = leaf([1.0, 2.0])
    grads = (x * x).backward()
    grads.replace(x, grads[x] * 0.5)
    equals(grads.pop(x), [1, 2])
    assert x not in grads


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_a_gradient_has_the_dtype_shape_and_device_of_its_tensor(device: im.Device, dtype: str) -> None:
    x = leaf([[1.0, 2.0, 4.0]], device, dtype)
    wide = im.asarray([[0.5], [2.0]], dtype="complex128", device=device)
    for y in (x * x, x * wide, im.exp(x), im.astype(x, "complex128") * wide):
        gradient = im.real(im.sum(y)).backward()[x]
        assert (gradient.dtype, gradient.shape, gradient.device) == (x.dtype, x.shape, x.device)


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), ()])
def test_empty_tensors_and_numbers_have_gradients(device: im.Device, shape: tuple[int, ...]) -> None:
    x = im.ones(shape, dtype="float64", device=device).require_grad()
    equals(im.sum(x * x + 1.0).backward()[x], np.full(shape, 2.0))


def test_what_is_not_a_floating_point_number_is_not_tracked(device: im.Device) -> None:
    x = leaf([1.0, -2.0], device)
    assert not (x > 0).is_tracked
    assert not im.astype(x, "int64").is_tracked
    assert not im.argmax(x).is_tracked


def test_writing_to_a_tracked_result_is_differentiated(device: im.Device) -> None:
    x, c = leaf([1.0, 2.0, 3.0], device), leaf(5.0, device)
    y = x * 2.0
    y[1] = c * c
    grads = im.sum(y * y).backward()
    equals(grads[x], [8, 0, 24])
    equals(grads[c], 2 * 25 * 10)


def test_writes_through_views_are_differentiated(device: im.Device) -> None:
    def f(w: im.Tensor) -> im.Tensor:
        y = w * 1.0
        row, column = y[0], y[:, 1]
        row *= 2.0
        column += row
        y.T[0, 1] = column[0] * w[1, 1]
        return y * y

    check_grad(f, im.asarray([[1.0, 2.0], [3.0, 4.0]], dtype="float64", device=device), order=2)


def test_a_value_saved_for_the_derivative_does_not_change_when_the_tensor_is_written(device: im.Device) -> None:
    x = leaf([2.0, 3.0], device)
    h = x * 1.0
    y = h * h
    h[0] = 100.0
    equals(y.backward()[x], [4, 6])


# --- recording -----------------------------------------------------------------------------------------------------


def test_nothing_is_recorded_in_a_block_without_gradients(device: im.Device) -> None:
    x = leaf([1.0, 2.0], device)
    with im.no_grad():
        assert not autodiff.is_recording()
        assert not (x * x).is_tracked
        assert not im.sum(x, axis=0).is_tracked
    assert autodiff.is_recording()
    assert (x * x).is_tracked


def test_a_block_without_gradients_ends_with_an_error_too() -> None:
    with pytest.raises(ZeroDivisionError), im.no_grad():
        _ = 1 / 0
    assert autodiff.is_recording()


def test_a_decorated_function_records_nothing_in_each_of_its_calls() -> None:
    seen = []

    @im.no_grad()
    def step(x: im.Tensor, depth: int) -> im.Tensor:
        seen.append(autodiff.is_recording())
        return step(x, depth - 1) if depth else x * x

    x = leaf(2.0)
    for _ in range(2):
        assert not step(x, 2).is_tracked
        assert autodiff.is_recording()
    assert seen == [False] * 6


def test_a_detached_tensor_has_the_value_and_no_past(device: im.Device) -> None:
    x = leaf([1.0, 2.0], device)
    y = (x * x).detach()
    assert not y.is_tracked
    equals((y * x).backward()[x], [1, 4])


def test_functions_of_the_layer_below_come_and_go() -> None:
    x = leaf([1.0, 2.0])
    below = autodiff.inner(x)
    assert not below.is_tracked
    back = autodiff.from_inner(below)
    assert not back.is_tracked
    equals((back * x).backward()[x], [1, 2])


# --- hooks ---------------------------------------------------------------------------------------------------------


def test_a_hook_sees_the_whole_gradient_once_and_may_change_it(device: im.Device) -> None:
    x = leaf([1.0, 2.0], device)
    h = x * 2.0
    seen = []
    remove = h.register_hook(lambda g: seen.append(g.numpy().tolist()))
    h.register_hook(lambda g: g * 10.0)
    y = im.sum(h + h)
    equals(y.backward(retain_graph=True)[x], [40, 40])
    assert seen == [[2.0, 2.0]]
    remove()
    y.backward()
    assert seen == [[2.0, 2.0]]


def test_the_hook_of_a_leaf_changes_what_is_found() -> None:
    x = leaf([3.0, -4.0])
    x.register_hook(lambda g: im.clip(g, -1.0, 1.0))
    equals((x * x).backward()[x], [1, -1])


# --- more than one pass ---------------------------------------------------------------------------------------------


def test_a_record_is_given_up_by_backward_unless_it_is_to_be_retained(device: im.Device) -> None:
    x = leaf([1.0, 2.0], device)
    y = im.sum(x * x)
    equals(y.backward(retain_graph=True)[x], [2, 4])
    equals(y.backward()[x], [2, 4])
    with pytest.raises(
        im.GradientError, match=r"^backward: the record of sum was given up by an earlier backward pass\. Pass retain"
    ):
        y.backward()


def test_two_results_of_one_computation_can_be_differentiated_in_turn() -> None:
    x = leaf([1.0, 2.0])
    h = x * x
    first, second = im.sum(h), im.sum(h * 3.0)
    equals(first.backward(retain_graph=True)[x], [2, 4])
    equals(second.backward()[x], [6, 12])


def test_a_gradient_with_a_record_is_differentiated_again(device: im.Device) -> None:
    x = leaf([1.0, 2.0], device)
    first = im.sum(x**3).backward(create_graph=True)[x]
    equals(first, [3, 12])
    second = im.sum(first * first).backward(create_graph=True)[x]  # 9 x^4
    equals(second, [36, 288])
    equals(second.backward()[x], [108, 432])
    assert not im.sum(x**3).backward()[x].is_tracked


# --- derivatives of functions --------------------------------------------------------------------------------------


def test_gradients_nest_to_any_depth(device: im.Device) -> None:
    f: Callable[[im.Tensor], im.Tensor] = lambda x: x**5  # noqa: E731
    wanted, x = [32.0, 80.0, 160.0, 240.0, 240.0], im.asarray(2.0, dtype="float64", device=device)
    for value in wanted:
        found = f(x)
        assert not found.is_tracked
        equals(found, value)
        f = im.grad(f)


def test_an_inner_derivative_does_not_confuse_its_variable_with_an_outer_one() -> None:
    one = im.asarray(1.0, dtype="float64")
    # d/dx (x * d/dy (x + y)) = d/dx x = 1; an implementation with one variable for both says 2.
    equals(im.grad(lambda x: x * im.grad(lambda y: x + y)(one))(one), 1)
    # d/dx (x * d/dy (x * y)) at 3 = 2x
    equals(im.grad(lambda x: x * im.grad(lambda y: x * y)(one))(one * 3.0), 6)
    # The same tensor is variable of both: d/dx (d/dy (x * y * y) at y = x) = d/dx 2 x^2
    equals(im.grad(lambda x: im.grad(lambda y: x * y * y)(x))(one * 3.0), 12)


def test_three_nested_derivatives_of_different_variables() -> None:
    two, three, five = (im.asarray(v, dtype="float64") for v in (2.0, 3.0, 5.0))

    # d/dx [x^2 * d/dy (x y^2 * d/dz (x y z^2) at z = 5) at y = 3] with x = 2: the inner is 10 x y, then 10 x^2 y^3,
    # whose derivative by y is 30 x^2 y^2, so x^2 times that is 270 x^4, and its derivative 1080 x^3.
    def inner(x: im.Tensor, y: im.Tensor) -> Any:
        return im.grad(lambda z: x * y * z * z)(five)

    def middle(x: im.Tensor) -> Any:
        return im.grad(lambda y: x * y * y * inner(x, y))(three)

    equals(im.grad(lambda x: x * x * middle(x))(two), 1080 * 8)


def test_a_derivative_inside_a_tape_is_recorded_by_it(device: im.Device) -> None:
    w = leaf(3.0, device)
    slope = im.grad(lambda x: w * x * x)(im.asarray(5.0, dtype="float64", device=device))
    assert slope.is_tracked
    equals(slope.backward()[w], 10)


def test_a_derivative_in_a_block_without_gradients_is_right_and_not_recorded() -> None:
    w, x = leaf(3.0), im.asarray(5.0, dtype="float64")
    with im.no_grad():
        value, slope = im.value_and_grad(lambda x: w * x * x)(x)
        direction = im.jvp(lambda x: w * x * x, [x], [x])[1]
    assert not value.is_tracked
    assert not slope.is_tracked
    equals(slope, 30)
    equals(direction, 150)


def test_what_is_handed_on_beside_a_value_has_no_record_of_its_own() -> None:
    x, w = im.asarray([1.0, 2.0], dtype="float64"), leaf(2.0)
    gradient, aux = im.grad(lambda x: (im.sum(x * x), {"squares": x * x, "name": "f"}), has_aux=True)(x)
    equals(gradient, [2, 4])
    equals(aux["squares"], [1, 4])
    assert (aux["squares"].is_tracked, aux["name"]) == (False, "f")
    _, aux = im.grad(lambda x: (im.sum(x * x), w * 3.0), has_aux=True)(x)
    equals(aux.backward()[w], 3)


def test_a_gradient_by_several_arguments_is_a_tuple_and_zero_where_nothing_depends(device: im.Device) -> None:
    x, y = (im.asarray(v, dtype="float64", device=device) for v in (2.0, 3.0))
    for g, wanted in zip(im.grad(lambda a, b, c: a * a, argnums=(0, 2))(x, x, y), (4, 0), strict=True):
        equals(g, wanted)
    equals(im.grad(lambda a, b: a * b, argnums=-1)(x, y), 2)


def test_products_with_jacobian_matrices_agree_from_both_sides(device: im.Device) -> None:
    x = im.asarray([1.0, 2.0, 4.0], dtype="float64", device=device)
    f = lambda x: im.stack([x[0] * x[1], x[1] * x[2] * x[2]])  # noqa: E731
    value, pull = im.vjp(f, x)
    equals(value, [2, 32])
    rows = [pull(im.asarray(v, dtype="float64", device=device))[0].numpy() for v in ([1.0, 0.0], [0.0, 1.0])]
    np.testing.assert_array_equal(rows, [[2, 1, 0], [0, 16, 16]])
    tangent = im.asarray([1.0, 0.5, -2.0], dtype="float64", device=device)
    equals(im.jvp(f, [x], [tangent])[1], np.asarray(rows) @ tangent.numpy())


def test_derivatives_of_functions_leave_no_record_and_nest_in_all_orders(device: im.Device) -> None:
    x = im.asarray([1.0, 2.0], dtype="float64", device=device)
    cube = lambda x: x**3  # noqa: E731
    with no_leaked_nodes(cycles=False):
        value, tangent = im.jvp(cube, [x], [x])
        others = [im.hvp(lambda x: im.sum(x**3), [x], [x])[0], im.hessian(lambda x: im.sum(x**3))(x), im.vjp(cube, x)[0]]
    assert not any(y.is_tracked for y in (value, tangent, *others))
    equals(im.jvp(lambda y: im.jvp(cube, [y], [y])[1], [x], [x])[1], [9, 72])
    equals(im.grad(lambda y: im.sum(im.jvp(cube, [y], [y])[1]))(x), [9, 36])
    equals(im.jvp(im.grad(lambda x: im.sum(x**3)), [x], [x])[1], [6, 24])
    equals(im.vjp(lambda y: im.vjp(cube, y)[1](y)[0], x)[1](x)[0], [9, 72])


def test_threads_differentiate_one_record_at_once() -> None:
    w = leaf([0.5, 2.0])
    y = im.sum(im.exp(w) * w)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: y.backward(retain_graph=True)[w].numpy().tolist(), range(100)))
    assert found == [found[0]] * 100


def test_results_that_are_integers_have_tangents_of_zero() -> None:
    x = im.asarray([1.0, 2.0], dtype="float64")
    squares, where = im.jvp(lambda x: (x * x, im.argmax(x)), [x], [x])[1]
    equals(squares, [2, 8])
    equals(where, 0)


def test_directional_derivatives_of_complex_functions_follow_the_direction() -> None:
    z, t = im.asarray(1.0 + 2.0j, dtype="complex128"), im.asarray(0.5 - 3.0j, dtype="complex128")
    equals(im.jvp(lambda z: z * z, [z], [t])[1], 2 * (1 + 2j) * (0.5 - 3j))
    # abs(z)^2 has the second derivative 2 in every direction.
    equals(im.hvp(lambda z: im.real(z * im.conj(z)), [z], [t])[0], 2 * (0.5 - 3j))


def test_second_derivatives_as_products_and_as_a_matrix(device: im.Device) -> None:
    x = im.asarray([[1.0, 2.0]], dtype="float64", device=device)
    f = lambda x: im.sum(x * x * x) + x[0, 0] * x[0, 1]  # noqa: E731
    matrix = im.hessian(f)(x)
    equals(matrix, np.asarray([[6, 1], [1, 12]]).reshape(1, 2, 1, 2))
    v = im.asarray([[3.0, -1.0]], dtype="float64", device=device)
    equals(im.hvp(f, [x], [v])[0], [[17, -9]])
    assert im.hessian(lambda x: im.sum(x * x))(im.ones(0)).shape == (0, 0)


# --- trees ---------------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass(frozen=True)
class Layer:
    weight: im.Tensor
    bias: im.Tensor | None
    width: int = 2


def test_trees_of_every_kind_have_gradients_of_their_own_form(device: im.Device) -> None:
    def number(value: float) -> im.Tensor:
        return im.asarray(value, dtype="float64", device=device)

    tree = {"a": [number(1.0), Pair(number(2.0), "text")], "b": (Layer(number(3.0), None), im.asarray([1, 2], device=device))}

    def f(tree: Any) -> im.Tensor:
        (x, (y, _)), (layer, _) = tree["a"], tree["b"]
        product: im.Tensor = x * y * layer.weight * layer.width
        return product

    found = im.grad(f)(tree)
    assert list(found) == ["a", "b"]
    equals(found["a"][0], 12)
    assert type(found["a"][1]) is Pair
    equals(found["a"][1].first, 6)
    assert found["a"][1].second == "text"
    layer = found["b"][0]
    assert (type(layer), layer.bias, layer.width) == (Layer, None, 2)
    equals(layer.weight, 4)


def test_results_may_be_trees_too() -> None:
    x = im.asarray([1.0, 2.0], dtype="float64")
    value, pull = im.vjp(lambda x: {"square": x * x, "sum": im.sum(x)}, x)
    equals(value["square"], [1, 4])
    ones = {"square": im.ones(2, dtype="float64"), "sum": im.asarray(10.0, dtype="float64")}
    equals(pull(ones)[0], [12, 14])


# --- devices -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", DEVICES)
def test_a_gradient_comes_back_over_the_devices_that_the_values_crossed(device: im.Device, other: str) -> None:
    x = leaf([1.0, 2.0], device)
    there = (x * x).to(other)
    y = (there * there).to(device) * x  # x^5
    gradient = y.backward()[x]
    equals(gradient, [5, 80])
    assert gradient.device == device
    second = im.grad(lambda x: im.sum(im.grad(lambda x: im.sum(((x * x).to(other) * 2.0).to(device) * x))(x)))
    equals(second(x.detach()), [12, 24])


# --- threads -------------------------------------------------------------------------------------------------------


def test_threads_record_and_differentiate_beside_each_other() -> None:
    w, gate = leaf([1.0, 2.0]), threading.Barrier(4)

    def work(k: int) -> tuple[bool, Any]:
        gate.wait()
        with im.no_grad() if k % 2 else nullcontext():
            recorded = (w * 2.0).is_tracked
        total = w * 0.0
        for _ in range(200):
            total = total + w * float(k)
        return recorded, total.backward()[w].numpy().tolist()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(4)))
    assert found == [(k % 2 == 0, [200.0 * k, 200.0 * k]) for k in range(4)]


# --- segments ------------------------------------------------------------------------------------------------------


def test_a_segment_gives_the_same_gradient_and_runs_its_inside_twice(device: im.Device) -> None:
    calls = []

    def block(p: dict[str, im.Tensor], k: float) -> im.Tensor:
        calls.append(autodiff.is_recording())
        return p["x"] * p["x"] * p["w"] * k

    tree = {"x": leaf([1.0, 2.0], device), "w": leaf([3.0, 5.0], device)}
    grads = im.sum(autodiff.segment(block)(tree, 2.0)).backward()
    equals(grads[tree["x"]], [12, 40])
    equals(grads[tree["w"]], [2, 8])
    assert calls == [False, True]


def test_random_ops_in_a_segment_draw_the_same_numbers_twice(device: im.Device) -> None:
    def noisy(x: im.Tensor) -> im.Tensor:
        return x * im.random.uniform(x.shape, dtype="float64", device=device) * im.random.dropout(x, rate=0.5)

    x = im.ones(64, dtype="float64", device=device).require_grad()
    y = autodiff.segment(noisy)(x)
    # y is a multiple of x^2, element by element, so that its derivative at one is 2 y; numbers drawn anew would differ.
    np.testing.assert_allclose(y.backward()[x].numpy(), 2 * y.numpy(), rtol=4 * np.finfo(np.float64).eps)


@pytest.mark.parametrize("steps", [0, 2])
def test_a_segment_says_that_it_closes_over_a_tracked_tensor(steps: int) -> None:
    w, x = leaf(2.0), leaf(3.0)
    for _ in range(steps):
        w = w * 2.0
    y = autodiff.segment(lambda x: x * w)(x)
    with pytest.raises(im.GradientError, match=r"^segment: the function closes over a tracked tensor.*Pass it as an argument"):
        y.backward()


def test_segments_are_differentiated_twice(device: im.Device) -> None:
    cube = autodiff.segment(lambda x: x * x * x)
    x = im.asarray([1.0, 2.0], dtype="float64", device=device)
    check_grad(lambda x: cube(x) * x, x, order=2)
    equals(im.grad(lambda x: im.sum(im.grad(lambda x: im.sum(cube(x)))(x)))(x), [6, 12])


# --- memory --------------------------------------------------------------------------------------------------------


def test_no_record_is_left_when_the_tensors_are_gone(device: im.Device) -> None:
    with no_leaked_nodes(cycles=False):
        x = leaf([1.0, 2.0], device)
        y = im.sum(im.exp(x) * x.to("numpy:cpu").to(device) + x[0] + im.stack([x, x])[1])
        del y, x
    with no_leaked_nodes(cycles=False):
        im.grad(lambda x: im.sum(im.exp(x) * x))(im.ones(2, device=device))
    with no_leaked_nodes(cycles=False):
        im.hessian(lambda x: im.sum(autodiff.segment(im.exp)(x) * x))(im.ones(2, device=device))


def test_after_backward_only_leaves_and_the_result_are_alive(device: im.Device) -> None:
    x = leaf([1.0, 2.0], device)
    gc.collect()
    before = {n.id for n in gc.get_objects() if type(n) is Node}
    y = im.sum(im.exp(x) * x + x)
    grads = y.backward()
    alive = [n.name for n in gc.get_objects() if type(n) is Node and n.id not in before]
    assert alive == ["sum"]
    equals(grads[x], (np.exp([1.0, 2.0]) * [2, 3] + 1))


def test_what_was_saved_is_freed_as_backward_goes() -> None:
    x = leaf(np.ones(4))
    alive: list[weakref.ref[Any]] = []
    counts = []
    h = x
    for _ in range(10):
        h = im.exp(h * 0.5)
        alive.append(weakref.ref(h._data.value))
        h.register_hook(lambda _: counts.append(sum(r() is not None for r in alive)))
    y = im.sum(h)
    del h
    y.backward()
    # The hook of a step runs when those behind it are through, each of whose value is gone by then.
    assert counts == list(range(10, 0, -1))


def test_a_record_of_a_hundred_thousand_ops_is_walked_and_dropped_without_recursion() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y + 1.0
    equals(y.backward(retain_graph=True)[x], 1)
    with no_leaked_nodes():
        z = x
        for _ in range(100_000):
            z = z * 1.0
        del z


# --- wrong uses ----------------------------------------------------------------------------------------------------

NUMBER = im.asarray(2.0)


def gradient_of_a_result() -> None:
    h = leaf(1.0) * 2.0
    (h * 2.0).backward()[h]


def hooked(hook: Callable[[im.Tensor], Any]) -> None:
    x = leaf([1.0, 2.0])
    x.register_hook(hook)
    x.backward()


def replacement_of_another_shape() -> None:
    x = leaf(1.0)
    (x * 2.0).backward().replace(x, im.ones(2))


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "backward of an untracked tensor": (
        NUMBER.backward,
        im.GradientError,
        r"^backward: this tensor was not computed from a tracked one\. Call require_grad\(\)",
    ),
    "a gradient of another shape": (
        lambda: (leaf([1.0, 2.0]) * 2.0).backward(im.ones(3)),
        im.ShapeError,
        r"^backward: the gradient has shape \(3,\), the tensor \(2,\)\. Give one of the tensor's shape",
    ),
    "require_grad of integers": (
        lambda: im.asarray([1, 2]).require_grad(),
        im.DTypeError,
        r"^require_grad: a int64 tensor has no derivative\. Cast it first, for example with im\.astype\(x, im\.float32\)",
    ),
    "the gradient of an untracked tensor": (
        lambda: (leaf(1.0) * NUMBER).backward()[NUMBER],
        im.GradientError,
        r"^this tensor is not tracked, so it has no gradient\. Compute with the tensor that x\.require_grad\(\) returns",
    ),
    "the gradient of a result that was not kept": (
        gradient_of_a_result,
        im.GradientError,
        r"^this tensor is a result of multiply, and gradients of results are not kept\. Call h\.retain_grad\(\)",
    ),
    "the gradient of a leaf that was not used": (
        lambda: (leaf(1.0) * 2.0).backward()[leaf(1.0)],
        im.GradientError,
        r"^the differentiated tensor does not depend on this one, so there is no gradient",
    ),
    "a loop over gradients": (
        lambda: list((leaf(1.0) * 2.0).backward()),
        im.GradientError,
        r"^Gradients are found by tensor: write grads\[x\]",
    ),
    "a replacement of another shape": (
        replacement_of_another_shape,
        im.ShapeError,
        r"^replace: the gradient is float32 of shape \(2,\), but the tensor's is float64 of shape \(\)\. Give one like it",
    ),
    "a hook on an untracked tensor": (
        lambda: NUMBER.register_hook(lambda g: g),
        im.GradientError,
        r"^register_hook: this tensor is not tracked\. Compute it from one that require_grad\(\) returned",
    ),
    "retain_grad of an untracked tensor": (NUMBER.retain_grad, im.GradientError, r"^retain_grad: this tensor is not"),
    "grad of a function with many results": (
        lambda: im.grad(lambda x: x * x)(im.ones(3)),
        im.ShapeError,
        r"^grad: the function returned a tensor of shape \(3,\); a gradient is of one number\. Reduce it, or use im\.vjp",
    ),
    "grad of a function without a tensor": (
        lambda: im.grad(lambda x: 3.0)(im.ones(3)),
        im.ShapeError,
        r"^grad: the function returned a float; a gradient is of one number",
    ),
    "grad of a complex number": (
        lambda: im.grad(lambda z: z * z)(im.asarray(1j)),
        im.DTypeError,
        r"^grad: the function returned a complex64 number, .*im\.real",
    ),
    "backward of complex numbers": (
        (im.asarray([1j]).require_grad() * 2.0).backward,
        im.DTypeError,
        r"^backward: the tensor is complex64, .*im\.real",
    ),
    "grad of an integer": (
        lambda: im.grad(im.argmax)(im.ones(3)),
        im.DTypeError,
        r"^grad: the function returned a int64 number, which has no derivative\. Return a floating-point number",
    ),
    "a tangent of another shape": (
        lambda: im.jvp(lambda p: p["a"] * 2.0, [{"a": NUMBER}], [{"a": im.ones(2)}]),
        im.ShapeError,
        r"^jvp: argument 0\['a'\] has shape \(\), its tangent shape \(2,\)\. Give tangents of the arguments' form",
    ),
    "a tangent of another form": (
        lambda: im.hvp(lambda p: p["a"] * 2.0, [{"a": NUMBER}], [[NUMBER]]),
        im.ShapeError,
        r"^hvp: argument 0\['a'\] has shape \(\), its tangent no tensor\. Give tangents of the arguments' form",
    ),
    "too few tangents": (
        lambda: im.jvp(lambda x: x, [NUMBER], []),
        im.ArgumentError,
        r"^jvp: there are 1 arguments and 0 tangents\. Give one for each",
    ),
    "the matrix of second derivatives by a complex tensor": (
        lambda: im.hessian(im.abs)(im.asarray(1j)),
        im.DTypeError,
        r"^hessian: argument 0 is complex64, .* Use im\.hvp",
    ),
    "a hook that answers with another shape": (
        lambda: hooked(im.sum),
        im.GradientError,
        r"^backward: a hook of leaf answered with a tensor of shape \(\) to a gradient of shape \(2,\)\. Return a tensor",
    ),
    "a hook that answers with a number": (
        lambda: hooked(lambda g: 3.0),
        im.GradientError,
        r"^backward: a hook of leaf answered with a float to a gradient of shape \(2,\)",
    ),
    "grad by an argument that is not there": (
        lambda: im.grad(lambda x: x, argnums=1)(NUMBER),
        im.ArgumentError,
        r"^grad: argnums has 1, but the function was called with 1 positional arguments",
    ),
    "grad by integers": (
        lambda: im.grad(im.sum)(im.asarray([1, 2])),
        im.GradientError,
        r"^grad: argument 0 has no floating-point tensor to differentiate by\. Make one with im\.asarray",
    ),
    "a gradient for another number of results": (
        lambda: im.vjp(lambda x: (x, x), NUMBER)[1](NUMBER),
        im.ArgumentError,
        r"^vjp: the function has 2 results, and 1 gradients were given",
    ),
    "a gradient of another shape than the result": (
        lambda: im.vjp(lambda x: x * x, NUMBER)[1](im.ones(2)),
        im.ShapeError,
        r"^vjp: the gradient has shape \(2,\), the tensor \(\)\. Give one of the tensor's shape",
    ),
    "hessian by a tree": (
        lambda: im.hessian(lambda d: d["x"])({"x": NUMBER}),
        im.ArgumentError,
        r"^hessian: argument 0 is a dict, not a tensor\. Use im\.hvp for trees",
    ),
    "an op without a derivative": (
        lambda: im.nextafter(leaf(1.0), leaf(2.0)).backward(),
        im.GradientError,
        r"^backward: nextafter has no derivative: ",
    ),
}


@pytest.mark.parametrize("use", WRONG)
def test_a_wrong_use_is_told_what_is_wrong_and_what_to_do(use: str) -> None:
    call, error, message = WRONG[use]
    with pytest.raises(error, match=message):
        call()


def test_a_seed_of_another_dtype_is_cast() -> None:
    x = im.asarray([1.0, 2.0]).require_grad()
    seed = im.asarray([1.0, 3.0], dtype="float64")
    for y in (x, x * 1.0):
        gradient = y.backward(seed)[x]
        assert gradient.dtype is im.float32
        equals(gradient, [1, 3])


@pytest.mark.skipif(find_spec("torch") is None, reason="needs a second engine")
def test_a_gradient_on_another_device_is_refused() -> None:
    with pytest.raises(im.DeviceError, match=r"torch:cpu"):
        (leaf([1.0]) * 2.0).backward(im.ones(1, dtype="float64", device="torch:cpu"))
