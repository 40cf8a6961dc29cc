"""What the tests of the documents share: a clean slate after code that adds rows, engines or settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from intermodal import backend, config
from intermodal.ops.table import TABLE


@pytest.fixture(autouse=True)
def clean_slate() -> Iterator[None]:
    """Takes out again what a document's code has added to the process."""
    rows, engines = set(TABLE), set(backend.engines())
    yield
    for name in set(TABLE) - rows:
        TABLE.remove(name)
    for engine in set(backend.engines()) - engines:
        backend.unregister(engine)
    config.set(**dict.fromkeys(config.SETTINGS))
