"""The binary form: a mark, the version, then msgpack. Made for files and the wire; reading it runs and imports nothing.

After the mark and the version come four lists: inputs, constants, operations, outputs. They are read one member at a time,
so that what a length claims is never reserved before the bytes are there. docs/the-ir.md has the layout.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

from intermodal.dtypes import DType, as_dtype
from intermodal.errors import GraphError, IntermodalError, MissingExtraError
from intermodal.graph.ir import VERSION, ConstantIr, GraphIr, Operand, OperationIr, TensorIr
from intermodal.graph.limits import LIMITS, Limits
from intermodal.graph.sizes import AnySize, Size
from intermodal.graph.validation import check
from intermodal.graph.values import array_of, bytes_of

__all__ = ["MAGIC", "from_bytes", "to_bytes"]

MAGIC: Final = b"\x89imgraph"  # the first byte is no text, so that no text is taken for a graph
_HEADER: Final = struct.Struct("<8sH")


def _msgpack() -> Any:
    try:
        import msgpack
    except ImportError as error:
        raise MissingExtraError('the binary form needs msgpack. Run: pip install "intermodal[graph]"') from error
    return msgpack


def to_bytes(ir: GraphIr, limits: Limits = LIMITS) -> bytes:
    """A graph as bytes; an ill-formed one raises.

    Example:
        >>> from intermodal.dtypes import float32
        >>> x = TensorIr(0, (2, 3), float32)
        >>> ir = GraphIr((x,), (x,), (), input_names=("x",), output_names=("y",))
        >>> from_bytes(to_bytes(ir)) == ir
        True
    """
    check(ir, limits)
    lists = (
        [[name, *_tensor(t)] for name, t in zip(ir.input_names, ir.inputs, strict=True)],
        [[c.id, as_dtype(c.value.dtype).name, list(c.value.shape), bytes_of(c.value)] for c in ir.constants],
        [_operation(operation) for operation in ir.operations],
        [[name, t.id] for name, t in zip(ir.output_names, ir.outputs, strict=True)],
    )
    packer = _msgpack().Packer(use_bin_type=True)
    return b"".join((_HEADER.pack(MAGIC, ir.version), *map(packer.pack, lists)))


def _tensor(tensor: TensorIr) -> list[Any]:
    return [tensor.id, tensor.dtype.name, [str(n) if isinstance(n, Size) else n for n in tensor.shape]]


def _operation(operation: OperationIr) -> list[Any]:
    attrs = [[p.name, _plain(operation.attrs[p.name])] for p in operation.row.params if p.name in operation.attrs]
    return [operation.op, [_operand(v) for v in operation.inputs], [_tensor(t) for t in operation.outputs], attrs]


def _operand(value: Operand) -> Any:
    if isinstance(value, TensorIr):
        return {"tensor": value.id}
    return [t.id for t in value] if isinstance(value, tuple) else _plain(value)


def _plain(value: object) -> Any:
    """An attribute in msgpack's own types; what it has no type for is a map of one entry."""
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if isinstance(value, slice):
        return {"slice": [_plain(value.start), _plain(value.stop), _plain(value.step)]}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, Size):
        return {"size": str(value)}
    return {"dtype": value.name} if isinstance(value, DType) else value


def from_bytes(data: bytes, limits: Limits = LIMITS) -> GraphIr:
    """The graph that bytes hold, checked. Bytes of any kind raise `GraphError` or give a graph that is well-formed."""
    if len(data) < _HEADER.size or data[: len(MAGIC)] != MAGIC:
        raise GraphError(f"these {len(data)} bytes are no graph: they do not begin with {MAGIC!r}.")
    version = _HEADER.unpack_from(data)[1]
    if not 1 <= version <= VERSION:
        raise GraphError(f"the graph is of version {version}, and this intermodal reads versions 1 to {VERSION}. Upgrade it.")
    reader = _Reader(memoryview(data)[_HEADER.size :], limits)
    try:
        ir = reader.graph(version)
    except GraphError:
        raise
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError, *reader.errors) as error:
        raise GraphError(f"the bytes are no graph: {str(error)[:200] or type(error).__name__}.") from error
    check(ir, limits)
    return ir


