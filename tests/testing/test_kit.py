"""The kit itself: samples of every op, the registry, reports, the command."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit_engines import engine, with_natives

import intermodal as im
from intermodal import Tensor, backend
from intermodal.engines.numpy.natives import NATIVES
from intermodal.errors import DTypeError, UnsupportedError
from intermodal.ops import TABLE
from intermodal.testing import Draw, Sample, call, case, cases, replay, run, runner, sample
from intermodal.testing.__main__ import main
from intermodal.testing.calls import arrays_in, decomposed, layouts_of, on
from intermodal.testing.checks import Reference
from intermodal.testing.samples import has_sample


@pytest.fixture
def plugin_op() -> Iterator[str]:
    """An op that a plugin adds, whose signature does not say what to call it with."""

    @im.op(name="plugin_scaled")
    def plugin_scaled(x: Tensor, /, *, by: float) -> Tensor:
        """The tensor times a number."""
        return x * by

    yield "plugin_scaled"
    TABLE.remove("plugin_scaled")


def test_the_numpy_engine_conforms() -> None:
    report = run("numpy", quick=True)
    assert report.ok, str(report)
    assert report.ops == len(TABLE)
    assert report.seconds < 60  # under 20 on an idle machine; the kit must stay usable on a busy one


def test_the_example_engine_conforms() -> None:
    example = Path(__file__).parents[2] / "examples" / "smallest_engine.py"
    backend.register("smallest", runpy.run_path(str(example))["SmallestBackend"])
    try:
        report = run("smallest", quick=True)
    finally:
        backend.unregister("smallest")
    assert report.ok, str(report)


def test_every_op_of_the_table_has_a_sample() -> None:
    assert [row.qualified_name for row in TABLE.values() if not has_sample(row)] == []


@pytest.mark.parametrize("family", sorted({row.family for row in TABLE.values()}))
def test_a_sample_raises_only_what_it_says_or_that_the_op_does_not_take_the_dtype(family: str) -> None:
    wrong = []
    with np.errstate(all="ignore"):
        for row in [r for r in TABLE.values() if r.family == family]:
            for dtype in (im.float32, im.int64, im.bool, im.complex64):
                for i, given in enumerate(cases(row, dtype)):
                    error = Reference(row, given).error
                    expected = given.raises or (type(None), DTypeError, UnsupportedError)
                    if not isinstance(error, expected):
                        wrong.append((row.name, str(dtype), i, error))
    assert wrong == []


def test_samples_follow_from_the_seed_alone() -> None:
    row = TABLE["matmul"]
    first, again, other = (cases(row, im.float32, seed) for seed in (0, 0, 1))
    for a, b in zip(first, again, strict=True):
        assert all(x.tobytes() == y.tobytes() for x, y in zip(arrays_in(a), arrays_in(b), strict=True))
    assert arrays_in(first[0])[0].tobytes() != arrays_in(other[0])[0].tobytes()
    np.testing.assert_array_equal(arrays_in(case("matmul", "float32", 2))[0], arrays_in(first[2])[0])


def test_a_case_that_is_not_there_is_refused() -> None:
    with pytest.raises(im.InvalidValueError, match="so 999 is no index"):
        case("add", "float32", 999)


# The layouts that an engine's memory can have: PyTorch has no negative strides, JAX only C order.
LAYOUTS = {"numpy": ("reversed", "strided"), "torch": ("strided",)}


@pytest.mark.parametrize("layout", ["plain", "reversed", "strided"])
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 0, 3), (2, 3, 4)])
def test_a_layout_changes_the_memory_and_not_the_values(device: im.Device, layout: str, shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    (tensor,), _ = on(TABLE["exp"], call(x), device, layout)
    np.testing.assert_array_equal(tensor.numpy(), x)
    if layout in LAYOUTS.get(device.engine, ()) and x.size > 1:
        assert tensor.numpy().strides != x.strides


def test_the_kit_tries_the_layouts_that_the_memory_of_a_device_can_have(device: im.Device) -> None:
    assert layouts_of(device) == ("plain", *LAYOUTS.get(device.engine, ()))


def in_c_order(name: str) -> Any:
    return lambda *arrays, **attrs: np.array(NATIVES[name](*arrays, **attrs), order="C")


def test_an_engine_that_keeps_its_arrays_in_c_order_is_tested_in_one_layout() -> None:
    turning = {name: in_c_order(name) for name in ("basic_index", "permute_dims")}
    with engine("orderly", **with_natives(**turning)) as device:
        once = run(device, ops=["exp"], dtypes=["float32"]).total
    thrice = run("numpy", ops=["exp"], dtypes=["float32"]).total
    assert once.failed == 0
    assert once.passed < thrice.passed


def test_an_engine_that_does_not_show_its_memory_or_cannot_turn_is_tested_in_all_layouts() -> None:
    with engine("closed", host_view=lambda self, array: None) as device:
        assert layouts_of(device) == ("plain", "reversed", "strided")
    with engine("unturned", **with_natives(basic_index=lambda x, key: x[None, None, 5])) as device:
        assert layouts_of(device) == ("plain", "reversed", "strided")


def test_an_engine_is_asked_to_give_back_what_it_keeps_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[im.Device] = []
    with engine("keeping", memory_cleanup=lambda self, device: asked.append(device)) as device:
        run(device, ops=["exp"], dtypes=["float32"])
        assert asked == []  # it has taken no time yet
        monkeypatch.setattr(runner, "REST", 0.0)
        run(device, ops=["exp"], dtypes=["float32"])
        assert asked == [device] * len(cases(TABLE["exp"], im.float32))


def test_inside_decomposed_an_op_runs_without_its_native_and_afterwards_with_it(device: im.Device) -> None:
    calls: list[str] = []

    def counted(x: Any) -> Any:
        calls.append("native")
        return np.log2(x)

    with engine("counting", **with_natives(log2=counted)) as counting:
        x = im.asarray([2.0, 8.0], device=counting)
        with decomposed(TABLE["log2"], counting):
            np.testing.assert_allclose(im.log2(x).numpy(), [1, 3], rtol=1e-6)
        assert calls == []
        im.log2(x)
        assert calls == ["native"]


# --- samples of plugins ------------------------------------------------------------------------------------------


def test_an_op_without_a_sample_fails_the_report(plugin_op: str) -> None:
    report = run("numpy", ops=[plugin_op], quick=True)
    assert not report.ok
    assert report.without_sample == [plugin_op]
    assert "no sample: its signature plugin_scaled(x, /, *, by)" in report.failures[0].message


def test_a_registered_sample_makes_an_op_testable(plugin_op: str) -> None:
    from intermodal.testing import samples

    @sample(plugin_op)
    def scaled_samples(draw: Draw) -> list[Sample]:
        return [call(draw.array(3, 4), by=2.0), call(draw.array(0), by=0.5)]

    try:
        report = run("numpy", ops=[plugin_op])
    finally:
        del samples._generators[plugin_op]
    assert report.ok, str(report)
    assert report.total.passed > 20


def test_an_op_whose_signature_says_enough_needs_no_sample() -> None:
    @im.op()
    def plugin_softer(x: Tensor, y: Tensor, /, *, slope: float = 0.5) -> Tensor:
        """A sum with a slope."""
        return x * slope + y

    try:
        report = run("numpy", ops=["plugin_softer"], quick=True)
    finally:
        TABLE.remove("plugin_softer")
    assert report.ok, str(report)


def test_an_op_of_which_no_sample_computes_fails_the_report(plugin_op: str) -> None:
    from intermodal.testing import samples

    sample(plugin_op)(lambda draw: [call(draw.array(3, 4))])  # without the attribute that it needs
    try:
        report = run("numpy", ops=[plugin_op])
    finally:
        del samples._generators[plugin_op]
    assert any("no sample of it computes" in f.message for f in report.failures)


def test_a_sample_that_must_raise_and_does_not_fails_the_report(plugin_op: str) -> None:
    from intermodal.testing import samples

    sample(plugin_op)(lambda draw: [call(draw.array(3), by=2.0), call(draw.array(3), by=1.0).but(raises=im.ShapeError)])
    try:
        report = run("numpy", ops=[plugin_op], dtypes=["float32"])
    finally:
        del samples._generators[plugin_op]
    assert [f.message for f in report.failures] == ["gave a result, but ShapeError must be raised"]


# --- reports -----------------------------------------------------------------------------------------------------


def test_a_report_counts_by_family_and_dtype_and_lists_failures() -> None:
    with engine("broken", **with_natives(exp=lambda x: np.exp(x) + 1)) as device:
        report = run(device, ops=["exp", "sum"], dtypes=["float32", "float8_e5m2"])
    text = str(report)
    assert text.startswith("broken:cpu (NumPy ")
    assert "2 ops" in text.splitlines()[0]
    header = next(line for line in text.splitlines() if "elementwise" in line)
    assert header.split() == ["elementwise", "reduction"]
    assert "exp [values] float32:" in text
    assert "the device does not compute with float8_e5m2" in text
    assert text.endswith("the engine does not conform.")
    assert report.counts["elementwise", "float32"].failed > 2
    assert f"exp [values]: {report.counts['elementwise', 'float32'].failed - 2} more" in text


def test_the_machine_form_has_everything() -> None:
    with engine("broken", **with_natives(exp=lambda x: np.exp(x) + 1)) as device:
        report = run(device, ops=["exp"], dtypes=["float32", "bool"])
    found = json.loads(report.to_json())
    assert found["ok"] is False
    assert found["total"] == {"passed": report.total.passed, "failed": len(found["failures"]), "unsupported": 0}
    assert found["families"]["elementwise"]["float32"]["failed"] == len(found["failures"])
    assert set(found["failures"][0]) == {"op", "dtype", "check", "message", "call"}


def test_progress_is_told_for_every_op() -> None:
    told: list[tuple[int, int, str]] = []
    run("numpy", ops=["add", "linalg.det"], dtypes=["float32"], quick=True, progress=lambda *step: told.append(step))
    assert told == [(0, 2, "add"), (1, 2, "linalg.det")]


def test_replay_runs_a_sample_again() -> None:
    given = case("add", "float32", 0)
    np.testing.assert_array_equal(replay("add", "float32", 0, "numpy:cpu").numpy(), given.args[0] + given.args[1])


# --- the command -------------------------------------------------------------------------------------------------


def test_the_command_answers_with_an_exit_code_and_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["numpy", "--ops", "add, exp", "--quick"]) == 0
    assert "the engine conforms." in capsys.readouterr().out
    with engine("broken", **with_natives(exp=lambda x: np.exp(x) + 1)):
        assert main(["broken:cpu", "--ops", "exp", "--dtypes", "float32", "--json", "--seed", "3"]) == 1
        found = json.loads(capsys.readouterr().out)
    assert found["seed"] == 3
    assert found["failures"][0]["op"] == "exp"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "there is no engine 'nowhere'"),
        (["numpy:gpu"], "there is no device numpy:gpu"),
        (["meta"], "nothing to compare"),
        (["numpy", "--ops", "sine"], "there is no op 'sine'"),
        (["numpy", "--dtypes", "float7"], "'float7' is not a dtype"),
    ],
)
def test_the_command_refuses_what_it_cannot_test(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


def test_progress_is_shown_on_a_terminal_only(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    main(["numpy", "--ops", "add", "--dtypes", "bool"])
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    main(["numpy", "--ops", "add", "--dtypes", "bool"])
    assert "[0/1] add" in capsys.readouterr().err


def test_the_kit_runs_as_a_module_and_needs_numpy_only() -> None:
    program = "import sys, intermodal.testing.__main__ as m; code = m.main(['numpy', '--ops', 'add', '--quick']); print(*sorted({n.partition('.')[0] for n in sys.modules})); sys.exit(code)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    third_party = {m for m in loaded if m not in sys.stdlib_module_names and not m.startswith("_")}
    assert third_party <= {"intermodal", "numpy", "ml_dtypes", "sitecustomize", "cython_runtime"}
    asked = subprocess.run([sys.executable, "-m", "intermodal.testing", "--help"], capture_output=True, text=True, check=True)
    assert "ENGINE_OR_DEVICE" in asked.stdout
