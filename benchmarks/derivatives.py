"""The report on derivatives: a transformer's training step beside plain PyTorch, what recording an op costs, small gradients.

The step is forward, backward and AdamW of the same network with the same weights, written with intermodal over
``torch:cpu`` and with PyTorch itself, in one process and in alternation.
"""

from __future__ import annotations

import gc
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import intermodal as im
from benchmarks.measure import Loop, Summary, alternate, compare, environment, quiet, summarise, table, timed
from intermodal.autodiff import trees

__all__ = ["Transformer", "derivatives", "loss_of", "plain_step", "setup", "show"]

Report = dict[str, Any]
LAYERS, WIDTH, HEADS, LENGTH, BATCH, WORDS = 4, 256, 4, 128, 16, 1000
TARGETS: Final = {"step": 1.10, "record": 1500.0, "memory": 1.15}


# --- the network, with intermodal and with PyTorch -------------------------------------------------------------------


@dataclass(init=False)
class Block:
    """Attention and two linear layers, each after a norm and beside the way straight through."""

    norm1: im.nn.LayerNorm
    attention: im.nn.MultiHeadAttention
    norm2: im.nn.LayerNorm
    up: im.nn.Linear
    down: im.nn.Linear

    def __init__(self) -> None:
        self.norm1, self.norm2 = im.nn.LayerNorm(WIDTH), im.nn.LayerNorm(WIDTH)
        self.attention = im.nn.MultiHeadAttention(WIDTH, HEADS)
        self.up, self.down = im.nn.Linear(WIDTH, 4 * WIDTH), im.nn.Linear(4 * WIDTH, WIDTH)

    def __call__(self, x: im.Tensor) -> im.Tensor:
        x = x + self.attention(self.norm1(x), is_causal=True)
        return x + self.down(im.nn.gelu(self.up(self.norm2(x))))


@dataclass(init=False)
class Transformer:
    """Words in, the next words' scores out."""

    words: im.nn.Embedding
    blocks: list[Block]
    norm: im.nn.LayerNorm
    out: im.nn.Linear

    def __init__(self) -> None:
        self.words = im.nn.Embedding(WORDS, WIDTH)
        self.blocks = [Block() for _ in range(LAYERS)]
        self.norm, self.out = im.nn.LayerNorm(WIDTH), im.nn.Linear(WIDTH, WORDS)

    def __call__(self, indices: im.Tensor) -> im.Tensor:
        x = self.words(indices)
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


def loss_of(model: Transformer, indices: im.Tensor, targets: im.Tensor) -> im.Tensor:
    """How badly the next words are foreseen."""
    scores = model(indices)
    return im.nn.cross_entropy(scores.reshape(-1, WORDS), targets.reshape(-1))


def _ours(start: Transformer, indices: np.ndarray[Any, Any], device: str) -> Callable[[], float]:
    model: Any = trees.map_leaves(lambda x: x.to(device), start)
    optimizer = im.optim.AdamW(1e-3)
    held = {"model": model, "state": optimizer.init(model)}
    x, y = (im.asarray(indices[:, a : a + LENGTH].copy(), device=device) for a in (0, 1))
    gradient = im.value_and_grad(loss_of)

    def step() -> float:
        loss, grads = gradient(held["model"], x, y)
        held["model"], held["state"] = optimizer.update(held["model"], grads, held["state"])
        return float(loss)

    return step


