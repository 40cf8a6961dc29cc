from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import intermodal as im
from intermodal import BackendRequirements, DTypeUsage
from intermodal.engines.numpy.natives import NATIVES

from .made import Make
from .plugins import GOOD, Site

PLAIN = lambda self, device, dtype: DTypeUsage.GENERAL  # noqa: E731  # a member of a class made from a dictionary
FAST = lambda self, device, dtype: DTypeUsage.GENERAL | DTypeUsage.ACCELERATED  # noqa: E731


def fails(*_: object, **__: object) -> Any:
    raise RuntimeError("the unit is on fire")


def order(choice: im.Choice) -> list[str]:
    return [str(c.device) for c in choice.candidates if c.fits]


def test_an_accelerator_comes_before_the_cpu(make: Make) -> None:
    make("slow"), make("quick", "gpu")
    assert order(im.best(engines=["slow", "quick", "numpy"])) == ["quick:gpu:0", "numpy:cpu", "slow:cpu"]


def test_an_engine_without_kinds_says_itself_whether_it_is_an_accelerator(make: Make) -> None:
    make("portable", "gpu", features=lambda self, device: {"accelerator": False})
    assert order(im.best(engines=["portable", "numpy"])) == ["numpy:cpu", "portable:gpu:0"]


def test_an_accelerated_dtype_comes_before_a_merely_computed_one(make: Make) -> None:
    make("aplain", dtype_usage=PLAIN), make("fast", dtype_usage=FAST)
    choice = im.best(dtypes=["float32", "bfloat16"], engines=["aplain", "numpy", "fast"])
    assert order(choice) == ["fast:cpu", "numpy:cpu", "aplain:cpu"]
    assert [c.merits[1] for c in choice.candidates] == [
        "accelerates 2 of 2 dtypes",
        "accelerates 1 of 2 dtypes",
        "accelerates 0 of 2 dtypes",
    ]


def test_acceleration_that_is_only_claimed_does_not_count(make: Make) -> None:
    make("boaster", dtype_usage=FAST, natives={name: f for name, f in NATIVES.items() if name != "matmul"} | {"matmul": fails})
    make("modest", dtype_usage=PLAIN)
    choice = im.best(dtypes="float32", engines=["boaster", "modest"])
    assert [c.merits[1] for c in choice.candidates] == ["accelerates 0 of 1 dtypes"] * 2


def test_ops_that_an_engine_has_itself_count_before_the_order_of_engines(make: Make) -> None:
    make("rich", dtype_usage=PLAIN)
    make("poor", dtype_usage=PLAIN, natives={n: f for n, f in NATIVES.items() if n != "softmax"})
    choice = im.best(ops=["nn.softmax", "sin"], dtypes="float64", engines=["poor", "rich"])
    assert order(choice) == ["rich:cpu", "poor:cpu"]
    assert choice.candidates[1].merits[-1] == "has 1 of 2 ops itself"


def test_at_last_the_fixed_order_of_engines_decides_then_their_names(make: Make) -> None:
    make("zebra"), make("ant")
    assert order(im.best(engines=["zebra", "numpy", "ant"])) == ["numpy:cpu", "ant:cpu", "zebra:cpu"]


def test_the_devices_of_an_engine_stay_in_its_own_order(make: Make) -> None:
    there = tuple(im.Device(f"many:gpu:{i}") for i in (1, 0))
    make("many", devices=lambda self: there)
    assert order(im.best(engines="many")) == ["many:gpu:1", "many:gpu:0"]


def test_a_device_that_is_listed_but_does_not_work_is_refused(make: Make) -> None:
    make("dead", "gpu", natives={**NATIVES, "add": fails})
    choice = im.best(engines=["dead", "numpy"])
    assert choice.device == "numpy:cpu"
    assert "it does not compute with float32" in choice.candidates[1].unmet[0]
    assert "the unit is on fire" in str(choice)


def test_every_reason_of_every_candidate_is_in_the_error(make: Make) -> None:
    make("small", features=lambda self, device: {"max_batch_size": 4})
    with pytest.raises(im.NoSuitableDeviceError) as caught:
        im.best(dtypes=["float32", "int4"], min_batch_size=8, kinds="cuda", engines=["small", "numpy", "nowhere"])
    lines = str(caught.value).splitlines()
    assert lines[0] == (
        "no device meets BackendRequirements(engines=small+numpy+nowhere, kinds=cuda, dtypes=float32+int4, min_batch_size=8):"
    )
    assert lines[1].startswith("  small:cpu: refused: its kind is cpu, not cuda; it does not compute with int4")
    assert lines[1].endswith("8 examples in a batch are required, and its limit is 4")
    assert "limit" not in lines[2]
    assert lines[3].startswith("  nowhere: refused: there is no engine 'nowhere'")


