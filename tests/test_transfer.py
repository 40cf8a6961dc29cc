from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

import intermodal as im
from intermodal import backend, transfer
from intermodal.backend import HostMemory
from intermodal.engines.numpy import NumpyBackend


class Strict(NumpyBackend):
    """NumPy behind the demands of another engine: it refuses what that engine would refuse or abort the process over."""

    def devices(self) -> tuple[im.Device, ...]:
        return (im.Device(f"{self.engine}:cpu"),)

    def from_host(self, data: np.ndarray, device: im.Device, *, copy: bool | None = None) -> np.ndarray:
        assert data.dtype.isnative
        if self.shares is not None and im.dtypes.as_dtype(data.dtype) not in self.shares.other_form:
            assert self.shares.obstacle(data, self.engine) is None
        assert data.size == 0 or min(data.strides, default=0) >= 0
        return data.copy() if copy else data


class LikeTorch(Strict):
    engine = "liketorch"
    shares = HostMemory(strides="positive", alignment=1)


class LikeJax(Strict):
    engine = "likejax"
    shares = HostMemory(strides="contiguous", alignment=64, other_form=frozenset({im.int4, im.uint4}))


class Plain(Strict):
    """Says nothing about memory, as a small engine of somebody else."""

    engine = "plain"
    shares = None

    def host_view(self, array: Any) -> None:
        return None


class Remote(Strict):
    """Memory of its own, as a GPU's. Its arrays are NumPy's all the same, but only `to_host` and DLPack lead out."""

    engine = "gpu1"
    shares = HostMemory(strides="positive", alignment=1)
    dlpack_kinds = {"gpu": 2}

    def __init__(self) -> None:
        super().__init__()
        self.staged: list[tuple[int, ...]] = []

    def devices(self) -> tuple[im.Device, ...]:
        return (im.Device(f"{self.engine}:gpu"), im.Device(f"{self.engine}:gpu:1"))

    def from_host(self, data: np.ndarray, device: im.Device, *, copy: bool | None = None) -> np.ndarray:
        return super().from_host(data, device, copy=True)

    def to_host(self, array: np.ndarray) -> np.ndarray:
        return np.array(array)

    def host_view(self, array: Any) -> None:
        return None

    def staging(self, data: Iterable[np.ndarray], device: im.Device) -> list[np.ndarray]:
        found = list(data)
        self.staged += [d.strides for d in found]
        return found

    def dlpack_device(self, array: np.ndarray) -> tuple[int, int]:
        return (2, 0)

    def from_dlpack(self, producer: object, device: im.Device) -> np.ndarray:
        assert isinstance(producer, im.Tensor)
        return producer._data


class Other(Remote):
    engine = "gpu2"


@pytest.fixture(autouse=True)
def engines() -> Iterator[None]:
    kinds = (LikeTorch, LikeJax, Plain, Remote, Other)
    for kind in kinds:
        backend.register(kind.engine, kind)
    yield
    for kind in kinds:
        backend.unregister(kind.engine)


def address(x: im.Tensor) -> int:
    return x._data.__array_interface__["data"][0]


# --- plans -------------------------------------------------------------------------------------------------------


def test_a_plan_cannot_be_changed_and_says_where_from_and_where_to() -> None:
    plan = transfer.plan(im.ones(2), "liketorch:cpu")
    assert (plan.source, plan.target, plan.copies, plan.route) == ("numpy:cpu", "liketorch:cpu", False, "share")
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.copies = True  # type: ignore[misc]


def test_on_its_own_device_a_tensor_is_itself_unless_a_copy_is_asked_for() -> None:
    x = im.ones(3)
    assert x.to("numpy:cpu") is x
    assert x.to("numpy:cpu", copy=False) is x
    assert transfer.plan(x, "numpy:cpu").route == "same"
    assert address(x.to("numpy:cpu", copy=True)) != address(x)
    assert transfer.plan(x, "numpy:cpu", copy=True).copies


