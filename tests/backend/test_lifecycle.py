from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

import intermodal as im
from intermodal import BackendConfig, BackendFactory, BackendMemoryConfig
from intermodal.backend import BackendState, ComputeBackend, MemoryGrowthStrategy
from intermodal.engines.numpy.natives import NATIVES

from .made import Make


def create(engine: str, **options: Any) -> ComputeBackend:
    return BackendFactory().create_compute_backend(BackendConfig(engine, **options))


def fails(*_: object, **__: object) -> Any:
    raise RuntimeError("the unit is on fire")


def no_sync(self: object, device: im.Device) -> None:
    raise im.ExecutionError("sync: a kernel failed.", reason="a kernel failed")


def test_a_life_in_order() -> None:
    backend = create("numpy")
    assert backend.status().state is BackendState.CREATED
    assert not backend.status().is_initialized
    backend.initialize()
    status = backend.status()
    assert (status.is_initialized, status.is_ready, status.active_devices) == (True, True, (im.Device("numpy:cpu"),))
    x = backend.tensor_ops.ones((2, 2))
    assert backend.tensor_ops.add(x, x).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    backend.synchronize()
    assert backend.status().operations_completed == 2
    backend.shutdown()
    status = backend.status()
    assert (status.state, status.is_ready, status.active_devices) == (BackendState.SHUT_DOWN, False, ())
    assert (x + x).tolist() == [[2.0, 2.0], [2.0, 2.0]]  # tensors belong to the program, not to this object


def test_use_before_the_start_and_after_the_end_is_refused() -> None:
    backend = create("numpy")
    for use in (backend.synchronize, lambda: backend.tensor_ops.ones(2)):
        with pytest.raises(im.LifecycleError, match=r"the backend numpy was not initialized. Call initialize\(\) first."):
            use()
    backend.initialize()
    backend.shutdown()
    for use in (backend.synchronize, lambda: backend.tensor_ops.ones(2), backend.initialize):
        with pytest.raises(im.LifecycleError, match=r"(synchronize|ones|initialize): the backend numpy was shut down"):
            use()
    backend.shutdown()  # a second time does nothing


def test_a_backend_that_never_started_can_be_ended() -> None:
    backend = create("numpy")
    backend.shutdown()
    assert backend.status().state is BackendState.SHUT_DOWN


def test_the_status_has_what_the_engine_can_tell_of_its_memory(make: Make) -> None:
    make("mute", memory_info=lambda self, device: None)
    with create("numpy") as numpy, create("mute") as mute:
        here = numpy.status()
        info = here.memory[im.Device("numpy:cpu")]
        assert info is not None
        assert info.total > here.memory_usage[im.Device("numpy:cpu")]
        assert here.memory_usage[im.Device("numpy:cpu")] > 0
        assert mute.status().memory == {im.Device("mute:cpu"): None}
        assert mute.status().memory_usage == {}
        assert str(here.backend_specific["numpy:cpu"]).startswith("NumPy ")


def test_a_wrong_call_is_noted_and_leaves_the_backend_ready() -> None:
    with create("numpy") as backend:
        x = backend.tensor_ops.ones(2)
        with pytest.raises(im.ShapeError):
            backend.tensor_ops.matmul(x, backend.tensor_ops.ones(3))
        assert "matmul" in str(backend.status().last_error)
        assert backend.status().is_ready
        assert backend.status().operations_completed == 2


def test_a_failure_of_the_engine_is_noted_until_it_is_initialized_again(make: Make) -> None:
    make("fragile", natives={**NATIVES, "sin": fails})
    with create("fragile") as backend:
        x = backend.tensor_ops.ones(2)
        with pytest.raises(im.ExecutionError):
            backend.tensor_ops.sin(x)
        status = backend.status()
        assert (status.state, status.is_initialized, status.is_ready) == (BackendState.FAILED, True, False)
        assert "the unit is on fire" in str(status.last_error)
        assert backend.tensor_ops.cos(x).shape == (2,)  # the rest still works
        backend.initialize()
        assert backend.status().is_ready
        assert backend.status().last_error is None


def test_a_device_that_does_not_work_is_not_initialized(make: Make) -> None:
    make("dead", natives={**NATIVES, "add": fails})
    backend = create("dead")
    with pytest.raises(im.ExecutionError, match=r"dead:cpu is listed but does not work: .*the unit is on fire"):
        backend.initialize()
    assert backend.status().state is BackendState.CREATED
    assert "on fire" in str(backend.status().last_error)


