"""The file: a model's nodes and constants, read from bytes that may come from anybody.

Nothing is run, and no byte is read outside of the folder of the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final

import numpy as np

from intermodal.dtypes import DType, as_dtype
from intermodal.errors import GraphError, IntermodalError, MissingExtraError
from intermodal.graph.limits import Limits

__all__ = ["Model", "array_of", "dtype_of", "open_model"]

HostArray = np.ndarray[Any, Any]
_OPSETS: Final = range(13, 27)
_OURS: Final = ("", "ai.onnx")


@dataclass(frozen=True, slots=True)
class Model:
    """A model taken apart.

    Attributes:
        opset: the version of its operators.
        inputs: its inputs but for those that are constants, as ONNX describes them.
        outputs: the names of its results.
        nodes: its nodes but for constants.
        constants: arrays by name.
    """

    opset: int
    inputs: list[Any]
    outputs: list[str]
    nodes: list[Any]
    constants: Mapping[str, HostArray]


def library() -> Any:
    """The package ``onnx``, which reads protobuf."""
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError('ONNX models need the package onnx. Run: pip install "intermodal[onnx]"') from error
    return onnx


def dtype_of(number: int) -> DType:
    """Our dtype for one of ONNX's numbers."""
    try:
        return as_dtype(np.dtype(library().helper.tensor_dtype_to_np_dtype(number)))
    except (KeyError, ValueError, TypeError, IntermodalError) as error:
        raise GraphError(f"the model has tensors of ONNX's type {number}, which is no dtype here.") from error


def open_model(path: Path, limits: Limits) -> Model:
    """A model from its file and the files beside it."""
    onnx = library()
    try:
        proto = onnx.ModelProto.FromString(path.read_bytes())
    except Exception as error:  # of protobuf, whose class depends on how it was built
        raise GraphError(f"{path.name} is no ONNX model: {str(error)[:200]}.") from error
    opset = next((o.version for o in proto.opset_import if o.domain in _OURS), 0)
    if opset not in _OPSETS:
        raise GraphError(
            f"{path.name} is of opset {opset}; {_OPSETS[0]} to {_OPSETS[-1]} are read. Convert it with onnx.version_converter."
        )
    graph = proto.graph
    if len(graph.node) > limits.operations:
        raise GraphError(f"{path.name} has {len(graph.node)} nodes; at most {limits.operations} are allowed.")
    if graph.sparse_initializer:
        raise GraphError(f"{path.name} has sparse constants, which are not read. Make them dense.")
    constants: dict[str, HostArray] = {}
    given = [(t.name, t) for t in graph.initializer]
    given += [(n.output[0], _value(n)) for n in graph.node if n.op_type == "Constant" and n.domain in _OURS and n.output]
    left = limits.constant_bytes
    for name, tensor in given:
        constants[name] = array_of(tensor, path.parent, left) if isinstance(tensor, onnx.TensorProto) else tensor
        left -= constants[name].nbytes
        if left < 0:
            raise GraphError(f"{path.name} has more than {limits.constant_bytes} bytes of constants. Give larger limits.")
    nodes = [n for n in graph.node if n.op_type != "Constant" or n.domain not in _OURS]
    return Model(opset, [i for i in graph.input if i.name not in constants], [o.name for o in graph.output], nodes, constants)


def _value(node: Any) -> Any:
    """What a node Constant holds: a tensor of ONNX's, or an array of the numbers that it spells out."""
    found = {a.name: a for a in node.attribute}
    kinds = {"value_float": (np.float32, "f"), "value_int": (np.int64, "i")}
    lists = {"value_floats": (np.float32, "floats"), "value_ints": (np.int64, "ints")}
    for name, attribute in found.items():
        if name == "value":
            return attribute.t
        if name in kinds or name in lists:
            dtype, field = {**kinds, **lists}[name]
            content = getattr(attribute, field)
            return np.asarray(content if name in kinds else list(content), dtype)
    raise GraphError(f"the constant {node.output[0]} is of {', '.join(found) or 'nothing'}; numbers are read alone.")


def array_of(tensor: Any, folder: Path | None = None, left: int = 2**16) -> HostArray:
    """A tensor of ONNX's as an array of at most some bytes; one that lies beside the model needs the model's folder."""
    onnx = library()
    dtype, shape = dtype_of(tensor.data_type), tuple(tensor.dims)
    size = math.prod(shape)
    if any(n < 0 for n in shape) or len(shape) > 64 or size * dtype.itemsize > left:
        raise GraphError(f"the constant {tensor.name} has the shape {shape}, which is more than the limits let through.")
    try:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            return np.asarray(onnx.numpy_helper.to_array(tensor)).astype(dtype.numpy, copy=False).reshape(shape)
        if folder is None:
            raise GraphError(f"the constant {tensor.name} lies outside of the model, where none may.")
        raw = _outside(tensor, folder, (size * dtype.bits + 7) // 8)
        if dtype.bits >= 8:
            return np.frombuffer(raw, dtype.numpy.newbyteorder("<")).astype(dtype.numpy, copy=False).reshape(shape)
        inside = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=raw)
        return np.asarray(onnx.numpy_helper.to_array(inside)).astype(dtype.numpy, copy=False).reshape(shape)
    except (ValueError, TypeError, OSError) as error:
        if isinstance(error, IntermodalError):
            raise
        raise GraphError(f"the constant {tensor.name} cannot be read: {str(error)[:200]}.") from error


def _outside(tensor: Any, folder: Path, length: int) -> bytes:
    """The bytes of a constant that lies in a file beside the model."""
    entries = {e.key: e.value for e in tensor.external_data}
    location = entries.get("location", "")
    parts = PurePosixPath(location).parts
    windows = PureWindowsPath(location)
    if not parts or parts[0] == "/" or ".." in parts or windows.drive or windows.root or "\\" in location or "\0" in location:
        raise GraphError(f"the constant {tensor.name} is said to lie in {location!r}, outside of the model's folder.")
    home = folder.resolve()
    file = (home / location).resolve()
    if not file.is_relative_to(home):  # a link on the way leads out
        raise GraphError(f"the constant {tensor.name} is said to lie in {location!r}, which leads out of the model's folder.")
    if not file.is_file():
        raise GraphError(f"the constant {tensor.name} lies in {location!r}, and there is no such file beside the model.")
    start, stated = int(entries.get("offset", "0")), int(entries.get("length", str(length)))
    if stated != length or start < 0 or start + length > file.stat().st_size:
        raise GraphError(f"the constant {tensor.name} needs {length} bytes of {location!r} at {start}; they are not there.")
    with file.open("rb") as stream:
        stream.seek(start)
        data: bytes = stream.read(length)
        return data
