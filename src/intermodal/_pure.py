"""``INTERMODAL_PURE=1``: the hot path runs from its source, although the compiled modules lie beside it.

For debugging, for tools that follow Python alone, and to compare. It is read once, when intermodal is imported.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

COMPILED = {
    "intermodal." + name for name in ("tensor", "plans", "dispatch", "autodiff.nodes", "autodiff.recorders", "autodiff.tape")
}


class FromSource(MetaPathFinder):
    """Finds the sources of the modules that Python would otherwise load compiled."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """Where to load a module from; None leaves it to the other finders."""
        if name not in COMPILED:
            return None
        return spec_from_file_location(name, Path(__file__).parent.joinpath(*name.split(".")[1:]).with_suffix(".py"))


sys.meta_path.insert(0, FromSource())
