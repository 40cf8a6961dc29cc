"""The hot path compiled and pure. The whole suite runs with either; here is what chooses, and what is built."""

from __future__ import annotations

import importlib.util
import os
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from intermodal import tensor

ROOT = Path(__file__).parents[1]
MODULES = ["tensor", "plans", "dispatch", "autodiff/nodes", "autodiff/recorders", "autodiff/tape"]
ENDINGS = {".so", ".pyd"}
PROGRAM = """
import intermodal as im
from intermodal import tensor
x = im.asarray([[1.0, 2.0], [3.0, 4.0]])
row = x[0]
row += 10.0
import sys
from intermodal import autodiff
print(tensor.__file__)
print([sys.modules[f"intermodal.{name}"].__file__ for name in NAMES])
print((x @ x + 1).tolist(), 2 - x[1, 1].item(), bool((x == x).all()), [10, 20][im.asarray(1)], hash(tensor.Place()) is None)
for _ in range(3):
    w = x.require_grad()
    print(im.sum(im.exp(w) @ im.concat([w, w], axis=1) * 2, axis=1).backward(im.ones(2))[w].tolist())
print(im.hessian(lambda v: im.sum(v**3))(im.asarray([1.0, 2.0])).tolist())
"""


def answers(place: Path, pure: str) -> list[str]:
    environment = os.environ | {"PYTHONPATH": str(place), "INTERMODAL_PURE": pure}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("NAMES", repr([name.replace("/", ".") for name in MODULES]))],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        cwd=place,
    ).stdout.splitlines()


def build(target: Path, **environment: str) -> tuple[Path, str]:
    """The wheel, built for real from a copy of the source, and what the build said."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed")
    source = target / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".git", ".*_cache", "__pycache__", "tests", "docs"))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    variables = {k: v for k, v in os.environ.items() if k != "INTERMODAL_PURE"} | environment
    done = subprocess.run(command, cwd=source, check=True, capture_output=True, text=True, env=variables)
    (built,) = target.glob("*.whl")
    return built, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The contents of a wheel with the compiled hot path."""
    if shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("no C compiler here")
    target = tmp_path_factory.mktemp("wheel")
    built, _ = build(target, INTERMODAL_PURE="0")
    assert "none-any" not in built.name
    with zipfile.ZipFile(built) as archive:
        archive.extractall(target / "installed")
    return target / "installed"


def test_the_wheel_runs_compiled_and_from_source_alike(wheel: Path) -> None:
    compiled, pure = answers(wheel, "0"), answers(wheel, "1")
    assert Path(compiled[0]).suffix in ENDINGS
    assert Path(pure[0]).name == "tensor.py"
    assert compiled[1].count(Path(compiled[0]).suffix + "'") == pure[1].count(".py'") == len(MODULES)
    assert compiled[2:] == pure[2:]
    assert Path(compiled[0]).is_relative_to(wheel)


def test_the_source_and_the_compiled_module_lie_side_by_side(wheel: Path) -> None:
    built = {p.relative_to(wheel / "intermodal").as_posix().partition(".")[0] for p in wheel.rglob("*.*") if p.suffix in ENDINGS}
    assert built == {*MODULES, "hotpath__mypyc"}
    for name in MODULES:
        assert (wheel / "intermodal" / f"{name}.py").read_text() == (ROOT / "src" / "intermodal" / f"{name}.py").read_text()


def test_what_is_compiled_and_what_may_run_from_its_source_are_the_same() -> None:
    namespace = runpy.run_path(str(ROOT / "hatch_build.py"), run_name="read") if importlib.util.find_spec("hatchling") else None
    assert namespace is None or set(namespace["MODULES"]) == set(MODULES)


@pytest.mark.skipif("INTERMODAL_PURE" not in os.environ, reason="INTERMODAL_PURE is not set")
def test_what_was_asked_for_is_what_runs() -> None:
    assert str(tensor.__file__).endswith(".py") != (os.environ["INTERMODAL_PURE"] == "0")


def test_a_wheel_without_a_compiler_is_pure_and_says_so(tmp_path: Path) -> None:
    built, said = build(tmp_path, CC="no-such-compiler")
    assert "none-any" in built.name
    assert "stays pure Python" in said
