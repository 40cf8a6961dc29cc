"""The rules that ops on matrices and vectors share. No rows live here."""

from __future__ import annotations

from intermodal import config, dtypes
from intermodal.dtypes import DType
from intermodal.errors import AxisError, ShapeError
from intermodal.ops import rules
from intermodal.ops.rules import INEXACT
from intermodal.ops.table import Infer, Inferred, Spec

__all__ = ["common_axis", "of_square", "require_matrix", "to_inexact"]


def require_matrix(x: Spec, *, square: bool = False, of: str = "the input") -> None:
    """Refuse a tensor whose last two axes are no matrices, or no square ones."""
    if x.ndim < 2:
        raise ShapeError(f"{of} has shape {x.shape}, which has no matrices. At least two axes are needed.")
    if square and x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"{of} has shape {x.shape}: its matrices are {x.shape[-2]} by {x.shape[-1]}. The last two sizes must be equal."
        )


def to_inexact(dtype: DType, kinds: frozenset[str] = INEXACT) -> DType:
    """The dtype in which linear algebra and Fourier transforms compute: float64 for integers of every width, as in NumPy."""
    wide = dtypes.float64 if dtype.is_integer and config.promotion.get() != "strict" else dtype
    return rules.require(wide, kinds)


def common_axis(first: int, second: int, axis: object) -> int:
    """An axis of two tensors of so many dimensions, counted from the back, as broadcasting counts."""
    index, common = rules.integer(axis, "axis"), min(first, second)
    if index >= 0 and first == second:
        index -= first
    if not -common <= index < 0:
        allowed = f"it must lie in [-{common}, -1], counted from the back" if common else "a 0-d tensor has no axes"
        raise AxisError(f"axis {axis} is not an axis of both tensors, which have {first} and {second} dimensions: {allowed}.")
    return index


def of_square(*results: str) -> Infer:
    """The rule of an op on square matrices.

    Args:
        results: for each result its form (``matrix``, ``vector``, ``number``) and, after a colon, ``real`` or
            ``complex`` where its dtype is not the input's.
    """

    def infer(x: Spec, **attrs: object) -> Inferred:
        require_matrix(x, square=True)
        dtype = to_inexact(x.dtype)
        return Inferred(tuple(_part(x, dtype, *r.split(":")) for r in results), attrs, dtype)

    return infer


def _part(x: Spec, dtype: DType, form: str, kind: str = "same") -> Spec:
    shape = {"matrix": x.shape, "vector": x.shape[:-1], "number": x.shape[:-2]}[form]
    return Spec(shape, {"same": dtype, "real": dtype.component, "complex": dtype.as_complex}[kind])
