"""Training for long: nothing is left behind by a step."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import intermodal as im
from intermodal.testing import no_leaked_nodes

STATUS = Path("/proc/self/statm")
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def resident() -> int:
    """The bytes of this process that are in memory."""
    gc.collect()
    return int(STATUS.read_text().split()[1]) * PAGE


def train(steps: int, device: im.Device) -> tuple[list[float], list[int]]:
    """The losses, and the memory in use after a third of the steps and after all."""
    model: Any = {"in": im.nn.Linear(32, 64, device=device), "out": im.nn.Linear(64, 8, device=device)}
    optimizer = im.optim.AdamW(1e-3)
    state = optimizer.init(model)
    rng = np.random.default_rng(0)
    x = im.asarray(rng.normal(size=(128, 32)), dtype="float32", device=device)
    labels = im.asarray(rng.integers(0, 8, 128), device=device)

    def loss_of(model: Any) -> im.Tensor:
        return im.nn.cross_entropy(model["out"](im.nn.relu(model["in"](x))), labels)

    losses, memory = [], []
    for step in range(1, steps + 1):
        loss, grads = im.value_and_grad(loss_of)(model)
        model, state = optimizer.update(model, im.optim.clip_by_global_norm(grads, 1.0), state)
        losses.append(float(loss))
        if STATUS.exists() and step in (steps // 3, steps):
            memory.append(resident())
    return losses, memory


@pytest.mark.parametrize("steps", [100, pytest.param(1000, marks=pytest.mark.long)])
def test_many_steps_leave_no_record_and_take_no_more_memory(steps: int, device: im.Device) -> None:
    with no_leaked_nodes():
        losses, memory = train(steps, device)
    assert losses[-1] < losses[0]
    if memory:
        assert memory[1] < memory[0] * 1.01
