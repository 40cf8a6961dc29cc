"""Graphs as ONNX files: what ONNX's checker passes, and plain ONNX Runtime runs as the ops run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import intermodal as im
from intermodal.autodiff import trees
from intermodal.errors import ArgumentError, CaptureError, IntermodalError, UnsupportedError
from intermodal.ops.table import TABLE, Op
from intermodal.testing.calls import on
from intermodal.testing.samples import cases
from intermodal.testing.tolerance import complaint

ort = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

ENGINE = im.Device("onnx:cpu")
DTYPES = (im.float32, im.int64, im.bool, im.float16, im.uint8, im.float64)
REFUSED = {
    **dict.fromkeys(("qr", "svd", "eigh", "svdvals", "eigvalsh", "matrix_norm", "matrix_rank", "pinv"), "factorizes"),
    "pow": "of integers",
    **dict.fromkeys(
        ("bincount", "masked_select", "argwhere", "unique_all", "unique_counts", "unique_inverse", "unique_values"), "on data"
    ),
}
"""Ops of which no call can be exported, or only some, with a word of the reason."""
COMPLEX = {"complex", "eig", "eigvals", "imag", *(f"{kind}fft{n}" for kind in ("", "i", "r", "ir", "h", "ih") for n in ("", "n"))}
"""Ops with complex numbers in them, which the engine answers in no dtype."""


def session(path: Path, optimized: bool = False) -> Any:
    """A session as people make one; in a process where the engine has a pool of threads, on that."""
    from intermodal.engines.onnx.sessions import threads

    options = ort.SessionOptions()
    options.use_per_session_threads = threads() == 1
    if not optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), options)


def run(path: Path, arguments: list[np.ndarray[Any, Any]], optimized: bool = False) -> list[np.ndarray[Any, Any]]:
    made = session(path, optimized)
    found: list[np.ndarray[Any, Any]] = made.run(None, {i.name: a for i, a in zip(made.get_inputs(), arguments, strict=True)})
    return found


def calls(row: Op) -> Iterator[tuple[Any, Any]]:
    """Some calls of an op that the engine answers."""
    for dtype in DTYPES:
        shown = 0
        for sample in cases(row, dtype):
            if sample.raises is not None or sample.large or shown == 2:
                continue
            try:
                args, kwargs = on(row, sample, ENGINE)
                row.function(*args, **kwargs)
            except IntermodalError:  # a dtype that the op or the device does not take
                continue
            shown += 1
            yield args, kwargs


def rounding(name: str, given: list[np.ndarray[Any, Any]]) -> float:
    """How far results may lie apart: not at all, but where ONNX Runtime has other kernels for models of other opsets.

    AveragePool adds in another order before opset 19. A sum of n terms in any order makes n - 1 roundings of at most half a unit of n times
    the largest, twice that lies between two orders, and the mean is an nth of it; windows here have 27 elements at most.
    """
    if not name.startswith("avg_pool") or given[0].size == 0:
        return 0.0
    return 27 * float(np.finfo(given[0].dtype).eps * np.abs(given[0][np.isfinite(given[0])]).max())


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_op_is_exported_and_runs_in_plain_onnxruntime_as_it_does_here(name: str, tmp_path: Path) -> None:
    row, path = TABLE[name], tmp_path / "op.onnx"
    answered = shown = 0
    refusals = []
    for args, kwargs in calls(row):
        answered += 1
        try:
            graph = im.trace(lambda args, kwargs: row.function(*args, **kwargs), args, kwargs, device=ENGINE)
            graph.save(path)
        except (UnsupportedError, CaptureError) as error:
            refusals.append(str(error))
            continue
        shown += 1
        # The same operators, and none of them fused: equal to the bit.
        given = [t.numpy() for t in trees.leaves((args, kwargs))]
        expected = trees.leaves(row.function(*args, **kwargs))
        for mine, its in zip(run(path, given), expected, strict=True):
            if not name.startswith("empty"):  # which has no value
                assert complaint(mine, its.numpy(), rounding(name, given)) is None
    assert (answered == 0) is (name in COMPLEX)
    if name in REFUSED:
        assert all(REFUSED[name] in text for text in refusals), refusals
        assert refusals
    elif not row.takes_seed and name not in COMPLEX:
        assert shown, refusals
        assert refusals == []


# --- models ----------------------------------------------------------------------------------------------------------


def weights(*shape: int, seed: int = 0) -> im.Tensor:
    return im.asarray((np.random.default_rng(seed).standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32))


def mlp(x: im.Tensor) -> im.Tensor:
    return im.nn.softmax(im.nn.gelu(x @ weights(16, 32) + weights(32)) @ weights(32, 10), axis=-1)


def cnn(x: im.Tensor) -> im.Tensor:
    x = im.nn.max_pool2d(im.nn.relu(im.nn.conv2d(x, weights(8, 1, 3, 3), padding=1)), kernel_size=2)
    x = im.nn.avg_pool2d(im.nn.silu(im.nn.conv2d(x, weights(4, 8, 3, 3), padding=1)), kernel_size=2)
    return im.nn.linear(x.reshape(x.shape[0], -1), weights(10, 16))


def attention(x: im.Tensor) -> im.Tensor:
    b, n, d = x.shape

    def heads(y: im.Tensor) -> im.Tensor:
        return im.permute_dims(y.reshape(b, n, 4, d // 4), (0, 2, 1, 3))

    q, k, v = (heads(x @ weights(32, 32, seed=i)) for i in range(3))
    y = im.permute_dims(im.nn.attention(q, k, v, is_causal=True), (0, 2, 1, 3)).reshape(b, n, d)
    return im.nn.layer_norm(x + y @ weights(32, 32, seed=4), axis=-1)


def sizes(x: im.Tensor) -> im.Tensor:
    """Named sizes wherever they can stand: shapes, slices, numbers, places, lengths."""
    n = x.shape[0]
    line = x.reshape(-1)[n - 1 :] * n
    return (
        line
        + im.arange(2 * n + 1, dtype=im.float32)
        + im.astype(im.full((2 * n + 1,), n, dtype=im.int64), im.float32)
        + x[n - 1, 0]
    )


MODELS: list[tuple[Callable[[im.Tensor], im.Tensor], tuple[Any, ...], list[tuple[int, ...]]]] = [
    (mlp, ("n", 16), [(1, 16), (5, 16)]),
    (cnn, ("n", 1, 8, 8), [(1, 1, 8, 8), (3, 1, 8, 8)]),
    (attention, ("n", "length", 32), [(1, 7, 32), (3, 4, 32)]),
    (sizes, ("n", 3), [(1, 3), (4, 3)]),
]


@pytest.mark.parametrize(("model", "shape", "sizes"), MODELS, ids=lambda v: getattr(v, "__name__", None))
def test_named_sizes_stay_named_and_every_size_runs(
    model: Callable[[im.Tensor], im.Tensor], shape: tuple[Any, ...], sizes: list[tuple[int, ...]], tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    im.trace(model, im.Spec(shape, im.float32)).save(path)
    assert session(path).get_inputs()[0].shape == list(shape)
    assert session(path).get_outputs()[0].shape[0] in ("n", "2*n + 1")
    for size in sizes:
        x = weights(*size, seed=9).numpy()
        expected = model(im.asarray(x)).numpy()
        (found,) = run(path, [x], optimized=True)
        # Sums of at most 64 terms of size 1, in another order: 64 roundings, each of half a unit of what is added up.
        np.testing.assert_allclose(found, expected, rtol=64 * np.finfo(np.float32).eps, atol=64 * np.finfo(np.float32).eps)


def test_a_model_is_of_the_oldest_opset_that_has_its_operators(tmp_path: Path) -> None:
    def opset(function: Callable[..., Any]) -> tuple[int, int]:
        im.trace(function, im.Spec(("n", 3), im.float32)).save(tmp_path / "m.onnx")
        proto = onnx.load(tmp_path / "m.onnx")
        return proto.opset_import[0].version, proto.ir_version

    assert opset(im.nn.relu) == (18, 8)
    assert opset(lambda x: im.astype(im.astype(x, im.int4), im.float32)) == (21, 10)  # the first with integers of 4 bits
    assert opset(lambda x: im.cumulative_prod(x, axis=1)) == (26, 13)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: im.topk(x, 2, axis=-1).values,
        lambda x: im.take_along_axis(x, im.argsort(x, axis=1), axis=1),
        lambda x: im.nn.cross_entropy(x, im.argmax(x, axis=-1)),
        lambda x: im.pad(x, ((0, 0), (1, 2)), value=3.0),
        lambda x: im.pad(x, ((0, 0), (1, 2)), mode="edge"),
        lambda x: im.nn.max_pool1d(x[None], kernel_size=2, ceil_mode=True),
        lambda x: im.einsum("ni,ki->nk", x, x),
        lambda x: im.concat(im.split(x, 3, axis=1), axis=0),
        lambda x: im.std(x, axis=0),
        lambda x: im.where(x > 0, x, im.flip(x, axis=1)),
    ],
)
def test_ops_that_models_use_keep_named_sizes(function: Callable[[im.Tensor], im.Tensor], tmp_path: Path) -> None:
    im.trace(function, im.Spec(("n", 3), im.float32)).save(tmp_path / "m.onnx")
    for n in (2, 5):
        x = weights(n, 3, seed=n).numpy()
        (found,) = run(tmp_path / "m.onnx", [x])
        np.testing.assert_allclose(found, function(im.asarray(x)).numpy(), rtol=1e-6, atol=1e-6)


def test_a_graph_of_a_trained_function_holds_its_derivative_too(tmp_path: Path) -> None:
    gradient = im.grad(lambda w, x: im.sum(im.tanh(x @ w)))
    w, x = weights(4, 3), weights(5, 4)
    im.trace(gradient, w, im.Spec(("n", 4), im.float32)).save(tmp_path / "g.onnx")
    (found,) = run(tmp_path / "g.onnx", [w.numpy(), x.numpy()])
    np.testing.assert_allclose(found, gradient(w, x).numpy(), rtol=1e-5, atol=1e-6)


def test_constants_beside_the_model_are_read_from_there(tmp_path: Path) -> None:
    path, x = tmp_path / "m.onnx", weights(2, 16, seed=3).numpy()
    graph = im.trace(mlp, im.Spec(("n", 16), im.float32))
    graph.save(path)
    inside = path.stat().st_size
    expected = run(path, [x])[0]
    graph.save(path, external=True)
    assert path.stat().st_size < inside
    assert (tmp_path / "m.onnx.data").stat().st_size > 32 * 16 * 4
    np.testing.assert_array_equal(run(path, [x])[0], expected)


def test_many_bytes_of_constants_go_beside_the_model_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("intermodal.engines.onnx.exporting._INSIDE", 2000)
    im.trace(mlp, im.Spec(("n", 16), im.float32)).save(tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx.data").exists()


def test_what_the_checker_refuses_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise onnx.checker.ValidationError("no such thing")

    monkeypatch.setattr("onnx.checker.check_model", refuse)
    with pytest.raises(UnsupportedError, match="ONNX's checker refuses the model: no such thing"):
        im.trace(mlp, im.Spec(("n", 16), im.float32)).save(tmp_path / "m.onnx", external=True)
    assert list(tmp_path.iterdir()) == []


def test_names_that_meet_are_told_apart(tmp_path: Path) -> None:
    from dataclasses import replace

    graph = im.trace(lambda t1, c1: (t1 + 1, c1), im.Spec((2,), im.float32), im.Spec((2,), im.float32))
    graph.ir = replace(graph.ir, output_names=("t1", "t2"))
    graph.save(tmp_path / "m.onnx")
    made = session(tmp_path / "m.onnx")
    assert [i.name for i in made.get_inputs()] == ["t1", "c1"]
    assert [o.name for o in made.get_outputs()] == ["t1_", "t2"]
    first, second = run(tmp_path / "m.onnx", [np.zeros(2, np.float32), np.ones(2, np.float32)])
    assert (first.tolist(), second.tolist()) == ([1, 1], [1, 1])


# --- what cannot be written --------------------------------------------------------------------------------------------


def test_what_onnx_cannot_say_is_refused_with_the_op_and_the_reason(tmp_path: Path) -> None:
    def refused(function: Callable[..., Any], *specs: im.Spec) -> str:
        with pytest.raises(UnsupportedError) as caught:
            im.trace(function, *specs).save(tmp_path / "m.onnx")
        assert not (tmp_path / "m.onnx").exists()
        return str(caught.value)

    square = im.Spec((3, 3), im.float32)
    assert "svd: " in refused(lambda x: im.linalg.svd(x)[1], square)
    assert "draws" in refused(lambda x: x + im.random.normal((3, 3)), square)
    assert "complex" in refused(lambda x: im.astype(x, im.complex64), square)
    assert "cumulative_max: " in refused(lambda x: im.cumulative_max(x, axis=0), im.Spec(("n",), im.float32))


def test_an_ending_that_says_no_form_is_refused(tmp_path: Path) -> None:
    graph = im.trace(lambda x: x + 1, im.Spec((2,), im.float32))
    with pytest.raises(ArgumentError, match=r"Use one of \.onnx, \.imgraph, \.txt"):
        graph.save(tmp_path / "graph.pb")
    with pytest.raises(ArgumentError, match="external"):
        graph.save(tmp_path / "graph.txt", external=True)


@pytest.mark.parametrize("ending", [".txt", ".imgraph"])
def test_our_own_forms_are_saved_and_loaded(ending: str, tmp_path: Path) -> None:
    if ending == ".imgraph":
        pytest.importorskip("msgpack")
    graph = im.trace(mlp, im.Spec(("n", 16), im.float32))
    graph.save(tmp_path / f"graph{ending}")
    found = im.Graph.load(tmp_path / f"graph{ending}")
    assert found.ir == graph.ir
    np.testing.assert_array_equal(found.run(weights(2, 16)).numpy(), graph.run(weights(2, 16)).numpy())
