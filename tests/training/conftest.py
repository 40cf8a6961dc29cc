"""The long form runs only where it is asked for, with ``-m long``."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "long" in config.getoption("markexpr"):
        return
    for item in items:
        if "training" in item.nodeid and item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="the long form of a training test; run with -m long"))
