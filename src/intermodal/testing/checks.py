"""The checks of one call on a device: result against reference and decomposition, infer, dtypes, errors, unchanged inputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from intermodal import dispatch, dtypes
from intermodal.backend import DTypeUsage, backend_of
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.errors import ExecutionError, IntermodalError, UnsupportedError
from intermodal.ops.table import Inferred, Op, Role, Spec
from intermodal.tensor import Tensor
from intermodal.testing.calls import arrays_in, decomposed, mapped, on, results
from intermodal.testing.samples import HostArray, Law, Sample
from intermodal.testing.tolerance import NUDGES, bound, complaint, nudged

__all__ = ["PASSED", "REFERENCE", "Outcome", "Reference", "check", "inferred"]

REFERENCE = Device("numpy:cpu")


class Outcome(NamedTuple):
    """How a call went: ``passed``, ``unsupported`` with the reason, or the check that failed with what is wrong.

    An unsupported call is ``owed`` where the device declares all dtypes that the op needs.
    """

    status: str
    message: str = ""
    owed: bool = False


PASSED = Outcome("passed")


class Reference:
    """What the NumPy engine says of a sample: its results or its error, and how they move when the operands do."""

    def __init__(self, row: Op, sample: Sample, *, flushes: bool = False) -> None:
        self.row, self.sample, self.flushes = row, sample, flushes
        self.error: Exception | None = None
        self.values: list[HostArray] = []
        self._moved: list[list[HostArray]] | None = None
        try:
            self.values = self._run(sample)
        except Exception as error:  # a reference that fails in another way is reported as well
            self.error = error

    def _run(self, sample: Sample) -> list[HostArray]:
        args, kwargs = on(self.row, sample, REFERENCE)
        try:
            return [t.numpy() for t in results(self.row.function(*args, **kwargs))]
        except UnsupportedError:
            if self.row.name == "nextafter":  # the next number of a wider dtype is another one
                raise
            # NumPy only stores some dtypes; another engine may compute with them, and is held to the wider result, rounded.
            outputs = inferred(self.row, sample.args, dict(sample.kwargs)).outputs
            args, kwargs = on(self.row, _widened(sample), REFERENCE)
            wide = [t.numpy() for t in results(self.row.function(*args, **kwargs))]
            return [w.astype(o.dtype.numpy) for w, o in zip(wide, outputs, strict=True)]

    def moved(self) -> list[list[HostArray]]:
        """The results for operands that are off by one step each; asked for only where results differ at all."""
        if self._moved is None:
            random = np.random.Generator(np.random.Philox(1))
            self._moved = []
            for turn in range(NUDGES):
                nudge = partial(nudged, random=random, turn=turn)
                args = tuple(mapped(v, nudge) for v in self.sample.args)
                kwargs = {k: mapped(v, nudge) for k, v in self.sample.kwargs.items()}
                try:
                    self._moved.append(self._run(self.sample.but(args=args, kwargs=kwargs)))
                except IntermodalError:  # the step left the op's domain; the other steps say enough
                    continue
        return self._moved

    def differs(self, got: Sequence[HostArray], want: Sequence[HostArray] | None = None) -> str | None:
        """What of some results rounding does not explain, against the reference or other results."""
        wanted = self.values if want is None else want
        if len(got) != len(wanted):
            return f"{len(got)} results instead of {len(wanted)}"
        for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
            wrong = complaint(a, b)
            if wrong and not (self.row.movement if self.sample.exact is None else self.sample.exact):
                wrong = complaint(a, b, self._allowed(i, b))
            if wrong:
                return wrong if len(got) == 1 else f"result {i}: {wrong}"
        return None

    def _allowed(self, i: int, want: HostArray) -> Any:
        """The bound for a result, from the reference where it has one of this shape (a dtype may be stored only)."""
        known = len(self.values) > i and self.values[i].shape == want.shape
        moved = [m[i] for m in self.moved() if len(m) > i] if known else []
        exact = self.values[i] if known else want
        elementwise = self.row.family == "elementwise"
        return bound(exact, moved, dtypes.as_dtype(want.dtype), self.sample.terms, elementwise, self.flushes)


_WIDER: Final = {
    dtypes.float8_e4m3fn: dtypes.float32,
    dtypes.float8_e5m2: dtypes.float32,
    dtypes.int4: dtypes.int8,
    dtypes.uint4: dtypes.uint8,
}


def _widened(sample: Sample) -> Sample:
    """The same call in dtypes that NumPy computes with."""

    def widen(value: Any) -> Any:
        if isinstance(value, DType):
            return _WIDER.get(value, value)
        return mapped(value, lambda a: a.astype(_WIDER.get(d := dtypes.as_dtype(a.dtype), d).numpy))

    return sample.but(args=tuple(map(widen, sample.args)), kwargs={k: widen(v) for k, v in sample.kwargs.items()})


def check(row: Op, sample: Sample, device: Device, layout: str, reference: Reference) -> Outcome:
    """Run a sample on a device and check all that can be known of it."""
    try:
        args, kwargs = on(row, sample, device, layout)
    except UnsupportedError as error:
        return Outcome("unsupported", _reason(error))
    inputs = _tensors((*args, *kwargs.values()))
    before = [np.array(t.numpy()) for t in inputs]
    try:
        got = results(row.function(*args, **kwargs))
        hosts = [_host(t) for t in got]
    except IntermodalError as error:
        return _judge_error(row, sample, device, error, reference)
    except Exception as error:  # whatever it is, the user should have seen an IntermodalError
        return Outcome("error", f"raised {type(error).__name__} ({error}), which is no IntermodalError")
    if sample.raises is not None:
        return Outcome("error", f"gave a result, but {sample.raises.__name__} must be raised")
    if reference.error is not None and not isinstance(reference.error, UnsupportedError):
        return Outcome("error", f"gave a result, but {REFERENCE} raises {type(reference.error).__name__}: {reference.error}")
    return (
        _check_inferred(row, args, kwargs, got, hosts)
        or _check_inputs(inputs, before)
        or _check_values(row, sample, device, hosts, reference)
        or _check_decomposition(row, sample, device, args, kwargs, hosts, reference)
        or (_check_seed(row, sample, args, kwargs, hosts) if row.takes_seed else None)
        or PASSED
    )


def _tensors(values: Sequence[Any]) -> list[Tensor]:
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(v for v in value if isinstance(v, Tensor))
    return found


def _host(tensor: Tensor) -> HostArray:
    return tensor._place.backend.to_host(tensor._data)


def _reason(error: IntermodalError) -> str:
    return str(error).partition(": ")[2] or str(error)


def _judge_error(row: Op, sample: Sample, device: Device, error: IntermodalError, reference: Reference) -> Outcome:
    said = f"raised {type(error).__name__} ({error})"
    lacking = _lacking(row, sample, device)
    promised = not lacking and (row.family == "elementwise" or (row.movement and row.is_primitive))
    if isinstance(error, UnsupportedError) and not promised:
        return Outcome("unsupported", lacking or _reason(error), not lacking)
    if sample.raises is not None:
        wrong = Outcome("error", f"{said}, but {sample.raises.__name__} must be raised")
        return PASSED if isinstance(error, sample.raises) else wrong
    if reference.error is None or isinstance(reference.error, UnsupportedError) or isinstance(error, ExecutionError):
        if promised:
            return Outcome(
                "dtype_usage", f"{said}, but the device declares {'STORAGE' if row.movement else 'ARITHMETIC'} for these dtypes"
            )
        return Outcome("error", f"{said}, but {REFERENCE} gives a result" if reference.error is None else said)
    if type(error) is type(reference.error):
        return PASSED
    return Outcome("error", f"{said}, but {REFERENCE} raises {type(reference.error).__name__}")


def _lacking(row: Op, sample: Sample, device: Device) -> str:
    """Which of the dtypes that go in or come out the device does not compute with, or not store where elements only move."""
    needed = DTypeUsage.STORAGE if row.movement else DTypeUsage.GENERAL
    backend = backend_of(device.engine)
    involved = {dtypes.as_dtype(a.dtype) for a in arrays_in(sample)}
    try:
        found = inferred(row, sample.args, dict(sample.kwargs))
        involved |= {o.dtype for o in found.outputs}
        operands = found.operands if isinstance(found.operands, tuple) else (found.operands,)
        involved |= {d for d in operands if d is not None}
    except (IntermodalError, TypeError):  # the call does not fit; its arrays' dtypes are all that is known
        pass
    lacking = sorted(str(d) for d in involved if needed not in backend.dtype_usage(device, d))
    return f"the device does not {'store' if row.movement else 'compute with'} {', '.join(lacking)}" if lacking else ""


def inferred(row: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Inferred:
    """What the row's rule says of a call, with arrays or tensors as operands."""
    given, attrs = row.bind(*args, **kwargs)
    if row.takes_device and attrs["device"] is None:
        attrs["device"] = REFERENCE
    if row.takes_seed and attrs["seed"] is None:
        attrs["seed"] = 0
    return dispatch.infer(row, [_spec(v, p.role) for v, p in zip(given, row.tensor_params, strict=True)], attrs)


