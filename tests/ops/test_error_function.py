"""The error function and its complement: exact in both tails, by the native and by the decomposition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import intermodal as im
from intermodal.ops import TABLE

X = np.concatenate([np.linspace(-6, 6, 2401), np.linspace(6, 26, 401), [0.46875, 4.0, -0.46875, -4.0]])
WAYS: list[Any] = [pytest.param(im.erfc, id="public"), pytest.param(TABLE["erfc"].decompose, id="decomposed")]


@pytest.mark.parametrize("erfc", WAYS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_complement_is_exact_where_it_is_nearly_zero(device: im.Device, erfc: Callable[..., im.Tensor], dtype: str) -> None:
    x = X.astype(dtype)
    want = special.erfc(x.astype(np.float64))
    info = np.finfo(dtype)
    # An operand off by half a rounding moves erfc(x) by about 2 * x**2 + 2 roundings of itself; the formula makes sixteen more.
    allowed = (2 * x.astype(np.float64) ** 2 + 18) * info.eps * np.abs(want) + info.smallest_subnormal
    allowed += np.where(want < info.smallest_normal, info.smallest_normal, 0)  # subnormal numbers have fewer bits
    got = erfc(im.asarray(x, device=device)).numpy().astype(np.float64)
    assert (np.abs(got - want) <= allowed).all()


@pytest.mark.parametrize("erfc", WAYS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_edges_of_the_complement(device: im.Device, erfc: Callable[..., im.Tensor], dtype: str) -> None:
    x = im.asarray([np.inf, -np.inf, np.nan, 0.0, -0.0, 300.0, -300.0], dtype=dtype, device=device)
    np.testing.assert_array_equal(erfc(x).numpy().astype(np.float64), [0.0, 2.0, np.nan, 1.0, 1.0, 0.0, 2.0])
    assert erfc(x).dtype is x.dtype
    assert erfc(im.zeros((2, 0), dtype=dtype, device=device)).shape == (2, 0)


def test_the_error_function_is_exact_near_zero_and_at_one(device: im.Device) -> None:
    x = np.concatenate([X, np.geomspace(1e-300, 1e-3, 50)])
    got = im.erf(im.asarray(x, device=device)).numpy()
    np.testing.assert_allclose(got, special.erf(x), rtol=4 * np.finfo(np.float64).eps, atol=0)
    assert im.erf(im.asarray([np.inf, -np.inf], device=device)).tolist() == [1.0, -1.0]
    assert np.isnan(im.erf(im.asarray([np.nan], device=device)).numpy()).all()
