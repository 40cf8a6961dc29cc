from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import intermodal as im
from intermodal import BackendRequirements, DTypeUsage
from intermodal.backend import HostMemory, MemoryInfo, Support, probing
from intermodal.engines.numpy import NumpyBackend
from intermodal.engines.numpy.natives import NATIVES
from intermodal.ops import TABLE

from .made import Make

NONE = BackendRequirements()


def fails(*_: object, **__: object) -> Any:
    raise RuntimeError("the unit is on fire")


# --- probing ---------------------------------------------------------------------------------------------------------


def test_a_probe_of_numpy_finds_what_it_declares() -> None:
    found = im.probe("numpy:cpu")
    assert {d: im.dtype_usage(d, "numpy:cpu") for d in im.dtypes.ALL} == found.usage
    assert (found.supports_fp16, found.supports_bf16, found.supports_int8) == (True, True, True)
    assert found.max_tensor_dims == 64
    assert found.memory_alignment == 1
    assert found.supported_devices == (im.Device("numpy:cpu"),)
    assert found.name.startswith("NumPy ")
    assert found.memory is not None
    assert (found.max_batch_size, found.max_sequence_length) == (None, None)
    assert not found.is_accelerator
    assert not any(
        getattr(found, f"supports_{feature}")
        for feature in (
            "flash_attention",
            "paged_attention",
            "tensor_parallelism",
            "pipeline_parallelism",
            "custom_kernels",
            "cuda_graphs",
        )
    )


def test_meta_does_nothing_with_any_dtype_because_it_has_no_data() -> None:
    found = im.probe("meta:cpu", dtypes=["float32"])
    assert found.supported_dtypes == ()
    assert "no data" in found.reasons[im.float32]


def test_what_an_engine_declares_and_does_not_do_is_found_out(make: Make) -> None:
    liar = make("liar", natives={**NATIVES, "add": fails, "matmul": fails})
    found = im.probe(liar, dtypes=["float32"], ops=["matmul", "sin"])
    assert im.dtype_usage("float32", liar) == DTypeUsage.GENERAL | DTypeUsage.ACCELERATED
    assert found.usage[im.float32] == DTypeUsage.STORAGE
    assert "the unit is on fire" in found.reasons[im.float32]
    assert found.ops["matmul", im.float32].support is Support.NONE
    assert found.ops["sin", im.float32].support is Support.NATIVE


def test_a_wrong_sum_and_lost_elements_are_found_out(make: Make) -> None:
    wrong = make("wrong", natives={**NATIVES, "add": lambda x1, x2: np.asarray(x1)})
    assert im.probe(wrong, dtypes=["int8"]).reasons[im.int8] == "1 + 1 is 1"
    lossy = make("lossy", to_host=lambda self, array: np.asarray(array).astype("float16").astype(np.asarray(array).dtype) * 3)
    assert "ones come back as" in im.probe(lossy, dtypes=["float32"]).reasons[im.float32]


def test_an_op_without_a_native_is_decomposed_and_a_dtype_it_does_not_take_is_no_fault() -> None:
    found = im.probe("numpy:cpu", dtypes=["float32", "int8"], ops=["nn.selu", "bitwise_and"])
    assert found.ops["selu", im.float32].support is Support.DECOMPOSED
    assert found.ops["bitwise_and", im.float32] == (Support.NOT_TAKEN, "bitwise_and does not take float32")
    assert found.ops["bitwise_and", im.int8].runs


def test_nearly_every_op_of_the_table_can_be_probed_and_runs_on_numpy() -> None:
    device = im.Device("numpy:cpu")
    tried = (im.float32, im.int64, im.bool, im.complex64)
    unknown = [
        name
        for name in TABLE
        if not any(probing.op_support(device, name, d).runs for d in tried)  # an op takes at least one of them
    ]
    # A new op may have a signature from which no call follows; it then wants a line in the table of small calls.
    assert len(unknown) <= len(TABLE) // 20, unknown


@pytest.mark.parametrize(
    "name",
    ["matmul", "inv", "cholesky", "take", "where", "nonzero", "conv2d", "fft", "einsum", "concat", "uniform", "arange", "sort"],
)
def test_ops_of_every_family_are_probed_by_running(name: str) -> None:
    assert probing.op_support(im.Device("numpy:cpu"), name, im.float32).runs


