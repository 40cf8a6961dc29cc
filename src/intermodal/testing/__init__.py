"""The conformance kit: what an engine's author runs to know that the engine means what every other engine means.

``python -m intermodal.testing torch`` tests an engine over the whole op table; `run` does the same from Python.
"""

from intermodal.testing.calls import replay
from intermodal.testing.report import Counts, Failure, Report
from intermodal.testing.runner import run
from intermodal.testing.samples import Draw, Sample, call, case, cases, sample

__all__ = ["Counts", "Draw", "Failure", "Report", "Sample", "call", "case", "cases", "replay", "run", "sample"]
