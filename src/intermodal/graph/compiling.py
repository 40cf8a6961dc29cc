"""`compile`: a function captured once per signature and run by the engine's own compiler from then on."""

from __future__ import annotations

import itertools
import logging
from cmath import isnan
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from threading import RLock
from time import perf_counter
from types import MethodType
from typing import Any, Final, Literal, TypeVar, overload

from intermodal import config, dispatch, views
from intermodal.autodiff import trees
from intermodal.backend import Array, Backend, backend_of
from intermodal.devices import Device
from intermodal.errors import ArgumentError, CaptureError, DeviceMismatchError, ExecutionError, IntermodalError, UnsupportedError
from intermodal.graph.capture import current
from intermodal.graph.donation import give_up
from intermodal.graph.graph import Graph, bound_sizes, run_operation
from intermodal.graph.ir import OperationIr
from intermodal.graph.passes import clean
from intermodal.graph.program import Program, lowered
from intermodal.graph.tracing import captured, trace
from intermodal.ops.table import Spec
from intermodal.places import engine_place
from intermodal.tensor import Tensor

__all__ = ["Compiled", "Entry", "compile"]

F = TypeVar("F", bound=Callable[..., Any])
Fallback = Literal["raise", "eager"]
_trace, _low_dtype = current.get, dispatch.low_dtype.get
_log: Final = logging.getLogger(__name__)
_clock: Final = itertools.count()
_KEYWORDS: Final = object()  # stands before them in a key: f(x, {"a": y}) is not f(x, a=y)
_OF_CACHES: Final = {config.infer_cache, config.compile_cache, config.onnx_sessions, config.onnx_threads}  # they change no answer


@dataclass(slots=True)
class Entry:
    """What a compiled function keeps for one signature.

    Attributes:
        signature: shapes and dtypes of the tensors, as text.
        device: where it runs; None for a signature that runs eagerly.
        graph: what was captured.
        capture_seconds: how long capturing and cleaning took.
        compile_seconds: how long the engine took, its first run included.
        function: the engine's compiled function, of its own arrays: constants first, then those of the arguments.
        calls: how often it has run.
    """

    signature: str
    device: Device | None
    graph: Graph | None
    capture_seconds: float
    compile_seconds: float
    run: Callable[[list[Array]], Any]
    function: Callable[..., Sequence[Array]] | None = None
    calls: int = 0
    used: int = 0

    def __repr__(self) -> str:
        how = f"{len(self.graph.ir.operations)} ops on {self.device}" if self.graph is not None else "eager"
        return f"<{self.signature}: {how}, captured in {self.capture_seconds:.3f} s, compiled in {self.compile_seconds:.3f} s, {self.calls} calls>"


@overload
def compile(
    function: F, /, *, specs: Sequence[Any] | None = None, donate: Sequence[int] = (), fallback: Fallback = "raise"
) -> Compiled: ...
@overload
def compile(
    *, specs: Sequence[Any] | None = None, donate: Sequence[int] = (), fallback: Fallback = "raise"
) -> Callable[[F], Compiled]: ...
def compile(
    function: Callable[..., Any] | None = None,
    /,
    *,
    specs: Sequence[Any] | None = None,
    donate: Sequence[int] = (),
    fallback: Fallback = "raise",
) -> Compiled | Callable[[F], Compiled]:
    """A function that runs as one compiled program: by `jax.jit`, by PyTorch's compiler, as an ONNX Runtime session, or replayed on NumPy.

    It is captured at the first call with tensors of new shapes, dtypes or device; every other value among the arguments is
    part of the program, and a new one is captured anew. A whole training step can be one program.

    Args:
        function: of tensors and trees of tensors.
        specs: for each argument a `Spec` with named sizes, a tensor or a tree of them: then it is captured once, for all sizes.
        donate: the numbers of arguments whose memory the program may take. Their tensors cannot be used afterwards.
        fallback: ``"eager"`` runs what cannot be captured or compiled as it stands, and logs it; ``"raise"`` does not.

    Example:
        >>> import intermodal as im
        >>> @im.compile
        ... def scaled(x, y):
        ...     return im.sum(x * 2 + y)
        >>> scaled(im.ones(3), im.ones(3))
        Tensor(9., dtype=float32, device=numpy:cpu)
    """

    def wrap(function: Callable[..., Any]) -> Compiled:
        return Compiled(function, specs, donate, fallback)

    return wrap if function is None else wrap(function)


