"""The two reports: what an op costs over the bare engine, and what the import costs over `import numpy`.

A report is data that goes to JSON as it is; `show_overhead` and `show_imports` make tables of it. The limits in
`TARGETS` are shown beside what was measured and never asserted: only a person sees how quiet the machine was.
"""

from __future__ import annotations

import importlib
import math
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

__all__ = ["CASES", "ENGINES", "imports", "overhead", "show_imports", "show_overhead"]

Report = dict[str, Any]


class Case(NamedTuple):
    """One op as each library's users write it; None where a library has no way of its own."""

    call: str  # the engine itself, intermodal, array_api_strict
    function: str | None  # Keras and array_api_compat: their tensors are the engine's own, and so are the operators
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
MATRICES: Final = ((1, 1), (32, 32), (1_024, 1_024))
LARGE: Final = 1_000_000  # from here on an asynchronous engine is waited for


class Engine(NamedTuple):
    """An engine without anything over it: its namespace, how it takes an array, and how its answer is waited for."""

    name: str
    version: str
    namespace: Any
    take: Callable[[Any], Any]
    wait: str = "{}"


def _numpy() -> Engine:
    return Engine("numpy", np.__version__, np, np.asarray)


def _torch() -> Engine:
    torch: Any = importlib.import_module("torch")
    return Engine("torch", torch.__version__, torch, torch.from_numpy)


def _jax() -> Engine:
    jax: Any = importlib.import_module("jax")
    numpy: Any = importlib.import_module("jax.numpy")
    return Engine("jax", jax.__version__, numpy, numpy.asarray, "({}).block_until_ready()")


ENGINES: Final = {"numpy": _numpy, "torch": _torch, "jax": _jax}


class Contender(NamedTuple):
    """A library over the engine: its namespace, how it takes the engine's array, and how a case is written with it."""

    name: str
    version: str
    namespace: Any
    take: Callable[[Any], Any]
    write: Callable[[Case], str | None]
    unwrap: str = "{}"  # how the engine's array is got out of its tensor


def _intermodal(_: str) -> Contender:
    namespace: Any = im
    return Contender("intermodal", im.__version__, namespace, namespace.asarray, lambda case: case.call, "({})._data")


def _array_api_strict(_: str) -> Contender:
    strict: Any = importlib.import_module("array_api_strict")
    return Contender("array_api_strict", strict.__version__, strict, strict.asarray, lambda case: case.call)


def _array_api_compat(engine: str) -> Contender:
    compat: Any = importlib.import_module("array_api_compat")
    namespace: Any = importlib.import_module(f"array_api_compat.{engine}")
    return Contender("array_api_compat", compat.__version__, namespace, namespace.asarray, lambda case: case.function)


def _eagerpy(_: str) -> Contender:
    eagerpy: Any = importlib.import_module("eagerpy")
    return Contender("eagerpy", eagerpy.__version__, eagerpy, eagerpy.astensor, lambda case: case.eagerpy, "({}).raw")


def _keras(engine: str) -> Contender:
    os.environ["KERAS_BACKEND"] = engine  # read once, at import
    with tempfile.TemporaryDirectory() as home:
        os.environ.setdefault("KERAS_HOME", home)  # where it writes a configuration file when it is imported
        keras: Any = importlib.import_module("keras")
    return Contender("keras.ops", keras.__version__, keras.ops, keras.ops.convert_to_tensor, lambda case: case.function)


# How each is loaded, what to install for it (the NumPy backend of Keras imports its JAX backend and SciPy), and its engines.
PEERS: Final = {
    "array_api_strict": (_array_api_strict, "array-api-strict", {"numpy"}),
    "array_api_compat": (_array_api_compat, "array-api-compat", {"torch"}),
    "eagerpy": (_eagerpy, "eagerpy", {"numpy", "torch", "jax"}),
    "keras.ops": (_keras, "keras jax scipy", {"numpy", "torch", "jax"}),
}

# What the project holds itself to: ns added to `x + y` of one element, in pure Python and compiled.
ADDED: Final = {"numpy": (450.0, 120.0), "torch": (800.0, 150.0), "jax": (1200.0, 500.0)}
RATIOS: Final = (("add", "1000000", 1.03), ("matmul", "1024x1024", 1.01))
IMPORT_TARGET: Final = 1.6


def overhead(engine: str, ops: Sequence[str], rounds: int) -> Report:
    """Time ops beside the bare engine for intermodal and for every peer that is installed, each pair in alternation."""
    where = environment()  # first: the machine's load is that of others then
    bare = ENGINES[engine]()
    contenders, versions = [_intermodal(engine)], {"intermodal": im.__version__}
    for name, (load, packages, engines) in PEERS.items():
        if engine not in engines:
            continue
        try:
            contenders.append(load(engine))
            versions[name] = contenders[-1].version
        except ImportError as error:
            versions[name] = f"not installed ({error.name} is missing): pip install {packages}"
    results = [
        _time(op, shape, bare, contender, statement, rounds)
        for op in ops
        for shape in (MATRICES if op == "matmul" else SHAPES)
        for contender in contenders
        if (statement := contender.write(CASES[op])) is not None
    ]
    limit = ADDED[engine]["compiled" in where["intermodal"]]
    wanted = [
        ("add", "1", "added", limit, "ns added"),
        *((op, size, "ratio", at_most, f"times {engine}") for op, size, at_most in RATIOS),
    ]
    targets = [
        {"what": f"{op} at size {size}", "measured": r[figure]["median"], "limit": at_most, "unit": unit}
        for op, size, figure, at_most, unit in wanted
        for r in results
        if (r["op"], r["size"], r["contender"]) == (op, size, "intermodal")
    ]
    return {
        "environment": where,
        "engine": f"{bare.name} {bare.version}",
        "rounds": rounds,
        "contenders": versions,
        "results": results,
        "targets": targets,
    }


def _time(op: str, shape: tuple[int, ...], engine: Engine, contender: Contender, statement: str, rounds: int) -> Report:
    call = CASES[op].call
    generator = np.random.default_rng(0)
    x, y = (engine.take(generator.uniform(0.5, 1.5, shape).astype(np.float32)) for _ in range(2))
    bare = {"x": x, "y": y, "xp": engine.namespace}
    other = {"x": contender.take(x), "y": contender.take(y), "xp": contender.namespace}
    expected, answer = eval(call, dict(bare)), eval(statement, dict(other))
    np.testing.assert_allclose(answer.numpy() if hasattr(answer, "numpy") else np.asarray(answer), expected, rtol=1e-5)
    size = "x".join(map(str, shape))
    shown = statement
    if math.prod(shape) >= LARGE and engine.wait != "{}":
        call, statement = engine.wait.format(call), engine.wait.format(contender.unwrap.format(statement))
    found = compare(Loop(call, bare).sample, Loop(statement, other).sample, rounds)
    figures = {name: summary._asdict() for name, summary in found._asdict().items()}
    return {"op": op, "size": size, "contender": contender.name, "call": shown, **figures}


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
            *_heading(
                report,
                f"{report['engine']}; ns per call, median of {2 * report['rounds']} samples (10th to 90th percentile), float32",
            ),
            table(["op", "call", "size", report["engine"].split()[0], "", "intermodal", "", "added", "ratio"], own, left=2),
            *_targets(report),
            *(
                ("", f"What others add over {report['engine']}, in ns (and the ratio)", table(["op", "size", *names], rows))
                if names
                else ()
            ),
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
