"""What a device can do, and what a program requires of one: data that can be compared and sent.

`probe` finds the capabilities by running small ops; `BackendCapabilities.unmet` compares them with `BackendRequirements`
and answers with every requirement that is not met, in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypedDict, Unpack

from intermodal import dtypes as _dtypes
from intermodal.backend import probing
from intermodal.backend.contract import DTypeUsage
from intermodal.backend.memory import MemoryInfo
from intermodal.backend.probing import Probed, Support
from intermodal.backend.registry import check_device
from intermodal.devices import Device, DeviceLike, as_device
from intermodal.dtypes import DType, DTypeLike, as_dtype
from intermodal.errors import ArgumentError, InvalidValueError
from intermodal.ops.table import TABLE

__all__ = ["BackendCapabilities", "BackendRequirements", "Needs", "probe"]


class Needs(TypedDict, total=False):
    """The keywords of `BackendRequirements` and of `im.best`."""

    devices: DeviceLike | Iterable[DeviceLike]
    engines: str | Iterable[str]
    kinds: str | Iterable[str]
    dtypes: DTypeLike | Iterable[DTypeLike]
    ops: str | Iterable[str]
    min_dims: int
    min_batch_size: int
    min_sequence_length: int
    min_free_memory: int
    flash_attention: bool
    paged_attention: bool
    extra: Mapping[str, object]


@dataclass(frozen=True, slots=True, init=False)
class BackendRequirements:
    """What a program requires of a device. Whatever is not given is not asked for.

    Attributes:
        devices: exactly these; the first is the one to run on, and all of them must meet the rest.
        engines: one of these engines; no other is loaded.
        kinds: one of these kinds of device, such as ``cuda`` or ``cpu``.
        dtypes: the device computes with all of them.
        ops: each runs, with every one of the dtypes that it takes; without dtypes, with any.
        min_dims: tensors have at least so many axes.
        min_batch_size: an engine with a limit allows so many examples at once.
        min_sequence_length: an engine with a limit allows so long a sequence.
        min_free_memory: so many bytes are free now.
        flash_attention: the engine's own attention never holds all scores at once.
        paged_attention: the engine attends to a cache in pages.
        extra: entries of `Backend.features`; a number is a least value, anything else must be equal.

    Example:
        >>> BackendRequirements(dtypes="bfloat16", ops=["matmul", "nn.softmax"])
        BackendRequirements(dtypes=bfloat16, ops=matmul+softmax)
    """

    devices: tuple[Device, ...]
    engines: tuple[str, ...]
    kinds: tuple[str, ...]
    dtypes: tuple[DType, ...]
    ops: tuple[str, ...]
    min_dims: int
    min_batch_size: int
    min_sequence_length: int
    min_free_memory: int
    flash_attention: bool
    paged_attention: bool
    extra: Mapping[str, object]

    def __init__(self, **needs: Unpack[Needs]) -> None:
        names = [f.name for f in fields(self)]
        unknown = [name for name in needs if name not in names]
        if unknown:
            raise ArgumentError(
                f"there is no requirement {', '.join(map(repr, unknown))}. The requirements are {', '.join(names)}."
            )

        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("devices", tuple(map(as_device, _several(needs.get("devices", ())))))
        put("engines", _several(needs.get("engines", ())))
        put("kinds", _several(needs.get("kinds", ())))
        put("dtypes", tuple(map(as_dtype, _several(needs.get("dtypes", ())))))
        put("ops", tuple(map(_op_name, _several(needs.get("ops", ())))))
        for name in ("min_dims", "min_batch_size", "min_sequence_length", "min_free_memory"):
            value: Any = needs.get(name, 0)
            if not isinstance(value, int) or value < 0:
                raise InvalidValueError(f"{name} is {value!r}. Give a whole number that is not negative.")
            put(name, value)
        put("flash_attention", bool(needs.get("flash_attention")))
        put("paged_attention", bool(needs.get("paged_attention")))
        put("extra", dict(needs.get("extra") or {}))

    def but(self, **needs: Unpack[Needs]) -> BackendRequirements:
        """The same requirements with some replaced."""
        mine: Any = {f.name: getattr(self, f.name) for f in fields(self)}
        return BackendRequirements(**mine | needs)

    def __repr__(self) -> str:
        given = [(f.name, getattr(self, f.name)) for f in fields(self)]
        return f"BackendRequirements({', '.join(f'{name}={_text(value)}' for name, value in given if value)})"


def _several(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, (str, Device, DType, type)) or not isinstance(value, Iterable) else tuple(value)


def _text(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(dict(value) if isinstance(value, Mapping) else value)


def _op_name(op: str) -> str:
    row = TABLE.get(op.rpartition(".")[2])
    if row is None or op not in (row.name, row.qualified_name):
        raise InvalidValueError(f"there is no op {op!r}. Name a row of the op table, such as 'matmul' or 'nn.softmax'.")
    return row.name


@dataclass(frozen=True, slots=True)
class BackendCapabilities:
    """What one device was seen to do.

    Attributes:
        device: the device in question.
        name: the engine and its version.
        supported_devices: all devices of the engine.
        usage: what the device does with each dtype that was probed.
        ops: how each op that was probed runs on each dtype.
        reasons: why a dtype is not stored or not computed with.
        max_tensor_dims: the most axes of a tensor, up to 64.
        max_batch_size: the engine's limit; None where only memory limits it.
        max_sequence_length: the engine's limit; None where only memory limits it.
        memory_alignment: what host memory must be aligned to so that it is shared; None where it is never shared.
        memory: total and free at the time of the probe; None where the engine cannot tell.
        extra_capabilities: `Backend.features`: what the engine says of itself.
    """

    device: Device
    name: str = ""
    supported_devices: tuple[Device, ...] = ()
    usage: Mapping[DType, DTypeUsage] = field(default_factory=dict)
    ops: Mapping[tuple[str, DType], Probed] = field(default_factory=dict)
    reasons: Mapping[DType, str] = field(default_factory=dict)
    max_tensor_dims: int = 0
    max_batch_size: int | None = None
    max_sequence_length: int | None = None
    memory_alignment: int | None = None
    memory: MemoryInfo | None = None
    extra_capabilities: Mapping[str, object] = field(default_factory=dict)

    @property
    def supported_dtypes(self) -> tuple[DType, ...]:
        """The dtypes, of those probed, that the device computes with."""
        return tuple(d for d, usage in self.usage.items() if DTypeUsage.GENERAL in usage)

    @property
    def is_accelerator(self) -> bool:
        """Whether the device is something else than the CPU; an engine whose kinds do not tell says so by the feature ``accelerator``."""
        return bool(self.extra_capabilities.get("accelerator", self.device.kind != "cpu"))

    @property
    def supports_fp16(self) -> bool:
        return _dtypes.float16 in self.supported_dtypes

    @property
    def supports_bf16(self) -> bool:
        return _dtypes.bfloat16 in self.supported_dtypes

    @property
    def supports_int8(self) -> bool:
        return _dtypes.int8 in self.supported_dtypes

    @property
    def supports_flash_attention(self) -> bool:
        """The engine says so, and its own `im.nn.attention` ran."""
        return self._has("flash_attention", "attention")

    @property
    def supports_paged_attention(self) -> bool:
        """The engine says so, and its own op ran."""
        return self._has("paged_attention", "paged_attention")

    @property
    def supports_tensor_parallelism(self) -> bool:
        return self._has("tensor_parallelism")

    @property
    def supports_pipeline_parallelism(self) -> bool:
        return self._has("pipeline_parallelism")

    @property
    def supports_custom_kernels(self) -> bool:
        return self._has("custom_kernels")

    @property
    def supports_cuda_graphs(self) -> bool:
        return self._has("cuda_graphs")

    def _has(self, feature: str, op: str = "") -> bool:
        ran = not op or any(name == op and found.support is Support.NATIVE for (name, _), found in self.ops.items())
        return ran and self.extra_capabilities.get(feature) is True

    def meets_requirements(self, requirements: BackendRequirements) -> bool:
        """Whether all requirements are met; `unmet` says which are not."""
        return not self.unmet(requirements)

    def unmet(self, requirements: BackendRequirements) -> tuple[str, ...]:
        """Every requirement that the device does not meet, each with its reason."""
        return tuple(self._unmet(requirements))

    def _unmet(self, r: BackendRequirements) -> Iterator[str]:
        if r.devices and self.device not in r.devices:
            yield f"it is not {' or '.join(map(str, r.devices))}"
        if r.engines and self.device.engine not in r.engines:
            yield f"its engine is not {' or '.join(r.engines)}"
        if r.kinds and self.device.kind not in r.kinds:
            yield f"its kind is {self.device.kind or 'not told'}, not {' or '.join(r.kinds)}"
        for dtype in r.dtypes:
            if dtype not in self.usage:
                yield f"{dtype} was not probed"
            elif DTypeUsage.GENERAL not in self.usage[dtype]:
                yield f"it does not compute with {dtype}: {self.reasons.get(dtype, 'no reason is known')}"
        for op in r.ops:
            yield from self._unmet_op(op, r.dtypes)
        yield from _limit("axes of a tensor", r.min_dims, self.max_tensor_dims)
        yield from _limit("examples in a batch", r.min_batch_size, self.max_batch_size)
        yield from _limit("elements in a sequence", r.min_sequence_length, self.max_sequence_length)
        if r.min_free_memory:
            free = self.memory.free if self.memory is not None else None
            if free is None:
                yield f"{r.min_free_memory} bytes must be free, and the engine cannot tell how many are"
            elif free < r.min_free_memory:
                yield f"{r.min_free_memory} bytes must be free, and {free} are"
        if r.flash_attention and not self.supports_flash_attention:
            yield "it has no flash attention of its own"
        if r.paged_attention and not self.supports_paged_attention:
            yield "it has no paged attention of its own"
        for name, wanted in r.extra.items():
            there = self.extra_capabilities.get(name)
            if not _meets(there, wanted):
                yield f"{name} must be {_least(wanted)}{wanted!r}, and " + ("is not told" if there is None else f"is {there!r}")

    def _unmet_op(self, op: str, dtypes: tuple[DType, ...]) -> Iterator[str]:
        found = {d: probed for (name, d), probed in self.ops.items() if name == op and (not dtypes or d in dtypes)}
        taken = {d: probed for d, probed in found.items() if probed.support is not Support.NOT_TAKEN}
        if not found:
            yield f"{op} was not probed"
        elif not taken:
            yield f"{op} takes none of {', '.join(map(str, found))}, on any device"
        elif dtypes:
            yield from (f"{op} does not run with {d}: {p.reason}" for d, p in taken.items() if not p.runs)
        elif not any(probed.runs for probed in taken.values()):
            dtype, probed = next(iter(taken.items()))
            yield f"{op} does not run, with {dtype} for example: {probed.reason}"


def _limit(what: str, wanted: int, there: int | None) -> Iterator[str]:
    if there is not None and wanted > there:
        yield f"{wanted} {what} are required, and its limit is {there}"


def _meets(there: object, wanted: object) -> bool:
    if _least(wanted):
        return isinstance(there, (int, float)) and there >= wanted  # type: ignore[operator]  # _least says that it is a number
    return there == wanted


def _least(wanted: object) -> str:
    return "at least " if isinstance(wanted, (int, float)) and not isinstance(wanted, bool) else ""


# What an op is tried on where no dtype is named: the first that it takes decides.
_ANY: Final = (_dtypes.float32, _dtypes.int64, _dtypes.bool_, _dtypes.complex64)
_ATTENTION: Final = {"flash_attention": "attention", "paged_attention": "paged_attention"}


def probe(
    device: DeviceLike, *, dtypes: Iterable[DTypeLike] | None = None, ops: Iterable[str] = (), again: bool = False
) -> BackendCapabilities:
    """What a device does with dtypes and ops, found by running something small with each.

    Args:
        device: the device to ask.
        dtypes: which to try; all by default.
        ops: which to try, with each of the dtypes.
        again: run everything anew; otherwise an answer is kept for the life of the process.

    Example:
        >>> found = probe("numpy:cpu", dtypes=["float32", "float8_e5m2"], ops=["matmul"])
        >>> found.supported_dtypes, found.max_tensor_dims
        ((intermodal.float32,), 64)
    """
    device = as_device(device)
    if again:
        probing.forget(device)
    backend = check_device(device)
    chosen = _dtypes.ALL if dtypes is None else tuple(map(as_dtype, dtypes))
    seen = {d: probing.dtype_support(device, d) for d in chosen}
    features = dict(backend.features(device))
    names = [_op_name(op) for op in ops]
    names += [op for feature, op in _ATTENTION.items() if features.get(feature) is True and op in TABLE]
    tried = {(op, d): probing.op_support(device, op, d) for op in names for d in chosen or _ANY}
    return BackendCapabilities(
        device=device,
        name=backend.name(device),
        supported_devices=tuple(backend.devices()),
        usage={d: usage for d, (usage, _) in seen.items()},
        ops=tried,
        reasons={d: reason for d, (_, reason) in seen.items() if reason},
        max_tensor_dims=probing.dimensions(device),
        max_batch_size=_number(features.get("max_batch_size")),
        max_sequence_length=_number(features.get("max_sequence_length")),
        memory_alignment=max(1, backend.shares.alignment) if device.kind == "cpu" and backend.shares is not None else None,
        memory=backend.memory_info(device),
        extra_capabilities=features,
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
