from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import intermodal as im
from intermodal import dtypes

ANY_DTYPE = st.sampled_from(dtypes.ALL)
# The lattice of the Array API standard, written out: what NumPy's result_type gives inside each kind.
STANDARD_PAIRS = [(a, b) for a in dtypes.STANDARD for b in dtypes.STANDARD]


def test_there_are_thirteen_standard_dtypes_and_six_more() -> None:
    assert len(dtypes.STANDARD) == 13
    assert [d.name for d in dtypes.ALL if not d.is_standard] == [
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "int4",
        "uint4",
    ]


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_a_dtype_is_found_by_its_name_its_numpy_dtype_and_itself(dtype: im.DType) -> None:
    assert dtypes.as_dtype(dtype.name) is dtype
    assert dtypes.as_dtype(dtype.numpy) is dtype
    assert dtypes.as_dtype(dtype) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype


@pytest.mark.parametrize("wrong", ["float31", "f8", object(), "O", np.dtype("U3"), None])
def test_what_is_no_dtype_is_refused_with_the_list_of_names(wrong: object) -> None:
    with pytest.raises(im.DTypeError, match="bfloat16"):
        dtypes.as_dtype(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("a", "b"), STANDARD_PAIRS, ids=str)
def test_promotion_of_standard_dtypes_is_numpys(a: im.DType, b: im.DType) -> None:
    assert dtypes.promote(a, b).numpy == np.result_type(a.numpy, b.numpy)


@given(ANY_DTYPE, ANY_DTYPE)
def test_promotion_does_not_depend_on_the_order(a: im.DType, b: im.DType) -> None:
    assert dtypes.promote(a, b) is dtypes.promote(b, a)


@given(ANY_DTYPE)
def test_a_dtype_promotes_to_itself(a: im.DType) -> None:
    assert dtypes.promote(a, a) is a


@given(ANY_DTYPE, ANY_DTYPE)
def test_what_promotes_holds_both(a: im.DType, b: im.DType) -> None:
    joint = dtypes.promote(a, b)
    assert dtypes.promote(joint, a) is joint
    assert dtypes.promote(joint, b) is joint


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("bfloat16", "float16", "float32"),
        ("bfloat16", "float32", "float32"),
        ("bfloat16", "int8", "bfloat16"),
        ("bfloat16", "int32", "float64"),
        ("bfloat16", "bool", "bfloat16"),
        ("bfloat16", "complex64", "complex64"),
        ("float8_e4m3fn", "float8_e5m2", "float16"),
        ("float8_e4m3fn", "bfloat16", "bfloat16"),
        ("float8_e5m2", "float16", "float16"),
        ("int4", "uint4", "int8"),
        ("int4", "int8", "int8"),
        ("uint4", "int8", "int8"),
        ("uint4", "uint8", "uint8"),
        ("int4", "uint8", "int16"),
        ("int4", "float32", "float32"),
    ],
)
def test_small_dtypes_promote_as_their_range_asks(a: str, b: str, expected: str) -> None:
    assert dtypes.promote(dtypes.as_dtype(a), dtypes.as_dtype(b)).name == expected


@pytest.mark.parametrize(
    ("dtype", "scalar", "expected"),
    [("float32", 1, "float32"), ("float32", 1.5, "float32"), ("float32", 1j, "complex64"), ("int8", 1, "int8"), ("int8", True, "int8"), ("int8", 1.5, "float64"), ("bool", 1, "int64"), ("bfloat16", 2.0, "bfloat16"), ("float64", 1j, "complex128")],
)  # fmt: skip
def test_a_python_scalar_takes_the_tensors_dtype_unless_its_kind_is_higher(dtype: str, scalar: complex, expected: str) -> None:
    assert im.result_type(dtype, scalar).name == expected


def test_limits_are_python_scalars() -> None:
    for dtype in (im.float16, im.bfloat16, im.float32, im.float64, im.float8_e4m3fn, im.complex64):
        info = im.finfo(dtype)
        assert type(info.max) is float
        assert info.max == float(ml_dtypes.finfo(dtype.component.numpy).max)
    assert im.iinfo("int4")[:3] == (4, 7, -8)
    assert im.iinfo(im.asarray([1], dtype="uint16")).max == 65535


@pytest.mark.parametrize(("dtype", "kind", "answer"), [("bool", "bool", True), ("int8", "integral", True), ("uint8", "signed integer", False), ("float16", "real floating", True), ("complex64", "numeric", True), ("bool", "numeric", False)])  # fmt: skip
def test_isdtype_knows_the_kinds(dtype: str, kind: str, answer: bool) -> None:
    assert im.isdtype(dtype, kind) is answer
    assert im.isdtype(dtype, (kind, "complex floating")) is (answer or dtype.startswith("complex"))


def test_isdtype_refuses_an_unknown_kind_by_name() -> None:
    with pytest.raises(im.DTypeError, match="'numbers' is neither a dtype nor a kind"):
        im.isdtype("int8", "numbers")
