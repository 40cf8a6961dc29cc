from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

import intermodal as im

from .commands import environment, intermodal, python

BLOCKER = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {module!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
from intermodal.cli import main
main()
"""


def test_the_version_is_printed() -> None:
    assert intermodal("--version") == (0, f"intermodal {im.__version__}\n", "")


def test_without_arguments_the_commands_are_listed() -> None:
    done = intermodal()
    assert [command for command in ("devices", "doctor", "ops") if f" {command} " not in done.out + done.err] == []


@pytest.mark.parametrize("module", ["typer", "rich"])
def test_without_the_extra_the_command_says_what_to_install_and_shows_no_traceback(module: str) -> None:
    done = python("-c", BLOCKER.format(module=module))
    assert (done.code, done.out) == (1, "")
    assert 'pip install "intermodal[cli]"' in done.err
    assert "Traceback" not in done.err


def test_a_missing_module_that_is_not_of_the_extra_is_not_blamed_on_it() -> None:
    done = python("-c", BLOCKER.format(module="ml_dtypes"))
    assert done.code == 1
    assert "intermodal[cli]" not in done.err


def test_importing_intermodal_loads_neither_library_of_the_command_line() -> None:
    done = python("-c", "import sys, intermodal; print({'typer', 'rich', 'intermodal.cli'} & set(sys.modules))")
    assert done.out == "set()\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["devices", "--nonsense"], ["ops", "--engine", "nonsense"], ["ops", "--family", "nonsense"]])  # fmt: skip
def test_wrong_usage_ends_with_2_and_a_sentence_on_standard_error(arguments: list[str]) -> None:
    done = intermodal(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "nonsense" in done.err
    assert "Traceback" not in done.err


def test_a_wrong_engine_or_family_is_answered_with_the_right_ones() -> None:
    assert "numpy" in intermodal("ops", "--engine", "nump").err
    assert "elementwise" in intermodal("ops", "--family", "elementwyse").err


FAILING = (
    "import sys; from intermodal.cli import app, devices; devices.collect = lambda *_: 1 / 0; sys.argv[1:] = {!r}; app.run()"
)


def test_an_error_is_a_sentence_and_a_traceback_only_when_asked_for() -> None:
    code = FAILING.format(["devices"])
    plain, wanted = python("-c", code), python("-c", code, INTERMODAL_TRACEBACK="1")
    assert (plain.code, plain.out, wanted.code, wanted.out) == (1, "", 1, "")
    assert plain.err.startswith("error: ZeroDivisionError: division by zero\n")
    assert "Traceback" not in plain.err
    assert "Traceback" in wanted.err


@pytest.mark.parametrize("arguments", [["--traceback", "devices"], ["devices", "--traceback"]])
def test_the_traceback_is_asked_for_before_or_after_the_command(arguments: list[str]) -> None:
    assert "Traceback" in python("-c", FAILING.format(arguments)).err


def test_a_reader_that_leaves_early_causes_no_traceback() -> None:
    command = f"{sys.executable} -m intermodal ops --engine meta | head -n 1"
    done = subprocess.run(command, shell=True, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split() == ["meta"]
    assert done.stderr == ""


def test_the_shell_completes_engines_and_families() -> None:
    for words, expected in (("intermodal ops --engine nu", "numpy"), ("intermodal ops --family man", "manipulation")):
        settings = {"_INTERMODAL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "3"}
        assert intermodal(**settings).out.split() == [expected]


def on_a_terminal(*arguments: str, columns: int) -> str:
    """What a command writes to a terminal of a width."""
    ours, theirs = pty.openpty()
    settings = environment(COLUMNS=str(columns), TERM="xterm-256color")
    with subprocess.Popen([sys.executable, "-m", "intermodal", *arguments], env=settings, stdout=theirs, stdin=theirs) as process:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # how Linux says that the other end is closed
                break
            if not part:
                break
            parts.append(part)
    os.close(ours)
    assert process.returncode == 0
    return b"".join(parts).decode()


@pytest.mark.parametrize(("command", "columns"), [("devices", 80), ("doctor", 80), ("ops", 80), ("ops", 160)])
def test_a_terminal_gets_colours_and_a_pipe_gets_the_same_text_without(command: str, columns: int) -> None:
    colours = re.compile(r"\x1b\[[0-9;]*m")
    piped, shown = intermodal(command, COLUMNS=str(columns)), on_a_terminal(command, columns=columns)
    assert "\x1b" not in piped.out
    assert colours.search(shown)
    figures = re.compile(r"[\d.]+ (?:GiB free|s$)", re.MULTILINE)  # which change between two runs
    assert figures.sub("", colours.sub("", shown).replace("\r\n", "\n")) == figures.sub("", piped.out)
    lines = piped.out.splitlines()
    assert max(map(len, lines)) <= columns
    assert [line for line in lines if line != line.rstrip()] == []
