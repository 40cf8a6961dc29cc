"""The example of the page on training: it runs as it stands, and engines take the same way."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import intermodal as im

pytest.importorskip("sklearn")
pytest.importorskip("rich")

PROGRAM = Path(__file__).parents[2] / "examples" / "train_digits.py"


@cache
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_digits", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@cache
def trained(device: str) -> tuple[Any, list[float], float]:
    from rich.progress import Progress

    with Progress(disable=True) as progress:
        result: tuple[Any, list[float], float] = example().train(device, 3, progress)
    return result


def test_three_epochs_learn_most_digits(device: im.Device) -> None:
    _, losses, share = trained(str(device))
    assert len(losses) == 66
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) / 2
    assert share > 0.7


def test_engines_that_start_alike_take_the_same_steps(device: im.Device) -> None:
    reference, losses = trained("numpy:cpu")[1][:22], trained(str(device))[1][:22]
    assert max(abs(a - b) for a, b in zip(reference, losses, strict=True)) < 1e-4


def test_the_program_says_how_well_it_reads_and_draws_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "digits.png"
    command = [sys.executable, str(PROGRAM), "--epochs", "1", "--plot", str(picture)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "of the test digits read rightly" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
