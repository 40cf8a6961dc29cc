"""Random programs: the tape's gradients on an engine against those that the engine's own library finds for the same program."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import reduce
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pytest

import intermodal as im
from intermodal.testing.samples import HostArray
from intermodal.testing.tolerance import NUDGES, bound, complaint, nudged

PROGRAMS: Final = 200
AT_ONCE: Final = 10  # programs in one test
LIBRARIES: Final = [
    pytest.param("torch", marks=pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")),
    # JAX compiles each op for each shape.
    pytest.param("jax", marks=[
        pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed"),
        *([] if os.environ.get("INTERMODAL_TEST_JAX") == "1" else [pytest.mark.long]),
    ]),
]  # fmt: skip

# --- the same ops in three libraries ---------------------------------------------------------------------------------

Call: TypeAlias = Callable[..., Any]
"""An op by our name, with its operands and attributes."""

OURS: Final = {
    name: f"nn.{name}" for name in ("elu", "gelu", "log_softmax", "relu", "sigmoid", "silu", "softmax", "softplus", "softsign")
} | {name: f"linalg.{name}" for name in ("inv", "solve", "det")}

TORCH: Final = {
    "acos": "acos", "concat": "cat", "cumulative_prod": "cumprod", "cumulative_sum": "cumsum", "det": "linalg.det",
    "divide": "div", "elu": "nn.functional.elu", "erf": "special.erf", "gelu": "nn.functional.gelu", "inv": "linalg.inv",
    "log_softmax": "nn.functional.log_softmax", "max": "amax", "min": "amin", "multiply": "mul", "permute_dims": "permute",
    "relu": "relu", "silu": "nn.functional.silu", "softmax": "nn.functional.softmax", "softplus": "nn.functional.softplus",
    "softsign": "nn.functional.softsign", "solve": "linalg.solve", "subtract": "sub", "take": "index_select",
}  # fmt: skip

JAX: Final = {
    "acos": "numpy.arccos", "acosh": "numpy.arccosh", "asin": "numpy.arcsin", "asinh": "numpy.arcsinh",
    "atan": "numpy.arctan", "atan2": "numpy.arctan2", "atanh": "numpy.arctanh", "concat": "numpy.concatenate",
    "cumulative_prod": "numpy.cumprod", "cumulative_sum": "numpy.cumsum", "det": "numpy.linalg.det", "erf": "scipy.special.erf",
    "inv": "numpy.linalg.inv", "logsumexp": "scipy.special.logsumexp", "permute_dims": "numpy.transpose", "pow": "numpy.power",
    "rsqrt": "lax.rsqrt", "softsign": "nn.soft_sign", "solve": "numpy.linalg.solve",
    **{name: f"nn.{name}" for name in ("elu", "log_softmax", "relu", "sigmoid", "silu", "softmax", "softplus")},
}  # fmt: skip


def ours(name: str, *operands: Any, **attributes: Any) -> Any:
    return attrgetter(OURS.get(name, name))(im)(*operands, **attributes)


def of_torch() -> Call:
    torch = import_module("torch")

    def call(name: str, *operands: Any, **attributes: Any) -> Any:
        if name == "flip":
            return torch.flip(operands[0], [attributes["axis"]])
        if name == "take":
            index = torch.as_tensor(np.array(operands[1]))
            return torch.index_select(operands[0], attributes["axis"], index)
        if name == "sort":
            return torch.sort(operands[0], dim=attributes["axis"]).values
        if name == "clip":
            return torch.clamp(*operands)
        renamed = {{"axis": "dims" if name == "roll" else "dim", "keepdims": "keepdim"}[k]: v for k, v in attributes.items()}
        return attrgetter(TORCH.get(name, name))(torch)(*operands, **renamed)

    return call


def of_jax() -> Call:
    jax = import_module("jax")
    import_module("jax.scipy.special")

    def call(name: str, *operands: Any, **attributes: Any) -> Any:
        if name == "gelu":
            return jax.nn.gelu(operands[0], approximate=False)
        return attrgetter(JAX.get(name, f"numpy.{name}"))(jax)(*operands, **attributes)

    return call


# --- programs --------------------------------------------------------------------------------------------------------

# Each op is written once, for any of the libraries. Its operands are brought into a range first where it needs one (so that
# programs neither overflow nor leave a domain), and the zeros that relu and its like make are moved apart, so that no later
# op stands at a kink, where libraries differ.


def bounded(m: Call, x: Any) -> Any:
    return m("sin", x) * 1.5


def positive(m: Call, x: Any) -> Any:
    return m("sin", x) * 0.9 + 1.5


def unit(m: Call, x: Any) -> Any:
    return m("sin", x) * 0.8


def same(m: Call, x: Any) -> Any:
    return x


ELEMENTWISE: Final = {
    **dict.fromkeys(("sin", "cos", "tanh", "atan", "asinh", "erf", "sigmoid", "softplus", "silu", "gelu", "softsign"), same),
    **dict.fromkeys(("exp", "expm1", "sinh", "cosh", "square"), bounded),
    **dict.fromkeys(("log", "log1p", "log2", "log10", "sqrt", "rsqrt", "reciprocal"), positive),
    **dict.fromkeys(("asin", "acos", "atanh", "tan"), unit),
}
BENT: Final = ("relu", "abs", "elu")
BINARY: Final[dict[str, tuple[Call, Call]]] = {
    "add": (same, same),
    "subtract": (same, same),
    "multiply": (bounded, bounded),
    "divide": (same, positive),
    "maximum": (same, same),
    "minimum": (same, same),
    "atan2": (same, positive),
    "hypot": (positive, same),
    "pow": (positive, bounded),
    "logaddexp": (same, same),
}
REDUCTIONS: Final[dict[str, Call]] = {
    "sum": same, "mean": same, "max": same, "min": same, "prod": positive, "logsumexp": same, "var": same, "std": same
}  # fmt: skip
ALONG: Final[dict[str, Call]] = {
    "softmax": same, "log_softmax": same, "cumulative_sum": same, "cumulative_prod": positive, "sort": same, "flip": same
}  # fmt: skip


class Step(NamedTuple):
    """One op on earlier values; ``text`` is what a failure shows."""

    text: str
    run: Callable[[Call, Sequence[Any]], Any]


def drawn(random: np.random.Generator, shapes: list[tuple[int, ...]]) -> tuple[Step, tuple[int, ...]]:
    """A step on values of these shapes, with the shape of what it makes."""
    i = int(random.integers(len(shapes)))
    shape = shapes[i]
    matrices = [k for k, s in enumerate(shapes) if len(s) == 2]
    kind = random.choice(["elementwise", "bent", "binary", "where", "reduce", "along", "matmul", "move", "solve", "clip"])
    if kind == "binary" or kind == "where":
        fitting = [k for k, s in enumerate(shapes) if _broadcast(shape, s) is not None]
        j = int(random.choice(fitting))
        found = _broadcast(shape, shapes[j])
        assert found is not None
        if kind == "where":
            return Step(f"where({i} > {j})", lambda m, v: m("where", v[i] > v[j], v[i] * 0.5, v[j] * 2.0)), found
        name = str(random.choice(list(BINARY)))
        first, second = BINARY[name]
        return Step(f"{name}({i}, {j})", lambda m, v: m(name, first(m, v[i]), second(m, v[j]))), found
    if kind in ("reduce", "along") and shape:
        axis = int(random.integers(len(shape)))
        if kind == "along":
            name = str(random.choice(list(ALONG)))
            return Step(f"{name}({i}, axis={axis})", lambda m, v: m(name, ALONG[name](m, v[i]), axis=axis)), shape
        name = str(random.choice(list(REDUCTIONS)))
        keepdims = bool(random.integers(2)) and name != "prod"
        left = tuple(1 if k == axis else n for k, n in enumerate(shape) if keepdims or k != axis)
        kwargs = {"axis": axis, **({"keepdims": True} if keepdims else {})}
        return Step(f"{name}({i}, {kwargs})", lambda m, v: reduced(m, name, v[i], kwargs)), left
    if kind == "matmul" and matrices:
        j = int(random.choice(matrices))
        if shape and shape[-1] == shapes[j][0]:
            step = Step(f"matmul({i}, {j})", lambda m, v: m("matmul", bounded(m, v[i]), unit(m, v[j])))
            return step, (*shape[:-1], shapes[j][1])
    if kind == "move" and len(shape) == 2:
        return moved(random, i, shape)
    if kind == "solve" and len(shape) == 2 and shape[0] == shape[1] > 1:
        name = str(random.choice(["inv", "det", "solve"]))
        return Step(f"{name}({i})", lambda m, v: solved(m, name, v[i], shape[0])), () if name == "det" else shape
    if kind == "clip":
        return Step(f"clip({i})", lambda m, v: m("clip", v[i], -0.7, 0.9) + v[i] * 0.25), shape
    if kind == "bent":
        name = str(random.choice(BENT))
        return Step(f"{name}({i})", lambda m, v: m(name, v[i]) + v[i] * 0.25), shape
    name = str(random.choice(list(ELEMENTWISE)))
    return Step(f"{name}({i})", lambda m, v: m(name, ELEMENTWISE[name](m, v[i]))), shape


def reduced(m: Call, name: str, x: Any, kwargs: dict[str, Any]) -> Any:
    if name in ("var", "std"):  # the libraries disagree on what they divide by; their parts are defined
        around = x - m("mean", x, axis=kwargs["axis"], keepdims=True)
        spread = m("mean", m("square", around), **kwargs) + 0.25
        return m("sqrt", spread) if name == "std" else spread
    return m(name, REDUCTIONS[name](m, x), **kwargs)


def solved(m: Call, name: str, x: Any, n: int) -> Any:
    """The square is made regular: its diagonal outweighs the other elements of a row."""
    y = unit(m, x)
    regular = y + m("tril", m("triu", y * 0.0 + float(2 * n)))
    return m(name, regular, bounded(m, x)) if name == "solve" else m(name, regular)


def moved(random: np.random.Generator, i: int, shape: tuple[int, ...]) -> tuple[Step, tuple[int, ...]]:
    rows, columns = shape
    index = random.integers(0, rows, 3)
    choices: list[tuple[Step, tuple[int, ...]]] = [
        (Step(f"permute_dims({i})", lambda m, v: m("permute_dims", v[i], (1, 0))), (columns, rows)),
        (Step(f"reshape({i})", lambda m, v: m("reshape", v[i], (columns, rows))), (columns, rows)),
        (Step(f"reshape({i}, (-1,))", lambda m, v: m("reshape", v[i], (-1,))), (rows * columns,)),
        (Step(f"concat({i})", lambda m, v: m("concat", [v[i][1:], v[i][:1] * 2.0], axis=0)), shape),
        (Step(f"stack({i})", lambda m, v: m("stack", [v[i][0], v[i][-1], v[i][0]], axis=0)), (3, columns)),
        (Step(f"roll({i})", lambda m, v: m("roll", v[i], 1, axis=1)), shape),
        (Step(f"tril({i})", lambda m, v: m("tril", v[i]) + m("triu", v[i]) * 0.5), shape),
        (Step(f"take({i}, {index.tolist()})", lambda m, v: taken(m, v[i], index)), (3, columns)),
        (Step(f"broadcast_to({i})", lambda m, v: m("broadcast_to", v[i][:, :1], shape)), shape),
    ]
    return choices[int(random.integers(len(choices)))]


def taken(m: Call, x: Any, index: HostArray) -> Any:
    return m("take", x, im.asarray(index, device=x.device) if isinstance(x, im.Tensor) else index, axis=0)


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


class Program(NamedTuple):
    """Inputs, and steps whose results are all weighted and added up."""

    inputs: list[HostArray]
    steps: list[Step]
    weights: list[float]

    def __call__(self, m: Call, *inputs: Any) -> Any:
        values = list(inputs)
        for step in self.steps:
            values.append(step.run(m, values))
        totals = [m("sum", v) * w for v, w in zip(values[len(inputs) :], self.weights, strict=True)]
        return reduce(lambda a, b: a + b, totals)

    def __str__(self) -> str:
        return "; ".join(step.text for step in self.steps)


def program(seed: int) -> Program:
    random = np.random.default_rng(seed)
    shapes: list[tuple[int, ...]] = [(3, 4), (4,), (3, 3), ()]
    inputs = [random.uniform(-2, 2, s) for s in shapes]
    steps = []
    for _ in range(int(random.integers(5, 16))):
        step, shape = drawn(random, shapes)
        steps.append(step)
        shapes.append(shape)
    return Program(inputs, steps, list(random.uniform(0.5, 1.5, len(steps))))


# --- gradients -------------------------------------------------------------------------------------------------------


def by_tape(given: Program, device: str) -> list[HostArray]:
    variables = [im.asarray(x, device=device).require_grad() for x in given.inputs]
    grads = given(ours, *variables).backward()
    return [np.zeros(x.shape) if (g := grads.get(x)) is None else g.numpy() for x in variables]


def by_torch(given: Program) -> list[HostArray]:
    torch = import_module("torch")
    variables = [torch.tensor(x, requires_grad=True) for x in given.inputs]
    given(of_torch(), *variables).backward()
    return [np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in variables]


def by_jax(given: Program) -> list[HostArray]:
    jax = import_module("jax")
    call = of_jax()
    gradient = jax.grad(lambda inputs: given(call, *inputs))
    return [np.asarray(g) for g in gradient([jax.numpy.asarray(x) for x in given.inputs])]


LIBRARY: Final = {"torch": by_torch, "jax": by_jax}


def differences(given: Program, library: str) -> list[str]:
    """What of the tape's gradients rounding does not explain, against the library's own."""
    found, wanted = by_tape(given, f"{library}:cpu"), LIBRARY[library](given)
    wrong = []
    random = np.random.default_rng(0)
    moved: list[list[HostArray]] | None = None
    for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if complaint(a, b) is None:
            continue
        if moved is None:  # how far the library's gradients move when the inputs do by a rounding: the condition of the program
            nudges = [given._replace(inputs=[nudged(x, random, turn) for x in given.inputs]) for turn in range(NUDGES)]
            moved = [LIBRARY[library](n) for n in nudges]
        # A step is up to three ops with a value and a derivative each, whose results twelve elements meet in at most.
        allowed = bound(b, [m[i] for m in moved], im.float64, 12 * len(given.steps), elementwise=False)
        text = complaint(a, b, allowed)
        if text:
            wrong.append(f"input {i}: {text}")
    return wrong


@pytest.mark.parametrize("first", range(0, PROGRAMS, AT_ONCE))
@pytest.mark.parametrize("library", LIBRARIES)
def test_gradients_of_random_programs_agree_with_the_library_of_the_engine(library: str, first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        given = program(seed)
        wrong = differences(given, library)
        assert not wrong, f"program {seed}: {given}\n" + "\n".join(wrong)


def test_the_programs_draw_on_forty_ops_and_more() -> None:
    texts = {step.text.partition("(")[0] for seed in range(PROGRAMS) for step in program(seed).steps}
    assert len(texts) >= 40
    assert texts >= {*ELEMENTWISE, *BINARY, *REDUCTIONS, *ALONG, "matmul", "where", "solve", "take", "concat"}


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_a_wrong_derivative_in_a_program_is_found() -> None:
    given = program(0)
    wrong = Step("wrong", lambda m, v: m("sin", v[0].detach() if m is ours else v[0]))
    assert "input 0: " in differences(given._replace(steps=[*given.steps, wrong], weights=[*given.weights, 1.0]), "torch")[0]
