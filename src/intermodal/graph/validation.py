"""`check`: whether a graph is well-formed. Every graph that comes from a file, a text or the wire passes here before it is used.

First the form is checked against the op table, without running anything: numbers, roles, names, types, limits. Then the rows'
own rules say what each op gives, and the graph must say the same. Named sizes are given numbers for that, twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from intermodal import config, dispatch
from intermodal.devices import Device
from intermodal.errors import GraphError, IntermodalError
from intermodal.graph.attributes import at, same, sizes_in
from intermodal.graph.form import Form
from intermodal.graph.ir import GraphIr, Operand, OperationIr, TensorIr
from intermodal.graph.limits import LIMITS, Limits
from intermodal.graph.sizes import Size, evaluated
from intermodal.ops.table import Op, Role, Spec

__all__ = ["check"]

_META: Final = Device("meta:cpu")
_SCALES: Final = (48, 480, 12, 4800)  # of the numbers that stand for named sizes; a graph may need small or large ones
_TRIES, _EVALUATIONS, _PASSES, _INFERRED, _ENOUGH = 400, 200_000, 8, 400_000, 2


def check(ir: GraphIr, limits: Limits = LIMITS) -> None:
    """Raise `GraphError` unless a graph is well-formed and within the limits. Nothing in it is evaluated or run.

    A graph with named sizes must fit for two of several choices of numbers: the rules know numbers only.

    Example:
        >>> from intermodal.dtypes import float32
        >>> x = TensorIr(0, (2, 3), float32)
        >>> check(GraphIr((x,), (x,), (), input_names=("x",), output_names=("y",)))
    """
    state = Form(limits)
    state.graph(ir)
    with config.scope(promotion="numpy"):  # what was captured under strict promotion is as right under the other
        if state.names:
            _check_at_sizes(ir, state)
        else:
            _check_inferred(ir, {}, limits)


def _check_at_sizes(ir: GraphIr, state: Form) -> None:
    """The graph must fit for two choices of numbers out of several: a size may be whole, and an op possible, for some only."""
    limits = state.limits
    fractional_first = sorted(state.sizes, key=lambda size: all(value.denominator == 1 for _, value in size.terms))
    passes = max(3, min(_PASSES, _INFERRED // max(1, len(ir.operations))))
    fitted, failed, first = 0, 0, None
    for numbers in _choices(tuple(state.names), max(8, min(_TRIES, _EVALUATIONS // max(1, len(fractional_first))))):
        if not all(_is_size(size, numbers, limits) for size in fractional_first):
            continue
        try:
            _check_inferred(ir, numbers, limits)
            fitted += 1
        except GraphError as error:
            first = first or error
            failed += 1
        if fitted == _ENOUGH:
            return
        if failed == passes:
            break
    if first is not None:
        raise first
    raise GraphError(f"no numbers were found for {', '.join(state.names)} with which all sizes are whole and within the limits.")


def _choices(names: tuple[str, ...], tries: int) -> Iterator[dict[str, int]]:
    """Every second choice is of multiples of twelve, so that halves, thirds, quarters and sixths are whole."""
    for i in range(tries):
        step, scale = (12, 1)[i % 2], _SCALES[i // 2 % len(_SCALES)]
        drawn = np.random.default_rng(i).integers(scale // step, 2 * scale // step + 2 * len(names), len(names))
        yield dict(zip(names, (step * int(n) for n in drawn), strict=True))


def _is_size(size: Size, numbers: Mapping[str, int], limits: Limits) -> bool:
    try:
        return 0 <= size.at(numbers) <= limits.size
    except IntermodalError:  # not whole
        return False


def _check_inferred(ir: GraphIr, numbers: Mapping[str, int], limits: Limits) -> None:
    """Whether the rows' rules give what the graph says, with numbers for the named sizes."""
    for i, operation in enumerate(ir.operations):
        try:
            _check_rule(operation, numbers, limits)
        except Exception as error:  # a rule that is handed what no program would write may fail in any way
            at_sizes = f" (for {', '.join(f'{k} = {v}' for k, v in list(numbers.items())[:8])})" if numbers else ""
            reason = str(error)[:500] if isinstance(error, IntermodalError) else f"{type(error).__name__} in the rule of the op"
            text = reason.removeprefix(f"{operation.op}: ")
            raise GraphError(f"op {i}, {operation.op}: {text}{at_sizes}", operation=i) from error


def _check_rule(operation: OperationIr, numbers: Mapping[str, int], limits: Limits) -> None:
    row = operation.row
    specs = [_spec(value, numbers) for value in operation.inputs]
    # In the order of the signature: the answers that dispatch keeps are found by the values alone.
    attrs: dict[str, object] = {
        p.name: _META if p.name == "device" else at(operation.attrs[p.name], numbers)
        for p in row.params
        if p.role is Role.ATTRIBUTE
    }
    _check_number_of_results(row, specs, attrs, len(operation.outputs))
    found = dispatch.infer(row, specs, attrs)
    if len(found.outputs) != len(operation.outputs):
        raise GraphError(f"it gives {len(found.outputs)} tensors, not {len(operation.outputs)}.")
    for tensor, spec in zip(operation.outputs, found.outputs, strict=True):
        _check_result(tensor, spec, numbers)
    if not any(isinstance(s, Size) for t in (*operation.tensors(), *operation.outputs) for s in t.shape):
        for name, value in found.attrs.items():
            # Where sizes have names the normal form for one choice of numbers says little about the others.
            if name != "device" and not any(sizes_in(operation.attrs[name])) and not same(value, attrs[name]):
                raise GraphError(f"the attribute {name} is {_short(attrs[name])}, in normal form {_short(value)}.")


def _check_number_of_results(row: Op, specs: list[Any], attrs: Mapping[str, object], count: int) -> None:
    """The two rules that make a list as long as they are told; all others are bounded by what they are given."""
    axis = attrs.get("axis")
    if row.name == "unstack" and type(axis) is int and -specs[0].ndim <= axis < specs[0].ndim and specs[0].shape[axis] != count:
        raise GraphError(f"it gives {specs[0].shape[axis]} tensors, not {count}.")
    if row.name == "split" and type(attrs["sections"]) is int and attrs["sections"] != count:
        raise GraphError(f"it gives {attrs['sections']} tensors, not {count}.")


def _spec(value: Operand, numbers: Mapping[str, int]) -> Any:
    if isinstance(value, TensorIr):
        return Spec(evaluated(value.shape, numbers), value.dtype)
    return [_spec(v, numbers) for v in value] if isinstance(value, tuple) else at(value, numbers)


def _check_result(tensor: TensorIr, spec: Spec, numbers: Mapping[str, int]) -> None:
    shape = evaluated(tensor.shape, numbers)
    if len(shape) == len(spec.shape) and tensor.dtype is spec.dtype:
        for mine, size, right in zip(tensor.shape, shape, spec.shape, strict=True):
            if right is None and not isinstance(mine, Size):
                raise GraphError(f"%{tensor.id} has the size {mine}, which depends on the data. Give it a named size.")
            if right not in (None, size):
                break
        else:
            return
    raise GraphError(f"%{tensor.id} is {tensor.dtype} of shape {shape}; the op gives {spec.dtype} of shape {_short(spec.shape)}.")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]} …"
