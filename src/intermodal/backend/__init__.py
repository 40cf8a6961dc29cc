"""The contract between intermodal and an engine, and the registry of engines."""

from intermodal.backend.contract import Array, Backend, DTypeUsage, HostMemory, Native
from intermodal.backend.registry import backend_of, check_device, engines, register, unregister

__all__ = [
    "Array",
    "Backend",
    "DTypeUsage",
    "HostMemory",
    "Native",
    "backend_of",
    "check_device",
    "engines",
    "register",
    "unregister",
]
