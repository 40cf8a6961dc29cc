"""Programs as ONNX files: the model, its constants inside or in a file beside it, and a check of what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import onnx

from intermodal.backend import Program
from intermodal.engines.onnx.builder import Builder
from intermodal.engines.onnx.programs import write
from intermodal.errors import UnsupportedError

__all__ = ["save"]

_INSIDE: Final = 2**30  # bytes of constants that stay in the model: a file of protobuf has less than 2 GiB
_PAGE: Final = 4096  # where a constant begins, so that whoever reads the file can map it into memory


def save(program: Program, path: Path, names: tuple[list[str], list[str]], external: bool | None) -> None:
    """Write a program as an ONNX model, and check it as it stands there.

    Args:
        program: with numbers or named sizes.
        path: of the model; constants beside it go to a file of the same name and ``.data``.
        names: of the inputs and of the outputs.
        external: whether constants go beside it; by default where they have more than 1 GiB.
    """
    inputs, outputs = names
    g = Builder(reserved={*inputs, *outputs})
    results = write(g, program, inputs)
    beside = sum(a.nbytes for _, a in g.weights) > _INSIDE if external is None else external
    data = path.with_name(f"{path.name}.data")
    if beside:
        with data.open("wb") as file:
            for proto, array in g.weights:
                _put(proto, array, file, data.name)
    else:
        for proto, array in g.weights:
            proto.raw_data = np.ascontiguousarray(array).tobytes()
    path.write_bytes(g.model(results, names=outputs, opset=g.oldest()).SerializeToString())
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        path.unlink()
        if beside:
            data.unlink()
        raise UnsupportedError(f"save: ONNX's checker refuses the model: {error}. Give the sizes as numbers.") from error


def _put(proto: onnx.TensorProto, array: np.ndarray[Any, Any], file: BinaryIO, location: str) -> None:
    """A constant's bytes in a file, and where they are in the model."""
    file.write(b"\0" * (-file.tell() % _PAGE))
    proto.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", file.tell()), ("length", array.nbytes)):
        proto.external_data.add(key=key, value=str(value))
    file.write(np.ascontiguousarray(array).data)