def test_several_devices_can_be_active_and_foreign_ones_are_refused(make: Make) -> None:
    there = (im.Device("pair:cpu"), im.Device("pair:cpu:1"))
    make("pair", devices=lambda self: there)
    with create("pair") as backend:
        with pytest.raises(im.DeviceMismatchError, match=r"pair:cpu:1 is none of this backend's devices pair:cpu"):
            backend.tensor_ops.ones(2, device="pair:cpu:1")
        backend.initialize("pair:cpu:1")
        backend.initialize("pair:cpu:1")
        assert backend.status().active_devices == there
        assert backend.tensor_ops.ones(2, device=there[1]).device == "pair:cpu:1"
        with pytest.raises(im.DeviceMismatchError, match=r"numpy:cpu is none of .*x\.to\('pair:cpu'\)"):
            backend.tensor_ops.concat([im.ones(2)])
        with pytest.raises(im.DeviceError, match=r"pair has no device numpy:cpu. It has pair:cpu, pair:cpu:1"):
            backend.initialize("numpy")
        assert not backend.supports_device("numpy")
        assert backend.capabilities("pair:cpu:1").device == "pair:cpu:1"


def test_work_that_failed_is_raised_by_synchronize_and_after_everything_ended_by_shutdown(make: Make) -> None:
    cleaned: list[im.Device] = []
    make("late", sync=no_sync, memory_cleanup=lambda self, device: cleaned.append(device))
    backend = create("late")
    backend.initialize()
    with pytest.raises(im.ExecutionError, match="a kernel failed"):
        backend.synchronize()
    assert backend.status().state is BackendState.FAILED
    with pytest.raises(im.ExecutionError, match="a kernel failed"):
        backend.shutdown()
    assert cleaned == ["late:cpu"]
    assert backend.status().state is BackendState.SHUT_DOWN


def test_the_error_of_the_block_is_not_hidden_by_one_at_the_end(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    make("late", sync=no_sync)
    with pytest.raises(KeyError, match="mine"), create("late"):
        raise KeyError("mine")
    assert "shutdown failed" in caplog.text


def test_debugging_waits_after_each_op_and_logs_it(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    waits: list[im.Device] = []
    make("watched", sync=lambda self, device: waits.append(device))
    with caplog.at_level(logging.DEBUG, "intermodal"), create("watched", enable_debug=True) as backend:
        x = backend.tensor_ops.ones(2)
        backend.tensor_ops.sin(x)
        assert len(waits) == 2
    assert "watched: sin" in caplog.text


# --- configuration ---------------------------------------------------------------------------------------------------


def test_options_reach_the_engine_by_name_and_only_those_that_were_set(make: Make) -> None:
    got: list[Mapping[str, object]] = []
    make("tunable", configure=lambda self, device, options: got.append(options))
    memory = BackendMemoryConfig(pool_size=1024, enable_pooling=False, growth_strategy=MemoryGrowthStrategy.STATIC)
    with create("tunable", optimization_level=0, memory_config=memory, backend_options={"threads": 2}), create("tunable"):
        pass
    assert got == [
        {
            "optimization_level": 0,
            "memory_pool_size": 1024,
            "memory_enable_pooling": False,
            "memory_growth_strategy": MemoryGrowthStrategy.STATIC,
            "threads": 2,
        },
        {},
    ]


def test_an_option_that_the_engine_does_not_have_is_refused_not_ignored() -> None:
    backend = create("numpy", optimization_level=2, backend_options={"threads": 2})
    with pytest.raises(im.UnsupportedError, match=r"numpy has no option 'optimization_level', 'threads'. Leave it unset."):
        backend.initialize()
    assert backend.status().state is BackendState.CREATED


def test_everything_wrong_with_a_configuration_is_said_at_once() -> None:
    memory = BackendMemoryConfig(pool_size=0, alignment=48)
    config = BackendConfig("numpy", device="numpy:gpu", optimization_level=7, memory_config=memory)
    with pytest.raises(im.InvalidValueError) as caught:
        BackendFactory().validate_config(config)
    for part in ("optimization_level is 7", "pool_size is 0", "alignment is 48", "device is numpy:gpu, and there are numpy:cpu"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (BackendConfig("nowhere"), "there is no engine 'nowhere'"),
        (BackendConfig("numpy", device="meta:cpu"), "device is meta:cpu, which is not one of numpy"),
        (
            BackendConfig("numpy", memory_config=BackendMemoryConfig(growth_strategy=MemoryGrowthStrategy.STATIC)),
            "pool_size does not say",
        ),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(config: BackendConfig, text: str) -> None:
    with pytest.raises(im.InvalidValueError, match="is not valid") as caught:
        BackendFactory().create_compute_backend(config)
    assert text in str(caught.value)


def test_the_factory_lists_the_engines_that_load(make: Make) -> None:
    make("broken", __init__=fails)
    make("working")
    types = BackendFactory().supported_backend_types()
    assert {"numpy", "meta", "working"} <= set(types)
    assert "broken" not in types


def test_the_ops_of_a_backend_are_those_of_the_table() -> None:
    with create("numpy") as backend:
        assert "matmul" in dir(backend.tensor_ops)
        with pytest.raises(AttributeError, match="no op 'matmull'"):
            backend.tensor_ops.matmull
        assert backend.name == "numpy"
        assert backend.version.startswith("NumPy ")
