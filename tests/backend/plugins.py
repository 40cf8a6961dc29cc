"""Real plugins for tests: distributions written to a folder, and programs run with that folder on the path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

GOOD = """
import intermodal as im
from intermodal.engines.numpy import NumpyBackend

class {name}Backend(NumpyBackend):
    engine = "{engine}"
    origin = __name__
    def devices(self):
        return (im.Device("{engine}:cpu"),)
"""


class Site:
    """A folder of installed distributions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, distribution: str, entry_points: str, **modules: str) -> None:
        info = self.folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[intermodal.engines]\n{entry_points}\n")
        for module, text in modules.items():
            (self.folder / f"{module}.py").write_text(text)

    def run(self, program: str, *options: str, **environment: str) -> str:
        """What a program prints, warnings included."""
        path = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])
        env = {k: v for k, v in os.environ.items() if k != "INTERMODAL_DISABLE_PLUGINS"} | {"PYTHONPATH": path} | environment
        done = subprocess.run(
            [sys.executable, *options, "-c", program], capture_output=True, text=True, env=env, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr
