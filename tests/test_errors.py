"""Thirty-odd wrong calls: each raises the built-in that fits, and its message names the op, the values and the way out."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable

import numpy as np
import pytest

import intermodal as im
from intermodal import errors


def f(*shape: int, dtype: str = "float32") -> im.Tensor:
    return im.ones(shape, dtype=dtype)


WRONG: list[tuple[Callable[[], object], type[Exception], list[str]]] = [
    (lambda: f(3, 4) @ f(5, 6), ValueError, ["matmul: cannot multiply (3, 4) by (5, 6)", "inner sizes 4 and 5 differ"]),
    (lambda: f() @ f(2), ValueError, ["matmul:", "0-d", "Use im.multiply"]),
    (lambda: f(2) + f(3), ValueError, ["add: cannot broadcast shapes (2,), (3,)", "sizes 2 and 3 at axis -1", "equal or 1"]),
    (lambda: im.add(f(2), [1, 2]), TypeError, ["add: x2 must be a tensor or a Python scalar, not list", "im.asarray", "add(x1, x2, /)"]),
    (lambda: im.add(1, 2), TypeError, ["add: at least one operand must be a tensor", "im.asarray"]),
    (lambda: im.sum(f(2), axes=0), TypeError, ["sum: got an unexpected keyword argument 'axes'", "sum(x, /, *, axis=None, dtype=None, keepdims=False)"]),
    (im.sum, TypeError, ["sum: missing 1 required positional argument: 'x'", "The signature is"]),
    (lambda: im.sum(f(2, 3), axis=2), IndexError, ["sum: axis 2 is out of range for 2 dimensions", "[-2, 1]"]),
    (lambda: im.sum(f(2, 3), axis=(0, -2)), ValueError, ["sum: axis (0, -2) names an axis twice"]),
    (lambda: im.mean(f(2), axis="0"), ValueError, ["mean: axis must be an integer, not '0'"]),
    (lambda: im.reshape(f(2, 3), (4, 2)), ValueError, ["reshape:", "(2, 3) has 6 elements", "(4, 2) needs 8", "Use -1"]),
    (lambda: im.reshape(f(2, 3), (-1, -1)), ValueError, ["reshape: shape (-1, -1) is not valid", "One size may be -1"]),
    (lambda: im.permute_dims(f(2, 3), (0,)), ValueError, ["permute_dims: axes (0,) name 1 of the 2 axes"]),
    (lambda: im.squeeze(f(2, 1), 0), ValueError, ["squeeze: axis 0 of shape (2, 1) has size 2"]),
    (lambda: im.concat([f(2, 3), f(2, 4)]), ValueError, ["concat: shapes (2, 3) and (2, 4) differ in more than axis 0"]),
    (lambda: im.concat([]), ValueError, ["concat: there is nothing to join"]),
    (lambda: im.stack([f(2), f(3)]), ValueError, ["stack: shapes (2,) and (3,) differ"]),
    (lambda: im.max(f(0)), ValueError, ["max:", "(0,) has no elements", "Test the size first"]),
    (lambda: im.argmin(f(2, 0), axis=1), ValueError, ["argmin:", "no elements along axis 1"]),
    (lambda: im.bitwise_and(f(2), f(2)), TypeError, ["bitwise_and: the input has dtype float32", "im.astype(x, im.int64)"]),
    (lambda: im.less(f(2, dtype="complex64"), 1.0), TypeError, ["less: the input has dtype complex64", "real floating"]),
    (lambda: im.imag(f(2)), TypeError, ["imag: the input has dtype float32", "complex floating"]),
    (lambda: im.astype(f(2, dtype="complex64"), "float32"), TypeError, ["astype: complex64 does not convert to float32", "x.real"]),
    (lambda: im.astype(f(2), "float31"), TypeError, ["'float31' is not a dtype", "bfloat16"]),
    (lambda: im.zeros((2, -1)), ValueError, ["shape (2, -1) has a negative size"]),
    (lambda: im.full((2,), 1.5, dtype="int8"), TypeError, ["full: the value 1.5 does not fit int8"]),
    (lambda: im.arange(0, 10, 0), ValueError, ["arange: step must not be 0"]),
    (lambda: im.take(f(3), im.asarray([3])), IndexError, ["take:", "[-3, 2]"]),
    (lambda: im.take(f(3), im.asarray([0.0])), TypeError, ["take: indices has dtype float32"]),
    (lambda: im.where(f(2), f(2), f(2)), TypeError, ["where: the condition has dtype float32", "bool"]),
    (lambda: f(2) + im.zeros(2, device="meta"), ValueError, ["add: one tensor is on numpy:cpu, another on meta:cpu", "x.to('numpy:cpu')"]),
    (lambda: f(2) * np.ones(2), ValueError, ["numpy.ndarray", "im.asarray"]),
    (lambda: im.ones(2, dtype="uint8") - 256, ValueError, ["subtract: the integer 256 does not fit uint8", "[0, 255]"]),
    (lambda: im.clip(im.arange(3), 0.5), TypeError, ["clip: min 0.5 does not fit the input's dtype int64"]),
    (lambda: im.sort(f(2), axis=1), IndexError, ["sort: axis 1 is out of range for 1 dimension:"]),
    (lambda: im.searchsorted(f(2, 2), f(2)), ValueError, ["searchsorted: x1 has shape (2, 2)", "1-d"]),
    (lambda: f(2, 3, 4).T, ValueError, ["transpose: .T is the transpose of a matrix", "(2, 3, 4)", ".mT"]),
    (lambda: im.nonzero(f()), ValueError, ["nonzero: a 0-d tensor has no axes"]),
    (lambda: im.repeat(f(3), im.asarray([1, 2])), ValueError, ["repeat: repeats has shape (2,)", "3 elements"]),
    (lambda: im.pad(f(3), 3, mode="reflect"), ValueError, ["pad: pad_width (3, 3) is too wide to reflect an axis of size 3"]),
    (lambda: im.linspace(0, 1, -1), ValueError, ["linspace: num -1 must be 0 or more"]),
    (lambda: im.nonzero(im.zeros(3, device="meta")), NotImplementedError, ["nonzero:", "depends on the data"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "builtin", "parts"), WRONG, ids=[p[2][0].partition(":")[0] + f"-{i}" for i, p in enumerate(WRONG)]
)
def test_a_wrong_call_says_what_happened_and_what_to_write(
    call: Callable[[], object], builtin: type[Exception], parts: list[str]
) -> None:
    with pytest.raises(im.IntermodalError) as caught:
        call()
    assert isinstance(caught.value, builtin)
    for part in parts:
        assert part in str(caught.value)
    assert str(caught.value).rstrip().endswith((".", ")")) or ". " in str(caught.value)


def test_there_are_at_least_thirty_wrong_calls() -> None:
    assert len(WRONG) >= 30


def test_the_drawn_tree_is_the_real_one() -> None:
    tree = (errors.__doc__ or "").partition("::")[2].partition("Each is also")[0]
    drawn = dict(re.findall(r"(\w+Error) *(?:\(([\w, ]+)\))?", tree))
    assert sorted(drawn) == errors.__all__
    for name, bases in drawn.items():
        error = getattr(errors, name)
        assert issubclass(error, im.IntermodalError)
        assert all(issubclass(error, getattr(builtins, base)) for base in bases.replace(" ", "").split(",") if base)


def test_an_engines_own_error_is_chained(monkeypatch: pytest.MonkeyPatch) -> None:
    from intermodal.backend import backend_of
    from intermodal.places import place_of

    def fails(x: object) -> object:
        raise FloatingPointError("the unit is on fire")

    place = place_of("numpy:cpu", im.float32)
    monkeypatch.setitem(place.natives, "sin", fails)
    monkeypatch.setitem(place.short, "sin", (fails, place))
    with pytest.raises(
        im.ExecutionError, match=r"sin: numpy failed to compute a result of shape \(2,\) and dtype float32: the unit is on fire"
    ) as caught:
        im.sin(im.ones(2))
    assert isinstance(caught.value.__cause__, FloatingPointError)
    assert caught.value.reason == "the unit is on fire"
    assert backend_of("numpy") is place.backend


def test_no_memory_is_a_memory_error_with_the_size() -> None:
    with pytest.raises(
        im.OutOfMemoryError, match=r"full: numpy has no memory for a result of shape \(1099511627776, 1048576\)"
    ) as caught:
        im.zeros((2**40, 2**20))
    assert isinstance(caught.value, MemoryError)
