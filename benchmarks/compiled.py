"""The report on compiled programs: beside the bare compilers of the engines, and a whole training step beside PyTorch and JAX.

The programs are a chain of ten elementwise ops on a million floats, a network of three layers, and a block of attention.
Each is written with intermodal and for the bare compiler, in one process and sampled in alternation.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import intermodal as im
from benchmarks.derivatives import BATCH, HEADS, LAYERS, LENGTH, WIDTH, WORDS, loss_of, plain_step, setup
from benchmarks.measure import Loop, Summary, alternate, compare, environment, quiet, summarise, table, timed
from intermodal.autodiff import trees

__all__ = ["ENGINES", "compiled", "show"]

Report = dict[str, Any]
Arrays = list[np.ndarray[Any, Any]]
ENGINES: Final = ("numpy", "torch", "jax", "onnx")
TARGETS: Final = {"torch": 1.03, "jax": 1.03, "onnx": 1.05, "call": 5.0}
DEVICES: Final = {engine: f"{engine}:cpu" for engine in ENGINES}


# --- the programs, with intermodal and with each library -------------------------------------------------------------


def chain(x: Any, np: Any) -> Any:
    """Ten elementwise ops."""
    y = np.tanh(x * 1.5 + 0.5)
    y = np.exp(-y) * x
    return np.abs(y - 0.25) * (y + x)


def layers(x: Any, weights: Sequence[Any], np: Any) -> Any:
    """A network of three layers."""
    for i, w in enumerate(weights):
        x = x @ w
        x = np.maximum(x, 0 * x) if i < len(weights) - 1 else x
    return x


def attention(q: Any, k: Any, v: Any, np: Any) -> Any:
    """A block of attention, written out."""
    scores = q @ np.permute_dims(k, (0, 1, 3, 2)) * (1 / 8)
    scores = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return (scores / np.sum(scores, axis=-1, keepdims=True)) @ v


def _draw(*shape: int) -> np.ndarray[Any, Any]:
    return (np.random.default_rng(len(shape)).standard_normal(shape) * 0.1).astype(np.float32)


PROGRAMS: Final[dict[str, tuple[Callable[..., Any], Arrays]]] = {
    "chain of 10, 1e6": (lambda np, x: chain(x, np), [_draw(1_000_000)]),
    "three layers, 256x512": (
        lambda np, x, *weights: layers(x, weights, np),
        [_draw(256, 512), _draw(512, 512), _draw(512, 512), _draw(512, 64)],
    ),
    "attention, 4x8x256x64": (lambda np, q, k, v: attention(q, k, v, np), [_draw(4, 8, 256, 64) for _ in range(3)]),
}


def _bare(engine: str, program: Callable[..., Any], arrays: Arrays) -> Callable[[], Any]:
    """The program by the bare compiler, as a call that ends when the result is there."""
    if engine == "numpy":
        return lambda: program(np, *arrays)
    if engine == "torch":
        torch: Any = importlib.import_module("torch")
        given = [torch.from_numpy(a) for a in arrays]
        run = torch.compile(lambda *a: program(_TorchNames(torch), *a))

        def call() -> Any:
            with torch.no_grad():
                return run(*given)

        return call
    if engine == "jax":
        jax: Any = importlib.import_module("jax")
        put = [jax.numpy.asarray(a) for a in arrays]
        jitted = jax.jit(lambda *a: program(jax.numpy, *a))
        return lambda: jitted(*put).block_until_ready()
    return _bare_session(program, arrays)


class _TorchNames:
    """PyTorch's functions by the Array API's names."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.permute_dims = torch.permute

    def __getattr__(self, name: str) -> Any:
        return getattr(self.torch, name)

    def max(self, x: Any, axis: int, keepdims: bool) -> Any:
        return self.torch.amax(x, axis, keepdim=keepdims)

    def sum(self, x: Any, axis: int, keepdims: bool) -> Any:
        return self.torch.sum(x, axis, keepdim=keepdims)


def _bare_session(program: Callable[..., Any], arrays: Arrays) -> Callable[[], Any]:
    """A session over the exported model, its inputs bound once."""
    import tempfile
    from pathlib import Path

    ort: Any = importlib.import_module("onnxruntime")
    graph: Any = im.trace(lambda *a: program(im, *a), *[im.Spec(a.shape, im.float32) for a in arrays])
    with tempfile.TemporaryDirectory() as folder:
        graph.save(Path(folder) / "program.onnx")
        options = ort.SessionOptions()
        im.exp(im.ones(1, device=DEVICES["onnx"]))  # the pool is there once the engine has computed
        options.use_per_session_threads = False  # as intermodal's own, on the one pool of the process
        session = ort.InferenceSession(str(Path(folder) / "program.onnx"), options, providers=["CPUExecutionProvider"])
    feed = {i.name: ort.OrtValue.ortvalue_from_numpy(a) for i, a in zip(session.get_inputs(), arrays, strict=True)}
    names = [o.name for o in session.get_outputs()]
    return lambda: session.run_with_ort_values(names, feed)


