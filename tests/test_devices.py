from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given, strategies as st

import intermodal as im
from intermodal import config

NAME = st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True)


@given(NAME, NAME, st.integers(0, 99), st.one_of(st.none(), NAME))
def test_an_address_round_trips_through_its_text(engine: str, kind: str, index: int, connection: str | None) -> None:
    text = f"{connection}/" * bool(connection) + f"{engine}:{kind}:{index}"
    device = im.Device(text)
    assert im.Device(str(device)) is device
    assert eval(repr(device), {"Device": im.Device}) is device
    assert (device.engine, device.kind, device.index, device.connection) == (engine, kind, index, connection)
    assert pickle.loads(pickle.dumps(device)) is device
    assert copy.deepcopy(device) is device


def test_the_short_forms_mean_the_long_ones() -> None:
    assert im.Device("numpy") is im.Device("numpy:cpu") is im.Device("numpy:cpu:0")
    assert str(im.Device("torch:cuda")) == "torch:cuda:0"
    assert str(im.Device("opencl:1")) == "opencl:1"
    assert str(im.Device("lab/torch:cpu")) == "lab/torch:cpu"


def test_devices_compare_with_strings_and_hash() -> None:
    assert im.Device("numpy:cpu") == "numpy"
    assert im.Device("numpy:cpu") != "torch:cpu"
    assert im.Device("numpy:cpu") != "not a device!"
    assert len({im.Device("numpy"), im.Device("numpy:cpu"), im.Device("meta")}) == 2


@pytest.mark.parametrize("wrong", ["", "Torch:cuda", "numpy:cpu:x", "a/b/c:cpu", ":cpu", 3, None, "numpy cpu"])
def test_a_malformed_address_is_refused_with_the_form(wrong: object) -> None:
    with pytest.raises(im.DeviceError, match=r"engine:kind\[:index\]"):
        im.Device(wrong)  # type: ignore[arg-type]


def test_an_unknown_engine_names_those_that_exist() -> None:
    with pytest.raises(im.DeviceError, match=r"no engine 'cupy'.*meta, numpy"):
        im.zeros(3, device="cupy:cuda:0")


def test_an_unknown_device_of_a_known_engine_names_those_that_exist() -> None:
    with pytest.raises(im.DeviceError, match=r"no device numpy:gpu:0. numpy has numpy:cpu"):
        im.zeros(3, device="numpy:gpu")


def test_the_default_device_comes_from_scope_then_process_then_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert im.default_device() == "numpy:cpu"
    monkeypatch.setenv("INTERMODAL_DEVICE", "meta:cpu")
    assert im.zeros(2).device == "meta:cpu"
    config.set(device="numpy:cpu")
    try:
        assert im.zeros(2).device == "numpy:cpu"
        with config.scope(device="meta"):
            assert im.zeros(2).device == "meta:cpu"
            with config.scope(device="numpy"):
                assert im.zeros(2).device == "numpy:cpu"
            assert im.zeros(2).device == "meta:cpu"
        assert im.zeros(2).device == "numpy:cpu"
    finally:
        config.set(device=None)
    assert im.zeros(2).device == "meta:cpu"


def test_a_wrong_environment_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERMODAL_DEVICE", "GPU please")
    with pytest.raises(im.InvalidValueError, match="INTERMODAL_DEVICE: 'GPU please' is not a device"):
        im.zeros(2)


def test_a_scope_belongs_to_its_thread() -> None:
    import threading

    seen: list[im.Device] = []
    with config.scope(device="meta"):
        thread = threading.Thread(target=lambda: seen.append(im.default_device()))
        thread.start()
        thread.join()
    assert seen == ["numpy:cpu"]


def test_an_unknown_setting_lists_the_settings() -> None:
    with pytest.raises(im.InvalidValueError, match="device, default_float, promotion"):
        config.set(devise="numpy")


def test_the_default_float_is_a_setting() -> None:
    assert im.asarray(1.5).dtype is im.float32
    with config.scope(default_float="float64"):
        assert im.asarray(1.5).dtype is im.float64
        assert im.zeros(2).dtype is im.float64
        assert im.asarray(1j).dtype is im.complex128


def test_strict_promotion_refuses_to_mix_kinds() -> None:
    x, y = im.ones(2, dtype="int32"), im.ones(2, dtype="float32")
    assert (x + y).dtype is im.float64
    with config.scope(promotion="strict"), pytest.raises(im.DTypeError, match="different kinds"):
        x + y
    with config.scope(promotion="strict"), pytest.raises(im.DTypeError, match=r"1\.5 does not fit dtype int32"):
        x + 1.5
