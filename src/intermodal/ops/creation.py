"""Creation: tensors from a shape, a range or another tensor's form."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from intermodal import config, dtypes
from intermodal.dtypes import DType, DTypeLike, Scalar
from intermodal.errors import DTypeError, InvalidValueError, ShapeError
from intermodal.ops import rules
from intermodal.ops.derivatives import CONSTANT
from intermodal.ops.rules import ANY
from intermodal.ops.table import Inferred, Shape, Spec, op, primitive, public_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intermodal.devices import Device, DeviceLike
    from intermodal.tensor import Tensor


def default_dtype(value: object) -> DType:
    """The dtype that a Python scalar has by itself."""
    if isinstance(value, bool):
        return dtypes.bool_
    if isinstance(value, int):
        return dtypes.int64
    if isinstance(value, complex):
        return config.default_float.get().as_complex
    return config.default_float.get()


def _scalar(value: object, name: str) -> Scalar:
    if hasattr(value, "item") and not isinstance(value, (bool, int, float, complex)):
        value = value.item()
    if not isinstance(value, (bool, int, float, complex)):
        raise InvalidValueError(f"{name} must be a Python scalar, not {value!r}.")
    return value


def _fits(value: Scalar, dtype: DType) -> Scalar:
    if dtype.is_integer:
        if isinstance(value, (float, complex)):
            raise DTypeError(f"the value {value!r} does not fit {dtype}. Give an integer, or a floating dtype.")
        rules.check_integer(int(value), dtype)
    return rules.as_scalar(value, dtype)


def _infer_full(*, shape: object, fill_value: object, dtype: DTypeLike | None, device: Device) -> Inferred:
    sizes, value = rules.shape(shape), _scalar(fill_value, "fill_value")
    chosen = default_dtype(value) if dtype is None else dtypes.as_dtype(dtype)
    return Inferred(
        (Spec(sizes, chosen),), {"shape": sizes, "fill_value": _fits(value, chosen), "dtype": chosen, "device": device}
    )


@primitive(infer=_infer_full, movement=True, vjp=CONSTANT)
def full(
    shape: int | Sequence[int],
    fill_value: bool | complex,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """A tensor of one value.

    Example:
        >>> import intermodal as im
        >>> im.full((2, 2), 7)
        Tensor([[7, 7],
                [7, 7]], dtype=int64, device=numpy:cpu)
    """


@op(movement=True, vjp=CONSTANT)
def zeros(shape: int | Sequence[int], *, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """A tensor of zeros."""
    return full(shape, 0, dtype=config.default_float.get() if dtype is None else dtype, device=device)


@op(movement=True, vjp=CONSTANT)
def ones(shape: int | Sequence[int], *, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """A tensor of ones."""
    return full(shape, 1, dtype=config.default_float.get() if dtype is None else dtype, device=device)


def _infer_empty(*, shape: object, dtype: DTypeLike | None, device: Device) -> Inferred:
    sizes = rules.shape(shape)
    chosen = config.default_float.get() if dtype is None else dtypes.as_dtype(dtype)
    return Inferred((Spec(sizes, chosen),), {"shape": sizes, "dtype": chosen, "device": device})


@op(infer=_infer_empty, movement=True, vjp=CONSTANT)
def empty(shape: int | Sequence[int], *, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """A tensor whose elements are not set yet."""
    return full(shape, 0, dtype=dtype, device=device)


@op(movement=True)
def full_like(
    x: Tensor, /, fill_value: bool | complex, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor of one value with another's shape, dtype and device."""
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=device)