def _ours(engine: str, program: Callable[..., Any], arrays: Arrays) -> tuple[Callable[[], Any], im.graph.Compiled]:
    tensors = [im.asarray(a, device=DEVICES[engine]) for a in arrays]
    run = im.compile(lambda *a: program(im, *a))

    def call() -> Any:
        answer = run(*tensors)
        return answer._data.block_until_ready() if engine == "jax" else answer

    return call, run


# --- the figures -----------------------------------------------------------------------------------------------------


def compiled(engines: Sequence[str], rounds: int, *, step: bool = True) -> Report:
    """Programs, calls and the training step."""
    there = [e for e in engines if any(d.engine == e for d in _devices(e))]
    where = environment()
    return {
        "environment": where,
        "rounds": rounds,
        "programs": [row for engine in there for row in _programs(engine, rounds)],
        "calls": [_call(engine, rounds) for engine in there],
        "step": _step(there, rounds) if step and "torch" in there else [],
    }


def _devices(engine: str) -> Sequence[im.Device]:
    try:
        return im.backend.backend_of(engine).devices()
    except im.EngineUnavailableError:
        return ()


def _programs(engine: str, rounds: int) -> list[Report]:
    rows = []
    for name, (program, arrays) in PROGRAMS.items():
        begin = time.perf_counter()
        bare = _bare(engine, program, arrays)
        bare()
        middle = time.perf_counter()
        ours, function = _ours(engine, program, arrays)
        ours()
        end = time.perf_counter()
        found = compare(timed(bare), timed(ours), rounds)
        rows.append(
            {
                "engine": engine,
                "program": name,
                "first": {"bare": middle - begin, "ours": end - middle, "capture": function.entries[0].capture_seconds},
                **{n: s._asdict() for n, s in found._asdict().items()},
            }
        )
    return rows


def _call(engine: str, rounds: int) -> Report:
    """What a cached call takes beside the bare compiled function with one array of one element."""
    x = im.ones(1, device=DEVICES[engine])
    run = im.compile(lambda x: x + 1)
    run(x)
    entry = run.entries[0]
    found = compare(Loop("f(a)", {"f": entry.function, "a": x._data}).sample, Loop("f(x)", {"f": run, "x": x}).sample, rounds)
    return {"engine": engine, **{n: s._asdict() for n, s in found._asdict().items()}}


def _step(engines: Sequence[str], rounds: int) -> list[Report]:
    start, indices = setup()
    steps: dict[str, Callable[[], float]] = {"PyTorch, eager": plain_step(start, indices)}
    steps["torch.compile by hand"] = plain_step(start, indices, compiled=True)
    steps["intermodal on torch, compiled"] = _our_step(start, indices, "torch:cpu")
    if "jax" in engines:
        steps["jax.jit by hand"] = _jax_step(start, indices)
        steps["intermodal on jax, compiled"] = _our_step(start, indices, "jax:cpu")
    first, losses = {}, {}
    for name, step in steps.items():
        begin = time.perf_counter()
        losses[name] = [step(), step()]
        first[name] = time.perf_counter() - begin
        if any(abs(a - b) > 2e-3 for a, b in zip(losses[name], losses["PyTorch, eager"], strict=True)):
            raise RuntimeError(f"the losses differ: PyTorch {losses['PyTorch, eager']}, {name} {losses[name]}")
    with quiet():
        samples = alternate([timed(s) for s in steps.values()], 2 * rounds)
    bare = samples[0]
    return [
        {
            "name": name,
            "first": first[name],
            "time": summarise(found)._asdict(),
            "ratio": summarise([b / a for a, b in zip(bare, found, strict=True)])._asdict(),
        }
        for name, found in zip(steps, samples, strict=True)
    ]


def _our_step(start: Any, indices: np.ndarray[Any, Any], device: str) -> Callable[[], float]:
    model: Any = trees.map_leaves(lambda x: x.to(device), start)
    optimizer = im.optim.AdamW(1e-3)
    kind = np.int64 if device.startswith("torch") else np.int32
    x, y = (im.asarray(indices[:, a : a + LENGTH].astype(kind), device=device) for a in (0, 1))

    @im.compile(donate=(0, 1))
    def advance(model: Any, state: Any, x: im.Tensor, y: im.Tensor) -> Any:
        loss, grads = im.value_and_grad(loss_of)(model, x, y)
        return loss, optimizer.update(model, grads, state)

    held = [trees.map_leaves(lambda t: t + 0, model), optimizer.init(model, on_device=True)]

    def step() -> float:
        loss, (held[0], held[1]) = advance(*held, x, y)
        return float(loss)

    return step


