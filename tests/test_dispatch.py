from __future__ import annotations

import numpy as np
import pytest

import intermodal as im
from intermodal import backend, config, dispatch
from intermodal.engines.numpy import NumpyBackend
from intermodal.ops.table import TABLE
from intermodal.places import place_of


@pytest.fixture
def empty_cache() -> None:
    dispatch._inferred.clear()


@pytest.mark.usefixtures("empty_cache")
def test_answers_of_rules_are_kept_up_to_the_limit() -> None:
    with config.scope(infer_cache=3):
        for n in range(1, 10):
            im.sum(im.ones(n))
            assert len(dispatch._inferred) <= 3
    assert len(dispatch._inferred) == 3


@pytest.mark.usefixtures("empty_cache")
def test_a_limit_of_zero_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERMODAL_INFER_CACHE", "0")
    assert im.sum(im.ones(3)).item() == 3
    assert dispatch._inferred == {}
    monkeypatch.setenv("INTERMODAL_INFER_CACHE", "-1")
    with pytest.raises(im.InvalidValueError, match="INTERMODAL_INFER_CACHE: -1 is negative"):
        im.sum(im.ones(4))


@pytest.mark.usefixtures("empty_cache")
def test_an_answer_that_depends_on_a_setting_is_not_kept() -> None:
    x, y = im.ones(2, dtype="int32"), im.ones(2, dtype="float32")
    assert im.add(x, y).dtype is im.float64
    with config.scope(promotion="strict"), pytest.raises(im.DTypeError):
        im.add(x, y)
    assert im.add(x, y).dtype is im.float64


@pytest.mark.usefixtures("empty_cache")
def test_equal_attributes_of_other_types_are_other_questions() -> None:
    x = im.arange(6)
    assert im.reshape(x, (2, 3)).shape == (2, 3)
    with pytest.raises(im.InvalidValueError, match=r"not 2\.0"):
        im.reshape(x, (2.0, 3))  # type: ignore[arg-type]
    assert not np.signbit(im.pad(im.ones(1), ((1, 1),), value=0.0).numpy()[0])
    assert np.signbit(im.pad(im.ones(1), ((1, 1),), value=-0.0).numpy()[0])


@pytest.mark.usefixtures("empty_cache")
def test_equal_scalars_of_other_types_are_other_questions() -> None:
    x, mask = im.asarray([1, 2]), im.asarray([True, False])
    assert im.where(mask, x, 1).dtype is im.int64
    assert im.where(mask, x, 1.0).dtype is im.float64
    assert im.where(mask, x, True).dtype is im.int64
    assert im.sum(im.ones((2, 3)), axis=1).shape == (2,)
    with pytest.raises(im.InvalidValueError, match="axis must be an integer, not True"):
        im.sum(im.ones((2, 3)), axis=True)


def test_an_engine_that_is_taken_out_leaves_no_place_behind() -> None:
    class Twin(NumpyBackend):
        engine = "twin"

        def devices(self) -> tuple[im.Device, ...]:
            return (im.Device("twin:cpu"),)

    backend.register("twin", Twin)
    assert (im.ones(2, device="twin") + 1).tolist() == [2.0, 2.0]
    assert "twin" in backend.engines()
    with pytest.raises(im.DeviceError, match="registered already"):
        backend.register("twin", Twin)
    with pytest.raises(im.DeviceMismatchError, match=r"x\.to\('twin:cpu'\)"):
        im.ones(2, device="twin") + im.ones(2)
    backend.unregister("twin")
    with pytest.raises(im.DeviceError, match="no engine 'twin'"):
        im.ones(2, device="twin")


def test_an_op_that_takes_a_device_moves_its_operand_there() -> None:
    x = im.arange(3)
    assert im.astype(x, "float32", device="meta").device == "meta:cpu"
    assert im.zeros_like(x, device="meta").device == "meta:cpu"
    with pytest.raises(im.NoDataError):
        im.astype(im.zeros(3, device="meta"), "int8", device="numpy")


def test_the_short_way_is_taken_only_where_the_rule_allows() -> None:
    place = place_of("numpy:cpu", im.float32)
    assert place.add is np.add
    for dtype, refused in ((im.bool, "add"), (im.int32, "divide"), (im.float32, "bitwise_and"), (im.complex64, "less")):
        with pytest.raises(im.UnsupportedError):
            getattr(place_of("numpy:cpu", dtype), refused)(1, 1)
    with pytest.raises(im.UnsupportedError):  # an engine that records instead of computing is never passed by
        place_of("meta:cpu", im.float32).add(1, 1)


def test_the_operators_name_ops_of_the_table() -> None:
    from intermodal.tensor import ARITHMETIC, COMPARISONS, UNARY

    assert {*ARITHMETIC, *COMPARISONS, *UNARY} <= set(TABLE)


@pytest.mark.parametrize("name", ["add", "exp", "isnan", "matmul"])
def test_the_meta_device_answers_as_numpy_without_data(name: str) -> None:
    x = im.ones((2, 2), device="meta")
    operands = (x, x)[: len(TABLE[name].tensor_params)]
    got = getattr(im, name)(*operands)
    real = getattr(im, name)(*[im.ones((2, 2))] * len(operands))
    assert (got.shape, got.dtype, got.device) == (real.shape, real.dtype, "meta:cpu")
