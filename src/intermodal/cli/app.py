"""The commands and their options; what each of them does lives in the module of its name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any

import typer
from rich.console import Console

from intermodal import __version__
from intermodal.cli import devices as _devices, doctor as _doctor, ops as _ops
from intermodal.cli.failures import TRACEBACK, tell
from intermodal.cli.output import console, write_json
from intermodal.cli.survey import TIMEOUT, names

__all__ = ["app", "run"]

app = typer.Typer(
    name="intermodal",
    help="Write tensor code once; run it on any engine, several at a time.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _set_traceback(wanted: bool) -> None:
    if wanted:
        os.environ[TRACEBACK] = "1"


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"intermodal {__version__}")
        raise typer.Exit


def _one_of(there: Callable[[], list[str]]) -> dict[str, Any]:
    """What an option needs whose values are known: completion in the shell, and a refusal that lists them."""

    def check(given: list[str] | None) -> list[str]:
        for name in given or ():
            if name not in there():
                raise typer.BadParameter(f"{name!r} is not there. Choose from {', '.join(there())}.")
        return given or []

    def complete(incomplete: str) -> list[str]:
        return [name for name in there() if name.startswith(incomplete)]

    return {"callback": check, "autocompletion": complete}


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Traceback = Annotated[
    bool,
    typer.Option("--traceback", help=f"Show tracebacks of errors; or set {TRACEBACK}=1.", is_eager=True, callback=_set_traceback),
]
Version = Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_show_version)]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Time that each engine has to answer.")]
Engines = Annotated[
    list[str] | None,
    typer.Option("--engine", metavar="ENGINE", help="Only this engine; can be repeated.", **_one_of(names)),
]
Families = Annotated[
    list[str] | None,
    typer.Option("--family", metavar="FAMILY", help="Only this family of ops; can be repeated.", **_one_of(_ops.families)),
]


@app.callback()
def _root(version: Version = False, traceback: Traceback = False) -> None:
    pass


@app.command()
def devices(engine: Engines = None, json: Json = False, timeout: Timeout = TIMEOUT, traceback: Traceback = False) -> None:
    """List engines and their devices, with memory and dtypes; say what is missing and how to install it."""
    with _waiting():
        document = _devices.collect(engine or (), timeout)
    _write(document, _devices.show, json)


@app.command()
def doctor(engine: Engines = None, json: Json = False, timeout: Timeout = TIMEOUT, traceback: Traceback = False) -> None:
    """Run a few ops on every device and check the results; look at threads, settings and releases.

    The exit code is 1 if something is broken.
    """
    with _waiting():
        document = _doctor.collect(engine or (), timeout)
    _write(document, _doctor.show, json)
    if not document["ok"]:
        raise typer.Exit(1)


@app.command()
def ops(
    engine: Engines = None,
    family: Families = None,
    missing: Annotated[bool, typer.Option("--missing", help="Only ops that an engine lacks.")] = False,
    json: Json = False,
    timeout: Timeout = TIMEOUT,
    traceback: Traceback = False,
) -> None:
    """List ops by engine: native, decomposed into other ops, or missing."""
    with _waiting():
        document = _ops.collect(engine or (), family or (), missing, timeout)
    _write(document, _ops.show, json)


@contextmanager
def _waiting() -> Iterator[None]:
    """A sign of life on the terminal while engines load."""
    with console(sys.stderr).status("asking the engines") if sys.stderr.isatty() else nullcontext():
        yield


def _write(document: dict[str, Any], show: Callable[[dict[str, Any], Console], None], json: bool) -> None:
    if json:
        write_json(document)
    else:
        show(document, console())


def run() -> None:
    """Run the command that the arguments name; errors end it with a sentence instead of a traceback."""
    try:
        app(prog_name="intermodal")
    except Exception as error:
        tell(error)
        sys.exit(1)
