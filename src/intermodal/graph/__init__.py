"""Programs as data: the IR, capture, clean-up, compilation, export."""

from intermodal.graph.compiling import Compiled as Compiled, compile as compile
from intermodal.graph.graph import Graph as Graph
from intermodal.graph.ir import (
    ConstantIr as ConstantIr,
    GraphIr as GraphIr,
    OperationIr as OperationIr,
    Status as Status,
    TensorIr as TensorIr,
)
from intermodal.graph.sizes import Size as Size
from intermodal.graph.tracing import trace as trace

__all__ = ["Compiled", "ConstantIr", "Graph", "GraphIr", "OperationIr", "Size", "Status", "TensorIr", "compile", "trace"]
