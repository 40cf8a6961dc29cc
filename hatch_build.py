"""Compiles the hot path into the wheel: the modules below, by mypyc, each beside its source.

The wheel is pure Python where ``INTERMODAL_PURE=1`` asks for it and where no C compiler works, which is said; an editable
install is pure as well, so that what is edited is what runs. Written by hand because the hook that exists for mypyc
fails without a compiler.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# They are compiled together, so that they call each other directly; `intermodal/_pure.py` names them too.
MODULES = ("tensor", "plans", "dispatch", "autodiff/nodes", "autodiff/recorders", "autodiff/tape")
# What the module imports is read for its types and not reported on: checking it is the type checker's job, elsewhere.
OPTIONS = ["--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]


class CompiledHotPath(BuildHookInterface):  # type: ignore[type-arg,misc]  # hatchling is there for the build alone
    """The build hook that hatchling calls."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the compiled module to a wheel."""
        if version == "editable" or os.environ.get("INTERMODAL_PURE") == "1":
            return
        target = tempfile.TemporaryDirectory(prefix="intermodal-build-")
        self._target = target  # lives until the wheel is written
        try:
            built = compile_modules(Path(self.root), Path(target.name))
        except Exception as error:
            if os.environ.get("INTERMODAL_PURE") == "0":
                raise
            self.app.display_warning(f"intermodal's hot path stays pure Python, about five times slower per call: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update({str(path): name for name, path in built.items()})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what the compiler left."""
        if hasattr(self, "_target"):
            self._target.cleanup()


def compile_modules(root: Path, target: Path) -> dict[str, Path]:
    """Compile the hot path below `root` and give the libraries, which lie in `target`, by their paths in the wheel."""
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    here = Path.cwd()
    os.chdir(root)
    try:
        sources = [f"src/intermodal/{name}.py" for name in MODULES]
        extensions = mypycify(
            [*OPTIONS, *sources], opt_level="3", debug_level="0", target_dir=str(target / "c"), group_name="intermodal.hotpath"
        )
        command = build_ext(Distribution({"name": "intermodal", "ext_modules": extensions}))
        command.build_lib, command.build_temp = str(target / "lib"), str(target / "objects")
        command.ensure_finalized()
        command.run()
    except SystemExit as error:  # the way in which mypyc reports errors
        raise RuntimeError(f"mypyc refused one of {', '.join(MODULES)} (exit {error.code})") from error
    finally:
        os.chdir(here)
    lib = target / "lib"
    return {p.relative_to(lib).as_posix(): p for ending in ("so", "pyd") for p in sorted(lib.rglob(f"*.{ending}"))}