@pytest.mark.parametrize(
    ("device", "make", "reason"),
    [
        ("liketorch:cpu", lambda x: x[::-1], "negative strides"),
        ("likejax:cpu", lambda x: x[:, ::2], "C order without gaps"),
        ("likejax:cpu", lambda x: x.T, "C order without gaps"),
        ("likejax:cpu", lambda x: x[1, 1:], "64-byte boundary"),
        ("likejax:cpu", lambda x: x.astype("int4"), "int4 in another form"),
        ("plain:cpu", lambda x: x, "memory of its own"),
        ("gpu1:gpu", lambda x: x, "memory of its own"),
        ("meta:cpu", lambda x: x, "no data"),
    ],
)
def test_where_only_a_copy_will_do_the_plan_says_why_and_copy_false_raises_it(device: str, make: Any, reason: str) -> None:
    x = make(im.asarray(np.arange(24.0, dtype=np.float32).reshape(4, 6) % 7, copy=True))
    plan = transfer.plan(x, device)
    assert plan.copies
    assert reason in plan.reason
    assert plan.reason.endswith(".")
    with pytest.raises(im.CopyRequiredError) as raised:
        x.to(device, copy=False)
    assert plan.reason in str(raised.value)
    if device != "meta:cpu":
        assert x.to(device).tolist() == x.tolist()


@given(hnp.arrays(np.int32, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)), st.data())
def test_engines_see_only_memory_that_they_can_use(a: np.ndarray, data: st.DataObject) -> None:
    view = np.asarray(a[data.draw(hnp.basic_indices(a.shape))])
    if data.draw(st.booleans()):
        view = view.T
    for device in ("liketorch:cpu", "likejax:cpu", "plain:cpu", "gpu1:gpu"):
        entered = im.asarray(view, device=device)  # the engine asserts that it can use what it gets
        np.testing.assert_array_equal(entered.numpy(), view)
        x = im.asarray(view)
        plan, moved = transfer.plan(x, device), x.to(device)
        np.testing.assert_array_equal(moved.numpy(), view)
        assert view.size == 0 or plan.copies != np.shares_memory(moved._data, view)
        assert moved.to("numpy:cpu").tolist() == view.tolist()


def test_an_engine_that_says_nothing_about_its_memory_is_never_shared_with() -> None:
    x = im.ones(4, device="plain:cpu")
    y = x.to("numpy:cpu")
    assert transfer.plan(x, "numpy:cpu").copies
    assert not np.shares_memory(x._data, y._data)


def test_a_device_or_a_dtype_that_is_not_there_is_refused_by_the_plan() -> None:
    with pytest.raises(im.DeviceError, match="no device liketorch:cpu:3"):
        transfer.plan(im.ones(1), "liketorch:cpu:3")
    with pytest.raises(im.DeviceError, match="nowhere"):
        im.ones(1).to("nowhere:cpu")


# --- meta --------------------------------------------------------------------------------------------------------


def test_moving_to_meta_reads_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    x = im.ones((3, 4), device="gpu1:gpu", dtype="int8")
    monkeypatch.setattr(Remote, "to_host", lambda *_: pytest.fail("the data was read"))
    assert transfer.plan(x, "meta:cpu").route == "shape"
    y = x.to("meta:cpu")
    assert (y.shape, y.dtype, y.device) == ((3, 4), im.int8, "meta:cpu")
    assert y.to("meta:cpu", copy=True).shape == (3, 4)


def test_a_meta_tensor_has_no_data_to_move() -> None:
    x = im.ones((3, 4), device="meta:cpu")
    for use in (lambda: transfer.plan(x, "numpy:cpu"), lambda: x.to("numpy:cpu")):
        with pytest.raises(im.NoDataError, match="no data to move"):
            use()


# --- accelerators ------------------------------------------------------------------------------------------------


def test_what_goes_to_an_accelerator_is_staged_as_plain_memory() -> None:
    x = im.arange(24).reshape((4, 6))[::-1, ::2]
    plan, y = transfer.plan(x, "gpu1:gpu"), x.to("gpu1:gpu")
    assert (plan.copies, plan.route, y.tolist()) == (True, "host", x.tolist())
    remote = backend.backend_of("gpu1")
    assert isinstance(remote, Remote)
    assert remote.staged == [(24, 8)]


def test_two_engines_on_one_accelerator_share_its_memory_by_dlpack() -> None:
    x = im.arange(5).to("gpu1:gpu")
    assert transfer.plan(x, "gpu2:gpu").route == "dlpack"
    assert not transfer.plan(x, "gpu2:gpu").copies
    assert address(x.to("gpu2:gpu")) == address(x.to("gpu2:gpu", copy=False)) == address(x)
    assert address(x.to("gpu2:gpu", copy=True)) != address(x)
    assert transfer.plan(x, "gpu2:gpu:1").route == "host"
    assert x.to("gpu2:gpu:1").tolist() == x.tolist()


