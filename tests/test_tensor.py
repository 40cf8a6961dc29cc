from __future__ import annotations

import copy
import operator
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given, strategies as st

import intermodal as im
from intermodal import dtypes

BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
COMPARE = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def _pair(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    host = dtypes.as_dtype(dtype).numpy
    return np.array([[1, 2, 3], [7, 5, 4]]).astype(host), np.array([2, 1, 3]).astype(host)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_arithmetic_operators_agree_with_numpy(function, dtype: str, device: im.Device) -> None:
    a, b = _pair(dtype)
    x, y = im.asarray(a, device=device), im.asarray(b, device=device)
    with np.errstate(all="ignore"):
        for got, want in (
            (function(x, y), function(a, b)),
            (function(x, 2), function(a, a.dtype.type(2))),
            (function(3, y), function(b.dtype.type(3), b)),
        ):
            expected = want if dtype != "bfloat16" else want.astype(a.dtype)
            np.testing.assert_allclose(
                got.numpy().astype(np.float64), expected.astype(np.float64), rtol=float(dtype == "bfloat16") * 2**-7
            )
            assert got.device is device


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("function", BITS, ids=lambda f: f.__name__)
def test_bit_operators_agree_with_numpy(function, dtype: str, device: im.Device) -> None:
    a, b = _pair(dtype)
    x, y = im.asarray(a, device=device), im.asarray(b, device=device)
    np.testing.assert_array_equal(function(x, y).numpy(), function(a, b))
    assert function(x, 1).dtype.name == function(1, y).dtype.name == dtype


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("function", COMPARE, ids=lambda f: f.__name__)
def test_comparisons_give_bools(function, dtype: str, device: im.Device) -> None:
    a, b = _pair(dtype)
    x, y = im.asarray(a, device=device), im.asarray(b, device=device)
    np.testing.assert_array_equal(function(x, y).numpy(), function(a, b))
    np.testing.assert_array_equal(function(x, 3).numpy(), function(a, 3))
    np.testing.assert_array_equal(function(3, x).numpy(), function(3, a))
    assert function(x, y).dtype is im.bool


def test_bool_tensors_take_logic_and_no_arithmetic(device: im.Device) -> None:
    x = im.asarray([True, False], device=device)
    assert (~x).tolist() == [False, True]
    assert (x & True).tolist() == [True, False]
    assert (x | im.asarray([False, True], device=device)).tolist() == [True, True]
    for function in BINARY:
        with pytest.raises(im.DTypeError, match="bool"):
            function(x, x)


def test_a_matrix_product_takes_vectors_matrices_and_stacks(device: im.Device) -> None:
    rng = np.random.default_rng(0)
    for s, t in [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((5, 1, 2, 3), (4, 3, 2)),
        ((2, 0), (0, 3)),
    ]:
        a, b = rng.normal(size=s), rng.normal(size=t)
        got = im.asarray(a, device=device) @ im.asarray(b, device=device)
        assert got.shape == (a @ b).shape
        np.testing.assert_allclose(got.numpy(), a @ b, rtol=1e-14)


def test_mixed_kinds_promote_as_numpys_do(device: im.Device) -> None:
    for a in dtypes.STANDARD:
        for b in dtypes.STANDARD:
            if "bool" in (a.name, b.name):
                continue
            got = im.ones(2, dtype=a, device=device) + im.ones(2, dtype=b, device=device)
            assert got.dtype.numpy == np.result_type(a.numpy, b.numpy)


def test_integers_divide_to_floats_as_numpys_do(device: im.Device) -> None:
    assert (im.asarray([1, 2], device=device) / 2).tolist() == [0.5, 1.0]
    assert (im.ones(2, dtype="int8", device=device) / im.ones(2, dtype="int8", device=device)).dtype is im.float64


def test_integer_powers_are_exact(device: im.Device) -> None:
    assert (im.asarray([3], device=device) ** 39).item() == 3**39


@pytest.mark.parametrize("scalar", [np.float64(2.0), np.float32(2.0), np.int64(2), np.float16(2)])
def test_numpys_scalars_count_as_python_scalars(scalar: np.generic, device: im.Device) -> None:
    x = im.ones(3, device=device)
    for got in (x * scalar, scalar * x):
        assert isinstance(got, im.Tensor)
        assert got.dtype is im.float32
        assert got.tolist() == [2.0, 2.0, 2.0]


def test_in_place_operators_change_this_object_and_its_views_and_no_copy(device: im.Device) -> None:
    x = im.asarray([1.0, 2.0, 3.0], device=device)
    same, view, twin = x, x[1:], copy.copy(x)
    x += 1
    assert same is x
    assert x.tolist() == [2.0, 3.0, 4.0]
    assert view.tolist() == [3.0, 4.0]
    assert twin.tolist() == [1.0, 2.0, 3.0]


VIEWS = {
    "slice": lambda x: x[1:],
    "integer": lambda x: x[0],
    "key": lambda x: x[..., None, ::-1],
    "reshape": lambda x: x.reshape(-1),
    "transpose": lambda x: x.T,
    "expand": lambda x: im.expand_dims(x, axis=0) if isinstance(x, im.Tensor) else np.expand_dims(x, 0),
    "flip": lambda x: im.flip(x, axis=1) if isinstance(x, im.Tensor) else np.flip(x, 1),
    "moveaxis": lambda x: im.moveaxis(x, 0, 1) if isinstance(x, im.Tensor) else np.moveaxis(x, 0, 1),
    "chain": lambda x: x.reshape(4, -1)[::2].T[:1],
    "real": lambda x: x.real,
}


@pytest.mark.parametrize("first", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("second", VIEWS.values(), ids=VIEWS)
def test_tensors_that_share_elements_change_together_as_numpys_arrays_do(first, second, device: im.Device) -> None:
    a = np.arange(8.0).reshape(2, 4)
    x = im.asarray(a.copy(), device=device)
    a_views, x_views = [first(a), second(a)], [first(x), second(x)]
    steps = [(0, lambda v: v.__setitem__((..., 0), -1.0)), (1, lambda v: v.__imul__(10.0)), (2, lambda v: v.__setitem__(1, 7.0))]
    for who, change in steps:
        change((*a_views, a)[who])
        change((*x_views, x)[who])
        for mine, theirs in zip((*x_views, x), (*a_views, a), strict=True):
            np.testing.assert_array_equal(mine.numpy(), theirs)


def test_a_complex_tensor_is_written_through_its_parts(device: im.Device) -> None:
    x = im.asarray([1 + 2j, 3 + 4j], device=device)
    x.imag[0] = 9.0
    x.real[...] = 5.0
    assert x.tolist() == [5 + 9j, 5 + 4j]


def test_a_view_outlives_what_it_was_made_from(device: im.Device) -> None:
    x = im.zeros((2, 3), device=device)
    middle = x.T
    end = middle[0]
    del middle
    end[...] = 1.0
    assert x.tolist() == [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    del x
    end += 1.0
    assert end.tolist() == [2.0, 2.0]


def test_a_broadcast_tensor_is_not_written_to(device: im.Device) -> None:
    x = im.ones(3, device=device)
    view = im.broadcast_to(x, (2, 3))
    with pytest.raises(im.ViewWriteError, match=r"\(3,\) broadcast to \(2, 3\) shows its elements more than once"):
        view[0] = 5.0
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert view.tolist() == [[1.0, 1.0, 1.0]] * 2


@pytest.mark.parametrize("same", [lambda x: +x, im.trunc, im.clip, lambda x: im.roll(x, 0, axis=0), lambda x: im.astype(x, x.dtype), copy.copy, copy.deepcopy])  # fmt: skip
def test_a_result_is_never_the_operand_itself(same, device: im.Device) -> None:
    x = im.asarray([1, 2], device=device)
    y = same(x)
    y += 1
    assert x.tolist() == [1, 2]


def test_an_element_is_updated_in_place_through_its_index(device: im.Device) -> None:
    x = im.zeros((2, 3), device=device)
    x[0] += 1.0
    x[:, 1] *= 5.0
    x[1][...]  # a view that is only read
    assert x.tolist() == [[1.0, 5.0, 1.0], [0.0, 0.0, 0.0]]


def test_views_see_each_others_later_writes(device: im.Device) -> None:
    x = im.zeros((2, 3), device=device)
    row, column = x[0], x[:, 1]
    for i in range(3):
        row += float(i)
        column *= 2.0
        assert row.tolist() == x[0].tolist()
        assert column.tolist() == x[:, 1].tolist()
    assert x.tolist() == [[3.0, 8.0, 3.0], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"])
def test_every_in_place_operator_works(name: str, device: im.Device) -> None:
    x = im.asarray([4.0, 9.0], device=device)
    plain = getattr(operator, name[1:])(x, 2.0).tolist()
    assert getattr(operator, name)(x, 2.0) is x
    assert x.tolist() == plain


def test_an_in_place_operator_keeps_dtype_and_shape(device: im.Device) -> None:
    x = im.ones(3, dtype="int32", device=device)
    with pytest.raises(im.DTypeError, match="__itruediv__: the result would be float64"):
        x /= 2
    with pytest.raises(im.ShapeError, match="__iadd__: the result would have shape"):
        x += im.ones((2, 3), dtype="int32", device=device)
    assert x.tolist() == [1, 1, 1]


def test_data_from_numpy_is_not_changed_by_assignment(device: im.Device) -> None:
    a = np.zeros(3)
    x = im.asarray(a, device=device)
    x[1] = 5.0
    assert a.tolist() == [0.0, 0.0, 0.0]


def test_scalars_come_out(device: im.Device) -> None:
    assert float(im.asarray(1.5, device=device)) == 1.5
    assert int(im.asarray(-1.5, device=device)) == -1
    assert complex(im.asarray(2.0, device=device)) == 2 + 0j
    assert bool(im.asarray([[3]], device=device)) is True
    assert [10, 20, 30][im.asarray(1, device=device)] == 20
    assert type(im.asarray(1.5, dtype="bfloat16", device=device).item()) is float
    assert type(im.asarray(3, dtype="int4", device=device).item()) is int
    assert im.asarray([[1, 2]], device=device).tolist() == [[1, 2]]


@pytest.mark.parametrize("convert", [bool, int, float, complex])
def test_only_one_element_becomes_a_scalar(convert: type, device: im.Device) -> None:
    with pytest.raises(im.ShapeError, match="has 2 elements"):
        convert(im.ones(2, device=device))


def test_iteration_and_length(device: im.Device) -> None:
    x = im.asarray([[1, 2], [3, 4], [5, 6]], device=device)
    assert [r.tolist() for r in x] == [[1, 2], [3, 4], [5, 6]]
    assert len(x) == 3
    assert list(im.zeros((0, 2), device=device)) == []
    with pytest.raises(TypeError, match="0-d tensor has no length"):
        len(im.asarray(1, device=device))


def test_a_tensor_is_no_dictionary_key() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(im.ones(1))


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_a_pickled_tensor_comes_back_whole(dtype: im.DType, device: im.Device) -> None:
    x = im.asarray(np.array([[0, 1], [1, 0]]).astype(dtype.numpy), device=device)
    back = pickle.loads(pickle.dumps(x))
    assert (back.dtype, back.device, back.shape) == (dtype, device, (2, 2))
    assert back.numpy().tobytes() == x.numpy().tobytes()


def test_text_names_values_dtype_and_device(device: im.Device) -> None:
    assert repr(im.asarray([1.0, 2.5], device=device)) == f"Tensor([1. , 2.5], dtype=float32, device={device})"
    assert repr(im.zeros((2, 0), device=device)) == f"Tensor([], shape=(2, 0), dtype=float32, device={device})"
    assert "..." in repr(im.arange(10_000, device=device))


def test_numpy_operators_leave_the_work_to_the_tensor_or_refuse(device: im.Device) -> None:
    x = im.ones(2, device=device)
    with pytest.raises(im.DeviceMismatchError, match=r"numpy.ndarray. Bring it in first with im.asarray"):
        x + np.ones(2)
    with pytest.raises(im.DeviceMismatchError, match="does not mix"):
        np.ones(2) + x


def test_operators_leave_strangers_to_answer() -> None:
    class Stranger:
        def __radd__(self, other: object) -> str:
            return "mine"

    assert im.ones(2) + Stranger() == "mine"
    with pytest.raises(TypeError, match="unsupported operand"):
        im.ones(2) + object()


def test_methods_are_the_functions(device: im.Device) -> None:
    x = im.asarray([[4.0, 1.0], [2.0, 3.0]], device=device)
    assert x.sum(axis=0).tolist() == [6.0, 4.0]
    assert x.reshape((4,)).sort().tolist() == [1.0, 2.0, 3.0, 4.0]
    assert x.mean().item() == 2.5
    assert x.astype("int8").dtype is im.int8
    assert x.T.tolist() == x.mT.tolist() == [[4.0, 2.0], [1.0, 3.0]]
    assert x.argmax().item() == 0
    assert x.mean(0).tolist() == x.mean(axis=0).tolist() == [3.0, 2.0]
    assert x.reshape(1, -1).shape == x.reshape((1, 4)).shape == (1, 4)
    assert x.reshape(1, 4).squeeze().shape == (4,)
    assert x.permute_dims(1, 0).tolist() == x.permute_dims((1, 0)).tolist() == x.T.tolist()
    assert (x.real == x).all()


@given(st.lists(st.floats(width=32), max_size=5), st.floats(width=32))
def test_the_short_way_and_the_public_function_agree(values: list[float], scalar: float) -> None:
    x = im.asarray(np.asarray(values, np.float32))
    with np.errstate(all="ignore"):
        for name, function in (
            ("add", operator.add),
            ("multiply", operator.mul),
            ("less", operator.lt),
            ("divide", operator.truediv),
        ):
            np.testing.assert_array_equal(function(x, x).numpy(), getattr(im, name)(x, x).numpy())
            np.testing.assert_array_equal(function(x, scalar).numpy(), getattr(im, name)(x, scalar).numpy())


def test_places_are_made_once_when_many_threads_ask() -> None:
    results: list[im.Tensor] = []
    threads = [
        threading.Thread(target=lambda: results.append(im.ones(2, dtype="uint32") + im.ones(2, dtype="uint32")))
        for _ in range(16)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({id(r._place) for r in results}) == 1
    assert all(r.tolist() == [2, 2] for r in results)
