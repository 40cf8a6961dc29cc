from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "intermodal"
MODULES = {
    "ground": {"config", "devices", "dtypes", "errors", "pools"},
    "core": {
        "conversion",
        "dispatch",
        "execution",
        "indexing",
        "inspection",
        "methods",
        "places",
        "plans",
        "selection",
        "tensor",
        "transfer",
        "views",
    },
    "public": {"", "fft", "linalg", "nn", "optim", "random"},
    "cli": {"__main__", "cli"},
}
MAY_IMPORT = {
    "ground": {"ground"},
    "ops": {"ground", "ops"},
    "backend": {"ground", "ops", "backend"},
    "engines": {"ground", "ops", "backend", "engines"},
    "core": {"ground", "ops", "backend", "core"},
    "autodiff": {"ground", "ops", "backend", "core", "autodiff"},
    "graph": {"ground", "ops", "backend", "core", "autodiff", "graph"},
    "training": {"ground", "ops", "backend", "core", "autodiff", "training"},
    "public": {"ground", "ops", "backend", "core", "autodiff", "graph", "training", "public"},
    "testing": {"ground", "ops", "backend", "engines", "core", "autodiff", "graph", "training", "public", "testing"},
    "cli": {"ground", "ops", "backend", "core", "public", "cli"},
}
# An import against the arrows is allowed where it is not run at import time, and only for a reason that stands here.
EXEMPT = {
    ("core", "intermodal.autodiff"): "inside methods: x.backward() loads the layer above when it is first used",
    ("core", "intermodal.autodiff.gradients"): "inside methods: x.backward() loads the layer above when it is first used",
    ("ops", "intermodal.tensor"): "under TYPE_CHECKING: a row's signature names Tensor, and its body calls Tensor's methods",
}


def layer_of(module: str) -> str:
    part = f"{module}.".split(".")[1]
    return next((layer for layer, names in MODULES.items() if part in names), part)


def imports(tree: ast.AST, deferred: bool = False) -> Iterator[tuple[str, bool]]:
    """The modules of ours that a file imports, and whether inside a function or under TYPE_CHECKING."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, deferred) for alias in node.names if alias.name.split(".")[0] == "intermodal")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written in full, so that this test reads them"
            for alias in node.names if node.module and node.module.split(".")[0] == "intermodal" else ():
                inner = SOURCE.joinpath(*f"{node.module}.{alias.name}".split(".")[1:])
                yield (
                    f"{node.module}.{alias.name}" if inner.with_suffix(".py").exists() or inner.is_dir() else node.module,
                    deferred,
                )
        else:
            guarded = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            yield from imports(node, deferred or guarded or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def against_the_arrows() -> Iterator[tuple[str, str, str, bool]]:
    for file in sorted(SOURCE.rglob("*.py")):
        module = ".".join(("intermodal", *file.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        layer = layer_of(module)
        for target, deferred in imports(ast.parse(file.read_text())):
            if layer_of(target) not in MAY_IMPORT.get(layer, set()):
                yield layer, module, target, deferred


def test_every_module_belongs_to_a_layer() -> None:
    there = {p.stem for p in SOURCE.iterdir() if not p.name.startswith("_") and p.suffix in ("", ".py")}
    assert {name for name in there if layer_of(f"intermodal.{name}") not in MAY_IMPORT} == set()


def test_a_lower_layer_never_imports_a_higher_one() -> None:
    wrong = [f"{module} ({layer}) imports {target}" for layer, module, target, deferred in against_the_arrows()
             if not (deferred and (layer, target) in EXEMPT)]  # fmt: skip
    assert wrong == []


def test_every_exemption_is_still_needed() -> None:
    assert {(layer, target) for layer, _, target, _ in against_the_arrows()} >= set(EXEMPT)


def test_the_reader_sees_imports_in_every_position() -> None:
    text = (
        "import intermodal.tensor\n"
        "from intermodal import dispatch, Tensor\n"
        "if TYPE_CHECKING:\n    from intermodal.tensor import Tensor\n"
        "def f():\n    if 1:\n        from intermodal.ops.linalg import matmul\n"
        "import numpy, math\n"
    )
    assert list(imports(ast.parse(text))) == [
        ("intermodal.tensor", False),
        ("intermodal.dispatch", False),
        ("intermodal", False),
        ("intermodal.tensor", True),
        ("intermodal.ops.linalg", True),
    ]