def _jax_step(start: Any, indices: np.ndarray[Any, Any]) -> Callable[[], float]:
    """The same network and optimizer written for JAX."""
    jax: Any = importlib.import_module("jax")
    jnp = jax.numpy
    x, y = (jnp.asarray(indices[:, a : a + LENGTH].astype(np.int32)) for a in (0, 1))
    weights = [jnp.asarray(np.array(t.numpy())) for t in trees.leaves(start)]

    def norm(m: Any, h: Any) -> Any:
        mean = h.mean(-1, keepdims=True)
        return (h - mean) * jax.lax.rsqrt(h.var(-1, keepdims=True) + 1e-5) * m.weight + m.bias

    def linear(m: Any, h: Any) -> Any:
        return h @ m.weight.T + m.bias

    def loss(weights: Any) -> Any:
        given = iter(weights)
        model = trees.map_leaves(lambda _: next(given), start)
        h = model.words.weight[x]
        for block in model.blocks:
            split = linear(block.attention.project, norm(block.norm1, h))
            q, k, v = split.reshape(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS).transpose(2, 0, 3, 1, 4)
            scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), q @ k.swapaxes(-1, -2) / 8.0, -jnp.inf)
            mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH)
            h = h + linear(block.attention.out, mixed)
            h = h + linear(block.down, jax.nn.gelu(linear(block.up, norm(block.norm2, h)), approximate=False))
        scores = jax.nn.log_softmax(linear(model.out, norm(model.norm, h)).reshape(-1, WORDS))
        return -jnp.take_along_axis(scores, y.reshape(-1, 1), 1).mean()

    def advance(weights: Any, means: Any, squares: Any, count: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(weights)
        count = count + 1
        means = [0.9 * m + 0.1 * g for m, g in zip(means, grads, strict=True)]
        squares = [0.999 * s + 0.001 * g * g for s, g in zip(squares, grads, strict=True)]
        first, second = 1 - 0.9**count, 1 - 0.999**count
        weights = [
            w * (1 - 1e-5) - 1e-3 * (m / first) / (jnp.sqrt(s / second) + 1e-8)
            for w, m, s in zip(weights, means, squares, strict=True)
        ]
        return value, weights, means, squares, count

    run = jax.jit(advance, donate_argnums=(0, 1, 2))
    held = [weights, [jnp.zeros_like(w) for w in weights], [jnp.zeros_like(w) for w in weights], jnp.zeros((), jnp.float32)]

    def step() -> float:
        value, *held[:] = run(*held)
        return float(value)

    return step


def show(report: Report) -> str:
    """The report as text."""
    e = report["environment"]
    programs = [
        [
            r["engine"],
            r["program"],
            f"{r['bare']['median'] / 1e3:,.0f}",
            f"{r['other']['median'] / 1e3:,.0f}",
            f"{r['ratio']['median']:.3f}",
            f"{TARGETS[r['engine']]:.2f}" if r["engine"] in TARGETS else "",
            f"{r['first']['bare']:.2f}",
            f"{r['first']['ours']:.2f}",
        ]
        for r in report["programs"]
    ]
    calls = [[r["engine"], f"{Summary(**r['added']).median / 1e3:.2f}"] for r in report["calls"]]
    steps = [
        [r["name"], f"{r['time']['median'] / 1e6:.0f}", f"{r['ratio']['median']:.3f}", f"{r['first']:.1f}"]
        for r in report["step"]
    ]
    parts = [
        f"{e['date']}: {e['machine']}",
        f"{e['python']}, NumPy {e['numpy']}, intermodal {e['intermodal']}",
        "",
        "Programs: µs by the bare compiler (on numpy: eager), by im.compile, the ratio, at most; seconds of the first call",
        table(["engine", "program", "bare", "ours", "ratio", "at most", "bare first", "ours first"], programs, left=2),
        "",
        f"What a cached call adds to the bare compiled function, µs; meant to be at most {TARGETS['call']}",
        table(["engine", "added"], calls),
    ]
    if steps:
        parts += [
            "",
            f"A training step of a transformer ({LAYERS} layers, width {WIDTH}, {HEADS} heads, length {LENGTH}, batch {BATCH})",
            table(["", "ms", "to eager PyTorch", "first two, s"], steps),
        ]
    return "\n".join(parts)
