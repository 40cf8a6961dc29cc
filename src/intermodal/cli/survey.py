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
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module, metadata
from typing import Any, Final, Literal, TypeAlias

from intermodal.backend import Backend, backend_of, engines
from intermodal.cli.failures import wants_traceback

__all__ = ["Answer", "Question", "answer", "ask", "names"]

TIMEOUT: Final = 120.0
"""Seconds: importing PyTorch from a cold disk has been seen to take half a minute."""

Question: TypeAlias = Callable[[Backend], dict[str, Any]]
Status: TypeAlias = Literal["available", "missing", "broken"]

# What is listed even when it is not installed: the library that each engine runs on, and what installs it.
LIBRARIES: Final = {"numpy": "numpy", "meta": "intermodal", "torch": "torch", "jax": "jax"}
INSTALL: Final = {"torch": 'pip install "intermodal[torch]"', "jax": 'pip install "intermodal[jax]"'}

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
    """The engines to ask: the known ones first, installed or not, then those of plugins."""
    return [*LIBRARIES, *(e for e in engines() if e not in LIBRARIES)]


def ask(question: Question, engines: Iterable[str], timeout: float = TIMEOUT) -> list[Answer]:
    """Put a question to each engine, several at a time."""
    text = f"{question.__module__}:{question.__qualname__}"
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        answers = list(pool.map(lambda engine: _ask_one(engine, text, timeout), engines))
    if wants_traceback():
        for found in answers:
            sys.stderr.write(f"{found.engine}: {found.traceback}\n" if found.traceback else "")
    return answers


def _ask_one(engine: str, question: str, timeout: float) -> Answer:
    job = json.dumps({"path": [p or os.getcwd() for p in sys.path], "engine": engine, "question": question})
    # -P: the child searches where we search, and not also where it happens to stand.
    command = [sys.executable, "-P", "-c", _CHILD]
    version = _version(engine)
    try:
        done = subprocess.run(command, input=job, capture_output=True, text=True, errors="replace", timeout=timeout, check=False)  # noqa: S603  # our own interpreter and text
    except subprocess.TimeoutExpired:
        return Answer(engine, "broken", version, f"it did not answer within {timeout:g} seconds")
    try:
        said = json.loads(done.stdout)
    except ValueError:
        return Answer(engine, "broken", version, _last_words(done), traceback=done.stderr or None)
    if said["status"] == "available":
        return Answer(engine, "available", version, facts=said["facts"])
    missing = engine in INSTALL and said["status"] == "missing"
    return Answer(
        engine,
        "missing" if missing else "broken",
        version,
        said["reason"],
        INSTALL[engine] if missing else None,
        traceback=None if missing else said["traceback"],
    )


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    code = done.returncode
    if code < 0:
        how = f"its process was killed by {signal.Signals(-code).name}"
    else:
        how = f"its process ended with exit code {code} and no answer"
    last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "")
    return _plain(f"{how}: {last}" if last else how)


def _version(engine: str) -> str | None:
    try:
        if engine in LIBRARIES:
            return metadata.version(LIBRARIES[engine])
        found = metadata.entry_points(group="intermodal.engines", name=engine)
        return next((e.dist.version for e in found if e.dist is not None), None)
    except metadata.PackageNotFoundError:
        return None


def answer(engine: str, question: str) -> None:
    """Answer in the child: one JSON document on what was standard output, where nothing else is written any more."""
    reply = os.dup(1)
    os.dup2(2, 1)  # what an engine prints, from Python or from C, goes to standard error
    module, _, name = question.partition(":")
    said: dict[str, Any]
    try:
        said = {"status": "available", "facts": getattr(import_module(module), name)(_load(engine))}
    except (Exception, SystemExit) as error:  # a plugin may fail in any way, and may even try to end the process
        said = _failure(error)
    with os.fdopen(reply, "w", encoding="utf-8") as out:
        json.dump(said, out)


def _load(engine: str) -> Backend:
    if engine not in engines():
        raise ModuleNotFoundError(f"no entry point of the group intermodal.engines is named {engine}")
    return backend_of(engine)


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
