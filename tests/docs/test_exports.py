from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import intermodal as im
from intermodal.ops.table import TABLE

from .modules import MODULES

NAMESPACES = [im, im.fft, im.linalg, im.nn, im.random]


def public_names(module: ModuleType) -> list[str]:
    return [name for name in dir(module) if not name.startswith("_") and not name.endswith("__mypyc")]


@pytest.mark.parametrize("name", MODULES)
def test_every_name_in_all_exists_once(name: str) -> None:
    module = MODULES[name]
    exported: list[str] = getattr(module, "__all__", [])
    assert [n for n in exported if not hasattr(module, n)] == []
    assert len(exported) == len(set(exported))


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_lives_in_it(name: str) -> None:
    path = Path(im.__file__).parent.joinpath(
        *name.split(".")[1:]
    )  # a compiled module carries no docstring, and not always its true path
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    assert (ast.get_docstring(ast.parse(source.read_text())) or "").strip()


@pytest.mark.parametrize("namespace", NAMESPACES, ids=lambda module: module.__name__)
def test_every_public_function_and_class_has_a_docstring(namespace: ModuleType) -> None:
    things = {name: getattr(namespace, name) for name in public_names(namespace)}
    owed = {name for name, thing in things.items() if inspect.isroutine(thing) or inspect.isclass(thing)}
    assert {name for name in owed if not (things[name].__doc__ or "").strip()} == set()


def test_every_row_is_found_where_its_namespace_says() -> None:
    homes = {module.__name__.partition(".")[2]: module for module in NAMESPACES}
    missing = [row.qualified_name for row in TABLE.values() if getattr(homes[row.namespace], row.name, None) is not row.function]
    assert missing == []


@pytest.mark.parametrize("name", sorted(TABLE))
def test_an_op_is_documented_in_a_sentence_and_shows_its_own_signature(name: str) -> None:
    row = TABLE[name]
    assert row.doc.strip().splitlines()[0].endswith((".", ":"))
    assert list(inspect.signature(row.function).parameters) == [p.name for p in row.params]


def test_public_functions_say_that_they_come_from_the_namespace() -> None:
    assert (im.add.__module__, im.add.__name__) == ("intermodal", "add")