def test_a_copy_on_an_accelerator_does_not_leave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    x = im.arange(5).to("gpu1:gpu")
    with monkeypatch.context() as patch:
        patch.setattr(Remote, "to_host", lambda *_: pytest.fail("the data was read"))
        y = x.to("gpu1:gpu", copy=True)
        assert transfer.plan(x, "gpu1:gpu", copy=True).route == "engine"
    assert address(y) != address(x)
    assert y.tolist() == x.tolist()


# --- values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["liketorch:cpu", "likejax:cpu", "plain:cpu", "gpu1:gpu"])
def test_a_moved_tensor_is_no_view(device: str) -> None:
    x = im.arange(4)
    y = x.to(device)
    x[0] = 9
    assert y.tolist() == [0, 1, 2, 3]
    y[1] = 7
    assert (x.tolist(), y.tolist()) == ([9, 1, 2, 3], [0, 7, 2, 3])


def test_a_stream_is_refused_where_there_are_none() -> None:
    assert im.ones(1).to_device("liketorch:cpu").device == "liketorch:cpu"
    with pytest.raises(im.InvalidValueError, match="stream"):
        im.ones(1).to_device("numpy:cpu", stream=1)


# --- read-only memory --------------------------------------------------------------------------------------------


def frozen(*values: float) -> np.ndarray:
    a = np.asarray(im.asarray(values, dtype=im.float32)).copy()
    a.flags.writeable = False
    return a


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "complex128"])
def test_read_only_memory_is_shared_but_not_handed_out_for_writing(dtype: str) -> None:
    a = frozen(1, 0, 1).astype(im.dtypes.as_dtype(dtype).numpy)
    a.flags.writeable = False
    x = im.asarray(a, device="liketorch:cpu")
    assert np.shares_memory(x._data, a)
    assert x._data.flags.writeable  # as an engine that knows no read-only arrays has it
    assert np.array_equal(x._data, a)
    if dtype != "bfloat16":  # which NumPy does not export
        assert not np.shares_memory(np.from_dlpack(x), a)
        assert not np.shares_memory(np.from_dlpack(x[1:]), a)
        with pytest.raises(im.ExchangeError, match="read-only array"):
            np.from_dlpack(x, copy=False)
    back = x.to("numpy:cpu")
    assert np.shares_memory(back._data, a)
    assert not back._data.flags.writeable
    assert not x[1:].to("numpy:cpu")._data.flags.writeable


def test_memory_that_may_be_written_is_exported_as_it_is() -> None:
    kept = im.asarray(frozen(1, 2, 3), device="liketorch:cpu")
    x = im.ones(3, device="liketorch:cpu")
    assert np.shares_memory(np.from_dlpack(x), x._data)
    assert kept.tolist() == [1, 2, 3]


def test_a_loan_ends_with_the_last_array_over_the_memory() -> None:
    gc.collect()
    before = len(transfer._lent)
    x = im.asarray(frozen(1, 2, 3), device="liketorch:cpu")
    part = x[1:]
    assert len(transfer._lent) == before + 1
    del x
    gc.collect()
    assert len(transfer._lent) == before + 1
    assert part.tolist() == [2, 3]
    del part
    gc.collect()
    assert len(transfer._lent) == before


# --- arrays of other libraries -----------------------------------------------------------------------------------


class Producer:
    """An array of a library that no engine knows."""

    def __init__(self, data: np.ndarray, where: tuple[int, int] = (1, 0), error: Exception | None = None) -> None:
        self.data, self.where, self.error = data, where, error

    def __dlpack__(self, **options: Any) -> object:
        if self.error is not None:
            raise self.error
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.where


@pytest.mark.parametrize("bring", [im.asarray, im.from_dlpack])
def test_an_array_that_no_engine_owns_goes_to_numpy(bring: Any) -> None:
    a = np.arange(3.0)
    x = bring(Producer(a))
    assert (x.device, x.tolist()) == ("numpy:cpu", [0, 1, 2])
    assert np.shares_memory(x._data, a)
    assert np.shares_memory(bring(Producer(a), copy=False)._data, a)
    assert not np.shares_memory(bring(Producer(a), copy=True)._data, a)
    assert bring(Producer(a), device="liketorch:cpu").device == "liketorch:cpu"


