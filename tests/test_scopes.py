"""Scopes beside each other: threads, tasks, executors and generators, each with its own device, in one process."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, strategies as st

import intermodal as im
from intermodal import backend, config
from intermodal.engines.numpy import NumpyBackend
from intermodal.testing.__main__ import main

ROUNDS = 20


class OtherBackend(NumpyBackend):
    """NumPy under another name: a further device that computes, also where no other engine is installed."""

    engine = "other"

    def devices(self) -> tuple[im.Device, ...]:
        return (im.Device("other:cpu"),)


DEVICES = ["numpy:cpu", "meta:cpu", "other:cpu", *(f"{e}:cpu" for e in ("torch", "jax") if find_spec(e))]


@pytest.fixture(autouse=True)
def other_engine() -> Iterator[None]:
    backend.register("other", OtherBackend)
    yield
    backend.unregister("other")
    assert config.get("device") == "numpy:cpu"  # nobody has left a scope open


def in_threads(*programs: Callable[[], None]) -> None:
    """Run programs at the same time; what one of them raises is raised here."""
    with ThreadPoolExecutor(len(programs)) as pool:
        for done in [pool.submit(program) for program in programs]:
            done.result()


def check(device: str, n: int) -> None:
    """Create, compute and draw without naming a device: everything lands on the scope's."""
    x = im.arange(n, dtype="float32")
    y = im.exp(x * 2.0 - x) + im.ones(n)
    z = im.random.uniform((n,))
    assert [t.device for t in (x, y, z, im.mean(y), im.asarray([1.0, 2.0]))] == [device] * 5
    if device != "meta:cpu":
        # exp is right to 2 units in the last place on every engine here, and the sum rounds once more.
        np.testing.assert_allclose(y.numpy(), np.exp(np.arange(n)) + 1, rtol=4 * np.finfo(np.float32).eps)


# --- threads -----------------------------------------------------------------------------------------------------


def test_threads_with_different_devices_do_not_disturb_each_other() -> None:
    barrier = threading.Barrier(len(DEVICES), timeout=60)

    def program(own: str, foreign: str) -> Callable[[], None]:
        def run() -> None:
            with config.scope(device=own):
                for i in range(ROUNDS):
                    barrier.wait()  # all are inside their scopes now
                    check(own, 1 + i % 5)
                    with config.scope(device=foreign):
                        barrier.wait()
                        check(foreign, 2)
                    check(own, 3)
            assert im.default_device() == "numpy:cpu"

        return run

    in_threads(*(program(own, DEVICES[i - 1]) for i, own in enumerate(DEVICES)))


def test_a_thread_starts_without_the_scope_of_the_one_that_starts_it() -> None:
    with config.scope(device="other"):
        in_threads(lambda: check("numpy:cpu", 2))
        check("other:cpu", 2)


def test_a_context_takes_the_scope_into_a_thread() -> None:
    with config.scope(device="other"):
        context = contextvars.copy_context()
    in_threads(lambda: context.run(check, "other:cpu", 2))


def test_the_setting_of_the_process_does_not_reach_into_a_scope() -> None:
    inside, changed = threading.Event(), threading.Event()

    def scoped() -> None:
        with config.scope(device="other"):
            inside.set()
            assert changed.wait(60)
            check("other:cpu", 2)
        assert im.zeros(1).device == "meta:cpu"

    def process() -> None:
        assert inside.wait(60)
        config.set(device="meta")
        changed.set()

    try:
        in_threads(scoped, process)
    finally:
        config.set(device=None)


def test_what_one_thread_computed_under_a_setting_is_not_the_answer_for_another() -> None:
    # Both ask for the same op on the same shape and dtype, and answers of rules are kept: strict must raise all the same.
    barrier = threading.Barrier(2, timeout=60)
    x = im.ones(3, dtype="int32")

    def strict() -> None:
        with config.scope(promotion="strict"):
            for _ in range(ROUNDS):
                barrier.wait()
                with pytest.raises(im.DTypeError):
                    im.exp(x)
                with pytest.raises(im.DTypeError):
                    x + 1.5

    def loose() -> None:
        with config.scope(default_float="float64"):
            for _ in range(ROUNDS):
                barrier.wait()
                assert (im.exp(x).dtype, (x + 1.5).dtype, im.zeros(1).dtype) == (im.float64, im.float64, im.float64)

    in_threads(strict, loose)


