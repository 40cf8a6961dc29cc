from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

import intermodal as im
from intermodal import dtypes
from intermodal.engines.numpy import memory

EXCHANGED = [d for d in dtypes.STANDARD if d.name != "bool"] + [im.bool, im.float16]


@pytest.mark.parametrize("dtype", EXCHANGED, ids=str)
def test_numpy_reads_a_tensor_by_dlpack_without_a_copy(dtype: im.DType) -> None:
    x = im.asarray(np.array([[0, 1], [1, 0]]).astype(dtype.numpy))
    a = np.from_dlpack(x)
    assert a.dtype == dtype.numpy
    assert np.shares_memory(a, x.numpy())


@pytest.mark.parametrize("dtype", EXCHANGED, ids=str)
def test_a_tensor_reads_numpy_by_dlpack_without_a_copy(dtype: im.DType) -> None:
    a = np.array([[0, 1], [1, 0]]).astype(dtype.numpy)
    x = im.from_dlpack(a)
    assert x.dtype is dtype
    assert np.shares_memory(a, x.numpy())
    assert not np.shares_memory(a, im.from_dlpack(a, copy=True).numpy())


@given(hnp.arrays(np.int32, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)), st.data())
def test_strided_views_survive_dlpack(a: np.ndarray, data: st.DataObject) -> None:
    key = data.draw(hnp.basic_indices(a.shape))
    view = np.asarray(a[key])
    np.testing.assert_array_equal(im.from_dlpack(view).numpy(), view)
    np.testing.assert_array_equal(np.from_dlpack(im.asarray(view)), view)


def test_dlpack_honours_version_device_and_copy() -> None:
    x = im.asarray([1.0, 2.0])
    assert x.__dlpack_device__() == (1, 0)
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0)))
    assert "dltensor_versioned" not in repr(x.__dlpack__())
    assert "dltensor" in repr(x.__dlpack__(dl_device=(1, 0), copy=True, max_version=(1, 0)))
    with pytest.raises(im.ExchangeError, match="unsupported device"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(im.ExchangeError, match="stream=None"):
        x.__dlpack__(stream=1)
    with pytest.raises(im.ExchangeError, match=r"bfloat16 array.*\.numpy\(\)"):
        im.ones(2, dtype="bfloat16").__dlpack__()


def test_a_producer_elsewhere_is_refused_with_its_device() -> None:
    class OnGpu:
        def __dlpack__(self, **_: object) -> object:
            raise AssertionError("must not be called")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    with pytest.raises(im.DeviceMismatchError, match=r"DLPack device \(2, 0\)"):
        im.from_dlpack(OnGpu())


def test_what_has_no_dlpack_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="a list has no __dlpack__"):
        im.from_dlpack([1, 2])


def test_a_meta_tensor_has_no_data_to_give() -> None:
    x = im.zeros((2, 3), device="meta")
    for use in (x.numpy, x.tolist, x.item, x.__dlpack__, lambda: np.asarray(x), lambda: im.read(x)):
        with pytest.raises(im.IntermodalError):
            use()
    assert repr(x) == "Tensor(shape=(2, 3), dtype=float32, device=meta:cpu)"


def test_the_array_protocol_follows_dtype_and_copy() -> None:
    x = im.asarray([1.0, 2.0], dtype="float64")
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert np.array(x, copy=True).flags.writeable
    assert np.asarray(x, dtype=np.float32).dtype == np.float32
    with pytest.raises(im.CopyRequiredError, match="float64 becomes float32 only by a copy"):
        np.asarray(x, dtype=np.float32, copy=False)


def test_a_tensor_cannot_be_changed_through_numpy() -> None:
    x = im.ones(3)
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 5


def test_created_tensors_start_on_a_64_byte_boundary() -> None:
    for dtype in dtypes.ALL:
        for shape in ((), (1,), (3, 5), (1000,), (0, 2)):
            for x in (
                im.zeros(shape, dtype=dtype),
                im.empty(shape, dtype=dtype),
                im.asarray(np.zeros(shape, dtype.numpy), copy=True),
            ):
                assert x.size == 0 or memory.is_aligned(x._data), (dtype, shape)


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (True, "bool", ()),
        (3, "int64", ()),
        (1.5, "float32", ()),
        (1j, "complex64", ()),
        ([1, 2.5], "float32", (2,)),
        ([[True], [False]], "bool", (2, 1)),
        ([], "float32", (0,)),
        (range(3), "int64", (3,)),
        ([im.asarray(1), im.asarray(2)], "int64", (2,)),
        (2**63, "uint64", ()),
    ],
)
def test_python_data_gets_the_default_dtypes(data: object, dtype: str, shape: tuple[int, ...]) -> None:
    x = im.asarray(data)
    assert (x.dtype.name, x.shape) == (dtype, shape)


