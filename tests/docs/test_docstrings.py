from __future__ import annotations

import doctest

import pytest

from intermodal.ops.table import TABLE

from .modules import MODULES

TESTS = {
    test.name: test
    for name, module in MODULES.items()
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name)
    if test.examples
}
# The decorator of a row hands back a function of its own, which doctest takes for another module's: rows are walked here.
ROWS = {
    row.qualified_name: doctest.DocTestParser().get_doctest(row.doc, {}, row.qualified_name, row.template.__code__.co_filename, 0)
    for row in TABLE.values()
    if ">>>" in row.doc
}


def check(test: doctest.DocTest) -> None:
    report: list[str] = []
    doctest.DocTestRunner().run(test, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("name", sorted(TESTS))
def test_the_example_in_a_docstring_shows_its_true_output(name: str) -> None:
    check(TESTS[name])


@pytest.mark.parametrize("name", sorted(ROWS))
def test_the_example_of_an_op_shows_its_true_output(name: str) -> None:
    check(ROWS[name])


def test_examples_of_classes_functions_and_rows_are_found() -> None:
    assert {"intermodal", "intermodal.tensor.Tensor", "intermodal.conversion.asarray", "intermodal.config.scope"} <= set(TESTS)
    assert {"where", "sum", "astype"} <= set(ROWS)
