from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from .commands import intermodal

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()


def shown() -> Iterator[tuple[str, str]]:
    """The commands of the page with their output."""
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            if command.startswith("intermodal "):
                yield command, output


COMMANDS = dict(shown())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_is_understood(command: str) -> None:
    words = shlex.split(command.partition(" |")[0])[1:]
    words = ["numpy" if word == "board" else word for word in words]  # the page's example of a plugin
    assert intermodal(*words, "--help").code == 0


def test_the_page_shows_the_true_table_of_ops_in_a_family() -> None:
    command = "intermodal ops --engine numpy --family fft"
    assert intermodal(*command.split()[1:]).out == COMMANDS[command]


def test_the_page_names_every_option_and_every_key_of_the_machine_form() -> None:
    options = {
        o for command in ("devices", "doctor", "ops") for o in re.findall(r"(--[a-z-]+)", intermodal(command, "--help").out)
    }
    assert {"--engine", "--json"} <= options
    assert {o for o in options - {"--help"} if o not in PAGE} == set()
    for command in ("devices", "doctor", "ops"):
        document = intermodal(command, "--engine", "numpy", "--json").json()
        assert [key for key in (*document, *document["engines"][0]) if f"`{key}`" not in PAGE] == []
