"""How the tests run the command line: as a user does, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

# What a terminal, a continuous-integration service or another test may have set, and what would show in the output.
LEFT_OUT = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TERMINAL_WIDTH", "LINES")
SPEAKING = ("OMP_", "MKL_", "OPENBLAS_", "GOMP_", "INTERMODAL_")


class Done(NamedTuple):
    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.err == "", self.err
        return json.loads(self.out)


def environment(**settings: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in LEFT_OUT and not k.startswith(SPEAKING)}
    return {**kept, **settings}


def python(*arguments: str, **settings: str) -> Done:
    done = subprocess.run(
        [sys.executable, *arguments], env=environment(**settings), capture_output=True, text=True, timeout=300, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)


def intermodal(*arguments: str, **settings: str) -> Done:
    return python("-m", "intermodal", *arguments, **settings)


def install(folder: Path, engine: str, code: str) -> str:
    """Put a plugin's engine into a folder as an installer would; the answer is the folder, for PYTHONPATH."""
    (folder / f"{engine}_plugin.py").write_text(code)
    info = folder / f"{engine}_plugin-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {engine}-plugin\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(f"[intermodal.engines]\n{engine} = {engine}_plugin:Plugin\n")
    return str(folder)
