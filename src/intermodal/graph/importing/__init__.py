"""ONNX models as graphs: the file, its operators as ops of the table, and the trace that makes a graph of them."""

from intermodal.graph.importing.reading import read as read

__all__ = ["read"]
