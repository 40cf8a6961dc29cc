"""Mixed precision: which ops compute in 16 bits, where the scope holds, and how a loss scale finds its size."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import intermodal as im
from intermodal.autodiff import budget, checkpointing, segment, trees
from intermodal.errors import DTypeError, InvalidValueError
from intermodal.ops.table import TABLE

LOW = ["float16", "bfloat16"]
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def on(device: im.Device, *shape: int, seed: int = 0) -> im.Tensor:
    return im.asarray(numbers(*shape, seed=seed), device=device)


# For each row that takes part: a call, and how many products of numbers below 1 a result is the sum of.
CALLS: dict[str, tuple[Callable[[im.Device], im.Tensor], int]] = {
    "matmul": (lambda d: im.matmul(on(d, 3, 8), on(d, 8, 4)), 8),
    "tensordot": (lambda d: im.tensordot(on(d, 3, 8), on(d, 8, 4), axes=1), 8),
    "vecdot": (lambda d: im.vecdot(on(d, 3, 8), on(d, 3, 8, seed=1)), 8),
    "einsum": (lambda d: im.einsum("ij,jk->ik", on(d, 3, 8), on(d, 8, 4)), 8),
    "linear": (lambda d: im.nn.linear(on(d, 3, 8), on(d, 4, 8), on(d, 4)), 9),
    "attention": (lambda d: im.nn.attention(on(d, 1, 4, 8), on(d, 1, 4, 8, seed=1), on(d, 1, 4, 8, seed=2)), 12),
    "conv": (lambda d: im.nn.conv(on(d, 1, 2, 6), on(d, 3, 2, 3)), 6),
    "conv1d": (lambda d: im.nn.conv1d(on(d, 1, 2, 6), on(d, 3, 2, 3)), 6),
    "conv2d": (lambda d: im.nn.conv2d(on(d, 1, 2, 6, 6), on(d, 3, 2, 3, 3), on(d, 3)), 19),
    "conv3d": (lambda d: im.nn.conv3d(on(d, 1, 2, 4, 4, 4), on(d, 3, 2, 2, 2, 2)), 16),
    "conv_transpose": (lambda d: im.nn.conv_transpose(on(d, 1, 2, 6), on(d, 2, 3, 3)), 6),
    "conv_transpose1d": (lambda d: im.nn.conv_transpose1d(on(d, 1, 2, 6), on(d, 2, 3, 3)), 6),
    "conv_transpose2d": (lambda d: im.nn.conv_transpose2d(on(d, 1, 2, 6, 6), on(d, 2, 3, 3, 3)), 18),
    "conv_transpose3d": (lambda d: im.nn.conv_transpose3d(on(d, 1, 2, 4, 4, 4), on(d, 2, 3, 2, 2, 2)), 16),
}


def test_there_is_a_call_here_for_every_row_that_takes_part() -> None:
    assert {row.name for row in TABLE.values() if row.autocast} == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", LOW)
def test_a_row_that_multiplies_matrices_computes_in_the_low_dtype_close_to_float32(
    name: str, dtype: str, device: im.Device
) -> None:
    call, terms = CALLS[name]
    plain = call(device)
    with im.autocast(dtype):
        found = call(device)
    assert (plain.dtype, str(found.dtype)) == (im.float32, dtype)
    # Both factors of each product are rounded, and the sum after each of them at most, all below the number of terms.
    np.testing.assert_allclose(found.numpy().astype("f"), plain.numpy(), rtol=0, atol=terms * (terms + 2) * EPS[dtype])
    assert np.any(found.numpy().astype("f") != plain.numpy())


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + x,
        im.exp,
        im.sum,
        im.nn.softmax,
        im.linalg.inv,
        im.linalg.pinv,
        lambda x: im.linalg.matrix_power(x, 3),
        im.nn.layer_norm,
        lambda x: im.nn.max_pool2d(x[None, None], kernel_size=2),
    ],
)
def test_every_other_op_gives_what_it_gives_without_the_scope(call: Callable[[im.Tensor], im.Tensor], device: im.Device) -> None:
    x = on(device, 4, 4)
    plain = call(x)
    with im.autocast("bfloat16"):
        found = call(x)
    assert found.dtype is im.float32
    np.testing.assert_array_equal(found.numpy(), plain.numpy())


def test_the_operator_the_function_and_the_method_agree_inside_and_outside(device: im.Device) -> None:
    x = on(device, 3, 3)
    for y in (x, x.require_grad()):
        with im.autocast("float16"):
            assert [t.dtype for t in (y @ y, im.matmul(y, y), y.dot(y))] == [im.float16] * 3
        assert [t.dtype for t in (y @ y, im.matmul(y, y), y.dot(y))] == [im.float32] * 3


def test_the_operator_is_guarded_in_places_that_are_made_after_the_first_use() -> None:
    code = """
import intermodal as im
with im.autocast("float16"):
    pass
