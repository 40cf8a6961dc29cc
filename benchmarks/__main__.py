"""The command line: ``python -m benchmarks overhead``, ``imports``, ``threads``, ``derivatives`` and ``compile``."""

from __future__ import annotations

import argparse
import json

from benchmarks import compiled, derivatives, reports, threads


def main(arguments: list[str] | None = None) -> None:
    """Run one report and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What intermodal costs beside the bare engines.")
    commands = parser.add_subparsers(dest="command", required=True)
    overhead = commands.add_parser(
        "overhead", help="the time that an op takes, beside the bare engine and other libraries over it"
    )
    overhead.add_argument("--engine", choices=list(reports.ENGINES), default="numpy", help="the engine under test (numpy)")
    overhead.add_argument(
        "--ops", type=_ops, default=list(reports.CASES), help=f"a list with commas; all: {','.join(reports.CASES)}"
    )
    overhead.add_argument("--repeat", type=_count, default=201, help="rounds of bare, other, other, bare for each figure (201)")
    imports = commands.add_parser("imports", help="the time of `import intermodal` beside `import numpy`, in fresh interpreters")
    imports.add_argument("--repeat", type=_count, default=15, help="interpreters started for each figure (15)")
    pools = commands.add_parser("threads", help="the time that engines take in alternation, beside the sum of each alone")
    pools.add_argument("--repeat", type=_count, default=5, help="interpreters started for each figure (5)")
    training = commands.add_parser("derivatives", help="a training step beside PyTorch, the cost of recording, small gradients")
    training.add_argument("--repeat", type=_count, default=11, help="rounds for each figure (11)")
    programs = commands.add_parser("compile", help="compiled programs beside the bare compilers, and a compiled training step")
    programs.add_argument("--engine", choices=compiled.ENGINES, action="append", help="an engine; all that are installed")
    programs.add_argument("--repeat", type=_count, default=21, help="rounds for each figure (21)")
    programs.add_argument("--no-step", action="store_true", help="leave the training step out, which takes minutes to compile")
    for command in (overhead, imports, pools, training, programs):
        command.add_argument("--json", action="store_true", help="print JSON, which has every figure with its spread")
    options = parser.parse_args(arguments)

    if options.command == "overhead":
        report = reports.overhead(options.engine, options.ops, options.repeat)
        text = reports.show_overhead(report)
    elif options.command == "threads":
        report = threads.threads(None, options.repeat)
        text = threads.show(report)
    elif options.command == "derivatives":
        report = derivatives.derivatives(options.repeat)
        text = derivatives.show(report)
    elif options.command == "compile":
        report = compiled.compiled(options.engine or list(compiled.ENGINES), options.repeat, step=not options.no_step)
        text = compiled.show(report)
    else:
        report = reports.imports(options.repeat)
        text = reports.show_imports(report)
    print(json.dumps(report, indent=2) if options.json else text)


def _ops(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in reports.CASES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no such op: {', '.join(unknown)}. The ops are {', '.join(reports.CASES)}.")
    return names


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no count. Give 1 or more.")
    return int(text)


if __name__ == "__main__":
    main()
