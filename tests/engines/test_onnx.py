from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import intermodal as im
from intermodal.backend import DTypeUsage, backend_of
from intermodal.ops import TABLE

ort = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

from intermodal.engines.onnx import builder, host, kernels, lowering, memory, running, sessions  # noqa: E402  # after the libraries that they need

CPU = im.Device("onnx:cpu")


@pytest.fixture(autouse=True)
def _on_onnx() -> Any:
    with im.config.scope(device=CPU):
        yield


@pytest.fixture
def backend() -> Any:
    return backend_of("onnx")


def answer(program: str, **environment: str) -> Any:
    """What a program prints as JSON in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


# --- sessions ----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_a_hundred_sessions_bring_no_threads() -> None:
    program = """
import json, os, intermodal as im
from intermodal.engines.onnx.running import SESSIONS
def threads(): return len(os.listdir("/proc/self/task"))
x = im.ones((4, 4), device="onnx:cpu")
x + x
before = threads()
for k in range(-50, 50):
    im.tril(x, k=k)
print(json.dumps([SESSIONS.built, threads() - before]))
"""
    built, more = answer(program)
    assert built > 100
    assert more == 0


def test_one_thread_leaves_the_users_own_sessions_alone() -> None:
    program = """
import json, os, numpy as np, intermodal as im
x = im.ones((4, 4), device="onnx:cpu") @ im.ones((4, 4), device="onnx:cpu")
import onnxruntime as ort
from onnx import helper
value = helper.make_tensor_value_info
graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [value("x", 1, [1])], [value("y", 1, [1])])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10).SerializeToString()
try:
    print(json.dumps(ort.InferenceSession(model).run(None, {"x": np.ones(1, np.float32)})[0].tolist()))
except RuntimeError as error:
    print(json.dumps("use_per_session_threads must be false" in str(error)))
