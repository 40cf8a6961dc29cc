"""Small calculations with known results: what a device must get right before anything else is asked of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import intermodal as im
from intermodal.backend import Backend
from intermodal.cli.engines import holds_data
from intermodal.cli.threads import pools
from intermodal.devices import Device

__all__ = ["PROBES", "examine"]

PROBES: Final[dict[str, Callable[[Device], None]]] = {}


class WrongResultError(Exception):
    """A result that is not what it must be."""


def _probe(function: Callable[[Device], None]) -> Callable[[Device], None]:
    PROBES[function.__name__] = function
    return function


def _expect(found: im.Tensor, expected: object, tolerance: float = 0.0) -> None:
    data, wanted = found.numpy(), np.asarray(expected)
    if data.shape != wanted.shape or not np.allclose(data, wanted, rtol=tolerance, atol=0.0, equal_nan=True):
        raise WrongResultError(f"expected {_short(wanted)}, got {_short(data)}")


def _short(data: np.ndarray[Any, Any]) -> str:
    text = np.array2string(data, threshold=6, edgeitems=2, separator=", ").replace("\n", "")
    return f"{text} of shape {data.shape}" if data.ndim else text


def _floats(*values: float, device: Device) -> im.Tensor:
    return im.asarray(np.asarray(values, np.float32), device=device)


@_probe
def transfer(device: Device) -> None:
    """Data come back as they went, also from memory that is read backwards."""
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    _expect(im.asarray(data, device=device), data)
    _expect(im.asarray(data[::-1, ::-2], device=device), data[::-1, ::-2])


@_probe
def arithmetic(device: Device) -> None:
    """Small whole numbers, which float32 holds exactly."""
    x = _floats(1, -2, 3, device=device)
    _expect(x * 2.0 + x / 2.0 - 1.0, [1.5, -6.0, 6.5])


@_probe
def comparison(device: Device) -> None:
    """NaN is equal to nothing and larger than nothing."""
    x = _floats(1, float("nan"), 3, device=device)
    _expect(im.where(x > 2.0, x, 0.0), [0, 0, 3])
    _expect(im.equal(x, x), [True, False, True])


@_probe
def functions(device: Device) -> None:
    """Exponential and logarithm to four units in the last place."""
    x = _floats(0.5, 1, 2, device=device)
    tolerance = 4 * float(np.finfo(np.float32).eps)
    _expect(im.exp(x), np.exp([0.5, 1.0, 2.0]), tolerance)
    _expect(im.log(x), np.log([0.5, 1.0, 2.0]), tolerance)


@_probe
def reduction(device: Device) -> None:
    """A sum that is exact, and a largest element that NaN takes over."""
    _expect(im.sum(im.asarray(np.arange(1, 101, dtype=np.float32).reshape(4, 25), device=device)), 5050.0)
    _expect(im.max(_floats(1, float("nan"), 3, device=device)), float("nan"))


@_probe
def ordering(device: Device) -> None:
    """Sorting."""
    _expect(im.sort(_floats(3, 1, 2, device=device)), [1, 2, 3])


@_probe
def places(device: Device) -> None:
    """Indices as results, which the standard wants in the default integer."""
    _expect(im.argsort(_floats(3, 1, 2, device=device)), [1, 2, 0])


@_probe
def indexing(device: Device) -> None:
    """Slices backwards, and elements by their indices."""
    x = im.asarray(np.arange(12, dtype=np.float32).reshape(3, 4), device=device)
    _expect(x[::-1, 1], [9, 5, 1])
    _expect(im.take(x, im.asarray(np.asarray([2, 0], np.int32), device=device), axis=0), [[8, 9, 10, 11], [0, 1, 2, 3]])


@_probe
def product(device: Device) -> None:
    """A matrix product large enough for several threads; its sums stay below 2**24, so float32 is exact in any order."""
    data = (np.arange(256 * 256) % 17 - 8).reshape(256, 256).astype(np.float32)
    x = im.asarray(data, device=device)
    _expect(x @ x, data.astype(np.float64) @ data.astype(np.float64))


@_probe
def solving(device: Device) -> None:
    """A small system of equations."""
    a, b = np.asarray([[4, 1], [1, 3]], np.float32), np.asarray([1, 2], np.float32)
    x = im.linalg.solve(im.asarray(a, device=device), im.asarray(b, device=device))
    _expect(x, np.asarray([1 / 11, 7 / 11]), 16 * float(np.finfo(np.float32).eps))


@_probe
def randomness(device: Device) -> None:
    """The same seed gives the same numbers, within their bounds."""
    first, second = (im.random.uniform((64,), seed=7, device=device) for _ in range(2))
    _expect(first, second.numpy())
    data = first.numpy()
    if not ((data >= 0) & (data < 1)).all() or np.unique(data).size < 32:
        raise WrongResultError(f"64 uniform numbers in [0, 1) are {_short(data)}")


def shapes(device: Device) -> None:
    """What can be asked of a device without data."""
    x = im.zeros((3, 4), device=device)
    found = (x @ im.matrix_transpose(x), im.sum(x, axis=0), x[1:, None])
    if [t.shape for t in found] != [(3, 3), (4,), (2, 1, 4)]:
        raise WrongResultError(f"shapes are {[t.shape for t in found]}, not [(3, 3), (4,), (2, 1, 4)]")


def examine(backend: Backend) -> dict[str, Any]:
    """Run the probes on each device of an engine; then what threads its process has."""
    return {
        "devices": [_examine(backend, device) for device in backend.devices()],
        "pools": pools(),
    }


def _examine(backend: Backend, device: Device) -> dict[str, Any]:
    start = time.perf_counter()
    try:
        chosen = PROBES if holds_data(backend, device) else {"shapes": shapes}
        checks = [_check(name, probe, device) for name, probe in chosen.items()]
    except Exception as error:  # the first transfer failed: the rest would only repeat it
        checks = [_failed("transfer", error)]
    return {
        "device": str(device),
        "name": backend.name(device),
        "ok": all(check["result"] != "failed" for check in checks),
        "seconds": round(time.perf_counter() - start, 3),
        "checks": checks,
    }


def _check(name: str, probe: Callable[[Device], None], device: Device) -> dict[str, Any]:
    try:
        probe(device)
    except im.UnsupportedError as error:  # said before anything was computed: a limit, and no mistake
        return {"check": name, "result": "unsupported", "message": str(error)}
    except Exception as error:
        return _failed(name, error)
    return {"check": name, "result": "passed", "message": None}


def _failed(name: str, error: Exception) -> dict[str, Any]:
    text = " ".join(str(error).split())
    known = isinstance(error, (WrongResultError, im.IntermodalError))
    return {"check": name, "result": "failed", "message": text if known else f"{type(error).__name__}: {text}"}
