"""The command line, `main`: what the script ``intermodal`` runs. Its commands live in `intermodal.cli.app`."""

from __future__ import annotations

import sys

__all__ = ["main"]

_EXTRA = ("typer", "rich", "click")  # click comes with older releases of typer


def main() -> None:
    """Run the command line; without the libraries of the extra ``cli``, say how to install them."""
    try:
        from intermodal.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(f'the command line needs {error.name}, which is not installed. Run: pip install "intermodal[cli]"\n')
        sys.exit(1)
    run()