def test_an_op_with_an_unguessable_signature_is_unknown_until_a_call_is_named() -> None:
    @im.op()
    def fussy(x: im.Tensor, /, *, spell: str) -> im.Tensor:
        if spell != "please":
            raise im.InvalidValueError("say please")
        return x + 1

    device = im.Device("numpy:cpu")
    try:
        answer = probing.op_support(device, "fussy", im.float32)
        assert answer.support is Support.NONE
        assert "im.backend.small_call" in answer.reason
        im.backend.small_call("fussy", (2,), spell="please")
        assert im.probe(device, dtypes=["float32"], ops=["fussy"]).ops["fussy", im.float32].runs
    finally:
        TABLE.remove("fussy")


def test_an_answer_is_kept_until_it_is_asked_for_again(make: Make) -> None:
    ran: list[int] = []

    def counted(x: Any) -> Any:
        ran.append(1)
        return np.sin(x)

    device = make("counted", natives={**NATIVES, "sin": counted})
    for _ in range(3):
        im.probe(device, dtypes=["float32"], ops=["sin"])
    assert len(ran) == 1
    im.probe(device, dtypes=["float32"], ops=["sin"], again=True)
    assert len(ran) == 2


def test_an_engine_that_is_taken_out_leaves_no_answers() -> None:
    from contextlib import ExitStack

    from .made import make_engine

    with ExitStack() as stack:
        im.probe(make_engine(stack, "gone"), dtypes=["float32"], ops=["sin"])
        assert any(key[0].engine == "gone" for key in probing._answers)
    assert not any(key[0].engine == "gone" for key in (*probing._answers, *probing._usages))


def test_the_number_of_answers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "LIMIT", 5)
    monkeypatch.setattr(probing, "_answers", {})
    for name in ("sin", "cos", "tan", "exp", "log", "sqrt", "abs"):
        probing.op_support(im.Device("numpy:cpu"), name, im.float32)
    assert [key[1].name for key in probing._answers] == ["tan", "exp", "log", "sqrt", "abs"]


def test_a_probe_draws_nothing_from_the_devices_stream_of_seeds() -> None:
    backend = im.backend.backend_of("numpy")
    device = im.Device("numpy:cpu")
    backend.seed(device, 3)
    before = backend.next_seed(device)
    backend.seed(device, 3)
    im.probe(device, dtypes=["float32"], ops=["random.uniform", "random.normal"], again=True)
    assert backend.next_seed(device) == before


def test_the_number_of_axes_and_the_alignment_are_the_devices_own(make: Make) -> None:
    def flat(self: NumpyBackend, data: Any, device: im.Device, *, copy: bool | None = None) -> Any:
        if data.ndim > 5:
            raise ValueError("five axes at most")
        return data

    device = make("flat", from_host=flat, shares=HostMemory(alignment=64))
    assert im.probe(device, dtypes=[]).max_tensor_dims == 5
    assert im.probe(device, dtypes=[]).memory_alignment == 64
    assert im.probe(make("far", "gpu", shares=HostMemory(alignment=64)), dtypes=[]).memory_alignment is None


def test_flash_attention_is_what_the_engine_says_and_what_runs(make: Make) -> None:
    says: dict[str, Callable[..., Any]] = {"features": lambda self, device: {"flash_attention": True}}
    assert im.probe(make("flash", **says), dtypes=["float32"]).supports_flash_attention
    without = make("claims", natives={n: f for n, f in NATIVES.items() if n != "attention"}, **says)
    assert not im.probe(without, dtypes=["float32"]).supports_flash_attention
    broken = make("broken", natives={**NATIVES, "attention": fails}, **says)
    assert not im.probe(broken, dtypes=["float32"]).supports_flash_attention
    assert not im.probe("numpy:cpu", dtypes=["float32"]).supports_flash_attention


def test_capabilities_and_requirements_travel() -> None:
    found = im.probe("numpy:cpu", dtypes=["float32"], ops=["sin"])
    assert pickle.loads(pickle.dumps(found)) == found
    wanted = BackendRequirements(dtypes="float32", ops="sin", extra={"a": 1})
    assert pickle.loads(pickle.dumps(wanted)) == wanted


# --- requirements ----------------------------------------------------------------------------------------------------


def test_requirements_are_brought_to_one_form() -> None:
    a = BackendRequirements(devices="numpy", dtypes=np.float32, ops="nn.softmax", engines="numpy", kinds="cpu")
    b = BackendRequirements(
        devices=[im.Device("numpy:cpu")], dtypes=(im.float32,), ops=["softmax"], engines=["numpy"], kinds=["cpu"]
    )
    assert a == b
    assert a.but(min_dims=3) == BackendRequirements(
        devices="numpy", dtypes="float32", ops="softmax", engines="numpy", kinds="cpu", min_dims=3
    )


