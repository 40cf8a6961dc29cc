"""The contract between intermodal and an engine, and the registry of engines."""

from intermodal.backend.contract import Array, Backend, DTypeUsage, HostMemory, Native
from intermodal.backend.memory import MemoryInfo
from intermodal.backend.plugins import PluginWarning
from intermodal.backend.registry import (
    BackendRegistry,
    EngineInfo,
    backend_of,
    check_device,
    engines,
    entries,
    refresh,
    register,
    unregister,
)

__all__ = [
    "Array",
    "Backend",
    "BackendRegistry",
    "DTypeUsage",
    "EngineInfo",
    "HostMemory",
    "MemoryInfo",
    "Native",
    "PluginWarning",
    "backend_of",
    "check_device",
    "engines",
    "entries",
    "refresh",
    "register",
    "unregister",
]
