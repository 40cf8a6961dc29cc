from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import intermodal as im
from intermodal import dtypes
from intermodal.cli.output import size

from .commands import install, intermodal, python

KEYS = {"engine", "status", "version", "reason", "install", "name", "devices"}


def by_name(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {engine["engine"]: engine for engine in document["engines"]}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = intermodal("devices", "--json").json()
    return found


def test_the_known_engines_are_listed_whether_installed_or_not(document: dict[str, Any]) -> None:
    assert list(by_name(document))[:5] == ["numpy", "meta", "torch", "jax", "onnx"]
    assert set(document) == {"intermodal", "default_device", "engines"}
    assert [engine for engine in document["engines"] if set(engine) != KEYS] == []
    assert (document["intermodal"], document["default_device"]) == (im.__version__, "numpy:cpu")


def test_numpy_is_there_with_its_memory_and_its_dtypes_by_use(document: dict[str, Any]) -> None:
    engine = by_name(document)["numpy"]
    (device,) = engine["devices"]
    assert (engine["status"], engine["reason"], engine["install"]) == ("available", None, None)
    assert engine["name"] == f"NumPy {engine['version']}"
    assert (device["device"], device["kind"], device["index"]) == ("numpy:cpu", "cpu", 0)
    assert 0 < device["memory"]["free"] <= device["memory"]["total"]
    uses = {use: set(names) for use, names in device["dtypes"].items()}
    assert uses["storage"] == {d.name for d in dtypes.ALL}
    assert uses["storage"] > uses["arithmetic"] > uses["accelerated"] == {"float32", "float64", "complex64", "complex128"}


def test_a_device_without_data_has_no_memory(document: dict[str, Any]) -> None:
    assert by_name(document)["meta"]["devices"][0]["memory"] is None


@pytest.mark.parametrize("engine", ["torch", "jax"])
def test_an_engine_is_there_or_says_what_installs_it(engine: str, document: dict[str, Any]) -> None:
    found = by_name(document)[engine]
    if found["status"] == "available":
        assert found["devices"][0]["device"] == f"{engine}:cpu"
    else:
        assert (found["status"], found["install"]) == ("missing", f'pip install "intermodal[{engine}]"')
        assert engine in found["reason"]


def test_an_engine_whose_library_cannot_be_found_is_missing(tmp_path: Path) -> None:
    # Nearer on the path than the library: a module that is as absent as one that was never installed.
    (tmp_path / "jax.py").write_text("raise ModuleNotFoundError(\"No module named 'jax'\", name='jax')\n")
    done = intermodal("devices", "--engine", "jax", "--json", PYTHONPATH=str(tmp_path))
    found = by_name(done.json())["jax"]
    assert (done.code, found["status"], found["reason"]) == (0, "missing", "No module named 'jax'")
    shown = intermodal("devices", "--engine", "jax", PYTHONPATH=str(tmp_path)).out
    assert 'pip install "intermodal[jax]"' in shown


def test_a_library_that_is_installed_but_does_not_load_is_broken_and_not_missing(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libc10.so: cannot open shared object file')\n")
    found = by_name(intermodal("devices", "--engine", "torch", "--json", PYTHONPATH=str(tmp_path)).json())["torch"]
    assert (found["status"], found["install"]) == ("broken", None)
    assert found["reason"] == "OSError: libc10.so: cannot open shared object file"


SUBCLASS = "from intermodal.engines.numpy import NumpyBackend\nclass Plugin(NumpyBackend):\n    engine = '{}'\n"
BROKEN = {
    "raises on import": ("raise ValueError('no \\x1b[31mlicence')", "ValueError: no [31mlicence"),
    "lacks a module": ("import nowhere_to_be_found", "No module named 'nowhere_to_be_found'"),
    "lacks the class": ("", "AttributeError: module 'odd_plugin' has no attribute 'Plugin'"),
    "raises when made": ("def Plugin(): raise KeyError('board')", "KeyError: 'board'"),
    "raises when asked": (SUBCLASS.format("odd") + "    def devices(self): raise OSError('no driver')", "OSError: no driver"),
    "ends the process": ("import sys; sys.exit('bye')", "SystemExit: bye"),
    "ends it at once": ("import os; os._exit(3)", "its process ended with exit code 3 and no answer"),
    "aborts": ("import os; os.abort()", "its process was killed by SIGABRT"),
    "is no backend": ("Plugin = dict", "TypeError: it makes a dict, which is not derived"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_plugin_that_is_broken_is_listed_with_its_reason_and_stops_nothing(how: str, tmp_path: Path) -> None:
    code, reason = BROKEN[how]
    done = intermodal("devices", "--engine", "odd", "--engine", "numpy", "--json", PYTHONPATH=install(tmp_path, "odd", code))
    found = by_name(done.json())
    assert (done.code, list(found)) == (0, ["numpy", "odd"])
    assert (found["odd"]["status"], found["odd"]["version"]) == ("broken", "1.5")
    assert found["odd"]["install"] == "pip install --upgrade odd-plugin"
    assert found["odd"]["reason"].startswith(reason)
    assert found["odd"]["devices"] == []
    assert found["numpy"]["status"] == "available"


def test_a_plugin_that_hangs_is_given_up_after_the_timeout(tmp_path: Path) -> None:
    path = install(tmp_path, "slow", "import time; time.sleep(600)")
    done = intermodal("devices", "--engine", "slow", "--json", "--timeout", "0.5", PYTHONPATH=path)
    assert by_name(done.json())["slow"]["reason"] == "it did not answer within 0.5 seconds"


def test_a_plugin_whose_name_belongs_to_another_engine_is_listed_beside_it(tmp_path: Path) -> None:
    done = intermodal("devices", "--engine", "numpy", "--json", PYTHONPATH=install(tmp_path, "numpy", ""))
    ours, theirs = done.json()["engines"]
    assert (ours["status"], theirs["status"]) == ("available", "broken")
    assert theirs["reason"] == "the engine 'numpy' of numpy-plugin is hidden by the one of intermodal"


def test_what_a_plugin_prints_stays_out_of_the_machine_form(tmp_path: Path) -> None:
    chatter = "import os; print('hello'); os.system('echo hello from below')\n" + SUBCLASS.format("loud")
    found = by_name(intermodal("devices", "--engine", "loud", "--json", PYTHONPATH=install(tmp_path, "loud", chatter)).json())
    assert (found["loud"]["status"], found["loud"]["version"]) == ("available", "1.5")


def test_the_traceback_of_a_broken_engine_is_shown_when_asked_for(tmp_path: Path) -> None:
    done = intermodal("devices", "--engine", "odd", "--traceback", PYTHONPATH=install(tmp_path, "odd", "1 / 0"))
    assert "odd_plugin.py" in done.err
    assert "ZeroDivisionError" in done.err


def test_a_wrong_default_device_does_not_hide_the_right_ones() -> None:
    done = intermodal("devices", "--engine", "numpy", INTERMODAL_DEVICE="no device")
    assert done.code == 0
    assert "numpy:cpu" in done.out
    assert "INTERMODAL_DEVICE" in done.err


def test_a_file_in_the_folder_where_one_stands_is_not_taken_for_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ml_dtypes.py").write_text("raise SystemExit('wrong file')")
    monkeypatch.chdir(tmp_path)
    done = python("-P", "-m", "intermodal", "devices", "--engine", "numpy", "--json")
    assert by_name(done.json())["numpy"]["status"] == "available"


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 * 2**29, "1.5 GiB"), (2**52, "4096.0 TiB")])  # fmt: skip
def test_sizes_are_written_in_the_unit_that_fits(count: int, text: str) -> None:
    assert size(count) == text