def _spec(value: Any, role: Role) -> Any:
    if role in (Role.SEQUENCE, Role.VARIADIC):
        return [_spec(v, Role.TENSOR) for v in value]
    if isinstance(value, (Tensor, np.ndarray)):
        return Spec(tuple(value.shape), dtypes.as_dtype(value.dtype))
    return value


def _check_inferred(
    row: Op, args: tuple[Any, ...], kwargs: dict[str, Any], got: Sequence[Tensor], hosts: Sequence[HostArray]
) -> Outcome | None:
    outputs = inferred(row, args, kwargs).outputs
    if len(outputs) != len(got):
        return Outcome("infer", f"{len(got)} results, but infer says {len(outputs)}")
    for spec, tensor, host in zip(outputs, got, hosts, strict=True):
        for shape in (tensor.shape, host.shape):
            if len(shape) != spec.ndim or any(m is not None and n != m for n, m in zip(shape, spec.shape, strict=True)):
                return Outcome("infer", f"shape {shape}, but infer says {spec.shape}")
        if tensor.dtype is not spec.dtype:
            return Outcome("dtype", f"a tensor of {tensor.dtype}, but infer says {spec.dtype}")
        if host.dtype != spec.dtype.numpy:
            return Outcome("dtype", f"the engine's array has dtype {host.dtype}, but infer says {spec.dtype}")
    return None


