"""Sessions: one for each combination of op, dtypes, ranks and attributes, kept up to a limit, all on one pool of threads."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Final

import onnx
import onnxruntime as ort

from intermodal import config
from intermodal.devices import Device
from intermodal.engines.onnx.memory import CPU, OnnxArray, wrap
from intermodal.engines.onnx.providers import provider_of

__all__ = ["Cache", "Session", "frozen", "threads"]

_C: Final = ort.capi.onnxruntime_pybind11_state


_start: Final = Lock()
_threads: int | None = None


def threads() -> int:
    """How many threads the sessions share; decided when the first one is built, for ONNX Runtime has one pool in a process."""
    global _threads
    with _start:
        if _threads is None:
            _threads = config.onnx_threads.get() or os.cpu_count() or 1
            if _threads > 1:
                ort.set_global_thread_pool_sizes(
                    _threads, 1
                )  # the second is for operators beside each other, of which there are none
    return _threads


def _options() -> Any:
    """Options of a session that brings no threads of its own."""
    options = ort.SessionOptions()
    if threads() > 1:
        options.use_per_session_threads = False
    else:
        options.intra_op_num_threads = 1
    options.log_severity_level = 4  # what goes wrong is raised, and need not be printed too
    options.enable_mem_pattern = False  # plans of memory for a shape; sizes change here, and one op has no plan
    # Casts that cut a value off are part of an op's meaning; and there is next to nothing to optimize.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


class Session:
    """A model that is ready to run.

    Args:
        model: the model.
        device: where it runs.
        weights: the values of the model's initializers that lie outside of it.
        whole: whether it is a program of many ops, which ONNX Runtime may then fuse, and not a single one.
    """

    def __init__(
        self, model: onnx.ModelProto, device: Device, weights: Mapping[str, OnnxArray] | None = None, *, whole: bool = False
    ) -> None:
        self.provider = provider_of(device)
        own: Any = self.provider.name if self.provider.memory == "cpu" else (self.provider.name, {"device_id": device.index})
        chosen = [own] if device is CPU else [own, "CPUExecutionProvider"]  # which takes the operators that the first one lacks
        self.device = device
        self.inputs = [v.name for v in model.graph.input]
        self.outputs = [v.name for v in model.graph.output]
        options = _options()
        if whole:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
            options.enable_mem_pattern = True
        if weights:
            options.add_external_initializers(list(weights), list(weights.values()))
        self._weights = weights  # whose memory the session may use as it is
        left_out = ["MatMulScaleFusion"] if whole else None  # it holds the factor in float32, where the product is of float64 too
        made = ort.InferenceSession(model.SerializeToString(), options, providers=chosen, disabled_optimizers=left_out)
        self._session = made._sess

    @property
    def bare(self) -> Any:
        """ONNX Runtime's own function: of arrays by name, names of results and options."""
        return self._session.run_with_ort_values

    def run(self, arrays: Sequence[OnnxArray]) -> list[OnnxArray]:
        """The results for these operands."""
        if self.provider.memory == "cpu":
            # A binding is made for data on a device. On host memory this is the same, in two thirds of the time.
            feeds = {name: a._ortvalue for name, a in zip(self.inputs, arrays, strict=True)}
            found = self._session.run_with_ort_values(feeds, self.outputs, None)
        else:
            binding = _C.SessionIOBinding(self._session)
            for name, a in zip(self.inputs, arrays, strict=True):
                binding.bind_ortvalue_input(name, a._ortvalue)
            where = ort.OrtDevice.make(self.provider.memory, self.device.index)._get_c_device()
            for name in self.outputs:
                binding.bind_output(name, where)
            self._session.run_with_iobinding(binding, None)
            binding.synchronize_outputs()
            found = binding.get_outputs()
        # By place: to walk ONNX Runtime's own vector takes 70 µs, however short it is.
        return [wrap(found[i], self.device) for i in range(len(self.outputs))]


class Cache:
    """What was made, by key; beyond the setting ``onnx_sessions`` the least recently used goes."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, ...], Any] = OrderedDict()
        self._lock = Lock()
        self.built = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: tuple[object, ...], make: Callable[[], Any]) -> Any:
        """What is kept under a key, made where it is not."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = make()  # outside of the lock: two threads may make the same, and the second one stays
        limit = config.onnx_sessions.get()
        with self._lock:
            self.built += 1
            if limit:
                self._kept[key] = made
            while len(self._kept) > limit:
                self._kept.popitem(last=False)
        return made

    def clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._kept.clear()


def frozen(value: object) -> object:
    """An attribute as part of a key. Types count, for 1, 1.0 and True are equal, and so does the sign of zero."""
    kind = type(value)
    if kind is float:
        return repr(value)
    if kind is tuple or kind is list:
        return tuple(frozen(v) for v in value)  # type: ignore[attr-defined]  # it is a sequence
    if kind is slice:
        return ("slice", value.start, value.stop, value.step)  # type: ignore[attr-defined]  # it is a slice
    return (kind, value)