def test_an_explicit_device_is_kept_although_another_would_be_better(make: Make) -> None:
    make("quick", "gpu")
    choice = im.best(devices="numpy:cpu", dtypes="float32")
    assert choice.device == "numpy:cpu"
    assert [c.device for c in choice.candidates] == ["numpy:cpu"]


@pytest.mark.parametrize("device", ["numpy:cpu", "numpy:gpu", "nowhere:cpu", "meta:cpu"])
def test_an_explicit_device_that_does_not_fit_raises_with_all_reasons(device: str, make: Make) -> None:
    make("quick", "gpu", dtype_usage=FAST)
    with pytest.raises(im.NoSuitableDeviceError, match="was asked for and does not meet") as caught:
        im.best(devices=device, dtypes=["int4", "uint4"])
    if device == "numpy:cpu":
        assert "compute with int4" in str(caught.value)
        assert "compute with uint4" in str(caught.value)


def test_of_several_explicit_devices_the_first_is_chosen_and_all_must_fit(make: Make) -> None:
    make("quick", "gpu"), make("dead", natives={**NATIVES, "add": fails})
    assert im.best(devices=["numpy", "quick:gpu"]).device == "numpy:cpu"
    assert order(im.best(devices=["numpy", "quick:gpu"])) == ["numpy:cpu", "quick:gpu:0"]
    with pytest.raises(im.NoSuitableDeviceError, match="dead:cpu was asked for"):
        im.best(devices=["numpy", "dead"])


def test_requirements_and_keywords_are_joined_and_the_keyword_counts() -> None:
    wanted = BackendRequirements(engines="numpy", dtypes="int4")
    assert im.best(wanted, dtypes="float32").requirements == BackendRequirements(engines="numpy", dtypes="float32")


def test_an_op_without_dtypes_must_run_with_one_that_it_takes(make: Make) -> None:
    make("nosin", natives={**NATIVES, "sin": fails, "bitwise_and": fails})
    choice = im.best(ops=["sin", "bitwise_and"], engines=["numpy", "nosin"])
    assert order(choice) == ["numpy:cpu"]
    assert [r.partition(":")[0] for r in choice.candidates[1].unmet] == [
        "sin does not run, with float32 for example",
        "bitwise_and does not run, with int64 for example",
    ]


def test_the_chosen_device_can_be_used_and_its_capabilities_read() -> None:
    choice = im.best(dtypes="float64", engines="numpy")
    with im.config.scope(device=choice.device):
        assert im.ones(2).device == choice.device
    assert choice.capabilities.supported_dtypes == (im.float64,)


@pytest.mark.parametrize("member", ["devices", "name", "features", "memory_info", "dtype_usage"])
def test_an_engine_that_fails_while_it_is_asked_is_refused_and_stops_nothing(member: str, make: Make) -> None:
    make("shaky", **{member: fails})
    choice = im.best(engines=["shaky", "numpy"])
    assert choice.device == "numpy:cpu"
    assert "the unit is on fire" in choice.candidates[1].unmet[0]


def test_an_engine_without_devices_is_listed(make: Make) -> None:
    make("empty", devices=lambda self: ())
    assert str(im.best(engines=["empty", "numpy"]).candidates[1]) == "empty: refused: it has no devices here"


def test_of_all_installed_engines_the_broken_are_refused_with_what_mends_them(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.install("bad-engine", "bad = bad_module:Bad", bad_module="import no_such_library")
    site.install("good-engine", "good = good_module:GoodBackend", good_module=GOOD.format(name="Good", engine="good"))
    out = site.run("import intermodal as im\nprint(im.best(engines=['bad', 'good', 'numpy']))")
    assert out.splitlines()[0] == "numpy:cpu"
    assert "  good:cpu: on the CPU" in out
    assert "  bad: refused: the engine 'bad' cannot be loaded" in out
    assert "pip install --upgrade bad-engine" in out