def _check_inputs(inputs: Sequence[Tensor], before: Sequence[HostArray]) -> Outcome | None:
    for i, (tensor, old) in enumerate(zip(inputs, before, strict=True)):
        now = tensor.numpy()
        if now.shape != old.shape or np.ascontiguousarray(now).tobytes() != old.tobytes():
            return Outcome(
                "input", f"the op changed its operand {i}: {complaint(now, old) or 'the sign of a zero or the bits of a NaN'}"
            )
    return None


def _check_values(row: Op, sample: Sample, device: Device, hosts: Sequence[HostArray], reference: Reference) -> Outcome | None:
    if sample.law is not None:
        wrong = _judge(sample.law, sample, list(hosts))
        return Outcome("law", wrong) if wrong else None
    if row.takes_seed or reference.error is not None:
        return None  # numbers of another generator, or a dtype that NumPy only stores
    wrong = reference.differs(hosts)
    return Outcome("values", wrong) if wrong else None


def _judge(law: Law, sample: Sample, found: list[HostArray]) -> str | None:
    try:
        return law(sample, found)
    except Exception as error:  # results so wrong that the law cannot even be applied
        return f"the results cannot be judged: {type(error).__name__} ({error})"


def has_native(row: Op, device: Device, found: set[DType]) -> bool:
    """Whether the engine has a function of its own for a row, for one of the dtypes."""
    backend = backend_of(device.engine)
    return any(backend.native(row, d) is not None for d in found if DTypeUsage.STORAGE in backend.dtype_usage(device, d))


def _check_decomposition(
    row: Op,
    sample: Sample,
    device: Device,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    hosts: Sequence[HostArray],
    reference: Reference,
) -> Outcome | None:
    involved = {dtypes.as_dtype(a.dtype) for a in (*arrays_in(sample), *hosts)}
    if row.decompose is None or not has_native(row, device, involved):
        return None
    try:
        with decomposed(row, device):
            other = [_host(t) for t in results(row.function(*args, **kwargs))]
    except UnsupportedError:
        return None  # the decomposition needs a dtype that the device lacks; its native does not
    except Exception as error:  # whatever it is, the decomposition should have worked where the native did
        return Outcome("decomposition", f"the native gives a result, its decomposition raised {type(error).__name__} ({error})")
    for a, b in zip(hosts, other, strict=False):
        if a.dtype != b.dtype:
            return Outcome("decomposition", f"the native gives {a.dtype}, its decomposition {b.dtype}")
    if sample.law is None and row.takes_seed:
        return None
    wrong = reference.differs(hosts, other) if sample.law is None else _judge(sample.law, sample, other)
    return Outcome("decomposition", f"native against decomposition: {wrong}") if wrong else None


def _check_seed(
    row: Op, sample: Sample, args: tuple[Any, ...], kwargs: dict[str, Any], hosts: Sequence[HostArray]
) -> Outcome | None:
    again = [_host(t) for t in results(row.function(*args, **kwargs))]
    if any(complaint(a, b) for a, b in zip(hosts, again, strict=True)):
        return Outcome("seed", "the same seed gives other numbers the second time")
    other = [_host(t) for t in results(row.function(*args, **{**kwargs, "seed": kwargs["seed"] + 1}))]
    if sample.law is not None and hosts[0].size and not any(complaint(a, b) for a, b in zip(hosts, other, strict=True)):
        return Outcome("seed", "another seed gives the same numbers")
    return None