@op(movement=True)
def zeros_like(x: Tensor, /, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """Zeros with another's shape, dtype and device."""
    return full_like(x, 0, dtype=dtype, device=device)


@op(movement=True)
def ones_like(x: Tensor, /, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """Ones with another's shape, dtype and device."""
    return full_like(x, 1, dtype=dtype, device=device)


@op(movement=True)
def empty_like(x: Tensor, /, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """A tensor that is not set yet, with another's shape, dtype and device."""
    return empty(x.shape, dtype=x.dtype if dtype is None else dtype, device=device)


def _infer_arange(*, start: object, stop: object, step: object, dtype: DTypeLike | None, device: Device) -> Inferred:
    first, last, by = (0, start, step) if stop is None else (start, stop, step)
    first, last, by = _scalar(first, "start"), _scalar(last, "stop"), _scalar(by, "step")
    if isinstance(first, complex) or isinstance(last, complex) or isinstance(by, complex):
        raise InvalidValueError("start, stop and step must be real numbers.")
    if by == 0:
        raise InvalidValueError("step must not be 0.")
    all_int = not any(isinstance(v, float) for v in (first, last, by))
    chosen = default_dtype(0 if all_int else 0.0) if dtype is None else dtypes.as_dtype(dtype)
    rules.require(chosen, rules.REAL, of="the range")
    if all_int:
        n = max(0, -((int(first) - int(last)) // int(by)))
        for value in (int(first), int(first) + (n - 1) * int(by)) if n and chosen.is_integer else ():
            rules.check_integer(value, chosen)
    else:
        if not all(map(math.isfinite, (first, last, by))):
            raise InvalidValueError(f"start {first}, stop {last} and step {by} must be finite.")
        n = max(0, math.ceil((last - first) / by))
    return Inferred((Spec((n,), chosen),), {"start": first, "stop": last, "step": by, "dtype": chosen, "device": device})


@primitive(infer=_infer_arange, vjp=CONSTANT)
def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """Evenly spaced numbers from start up to, not including, stop.

    Example:
        >>> import intermodal as im
        >>> im.arange(1, 7, 2)
        Tensor([1, 3, 5], dtype=int64, device=numpy:cpu)
    """


def _infer_linspace(
    *, start: object, stop: object, num: object, dtype: DTypeLike | None, endpoint: bool, device: Device
) -> Inferred:
    first, last, n = _scalar(start, "start"), _scalar(stop, "stop"), rules.integer(num, "num")
    if n < 0:
        raise InvalidValueError(f"num {n} must be 0 or more.")
    chosen = default_dtype(first + last + 0.0) if dtype is None else dtypes.as_dtype(dtype)
    rules.require(chosen, ANY, of="the range")
    return Inferred(
        (Spec((n,), chosen),),
        {"start": first, "stop": last, "num": n, "dtype": chosen, "endpoint": bool(endpoint), "device": device},
    )


@op(infer=_infer_linspace, vjp=CONSTANT)
def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    endpoint: bool = True,
) -> Tensor:
    """A number of evenly spaced numbers from start to stop, stop included unless endpoint is False."""
    chosen = dtypes.as_dtype(dtype) if dtype is not None else default_dtype(start + stop + 0.0)
    compute = chosen if chosen.is_inexact else dtypes.float64
    gaps = num - 1 if endpoint else num
    steps = astype(arange(num, dtype=dtypes.int64, device=device), compute)
    # Both ends are weighted, so the last number is exactly `stop` and the middle of a symmetric range exactly 0.
    weight = divide(steps, float(max(gaps, 1)))
    values = add(multiply(subtract(1.0, weight), start), multiply(weight, stop))
    if not chosen.is_inexact:
        values = floor(values)
    return values if values.dtype is chosen else astype(values, chosen)


def _infer_eye(*, n_rows: object, n_cols: object, k: int, dtype: DTypeLike | None, device: Device) -> Inferred:
    rows = rules.shape(n_rows, name="n_rows")[0]
    cols = rows if n_cols is None else rules.shape(n_cols, name="n_cols")[0]
    chosen = config.default_float.get() if dtype is None else dtypes.as_dtype(dtype)
    return Inferred(
        (Spec((rows, cols), chosen),),
        {"n_rows": rows, "n_cols": cols, "k": rules.integer(k, "k"), "dtype": chosen, "device": device},
    )


@op(infer=_infer_eye, movement=True, vjp=CONSTANT)
def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere."""
    rows = expand_dims(arange(n_rows, device=device), axis=1)
    cols = arange(n_rows if n_cols is None else n_cols, device=device)
    return astype(
        equal(subtract(cols, rows), _held(k, rows.shape[0], cols.shape[0])),
        config.default_float.get() if dtype is None else dtype,
    )


def _infer_triangle(x: Spec, *, k: object) -> Inferred:
    if x.ndim < 2:
        raise ShapeError(f"a tensor of shape {x.shape} has no matrices. At least two axes are needed.")
    return Inferred((x,), {"k": rules.integer(k, "k")})


def _held(k: int, rows: int, cols: int) -> int:
    """A diagonal's number, or that of the first one outside the matrix: no integer is too far off for a dtype."""
    return max(-rows, min(k, cols))


def _diagonal_offset(x: Tensor) -> Tensor:
    rows = expand_dims(arange(x.shape[-2], device=x.device), axis=1)
    return subtract(arange(x.shape[-1], device=x.device), rows)


def _zero_of(dtype: DType) -> Scalar:
    return rules.as_scalar(0, dtype)


def _lower(g: Tensor, k: int) -> Tensor:
    return tril(g, k=k)


@op(infer=_infer_triangle, movement=True, vjp={"x": _lower})
def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The lower triangles: zeros above the k-th diagonal."""
    return where(less_equal(_diagonal_offset(x), _held(k, *x.shape[-2:])), x, _zero_of(x.dtype))


def _upper(g: Tensor, k: int) -> Tensor:
    return triu(g, k=k)


@op(infer=_infer_triangle, movement=True, vjp={"x": _upper})
def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The upper triangles: zeros below the k-th diagonal."""
    return where(greater_equal(_diagonal_offset(x), _held(k, *x.shape[-2:])), x, _zero_of(x.dtype))


def _infer_meshgrid(arrays: list[Spec], *, indexing: str) -> Inferred:
    rules.one_of(indexing, "indexing", ("xy", "ij"))
    for x in arrays:
        if x.ndim > 1:
            raise ShapeError(f"a tensor of shape {x.shape} is no coordinate vector. Give 1-d tensors.")
        if x.dtype is not arrays[0].dtype:
            raise DTypeError(f"the vectors have dtypes {arrays[0].dtype} and {x.dtype}. Cast them to one dtype.")
    sizes: Shape = tuple(x.size for x in arrays)
    if indexing == "xy" and len(sizes) > 1:
        sizes = (sizes[1], sizes[0], *sizes[2:])
    return Inferred(tuple(Spec(sizes, x.dtype) for x in arrays), {"indexing": indexing})


@op(infer=_infer_meshgrid, movement=True)
def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """The grid that coordinate vectors span, one tensor for each vector."""
    order = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        order[:2] = [1, 0]
    views = [reshape(x, tuple(-1 if order[j] == i else 1 for j in range(len(arrays)))) for i, x in enumerate(arrays)]
    return broadcast_arrays(*views) if views else ()


def positions(count: int, device: DeviceLike, reach: int = 0) -> Tensor:
    """0, 1, 2 … for a body to count with: in 32 bits if no number in its course reaches beyond, for an engine may have no wider ones."""
    return arange(count, dtype=dtypes.int32 if max(count, reach) < 2**31 else dtypes.int64, device=device)


from intermodal.ops.elementwise import (  # families use each other; bodies look names up when they run
    add,
    divide,
    equal,
    floor,
    greater_equal,
    less_equal,
    multiply,
    subtract,
    where,
)
from intermodal.ops.manipulation import astype, broadcast_arrays, expand_dims, reshape

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