x = im.ones((2, 2), dtype="float32", device="numpy:cpu")
y = im.ones((2, 2), dtype="bfloat16").require_grad()
print((x @ x).dtype, (y @ y).dtype)
with im.autocast("float16"):
    print((x @ x).dtype, (y @ y).dtype, (x.require_grad() @ x).dtype)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["float32 bfloat16", "float16 float16 float16"]


@pytest.mark.parametrize("dtype", ["float64", "complex64", "complex128"])
def test_where_an_operand_is_wider_or_complex_nothing_is_cast(dtype: str, device: im.Device) -> None:
    x, y = on(device, 3, 3), im.ones((3, 3), dtype=dtype, device=device)
    plain = im.matmul(x, y)
    with im.autocast("bfloat16"):
        np.testing.assert_array_equal(im.matmul(x, y).numpy(), plain.numpy())
        assert im.matmul(y, y).dtype is y.dtype


def test_integers_are_multiplied_as_integers(device: im.Device) -> None:
    x = im.asarray([[1, 2], [3, 4]], device=device)
    with im.autocast("float16"):
        assert (x @ x).dtype is x.dtype


def test_sixteen_bits_of_the_other_kind_are_brought_over(device: im.Device) -> None:
    x, y = im.ones((2, 2), dtype="float16", device=device), im.ones((2, 2), device=device)
    with im.autocast("bfloat16"):
        assert im.matmul(x, y).dtype is im.bfloat16


# --- the scope -----------------------------------------------------------------------------------------------------


def test_scopes_nest_and_none_switches_off(device: im.Device) -> None:
    x = on(device, 2, 2)
    found = []
    with im.autocast("bfloat16"):
        found.append((x @ x).dtype)
        with im.autocast("float16"):
            found.append((x @ x).dtype)
            with im.autocast(None):
                found.append((x @ x).dtype)
            found.append((x @ x).dtype)
        found.append((x @ x).dtype)
    assert found == [im.bfloat16, im.float16, im.float32, im.float16, im.bfloat16]
    assert (x @ x).dtype is im.float32


def test_a_scope_ends_where_an_error_leaves_it(device: im.Device) -> None:
    x = on(device, 2, 2)
    with pytest.raises(KeyError), im.autocast("float16"):
        raise KeyError
    assert (x @ x).dtype is im.float32


def test_a_function_is_decorated_for_each_of_its_calls(device: im.Device) -> None:
    @im.autocast("float16")
    def power(x: im.Tensor, n: int) -> im.Tensor:
        return x if n == 1 else power(x, n - 1) @ x

    x = on(device, 2, 2)
    assert [power(x, 3).dtype, power(x, 2).dtype, (x @ x).dtype] == [im.float16, im.float16, im.float32]


def test_a_scope_holds_for_its_thread_alone(device: im.Device) -> None:
    x, found = on(device, 2, 2), []
    with im.autocast("float16"):
        thread = threading.Thread(target=lambda: found.append((x @ x).dtype))
        thread.start()
        thread.join()
        found.append((x @ x).dtype)
    assert found == [im.float32, im.float16]


def test_a_scope_holds_for_its_task_alone(device: im.Device) -> None:
    x = on(device, 2, 2)

    async def inside(entered: asyncio.Event, done: asyncio.Event) -> object:
        with im.autocast("float16"):
            entered.set()
            await done.wait()
            return (x @ x).dtype

    async def outside(entered: asyncio.Event, done: asyncio.Event) -> object:
        await entered.wait()
        found = (x @ x).dtype
        done.set()
        return found

    async def both() -> list[object]:
        entered, done = asyncio.Event(), asyncio.Event()
        return list(await asyncio.gather(inside(entered, done), outside(entered, done)))

    assert asyncio.run(both()) == [im.float16, im.float32]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "complex64", "float8_e5m2"])
def test_a_dtype_that_is_no_float_of_16_bits_is_refused(dtype: str) -> None:
    with pytest.raises(DTypeError, match=f"autocast: {dtype} is no dtype to compute matrices in"):
        im.autocast(dtype)


# --- derivatives ---------------------------------------------------------------------------------------------------


def loss(w: im.Tensor, x: im.Tensor) -> im.Tensor:
    return im.mean(im.tanh(x @ w).astype("float32") ** 2)


@pytest.mark.parametrize("dtype", LOW)
def test_gradients_come_back_in_the_parameters_dtype_close_to_float32(dtype: str, device: im.Device) -> None:
    w, x = on(device, 8, 4), on(device, 16, 8, seed=1)
    plain = im.grad(loss)(w, x)
    with im.autocast(dtype):
        found = im.grad(loss)(w, x)
    assert found.dtype is im.float32
    # The gradient is a mean of sums of 16 products; operands, results and gradients are rounded, some 8 times in all.
    np.testing.assert_allclose(found.numpy(), plain.numpy(), rtol=0, atol=8 * EPS[dtype] * 16 / 64 * 4)
    assert np.any(found.numpy() != plain.numpy())


