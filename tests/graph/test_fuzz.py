"""Bytes, texts and graphs that somebody broke on purpose: typed errors only, in bounded time and memory."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from graph import fuzz, graphs
from intermodal.errors import IntermodalError
from intermodal.graph.binary import from_bytes, to_bytes
from intermodal.graph.ir import GraphIr
from intermodal.graph.text import from_text, to_text
from intermodal.graph.validation import check

SECONDS = 5.0  # for one; most take a thousandth of that, but the machine may be busy
MEMORY = 2**27  # bytes at once, for what is a few thousand bytes itself


@cache
def seeds() -> tuple[tuple[GraphIr, bytes, tuple[GraphIr, str]], ...]:
    return tuple((ir, to_bytes(ir), (ir, to_text(ir))) for ir in graphs.all_graphs())


def from_graph(ir: GraphIr) -> GraphIr:
    check(ir)
    return ir


WAYS: dict[str, tuple[int, Callable[[Any, random.Random], Any], Callable[[Any], GraphIr]]] = {
    "graphs": (0, fuzz.bent_graph, from_graph),
    "bytes": (1, fuzz.bent_bytes, from_bytes),
    "texts": (2, fuzz.bent_text, from_text),
}


def broken(way: str, count: int) -> dict[str, float]:
    """Try as many; how many were refused, how long the slowest took, and the most memory at once."""
    part, bend, read = WAYS[way]
    draw = random.Random(f"{way} {count}")
    refused, slowest = 0, 0.0
    tracemalloc.start()
    try:
        for i in range(count):
            given = bend(draw.choice(seeds())[part], draw)
            start = time.perf_counter()
            try:
                found = read(given)
                assert to_text(from_bytes(to_bytes(found))) == to_text(found), i  # what passes is a graph like any other
            except IntermodalError:
                refused += 1
            slowest = max(slowest, time.perf_counter() - start)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return {"refused": refused, "slowest": slowest, "most": most}


@pytest.mark.parametrize(
    ("way", "count"), [(way, 1_000) for way in WAYS] + [pytest.param(way, 10_000, marks=pytest.mark.long) for way in WAYS]
)
def test_what_is_broken_is_refused_in_time_and_memory(way: str, count: int) -> None:
    seeds()
    found = broken(way, count)
    print(way, found)
    assert count * 0.3 < found["refused"]
    assert found["slowest"] < SECONDS
    assert found["most"] < MEMORY
