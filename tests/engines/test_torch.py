"""What is particular to the PyTorch engine: memory shared by pointer, PyTorch's meanings corrected one by one, its GPUs."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import intermodal as im
from intermodal import dtypes
from intermodal.backend import DTypeUsage, backend_of
from intermodal.ops.table import TABLE
from intermodal.places import place_of, short_way

torch = pytest.importorskip("torch")

CPU = im.Device("torch:cpu")


def on_torch(data: Any, dtype: Any = None) -> im.Tensor:
    return im.asarray(data, dtype=dtype, device=CPU)


# --- loading and the hot path ------------------------------------------------------------------------------------


def test_import_intermodal_does_not_import_torch() -> None:
    code = "import sys, intermodal as im; im.ones(2) + 1; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_operator_calls_pytorchs_own_function(dtype: str) -> None:
    place = place_of(CPU, dtypes.as_dtype(dtype))
    product = short_way(TABLE["matmul"], place)  # the place's own asks for autocast first, once a program has used it
    assert product is not None
    assert (place.add, place.multiply, product[0]) == (torch.add, torch.multiply, torch.matmul)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint16", "uint32", "uint64"])
def test_an_integer_that_does_not_fit_raises_where_pytorch_wraps(dtype: str) -> None:
    x = on_torch([1, 2], dtype)
    high = im.iinfo(dtype).max
    for call in (lambda: x + (high + 1), lambda: x * (high + 1), lambda: (high + 1) + x, lambda: x < high + 1):
        with pytest.raises(im.InvalidValueError, match=f"{high + 1} does not fit {dtype}"):
            call()
    assert (x < high).tolist() == [True, True]


def test_the_name_has_the_version() -> None:
    assert torch.__version__ in backend_of("torch").name(CPU)


# --- memory ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d.bits >= 8], ids=str)
def test_numpys_memory_is_shared_both_ways(dtype: im.DType) -> None:
    array = np.arange(6).astype(dtype.numpy).reshape(2, 3)
    x = on_torch(array)
    assert x._data.data_ptr() == array.ctypes.data == x.numpy().ctypes.data
    assert x.numpy().tobytes() == array.tobytes()


def test_steps_transposes_and_broadcasts_are_shared_and_a_reversed_array_is_copied() -> None:
    array = np.arange(12.0).reshape(3, 4)
    for view in (array[:, ::2], array.T, np.broadcast_to(array[0], (2, 4)), array[1:, 1:]):
        x = on_torch(view)
        assert x._data.data_ptr() == view.ctypes.data
        np.testing.assert_array_equal(x.numpy(), view)
    assert on_torch(array[::-1])._data.data_ptr() not in (array.ctypes.data, array[::-1].ctypes.data)
    np.testing.assert_array_equal(on_torch(array[::-1, ::-2]).numpy(), array[::-1, ::-2])
    with pytest.raises(im.CopyRequiredError, match="no negative strides"):
        im.asarray(array[::-1], device=CPU, copy=False)


def test_a_read_only_array_is_shared_and_never_written() -> None:
    array = np.arange(4.0)
    array.flags.writeable = False
    x = on_torch(array)
    assert x._data.data_ptr() == array.ctypes.data
    x[0] = 9
    x += 1
    assert array.tolist() == [0, 1, 2, 3]
    assert x.tolist() == [10, 2, 3, 4]


def test_a_tensor_of_pytorch_comes_in_as_it_is_and_goes_out_by_dlpack() -> None:
    given = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    x = im.asarray(given)
    assert (x.device, x.dtype, x._data.data_ptr()) == (CPU, im.bfloat16, given.data_ptr())
    assert torch.from_dlpack(x).data_ptr() == given.data_ptr()


def test_a_tensor_that_requires_a_gradient_is_refused() -> None:
    with pytest.raises(im.ExchangeError, match="detach"):
        im.asarray(torch.ones(2, requires_grad=True))
    assert im.asarray(torch.ones(2, requires_grad=True).detach()).tolist() == [1, 1]


def test_a_sparse_tensor_is_refused() -> None:
    with pytest.raises(im.ExchangeError, match="to_dense"):
        im.asarray(torch.eye(2).to_sparse())


def test_a_lazy_conjugate_is_carried_out_before_others_see_it() -> None:
    x = im.asarray(torch.tensor([1 + 2j]).conj())
    assert not x._data.is_conj()
    assert np.from_dlpack(im.conj(x)).tolist() == [1 + 2j]


def test_results_never_track_gradients() -> None:
    assert not (on_torch([1.0]) * 2.0)._data.requires_grad


def test_too_large_a_tensor_is_a_memory_error() -> None:
    with pytest.raises(im.OutOfMemoryError, match=r"no memory for shape \(1125899906842624,\)"):
        im.zeros(2**50, device=CPU)


def test_many_tensors_are_read_in_one_transaction() -> None:
    tensors = [on_torch([i], d) for i, d in enumerate(("float32", "bfloat16", "uint64"))]
    assert [a.astype(int).tolist() for a in im.read(*tensors)] == [[0], [1], [2]]


# --- dtypes ------------------------------------------------------------------------------------------------------


def test_what_a_device_declares_is_what_inspection_says() -> None:
    listed = im.__array_namespace_info__().dtypes(device=CPU)
    assert set(listed) == {d.name for d in dtypes.STANDARD}
    assert im.dtype_usage("float8_e5m2", CPU) is im.dtype_usage("int4", CPU) is DTypeUsage.STORAGE
    assert DTypeUsage.ACCELERATED in im.dtype_usage("bfloat16", CPU)


def test_metal_declares_no_double_precision_and_no_wide_unsigned_integers() -> None:
    usage = backend_of("torch").dtype_usage
    mps = im.Device("torch:mps")
    assert not any(usage(mps, dtypes.as_dtype(d)) for d in ("float64", "complex128", "uint16", "uint32", "uint64", "int4"))
    assert DTypeUsage.GENERAL in usage(mps, im.float32)


BIG = [0, 1, 2, 2**63 - 1, 2**63, 2**63 + 5, 2**64 - 2, 2**64 - 1]


@pytest.mark.parametrize(
    "name", ["add", "multiply", "floor_divide", "remainder", "bitwise_xor", "less", "greater_equal", "maximum", "minimum"]
)
def test_uint64_computes_with_all_its_bits(name: str) -> None:
    a, b = (m.ravel() for m in np.meshgrid(np.array(BIG, np.uint64), np.array(BIG, np.uint64)))
    want = getattr(np, name)(a, b)
    got = getattr(im, name)(on_torch(a), on_torch(b))
    assert got.numpy().dtype == want.dtype
    np.testing.assert_array_equal(got.numpy(), want)


def test_uint64_shifts_in_zeros_sorts_and_raises_to_powers() -> None:
    x = on_torch(np.array(BIG, np.uint64))
    for n in (0, 1, 63):
        assert (x >> n).tolist() == [v >> n for v in BIG]
    assert (x >> 64).tolist() == [0] * len(BIG)
    assert im.sort(x, descending=True).tolist() == BIG[::-1]
    assert (int(im.argmax(x)), int(im.max(x)), int(im.min(x))) == (7, 2**64 - 1, 0)
    assert im.clip(x, 1, 2**63).tolist() == [min(max(v, 1), 2**63) for v in BIG]
    assert (x**3).tolist() == [v**3 % 2**64 for v in BIG]
    assert im.astype(x, im.float64).tolist() == [float(v) for v in BIG]


def test_small_integers_of_4_bits_come_back_and_wrap() -> None:
    x = on_torch([-8, -1, 7], "int4")
    assert x._data.dtype is torch.int4
    assert im.astype(x, im.int64).tolist() == [-8, -1, 7]
    assert im.astype(im.astype(x, im.uint4), im.int64).tolist() == [8, 15, 7]
    assert im.astype(im.flip(x), im.float32).tolist() == [7, -1, -8]


# --- where PyTorch means something else --------------------------------------------------------------------------


def test_floor_division_of_infinities_rounds_the_quotient() -> None:
    x, y = on_torch([math.inf, 1.0, -1.0, 1.0]), on_torch([2.0, math.inf, math.inf, 0.0])
    assert (x // y).tolist() == [math.inf, 0, 0, math.inf]


def test_integer_division_by_zero_is_zero_and_the_smallest_by_minus_one_wraps() -> None:
    x, y = on_torch([7, -(2**63), 5], "int64"), on_torch([0, -1, -1], "int64")
    assert (x // y).tolist() == [0, -(2**63), -5]
    assert (x % y).tolist() == [0, 0, 0]


def test_the_remainder_has_the_divisors_sign_also_at_zero() -> None:
    assert np.signbit((on_torch([-4.0, 4.0]) % on_torch([2.0, -2.0])).numpy()).tolist() == [False, True]


def test_an_integer_to_a_negative_power_raises() -> None:
    x = on_torch([2, 3])
    for exponent in (-1, on_torch([1, -1])):
        with pytest.raises(im.ExecutionError, match="pow"):
            x**exponent


def test_a_sum_of_small_integers_is_wide_and_a_sum_over_no_axes_is_the_tensor() -> None:
    x = on_torch([[200, 200]], "uint8")
    assert (im.sum(x).dtype, int(im.sum(x))) == (im.uint64, 400)
    assert im.sum(x, axis=()).tolist() == [[200, 200]]
    assert im.max(x, axis=()).shape == im.all(x, axis=()).shape == (1, 2)


def test_extremes_and_their_places_follow_nan_and_the_first_of_equals() -> None:
    x = on_torch([1.0, math.nan, 3.0, math.nan])
    assert math.isnan(float(im.max(x)))
    assert math.isnan(float(im.min(x)))
    assert int(im.argmax(x)) == int(im.argmin(x)) == 1
    assert int(im.argmax(on_torch([2, 7, 7]))) == 1
    assert int(im.argmax(on_torch([False, True, True]))) == 1


def test_sorting_keeps_equals_in_order_both_ways() -> None:
    x = on_torch([1, 0] * 40)
    evens, odds = list(range(0, 80, 2)), list(range(1, 80, 2))
    assert im.argsort(x).tolist() == odds + evens
    assert im.argsort(x, descending=True).tolist() == evens + odds


def test_a_search_sees_nan_at_the_end() -> None:
    x = on_torch([0.0, 1.0, math.nan, math.nan])
    wanted = on_torch([0.5, math.nan, math.inf])
    assert im.searchsorted(x, wanted).tolist() == [1, 2, 2]
    assert im.searchsorted(x, wanted, side="right").tolist() == [1, 4, 2]


def test_halves_round_to_the_even_neighbour() -> None:
    assert im.round(on_torch([0.5, 1.5, 2.5, -0.5])).tolist() == [0, 2, 2, 0]
    assert im.round(on_torch([0.5 + 1.5j])).tolist() == [0 + 2j]


def test_a_shift_past_the_width_leaves_nothing_but_the_sign() -> None:
    x = on_torch([1, -1], "int32")
    assert (x << 32).tolist() == [0, 0]
    assert (x >> 40).tolist() == [0, -1]


def test_the_sign_of_nan_is_nan() -> None:
    assert math.isnan(float(im.sign(on_torch(math.nan))))


def test_an_index_outside_raises_before_a_kernel_sees_it() -> None:
    x = on_torch([[1.0, 2.0]])
    for call in (
        lambda: im.take(x, on_torch([2]), axis=1),
        lambda: im.take_along_axis(x, on_torch([[-3]]), axis=1),
        lambda: im.scatter(x, on_torch([[5]]), 0.0, axis=1),
        lambda: im.take(x, on_torch([2**64 - 1], "uint64"), axis=1),
    ):
        with pytest.raises(im.IndexRangeError, match="out of range for axis 1 of size 2"):
            call()
    assert im.take(x, on_torch([-1]), axis=1).tolist() == [[2]]


def test_negative_steps_read_and_write() -> None:
    x = on_torch(np.arange(5))
    assert x[::-2].tolist() == [4, 2, 0]
    assert x[1:4:-1].tolist() == []
    x[::-2] = on_torch([10, 20, 30])
    assert x.tolist() == [30, 1, 20, 3, 10]


def test_the_last_of_several_writes_stands_whatever_the_order_of_scatter() -> None:
    from intermodal.engines.torch.arrays import put_last, put_last_in_any_order

    generator = torch.Generator().manual_seed(5)
    places = torch.randint(0, 4, (3, 50), generator=generator)
    values = torch.arange(150).reshape(3, 50)
    x = torch.full((3, 6), -1)
    want = x.clone()
    for i in range(3):
        for j in range(50):
            want[i, places[i, j]] = values[i, j]
    assert torch.equal(put_last(x, places, values, 1), want)
    assert torch.equal(put_last_in_any_order(x, places, values, 1), want)
    assert torch.equal(put_last_in_any_order(x, places[:, :0], values[:, :0], 1), x)


def test_a_fully_masked_line_has_a_softmax_of_zeros_and_nan_stays() -> None:
    x = on_torch([[-math.inf, -math.inf], [0.0, 0.0], [math.nan, 0.0]])
    assert im.nn.softmax(x).tolist()[:2] == [[0, 0], [0.5, 0.5]]
    assert im.nn.log_softmax(x).tolist()[0] == [-math.inf, -math.inf]
    assert np.isnan(im.nn.softmax(x).numpy()[2]).all()


def test_attention_that_sees_nothing_gives_zeros() -> None:
    q = im.random.normal((1, 2, 3, 4), device=CPU, seed=1)
    mask = on_torch([[True, True, True], [False, False, False], [True, False, False]])
    result = im.nn.attention(q, q, q, mask=mask).numpy()
    assert (result[:, :, 1] == 0).all()
    np.testing.assert_allclose(result[:, :, 2], q.numpy()[:, :, 0], rtol=1e-6)


def test_a_solved_stack_takes_matrices_where_pytorch_would_see_vectors() -> None:
    a, b = np.stack([np.eye(2) * (i + 1) for i in range(2)]), np.arange(4.0).reshape(2, 2)
    np.testing.assert_allclose(im.linalg.solve(on_torch(a), on_torch(b)).numpy(), np.linalg.solve(a, b))


def test_a_singular_matrix_is_named() -> None:
    x = im.zeros((2, 2), device=CPU)
    for call in (lambda: im.linalg.inv(x), lambda: im.linalg.solve(x, x), lambda: im.linalg.solve_triangular(x, x)):
        with pytest.raises(im.ExecutionError, match="singular"):
            call()


@pytest.mark.parametrize(("low", "high"), [(0, 3), (-(2**63), 2**63), (0, 3 * 2**61), (-5, 2**62)])
def test_random_integers_fill_their_range_evenly(low: int, high: int) -> None:
    x = im.random.randint((30000,), low=low, high=high, device=CPU, seed=3).numpy()
    thirds = np.histogram((x.astype(float) - low) / (high - low), bins=3, range=(0, 1))[0]
    # Three bins of 10000 expected: the standard deviation is 82, and 5 of them are 410.
    assert abs(thirds - 10000).max() < 410
    assert x.min() >= low
    assert int(x.max()) < high


def test_random_uint64_reaches_both_halves() -> None:
    x = im.random.randint((1000,), low=2**62, high=2**64, dtype="uint64", device=CPU, seed=3).numpy()
    assert x.min() >= 2**62
    assert (x >= 2**63).any()
    assert (x < 2**63).any()


# --- GPUs --------------------------------------------------------------------------------------------------------

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no CUDA device")
needs_mps = pytest.mark.skipif(not torch.backends.mps.is_available(), reason="PyTorch finds no Metal device")
GPUS = [pytest.param("torch:cuda:0", marks=needs_cuda), pytest.param("torch:mps", marks=needs_mps)]


@pytest.mark.parametrize("gpu", GPUS)
def test_a_gpu_computes_and_reads_back(gpu: str) -> None:
    x = im.asarray(np.arange(6, dtype=np.float32).reshape(2, 3), device=gpu)
    y = im.nn.softmax(x @ x.T, axis=-1)
    im.sync(gpu)
    want = np.exp(np.array([[-9.0, 0.0], [-36.0, 0.0]]))
    np.testing.assert_allclose(y.numpy(), want / want.sum(1, keepdims=True), rtol=1e-5)
    assert [a.shape for a in im.read(x, y)] == [(2, 3), (2, 2)]
    im.memory_cleanup(gpu)


@pytest.mark.parametrize("gpu", GPUS)
def test_a_gpu_keeps_its_context_after_an_index_outside(gpu: str) -> None:
    x = im.asarray([1.0, 2.0], device=gpu)
    with pytest.raises(im.IndexRangeError):
        im.take(x, im.asarray([9], device=gpu))
    assert (x + 1).tolist() == [2, 3]


@pytest.mark.parametrize("gpu", GPUS)
def test_the_host_is_never_shared_with_a_gpu(gpu: str) -> None:
    with pytest.raises(im.CopyRequiredError, match="memory of its own"):
        im.asarray(np.ones(2, np.float32), device=gpu, copy=False)


@needs_cuda
def test_staged_memory_is_pinned_and_tensors_leave_by_dlpack() -> None:
    backend = backend_of("torch")
    cuda = im.Device("torch:cuda:0")
    (staged,) = backend.staging([np.ones(3, np.float32)], cuda)
    assert torch.from_numpy(staged).is_pinned()
    x = im.ones(3, device=cuda)
    assert backend.dlpack_device(x._data) == (2, 0)
    assert torch.from_dlpack(x).data_ptr() == x._data.data_ptr()


@needs_cuda
def test_no_memory_on_a_gpu_is_a_memory_error() -> None:
    with pytest.raises(im.OutOfMemoryError):
        im.zeros(2**46, device="torch:cuda:0")
