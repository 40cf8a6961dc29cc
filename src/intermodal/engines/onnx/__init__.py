"""The ONNX Runtime engine: each op a small ONNX model, built once and run on OrtValues."""

from intermodal.engines.onnx.backend import OnnxBackend

__all__ = ["OnnxBackend"]
