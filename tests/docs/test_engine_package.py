"""The example of an engine in a distribution of its own: built, installed and tested as a user would, in processes of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from .blocks import ROOT, blocks

PACKAGE = ROOT / "examples" / "engine-package"
SOURCE = PACKAGE / "src" / "intermodal_disk" / "__init__.py"
PAGE = ROOT / "docs" / "how-to-add-an-engine.md"


def python(*arguments: str, **environment: str) -> str:
    """What a program prints; it must succeed."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env={**os.environ, **environment}, check=False, timeout=540
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder into which pip has built and installed the distribution; it is to stand on the path."""
    for tool in ("pip", "hatchling"):
        pytest.importorskip(tool)
    folder = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--target", str(folder)]
    python("-m", "pip", "install", *options, str(PACKAGE))
    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])


def test_an_installed_engine_is_found_by_its_entry_point_and_loaded_on_first_use(site: str) -> None:
    program = (
        "import sys, intermodal as im\n"
        "print('disk' in im.backend.engines(), 'intermodal_disk' in sys.modules)\n"
        "print((im.ones(2, device='disk') + 1).device, 'intermodal_disk' in sys.modules)\n"
        "print(next(e.origin for e in im.backend.entries() if e.name == 'disk'))\n"
    )
    assert python("-c", program, PYTHONPATH=site).splitlines() == ["True False", "disk:cpu True", "intermodal-disk"]


def test_the_installed_engine_conforms(site: str) -> None:
    # Sixteen bytes: nearly every array goes to a file, and elementwise ops are computed in pieces. That makes some
    # ten thousand files, for which a folder in memory is kinder to the disk.
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else ""
    command = ("-m", "intermodal.testing", "disk", "--quick", "--json")
    report = json.loads(python(*command, PYTHONPATH=site, DISK_ENGINE_PIECE="16", DISK_ENGINE_FOLDER=folder))
    assert (report["device"], report["ok"], report["total"]["failed"]) == ("disk:cpu", True, 0)
    assert report["total"]["passed"] > 10_000


def test_the_tests_of_the_package_pass_on_the_installed_engine(site: str) -> None:
    # What the kit finds is asked for above.
    options = ("-q", "-p", "no:cacheprovider", "-k", "not conforms", "--rootdir", str(PACKAGE), "-c", os.devnull)
    assert re.search(r"\b10 passed", python("-m", "pytest", *options, str(PACKAGE / "tests"), PYTHONPATH=site))


def test_the_page_runs_with_the_installed_engine(site: str) -> None:
    program = f"from docs.blocks import *; import sys; ran = run_all(ROOT / 'docs' / {PAGE.name!r}); print(ran['y'].device)"
    path = os.pathsep.join([site, str(Path(__file__).parents[1])])
    assert python("-c", program, PYTHONPATH=path).strip() == "disk:cpu"


def test_the_page_shows_the_whole_package_and_nothing_else() -> None:
    shown = [b.code for b in blocks(PAGE) if b.language == "py"]
    assert _lines("\n".join(shown)) == _lines(SOURCE.read_text())
    (settings,) = (b.code for b in blocks(PAGE) if b.language == "toml")
    assert settings == (PACKAGE / "pyproject.toml").read_text()


def _lines(code: str) -> list[str]:
    """The lines that say something: how many empty ones stand between two parts depends on where the page cuts."""
    return [line for line in code.splitlines() if line.strip()]


def test_the_engine_has_the_length_that_the_page_promises() -> None:
    assert "with 70 lines of code" in PAGE.read_text()
    assert len(_lines(SOURCE.read_text())) <= 70


def test_the_package_needs_intermodal_and_says_where_its_engine_is() -> None:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    assert "intermodal" in project["dependencies"]
    assert project["entry-points"] == {"intermodal.engines": {"disk": "intermodal_disk:DiskBackend"}}