class _Reader:
    """Reads the lists in their order. What has another form than it must have raises, by itself or here."""

    def __init__(self, data: memoryview, limits: Limits) -> None:
        msgpack = _msgpack()
        self.errors = (msgpack.UnpackException,)  # that the bytes end too early is no ValueError
        self.limits = limits
        self.tensors: dict[int, TensorIr] = {}
        self.end = len(data)
        self.unpacker = msgpack.Unpacker(
            raw=False,
            strict_map_key=True,
            max_buffer_size=max(1, len(data)),
            max_str_len=4 * max(limits.string, limits.name, 1000),
            max_bin_len=limits.constant_bytes,
            max_array_len=limits.values,
            max_map_len=1,
            max_ext_len=0,
        )
        self.unpacker.feed(data)

    def graph(self, version: int) -> GraphIr:
        inputs = [(name, self.define(*rest)) for name, *rest in self.members(self.limits.tensors, "inputs")]
        constants = [self.constant(*member) for member in self.members(self.limits.tensors, "constants")]
        operations = [self.operation(*member) for member in self.members(self.limits.operations, "operations")]
        outputs = [(name, self.use(number)) for name, number in self.members(self.limits.tensors, "outputs")]
        if self.unpacker.tell() != self.end:
            raise GraphError(f"{self.end - self.unpacker.tell()} bytes follow after the graph.")
        # What becomes of a tensor follows from the order of the ops, so it is not among the bytes.
        return GraphIr(
            tuple(t for _, t in inputs),
            tuple(t for _, t in outputs),
            tuple(operations),
            tuple(constants),
            tuple(name for name, _ in inputs),
            tuple(name for name, _ in outputs),
            version,
        ).with_status()

    def members(self, limit: int, what: str) -> Iterator[Any]:
        count = self.unpacker.read_array_header()
        if count > limit:
            raise GraphError(f"it has {count} {what}; at most {limit} are allowed.")
        return (self.unpacker.unpack() for _ in range(count))

    def define(self, number: Any, dtype: Any, shape: Any) -> TensorIr:
        tensor = TensorIr(number, _shape(shape), _dtype(dtype))
        self.tensors[number] = tensor
        return tensor

    def use(self, number: Any) -> TensorIr:
        if number not in self.tensors:
            raise GraphError(f"%{str(number)[:40]} is read before it is made, or never made.")
        return self.tensors[number]

    def constant(self, number: Any, dtype: Any, shape: Any, data: Any) -> ConstantIr:
        if type(data) is not bytes:
            raise GraphError(f"the value of a constant is {type(data).__name__}, not bytes.")
        value = array_of(data, _dtype(dtype), _shape(shape))
        self.define(number, dtype, shape)
        return ConstantIr(number, value)

    def operation(self, op: Any, operands: Any, outputs: Any, attrs: Any) -> OperationIr:
        inputs = tuple(self.operand(value) for value in _list(operands))
        read = {name: self.value(value, 0) for name, value in _list(attrs)}
        if len(read) != len(attrs):
            raise GraphError(f"{str(op)[:40]} has an attribute twice.")
        return OperationIr(op, inputs, tuple(self.define(*tensor) for tensor in _list(outputs)), read)

    def operand(self, value: Any) -> Operand:
        if isinstance(value, dict) and set(value) == {"tensor"}:
            return self.use(value["tensor"])
        if isinstance(value, list):
            return tuple(self.use(number) for number in value)
        return self.value(value, 0)  # type: ignore[no-any-return]  # `check` refuses what is no scalar

    def value(self, value: Any, depth: int) -> Any:
        if depth > self.limits.depth:
            raise GraphError(f"a value has more than {self.limits.depth} levels.")
        if isinstance(value, list):
            return tuple(self.value(v, depth + 1) for v in value)
        if not isinstance(value, dict):
            return value
        ((kind, inner),) = value.items()
        if kind == "size":
            return _size(inner)
        if kind == "dtype":
            return _dtype(inner)
        if kind == "complex":
            real, imaginary = inner
            if type(real) is type(imaginary) is float:
                return complex(real, imaginary)
        if kind == "slice":
            start, stop, step = (self.value(v, depth + 1) for v in _list(inner))
            return slice(start, stop, step)
        raise GraphError(f"{str(kind)[:40]!r} is no kind of value.")


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise GraphError(f"a list is wanted, not {type(value).__name__}.")
    return value


def _shape(shape: Any) -> tuple[AnySize, ...]:
    return tuple(_size(n) if isinstance(n, str) else n for n in _list(shape))


def _size(text: Any) -> Size:
    if type(text) is not str:
        raise GraphError(f"a size is text, not {type(text).__name__}.")
    try:
        return Size.parse(text)
    except IntermodalError as error:
        raise GraphError(str(error)) from error


def _dtype(name: Any) -> DType:
    if type(name) is not str:
        raise GraphError(f"a dtype is text, not {type(name).__name__}.")
    try:
        return as_dtype(name)
    except IntermodalError as error:
        raise GraphError(str(error)[:500]) from error
