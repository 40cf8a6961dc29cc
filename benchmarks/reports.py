"""The two reports: what an op costs over bare NumPy, and what the import costs over `import numpy`.

A report is data that goes to JSON as it is; `show_overhead` and `show_imports` make tables of it. The limits in
`TARGETS` are shown beside what was measured and never asserted: only a person sees how quiet the machine was.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

import intermodal as im
from benchmarks.measure import Loop, Summary, alternate, compare, environment, process, summarise, table

__all__ = ["CASES", "imports", "overhead", "show_imports", "show_overhead"]

Report = dict[str, Any]


class Case(NamedTuple):
    """One op as each library's users write it; None where a library has no way of its own."""

    call: str  # NumPy, intermodal, array_api_strict
    keras: str | None  # on NumPy a Keras tensor is a bare array, and its operators are NumPy's
    eagerpy: str | None


CASES: Final = {
    "add": Case("x + y", "xp.add(x, y)", "x + y"),
    "multiply": Case("x * y", "xp.multiply(x, y)", "x * y"),
    "less": Case("x < y", "xp.less(x, y)", "x < y"),
    "negative": Case("-x", "xp.negative(x)", "-x"),
    "matmul": Case("x @ y", "xp.matmul(x, y)", "x @ y"),
    "scalar": Case("x + 2.0", "xp.add(x, 2.0)", "x + 2.0"),
    "function": Case("xp.add(x, y)", "xp.add(x, y)", None),
    "exp": Case("xp.exp(x)", "xp.exp(x)", "xp.exp(x)"),
    "sum": Case("xp.sum(x)", "xp.sum(x)", "xp.sum(x)"),
    "getitem": Case("x[0]", None, "x[0]"),
    "slice": Case("x[:1]", None, "x[:1]"),
}
SHAPES: Final = ((1,), (1_000,), (1_000_000,))
MATRICES: Final = ((1, 1), (32, 32), (1_000, 1_000))


class Contender(NamedTuple):
    """A library over NumPy: its namespace, how it takes an array, and how a case is written with it."""

    name: str
    version: str
    namespace: Any
    take: Callable[[Any], Any]
    write: Callable[[Case], str | None]


def _intermodal() -> Contender:
    namespace: Any = im
    return Contender("intermodal", im.__version__, namespace, namespace.asarray, lambda case: case.call)


def _array_api_strict() -> Contender:
    strict: Any = importlib.import_module("array_api_strict")
    return Contender("array_api_strict", strict.__version__, strict, strict.asarray, lambda case: case.call)


def _eagerpy() -> Contender:
    eagerpy: Any = importlib.import_module("eagerpy")
    return Contender("eagerpy", eagerpy.__version__, eagerpy, eagerpy.astensor, lambda case: case.eagerpy)


def _keras() -> Contender:
    os.environ["KERAS_BACKEND"] = "numpy"  # read once, at import
    with tempfile.TemporaryDirectory() as home:
        os.environ.setdefault("KERAS_HOME", home)  # where it writes a configuration file when it is imported
        keras: Any = importlib.import_module("keras")
    return Contender("keras.ops", keras.__version__, keras.ops, keras.ops.convert_to_tensor, lambda case: case.keras)


# What to install for each; the NumPy backend of Keras imports its JAX backend and SciPy.
PEERS: Final = {
    "array_api_strict": (_array_api_strict, "array-api-strict"),
    "eagerpy": (_eagerpy, "eagerpy"),
    "keras.ops": (_keras, "keras jax scipy"),
}

# What the project holds itself to: result, figure, limit, in pure Python.
TARGETS: Final = (
    ("add", "1", "added", 450.0, "ns added"),
    ("add", "1000000", "ratio", 1.03, "times NumPy"),
)
IMPORT_TARGET: Final = 1.6


def overhead(ops: Sequence[str], rounds: int) -> Report:
    """Time ops beside bare NumPy for intermodal and for every peer that is installed, each pair in alternation."""
    where = environment()  # first: the machine's load is that of others then
    contenders, versions = [_intermodal()], {"intermodal": im.__version__}
    for name, (load, packages) in PEERS.items():
        try:
            contenders.append(load())
            versions[name] = contenders[-1].version
        except ImportError as error:
            versions[name] = f"not installed ({error.name} is missing): pip install {packages}"
    results = [
        _time(op, shape, contender, statement, rounds)
        for op in ops
        for shape in (MATRICES if op == "matmul" else SHAPES)
        for contender in contenders
        if (statement := contender.write(CASES[op])) is not None
    ]
    targets = [
        {"what": f"{op} at size {size}", "measured": r[figure]["median"], "limit": limit, "unit": unit}
        for op, size, figure, limit, unit in TARGETS
        for r in results
        if (r["op"], r["size"], r["contender"]) == (op, size, "intermodal")
    ]
    return {"environment": where, "rounds": rounds, "contenders": versions, "results": results, "targets": targets}