def test_numpy_data_keeps_its_dtype_and_shares_memory_unless_copied() -> None:
    a = np.arange(6, dtype=np.float64).reshape(2, 3)[:, ::-1]
    assert np.shares_memory(im.asarray(a).numpy(), a)
    assert not np.shares_memory(im.asarray(a, copy=True).numpy(), a)
    assert np.shares_memory(im.asarray(a, copy=False).numpy(), a)
    assert im.asarray(a).dtype is im.float64


def test_copy_false_is_honoured() -> None:
    for make in (lambda: im.asarray([1, 2], copy=False), lambda: im.asarray(np.ones(2), dtype="float32", copy=False), lambda: im.asarray(im.ones(2), dtype="float64", copy=False), lambda: im.ones(2).to("meta", copy=False), lambda: im.reshape(im.ones((2, 3)).T, (6,), copy=False)):  # fmt: skip
        with pytest.raises(im.CopyRequiredError):
            make()
    x = im.ones((2, 3))
    assert np.shares_memory(im.reshape(x, (6,), copy=False).numpy(), x.numpy())


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ([[1], [1, 2]], im.ShapeError, "no regular shape"),
        (["a"], im.ArgumentError, "cannot become a tensor"),
        (object(), im.ArgumentError, "object"),
        (None, im.ArgumentError, "NoneType"),
        (np.array(["a"]), im.DTypeError, "dtype <U1"),
        (np.array([1], dtype=">i4"), im.DTypeError, "byte order"),
        (np.array([1], dtype=object), im.DTypeError, "dtype object"),
    ],
)
def test_what_is_no_data_is_refused(data: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        im.asarray(data)


def test_an_integer_that_does_not_fit_is_refused() -> None:
    with pytest.raises(im.InvalidValueError, match="300 does not fit int8"):
        im.asarray([1, 300], dtype="int8")
    x = im.ones(2, dtype="int8")
    for use in (lambda: x + 300, lambda: x < 300, lambda: x == 300, lambda: im.less(x, 300)):
        with pytest.raises(im.InvalidValueError, match="300 does not fit int8"):
            use()


def test_float8_casts_saturate() -> None:
    x = im.asarray([1e6, -1e6, 1.0, float("nan"), 448.0])
    small = im.astype(im.astype(x, im.float8_e4m3fn), im.float32).tolist()
    assert small[:3] == [448.0, -448.0, 1.0]
    assert np.isnan(small[3])
    assert im.astype(im.astype(x, im.float8_e5m2), im.float32).tolist()[:2] == [57344.0, -57344.0]


@given(hnp.arrays(np.float32, 8, elements=st.floats(width=32, allow_nan=False)))
def test_bfloat16_casts_round_to_nearest(a: np.ndarray) -> None:
    got = im.astype(im.astype(im.asarray(a), im.bfloat16), im.float32).numpy()
    assert (np.abs(got - a) <= np.maximum(np.abs(a) * 2.0**-8, 2.0**-133))[np.isfinite(got)].all()


def test_many_tensors_are_read_in_one_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    from intermodal.backend import backend_of

    calls: list[int] = []
    backend = backend_of("numpy")
    plain = backend.transaction
    monkeypatch.setattr(backend, "transaction", lambda arrays: calls.append(len(arrays)) or plain(arrays))
    a, b, c = im.read(im.ones(2), im.zeros(3), im.arange(4))
    assert (a.tolist(), b.tolist(), c.tolist(), calls) == ([1, 1], [0, 0, 0], [0, 1, 2, 3], [3])
    with pytest.raises(im.ArgumentError, match="argument 1 is a list"):
        im.read(im.ones(2), [1])  # type: ignore[arg-type]


def test_the_namespace_answers_for_every_revision() -> None:
    x = im.ones(1)
    assert x.__array_namespace__() is im
    assert x.__array_namespace__(api_version="2025.12") is im
    with pytest.raises(im.InvalidValueError, match=r"2019\.12"):
        x.__array_namespace__(api_version="2019.12")


def test_inspection_tells_the_truth_about_this_device(device: im.Device) -> None:
    info = im.__array_namespace_info__()
    assert info.default_device() in info.devices()
    assert set(info.dtypes(device=device)) == {d.name for d in dtypes.STANDARD}
    assert set(info.dtypes(device=device, kind=("bool", "signed integer"))) == {"bool", "int8", "int16", "int32", "int64"}
    assert info.default_dtypes()["real floating"] is im.asarray(1.0).dtype
    assert im.dtype_usage("float32", device) == im.DTypeUsage.GENERAL | im.DTypeUsage.ACCELERATED
    assert not im.supports_dtype("int4", device)
    assert im.device_count("numpy") == 1
    im.sync(device)
    im.memory_cleanup(device)
    with im.persistent_allocations(device):
        assert im.ones(2, device=device).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "int4", "uint4"])
def test_stored_dtypes_move_but_do_not_compute(dtype: str, device: im.Device) -> None:
    x = im.asarray([1, 2, 3], dtype=dtype, device=device)
    assert im.concat([x, x[::-1]]).astype("float32").tolist() == [1, 2, 3, 3, 2, 1]
    with pytest.raises(im.UnsupportedError, match=f"{device} only stores {dtype}.*im.astype"):
        x + x
