from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import intermodal as im
from intermodal import tensor
from intermodal.cli import probes

from .commands import install, intermodal

FAULTY = """
import numpy as np
from intermodal.engines.numpy import NumpyBackend
from intermodal.devices import Device
class Plugin(NumpyBackend):
    engine = "faulty"
    natives = {{**NumpyBackend.natives, {op!r}: {function}}}
    def devices(self): return (Device("faulty:cpu"),)
"""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = intermodal("doctor", "--json").json()
    return found


def errors(document: dict[str, Any]) -> list[dict[str, str]]:
    return [f for f in document["findings"] if f["severity"] == "error"]


def test_the_devices_that_are_here_compute_rightly(document: dict[str, Any]) -> None:
    assert errors(document) == []
    assert document["ok"] is True
    devices = {d["device"]: d for engine in document["engines"] for d in engine["devices"]}
    assert {"numpy:cpu", "meta:cpu"} <= set(devices)
    assert {c["check"] for c in devices["numpy:cpu"]["checks"]} == set(probes.PROBES)
    assert {c["result"] for c in devices["numpy:cpu"]["checks"]} == {"passed"}
    assert [c["check"] for c in devices["meta:cpu"]["checks"]] == ["shapes"]


def test_the_machine_form_has_its_keys(document: dict[str, Any]) -> None:
    assert list(document) == [
        "ok",
        "intermodal",
        "hot_path",
        "python",
        "system",
        "machine",
        "libraries",
        "engines",
        "threads",
        "findings",
    ]
    assert document["hot_path"] == ("pure Python" if str(tensor.__file__).endswith(".py") else "compiled")
    assert document["libraries"]["numpy"]
    assert document["threads"]["cores"]["usable"] >= 1
    assert document["threads"]["environment"]["OMP_NUM_THREADS"] is None
    assert [set(f) for f in document["findings"] if set(f) != {"severity", "subject", "message", "cure"}] == []


def test_the_exit_code_is_0_and_the_last_line_says_that_nothing_is_broken() -> None:
    done = intermodal("doctor", "--engine", "numpy")
    assert (done.code, done.out.splitlines()[-1], done.err) == (0, "Nothing is broken.", "")


FAULTS = {
    "arithmetic": ("multiply", "lambda x, y: np.multiply(x, y) + np.float32(1)"),
    "product": ("matmul", "lambda x, y: np.matmul(x, y) * np.float32(1.001)"),
    "reduction": ("max", "lambda x, axis, keepdims: np.asarray(np.nanmax(x, axis=axis, keepdims=keepdims))"),
    "functions": ("exp", "lambda x: np.exp(x.astype(np.float16)).astype(x.dtype)"),
}


@pytest.mark.parametrize("check", FAULTS)
def test_a_device_that_computes_wrongly_is_broken_and_the_exit_code_is_1(check: str, tmp_path: Path) -> None:
    op, function = FAULTS[check]
    path = install(tmp_path, "faulty", FAULTY.format(op=op, function=function))
    done = intermodal("doctor", "--engine", "faulty", "--engine", "meta", "--json", PYTHONPATH=path)
    found = done.json()
    assert (done.code, found["ok"]) == (1, False)
    (engine,) = (e for e in found["engines"] if e["engine"] == "faulty")
    results = {c["check"]: c["result"] for c in engine["devices"][0]["checks"]}
    assert results[check] == "failed"
    assert f"faulty:cpu, check {check}" in {f["subject"] for f in errors(found)}


def test_a_device_that_dies_while_it_computes_is_reported_and_the_others_are_examined(tmp_path: Path) -> None:
    path = install(tmp_path, "faulty", FAULTY.format(op="sort", function="lambda *a, **k: __import__('os').abort()"))
    done = intermodal("doctor", "--engine", "faulty", "--engine", "meta", "--json", PYTHONPATH=path)
    found = done.json()
    (error,) = errors(found)
    assert (done.code, error["subject"]) == (1, "engine faulty")
    assert [e["status"] for e in found["engines"]] == ["available", "broken"]
    assert error["message"].startswith("its process was killed by SIGABRT")


def test_what_is_broken_is_shown_to_people_too(tmp_path: Path) -> None:
    done = intermodal("doctor", "--engine", "odd", PYTHONPATH=install(tmp_path, "odd", "1 / 0"))
    assert (done.code, done.out.splitlines()[-1]) == (1, "Something is broken.")
    assert "ZeroDivisionError: division by zero" in done.out
    assert "Traceback" not in done.err


def test_an_op_that_a_device_refuses_is_a_note_and_no_fault(tmp_path: Path) -> None:
    code = FAULTY.format(op="sort", function="None")
    code += """
    def native(self, row, dtype):
        from intermodal.errors import UnsupportedError
        if row.name == "sort": raise UnsupportedError("sort: not on this board.")
        return super().native(row, dtype)
"""
    done = intermodal("doctor", "--engine", "faulty", "--json", PYTHONPATH=install(tmp_path, "faulty", code))
    found = done.json()
    assert (done.code, found["ok"]) == (0, True)
    notes = {f["subject"]: f["message"] for f in found["findings"] if f["severity"] == "note"}
    assert notes["faulty:cpu, check ordering"] == "sort: not on this board."


@pytest.mark.parametrize(
    ("variable", "value"), [("INTERMODAL_DEVICE", "numpy:gpu:3"), ("INTERMODAL_DEVICE", "?"), ("INTERMODAL_PROMOTION", "often")]
)
def test_a_setting_that_cannot_work_is_an_error(variable: str, value: str) -> None:
    done = intermodal("doctor", "--engine", "numpy", "--json", **{variable: value})
    (error,) = errors(done.json())
    assert (done.code, error["subject"]) == (1, variable)
    assert value in error["message"]


@pytest.mark.parametrize("name", probes.PROBES)
def test_a_probe_passes_on_numpy(name: str) -> None:
    probes.PROBES[name](im.Device("numpy:cpu"))
