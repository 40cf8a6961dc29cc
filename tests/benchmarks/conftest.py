"""The benchmarks are a package beside the source tree, not an installed one: its home is put on the path here."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
