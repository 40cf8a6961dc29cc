"""``INTERMODAL_PURE=1``: the hot path runs from its source, although the compiled module lies beside it.

For debugging, for tools that follow Python alone, and to compare. It is read once, when intermodal is imported.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

COMPILED = "intermodal.tensor"


class FromSource(MetaPathFinder):
    """Finds the source of the module that Python would otherwise load compiled."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """Where to load a module from; None leaves it to the other finders."""
        return spec_from_file_location(name, Path(__file__).with_name("tensor.py")) if name == COMPILED else None


sys.meta_path.insert(0, FromSource())