class Compiled:
    """A compiled function, as `compile` makes it. ``entries`` shows what it keeps, ``clear`` gives it up."""

    def __init__(self, function: Callable[..., Any], specs: Sequence[Any] | None, donate: Sequence[int], fallback: str) -> None:
        if not callable(function):
            raise ArgumentError(f"compile: a {type(function).__name__} cannot be called. Give a function.")
        if fallback not in ("raise", "eager"):
            raise ArgumentError(f"compile: fallback is {fallback!r}. Use 'raise' or 'eager'.")
        numbers: object = donate  # which a caller may have got wrong
        if not isinstance(numbers, Iterable) or any(type(i) is not int or i < 0 for i in numbers):
            raise ArgumentError(f"compile: donate is {donate!r}. Give the numbers of arguments, counted from 0: donate=(0,).")
        update_wrapper(self, function)
        self.function, self.specs, self.donate, self.fallback = function, specs, frozenset(donate), fallback
        self._entries: dict[tuple[object, ...], Entry] = {}
        self._settings: tuple[config.Setting[Any], ...] = ()  # those that captures have read, so that the graphs depend on them
        self._general: dict[tuple[object, ...], Graph] = {}  # with named sizes, by device and surroundings
        self._lock = RLock()

    def __repr__(self) -> str:
        return f"<compiled {getattr(self.function, '__name__', 'function')}: {len(self._entries)} signatures>"

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """In a class it is a method: ``self`` is an argument like others, a tree of tensors or part of the program."""
        return self if instance is None else MethodType(self, instance)

    @property
    def entries(self) -> list[Entry]:
        """What is kept, one entry for each signature."""
        return list(self._entries.values())

    def clear(self) -> None:
        """Give up all that is kept."""
        self._entries.clear()
        self._general.clear()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _trace() is not None:  # it is part of a larger program
            return self.function(*args, **kwargs)
        key: list[object] = [self._surroundings()]
        arrays: list[Array] = []
        for arg in (*args, _KEYWORDS, kwargs) if kwargs else args:
            if type(arg) is Tensor and arg._share is None:  # what `_read` does with most arguments
                array, place = arg._raw, arg._spot
                arrays.append(array)
                key.append(place)
                key.append(place.backend.shape(array))
            else:
                _read(arg, key, arrays)
        try:
            entry = self._entries.get(tuple(key))
        except TypeError:
            raise ArgumentError(
                "compile: an argument that is no tensor must be hashable, for it is part of the program. Give arrays as tensors."
            ) from None
        if self.donate and len(set(map(id, arrays))) < len(arrays):
            _refuse_twice(args, self.donate, arrays)
        if entry is None:
            answer = self._first(key[1:], args, kwargs, arrays)
        else:
            entry.calls += 1
            entry.used = next(_clock)
            answer = entry.run(arrays) if entry.graph is not None else self.function(*args, **kwargs)
        if self.donate:
            for i in self.donate:
                for tensor in trees.leaves(args[i]):
                    give_up(tensor)
        return answer

    def _surroundings(self) -> object:
        """What a captured program depends on besides its arguments."""
        return (_low_dtype(), *[setting.get() for setting in self._settings]) if self._settings else _low_dtype()

    def _first(self, given: Sequence[object], args: tuple[Any, ...], kwargs: dict[str, Any], arrays: list[Array]) -> Any:
        """Capture, compile and run. An engine may compile at its first run, so that an error there is one of compiling."""
        with self._lock:
            found = self._entries.get((self._surroundings(), *given))
            if found is not None:  # another thread was faster
                return found.run(arrays) if found.graph is not None else self.function(*args, **kwargs)
            tensors = trees.leaves((args, kwargs))
            try:
                device = _device(tensors)
                start = perf_counter()
                graph = self._graph(args, kwargs, device)
                begun = perf_counter()
                function, run = _built(graph, tensors, device, _donated(args, self.donate))
                answer = run(arrays)
                entry = Entry(_signature(tensors), device, graph, begun - start, perf_counter() - begun, run, function)
            except (CaptureError, UnsupportedError, ExecutionError) as error:
                if self.fallback == "raise":
                    raise
                _log.warning("%s runs eagerly: %s", self, error)
                answer = self.function(*args, **kwargs)
                entry = Entry(_signature(tensors), None, None, 0.0, 0.0, lambda _: None)
            self._keep((self._surroundings(), *given), entry)
        return answer

    def _keep(self, key: tuple[object, ...], entry: Entry) -> None:
        limit = max(config.compile_cache.get(), 1)
        while len(self._entries) >= limit:
            del self._entries[min(self._entries, key=lambda k: self._entries[k].used)]
        entry.calls, entry.used = 1, next(_clock)
        self._entries[key] = entry

    def _graph(self, args: tuple[Any, ...], kwargs: dict[str, Any], device: Device) -> Graph:
        read: set[config.Setting[Any]] = set()
        with config.noting(read):
            found = self._captured(args, kwargs, device)
        read -= _OF_CACHES
        if not read.issubset(self._settings):
            self._settings = (*self._settings, *sorted(read.difference(self._settings), key=lambda s: s.name))
            self._entries.clear()  # whose keys do not tell these settings
        if self.specs is not None:
            self._general[device, self._surroundings()] = found
        return Graph(clean(found.ir), device, found.arguments, found.answer)

    def _captured(self, args: tuple[Any, ...], kwargs: dict[str, Any], device: Device) -> Graph:
        if self.specs is None:
            return captured(
                lambda args, kwargs: self.function(*args, **kwargs), (args, kwargs), device, backend_of(device.engine)
            )
        if kwargs:
            raise ArgumentError("compile: a function with specs takes its arguments by position.")
        found = self._general.get((device, self._surroundings())) or trace(self.function, *self.specs, device=device)
        found.flatten(args)  # refuses what does not fit
        return found


