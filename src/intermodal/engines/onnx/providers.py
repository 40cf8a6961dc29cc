"""ONNX Runtime's execution providers as kinds of devices."""

from __future__ import annotations

from typing import Final, NamedTuple

import onnxruntime as ort

from intermodal.devices import Device

__all__ = ["DEVICES", "PROVIDERS", "Provider", "provider_of"]


class Provider(NamedTuple):
    """An execution provider.

    Attributes:
        name: ONNX Runtime's name of it.
        kind: the kind of device that it is here.
        memory: where its arrays live: ``cpu`` for those that take host memory, else ONNX Runtime's name of the memory.
    """

    name: str
    kind: str
    memory: str


PROVIDERS: Final = tuple(
    Provider(f"{name}ExecutionProvider", kind, memory)
    for name, kind, memory in (
        ("CPU", "cpu", "cpu"),
        ("CUDA", "cuda", "cuda"),
        ("Tensorrt", "tensorrt", "cuda"),
        ("NvTensorRTRTX", "tensorrt_rtx", "cuda"),
        ("MIGraphX", "migraphx", "cuda"),  # AMD's memory goes by the same name
        ("ROCM", "rocm", "cuda"),
        ("CANN", "cann", "cann"),
        ("Dml", "dml", "dml"),
        ("OpenVINO", "openvino", "cpu"),
        ("Dnnl", "dnnl", "cpu"),
        ("CoreML", "coreml", "cpu"),
        ("Xnnpack", "xnnpack", "cpu"),
        ("QNN", "qnn", "cpu"),
        ("VitisAI", "vitisai", "cpu"),
        ("Nnapi", "nnapi", "cpu"),
    )
)
"""Those that compute on this machine, the default first. Azure's, which sends data to another one, is none."""


def _found() -> dict[Device, Provider]:
    there = set(ort.get_available_providers())
    return {Device(f"onnx:{p.kind}"): p for p in PROVIDERS if p.name in there}


DEVICES: Final = _found()
"""The devices that this build of ONNX Runtime has."""


def provider_of(device: Device) -> Provider:
    """The provider that computes for a device."""
    return DEVICES[device]