def _time(op: str, shape: tuple[int, ...], contender: Contender, statement: str, rounds: int) -> Report:
    call = CASES[op].call
    generator = np.random.default_rng(0)
    x, y = (generator.uniform(0.5, 1.5, shape).astype(np.float32) for _ in range(2))
    bare = {"x": x, "y": y, "xp": np}
    other = {"x": contender.take(x), "y": contender.take(y), "xp": contender.namespace}
    expected, answer = eval(call, dict(bare)), eval(statement, dict(other))
    np.testing.assert_allclose(answer.numpy() if hasattr(answer, "numpy") else np.asarray(answer), expected, rtol=1e-5)
    found = compare(Loop(call, bare).sample, Loop(statement, other).sample, rounds)
    size = "x".join(map(str, shape))
    figures = {name: summary._asdict() for name, summary in found._asdict().items()}
    return {"op": op, "size": size, "contender": contender.name, "call": statement, **figures}


def imports(passes: int) -> Report:
    """Time whole processes that start Python and import nothing, NumPy, and intermodal, with their bytecode at hand."""
    where = environment()
    programs = {"nothing": "pass", "numpy": "import numpy", "intermodal": "import intermodal"}
    with tempfile.TemporaryDirectory() as cache:
        # An installed package has its bytecode; a checkout may lack it, or be told to write none.
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        variables["PYTHONPYCACHEPREFIX"] = cache
        loaded = {name: _loaded(program, variables) for name, program in programs.items()}  # compiles what is timed then
        times = alternate([partial(process, program, variables) for program in programs.values()], passes)
    samples = dict(zip(programs, times, strict=True))
    medians = {name: summarise(found).median for name, found in samples.items()}
    start = medians["nothing"]
    results = [
        {
            "import": name,
            "time": summarise(samples[name])._asdict(),
            "ratio": medians[name] / medians["numpy"],
            "net": medians[name] - start,
            "net_ratio": (medians[name] - start) / (medians["numpy"] - start),
            "modules": loaded[name][0],
            "bytes": loaded[name][1],
        }
        for name in programs
    ]
    target = {"what": "import", "measured": results[-1]["ratio"], "limit": IMPORT_TARGET, "unit": "times NumPy"}
    return {"environment": where, "passes": passes, "results": results, "targets": [target]}


def _loaded(program: str, variables: dict[str, str]) -> tuple[int, int]:
    """How many modules a program leaves loaded, and the bytes of the files they were read from (bytecode where there is some)."""
    count = (
        "import os, sys; found = list(sys.modules.values());"
        "files = {getattr(m, '__cached__', None) or getattr(m, '__file__', None) for m in found};"
        "print(len(found), sum(os.path.getsize(f) for f in files if f and os.path.exists(f)))"
    )
    command = [sys.executable, "-c", f"{program}\n{count}"]
    modules, size = subprocess.run(command, check=True, capture_output=True, text=True, env=variables).stdout.split()
    return int(modules), int(size)


def show_overhead(report: Report) -> str:
    """The report as text: intermodal in full, then what each peer adds."""
    own, peers = [], {}
    for r in report["results"]:
        if r["contender"] == "intermodal":
            own.append([r["op"], r["call"], r["size"], *_middle(r["bare"]), *_middle(r["other"]), f"{r['added']['median']:+,.0f}", f"{r['ratio']['median']:.2f}"])  # fmt: skip
        else:
            peers[r["op"], r["size"], r["contender"]] = f"{r['added']['median']:+,.0f} ({r['ratio']['median']:.1f})"
    names = [name for name in report["contenders"] if any(key[2] == name for key in peers)]
    rows = [[op, size, *(peers.get((op, size, name), "-") for name in names)] for op, _, size, *_ in own]
    versions = [f"{name}: {version}" for name, version in report["contenders"].items()]
    return "\n".join(
        (
            *_heading(report, f"ns per call, median of {2 * report['rounds']} samples (10th to 90th percentile), float32"),
            table(["op", "call", "size", "NumPy", "", "intermodal", "", "added", "ratio"], own, left=2),
            *_targets(report),
            *(("", "What others add over NumPy, in ns (and the ratio)", table(["op", "size", *names], rows)) if names else ()),
            "",
            *versions,
        )
    )


def show_imports(report: Report) -> str:
    """The report as text."""
    rows = [
        [r["import"], f"{r['time']['median'] / 1e6:.1f}", f"({r['time']['low'] / 1e6:.1f} to {r['time']['high'] / 1e6:.1f})",
         f"{r['ratio']:.2f}", f"{r['net'] / 1e6:.1f}", f"{r['net_ratio']:.2f}", str(r["modules"]), f"{r['bytes'] / 1024:,.0f}"]
        for r in report["results"]
    ]  # fmt: skip
    header = ["import", "ms", "", "/ numpy", "net ms", "net / numpy", "modules", "KiB"]
    note = f"ms per process, median of {report['passes']} (10th to 90th percentile); net: without the start of the interpreter"
    return "\n".join((*_heading(report, note), table(header, rows), *_targets(report)))


def _middle(summary: dict[str, float]) -> tuple[str, str]:
    s = Summary(**summary)
    return f"{s.median:,.0f}", f"({s.low:,.0f} to {s.high:,.0f})"


def _heading(report: Report, note: str) -> Iterator[str]:
    e = report["environment"]
    yield f"{e['date']}: {e['machine']}"
    yield f"{e['python']}, NumPy {e['numpy']}, intermodal {e['intermodal']}"
    yield note
    yield ""


def _targets(report: Report) -> Iterator[str]:
    if report["targets"]:
        yield ""
    for t in report["targets"]:
        yield f"target: {t['what']}: {t['measured']:.3g} {t['unit']}, meant to be at most {t['limit']:g}"