def _read(value: Any, key: list[object], arrays: list[Array]) -> None:
    """Take the tensors out of an argument; what is left of it, with their shapes and places, is the key."""
    kind = type(value)
    if kind is Tensor:
        if value._share is not None:
            views.settle(value)
        place = value._spot
        arrays.append(value._raw)
        key.append(place)
        key.append(place.backend.shape(value._raw))
        return
    parts = trees.children(value)
    key.append(kind)
    if parts is None:
        # Both zeros are equal and a NaN is not even itself; what they look like tells them apart.
        odd = (kind is float or kind is complex) and (not value or isnan(value))
        key.append(repr(value) if odd else value)
        return
    for step, part in parts:
        key.append(step)
        _read(part, key, arrays)


def _device(tensors: Sequence[Tensor]) -> Device:
    devices = {t.device for t in tensors}
    if len(devices) > 1:
        raise DeviceMismatchError(
            f"compile: the arguments are on {', '.join(sorted(map(str, devices)))}. A program runs on one device; move them there."
        )
    if any(t._place.plain is not t._place for t in tensors):
        raise CaptureError(
            "compile: an argument is tracked, and a compiled program leaves no record. Compile the derivative instead: im.compile(im.grad(f))."
        )
    return devices.pop() if devices else config.default_device()


def _donated(args: tuple[Any, ...], donate: frozenset[int]) -> list[int]:
    if any(not 0 <= i < len(args) for i in donate):
        raise ArgumentError(f"compile: donate names argument {max(donate)}, but {len(args)} were given by position.")
    found: list[int] = []
    count = 0
    for i, arg in enumerate(args):
        here = len(trees.leaves(arg))
        found += range(count, count + here) if i in donate else ()
        count += here
    return found


def _refuse_twice(args: tuple[Any, ...], donate: frozenset[int], arrays: Sequence[Array]) -> None:
    counts = Counter(map(id, arrays))
    for i in sorted(donate):
        if any(counts[id(t._data)] > 1 for t in (trees.leaves(args[i]) if i < len(args) else ())):
            raise ArgumentError(
                f"compile: argument {i} is donated, but its data comes in another argument too. Pass a copy there: im.asarray(x, copy=True)."
            )


def _signature(tensors: Sequence[Tensor]) -> str:
    return ", ".join(f"{t.dtype}[{', '.join(map(str, t.shape))}]" for t in tensors[:4]) + (", …" if len(tensors) > 4 else "")


def _built(
    graph: Graph, tensors: Sequence[Tensor], device: Device, donated: Sequence[int]
) -> tuple[Callable[..., Sequence[Array]], Callable[[list[Array]], Any]]:
    """The engine's function for a graph at these shapes, and the one around it that makes tensors of its answer."""
    sizes = bound_sizes(graph.ir, tensors)
    program, draws = lowered(graph.ir, device, sizes, donated)
    backend = backend_of(device.engine)
    function = _compiled(backend, program) if program.ir.outputs else _nothing
    constants = [backend.from_host(c.value, device) for c in program.constants]
    places = [engine_place(device, t.dtype) for t in graph.ir.outputs]
    single = isinstance(graph.answer, Spec)

    def run(arrays: list[Array]) -> Any:
        try:
            results = function(*constants, *arrays, *_drawn(draws, device)) if draws else function(*constants, *arrays)
        except IntermodalError:
            raise
        except Exception as error:
            raise ExecutionError(f"{device.engine} failed to run a compiled program: {error}", reason=str(error)) from error
        if single:
            return Tensor(results[0], places[0])
        return graph.unflatten([Tensor(r, p) for r, p in zip(results, places, strict=True)])

    return function, run


def _compiled(backend: Backend, program: Program) -> Callable[..., Sequence[Array]]:
    try:
        return backend.compile(program)
    except IntermodalError:
        raise
    except Exception as error:  # a compiler is a world of its own, and so are its errors
        raise UnsupportedError(
            f"compile: {backend.engine} cannot compile this program: {error}. Run it as a graph instead, or with fallback='eager'."
        ) from error


def _nothing(*_: Array) -> Sequence[Array]:
    """The program that gives no tensor, which not every compiler has."""
    return ()


def _drawn(draws: Sequence[OperationIr], device: Device) -> list[Array]:
    return [result._data for draw in draws for result in run_operation(draw, {}, {}, device)]
