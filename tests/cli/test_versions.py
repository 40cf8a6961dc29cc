from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from intermodal.cli.versions import KNOWN, known_problems, release


@pytest.mark.parametrize(
    ("version", "numbers"), [("2.13.0+cpu", (2, 13, 0)), ("2.14.0a0+git123", (2, 14, 0)), ("1.0rc1", (1, 0)), ("dev", ())]
)
def test_a_release_is_read_off_its_version(version: str, numbers: tuple[int, ...]) -> None:
    assert release(version) == numbers


@pytest.mark.parametrize(("version", "affected"), [("2.12.0", False), ("2.12.1", True), ("2.13.0+cpu", True), ("2.14.0", False)])
def test_releases_of_torch_that_abort_on_negative_strides_are_known(version: str, affected: bool) -> None:
    found = known_problems({"torch": version}.__getitem__)
    assert [f["subject"] for f in found] == ([f"torch {version}"] if affected else [])
    assert all("negative strides" in f["message"] for f in found)


def test_a_library_that_is_not_installed_has_no_problems() -> None:
    def nothing(name: str) -> str:
        raise PackageNotFoundError(name)

    assert known_problems(nothing) == []


def test_every_known_fault_ends_after_it_begins() -> None:
    assert [known.library for known in KNOWN if known.fixed is not None and known.fixed <= known.first] == []