@pytest.mark.parametrize(
    ("needs", "error", "text"),
    [
        ({"dtype": "float32"}, im.ArgumentError, "no requirement 'dtype'. The requirements are devices, engines, kinds, dtypes"),
        ({"dtypes": "float31"}, im.DTypeError, "'float31' is not a dtype"),
        ({"ops": "matmull"}, im.InvalidValueError, "no op 'matmull'"),
        ({"ops": "linalg.softmax"}, im.InvalidValueError, "no op 'linalg.softmax'"),
        ({"devices": "GPU"}, im.DeviceError, "'GPU' is not a device"),
        ({"min_dims": -1}, im.InvalidValueError, "min_dims is -1"),
        ({"min_free_memory": 1.5}, im.InvalidValueError, "min_free_memory is 1.5"),
    ],
)
def test_a_wrong_requirement_is_refused_where_it_is_written(needs: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        BackendRequirements(**needs)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("needs", "reason"),
    [
        ({"devices": "torch:cuda"}, "it is not torch:cuda:0"),
        ({"engines": ["torch", "jax"]}, "its engine is not torch or jax"),
        ({"kinds": "cuda"}, "its kind is cpu, not cuda"),
        ({"dtypes": "int4"}, "it does not compute with int4: add: numpy:cpu only stores int4"),
        ({"dtypes": "uint64"}, "uint64 was not probed"),
        ({"ops": "bitwise_and", "dtypes": "float32"}, "bitwise_and takes none of float32, on any device"),
        ({"ops": "cos"}, "cos was not probed"),
        ({"min_dims": 65}, "65 axes of a tensor are required, and its limit is 64"),
        ({"min_batch_size": 9}, "9 examples in a batch are required, and its limit is 8"),
        ({"min_sequence_length": 17}, "17 elements in a sequence are required, and its limit is 16"),
        ({"min_free_memory": 1001}, "1001 bytes must be free, and 1000 are"),
        ({"flash_attention": True}, "it has no flash attention of its own"),
        ({"paged_attention": True}, "it has no paged attention of its own"),
        ({"extra": {"level": 8}}, "level must be at least 8, and is 7"),
        ({"extra": {"colour": "red"}}, "colour must be 'red', and is not told"),
        ({"extra": {"fused": True}}, "fused must be True, and is False"),
    ],
)
def test_every_requirement_is_checked(needs: dict[str, Any], reason: str, make: Make) -> None:
    probed = im.probe("numpy:cpu", dtypes=["float32", "int4"], ops=["sin", "bitwise_and"])
    found = im.BackendCapabilities(
        device=probed.device, usage=probed.usage, ops=probed.ops, reasons=probed.reasons, max_tensor_dims=64, max_batch_size=8,
        max_sequence_length=16, memory=MemoryInfo(2000, 1000), extra_capabilities={"level": 7, "fused": False},
    )  # fmt: skip
    assert len(found.unmet(BackendRequirements(**needs))) == 1
    assert found.unmet(BackendRequirements(**needs))[0].startswith(reason)
    assert not found.meets_requirements(BackendRequirements(**needs))
    met = BackendRequirements(
        devices="numpy", engines="numpy", kinds="cpu", dtypes="float32", ops="sin", min_dims=64, min_batch_size=8,
        min_sequence_length=16, min_free_memory=1000, extra={"level": 6.5, "fused": False},
    )  # fmt: skip
    assert found.unmet(met) == ()
    assert found.meets_requirements(NONE)


def test_all_that_is_unmet_is_listed_not_only_the_first() -> None:
    found = im.probe("numpy:cpu", dtypes=["int4"])
    wanted = BackendRequirements(
        kinds="cuda", dtypes=["int4", "uint4"], min_dims=99, flash_attention=True, extra={"a": 1, "b": 2}
    )
    assert len(found.unmet(wanted)) == 7


def test_free_memory_that_nobody_can_tell_is_not_taken_for_enough() -> None:
    unknown = im.BackendCapabilities(device=im.Device("numpy:cpu"))
    assert unknown.unmet(BackendRequirements(min_free_memory=1)) == (
        "1 bytes must be free, and the engine cannot tell how many are",
    )


def test_a_dtype_that_is_not_stored_comes_with_the_engines_advice(make: Make) -> None:
    narrow = make(
        "narrow",
        dtype_usage=lambda self, device, dtype: DTypeUsage.NONE if dtype is im.float64 else DTypeUsage.GENERAL,
        advice=lambda self, device, dtype: "Turn wide dtypes on.",
    )
    assert im.probe(narrow, dtypes=["float64"]).reasons == {im.float64: "narrow:cpu does not store it. Turn wide dtypes on"}
