"""The modules of the package that can be imported here: an engine whose library is not installed is left out."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import intermodal

SOURCE = Path(intermodal.__file__).parent


def modules() -> dict[str, ModuleType]:
    found = {}
    for file in sorted(SOURCE.rglob("*.py")):
        name = ".".join(("intermodal", *file.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        try:
            found[name] = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not name.startswith("intermodal.engines.") or (error.name or "").startswith("intermodal"):
                raise
    return found


MODULES = modules()
