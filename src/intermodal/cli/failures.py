"""How errors are told: a sentence on standard error, and the traceback where the user has asked for it."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Final

from intermodal.errors import IntermodalError

__all__ = ["TRACEBACK", "tell", "wants_traceback"]

TRACEBACK: Final = "INTERMODAL_TRACEBACK"


def wants_traceback() -> bool:
    """Whether errors are shown with their traceback."""
    return os.environ.get(TRACEBACK, "") not in ("", "0")


def tell(error: Exception) -> None:
    """Write an error for people."""
    if wants_traceback():
        traceback.print_exception(error)
        return
    known = isinstance(error, IntermodalError)  # its message says what to do; what others raise may need a look at the code
    text = str(error) if known else f"{type(error).__name__}: {error}\nRun again with --traceback to see where."
    sys.stderr.write(f"error: {text}\n")
