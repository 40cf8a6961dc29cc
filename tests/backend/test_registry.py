from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import intermodal as im
from intermodal.backend import Backend, BackendRegistry, EngineInfo
from intermodal.engines.numpy import NumpyBackend


class TwinBackend(NumpyBackend):
    engine = "twin"

    def devices(self) -> tuple[im.Device, ...]:
        return (im.Device("twin:cpu"), im.Device("twin:cpu:1"))


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[BackendRegistry]:
    monkeypatch.setenv("INTERMODAL_DISABLE_PLUGINS", "1")
    return BackendRegistry()


@pytest.mark.parametrize("name", ["numpy", "meta", "torch"])
def test_our_own_names_cannot_be_taken(registry: BackendRegistry, name: str) -> None:
    with pytest.raises(im.DeviceError, match=f"{name!r} is registered already"):
        registry.register(name, TwinBackend)


def test_an_engine_is_made_once_also_by_many_threads(registry: BackendRegistry) -> None:
    made: list[int] = []
    start = threading.Barrier(4)

    class CountedBackend(TwinBackend):
        def __init__(self) -> None:
            super().__init__()
            made.append(1)

    registry.register("twin", CountedBackend)
    found: list[Backend] = []

    def ask() -> None:
        start.wait()
        found.append(registry.get("twin"))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len({id(b) for b in found}) == 1


def test_a_factory_that_fails_makes_the_engine_unavailable_until_it_is_refreshed(registry: BackendRegistry) -> None:
    working = False

    def factory() -> Backend:
        if not working:
            raise OSError("the card is gone")
        return TwinBackend()

    registry.register("twin", factory)
    for _ in range(2):
        with pytest.raises(im.EngineUnavailableError, match=r"'twin' cannot be loaded.*OSError: the card is gone") as caught:
            registry.get("twin")
        assert isinstance(caught.value.__cause__, OSError)
        assert "pip install" not in str(caught.value)
    assert (
        EngineInfo("twin", "unavailable", "registered", factory.__qualname__, "OSError: the card is gone") in registry.entries()
    )
    working = True
    registry.refresh()
    assert registry.get("twin").engine == "twin"


def test_who_keeps_things_by_engine_is_told_of_its_end(registry: BackendRegistry) -> None:
    ended: list[str] = []
    registry.on_unregister(ended.append)
    registry.register("twin", TwinBackend)
    registry.get("twin")
    registry.unregister("twin")
    assert ended == ["twin"]
    assert "twin" not in registry.engines()


def test_a_device_is_checked_by_address_or_object(registry: BackendRegistry) -> None:
    registry.register("twin", TwinBackend)
    assert registry.check_device("twin:cpu:1") is registry.check_device(im.Device("twin"))
    with pytest.raises(im.DeviceError, match=r"no device twin:gpu:0. twin has twin:cpu, twin:cpu:1"):
        registry.check_device("twin:gpu")


def test_nothing_is_loaded_to_list_the_engines(registry: BackendRegistry) -> None:
    assert {e.status for e in registry.entries()} == {"not loaded"}
    assert [e.name for e in registry.entries()] == registry.engines()
    registry.get("numpy")
    assert [e.name for e in registry.entries() if e.status == "loaded"] == ["numpy"]
