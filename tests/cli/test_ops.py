from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from intermodal.backend import backend_of
from intermodal.ops import TABLE

from .commands import install, intermodal

LACKING = """
from types import MappingProxyType
from intermodal.engines.numpy import NumpyBackend
class Plugin(NumpyBackend):
    engine = "lacking"
    natives = MappingProxyType({name: f for name, f in NumpyBackend.natives.items() if name not in ("exp", "matmul")})
"""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = intermodal("ops", "--engine", "numpy", "--engine", "meta", "--json").json()
    return found


def test_every_op_of_the_table_is_listed_with_how_each_engine_has_it(document: dict[str, Any]) -> None:
    assert set(document) == {"engines", "ops", "counts"}
    assert [row["op"] for row in document["ops"]] == [row.qualified_name for row in TABLE.values()]
    assert {tuple(row["engines"]) for row in document["ops"]} == {("numpy", "meta")}
    natives = backend_of("numpy").natives
    for row, op in zip(document["ops"], TABLE.values(), strict=True):
        assert (row["family"], row["primitive"]) == (op.family, op.is_primitive)
        assert row["engines"]["numpy"] == ("native" if op.name in natives else "decomposed")


def test_the_counts_are_those_of_the_ops_that_were_asked_for(document: dict[str, Any]) -> None:
    for engine, counts in document["counts"].items():
        assert list(counts) == ["native", "decomposed", "missing"]
        assert +Counter(counts) == Counter(row["engines"][engine] for row in document["ops"])


def test_a_family_is_listed_alone_and_several_are_listed_together() -> None:
    asked = intermodal("ops", "--engine", "numpy", "--family", "linalg", "--family", "fft", "--json").json()
    assert {row["family"] for row in asked["ops"]} == {"linalg", "fft"}
    assert sum(asked["counts"]["numpy"].values()) == len(asked["ops"])


def test_only_what_an_engine_lacks_is_listed_when_asked_for(tmp_path: Path) -> None:
    path = install(tmp_path, "lacking", LACKING)
    found = intermodal("ops", "--engine", "lacking", "--missing", "--json", PYTHONPATH=path).json()
    assert [row["op"] for row in found["ops"]] == [n for n in TABLE if n in ("exp", "matmul") and TABLE[n].is_primitive]
    assert found["counts"]["lacking"]["missing"] == len(found["ops"]) > 0
    assert sum(found["counts"]["lacking"].values()) == len(TABLE)


def test_an_engine_that_lacks_nothing_is_told_so() -> None:
    shown = intermodal("ops", "--engine", "numpy", "--missing").out.splitlines()
    assert shown[0] == "No op is missing."
    assert shown[-1].split()[0] == "numpy"


def test_an_engine_that_does_not_work_is_named_with_its_reason_below_the_table(tmp_path: Path) -> None:
    done = intermodal(
        "ops", "--engine", "odd", "--engine", "meta", "--family", "fft", PYTHONPATH=install(tmp_path, "odd", "1 / 0")
    )
    assert done.code == 0
    assert "  odd " in done.out
    assert "ZeroDivisionError: division by zero" in done.out


def test_words_become_letters_where_the_terminal_is_too_narrow_for_them() -> None:
    arguments = ("ops", "--engine", "numpy", "--engine", "meta", "--family", "fft")
    wide, narrow = intermodal(*arguments, COLUMNS="80").out.splitlines(), intermodal(*arguments, COLUMNS="36").out.splitlines()
    assert narrow[0] == "n: native, d: decomposed, m: missing"
    assert ["fft.fft", "native", "native"] in [line.split() for line in wide]
    assert ["fft.fft", "n", "n"] in [line.split() for line in narrow]
    assert max(map(len, narrow)) <= 36