"""
    assert answer(program, INTERMODAL_ONNX_THREADS="1") == [-1.0]
    assert answer(program, INTERMODAL_ONNX_THREADS="2") is True  # what the page on the engine tells


def test_other_sizes_take_the_same_session() -> None:
    im.ones((2, 3)) + im.ones((2, 3))
    built = running.SESSIONS.built
    for n in range(4, 9):
        assert (im.ones((n, 3)) + im.ones((1, 3))).shape == (n, 3)
        assert im.sort(im.ones((1, n))).shape == (1, n)
    assert running.SESSIONS.built <= built + 1  # that of the sort


def test_the_setting_bounds_what_is_kept() -> None:
    x = im.ones((3, 3))
    im.memory_cleanup(CPU)
    with im.config.scope(onnx_sessions=5):
        for k in range(-10, 10):
            im.tril(x, k=k)
    assert len(running.SESSIONS) == 5
    with im.config.scope(onnx_sessions=0):
        im.triu(x)
    assert len(running.SESSIONS) == 0


def test_attributes_that_are_equal_and_differ_in_type_or_sign_are_told_apart() -> None:
    from intermodal.engines.onnx.sessions import frozen

    assert len({frozen(v) for v in (1, 1.0, True, "1", (1,), (1.0,))}) == 6
    assert frozen(0.0) != frozen(-0.0)
    assert frozen(float("nan")) == frozen(float("nan"))
    assert frozen((slice(0, 2, 1), None)) == frozen((slice(0, 2, 1), None))


def test_the_import_waits_for_the_first_use() -> None:
    program = "import json, sys, intermodal; print(json.dumps([m for m in ('onnx', 'onnxruntime') if m in sys.modules]))"
    assert answer(program) == []


# --- memory ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [d for d in im.dtypes.ALL if d.bits > 4 and not d.is_complex], ids=str)
def test_memory_is_shared_with_numpy_both_ways(backend: Any, dtype: im.DType) -> None:
    data = np.zeros((2, 3), dtype.numpy)
    array = backend.from_host(data, CPU, copy=False)
    assert array.data_ptr() == data.ctypes.data
    assert np.shares_memory(backend.to_host(array), data)


def test_what_numpy_sees_outlives_the_tensor(backend: Any) -> None:
    seen = (im.ones((1000, 100)) + 1.0).numpy()
    np.full((1000, 100), 7.0, np.float32)
    assert (seen == 2).all()


def test_an_ortvalue_of_the_users_is_taken_as_it_is() -> None:
    value = ort.OrtValue.ortvalue_from_numpy(np.arange(3, dtype=np.int32))
    x = im.asarray(value)
    assert (x.device, x.dtype, x.tolist()) == ("onnx:cpu", im.int32, [0, 1, 2])
    assert x._data.data_ptr() == value.data_ptr()


def test_dlpack_keeps_bools_bools() -> None:
    assert np.from_dlpack(im.asarray([True, False])).dtype == bool


def test_four_bits_are_packed_and_come_back(backend: Any) -> None:
    data = np.arange(-8, 7).astype(im.int4.numpy).reshape(3, 5)
    array = backend.from_host(data, CPU)
    assert array.dtype is im.int4
    assert (backend.to_host(array) == data).all()
    with pytest.raises(im.CopyRequiredError, match="another form"):
        backend.from_host(data, CPU, copy=False)


# --- dtypes ------------------------------------------------------------------------------------------------------


def test_complex_numbers_are_refused_with_advice(backend: Any) -> None:
    assert backend.dtype_usage(CPU, im.complex64) is DTypeUsage.NONE
    with pytest.raises(im.UnsupportedError, match="no complex numbers"):
        im.asarray([1j])


def test_the_table_of_kernels_is_what_onnx_runtime_has() -> None:
    there: dict[str, set[str]] = {}
    for kernel in ort.capi.onnxruntime_pybind11_state.get_all_opkernel_def():
        low, high = kernel.version_range
        if (kernel.provider, kernel.domain) == ("CPUExecutionProvider", "") and low <= builder.OPSET <= high:
            for types in kernel.type_constraints.values():
                there.setdefault(kernel.op_name, set()).update(types)
    names = {"float": "float32", "double": "float64", "float8e4m3fn": "float8_e4m3fn", "float8e5m2": "float8_e5m2"}
    for operator, ours in kernels.KERNELS.items():
        found = {names.get(t[7:-1], t[7:-1]) for t in there[operator]}
        assert {d.name for d in ours} <= found, operator


def test_every_dtype_that_computes_has_a_way_through_every_operator_of_numbers() -> None:
    computing = [d for d in im.dtypes.ALL if not d.is_complex and d.bits > 8 and d.is_floating and d is not im.float64]
    for operator in kernels.KERNELS:
        if operator not in ("And", "Or", "Not", "Xor", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"):
            assert all(kernels.route(operator, d) for d in computing), operator


@pytest.mark.parametrize("dtype", [im.int8, im.int16, im.int32, im.int64], ids=str)
def test_the_quotient_that_does_not_fit_wraps_and_by_zero_is_zero(dtype: im.DType) -> None:
    low = np.iinfo(dtype.numpy).min
    x = im.asarray(np.asarray([low, low, 7], dtype.numpy))
    y = im.asarray(np.asarray([-1, 0, -2], dtype.numpy))
    assert (x // y).tolist() == [low, 0, -4]
    assert (x % y).tolist() == [0, 0, -1]


def test_large_unsigned_integers_keep_their_order_and_their_sums() -> None:
    x = im.asarray(np.asarray([2**63 + 5, 3, 2**64 - 1], np.uint64))
    assert im.sort(x).tolist() == [3, 2**63 + 5, 2**64 - 1]
    assert int(im.max(x)) == 2**64 - 1
    assert int(im.argmin(x)) == 1
    assert int(im.sum(x)) == (2**63 + 5 + 3 + 2**64 - 1) % 2**64


def test_nan_is_found_and_kept() -> None:
    x = im.asarray([1.0, float("nan"), 3.0])
    assert np.isnan(im.max(x).numpy())
    assert int(im.argmax(x)) == int(im.argmin(x)) == 1
    assert im.sort(x).tolist()[:2] == [1.0, 3.0]
    assert im.argsort(x, descending=True).tolist() == [1, 2, 0]


# --- lowerings ---------------------------------------------------------------------------------------------------


def test_every_primitive_is_lowered_or_on_the_list_of_the_host() -> None:
    owed = {name for name, row in TABLE.items() if row.is_primitive} - set(lowering.LOWERINGS)
    assert owed <= set(host.HOST)
    assert set(lowering.LOWERINGS) <= set(TABLE)
    assert not set(host.MOVES) & set(host.HOST)


def test_a_model_of_several_ops_passes_the_checker_and_runs() -> None:
    g = builder.Builder()
    x, w = g.input("x", im.float32, ("batch", 3)), g.input("w", im.float32, (3, 2))
    (y,) = lowering.lower(g, TABLE["matmul"], [x, w], {}, [("batch", 2)])
    (z,) = lowering.lower(g, TABLE["sum"], [y], {"axis": (1,), "dtype": im.float32, "keepdims": False}, [("batch",)])
    model = g.model([y, z], names=["y", "z"])
    onnx.checker.check_model(model, full_check=True)
    session = sessions.Session(model, CPU)
    for batch in (1, 4):
        a, b = np.ones((batch, 3), np.float32), np.full((3, 2), 2.0, np.float32)
        found = session.run([memory.enter(a), memory.enter(b)])
        assert session.outputs == ["y", "z"]
        assert (memory.host(found[0]) == a @ b).all()
        assert (memory.host(found[1]) == (a @ b).sum(1)).all()


def test_sizes_that_are_names_are_refused_where_numbers_are_needed() -> None:
    g = builder.Builder()
    x = g.input("x", im.float32, ("n",))
    with pytest.raises(im.UnsupportedError, match="needs its sizes as numbers"):
        lowering.lower(g, TABLE["cumulative_max"], [x], {"axis": 0})


def test_an_index_outside_its_axis_is_refused() -> None:
    x = im.asarray([1.0, 2.0, 3.0])
    with pytest.raises(
        im.IndexRangeError, match=r"take: index 3 is out of range for axis 0 of size 3. It must lie in \[-3, 2\]."
    ):
        im.take(x, im.asarray([3]))
    with pytest.raises(im.IndexRangeError, match="take_along_axis"):
        im.take_along_axis(x, im.asarray(np.asarray([2**64 - 1], np.uint64)))


def test_padding_beyond_what_onnx_runtime_takes_is_written_out() -> None:
    x = im.asarray(np.arange(12.0, dtype=np.float32).reshape(1, 1, 3, 4))
    w = im.ones((1, 1, 2, 2))
    for call in (
        lambda x, w: im.nn.max_pool2d(x, kernel_size=2, stride=1, dilation=2, padding=2),
        lambda x, w: im.nn.conv_transpose2d(x, w, im.ones(1, device=x.device), padding=1, output_padding=2, dilation=3),
    ):
        assert call(x, w).tolist() == call(x.to("numpy:cpu"), w.to("numpy:cpu")).tolist()


def test_arrays_that_were_pickled_come_in() -> None:
    x = im.asarray([1, 2])
    assert pickle.loads(pickle.dumps(x)).tolist() == [1, 2]


def test_another_session_is_not_built_for_a_part_elsewhere() -> None:
    x = im.arange(100)
    x[0]
    built = running.SESSIONS.built
    assert [int(x[i]) for i in range(100)] == list(range(100))
    assert running.SESSIONS.built == built


@pytest.mark.parametrize(
    "key", [(1,), (-1, ...), (slice(None, None, -1), 2), (None, slice(5, 0, -2)), (..., slice(1, 3)), ()], ids=str
)
def test_the_lowering_of_a_part_means_what_the_host_does(key: Any) -> None:
    data = np.arange(24, dtype=np.float32).reshape(4, 6)
    g = builder.Builder()
    (y,) = lowering.lower(g, TABLE["basic_index"], [g.input("x", im.float32, ("n", "m"))], {"key": key})
    (found,) = sessions.Session(g.model([y]), CPU).run([memory.enter(data)])
    assert (memory.host(found) == data[key]).all()
    g = builder.Builder()
    operands = [g.input("x", im.float32, (4, 6)), g.input("v", im.float32, ())]
    (z,) = lowering.lower(g, TABLE["basic_put"], operands, {"key": key, "mode": "add"})
    (found,) = sessions.Session(g.model([z]), CPU).run([memory.enter(data), memory.enter(np.asarray(3, np.float32))])
    want = data.copy()
    want[key] += 3
    assert (memory.host(found) == want).all()
