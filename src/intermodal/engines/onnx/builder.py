"""`Builder` makes one ONNX model out of many lowerings; `Value` is what they pass around.

A lowering calls ``g.op("Add", x, y)`` for an ONNX operator, ``g.constant(…)`` for numbers and ``g.cast(x, dtype)``. Casts around an operator
whose kernel lacks a dtype are put in by `Builder.op`, from the table in `kernels`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np
import onnx
from onnx import helper

from intermodal import dtypes
from intermodal.dtypes import DType
from intermodal.engines.onnx.kernels import ONNX, Route, route
from intermodal.errors import UnsupportedError

__all__ = ["IR_VERSION", "OPSET", "Builder", "NamedSize", "Value", "packed", "spelled"]

OPSET: Final = 26
"""The newest that ONNX Runtime 1.31 supports; the first with BitCast and CumProd."""
IR_VERSION: Final = 13
"""The newest that ONNX Runtime 1.31 reads."""
OLDER: Final = {18: 8, 21: 10, 23: 11}
"""Opsets in which a model may be written so that older readers take it, with the IR version that came with each. What an operator does
has not changed from 18 on, where we emit it: newer versions take more dtypes and attributes."""

Shape = tuple[int | str, ...]


class NamedSize(Protocol):
    """A size that is not a number yet: a sum of products of named sizes, as a graph has it."""

    @property
    def terms(self) -> tuple[tuple[tuple[str, ...], Fraction], ...]: ...


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor in a model that is being built.

    Attributes:
        name: its name in the model.
        dtype: its dtype.
        shape: a number for each size that is known, a name for each that is not; None where not even the rank is kept track of.
    """

    name: str
    dtype: DType
    shape: Shape | None = None

    @property
    def ndim(self) -> int:
        if self.shape is None:
            raise UnsupportedError(f"the rank of the ONNX value {self.name} is not known. Reshape it, or name its shape.")
        return len(self.shape)


