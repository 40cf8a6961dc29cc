"""Whole programs on PyTorch: traced to its own graph, then compiled by Inductor."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from intermodal.backend import Program
from intermodal.engines.torch.natives import TORCH, on
from intermodal.errors import UnsupportedError

__all__ = ["compiled"]


def compiled(program: Program) -> Callable[..., Sequence[torch.Tensor]]:
    """A program as one compiled function. Its arrays come in C order, which the compiled code counts on."""
    with warnings.catch_warnings(action="ignore"):
        import torch._inductor  # a second of import, for those who compile

    program.require_sizes()
    where = on(program.device)
    examples: list[Any] = [torch.empty(t.shape, dtype=TORCH[t.dtype], device=where) for t in program.ir.inputs]
    try:
        # A derivative is part of the program, and PyTorch need not look for one. What its compiler imports warns of itself.
        with torch.no_grad(), warnings.catch_warnings(action="ignore"):
            graph = make_fx(program.function(), tracing_mode="fake")(*examples)
            run: Callable[..., Sequence[torch.Tensor]] = torch._inductor.compile(graph, examples)
    except Exception as error:
        raise UnsupportedError(f"compile: PyTorch cannot compile this program: {error}. Run it as a graph instead.") from error
    contiguous = torch.Tensor.is_contiguous

    def call(*arrays: Any) -> Sequence[torch.Tensor]:
        return run(*[a if contiguous(a) else a.contiguous() for a in arrays])

    return call
