"""``x[key]`` and ``x[key] = value`` in ops of the table: every engine reads a key the same way.

A key of integers, slices, None and Ellipsis is one `basic_index`. Integer tensors among them become one `index` over
the axes moved to the front; a mask is turned into the indices of its true elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from intermodal.errors import IndexRangeError
from intermodal.ops import manipulation as _m, searching as _s

if TYPE_CHECKING:
    from intermodal.ops.table import Operand
    from intermodal.tensor import Tensor

__all__ = ["get", "put"]


def get(x: Tensor, key: object) -> Tensor:
    """``x[key]``."""
    parts = key if type(key) is tuple else (key,)
    basic = _as_basic(parts)
    if basic is not None:
        return _s.basic_index(x, key=_expand(basic, x.ndim))
    if len(parts) == 1 and _is_mask(parts[0]):
        return _s.masked_select(x, _tensor(parts[0], x))
    view, tensors, front = _advanced(x, parts)
    result = _s.index(_front(view, tensors), list(tensors.values()))
    width = result.ndim - (view.ndim - len(tensors))
    return _back(result, width, front)


def put(x: Tensor, key: object, value: Operand) -> Tensor:
    """The tensor as it is after ``x[key] = value``."""
    parts = key if type(key) is tuple else (key,)
    value = _value(value, x)
    basic = _as_basic(parts)
    if basic is not None:
        return _s.basic_put(x, value, key=_expand(basic, x.ndim))
    if len(parts) == 1 and _is_mask(parts[0]):
        return _s.masked_put(x, _tensor(parts[0], x), value)
    # Advanced: find which flat places the key reaches by indexing a tensor of places, then write there.
    places = _m.reshape(_arange_like(x), x.shape)
    where = get(places, key)
    flat = _s.index_put(_m.reshape(x, (-1,)), [_m.reshape(where, (-1,))], _m.reshape(_spread(value, where, x), (-1,)))
    return _m.reshape(flat, x.shape)


def _arange_like(x: Tensor) -> Tensor:
    from intermodal.ops.creation import arange

    return arange(x.size, device=x.device)


def _spread(value: Operand, where: Tensor, x: Tensor) -> Tensor:
    from intermodal.ops.creation import full

    if isinstance(value, (bool, int, float, complex)):
        return full(where.shape, value, dtype=x.dtype, device=x.device)
    while value.ndim > where.ndim and value.shape[0] == 1:
        value = _m.squeeze(value, 0)
    return _m.broadcast_to(value, where.shape)


def _value(value: object, x: Tensor) -> Operand:
    if isinstance(value, (bool, int, float, complex)):
        return value
    return cast("Operand", value.item()) if isinstance(value, np.generic) else _tensor(value, x)


def _tensor(part: object, x: Tensor) -> Tensor:
    from intermodal.conversion import asarray

    return cast("Tensor", part) if hasattr(part, "_place") else asarray(np.asarray(part), device=x.device)


def _is_mask(part: object) -> bool:
    if isinstance(part, (bool, np.bool_)):
        return True
    if hasattr(part, "_place"):
        return cast("Tensor", part).dtype.is_bool
    return isinstance(part, (np.ndarray, list)) and np.asarray(part).dtype == np.bool_


def _as_basic(parts: tuple[Any, ...]) -> list[Any] | None:
    """The key with integers as Python integers, or None if it holds a tensor or a mask."""
    result: list[Any] = []
    for part in parts:
        kind = type(part)
        if kind is int or kind is slice or part is None or part is Ellipsis:
            result.append(part if kind is not slice else _plain_slice(part))
        elif kind is bool or isinstance(part, (list, np.ndarray, np.bool_)):
            return None
        elif hasattr(part, "_place"):
            if part.ndim or not part.dtype.is_integer:
                return None
            result.append(int(part))
        elif hasattr(part, "__index__"):
            result.append(part.__index__())
        else:
            raise IndexRangeError(f"x[key]: {part!r} is no index. Use integers, slices, None, ..., integer tensors or masks.")
    return result


def _plain_slice(part: slice) -> slice:
    if part.step is not None and int(part.step) == 0:
        raise IndexRangeError("x[key]: a slice's step must not be 0.")
    return slice(*(None if v is None else v.__index__() for v in (part.start, part.stop, part.step)))


def _expand(parts: list[Any], ndim: int) -> tuple[Any, ...]:
    """The key with ``...`` written out; too many indices are refused here."""
    used = sum(p is not None and p is not Ellipsis for p in parts)
    dots = [i for i, p in enumerate(parts) if p is Ellipsis]
    if used > ndim or len(dots) > 1:
        raise IndexRangeError(
            f"x[key]: {used} indices and {len(dots)} ellipses do not fit a tensor of {ndim} dimensions. At most {ndim} indices and one ... are allowed."
        )
    if dots:
        return (*parts[: dots[0]], *(slice(None),) * (ndim - used), *parts[dots[0] + 1 :])
    return tuple(parts)


def _width(part: object) -> int:
    """How many axes a part of the key uses up."""
    if part is None or part is Ellipsis:
        return 0
    return cast("Tensor", part).ndim if hasattr(part, "_place") and _is_mask(part) else 0 if isinstance(part, bool) else 1


def _advanced(x: Tensor, parts: tuple[Any, ...]) -> tuple[Tensor, dict[int, Tensor], int]:
    """The tensor after the basic parts of the key, the index tensor of each remaining axis, and where the result's axes go."""
    parts = tuple(_tensor(p, x) if isinstance(p, (list, np.ndarray, bool, np.bool_)) else p for p in parts)
    used = sum(map(_width, parts))
    if used > x.ndim or sum(p is Ellipsis for p in parts) > 1:
        raise IndexRangeError(
            f"x[key]: {used} indices do not fit a tensor of {x.ndim} dimensions. At most {x.ndim} indices and one ... are allowed."
        )
    if not any(p is Ellipsis for p in parts):
        parts = (*parts, Ellipsis)
    basic: list[Any] = []
    tensors: dict[int, Tensor] = {}
    spots: list[int] = []
    for spot, part in enumerate(parts):
        if part is Ellipsis:
            basic.extend([slice(None)] * (x.ndim - used))
        elif hasattr(part, "_place") and _is_mask(part):
            spots.append(spot)
            if part.ndim == 0:
                basic.append(None)
                tensors[len(basic) - 1] = _s.nonzero(_m.reshape(part, (1,)))[0]
            for i, found in enumerate(_s.nonzero(part) if part.ndim else ()):
                _check_mask(x, part, basic, i)
                basic.append(slice(None))
                tensors[len(basic) - 1] = found
        elif hasattr(part, "_place"):
            spots.append(spot)
            basic.append(slice(None))
            tensors[len(basic) - 1] = part
        elif isinstance(part, slice) or part is None:
            basic.append(part)
        else:  # beside index tensors an integer is one too: they broadcast together
            spots.append(spot)
            basic.append(slice(None))
            tensors[len(basic) - 1] = _tensor(np.asarray(part.__index__()), x)
    together = spots == list(range(spots[0], spots[0] + len(spots)))
    view = _s.basic_index(x, key=tuple(basic))
    return view, tensors, min(tensors) if together else 0


def _check_mask(x: Tensor, mask: Tensor, basic: list[Any], i: int) -> None:
    a = sum(p is not None for p in basic)
    if mask.shape[i] != x.shape[a]:
        raise IndexRangeError(f"x[key]: a mask of shape {mask.shape} does not fit axis {a} of shape {x.shape}.")


def _front(view: Tensor, tensors: dict[int, Tensor]) -> Tensor:
    return _m.permute_dims(view, (*tensors, *(a for a in range(view.ndim) if a not in tensors)))


def _back(result: Tensor, width: int, front: int) -> Tensor:
    """The axes that came from index tensors lie first; NumPy puts them where the tensors stood."""
    if front == 0 or width == 0:
        return result
    order = list(range(width, result.ndim))
    order[front:front] = range(width)
    return _m.permute_dims(result, tuple(order))
