"""Graphs as pictures."""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graph.building import Builder, samples
from intermodal.errors import UnsupportedError
from intermodal.graph.drawing import to_dot, to_svg
from intermodal.graph.ir import GraphIr
from intermodal.graph.sizes import Size
from intermodal.ops.table import TABLE

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="the program dot of the package graphviz is not installed")


def layer() -> GraphIr:
    n = Size.named("n")
    b = Builder()
    x, weight = b.input((n, 4)), b.constant(np.zeros((3, 4), np.float32))
    y = b.op("linear", x, weight, b.constant([1, 2.5, -0.0], "float32"), shapes=[(n, 3)])
    z = b.op("softmax", b.op("multiply", y, 0.5, shapes=[(n, 3)]), axis=1, shapes=[(n, 3)])
    return b.graph(z, x, weight)


def nodes(text: str) -> dict[str, str]:
    return dict(re.findall(r"^  (\w+) \[label=(.*), fillcolor", text, re.MULTILINE))


def edges(text: str) -> dict[tuple[str, str], str]:
    found = re.findall(r'^  (\w+) -> (\w+)(?: \[(?:label="(.*?)")?.*\])?;$', text, re.MULTILINE)
    return {(source, target): label.strip() for source, target, label in found}


def test_inputs_constants_ops_and_outputs_are_nodes() -> None:
    assert nodes(to_dot(layer())) == {
        "in0": '"x0"',
        "op0": "<<b>linear</b>>",
        "c0_1": '"weight"',
        "c0_2": '"bias = [ 1. ,  2.5, -0. ]"',
        "op1": '<<b>multiply</b><br/><font point-size="9" color="#4a5560">x2=0.5</font>>',
        "op2": '<<b>softmax</b><br/><font point-size="9" color="#4a5560">axis=1</font>>',
        "out0": '"y0"',
        "out1": '"y1"',
        "c_out2": '"constant"',
        "out2": '"y2"',
    }


def test_edges_say_what_flows_along_them() -> None:
    assert edges(to_dot(layer())) == {
        ("in0", "op0"): "float32 (n, 4)",
        ("c0_1", "op0"): "float32 (3, 4)",
        ("c0_2", "op0"): "float32 (3,)",
        ("op0", "op1"): "float32 (n, 3)",
        ("op1", "op2"): "float32 (n, 3)",
        ("op2", "out0"): "float32 (n, 3)",
        ("in0", "out1"): "float32 (n, 4)",
        ("c_out2", "out2"): "float32 (3, 4)",
    }


def test_only_attributes_that_say_something_are_shown() -> None:
    b = Builder()
    x = b.input((2, 3))
    y = b.op("reshape", b.op("sum", x, axis=None, keepdims=True), (1,))
    key = (slice(None, 1), slice(None, None, 2))
    parts = b.op("split", b.op("basic_index", x, key=key), (1, 1), axis=1)
    long = b.op("pad", x, tuple((i, i) for i in range(10, 12)), mode="wrap")
    text = to_dot(b.graph(y, parts[1], b.op("astype", long, "float64")))
    labels = [re.sub(r"<[^>]*>", " ", label).split() for label in nodes(text).values()]
    assert [" ".join(words) for words in labels if words[0] in ("reshape", "sum", "basic_index", "astype")] == [
        "sum axis=(0, 1) keepdims=True >",
        "reshape >",
        "basic_index key=(:1, ::2) >",
        "astype >",
    ]
    assert edges(text)["op3", "out1"] == "[1] float32 (1, 1)"


def test_long_attributes_are_cut() -> None:
    b = Builder()
    y = b.op("basic_index", b.input((9,) * 9), key=(slice(100, 200, 300),) * 9)
    shown = re.search("key=([^<]*)<", to_dot(b.graph(y)))
    assert shown is not None
    assert len(shown[1]) == 40
    assert shown[1].startswith("(100:200:300, ")
    assert shown[1].endswith("…")


def test_a_large_graph_keeps_its_labels_in_its_nodes() -> None:
    b = Builder()
    x = b.input((4,))
    for _ in range(80):
        x = b.op("multiply", x, b.constant(np.arange(4, dtype=np.float32)))
    text = to_dot(b.graph(x))
    assert set(edges(text).values()) == {""}
    assert len(nodes(text)) == 82
    assert "constant: float32 (4,)" in nodes(text)["op0"]
    assert "→ float32 (4,)" in nodes(text)["op79"]


@needs_dot
@pytest.mark.parametrize("name", ['a"b', "a\\", "<b>&amp;", "a\nb", "]; evil [", "größe"])
def test_a_name_is_drawn_as_it_is_whatever_it_holds(name: str) -> None:
    ir = replace(layer(), input_names=(name,))
    texts = [t.text for t in ET.fromstring(to_svg(ir)).iter("{http://www.w3.org/2000/svg}text")]
    assert set(name.split("\n")) < set(texts)


@needs_dot
def test_a_picture_has_every_node_and_is_written_to_the_path(tmp_path: Path) -> None:
    svg = to_svg(layer(), tmp_path / "graph.svg")
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8") == svg
    titles = {t.text for t in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}title")}
    assert set(nodes(to_dot(layer()))) < titles


@needs_dot
def test_dot_reads_the_label_of_every_row() -> None:
    drawn = [to_dot(next(samples(name))[0]) for name, row in TABLE.items() if not row.data_dependent]
    program = shutil.which("dot")
    assert program is not None
    done = subprocess.run([program, "-Tcanon"], input="\n".join(drawn), capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("digraph") == len(drawn)


def test_without_the_program_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnsupportedError, match="Install the package graphviz"):
        to_svg(layer())