# --- tasks -------------------------------------------------------------------------------------------------------


async def task(own: str, foreign: str) -> None:
    with config.scope(device=own):
        for i in range(ROUNDS):
            await asyncio.sleep(0)  # the others run here
            check(own, 1 + i % 5)
            with config.scope(device=foreign):
                await asyncio.sleep(0)
                check(foreign, 2)
            await asyncio.sleep(0)
            check(own, 3)


def test_tasks_with_different_devices_do_not_disturb_each_other() -> None:
    async def program() -> None:
        async with asyncio.TaskGroup() as group:
            for i, own in enumerate(DEVICES * 2):
                group.create_task(task(own, DEVICES[i % len(DEVICES) - 1]))
        check("numpy:cpu", 2)

    asyncio.run(program())


def test_loops_in_threads_and_a_plain_thread_do_not_disturb_each_other() -> None:
    async def both(own: str) -> None:
        await asyncio.gather(*(task(own, foreign) for foreign in DEVICES))

    def plain() -> None:
        with config.scope(device="other"):
            for _ in range(ROUNDS):
                check("other:cpu", 4)

    in_threads(plain, *(lambda own=own: asyncio.run(both(own)) for own in DEVICES[:3]))  # type: ignore[misc]


def test_a_task_starts_in_the_scope_where_it_was_made_and_keeps_it() -> None:
    async def child(ready: asyncio.Event) -> None:
        check("other:cpu", 2)
        await ready.wait()
        check("other:cpu", 2)  # the parent has left its scope meanwhile

    async def program() -> None:
        ready = asyncio.Event()
        with config.scope(device="other"):
            made = asyncio.create_task(child(ready))
            await asyncio.sleep(0)
        with config.scope(device="meta"):
            ready.set()
            await made
            check("meta:cpu", 2)

    asyncio.run(program())


def test_to_thread_takes_the_scope_along_and_an_executor_does_not() -> None:
    async def program() -> None:
        with config.scope(device="other"):
            await asyncio.to_thread(check, "other:cpu", 2)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, check, "numpy:cpu", 2)
            await loop.run_in_executor(None, contextvars.copy_context().run, check, "other:cpu", 2)
            check("other:cpu", 2)

    asyncio.run(program())


def test_a_scope_in_a_worker_thread_does_not_come_back_to_the_task() -> None:
    def work() -> None:
        with config.scope(device="meta"):
            check("meta:cpu", 2)

    async def program() -> None:
        with config.scope(device="other"):
            await asyncio.gather(*(asyncio.to_thread(work) for _ in range(4)))
            check("other:cpu", 2)

    asyncio.run(program())


def test_a_cancelled_task_leaves_its_scope_and_the_others_stay_in_theirs() -> None:
    async def endless() -> None:
        with config.scope(device="meta"):
            try:
                with config.scope(device="other"):
                    await asyncio.Event().wait()
            finally:
                check("meta:cpu", 2)

    async def program() -> None:
        with config.scope(device="other"):
            made = asyncio.create_task(endless())
            await asyncio.sleep(0)
            made.cancel()
            with pytest.raises(asyncio.CancelledError):
                await made
            check("other:cpu", 2)

    asyncio.run(program())


# --- leaving a scope ---------------------------------------------------------------------------------------------


def test_an_exception_leaves_every_scope_that_it_passes() -> None:
    with config.scope(device="other"):
        with pytest.raises(im.ShapeError), config.scope(device="meta"), config.scope(default_float="float64"):  # noqa: PT012
            assert im.zeros(2).dtype is im.float64
            im.zeros((2, 3)) @ im.zeros((2, 3))
        check("other:cpu", 2)
        assert im.zeros(2).dtype is im.float32


def test_a_scope_with_one_wrong_value_changes_nothing() -> None:
    with pytest.raises(im.InvalidValueError, match="promotion"), config.scope(device="meta", promotion="often"):
        pass
    assert im.default_device() == "numpy:cpu"


def test_scopes_that_a_stack_opens_are_closed_in_turn() -> None:
    with ExitStack() as stack:
        for device in DEVICES:
            stack.enter_context(config.scope(device=device))
            check(device, 2)
    check("numpy:cpu", 2)


