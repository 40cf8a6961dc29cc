"""Plans of the long way: kept for what comes again, and never seen in a result."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import intermodal as im
from intermodal import backend, config, plans
from intermodal.engines.numpy import NumpyBackend
from intermodal.ops.table import TABLE


@pytest.fixture(autouse=True)
def no_plans() -> Iterator[None]:
    plans.PLANS.clear()
    yield
    plans.PLANS.clear()


def rows() -> list[str]:
    return [plan.row.name for plan in plans.PLANS.values()]


def test_a_call_that_comes_again_has_a_plan(device: im.Device) -> None:
    x = im.asarray([[1.0, 2.0], [3.0, 4.0]], device=device)
    found = [im.sum(x, axis=0).tolist() for _ in range(4)]
    assert found == [[4.0, 6.0]] * 4
    assert rows() == ["sum"]
    assert im.sum(x, axis=1).tolist() == [3.0, 7.0]
    assert im.sum(x[:, :1], axis=0).tolist() == [4.0]


def test_plans_are_kept_up_to_the_limit() -> None:
    with config.scope(infer_cache=3):
        for n in range(1, 9):
            for _ in range(3):
                im.sum(im.ones(n))
            assert len(plans.PLANS) <= 3
    plans.PLANS.clear()
    with config.scope(infer_cache=0):
        for _ in range(3):
            im.sum(im.ones(9))
    assert rows() == []


def test_what_depends_on_a_setting_has_no_plan() -> None:
    x, y, mask = im.ones(2, dtype="int32"), im.ones(2, dtype="float32"), im.asarray([True, False])
    for _ in range(3):
        assert im.where(mask, x, y).dtype is im.float64
    with config.scope(promotion="strict"), pytest.raises(im.DTypeError):
        im.where(mask, x, y)


def test_what_is_cast_has_no_plan_of_the_whole() -> None:
    x, y, mask = im.ones(2, dtype="float64"), im.ones(2, dtype="float32"), im.asarray([True, False])
    for _ in range(3):
        assert im.where(mask, x, y).dtype is im.float64
    assert "where" not in rows()


def test_a_scalar_may_be_another_each_time(device: im.Device) -> None:
    x, mask = im.asarray([1.0, 2.0], dtype="float32", device=device), im.asarray([True, False], device=device)
    for value in (0.5, 1.5, 2.5, 7):
        assert im.where(mask, x, value).tolist() == [1.0, value]
        assert im.where(mask, x, value).dtype is im.float32


def test_equal_attributes_that_are_not_the_same_have_plans_of_their_own() -> None:
    x = im.ones(1)
    for _ in range(3):
        assert np.signbit(im.full_like(x, -0.0).numpy()[0])
        assert not np.signbit(im.full_like(x, 0.0).numpy()[0])
        assert im.nn.one_hot(im.asarray([0]), 1, dtype=im.int32).dtype is im.int32
        assert im.nn.one_hot(im.asarray([0]), 1, dtype=im.float32).dtype is im.float32
    keys = [plans.key_of(TABLE["sum"], (x,), {"a": a}, []) for a in (0, 0.0, -0.0, False, "0.0", None)]
    assert len(set(keys)) == 6


def test_a_view_that_a_plan_made_follows_its_source(device: im.Device) -> None:
    for n in range(4):
        x = im.zeros((2, 2), device=device)
        flat = im.reshape(x, (4,))
        flat[0] = float(n)
        assert x[0, 0].item() == n
        x[1, 1] = 9.0
        assert flat.tolist() == [n, 0.0, 0.0, 9.0]
    assert "reshape" in rows()


def test_autocast_is_asked_for_at_each_call() -> None:
    x = im.ones((2, 2))
    for _ in range(3):
        assert im.matmul(x, x).dtype is im.float32
        with im.autocast("bfloat16"):
            assert im.matmul(x, x).dtype is im.bfloat16
    assert rows().count("matmul") == 2


def test_errors_are_those_of_the_long_way() -> None:
    x = im.ones((2, 3))
    for _ in range(3):
        assert im.sum(x, axis=1).shape == (2,)
        with pytest.raises(im.IntermodalError, match=r"^sum: "):
            im.sum(x, axis=2)
        with pytest.raises(im.ArgumentError, match=r"^sum: "):
            im.sum(x, wrong=2)  # type: ignore[call-arg]


def test_an_engine_that_is_taken_out_leaves_no_plan_behind() -> None:
    class Other(NumpyBackend):
        engine = "other"

        def devices(self) -> tuple[im.Device, ...]:
            return (im.Device("other:cpu"),)

    backend.register("other", Other)
    try:
        x = im.ones(3, device="other:cpu")
        for _ in range(3):
            im.sum(x)
        assert rows() == ["sum"]
    finally:
        backend.unregister("other")
    assert rows() == []


# --- tracked -------------------------------------------------------------------------------------------------------


def test_a_planned_op_is_recorded_like_the_first_time(device: im.Device) -> None:
    x = im.asarray([[1.0, 2.0], [3.0, 4.0]], device=device)
    for _ in range(4):
        w = x.require_grad()
        value = im.prod(im.concat([w[:1], w[1:]], axis=0), axis=1)
        assert value.is_tracked
        assert im.sum(value).backward()[w].tolist() == [[2.0, 1.0], [4.0, 3.0]]
    assert {"prod", "concat", "sum"} <= set(rows())


def test_a_planned_op_is_not_recorded_where_nothing_is(device: im.Device) -> None:
    w = im.asarray([1.0, 2.0], device=device).require_grad()
    for _ in range(4):
        assert im.sum(w).is_tracked
        with im.no_grad():
            assert not im.sum(w).is_tracked
        assert not im.argmax(w).is_tracked


def test_a_planned_op_keeps_a_scalar_operand(device: im.Device) -> None:
    mask = im.asarray([True, False], device=device)
    for value in (0.5, 1.5, 2.5):
        w = im.asarray([1.0, 2.0], device=device).require_grad()
        assert im.sum(im.clip(w, 1.0, value + 1.0) * im.where(mask, w, value)).backward()[w].tolist()[0] == 2.0


def test_a_planned_op_is_kept_in_the_way_of_the_keeper(device: im.Device) -> None:
    x = im.asarray([[1.0, 2.0], [3.0, 4.0]], device=device)
    for _ in range(3):
        w = x.require_grad()
        with im.autodiff.checkpointing(im.autodiff.budget(10_000)):
            value = im.sum(im.matmul(w, im.matrix_transpose(w)))
        assert value.backward()[w].tolist() == [[8.0, 12.0], [8.0, 12.0]]


def test_the_first_of_several_results_alone_may_be_used(device: im.Device) -> None:
    for _ in range(3):
        w = im.asarray([[2.0, 0.0], [0.0, 3.0]], device=device).require_grad()
        parts = im.unstack(im.linalg.slogdet(w)[1] * im.ones(2, device=device))
        assert im.linalg.slogdet(w).logabsdet.backward()[w].tolist() == [[0.5, 0.0], [0.0, pytest.approx(1 / 3)]]
        assert parts[1].backward()[w].tolist() == [[0.5, 0.0], [0.0, pytest.approx(1 / 3)]]
