"""What the tables of both libraries share: a row, and how its result on Tensors is held against its result on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

import intermodal as im
from intermodal import dtypes

Kind = Literal["tensor", "numpy", "number"]
Returns = Kind | Mapping[str, Kind]
NUMBERS = (bool, int, float, complex)
STEPS = {"n_iter_", "nit", "nfev", "njev"}
"""How many steps an iteration takes hangs on single roundings: their number is not compared."""


OWN_VALUES = {
    "LinearDiscriminantAnalysis": "the sign of a singular vector is the engine's choice",
    "differentiate.jacobian": "differences of neighbours multiply the last roundings, which are the engine's own",
    "differentiate.hessian": "differences of neighbours multiply the last roundings, which are the engine's own",
}
"""Rows whose values are compared on NumPy alone, and why; kind, device, dtype and shape are compared everywhere."""


@dataclass(frozen=True)
class Row:
    """One function of a library and the names of its inputs."""

    name: str
    call: Callable[..., Any]
    inputs: tuple[Any, ...]
    keywords: Mapping[str, Any]
    returns: Returns = "tensor"
    """What the parts of the result are; a mapping names those that are no tensors."""
    dtypes: tuple[str, ...] = ("float64", "float32")
    minimised: bool = False
    """Whether the result is where a minimiser stopped."""
    in_default_float: bool = False
    """Whether the library makes an array of the namespace's default dtype here; the test then sets it to the data's."""

    def run(self, data: Mapping[str, Any]) -> Any:
        """The result; text among the inputs is the name of one, a tuple holds inputs, anything else is itself."""
        return self.call(*_filled(self.inputs, data), **self.keywords)

    def tolerance(self, dtype: str) -> float:
        """How far two results may lie apart, relative to their largest value.

        An algorithm of at most 1024 steps is off by one rounding in each. L-BFGS stops where the function changes by
        less than 64 roundings; a smooth function is flat at its minimum, so the place is known to the square root of that.
        """
        rounding = float(np.finfo(dtype).eps)
        return (64 * rounding) ** 0.5 if self.minimised else 1024 * rounding

    def kind_of(self, part: str, reference: Any) -> Kind:
        """What a part of the result should be; where NumPy arrays give a Python number, Tensors give one too."""
        if type(reference) in NUMBERS:
            return "number"
        return self.returns if isinstance(self.returns, str) else self.returns.get(part, "tensor")


def _filled(given: Any, data: Mapping[str, Any]) -> Any:
    return tuple(_filled(g, data) for g in given) if type(given) is tuple else data[given] if type(given) is str else given


def parts(result: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The arrays and numbers in a result, each with where it stands."""
    if isinstance(result, Mapping):
        members = list(result.items())
    elif isinstance(result, (tuple, list)):
        members = list(zip(getattr(result, "_fields", range(len(result))), result, strict=True))
    elif type(result).__module__.startswith("scipy."):  # a result with methods of its own
        members = [(name, value) for name, value in vars(result).items() if not name.startswith("_")]
    else:
        members = []
        if isinstance(result, (im.Tensor, np.ndarray, np.generic, *NUMBERS)):
            yield path, result
    for name, value in members:
        yield from parts(value, f"{path}.{name}".lstrip("."))


def kind(value: Any) -> Kind:
    """Whose a value is."""
    if type(value) is im.Tensor:
        return "tensor"
    return "number" if type(value) in NUMBERS else "numpy"


def defaults(row: Row, dtype: str) -> AbstractContextManager[None]:
    """The settings in which a row runs."""
    return im.config.scope(default_float=dtype) if row.in_default_float else nullcontext()


def compare(row: Row, result: Any, reference: Any, device: im.Device, dtype: str) -> None:
    """Hold a result against NumPy's: the same parts, of the kind the row says, on the device, with the same values."""
    found, expected = dict(parts(result)), dict(parts(reference))
    assert found, "nothing to compare"
    assert {p: kind(v) for p, v in found.items()} == {p: row.kind_of(p, v) for p, v in expected.items()}
    for part, value in found.items():
        wanted = np.asarray(expected[part])
        if type(value) is im.Tensor:
            assert value.device is device, part
            assert _alike(value.dtype, dtypes.as_dtype(wanted.dtype), dtypes.as_dtype(dtype)), f"{part}: {value.dtype}"
        given = np.asarray(value)
        assert given.shape == wanted.shape, part
        if part in STEPS or (row.name in OWN_VALUES and device != "numpy:cpu"):
            continue
        if wanted.dtype.kind in "biu":
            np.testing.assert_array_equal(given, wanted, err_msg=part)
        else:
            assert wanted.size == 0 or np.isfinite(wanted).any(), f"{part} says nothing"
            scale = np.max(np.abs(wanted), where=np.isfinite(wanted), initial=1.0)  # the inputs are of the order of one
            np.testing.assert_allclose(given, wanted, rtol=0, atol=row.tolerance(dtype) * scale, err_msg=part)


def _alike(found: im.DType, reference: im.DType, data: im.DType) -> bool:
    """The same kind, and no less precise than NumPy's result or the data: of float32 arrays NumPy makes float64 scalars."""
    if not found.is_inexact:
        return found.kind == reference.kind
    return found is reference or (found.kind == reference.kind and found.component is data)


def cases(groups: Mapping[str, list[Row]]) -> list[tuple[Row, str]]:
    """Each row with each of its dtypes."""
    return [(row, dtype) for rows in groups.values() for row in rows for dtype in row.dtypes]


def xfail(row: Row, reason: str, raises: type[Exception], dtype: str = "float64") -> Any:
    """A row that the library's own code keeps from working."""
    return pytest.param(row, dtype, marks=pytest.mark.xfail(reason=reason, raises=raises))


def case_name(value: object) -> str:
    return value.name if isinstance(value, Row) else str(value)
