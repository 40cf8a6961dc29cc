"""The engines give the same results on random programs, and on those on which they once differed."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import pytest

import intermodal as im
from differential import long, whole
from differential.compare import mismatch
from differential.examples import EXAMPLES, WHOLE
from differential.programs import Program, Step, V, array, used
from intermodal.backend import register, unregister
from intermodal.engines.numpy import NumpyBackend
from intermodal.ops.table import TABLE

ENGINES = [engine for engine in ("torch", "jax") if find_spec(engine)]
# A program of new shapes takes JAX seconds, because it compiles each op for each of them; PyTorch runs thirty programs a second.
SHORT = {"torch": 500, "jax": 500 if os.environ.get("INTERMODAL_TEST_JAX") == "1" else 8}
COMPILED = {"numpy": 40, "jax": 6, "torch": 2, "onnx": 6}
COMPILED_LONG = {"numpy": 2000, "jax": 2000, "torch": 100, "onnx": 500}
COMPILING = ["numpy", *ENGINES, *(["onnx"] if find_spec("onnxruntime") else [])]
SCOPE = {"Program": Program, "Step": Step, "V": V, "array": array, "np": np, "nan": np.nan, "inf": np.inf}
LONG = int(os.environ.get("INTERMODAL_DIFFERENTIAL_PROGRAMS", "20000"))


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_gives_the_reference_s_results_on_random_programs(engine: str) -> None:
    found = long.run_part(0, [im.Device(f"{engine}:cpu")], narrow=engine == "jax", size=SHORT[engine])
    assert not found.mismatches, "\n".join(found.mismatches)
    assert found.programs == SHORT[engine]


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_gives_the_reference_s_results_on_very_many_programs(engine: str) -> None:
    found = long.run_parts(LONG, [f"{engine}:cpu"], narrow=engine == "jax")
    assert not found.mismatches, "\n".join(found.mismatches)
    assert all(found.steps[name] for name in TABLE) or LONG < 20_000


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("sentence", EXAMPLES)
def test_of_what_once_differed(sentence: str, engine: str) -> None:
    wrong = mismatch(EXAMPLES[sentence], [im.Device(f"{engine}:cpu")])
    assert wrong is None, str(wrong)


# --- as one compiled function --------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", COMPILING)
def test_a_random_program_compiled_gives_what_it_gives_step_by_step(engine: str) -> None:
    found = long.run_part(0, [im.Device(f"{engine}:cpu")], narrow=engine != "numpy", compiled=True, size=COMPILED[engine])
    assert not found.mismatches, "\n".join(found.mismatches)
    assert found.programs == COMPILED[engine]


@pytest.mark.long
@pytest.mark.parametrize("engine", COMPILING)
def test_very_many_programs_compiled_give_what_they_give_step_by_step(engine: str) -> None:
    found = long.run_parts(COMPILED_LONG[engine], [f"{engine}:cpu"], narrow=engine != "numpy", compiled=True)
    assert not found.mismatches, "\n".join(found.mismatches)


@pytest.mark.parametrize("engine", ["numpy", *(e for e in ENGINES if e == "jax")])
@pytest.mark.parametrize("sentence", WHOLE)
def test_of_what_once_differed_when_it_was_compiled(sentence: str, engine: str) -> None:
    wrong = whole.mismatch(WHOLE[sentence], [im.Device(f"{engine}:cpu")])
    assert wrong is None, str(wrong)


@pytest.mark.parametrize("sentence", EXAMPLES)
def test_of_what_once_differed_between_engines_compiled(sentence: str) -> None:
    wrong = whole.mismatch(EXAMPLES[sentence], [im.Device("numpy:cpu")])
    assert wrong is None, str(wrong)


# --- the suite finds defects ---------------------------------------------------------------------------------------


class HastyBackend(NumpyBackend):
    """NumPy with mistakes: elements in other places, a function with too few digits, an op that is another."""

    engine = "hasty"
    natives = {
        **NumpyBackend.natives,
        "flip": lambda x, axis: np.roll(np.flip(x, axis), 1),
        "exp": lambda x: np.exp(x.astype(np.float16)).astype(x.dtype),
        "bitwise_xor": np.bitwise_or,
    }

    def devices(self) -> tuple[im.Device, ...]:
        return (im.Device("hasty:cpu"),)


@pytest.fixture
def hasty() -> object:
    register("hasty", HastyBackend)
    yield im.Device("hasty:cpu")
    unregister("hasty")


def test_mistakes_of_an_engine_are_found_and_made_short(hasty: im.Device) -> None:
    found = long.run_part(0, [hasty], size=250)
    ops = {wrong.splitlines()[0].partition("(")[2].partition(")")[0] for wrong in found.mismatches}
    assert {"flip", "exp"} <= ops
    program = eval(next(wrong for wrong in found.mismatches if "(exp)" in wrong).partition("\n")[2], SCOPE)
    assert program.steps[-1].op == "exp"
    taken = {i for step in program.steps for i in used(step)}
    assert len(taken) >= len(program.steps) - 1, program  # no step is left whose result nobody takes


def test_mistakes_that_compiling_makes_are_found(hasty: im.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HastyBackend, "natives", NumpyBackend.natives)
    program = Program(
        Step("source", array([1.0, 2.0], "float32"), "plain"), Step("negative", V(0)), Step("exp", V(1)), Step("sum", V(2))
    )
    assert whole.mismatch(program, [hasty]) is None
    monkeypatch.setattr(HastyBackend, "compile", lambda self, program: _off_by_one(program.function()))
    wrong = whole.mismatch(program, [hasty])
    assert wrong is not None
    assert (wrong.number, "compiled: " in wrong.message) == (1, True)


def _off_by_one(function: Callable[..., tuple[object, ...]]) -> Callable[..., tuple[object, ...]]:
    return lambda *arrays: tuple(r if i == 0 else r + 1 for i, r in enumerate(function(*arrays)))  # type: ignore[operator]  # NumPy's


def test_a_program_prints_as_the_code_that_makes_it() -> None:
    program = Program(
        Step("source", array([[complex(-0.0, np.nan), 1j]], "complex64"), "reversed"),
        Step("source", array(np.zeros((0, 2)), "bfloat16"), "plain"),
        Step("getitem", V(0), (slice(None, None, -1), None, ...)),
        Step("sum", V(0), axis=(0,), terms=2),
    )
    assert repr(eval(repr(program), SCOPE)) == repr(program)
    assert np.signbit(eval(repr(program), SCOPE).steps[0].args[0].real[0, 0])


def test_a_write_that_reaches_too_little_is_found(hasty: im.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HastyBackend.natives, "basic_put", lambda x, value, key, mode: x)
    program = Program(
        Step("source", array([1.0, 2.0, 3.0], "float32"), "plain"),
        Step("getitem", V(0), slice(1, None)),
        Step("iadd", V(1), 1.0),
    )
    wrong = mismatch(program, [hasty])
    assert wrong is not None
    assert "V(0) after the write" in wrong.message
