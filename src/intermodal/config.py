"""Settings with a scope: a context manager first, then the process's setter, then an environment variable.

Every setting is read at the moment it is needed, so a changed environment variable takes effect at once.

| setting | environment variable | meaning |
|---|---|---|
| ``device`` | ``INTERMODAL_DEVICE`` | where creation functions put new tensors |
| ``default_float`` | ``INTERMODAL_DEFAULT_FLOAT`` | dtype of Python floats: ``float32`` (every engine has it) or ``float64`` |
| ``promotion`` | ``INTERMODAL_PROMOTION`` | ``numpy``: mixed kinds promote as NumPy's do; ``strict``: they raise |
| ``infer_cache`` | ``INTERMODAL_INFER_CACHE`` | how many answers of shape and dtype rules are kept, and as many plans of calls; 0 keeps none |
| ``compile_cache`` | ``INTERMODAL_COMPILE_CACHE`` | how many signatures a compiled function keeps code for, at least 1 |
| ``jax_x64`` | ``INTERMODAL_JAX_X64`` | ``1``: the engine jax turns 64-bit dtypes on when it loads, for all of the process's JAX |
| ``onnx_sessions`` | ``INTERMODAL_ONNX_SESSIONS`` | how many sessions the engine onnx keeps, one for each op with its dtypes, ranks and attributes; 0 keeps none |
| ``onnx_threads`` | ``INTERMODAL_ONNX_THREADS`` | how many threads the sessions of the engine onnx share; 0: one for each core; 1: none besides the caller's |
"""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any, Final, Generic, TypeVar

from intermodal import dtypes
from intermodal.devices import Device, as_device
from intermodal.errors import InvalidValueError

__all__ = ["default_device", "get", "scope", "set"]

T = TypeVar("T")


class _Here(threading.local):
    reads = 0
    noted: builtins.set[Setting[Any]] | None = None


_here: Final = _Here()


def reads() -> int:
    """How often this thread has read a setting: who keeps an answer can tell whether it depended on one."""
    return _here.reads


@contextmanager
def noting(noted: builtins.set[Setting[Any]]) -> Iterator[None]:
    """Note which settings this thread reads inside the block: who keeps what was made there can tell on what it depends."""
    before = _here.noted
    _here.noted = noted
    try:
        yield
    finally:
        _here.noted = before
        if before is not None:
            before |= noted


class Setting(Generic[T]):
    """One setting: its environment variable, how a value is read and checked, and its default."""

    def __init__(self, name: str, default: object, read: Callable[[object], T]) -> None:
        self.name, self.variable, self.read = name, f"INTERMODAL_{name.upper()}", read
        self.default: T = read(default)
        self.process: T | None = None
        self.scoped: ContextVar[T | None] = ContextVar(self.variable, default=None)

    def get(self) -> T:
        _here.reads += 1
        if _here.noted is not None:
            _here.noted.add(self)
        value = self.scoped.get()
        if value is None:
            value = self.process
        if value is None:
            text = os.environ.get(self.variable)
            value = self.check(text, self.variable) if text else self.default
        return value

    def check(self, value: object, source: str) -> T:
        try:
            return self.read(value)
        except (ValueError, TypeError) as error:
            raise InvalidValueError(f"{source}: {error}") from error


def _one_of(*allowed: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in allowed:
            raise ValueError(f"{value!r} is not allowed here. Use one of {', '.join(allowed)}.")
        return str(value)

    return read


def _read_float(value: object) -> dtypes.DType:
    return dtypes.as_dtype(_one_of("float32", "float64")(str(value)))


def _read_count(value: object) -> int:
    count = int(str(value))
    if count < 0:
        raise ValueError(f"{count} is negative. Use 0 or more.")
    return count


def _read_switch(value: object) -> bool:
    return _one_of("0", "1", "False", "True")(str(value)) in ("1", "True")


device: Final[Setting[Device]] = Setting("device", "numpy:cpu", as_device)  # type: ignore[arg-type]  # as_device checks its argument itself
default_float: Final[Setting[dtypes.DType]] = Setting("default_float", "float32", _read_float)
promotion: Final[Setting[str]] = Setting("promotion", "numpy", _one_of("numpy", "strict"))
infer_cache: Final[Setting[int]] = Setting("infer_cache", 4096, _read_count)
compile_cache: Final[Setting[int]] = Setting("compile_cache", 64, _read_count)
jax_x64: Final[Setting[bool]] = Setting("jax_x64", False, _read_switch)
onnx_sessions: Final[Setting[int]] = Setting("onnx_sessions", 1024, _read_count)
onnx_threads: Final[Setting[int]] = Setting("onnx_threads", 0, _read_count)
_ALL: Final = (device, default_float, promotion, infer_cache, compile_cache, jax_x64, onnx_sessions, onnx_threads)
SETTINGS: Final[dict[str, Setting[object]]] = {s.name: s for s in _ALL}  # type: ignore[misc]  # Setting is invariant; the map only reads


def default_device() -> Device:
    """The device on which creation functions put new tensors: scope, process setting, ``INTERMODAL_DEVICE``, ``numpy:cpu``."""
    return device.get()


def _find(name: str) -> Setting[object]:
    if name not in SETTINGS:
        raise InvalidValueError(f"{name!r} is not a setting. The settings are {', '.join(SETTINGS)}.")
    return SETTINGS[name]


def get(name: str) -> object:
    """The value of a setting as it holds here and now.

    Example:
        >>> get("device")
        Device('numpy:cpu')
    """
    return _find(name).get()


def set(**settings: object) -> None:
    """Set values for the whole process; ``None`` gives a setting back to its environment variable and default."""
    for name, value in settings.items():
        setting = _find(name)
        setting.process = None if value is None else setting.check(value, name)


@contextmanager
def scope(**settings: object) -> Iterator[None]:
    """Set values inside a ``with`` block, for this thread or task alone.

    Example:
        >>> import intermodal as im
        >>> with im.config.scope(device="meta:cpu"):
        ...     im.zeros((2, 3))
        Tensor(shape=(2, 3), dtype=float32, device=meta:cpu)
    """
    checked = [(setting := _find(name), setting.check(value, name)) for name, value in settings.items()]
    tokens = [(setting, setting.scoped.set(value)) for setting, value in checked]
    try:
        yield
    finally:
        for setting, token in reversed(tokens):
            _leave(setting, token)


def _leave(setting: Setting[object], token: Token[object | None]) -> None:
    try:
        setting.scoped.reset(token)
    except ValueError as error:  # Python's, for a token of another context: a generator was handed on while it held the scope
        raise InvalidValueError(
            f"scope: it was opened in another thread or task, and cannot be left here, so {setting.name} stays set there. "
            "End a generator where it was started, or open the scope around its calls."
        ) from error
