"""The long form runs only where it is asked for, with ``-m long``."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "long" in config.getoption("markexpr"):
        return
    long = [item for item in items if "autodiff" in item.nodeid and item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)  # not skipped: there is one for each row and engine
        items[:] = [item for item in items if item not in set(long)]
