"""The contract between intermodal and an engine, the registry of engines, what they can do, and how they start and end."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from intermodal.backend.contract import Array, Backend, DTypeUsage, HostMemory, Native, Program
from intermodal.backend.layer import Layer
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

if TYPE_CHECKING:
    from intermodal.backend.capabilities import BackendCapabilities, BackendRequirements, probe
    from intermodal.backend.lifecycle import (
        BackendConfig,
        BackendFactory,
        BackendMemoryConfig,
        BackendState,
        BackendStatus,
        ComputeBackend,
        MemoryGrowthStrategy,
        TensorOps,
    )
    from intermodal.backend.probing import Probed, Support, small_call

__all__ = [
    "Array",
    "Backend",
    "BackendCapabilities",
    "BackendConfig",
    "BackendFactory",
    "BackendMemoryConfig",
    "BackendRegistry",
    "BackendRequirements",
    "BackendState",
    "BackendStatus",
    "ComputeBackend",
    "DTypeUsage",
    "EngineInfo",
    "HostMemory",
    "Layer",
    "MemoryGrowthStrategy",
    "MemoryInfo",
    "Native",
    "PluginWarning",
    "Probed",
    "Program",
    "Support",
    "TensorOps",
    "backend_of",
    "check_device",
    "engines",
    "entries",
    "probe",
    "refresh",
    "register",
    "small_call",
    "unregister",
]

# Loaded when asked for: most programs never do, and the import stays light.
_LATER: Final = {
    "capabilities": ("BackendCapabilities", "BackendRequirements", "probe"),
    "lifecycle": (
        "BackendConfig",
        "BackendFactory",
        "BackendMemoryConfig",
        "BackendState",
        "BackendStatus",
        "ComputeBackend",
        "MemoryGrowthStrategy",
        "TensorOps",
    ),
    "probing": ("Probed", "Support", "small_call"),
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            return getattr(import_module(f"intermodal.backend.{module}"), name)
    raise AttributeError(f"module 'intermodal.backend' has no attribute {name!r}")
