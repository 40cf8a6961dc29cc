from __future__ import annotations

import os
from pathlib import Path

import pytest

import intermodal as im
from intermodal.backend import backend_of, memory


def test_numpy_tells_the_hosts_memory() -> None:
    info = backend_of("numpy").memory_info(im.Device("numpy:cpu"))
    assert info is not None
    assert info.free is not None
    assert 0 < info.free < info.total
    assert info.used == info.total - info.free


def test_an_engine_that_cannot_tell_its_memory_says_none() -> None:
    assert backend_of("meta").memory_info(im.Device("meta:cpu")) is None


def test_the_kernels_file_is_read_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "meminfo"
    file.write_text("MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    400 kB\nHugePages_Total:   0\n")
    monkeypatch.setattr(memory, "_MEMINFO", str(file))
    assert memory.host_memory() == memory.MemoryInfo(1_024_000, 409_600)


@pytest.mark.parametrize("text", ["", "MemTotal: 1 kB\n", "MemTotal: x kB\nMemAvailable: y kB\n", "no colon\n"])
def test_without_the_kernels_file_the_pages_are_counted(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "meminfo"
    if text:
        file.write_text(text)
    monkeypatch.setattr(memory, "_MEMINFO", str(file))
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10, "SC_AVPHYS_PAGES": 4}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    assert memory.host_memory() == memory.MemoryInfo(40960, 16384)


def test_a_system_that_tells_a_part_or_nothing_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MEMINFO", str(tmp_path / "absent"))

    def partly(name: str) -> int:
        if name == "SC_AVPHYS_PAGES":
            raise ValueError("unrecognized configuration name")
        return 8

    monkeypatch.setattr(os, "sysconf", partly)
    assert memory.host_memory() == memory.MemoryInfo(64, None)
    assert memory.MemoryInfo(64, None).used is None
    monkeypatch.setattr(os, "sysconf", lambda name: -1)
    assert memory.host_memory() is None