class Builder:
    """A model in the making: inputs first, then operators, then `model`. ``reserved`` are names that it must not give itself."""

    def __init__(self, reserved: Collection[str] = ()) -> None:
        self.inputs: list[Value] = []
        self.weights: list[tuple[onnx.TensorProto, np.ndarray[Any, Any]]] = []
        self._reserved = frozenset(reserved)
        self._named: dict[str, Value] = {}
        self._used: set[tuple[str, frozenset[str], tuple[DType | None, ...]]] = set()
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[tuple[object, ...], Value] = {}
        self._initializers: list[onnx.TensorProto] = []
        self._count = 0

    # --- values ------------------------------------------------------------------------------------------------

    def input(self, name: str, dtype: DType, shape: Shape) -> Value:
        """An operand of the model."""
        value = Value(name, dtype, shape)
        self.inputs.append(value)
        return value

    def weight(self, array: np.ndarray[Any, Any], dtype: DType) -> Value:
        """A constant whose bytes are put in later, by whoever takes `weights`: into the model, beside it, or as memory of ours."""
        value = Value(self._fresh("w"), dtype, array.shape)
        proto = onnx.TensorProto(name=value.name, data_type=ONNX[dtype], dims=array.shape)
        self.weights.append((proto, array))
        return value

    def constant(self, data: Any, dtype: DType | None = None) -> Value:
        """Numbers that are part of the model; integers are int64 and floats float32 unless told otherwise."""
        array = np.asarray(data)
        if dtype is None:
            dtype = dtypes.int64 if array.dtype.kind in "iu" else dtypes.float32 if array.dtype.kind == "f" else dtypes.bool_
        with np.errstate(all="ignore"):
            array = np.ascontiguousarray(array.astype(dtype.numpy)).reshape(array.shape)
        key = (dtype, array.shape, array.tobytes())
        if key not in self._constants:
            name = self._fresh("c")
            data = packed(array) if dtype.bits == 4 else array.tobytes()
            self._initializers.append(helper.make_tensor(name, ONNX[dtype], array.shape, data, raw=True))
            self._constants[key] = Value(name, dtype, array.shape)
        return self._constants[key]

    def constant_like(self, x: Value, number: Any) -> Value:
        """One number of another value's dtype, without axes."""
        return self.constant(number, x.dtype)

    def sizes(self, x: Value) -> tuple[int, ...]:
        """The sizes of a value, where a lowering needs them as numbers."""
        shape = x.shape
        if shape is None or any(isinstance(n, str) for n in shape):
            raise UnsupportedError(f"the ONNX value {x.name} has the shape {shape}, and this op needs its sizes as numbers.")
        return tuple(int(n) for n in shape)

    # --- sizes that have names -----------------------------------------------------------------------------------

    def dims(self, sizes: Iterable[int | Value | NamedSize]) -> Value:
        """Sizes as one vector: numbers, vectors of one number, and named sizes, which are read off the inputs as the model runs."""
        parts: list[Value] = []
        numbers: list[int] = []
        for n in (*sizes, None):
            if isinstance(n, (int, np.integer)):
                numbers.append(int(n))
                continue
            if numbers or (n is None and not parts):
                parts.append(self.constant(np.asarray(numbers, np.int64)))
                numbers = []
            if n is not None:
                parts.append(n if isinstance(n, Value) else self.size(n))
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    def size(self, size: NamedSize) -> Value:
        """A named size as a vector of one number."""
        divisor = math.lcm(*(factor.denominator for _, factor in size.terms))
        total: Value | None = None
        for names, factor in size.terms:
            term: Value | None = None
            for name in names:
                term = self._axis(name) if term is None else self.op("Mul", term, self._axis(name))
            number = self.constant([int(factor * divisor)])
            if term is not None and factor * divisor != 1:
                term = self.op("Mul", term, number)
            term = number if term is None else term
            total = term if total is None else self.op("Add", total, term)
        assert total is not None  # a size without terms is a number
        return total if divisor == 1 else self.op("Div", total, self.constant([divisor]))

    def _axis(self, name: str) -> Value:
        found = self._named.get(name)
        if found is None:
            places = ((v, v.shape.index(name)) for v in self.inputs if v.shape is not None and name in v.shape)
            value, axis = next(places, (None, 0))
            if value is None:
                raise UnsupportedError(f"the size {name} is that of no input alone. Give a model an input with an axis of it.")
            found = self._named[name] = self.op("Shape", value, start=axis, end=axis + 1, shape=(1,))
        return found

    # --- operators ---------------------------------------------------------------------------------------------

    def op(
        self, name: str, *operands: Value | None, dtype: DType | None = None, shape: Shape | None = None, **attrs: Any
    ) -> Value:
        """An ONNX operator applied to values.

        Args:
            name: the operator's name.
            operands: its inputs; None for one that is left out.
            dtype: the result's dtype, where it does not follow from the operands'.
            shape: the result's shape, where it is known and does not follow from broadcasting.
            attrs: the operator's attributes.
        """
        return self.op_with_results(1, name, *operands, dtype=dtype, shape=shape, **attrs)[0]

    def op_with_results(
        self,
        count: int,
        name: str,
        *operands: Value | None,
        dtype: DType | None = None,
        shape: Shape | None = None,
        **attrs: Any,
    ) -> tuple[Value, ...]:
        """As `op`, with the first few results of an operator that has several; ``dtype`` and ``shape`` are the first one's."""
        takes, gives = _signature(name)
        kinds = [takes[min(i, len(takes) - 1)] for i in range(len(operands))]
        bound = {kind: v.dtype for kind, v in zip(kinds, operands, strict=True) if v is not None and kind not in _FIXED}
        given = next((bound[k] for k in ("T", "T1", *bound) if k in bound), None)
        way = None if given is None else route(name, given)
        if given is not None and way is None:
            raise UnsupportedError(
                f"ONNX Runtime has no kernel of {name} for {given}, and no way around. Cast to float32 or int64."
            )
        detour = way if way is not None and way[0] is not given else None
        inner = [
            self._there(v, detour) if detour and v is not None and v.dtype is given and kind not in _FIXED else v
            for v, kind in zip(operands, kinds, strict=True)
        ]
        if shape is None and name in _BROADCASTING:
            shape = broadcast(*(v.shape for v in operands if v is not None))
        wanted = [dtype if dtype is not None and i == 0 else bound.get(k) or _FIXED.get(k) for i, k in enumerate(gives[:count])]
        shape = None if shape is None else spelled(shape)
        results = []
        for d in wanted:
            if d is None:
                raise UnsupportedError(
                    f"the dtype of the result of ONNX's {name} does not follow from its operands. Pass dtype=."
                )
            through = detour is not None and d is given and dtype is None
            results.append(Value(self._fresh("t"), detour[0] if detour is not None and through else d, shape))
        self._used.add((name, frozenset(attrs), tuple(None if v is None else v.dtype for v in inner)))
        names = [v.name if v is not None else "" for v in inner]
        self._nodes.append(helper.make_node(name, names, [v.name for v in results], **attrs))
        return tuple(r if r.dtype is d else self._back(r, detour, d) for r, d in zip(results, wanted, strict=True))

    def _there(self, x: Value, way: Route) -> Value:
        """An operand on the way to the dtype in which it is computed."""
        if way[1] == "value":
            return self.cast(x, way[0])
        return self.bitcast(self.op("BitwiseXor", x, self.constant(_HIGHEST, x.dtype)) if way[1] == "order" else x, way[0])

    def _back(self, x: Value, way: Route | None, dtype: DType | None) -> Value:
        """A result on its way back."""
        assert way is not None  # a result of another dtype than was wanted comes from a detour
        assert dtype is not None
        if way[1] == "value":
            return self.cast(x, dtype)
        plain = self.bitcast(x, dtype)
        return self.op("BitwiseXor", plain, self.constant(_HIGHEST, dtype), shape=x.shape) if way[1] == "order" else plain

    def cast(self, x: Value, dtype: DType, *, saturate: bool = False) -> Value:
        """The value in another dtype, as C converts numbers. ``saturate`` holds for float8: beyond the range is the largest number."""
        if x.dtype is dtype:
            return x
        attrs = {} if saturate or dtype.bits != 8 or not dtype.is_floating else {"saturate": 0}
        return self.op("Cast", x, to=ONNX[dtype], dtype=dtype, shape=x.shape, **attrs)

    def bitcast(self, x: Value, dtype: DType) -> Value:
        """The same bits as another dtype of the same size."""
        if x.dtype is dtype:
            return x
        return self.op("BitCast", x, to=ONNX[dtype], dtype=dtype, shape=x.shape)

    # --- the whole ---------------------------------------------------------------------------------------------

    def oldest(self) -> int:
        """The oldest opset that has every operator as it is used here."""
        return next((opset for opset in OLDER if all(_is_in(opset, *use) for use in self._used)), OPSET)

    def model(self, results: Sequence[Value], *, names: Sequence[str] | None = None, opset: int = OPSET) -> onnx.ModelProto:
        """The model that computes these results from the inputs."""
        made = {name for node in self._nodes for name in node.output}
        outer: list[Value] = []
        for r in results:
            plain = r.name in made and all(
                r.name != o.name for o in outer
            )  # an operand, a constant or a result that comes twice is none
            outer.append(r if plain else self.op("Identity", r, shape=r.shape))
        if names is not None:
            new = {v.name: name for v, name in zip(outer, names, strict=True)}
            for node in self._nodes:
                for side in (node.input, node.output):
                    side[:] = [new.get(name, name) for name in side]
            outer = [Value(new[v.name], v.dtype, v.shape) for v in outer]
        used = {name for node in self._nodes for name in node.input}
        self.weights = [(proto, array) for proto, array in self.weights if proto.name in used]
        graph = helper.make_graph(
            self._nodes,
            "intermodal",
            [_info(v) for v in self.inputs],
            [_info(v) for v in outer],
            [*(p for p in self._initializers if p.name in used), *(p for p, _ in self.weights)],
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", opset)],
            ir_version=OLDER.get(opset, IR_VERSION),
            producer_name="intermodal",
        )

    def _fresh(self, prefix: str) -> str:
        self._count += 1
        name = f"{prefix}{self._count}"
        return self._fresh(prefix) if name in self._reserved else name


