"""``intermodal doctor``: does each device compute rightly, do the settings fit, is a release known to be wrong."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any, Final

from rich.console import Console
from rich.text import Text

import intermodal as im
from intermodal import config, tensor
from intermodal.cli import probes, threads
from intermodal.cli.output import STYLES, grid, heading
from intermodal.cli.survey import Answer, ask
from intermodal.cli.versions import known_problems
from intermodal.errors import IntermodalError

__all__ = ["collect", "show"]

_LIBRARIES: Final = ("numpy", "ml_dtypes", "torch", "jax", "jaxlib", "onnx", "onnxruntime", "threadpoolctl")
_ORDER: Final = ("error", "warning", "note")


def collect(chosen: Sequence[str], timeout: float) -> dict[str, Any]:
    """The machine form; ``ok`` is whether nothing is broken."""
    answers = ask(probes.examine, chosen, timeout)
    cores = threads.cores()
    findings = sorted(_findings(answers, os.environ, cores["usable"]), key=lambda f: _ORDER.index(f["severity"]))
    return {
        "ok": all(f["severity"] != "error" for f in findings),
        "intermodal": im.__version__,
        "hot_path": "pure Python" if str(tensor.__file__).endswith(".py") else "compiled",
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "libraries": {name: version for name in _LIBRARIES if (version := _version(name))},
        "engines": [{**a.as_dict(), "devices": a.facts.get("devices", [])} for a in answers],
        "threads": {
            "cores": cores,
            "environment": threads.settings(os.environ),
            "set_by_intermodal": threads.ours(),
            "pools": {a.engine: a.facts["pools"] for a in answers if a.status == "available"},
        },
        "findings": findings,
    }


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _findings(answers: list[Answer], environment: Mapping[str, str], usable: int) -> Iterator[dict[str, str]]:
    for answer in answers:
        if answer.status == "broken":
            yield _error(
                f"engine {answer.engine}",
                answer.reason or "it does not work",
                (f"try {answer.install}, or uninstall it" if answer.install else "mend or uninstall the library")
                + "; --traceback shows where it broke",
            )
        for device in answer.facts.get("devices", []):
            yield from _device_findings(answer, device)
    yield from _settings(answers)
    for answer in answers:
        fight = threads.contention(answer.facts["pools"], environment, usable) if answer.status == "available" else None
        if fight is not None:
            yield fight
            break
    yield from known_problems()


def _device_findings(answer: Answer, device: dict[str, Any]) -> Iterator[dict[str, str]]:
    for check in device["checks"]:
        subject, message = f"{device['device']}, check {check['check']}", check["message"]
        if check["result"] == "failed":
            yield _error(subject, message, f"do not trust this device; install another release of {answer.engine}")
        elif check["result"] == "unsupported":
            yield {"severity": "note", "subject": subject, "message": message, "cure": ""}


def _settings(answers: list[Answer]) -> Iterator[dict[str, str]]:
    for setting in config.SETTINGS.values():
        try:
            value = setting.get()
        except IntermodalError as error:
            yield _error(setting.variable, str(error), f"unset {setting.variable} or give it a valid value")
            continue
        there = [d["device"] for a in answers for d in a.facts.get("devices", [])]
        if isinstance(value, im.Device) and value.engine in {a.engine for a in answers} and str(value) not in there:
            yield _error(
                setting.variable,
                f"the default device {value} is not there",
                f"unset {setting.variable} or choose from {', '.join(there)}",
            )


def _error(subject: str, message: str, cure: str) -> dict[str, str]:
    return {"severity": "error", "subject": subject, "message": message, "cure": cure}


def show(document: dict[str, Any], out: Console) -> None:
    """The form for people."""
    grid(
        out,
        [
            ("intermodal", f"{document['intermodal']}, hot path {document['hot_path']}"),
            ("python", f"{document['python']} on {document['system']} {document['machine']}"),
            *document["libraries"].items(),
        ],
        indent=0,
    )
    heading(out, "devices")
    grid(out, _devices(document["engines"]))
    heading(out, "threads")
    grid(out, _threads(document["threads"]))
    heading(out, "findings")
    grid(out, _show_findings(document["findings"]))
    out.print()
    verdict = ("Nothing is broken.", STYLES["ok"]) if document["ok"] else ("Something is broken.", STYLES["broken"])
    out.print(Text(*verdict))


def _show_findings(findings: list[dict[str, str]]) -> Iterator[tuple[str, str]]:
    for finding in findings:
        yield finding["severity"], f"{finding['subject']}: {finding['message']}"
        if finding["cure"]:
            yield "", f"To do: {finding['cure']}."
    if not findings:
        yield "ok", "nothing to say"


def _devices(engines: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for engine in engines:
        for device in engine["devices"]:
            results = Counter(check["result"] for check in device["checks"])
            counted = ", ".join(f"{results[word]} {word}" for word in ("passed", "unsupported", "failed") if results[word])
            yield (
                device["device"],
                "ok" if device["ok"] else "broken",
                f"{device['name']}: {counted} in {device['seconds']:.1f} s",
            )
        if engine["status"] != "available":
            mend = f": {engine['install']}" if engine["status"] == "missing" else ""  # what is broken is among the findings
            yield engine["engine"], engine["status"], engine["reason"] + mend
        elif not engine["devices"]:
            yield engine["engine"], "missing", "the engine works, but finds no device here"


def _threads(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    cores = document["cores"]
    yield "cores", f"{cores['usable']} usable of {cores['machine']}"
    for name, value in document["environment"].items():
        yield (
            name,
            "not set" if value is None else f"{value}, set by intermodal" if name in document["set_by_intermodal"] else value,
        )
    counts = [pools["torch"] for pools in document["pools"].values() if pools["torch"] is not None]
    if counts:
        yield "torch.get_num_threads()", str(counts[0])
    alike: dict[str, list[str]] = {}
    for engine, pools in document["pools"].items():
        found = dict.fromkeys(sorted(f"{p['threads']} of {p['library']}" for p in pools["found"] or ()))
        alike.setdefault(", ".join(found), []).append(engine)
    yield from ((f"pools with {', '.join(engines)}", text) for text, engines in alike.items() if text)
    if any(pools["found"] is None for pools in document["pools"].values()):
        yield "pools", "not known: threadpoolctl is not installed"