def plain_step(start: Transformer, indices: np.ndarray[Any, Any], compiled: bool = False) -> Callable[[], float]:
    """A step of the same network written for PyTorch, as it stands or for its compiler."""
    torch: Any = importlib.import_module("torch")
    functional = torch.nn.functional
    model: Any = trees.map_leaves(lambda x: torch.nn.Parameter(torch.tensor(x.numpy())), start)
    parameters = list(_parameters(model, torch.nn.Parameter))
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    x, y = (torch.tensor(indices[:, a : a + LENGTH]) for a in (0, 1))

    def norm(m: Any, x: Any) -> Any:
        return functional.layer_norm(x, (WIDTH,), m.weight, m.bias)

    def forward(x: Any) -> Any:
        h = functional.embedding(x, model.words.weight)
        for block in model.blocks:
            a = block.attention
            split = functional.linear(norm(block.norm1, h), a.project.weight, a.project.bias)
            q, k, v = split.reshape(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + functional.linear(mixed.permute(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH), a.out.weight, a.out.bias)
            up = functional.gelu(functional.linear(norm(block.norm2, h), block.up.weight, block.up.bias))
            h = h + functional.linear(up, block.down.weight, block.down.bias)
        return functional.linear(norm(model.norm, h), model.out.weight, model.out.bias)

    def loss_of() -> Any:
        return functional.cross_entropy(forward(x).reshape(-1, WORDS), y.reshape(-1))

    compute, advance = (torch.compile(f) for f in (loss_of, optimizer.step)) if compiled else (loss_of, optimizer.step)

    def step() -> float:
        optimizer.zero_grad()
        loss = compute()
        loss.backward()
        advance()
        return float(loss)

    return step


def _parameters(tree: Any, kind: type) -> Iterator[Any]:
    if isinstance(tree, kind):
        yield tree
    else:
        for _, part in trees.children(tree) or ():
            yield from _parameters(part, kind)


def setup() -> tuple[Transformer, np.ndarray[Any, Any]]:
    """A network with the same weights each time, on NumPy, and the words it is shown."""
    im.random.seed(0, device="numpy:cpu")
    with im.config.scope(device="numpy:cpu"):
        return Transformer(), np.random.default_rng(0).integers(0, WORDS, (BATCH, LENGTH + 1))


# --- the figures -----------------------------------------------------------------------------------------------------


def derivatives(rounds: int) -> Report:
    """The step, the record and the small gradients."""
    where = environment()
    return {
        "environment": where,
        "rounds": rounds,
        "step": _step(rounds),
        "memory": _memory(),
        "record": _record(rounds),
        "small": _small(rounds),
    }


def _step(rounds: int) -> Report:
    start, indices = setup()
    theirs, ours = plain_step(start, indices), _ours(start, indices, "torch:cpu")
    first = [(theirs(), ours()) for _ in range(2)]
    for a, b in first:
        if abs(a - b) > 1e-3:
            raise RuntimeError(f"the losses differ: PyTorch {a}, intermodal {b}")

    with quiet():
        found = compare(timed(theirs), timed(ours), rounds)
    return {name: summary._asdict() for name, summary in found._asdict().items()}


def _memory() -> dict[str, float]:
    """MiB that a step takes above what is held between steps, in fresh processes, for each side."""
    program = "from benchmarks import derivatives as d; print(d.peak_of(%r))"
    return {
        side: float(
            subprocess.run([sys.executable, "-c", program % side], check=True, capture_output=True, text=True).stdout.split()[-1]
        )
        for side in ("torch", "intermodal")
    }


def peak_of(side: str) -> float:
    """In a fresh process, after one step: how far the next ones go above what is held between steps, in MiB (Linux alone)."""
    start, indices = setup()
    step = plain_step(start, indices) if side == "torch" else _ours(start, indices, "torch:cpu")
    step()
    gc.collect()
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    for _ in range(3):
        step()
    return _resident("VmHWM") - before


def _resident(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def _record(rounds: int) -> list[Report]:
    rows = []
    for engine in ("numpy", "torch"):
        x, y = (im.ones(1, device=f"{engine}:cpu") for _ in range(2))
        tracked = {"x": x.require_grad(), "y": y.require_grad(), "im": im}
        for call in ("x + y", "x * y", "im.exp(x)", "im.sum(x)", "x @ y"):
            found = compare(Loop(call, {"x": x, "y": y, "im": im}).sample, Loop(call, tracked).sample, rounds)
            rows.append({"engine": engine, "call": call, **{n: s._asdict() for n, s in found._asdict().items()}})
    return rows


def _small(rounds: int) -> list[Report]:
    """The gradient of sum(2 x + 1) at one element, by each library."""
    rows: dict[str, Callable[[], float]] = {}
    for engine in ("numpy", "torch", "jax"):
        x = im.ones(1, device=f"{engine}:cpu")
        rows[f"intermodal on {engine}"] = Loop("f(x)", {"f": im.grad(lambda x: im.sum(2 * x + 1)), "x": x}).sample
    for name, load in (("HIPS autograd", _autograd), ("jax.grad, not compiled", _jax)):
        try:
            rows[name] = load()
        except ImportError:
            continue
    with quiet():
        samples = alternate(list(rows.values()), 2 * rounds)
    return [{"library": name, "time": summarise(found)._asdict()} for name, found in zip(rows, samples, strict=True)]


def _autograd() -> Callable[[], float]:
    autograd: Any = importlib.import_module("autograd")
    numpy: Any = importlib.import_module("autograd.numpy")
    return Loop("f(x)", {"f": autograd.grad(lambda x: numpy.sum(2 * x + 1)), "x": np.ones(1, np.float32)}).sample


def _jax() -> Callable[[], float]:
    jax: Any = importlib.import_module("jax")
    numpy: Any = importlib.import_module("jax.numpy")
    return Loop("f(x)", {"f": jax.grad(lambda x: numpy.sum(2 * x + 1)), "x": numpy.ones(1)}).sample


def show(report: Report) -> str:
    """The report as text."""
    e, step, memory = report["environment"], report["step"], report["memory"]
    record = [
        [r["engine"], r["call"], f"{r['bare']['median']:,.0f}", f"{r['other']['median']:,.0f}", f"{r['added']['median']:+,.0f}"]
        for r in report["record"]
    ]
    small = [[r["library"], f"{Summary(**r['time']).median / 1e3:,.1f}"] for r in report["small"]]
    return "\n".join(
        (
            f"{e['date']}: {e['machine']}",
            f"{e['python']}, NumPy {e['numpy']}, intermodal {e['intermodal']}",
            "",
            f"A training step of a transformer ({LAYERS} layers, width {WIDTH}, {HEADS} heads, length {LENGTH}, batch {BATCH}), ms",
            table(
                ["PyTorch", "intermodal on torch", "ratio", "at most"],
                [
                    [
                        f"{step['bare']['median'] / 1e6:.1f}",
                        f"{step['other']['median'] / 1e6:.1f}",
                        f"{step['ratio']['median']:.3f}",
                        f"{TARGETS['step']:.2f}",
                    ]
                ],
                left=0,
            ),
            "",
            f"Peak of a step over what is held between steps, MiB: PyTorch {memory['torch']:.0f}, intermodal {memory['intermodal']:.0f}, ratio {memory['intermodal'] / memory['torch']:.2f}, meant to be at most {TARGETS['memory']}",
            "",
            f"What recording an op costs, ns; meant to be at most {TARGETS['record']:,.0f}",
            table(["engine", "call", "untracked", "tracked", "added"], record, left=2),
            "",
            "The gradient of sum(2 x + 1) at one element, µs",
            table(["library", "µs"], small),
        )
    )