_ELEMENTWISE: Final = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Clip Cos Cosh
    CumProd CumSum Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid Identity IsInf IsNaN LeakyRelu Less
    LessOrEqual Log LogSoftmax Max Min Mod Mul Neg Not Or Pow PRelu Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh
    Softmax Softplus Softsign Sqrt Sub Tan Tanh Trilu Where Xor
"""
_BROADCASTING: Final = frozenset(_ELEMENTWISE.split())
_HIGHEST: Final = np.uint64(1 << 63)


def spelled(shape: Iterable[int | str | NamedSize]) -> Shape:
    """A shape as a model states it: a number, or a name, for each size."""
    return tuple(int(n) if isinstance(n, (int, np.integer)) else str(n) for n in shape)


def broadcast(*shapes: Shape | None) -> Shape | None:
    """The shape of what broadcasts together, names included; None where one is not known, or two names meet."""
    if any(s is None for s in shapes):
        return None
    known = [s for s in shapes if s is not None]
    result: list[int | str] = []
    for i in range(-max(map(len, known), default=0), 0):
        sizes = {s[i] for s in known if -i <= len(s)} - {1}
        if len(sizes) > 1:
            numbers = [n for n in sizes if isinstance(n, int)]
            sizes = set(numbers[:1]) or {f"{'_'.join(sorted(map(str, sizes)))}"}
        result.append(next(iter(sizes), 1))
    return tuple(result)


_FIXED: Final = {
    "tensor(bool)": dtypes.bool_,
    "tensor(int64)": dtypes.int64,
    "tensor(float)": dtypes.float32,
    "tensor(int32)": dtypes.int32,
}


@lru_cache(maxsize=512)
def _signature(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The kinds of an operator's inputs and outputs: names of type constraints, or tensor(…) where there is one type only."""
    schema = onnx.defs.get_schema(name, OPSET, "")
    single = {c.type_param_str: c.allowed_type_strs[0] for c in schema.type_constraints if len(c.allowed_type_strs) == 1}
    takes, gives = ([single.get(p.type_str, p.type_str) for p in formal] for formal in (schema.inputs, schema.outputs))
    return tuple(takes) or ("",), tuple(gives)


def _is_in(opset: int, name: str, attrs: frozenset[str], operands: tuple[DType | None, ...]) -> bool:
    """Whether an opset has an operator with these attributes for operands of these dtypes."""
    try:
        schema = onnx.defs.get_schema(name, opset, "")
    except onnx.defs.SchemaError:
        return False
    if not attrs <= schema.attributes.keys() or len(operands) > schema.max_input:
        return False
    formal = [schema.inputs[min(i, len(schema.inputs) - 1)] for i in range(len(operands))]
    return all(d is None or f"tensor({_onnx_name(d)})" in p.types for p, d in zip(formal, operands, strict=True))


def _onnx_name(dtype: DType) -> str:
    return str(onnx.TensorProto.DataType.Name(ONNX[dtype])).lower()


def _info(v: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(v.name, ONNX[v.dtype], v.shape)


def packed(array: np.ndarray[Any, Any]) -> bytes:
    """Integers of 4 bits, two to the byte, the first one low."""
    flat = array.astype(np.int8).reshape(-1).view(np.uint8) & 0x0F
    pairs = np.concatenate([flat, np.zeros(flat.size % 2, np.uint8)]).reshape(-1, 2)
    return bytes(pairs[:, 0] | pairs[:, 1] << 4)