# --- generators: Python gives them no context of their own ---------------------------------------------------------


def yielding(device: str) -> Iterator[im.Tensor]:
    with config.scope(device=device):
        yield im.zeros(1)
        yield im.zeros(1)


def test_a_scope_that_a_generator_holds_open_holds_for_its_caller_until_it_ends() -> None:
    tensors = yielding("other")
    assert next(tensors).device == "other:cpu"
    assert im.default_device() == "other:cpu"
    tensors.close()
    assert im.default_device() == "numpy:cpu"
    assert [t.device for t in yielding("meta")] == ["meta:cpu", "meta:cpu"]
    assert im.default_device() == "numpy:cpu"


def test_a_generator_is_run_in_a_scope_by_whoever_asks_it() -> None:
    def plain() -> Iterator[im.Tensor]:
        while True:
            yield im.zeros(1)

    tensors = plain()
    for device in DEVICES:
        with config.scope(device=device):
            assert next(tensors).device == device


def test_a_generator_that_another_thread_ends_says_where_its_scope_was_opened() -> None:
    tensors = yielding("other")

    def end() -> None:
        with pytest.raises(im.InvalidValueError, match="scope: it was opened in another thread or task"):
            tensors.close()
        assert im.default_device() == "numpy:cpu"

    context = contextvars.copy_context()
    context.run(next, tensors)
    in_threads(end)
    assert context.run(im.default_device) == "other:cpu"


def test_an_asynchronous_generator_holds_its_scope_for_its_own_task_alone() -> None:
    async def tensors() -> AsyncIterator[im.Tensor]:
        with config.scope(device="other"):
            for _ in range(ROUNDS):
                await asyncio.sleep(0)
                yield im.zeros(1)

    async def reading() -> None:
        async for tensor in tensors():
            assert tensor.device == "other:cpu"
        check("numpy:cpu", 2)

    async def program() -> None:
        await asyncio.gather(reading(), task("meta:cpu", "numpy:cpu"), reading())

    asyncio.run(program())


# --- the law -----------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["numpy:cpu", "meta:cpu", "other:cpu", None])), max_size=30))
def test_each_context_sees_its_own_innermost_scope_in_whatever_order_they_open_and_close(
    steps: list[tuple[int, str | None]],
) -> None:
    contexts = [contextvars.Context() for _ in range(3)]
    scopes: list[list[tuple[str, AbstractContextManager[None]]]] = [[], [], []]

    def leave(i: int) -> None:
        contexts[i].run(scopes[i].pop()[1].__exit__, None, None, None)

    for i, device in steps:
        if device is not None:
            scopes[i].append((device, config.scope(device=device)))
            contexts[i].run(scopes[i][-1][1].__enter__)
        elif scopes[i]:
            leave(i)
        for context, opened in zip(contexts, scopes, strict=True):
            assert context.run(im.zeros, 1).device == (opened[-1][0] if opened else "numpy:cpu")
    for i, opened in enumerate(scopes):
        while opened:
            leave(i)
        assert contexts[i].run(im.default_device) == "numpy:cpu"


# --- the conformance kit on one engine after the other -----------------------------------------------------------


def test_the_kit_tests_several_engines_in_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    devices = [d for d in DEVICES if d != "meta:cpu"]
    ops = ["add", "exp", "sum", "sort", "take", "nn.softmax", "random.uniform"]
    assert main([*devices, *devices[:1], "--ops", ",".join(ops), "--dtypes", "float32", "--quick"]) == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if " ops, " in line]
    assert [line.partition(" (")[0] for line in shown] == [*devices, devices[0]]


def test_the_kit_fails_if_one_of_several_engines_does(capsys: pytest.CaptureFixture[str]) -> None:
    class WrongBackend(OtherBackend):
        natives = {**NumpyBackend.natives, "exp": np.exp2}

    backend.unregister("other")
    backend.register("other", WrongBackend)
    assert main(["numpy", "other", "numpy", "--ops", "exp", "--dtypes", "float32", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [(r["device"], r["ok"]) for r in found] == [("numpy:cpu", True), ("other:cpu", False), ("numpy:cpu", True)]


def test_the_kit_asks_whether_every_device_is_there_before_it_tests_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["numpy", "nowhere", "--quick"]) == 2
    assert "there is no engine 'nowhere'" in capsys.readouterr().err
