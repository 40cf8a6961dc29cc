"""An op as a native: it finds or builds the session for its operands, or goes over the host's memory, and runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from intermodal import dtypes
from intermodal.backend import Native
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.engines.onnx.builder import Builder
from intermodal.engines.onnx.host import HOST, MOVES, on_host
from intermodal.engines.onnx.lowering import lower, lowers
from intermodal.engines.onnx.memory import CPU, OnnxArray, enter, reinterpreted
from intermodal.engines.onnx.providers import provider_of
from intermodal.engines.onnx.sessions import Cache, Session, frozen
from intermodal.errors import UnsupportedError
from intermodal.ops.table import Op

__all__ = ["SESSIONS", "native_of"]

SESSIONS: Final = Cache()
_SIZES: Final = "sizes"
"""Kept instead of a session where a lowering needs sizes as numbers: then they are part of the key."""


def native_of(row: Op, dtype: DType) -> Native | None:
    """The native of an op for a dtype: a session's, the host's, or none."""
    lowered = lowers(row, dtype)
    short = on_host(row, dtype) if row.name in MOVES or (row.name in HOST and not lowered) else None
    if not lowered and short is None:
        return None
    # The bits of a NaN are kept where elements only move, which is not so on the way through float32.
    by_bytes = row.movement and row.name != "astype" and dtype.bits == 8 and dtype.is_floating

    def native(*arrays: Any, **attrs: Any) -> Any:
        device = _device(arrays, attrs)
        operands = [_operand(a, dtype, device) for a in arrays]
        if short is not None and provider_of(device).memory == "cpu":
            return short(device, *operands, **attrs)
        if not lowered:
            raise UnsupportedError(
                f"{row.name}: ONNX has no operator for it, and the memory of {device} is not the host's. Move the tensor, x.to('onnx:cpu')."
            )
        if by_bytes and attrs.get("mode", "assign") == "assign" and provider_of(device).memory == "cpu":
            operands = [reinterpreted(x, dtype, dtypes.uint8) for x in operands]
            results = [reinterpreted(r, dtypes.uint8, dtype) for r in _session(row, device, operands, attrs).run(_flat(operands))]
        else:
            results = _session(row, device, operands, attrs).run(_flat(operands))
        return tuple(results) if row.multiple else results[0]

    native.dtype = dtype  # type: ignore[attr-defined]  # for whoever lowers the call instead of running it
    return native


def _device(arrays: Sequence[Any], attrs: dict[str, Any]) -> Device:
    for a in arrays:
        if isinstance(a, OnnxArray):
            return a.device
        if isinstance(a, list) and a:
            return _device(a, attrs)
    return attrs.get("device") or CPU


def _operand(value: Any, dtype: DType, device: Device) -> Any:
    """An array as it is; a Python scalar as one of the op's dtype, or of its own where it is a count beside other numbers."""
    if value is None or isinstance(value, (OnnxArray, list)):
        return value
    kind = type(value)
    joins = dtype.is_bool if kind is bool else dtype.is_integer if kind is int else dtype.is_floating
    return enter(np.asarray(value, dtype.numpy if joins else None), device)


def _flat(operands: Sequence[Any]) -> list[OnnxArray]:
    found: list[OnnxArray] = []
    for x in operands:
        if isinstance(x, list):
            found += x
        elif x is not None:
            found.append(x)
    return found


def _session(row: Op, device: Device, operands: Sequence[Any], attrs: dict[str, Any]) -> Session:
    named = tuple(frozen(v) for k, v in attrs.items() if k not in ("device", "copy"))
    kinds = tuple(
        tuple((m.dtype, len(m.sizes)) for m in x) if isinstance(x, list) else x and (x.dtype, len(x.sizes)) for x in operands
    )
    key = (row.name, device, kinds, named)
    found: Session | str = SESSIONS.get(key, lambda: _build(row, device, operands, attrs, sized=False))
    if isinstance(found, Session):
        return found
    sizes = tuple(x.sizes for x in _flat(operands))
    sized: Session = SESSIONS.get((*key, sizes), lambda: _build(row, device, operands, attrs, sized=True))
    return sized


class _SizesNeededError(Exception):
    """A lowering asked for sizes where there are names."""


class _Symbolic(Builder):
    """A builder whose operands have names for sizes; a lowering that asks for numbers is told so apart from other refusals."""

    def sizes(self, x: Any) -> tuple[int, ...]:
        try:
            return super().sizes(x)
        except UnsupportedError as error:
            raise _SizesNeededError from error


def _build(row: Op, device: Device, operands: Sequence[Any], attrs: dict[str, Any], *, sized: bool) -> Session | str:
    g = Builder() if sized else _Symbolic()
    count = 0

    def enter_one(x: OnnxArray) -> Any:
        nonlocal count
        count += 1
        shape = x.sizes if sized else tuple(f"n{count}_{i}" for i in range(len(x.sizes)))
        return g.input(f"x{count}", x.dtype, shape)

    values = [[enter_one(m) for m in x] if isinstance(x, list) else None if x is None else enter_one(x) for x in operands]
    try:
        return Session(g.model(lower(g, row, values, attrs)), device)
    except _SizesNeededError:
        return _SIZES
