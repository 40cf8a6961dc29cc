"""`best`: the device that suits a program, from all that are there, with the reasons for and against each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Unpack

from intermodal import dtypes
from intermodal.backend import DTypeUsage, backend_of, check_device, engines
from intermodal.backend.capabilities import BackendCapabilities, BackendRequirements, Needs, probe
from intermodal.backend.probing import Support
from intermodal.devices import Device
from intermodal.errors import IntermodalError, NoSuitableDeviceError

__all__ = ["Candidate", "Choice", "best"]

ENGINES: Final = ("torch", "numpy", "jax", "onnx", "opencl")
"""The order of engines where nothing else decides; others follow by name. It says nothing but who comes first."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device, or an engine that has none to offer, and how it stands.

    Attributes:
        engine: the engine.
        device: the device; None where the engine could not be asked for its devices.
        unmet: every requirement that it does not meet; empty for one that fits.
        merits: what its place in the order follows from, the weightiest first.
        capabilities: what the probe found; None where there was nothing to probe.
    """

    engine: str
    device: Device | None = None
    unmet: tuple[str, ...] = ()
    merits: tuple[str, ...] = ()
    capabilities: BackendCapabilities | None = None

    @property
    def fits(self) -> bool:
        return not self.unmet

    def __str__(self) -> str:
        name = str(self.device or self.engine)
        return f"{name}: {', '.join(self.merits)}" if self.fits else f"{name}: refused: {'; '.join(self.unmet)}"


@dataclass(frozen=True, slots=True)
class Choice:
    """The answer of `best`.

    Attributes:
        device: the device to use.
        requirements: what was asked for.
        candidates: all that were looked at: those that fit in their order, the chosen one first, then those that were refused.
    """

    device: Device
    requirements: BackendRequirements
    candidates: tuple[Candidate, ...]

    @property
    def capabilities(self) -> BackendCapabilities:
        """What the probe found on the chosen device."""
        found = self.candidates[0].capabilities
        assert found is not None  # it fits, so it was probed
        return found

    def __str__(self) -> str:
        return f"{self.device}\n" + _listed(self.candidates)


def best(requirements: BackendRequirements | None = None, **needs: Unpack[Needs]) -> Choice:
    """The best device that meets all requirements, with the reasons.

    Devices are probed: small ops are run, and a device on which they fail is refused. Those that fit are ordered by

    1. accelerators before the CPU,
    2. how many of the required dtypes the device accelerates, and does not merely compute with,
    3. how many of the required ops the engine has itself, and does not compose of others,
    4. the fixed order of engines torch, numpy, jax, onnx, opencl, then the others by name; of an engine, its own order of devices.

    With ``devices`` nothing else is looked at: the first of them is the answer, or an error that lists what it lacks.
    Nothing is used in place of what was asked for. To find all devices, all engines are loaded; ``engines`` limits that.

    Args:
        requirements: what the program requires.
        needs: the same by keyword, beside or instead of the object; see `BackendRequirements`.

    Raises:
        NoSuitableDeviceError: no device fits; the message has every candidate with all its reasons.

    Example:
        >>> choice = best(dtypes="float64", ops="matmul", engines=["numpy", "meta"])
        >>> choice.device
        Device('numpy:cpu')
        >>> print(choice)
        numpy:cpu
          numpy:cpu: on the CPU, accelerates 1 of 1 dtypes, has 1 of 1 ops itself
          meta:cpu: refused: it does not compute with float64: a meta tensor has no data to read; matmul does not run with float64: a meta tensor has no data to read
    """
    wanted = (requirements or BackendRequirements()).but(**needs)
    found = [_judge(device, wanted) for device in dict.fromkeys(wanted.devices)] if wanted.devices else list(_candidates(wanted))
    fitting = [c for c in found if c.fits]
    refused = [c for c in found if not c.fits]
    if wanted.devices and refused:
        raise NoSuitableDeviceError(
            f"{', '.join(str(c.device) for c in refused)} was asked for and does not meet {wanted}:\n{_listed(refused)}"
        )
    if not fitting:
        raise NoSuitableDeviceError(f"no device meets {wanted}:\n{_listed(refused) or '  no engine was looked at'}")
    if not wanted.devices:
        fitting.sort(key=lambda c: _rank(c, wanted))  # stable: an engine's devices stay in its own order
    chosen = fitting[0].device
    assert chosen is not None  # one without a device never fits
    return Choice(chosen, wanted, (*fitting, *refused))


def _listed(candidates: tuple[Candidate, ...] | list[Candidate]) -> str:
    return "\n".join(f"  {c}" for c in candidates)


def _candidates(wanted: BackendRequirements) -> Iterator[Candidate]:
    for engine in wanted.engines or engines():
        try:
            there = list(backend_of(engine).devices())
        except IntermodalError as error:
            yield Candidate(engine, unmet=(str(error),))
            continue
        except Exception as error:  # a plugin may fail in any way; that must not keep the others from being found
            yield Candidate(engine, unmet=(f"its devices cannot be listed: {type(error).__name__}: {error}",))
            continue
        if not there:
            yield Candidate(engine, unmet=("it has no devices here",))
        for device in there:
            yield _judge(device, wanted)


def _judge(device: Device, wanted: BackendRequirements) -> Candidate:
    # Where nothing is required, a sum in float32 must work all the same: a device that is listed may be of no use.
    tried = wanted.dtypes or (() if wanted.ops else (dtypes.float32,))
    try:
        check_device(device)
        found = probe(device, dtypes=tried, ops=wanted.ops)
    except IntermodalError as error:
        return Candidate(device.engine, device, (str(error),))
    except Exception as error:  # as above
        return Candidate(device.engine, device, (f"it cannot be probed: {type(error).__name__}: {error}",))
    unmet = found.unmet(wanted.but(dtypes=tried))
    return Candidate(device.engine, device, unmet, () if unmet else _merits(found, wanted), found)


def _merits(found: BackendCapabilities, wanted: BackendRequirements) -> tuple[str, ...]:
    merits = ["an accelerator" if found.is_accelerator else "on the CPU"]
    if wanted.dtypes:
        merits.append(f"accelerates {_accelerated(found, wanted)} of {len(wanted.dtypes)} dtypes")
    if wanted.ops:
        merits.append(f"has {_native(found, wanted)} of {len(wanted.ops)} ops itself")
    return tuple(merits)


def _accelerated(found: BackendCapabilities, wanted: BackendRequirements) -> int:
    return sum(DTypeUsage.ACCELERATED in found.usage[d] for d in wanted.dtypes)


def _native(found: BackendCapabilities, wanted: BackendRequirements) -> int:
    """How many of the ops the engine has itself for every dtype on which they run."""

    def has(op: str) -> bool:
        ways = [p.support for (name, _), p in found.ops.items() if name == op and p.runs]
        return all(way is Support.NATIVE for way in ways)

    return sum(map(has, wanted.ops))


def _rank(candidate: Candidate, wanted: BackendRequirements) -> tuple[bool, int, int, int, str]:
    found, engine = candidate.capabilities, candidate.engine
    assert found is not None  # it fits, so it was probed
    place = ENGINES.index(engine) if engine in ENGINES else len(ENGINES)
    return not found.is_accelerator, -_accelerated(found, wanted), -_native(found, wanted), place, engine