def test_backward_gives_the_same_inside_and_outside_the_scope(device: im.Device) -> None:
    w, x = on(device, 8, 4).require_grad(), on(device, 16, 8, seed=1)
    with im.autocast("bfloat16"):
        y = loss(w, x)
        inside = y.backward(retain_graph=True)[w]
    np.testing.assert_array_equal(y.backward()[w].numpy(), inside.numpy())
    plain = loss(w, x)
    with im.autocast("bfloat16"):
        late = plain.backward(retain_graph=True)[w]
    np.testing.assert_array_equal(late.numpy(), plain.backward()[w].numpy())


@pytest.mark.parametrize("forward", [True, False], ids=["recorded inside", "recorded outside"])
def test_what_is_computed_again_has_the_dtypes_it_had(forward: bool, device: im.Device) -> None:
    w, x = on(device, 8, 8).require_grad(), on(device, 16, 8, seed=1)

    def program(w: im.Tensor) -> im.Tensor:
        h = x
        for _ in range(6):
            h = im.tanh(h @ w)
        return im.mean(h.astype("float32"))

    def scope(on: bool) -> Any:
        return im.autocast("bfloat16" if on else None)

    with scope(forward), checkpointing("none") as everything:
        plain = program(w).backward()[w]
    for strategy in ("balanced", budget(everything.peak // 2)):
        with scope(forward), checkpointing(strategy) as report:
            y = program(w)
        with scope(not forward):
            np.testing.assert_array_equal(y.backward()[w].numpy(), plain.numpy())
        assert report.recomputations > 0
    with scope(forward):
        y = segment(program)(w)
    with scope(not forward):
        np.testing.assert_array_equal(y.backward()[w].numpy(), plain.numpy())


# --- the scale of a loss -------------------------------------------------------------------------------------------


def test_a_scale_is_taken_off_gradients_exactly(device: im.Device) -> None:
    scale, w = im.optim.LossScale(2.0**12), on(device, 5)
    plain = im.grad(lambda w: im.sum(w**3))(w)
    grads, is_finite, _ = scale.unscale(im.grad(lambda w: scale.scale(im.sum(w**3)))(w))
    assert is_finite is True
    np.testing.assert_array_equal(grads.numpy(), plain.numpy())


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
def test_gradients_that_are_not_finite_halve_the_scale_and_the_good_steps_are_counted_anew(bad: float, device: im.Device) -> None:
    scale = im.optim.LossScale(8.0, interval=3, good=2)
    grads = {"a": im.ones(3, device=device), "b": [im.asarray([1.0, bad], device=device), im.arange(2, device=device)]}
    _, is_finite, after = scale.unscale(grads)
    assert (is_finite, after) == (False, im.optim.LossScale(4.0, interval=3, good=0))
    assert scale == im.optim.LossScale(8.0, interval=3, good=2)


def test_enough_good_steps_double_the_scale(device: im.Device) -> None:
    scale, values = im.optim.LossScale(4.0, interval=3), []
    for _ in range(7):
        _, _, scale = scale.unscale(im.ones(2, device=device))
        values.append(scale.value)
    assert values == [4.0, 4.0, 8.0, 8.0, 8.0, 16.0, 16.0]


def test_a_scale_stays_within_its_bounds(device: im.Device) -> None:
    low, high = im.optim.LossScale(2.0**-24), im.optim.LossScale(2.0**24, interval=1)
    assert low.unscale(im.asarray([float("nan")], device=device))[2].value == 2.0**-24
    assert high.unscale(im.ones(1, device=device))[2].value == 2.0**24


@pytest.mark.parametrize("wrong", [{"value": 0.0}, {"value": -1.0}, {"value": float("inf")}, {"interval": 0}])
def test_a_scale_without_meaning_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match="LossScale"):
        im.optim.LossScale(**wrong)


def test_training_in_float16_skips_steps_that_overflow_and_then_learns(device: im.Device) -> None:
    """A loss whose gradients pass float16's largest number at first: 2^24 * 4 / 16 > 65504."""
    x, wanted = on(device, 64, 8, seed=1), on(device, 8, 2, seed=2)
    params: Any = {"w": im.zeros((8, 2), device=device)}
    scale, optimizer = im.optim.LossScale(2.0**24), im.optim.Adam(0.05)
    state, skipped, losses = optimizer.init(params), 0, []

    def scaled(params: Any, scale: im.optim.LossScale) -> tuple[im.Tensor, im.Tensor]:
        with im.autocast("float16"):
            off = (x @ params["w"]).astype("float32") - (x @ wanted).astype("float32")
        value = im.mean(off**2)
        return scale.scale(value), value

    for _ in range(150):
        grads, value = im.grad(scaled, has_aux=True)(params, scale)
        grads, is_finite, scale = scale.unscale(grads)
        losses.append(float(value))
        if is_finite:
            params, state = optimizer.update(params, grads, state)
        else:
            skipped += 1
    assert 0 < skipped < 20
    assert state.step == 150 - skipped
    assert losses[skipped] == losses[0]  # until then no parameter has moved
    assert all(np.isfinite(p.numpy()).all() for p in trees.leaves(params))
    # What is left of a perfect fit are the roundings of float16: some 1e-3 of numbers of size 1, squared.
    assert losses[-1] < 1e-3 * losses[0]
    assert params["w"].dtype is im.float32