@pytest.mark.parametrize("bring", [im.asarray, im.from_dlpack])
def test_a_producer_that_fails_is_an_exchange_error_with_its_cause(bring: Any) -> None:
    broken = Producer(np.arange(3.0), error=BufferError("not today"))
    with pytest.raises(im.ExchangeError, match="Producer does not hand over its data: not today") as raised:
        bring(broken)
    assert isinstance(raised.value.__cause__, BufferError)
    with pytest.raises(im.CopyRequiredError, match="not today"):
        bring(broken, copy=False)
    with pytest.raises(im.DeviceMismatchError, match=r"\(2, 0\)"):
        bring(Producer(np.arange(3.0), where=(2, 0)))


@pytest.mark.parametrize("bring", [im.asarray, im.from_dlpack])
def test_a_torch_tensor_stays_with_torch(bring: Any) -> None:
    torch = pytest.importorskip("torch")
    t = torch.arange(6.0).reshape(2, 3)
    x = bring(t)
    assert (x.device, x.dtype, x.tolist()) == ("torch:cpu", im.float32, t.tolist())
    assert x._data.data_ptr() == t.data_ptr()
    assert np.shares_memory(bring(t, device="numpy:cpu")._data, t.numpy())
    assert bring(t, copy=True)._data.data_ptr() != t.data_ptr()
    assert bring(t.to(torch.bfloat16), device="numpy:cpu").dtype is im.bfloat16
    assert bring(torch.nn.Parameter(t, requires_grad=False))._data.data_ptr() == t.data_ptr()
    with pytest.raises(im.CopyRequiredError):
        bring(t, device="gpu1:gpu", copy=False)


def test_torch_tensors_that_are_no_plain_arrays_are_refused_with_the_way_out() -> None:
    torch = pytest.importorskip("torch")
    for t, way_out in (
        (torch.ones(2, requires_grad=True), r"detach\(\)"),
        (torch.ones(2, requires_grad=True) * 2, r"detach\(\)"),
        (torch.eye(2).to_sparse(), r"to_dense\(\)"),
        (torch.ones(2, device="meta"), r"cpu\(\)"),
    ):
        with pytest.raises(im.ExchangeError, match=way_out):
            im.asarray(t)
    with pytest.raises(im.DTypeError, match="float8_e5m2fnuz"):
        im.asarray(torch.ones(2).to(torch.float8_e5m2fnuz))


def test_a_tensor_of_torch_over_read_only_memory_is_exported_as_a_copy() -> None:
    torch = pytest.importorskip("torch")
    a = frozen(1, 2, 3)
    x = im.asarray(a, device="torch:cpu")
    assert x._data.data_ptr() == a.__array_interface__["data"][0]
    torch.from_dlpack(x)[0] = 9
    torch.from_dlpack(x[1:])[0] = 9
    assert a.tolist() == [1, 2, 3]


@pytest.mark.parametrize("bring", [im.asarray, im.from_dlpack])
def test_a_jax_array_stays_with_jax(bring: Any) -> None:
    jnp = pytest.importorskip("jax.numpy")
    j = jnp.arange(6, dtype="float32").reshape(2, 3)
    x = bring(j)
    assert (x.device, x.dtype, x.tolist()) == ("jax:cpu", im.float32, j.tolist())
    assert x._data.unsafe_buffer_pointer() == j.unsafe_buffer_pointer()
    assert np.shares_memory(bring(j, device="numpy:cpu")._data, np.asarray(j))
    assert bring(j, copy=True)._data.unsafe_buffer_pointer() != j.unsafe_buffer_pointer()


def test_jax_arrays_that_are_no_plain_arrays_are_refused_with_the_way_out() -> None:
    jax = pytest.importorskip("jax")
    with pytest.raises(im.ExchangeError, match="outside"):
        jax.jit(lambda v: im.asarray(v)._data)(jax.numpy.ones(2))
    with pytest.raises(im.DTypeError, match="key<fry>"):
        im.asarray(jax.random.key(0))


def test_read_only_memory_on_jax_is_exported_as_a_copy() -> None:
    pytest.importorskip("jax")
    a = np.asarray(im.ones(16))  # read-only, on a 64-byte boundary
    x = im.asarray(a, device="jax:cpu")
    assert x._data.unsafe_buffer_pointer() == a.__array_interface__["data"][0]
    assert not np.shares_memory(np.from_dlpack(x), a)
