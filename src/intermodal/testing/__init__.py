"""The conformance kit: what an engine's author runs to know that the engine means what every other engine means.

``python -m intermodal.testing torch`` tests an engine over the whole op table; `run` does the same from Python.
`check_grad` and `no_leaked_nodes` test derivatives.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

from intermodal.testing.calls import replay
from intermodal.testing.report import Counts, Failure, Report
from intermodal.testing.runner import run
from intermodal.testing.samples import Draw, Sample, call, case, cases, sample

if _TYPE_CHECKING:
    from intermodal.testing.gradients import check_grad, no_leaked_nodes

__all__ = [
    "Counts",
    "Draw",
    "Failure",
    "Report",
    "Sample",
    "call",
    "case",
    "cases",
    "check_grad",
    "no_leaked_nodes",
    "replay",
    "run",
    "sample",
]


def __getattr__(name: str) -> _Any:
    # Loaded when asked for: the kit tests engines, and does so without the autodiff layer.
    if name in ("check_grad", "no_leaked_nodes"):
        return getattr(_import_module("intermodal.testing.gradients"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
