"""Questions to engines, each in a process of its own: an engine that raises, prints, hangs or dies spoils its own answer only.

`ask` starts one process per engine and collects what they say; `answer` is what runs there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module, metadata
from typing import Any, Final, Literal, TypeAlias

from intermodal.backend import Backend, backend_of
from intermodal.backend.plugins import PluginWarning
from intermodal.backend.registry import EngineInfo, entries
from intermodal.cli.failures import wants_traceback

__all__ = ["Answer", "Question", "answer", "ask", "names"]

TIMEOUT: Final = 120.0
"""Seconds: importing PyTorch from a cold disk has been seen to take half a minute."""

Question: TypeAlias = Callable[[Backend], dict[str, Any]]
Status: TypeAlias = Literal["available", "missing", "broken"]

# Our own engines in the order in which they are listed, with the library that each runs on.
LIBRARIES: Final = {"numpy": "numpy", "meta": "intermodal", "torch": "torch", "jax": "jax", "onnx": "onnxruntime"}

_CHILD: Final = (
    "import json, sys; job = json.load(sys.stdin); sys.path[:] = job['path']; "
    "from intermodal.cli.survey import answer; answer(job['engine'], job['question'])"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine said, or why it said nothing.

    Attributes:
        engine: its name.
        status: ``available``, ``missing`` (its library is not installed) or ``broken``.
        version: of the library it runs on, or of the plugin it comes from.
        reason: why it is missing or broken.
        install: the command that mends it, where one is known.
        facts: the answer to the question.
        traceback: where a broken engine broke.
    """

    engine: str
    status: Status
    version: str | None = None
    reason: str | None = None
    install: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    traceback: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The part of the machine form that all commands share."""
        return {
            "engine": self.engine,
            "status": self.status,
            "version": self.version,
            "reason": self.reason,
            "install": self.install,
        }


def names() -> list[str]:
    """The engines that can be asked: ours first, installed or not, then those of plugins."""
    return list(dict.fromkeys(info.name for info in _listed()))


def _listed() -> list[EngineInfo]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)  # a plugin that another one hides is in the list, with the reason
        found = entries()
    own = list(LIBRARIES)
    return sorted(found, key=lambda info: (own.index(info.name) if info.name in own else len(own), info.name))


def ask(question: Question, chosen: Sequence[str] = (), timeout: float = TIMEOUT) -> list[Answer]:
    """Put a question to each engine, or to the chosen ones, several at a time."""
    text = f"{question.__module__}:{question.__qualname__}"
    asked = [info for info in _listed() if not chosen or info.name in chosen]
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        answers = list(pool.map(lambda info: _ask_one(info, text, timeout), asked))
    if wants_traceback():
        for found in answers:
            sys.stderr.write(f"{found.engine}: {found.traceback}\n" if found.traceback else "")
    return answers


def _ask_one(info: EngineInfo, question: str, timeout: float) -> Answer:
    engine, own = info.name, info.name in LIBRARIES
    version = _version(LIBRARIES.get(engine, info.origin))
    mend = None if own else info.install or f"pip install --upgrade {info.origin}"
    if info.reason:  # known without trying
        return Answer(engine, "broken", version, _plain(info.reason), info.install or None)
    job = json.dumps({"path": [p or os.getcwd() for p in sys.path], "engine": engine, "question": question})
    # -P: the child searches where we search, and not also where it happens to stand.
    command = [sys.executable, "-P", "-c", _CHILD]
    try:
        done = subprocess.run(command, input=job, capture_output=True, text=True, errors="replace", timeout=timeout, check=False)  # noqa: S603  # our own interpreter and text
    except subprocess.TimeoutExpired:
        return Answer(engine, "broken", version, f"it did not answer within {timeout:g} seconds", mend)
    try:
        said = json.loads(done.stdout)
    except ValueError:
        return Answer(engine, "broken", version, _last_words(done), mend, traceback=done.stderr or None)
    if said["status"] == "available":
        return Answer(engine, "available", version, facts=said["facts"])
    if own and said["status"] == "missing":
        return Answer(engine, "missing", None, said["reason"], f'pip install "intermodal[{engine}]"')
    return Answer(engine, "broken", version, said["reason"], mend, traceback=said["traceback"])


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    code = done.returncode
    if code < 0:
        how = f"its process was killed by {signal.Signals(-code).name}"
    else:
        how = f"its process ended with exit code {code} and no answer"
    last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "")
    return _plain(f"{how}: {last}" if last else how)


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def answer(engine: str, question: str) -> None:
    """Answer in the child: one JSON document on what was standard output, where nothing else is written any more."""
    reply = os.dup(1)
    os.dup2(2, 1)  # what an engine prints, from Python or from C, goes to standard error
    module, _, name = question.partition(":")
    said: dict[str, Any]
    try:
        said = {"status": "available", "facts": getattr(import_module(module), name)(backend_of(engine))}
    except (Exception, SystemExit) as error:  # a plugin may fail in any way, and may even try to end the process
        said = _failure(error)
    with os.fdopen(reply, "w", encoding="utf-8") as out:
        json.dump(said, out)


def _failure(error: BaseException) -> dict[str, Any]:
    first = list(_causes(error))[-1]
    missing = isinstance(first, ModuleNotFoundError) and not (first.name or "").startswith("intermodal")
    return {
        "status": "missing" if missing else "broken",
        "reason": _plain(str(first) if missing else f"{type(first).__name__}: {first}"),
        "traceback": "".join(traceback.format_exception(error)),
    }


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _plain(text: str) -> str:
    """One line without control characters: what a plugin says must not steer the terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
