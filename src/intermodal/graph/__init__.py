"""Programs as data: the IR, capture, clean-up, compilation, export."""

from intermodal.graph.ir import (
    ConstantIr as ConstantIr,
    GraphIr as GraphIr,
    OperationIr as OperationIr,
    Status as Status,
    TensorIr as TensorIr,
)
from intermodal.graph.sizes import Size as Size

__all__ = ["ConstantIr", "GraphIr", "OperationIr", "Size", "Status", "TensorIr"]
