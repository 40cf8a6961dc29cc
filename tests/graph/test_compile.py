"""`im.compile`: what it captures, when it captures again, what it keeps, and that its answers are the eager ones."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import intermodal as im
from intermodal import config
from intermodal.dtypes import as_dtype
from intermodal.engines.numpy import NumpyBackend
from intermodal.errors import (
    ArgumentError,
    CaptureError,
    DeviceMismatchError,
    ExecutionError,
    GraphError,
    LifecycleError,
    ShapeError,
    UnsupportedError,
)
from intermodal.graph.program import lowered

ENGINES = ["numpy", *(e for e in ("torch", "jax", "onnx") if find_spec({"onnx": "onnxruntime"}.get(e, e)))]


@pytest.fixture(params=ENGINES)
def device(request: pytest.FixtureRequest) -> im.Device:
    """Each engine that is installed: each compiles in its own way."""
    return im.Device(f"{request.param}:cpu")


def counted(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[None]]:
    """A function, and a list that grows when it is called."""
    calls: list[None] = []

    def counting(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        return function(*args, **kwargs)

    return counting, calls


def same(got: im.Tensor, want: im.Tensor) -> bool:
    """Whether all is equal: dtype, shape, elements, signs of zeros. The bits of a NaN say nothing."""
    a, b = got.numpy(), want.numpy()
    if (got.dtype, a.dtype, a.shape) != (want.dtype, b.dtype, b.shape):
        return False
    if not got.dtype.is_floating:
        return a.tobytes() == b.tobytes()
    a, b = a.astype("float64"), b.astype("float64")
    return np.array_equal(a, b, equal_nan=True) and bool((np.isnan(a) | (np.signbit(a) == np.signbit(b))).all())


# --- the call ------------------------------------------------------------------------------------------------------


def test_a_decorator_and_a_call_are_the_same() -> None:
    @im.compile
    def plain(x: im.Tensor) -> im.Tensor:
        """Twice."""
        return x * 2

    @im.compile(fallback="eager")
    def with_options(x: im.Tensor) -> im.Tensor:
        return x * 2

    x = im.ones(3)
    assert plain(x).tolist() == with_options(x).tolist() == im.compile(lambda x: x * 2)(x).tolist() == [2, 2, 2]
    assert (plain.__name__, plain.__doc__) == ("plain", "Twice.")
    assert repr(plain) == "<compiled plain: 1 signatures>"


class Pair(NamedTuple):
    first: im.Tensor
    second: Any


@dataclass
class Layer:
    weight: im.Tensor
    size: int = 2

    @im.compile
    def apply(self, x: im.Tensor) -> im.Tensor:
        return x * self.weight + self.size


def test_trees_go_in_and_come_out(device: im.Device) -> None:
    @im.compile
    def swapped(tree: dict[str, Any], *, extra: Pair) -> dict[str, Any]:
        layer = tree["layer"]
        return {"a": [layer.weight + 1, None], "b": Pair(extra.first * layer.size, "text"), "c": (extra.second, 3.5)}

    def ones(n: int) -> im.Tensor:
        return im.ones(n, device=device)

    found = swapped({"layer": Layer(ones(2))}, extra=Pair(ones(3), ones(1)))
    assert list(found) == ["a", "b", "c"]
    assert found["a"][0].tolist() == [2, 2]
    assert found["a"][1] is None
    assert isinstance(found["b"], Pair)
    assert (found["b"].first.tolist(), found["b"].second) == ([2, 2, 2], "text")
    assert (found["c"][0].tolist(), found["c"][1]) == ([1], 3.5)
    assert all(t.device is device for t in (found["a"][0], found["b"].first))


def test_a_method_takes_its_object_as_an_argument() -> None:
    layer = Layer(im.ones(2))
    assert layer.apply(im.ones(2)).tolist() == [3, 3]
    layer.size = 5
    assert layer.apply(im.ones(2)).tolist() == [6, 6]
    assert Layer.apply(Layer(im.zeros(2)), im.ones(2)).tolist() == [2, 2]


# --- when it is captured again ---------------------------------------------------------------------------------------


def test_other_values_are_part_of_the_program() -> None:
    function, calls = counted(lambda x, s: x * s)
    compiled = im.compile(function)
    x = im.ones(2, dtype="float64")
    results = [compiled(x, s).numpy() for s in (2, 2, 3, 2.0, True, 0.0, -0.0, float("nan"), float("nan"))]
    assert len(calls) == len(compiled.entries) == 7  # 2, 3, 2.0, True, both zeros, NaN
    assert [r[0] for r in results[:5]] == [2, 2, 3, 2, 1]
    assert not np.signbit(results[5]).any()
    assert np.signbit(results[6]).all()
    assert np.isnan(results[7]).all()


def test_shapes_dtypes_and_devices_are_captured_apart(device: im.Device) -> None:
    function, calls = counted(lambda x: x + x)
    compiled = im.compile(function)
    for shape in ((2,), (3,), (2,), (), (0,)):
        for dtype in ("float32", "int64"):
            assert same(compiled(im.ones(shape, dtype=dtype, device=device)), im.full(shape, 2, dtype=dtype, device=device))
    assert len(calls) == len(compiled.entries) == 8
    assert sum(e.calls for e in compiled.entries) == 10
    assert compiled.entries[0].device is device


def test_settings_that_a_function_reads_are_part_of_the_key() -> None:
    made = im.compile(lambda x: x + im.zeros(1))
    x = im.ones(2, dtype="bfloat16")
    assert made(x).dtype is im.float32
    with config.scope(default_float="float64"):
        assert made(x).dtype is im.float64
    assert made(x).dtype is im.float32
    product = im.compile(lambda x: x @ x)
    matrix = im.ones((2, 2))
    assert product(matrix).dtype is im.float32
    with im.autocast("bfloat16"):
        assert product(matrix).dtype is (matrix @ matrix).dtype is im.bfloat16
    assert product(matrix).dtype is im.float32


def test_the_cache_is_bounded_and_the_least_recently_used_goes() -> None:
    function, calls = counted(lambda x: x + 1)
    compiled = im.compile(function)
    with config.scope(compile_cache=2):
        for n in (1, 2, 1, 3):  # 3 takes the place of 2
            compiled(im.ones(n))
        assert [e.signature for e in compiled.entries] == ["float32[1]", "float32[3]"]
        compiled(im.ones(1))
        assert len(calls) == 3
        compiled(im.ones(2))
        assert len(calls) == 4
    compiled.clear()
    assert compiled.entries == []
    compiled(im.ones(1))
    assert len(calls) == 5


def test_entries_tell_what_was_captured() -> None:
    compiled = im.compile(lambda x, y: im.sum(x * 2 + y))
    compiled(im.ones(3), im.ones((2, 3)))
    (entry,) = compiled.entries
    assert entry.signature == "float32[3], float32[2, 3]"
    assert entry.graph is not None
    assert [o.op for o in entry.graph.ir.operations] == ["multiply", "add", "sum"]
    assert entry.capture_seconds > 0
    assert entry.compile_seconds > 0
    assert "3 ops on numpy:cpu" in repr(entry)


def test_threads_compile_once() -> None:
    both = threading.Barrier(2)
    calls: list[None] = []

    def slow(x: im.Tensor) -> im.Tensor:
        calls.append(None)
        return x * 3

    compiled = im.compile(slow)
    results: list[list[float]] = []

    def call() -> None:
        both.wait()
        results.append(compiled(im.ones(2)).tolist())

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[3, 3], [3, 3]]
    assert (len(calls), len(compiled.entries)) == (1, 1)


def test_named_sizes_are_captured_once(device: im.Device) -> None:
    function, calls = counted(lambda x, y: im.sum(x, axis=1) + y)
    compiled = im.compile(function, specs=[im.Spec(("n", 3), "float32"), im.Spec(("n",), "float32")])
    x, y = im.ones((2, 3), device=device), im.ones(2, device=device)
    assert compiled(x, y).tolist() == [4, 4]
    traced = len(calls)
    for n in (1, 5, 7):
        assert compiled(im.ones((n, 3), device=device), im.ones(n, device=device)).tolist() == [4] * n
    assert len(calls) == traced
    assert len(compiled.entries) == 4


# --- inside other transformations ------------------------------------------------------------------------------------


def test_compiled_inside_compiled_and_inside_a_trace() -> None:
    inner = im.compile(lambda x: x * 2)
    outer = im.compile(lambda x: inner(x) + 1)
    assert outer(im.ones(2)).tolist() == [3, 3]
    assert inner.entries == []  # it was part of the larger program
    graph = im.trace(lambda x: inner(x) + 1, im.Spec((2,), "float32"))
    assert [o.op for o in graph.ir.operations] == ["multiply", "add"]


def test_a_value_and_its_gradient_in_one_program(device: im.Device) -> None:
    def loss(w: im.Tensor, x: im.Tensor) -> im.Tensor:
        return im.mean(im.square(im.tanh(x @ w)))

    rng = np.random.default_rng(0)
    w, x = (im.asarray(rng.normal(size=s).astype("float32"), device=device) for s in ((4, 2), (3, 4)))
    value, gradient = im.value_and_grad(loss)(w, x)
    step = im.compile(im.value_and_grad(loss))
    for _ in range(2):
        found, slope = step(w, x)
        np.testing.assert_allclose(found.numpy(), value.numpy(), rtol=1e-5)
        np.testing.assert_allclose(slope.numpy(), gradient.numpy(), rtol=1e-4, atol=1e-6)


def test_random_numbers_are_new_in_each_call_and_seeded_ones_are_the_eager_ones(device: im.Device) -> None:
    def noisy(x: im.Tensor, seed: int | None) -> im.Tensor:
        return x + im.random.uniform((100,), device=device, seed=seed)

    compiled = im.compile(noisy)
    x = im.zeros(100, device=device)
    first, second = compiled(x, None), compiled(x, None)
    assert not np.array_equal(first.numpy(), second.numpy())
    assert np.array_equal(compiled(x, 3).numpy(), noisy(x, 3).numpy())
    assert np.array_equal(compiled(x, 3).numpy(), compiled(x, 3).numpy())


def test_dropout_drops_anew_in_each_call(device: im.Device) -> None:
    compiled = im.compile(lambda x: im.random.dropout(x, rate=0.5))
    x = im.ones(400, device=device)
    first, second = compiled(x).numpy(), compiled(x).numpy()
    assert set(np.unique(first)) == {0.0, 2.0}
    assert not np.array_equal(first, second)


# --- what goes in and out --------------------------------------------------------------------------------------------


def test_outputs_that_are_inputs_constants_or_repeated(device: im.Device) -> None:
    held = im.asarray([7.0, 8.0], device=device)

    @im.compile
    def function(x: im.Tensor, y: im.Tensor) -> Any:
        z = x + y
        return x, z, z, held, im.zeros(1, device=device), x, y[::-1]

    x, y = im.asarray([1.0, 2.0], device=device), im.asarray([3.0, 4.0], device=device)
    found = function(x, y)
    assert [t.tolist() for t in found] == [[1, 2], [4, 6], [4, 6], [7, 8], [0], [1, 2], [4, 3]]
    found[0][0] = 50.0  # no answer shares with an argument, a constant or another answer
    found[1][0] = 60.0
    found[3][0] = 70.0
    assert (x.tolist(), found[2].tolist(), found[5].tolist(), held.tolist()) == ([1, 2], [4, 6], [1, 2], [7, 8])
    assert [t.tolist() for t in function(x, y)] == [[1, 2], [4, 6], [4, 6], [7, 8], [0], [1, 2], [4, 3]]


def test_views_and_writes_inside(device: im.Device) -> None:
    def function(x: im.Tensor) -> Any:
        y = im.asarray(x, copy=True)
        row, turned = y[1], im.matrix_transpose(y)
        row += 10
        turned[0, 0] = -1
        y[y > 12] = 0
        return y, row, turned, x

    x = im.reshape(im.arange(6, dtype="float32", device=device), (2, 3))
    want = [t.tolist() for t in function(x)]
    assert [t.tolist() for t in im.compile(function)(x)] == want
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


EDGES = {
    "float32": [0.0, -0.0, np.nan, np.inf, -np.inf, 1.5],
    "float64": [0.0, -0.0, np.nan, 1e300, -2.5, 1.5],
    "float16": [0.0, -0.0, np.nan, 60000.0, -2.5, 1.5],
    "bfloat16": [0.0, -0.0, np.nan, 3e38, -2.5, 1.5],
    "int8": [0, 1, -128, 127, 5, -7],
    "uint8": [0, 1, 255, 127, 5, 7],
    "bool": [True, False, True, True, False, False],
    "complex64": [0j, 1 - 2j, -3j, 2.5, 1j, -1],
}


@pytest.mark.parametrize(
    ("dtype", "layout"), [*((d, "plain") for d in EDGES), *(("float32", x) for x in ("reversed", "stepped", "transposed"))]
)
def test_dtypes_edges_and_layouts(dtype: str, layout: str, device: im.Device) -> None:
    data = np.asarray(EDGES[dtype]).astype(as_dtype(dtype).numpy).reshape(2, 3)
    if layout == "reversed":
        data = data[::-1, ::-1]
    elif layout == "stepped":
        data = np.repeat(data, 2, axis=1)[:, ::2]

    def function(x: im.Tensor) -> Any:
        return x, im.where(x == x, x, x), im.flip(x), im.concat([x, x]), im.reshape(x, (-1,)), im.zeros_like(x), x == x

    try:
        x = im.asarray(data, device=device)
        x = im.matrix_transpose(x) if layout == "transposed" else x
        want = function(x)
    except UnsupportedError:
        pytest.skip(f"{device} lacks {dtype}")
    for got, wanted in zip(im.compile(function)(x), want, strict=True):
        assert same(got, wanted)


def test_nothing_but_numbers_goes_in_and_a_constant_comes_out(device: im.Device) -> None:
    with config.scope(device=device):
        assert im.compile(lambda n: im.arange(n) * 2)(3).tolist() == [0, 2, 4]
        assert im.compile(lambda: None)() is None


def test_sizes_that_depend_on_data_run_on_numpy_and_are_refused_by_compilers(device: im.Device) -> None:
    x = im.asarray([3.0, 0.0, 1.0, 3.0], device=device)
    compiled = im.compile(im.unique_values)
    if device.engine == "numpy":
        assert compiled(x).tolist() == [0, 1, 3]
        assert compiled(im.ones(4)).tolist() == [1]
    else:
        with pytest.raises(UnsupportedError, match="depends on data"):
            compiled(x)


# --- donation --------------------------------------------------------------------------------------------------------


def test_a_donated_tensor_is_gone_and_the_answer_is_right(device: im.Device) -> None:
    compiled = im.compile(lambda x, y: (x * 2 + y, x), donate=(0,))
    for _ in range(3):
        x, y = im.ones(1000, device=device), im.ones(1000, device=device)
        view, array = x[:2], x._data
        first, second = compiled(x, y)
        assert (set(first.tolist()), set(second.tolist())) == ({3.0}, {1.0})
        if device.engine == "jax":
            assert array.is_deleted()
        for use in (im.negative, im.Tensor.tolist, repr, lambda x: x.shape, lambda x: x[0], lambda x: compiled(x, y=x)):
            with pytest.raises(LifecycleError, match="was donated"):
                use(x)
        assert view.tolist() == [1, 1]
        assert set(y.tolist()) == {1.0}


def test_donation_never_writes_to_memory_of_the_user(device: im.Device) -> None:
    data = np.ones(4096, "float32")
    for start in (0, 1, 16):  # aligned in some way or not
        mine = data[start : start + 1024]
        x = im.asarray(mine, device=device)
        assert set(im.compile(lambda x: im.sqrt(x + 3) * 4, donate=(0,))(x).tolist()) == {8.0}
        assert (data == 1).all()


def test_what_is_donated_must_come_once(device: im.Device) -> None:
    compiled = im.compile(lambda x, y: x + y, donate=[0])
    x = im.ones(3, device=device)
    with pytest.raises(ArgumentError, match="argument 0 is donated, but its data comes in another argument too"):
        compiled(x, x)
    assert compiled(x, im.ones(3, device=device)).tolist() == [2, 2, 2]


# --- what cannot be compiled -----------------------------------------------------------------------------------------


def branching(x: im.Tensor) -> im.Tensor:
    return x if x[0] > 0 else -x


def test_what_cannot_be_captured_is_raised_or_runs_eagerly_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(CaptureError, match="inside a trace"):
        im.compile(branching)(im.ones(2))
    compiled = im.compile(branching, fallback="eager")
    with caplog.at_level(logging.WARNING):
        assert compiled(-im.ones(2)).tolist() == [1, 1]
        assert compiled(im.ones(2)).tolist() == [1, 1]
    assert len(caplog.records) == 1
    assert "branching: 0 signatures> runs eagerly" in caplog.text
    assert (compiled.entries[0].calls, compiled.entries[0].graph, compiled.entries[0].device) == (2, None, None)


def test_an_argument_that_is_written_to_is_refused_for_the_write_would_be_lost() -> None:
    def adds(x: im.Tensor) -> im.Tensor:
        x += 1
        return x * 2

    def through_a_view(x: im.Tensor) -> im.Tensor:
        x[0][...] = 5.0
        return im.sum(x)

    for function in (adds, through_a_view):
        with pytest.raises(CaptureError, match=r"writes to its argument .* write to a copy"):
            im.compile(function)(im.ones((2, 2)))
    x = im.ones(2)
    assert im.compile(adds, fallback="eager")(x).tolist() == [4, 4]
    assert x.tolist() == [2, 2]


def test_a_tensor_from_outside_that_is_written_to_stays_as_it_is() -> None:
    held = im.ones(2)
    view = held[1:]

    def whole(x: im.Tensor) -> im.Tensor:
        held[0] = x[0]
        return held

    def part(x: im.Tensor) -> im.Tensor:
        view[...] = x[:1]
        return held

    for function in (whole, part):
        with pytest.raises(CaptureError, match="a tensor from outside is written to"):
            im.compile(function)(im.zeros(2))
    assert (held.tolist(), view.tolist()) == ([1, 1], [1])


def test_tracked_tensors_are_refused() -> None:
    with pytest.raises(CaptureError, match=r"im\.compile\(im\.grad\(f\)\)"):
        im.compile(lambda x: x * 2)(im.ones(2).require_grad())


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda: im.compile(3), ArgumentError, "a int cannot be called"),
        (lambda: im.compile(abs, fallback="none"), ArgumentError, "Use 'raise' or 'eager'"),
        (lambda: im.compile(abs, donate=0), ArgumentError, r"donate is 0\. .* donate=\(0,\)"),
        (lambda: im.compile(abs, donate=(-1,)), ArgumentError, "counted from 0"),
        (lambda: im.compile(lambda x: x, donate=(1,))(im.ones(2)), ArgumentError, "names argument 1, but 1 were given"),
        (lambda: im.compile(lambda x, s: x)(im.ones(2), {1}), ArgumentError, "must be hashable"),
        (lambda: im.compile(lambda x, s: x)(im.ones(2), np.ones(2)), ArgumentError, "Give arrays as tensors"),
        (lambda: im.compile(lambda x, y: x)(im.ones(2), im.ones(2, device="meta:cpu")), DeviceMismatchError, "one device"),
        (lambda: im.compile(lambda x: x + im.ones(3))(im.ones(2)), ShapeError, "add: cannot broadcast"),
        (lambda: im.compile(lambda x: x, specs=[im.Spec(("n",), "float32")])(x=im.ones(2)), ArgumentError, "by position"),
        (lambda: im.compile(lambda x: x, specs=[im.Spec(("n",), "float32")])(im.ones((2, 2))), GraphError, r"shape \(n\)"),
        (im.compile(lambda x: x, specs=[im.Spec(("n",), "float32")]), ArgumentError, "0 arguments were given"),
    ],
)
def test_wrong_use_says_what_to_do(use: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        use()


def test_an_engine_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, program: Any) -> Any:
        raise OverflowError("too long")

    monkeypatch.setattr(NumpyBackend, "compile", refuse)
    with pytest.raises(UnsupportedError, match="numpy cannot compile this program: too long"):
        im.compile(lambda x: x + 1)(im.ones(2))

    def compile(self: Any, program: Any) -> Any:
        return lambda *arrays: 1 / 0

    monkeypatch.setattr(NumpyBackend, "compile", compile)
    with pytest.raises(ExecutionError, match="numpy failed to run a compiled program: division by zero"):
        im.compile(lambda x: x + 1)(im.ones(2))


# --- NumPy uses memory again -----------------------------------------------------------------------------------------

STEPS: dict[str, Callable[[im.Tensor, im.Tensor], im.Tensor]] = {
    "add": lambda a, b: a + b,
    "positive": lambda a, b: im.positive(a),
    "real": lambda a, b: im.real(a),
    "conj": lambda a, b: im.conj(a),
    "turned": lambda a, b: im.matrix_transpose(a),
    "flipped": lambda a, b: a[::-1],
    "broadcast": lambda a, b: im.broadcast_to(a[:1], a.shape),
    "reshaped": lambda a, b: im.reshape(im.reshape(a, (-1,)), a.shape),
    "maximum": im.maximum,
    "matmul": lambda a, b: a @ b,
    "negative": lambda a, b: -a,
    "square": lambda a, b: a * a,
    "copy": lambda a, b: im.asarray(a, copy=True),
}


@settings(max_examples=150)
@given(
    steps=st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=14),
    told=st.sets(st.integers(0, 30), min_size=1, max_size=4),
)
def test_no_input_constant_or_output_is_overwritten(steps: list[tuple[str, int, int]], told: set[int]) -> None:
    held = im.asarray([[2.0, -1.0], [0.5, 3.0]])

    def function(x: im.Tensor, y: im.Tensor) -> Any:
        values = [x, y, held]
        for name, i, j in steps:
            values.append(STEPS[name](values[i % len(values)], values[j % len(values)]))
        return [values[i % len(values)] for i in sorted(told)] + values[-1:]

    mine = [np.asarray([[1.0, 2.0], [3.0, 4.0]], "float32"), np.asarray([[0.5, 0.0], [-1.0, 2.0]], "float32")]
    x, y = (im.asarray(a) for a in mine)
    want = [np.array(t.numpy()) for t in function(x, y)]
    compiled = im.compile(function)
    before = [a.copy() for a in mine]
    first = compiled(x, y)
    kept = [np.array(t.numpy()) for t in first]
    second = compiled(x, y)
    for a, b, c, w in zip(first, kept, second, want, strict=True):
        assert a.numpy().tobytes() == b.tobytes() == c.numpy().tobytes() == w.tobytes()
    assert all(a.tobytes() == b.tobytes() for a, b in zip(mine, before, strict=True))
    assert held.tolist() == [[2, -1], [0.5, 3]]


def test_memory_is_used_again_where_nobody_else_has_it() -> None:
    graph = im.trace(lambda x: im.exp(-(x + 1)) * 2, im.Spec((4,), "float32"))
    program, _ = lowered(graph.ir, im.Device("numpy:cpu"), {})
    outs: list[Any] = []

    def noted(native: Any) -> Any:
        def run(*args: Any, out: Any = None) -> Any:
            outs.append(out)
            return native(*args) if out is None else native(*args, out=out)

        return run

    steps = tuple(replace(s, native=noted(s.native)) for s in program.steps)
    function = replace(program, steps=steps).function(lambda _: True, lambda _: True)
    x = np.zeros(4, "float32")
    (found,) = function(*(c.value for c in program.constants), x)
    assert np.allclose(found, 2 * np.exp(-1))
    assert outs[0] is None  # the first op reads the argument, which is not to be taken
    assert all(out is found for out in outs[1:])
    assert not x.any()


def test_a_dict_by_position_is_not_taken_for_keywords() -> None:
    calls = []

    @im.compile
    def function(x: im.Tensor, options: Any = None, *, a: Any = None) -> im.Tensor:
        calls.append(a is None)
        return x + (options["a"] if a is None else a * 10)

    x = im.ones(2)
    assert function(x, {"a": x}).tolist() == [2, 2]
    assert function(x, a=x).tolist() == [11, 11]
    assert calls == [True, False]
