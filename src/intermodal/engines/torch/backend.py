"""`TorchBackend`: what the contract asks for besides the natives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, Final

import numpy as np
import torch

from intermodal import dtypes
from intermodal.backend import Backend, DTypeUsage, HostMemory, Native, Program
from intermodal.backend.memory import MemoryInfo, host_memory
from intermodal.devices import Device
from intermodal.dtypes import DType
from intermodal.engines.torch import compiling
from intermodal.engines.torch.elementwise import COMPLEX
from intermodal.engines.torch.fourbits import FOUR_BITS, four_bits
from intermodal.engines.torch.natives import NATIVES, ONLY, TORCH, as_operand, checked, on, through, traced
from intermodal.engines.torch.unsigned import UNSIGNED, unsigned
from intermodal.errors import CopyRequiredError, DTypeError, ExchangeError, ExecutionError, OutOfMemoryError
from intermodal.ops.rules import Elementwise
from intermodal.ops.table import Op, Spec

__all__ = ["TorchBackend"]

for _family in ("arrays", "elementwise", "gradients", "linalg", "nn", "normalization", "optimization", "pooling", "random"):
    import_module(f"intermodal.engines.torch.{_family}")  # which collects its natives

HostArray = np.ndarray[Any, Any]

_CPU: Final = Device("torch:cpu")
_FLOAT8: Final = frozenset((dtypes.float8_e4m3fn, dtypes.float8_e5m2))
_NARROW: Final = frozenset((dtypes.float16, dtypes.bfloat16))
_BLAS: Final = frozenset((dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128, dtypes.bfloat16))
# Metal has no numbers of 64 bits but int64, and PyTorch gives it no wide unsigned ones.
_NOT_ON_MPS: Final = frozenset((dtypes.float64, dtypes.complex128)) | UNSIGNED | _FLOAT8 | FOUR_BITS
# NumPy knows these by ml_dtypes, PyTorch by its own; what both know are integers of the same size.
_BITS: Final = {
    torch.bfloat16: (torch.int16, np.dtype(np.int16), dtypes.bfloat16.numpy),
    torch.float8_e4m3fn: (torch.uint8, np.dtype(np.uint8), dtypes.float8_e4m3fn.numpy),
    torch.float8_e5m2: (torch.uint8, np.dtype(np.uint8), dtypes.float8_e5m2.numpy),
} | {
    TORCH[d]: (torch.uint8, np.dtype(np.uint8), d.numpy) for d in FOUR_BITS if d in TORCH
}  # fmt: skip
_OURS: Final = {kind: dtype for dtype, kind in TORCH.items()}
_FROM_HOST: Final = {numpy: (bits, kind) for kind, (_, bits, numpy) in _BITS.items()}


def _part(array: torch.Tensor, key: Any) -> torch.Tensor:
    """``array[key]``, but for a second ..., which PyTorch lets pass."""
    if type(key) is tuple and key.count(...) > 1:
        raise IndexError("there is more than one ...")
    return array[key]


class TorchBackend(Backend):
    """Tensors as PyTorch's, on the host, on CUDA and on Apple's GPU."""

    engine = "torch"
    takes_scalars = True
    getitem = _part
    natives = NATIVES
    shares = HostMemory(strides="positive", alignment=1)
    dlpack_kinds: ClassVar[Mapping[str, int]] = {"cuda": 2}

    # --- devices -----------------------------------------------------------------------------------------------

    def devices(self) -> Sequence[Device]:
        found = [_CPU, *(Device(f"torch:cuda:{i}") for i in range(torch.cuda.device_count()))]
        return (*found, Device("torch:mps")) if torch.backends.mps.is_available() else tuple(found)

    def name(self, device: Device) -> str:
        if device.kind == "cuda":
            return f"PyTorch {torch.__version__} on {torch.cuda.get_device_name(device.index)}"
        return f"PyTorch {torch.__version__}"

    # --- dtypes and natives ------------------------------------------------------------------------------------

    def dtype_usage(self, device: Device, dtype: DType) -> DTypeUsage:
        if dtype not in TORCH or (device.kind == "mps" and dtype in _NOT_ON_MPS):
            return DTypeUsage.NONE
        if dtype in _FLOAT8 or dtype in FOUR_BITS or (device.kind == "mps" and dtype is dtypes.complex64):
            return DTypeUsage.STORAGE
        fast = dtype in _BLAS or (dtype is dtypes.float16 and device.kind != "cpu")
        return DTypeUsage.GENERAL | DTypeUsage.ACCELERATED if fast else DTypeUsage.GENERAL

    def native(self, row: Op, dtype: DType) -> Native | None:
        function = self.natives.get(row.name)
        if function is None or (row.name in ONLY and dtype not in ONLY[row.name]):
            return None
        if dtype.is_complex:
            function = COMPLEX.get(row.name, function)
        if dtype in FOUR_BITS:
            return four_bits(row.name, function, dtype)
        if dtype in UNSIGNED:
            function = unsigned(row.name, function, dtype)
        if dtype in _NARROW and row.namespace in ("linalg", "fft") and not row.movement:
            return through(function, TORCH[dtype], torch.float32)
        if dtype.is_integer and type(row.infer) is Elementwise and len(row.tensor_params) == 2:
            return checked(function, dtype)
        return function

    # --- data --------------------------------------------------------------------------------------------------

    def shape(self, array: torch.Tensor) -> tuple[int, ...]:
        return tuple(array.shape)

    def from_host(self, data: HostArray, device: Device, *, copy: bool | None = None) -> torch.Tensor:
        why = self.shares.obstacle(data, "PyTorch") if device is _CPU else f"{device} has memory of its own"
        if why and copy is False:
            raise CopyRequiredError(f"asarray: {why}, and copy=False forbids a copy.")
        if device is not _CPU:
            return _shared(_plain(data) if self.shares.obstacle(data, "PyTorch") else data).to(on(device))
        return _shared(_plain(data) if why or copy else data)

    def to_host(self, array: torch.Tensor) -> HostArray:
        host = array.cpu().resolve_conj().resolve_neg()
        bits, _, kind = _BITS.get(host.dtype, (host.dtype, None, None))
        found: HostArray = host.view(bits).numpy()
        return found if kind is None else found.view(kind)

    def host_view(self, array: torch.Tensor) -> HostArray | None:
        lazy = array.is_conj() or array.is_neg()  # marks that PyTorch applies when it reads; nobody else knows of them
        return self.to_host(array) if array.is_cpu and not lazy else None

    def adopt(self, array: object) -> tuple[torch.Tensor, Device, DType] | None:
        if not isinstance(array, torch.Tensor):
            return None
        if array.requires_grad:
            raise ExchangeError("asarray: the torch tensor requires grad, and its graph ends here. Pass x.detach().")
        if array.layout is not torch.strided:
            raise ExchangeError(f"asarray: a torch tensor of layout {array.layout} is no plain array. Pass x.to_dense().")
        device = _CPU if array.is_cpu else Device(f"torch:{array.device.type}:{array.device.index or 0}")
        if device is not _CPU and device not in self.devices():
            raise ExchangeError(f"asarray: a torch tensor on {array.device} cannot become a tensor. Pass x.cpu().")
        dtype = _OURS.get(array.dtype)
        if dtype is None:
            raise DTypeError(f"asarray: a torch tensor of {array.dtype} cannot become a tensor. Cast it first, with x.to(...).")
        plain = array if type(array) is torch.Tensor else array.as_subclass(torch.Tensor)
        return plain.resolve_conj().resolve_neg(), device, dtype  # marks that others do not know are carried out

    def transaction(self, arrays: Sequence[torch.Tensor]) -> list[HostArray]:
        # The copies are queued one behind the other and waited for once. Into pinned memory, else each would wait by itself.
        started = [a if a.is_cpu else _pinned_like(a).copy_(a, non_blocking=True) for a in arrays]
        for where in {a.device for a in arrays if not a.is_cpu}:
            self.sync(Device(f"torch:{where.type}:{where.index or 0}"))
        return [self.to_host(a) for a in started]

    def staging(self, data: Iterable[HostArray], device: Device) -> list[HostArray]:
        if device.kind != "cuda":
            return list(data)
        return [self.to_host(self.from_host(d, _CPU).pin_memory()) for d in data]

    def dlpack_device(self, array: torch.Tensor) -> tuple[int, int]:
        kind, index = array.__dlpack_device__()
        return int(kind), int(index)

    def to_dlpack(self, array: torch.Tensor, **options: Any) -> object:
        try:
            return array.__dlpack__(**options)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise ExchangeError(
                f"__dlpack__: PyTorch cannot export this {array.dtype} tensor: {error}. Take the data with .numpy() instead."
            ) from error

    def from_dlpack(self, producer: object, device: Device) -> torch.Tensor:
        return torch.from_dlpack(producer)

    # --- execution ---------------------------------------------------------------------------------------------

    def execute(
        self, row: Op, arrays: Sequence[Any], attrs: Mapping[str, object], outputs: Sequence[Spec], native: Native
    ) -> Sequence[Any]:
        if type(row.infer) is Elementwise:
            like = next(a for a in arrays if isinstance(a, torch.Tensor))
            # A scalar behind a tensor is taken by natives as it is, and a compiler builds it in.
            if len(arrays) > 2 or arrays[0] is not like or not traced(like):
                arrays = [as_operand(a, like) for a in arrays]
        try:
            return super().execute(row, arrays, attrs, outputs, native)
        except OutOfMemoryError:
            raise
        except ExecutionError as error:
            if isinstance(error.__cause__, torch.OutOfMemoryError) or "can't allocate memory" in str(error):
                raise OutOfMemoryError(
                    f"{row.name}: PyTorch has no memory for {', '.join(f'shape {s.shape} of {s.dtype}' for s in outputs)}. Free tensors or work in smaller pieces.",
                    reason=error.reason,
                ) from error.__cause__
            raise

    def compile(self, program: Program) -> Callable[..., Sequence[Any]]:
        return compiling.compiled(program)

    def sync(self, device: Device) -> None:
        try:
            if device.kind == "cuda":
                torch.cuda.synchronize(device.index)
            elif device.kind == "mps":
                torch.mps.synchronize()
        except RuntimeError as error:
            raise ExecutionError(f"sync: work on {device} has failed: {error}", reason=str(error)) from error

    def memory_cleanup(self, device: Device) -> None:
        if device.kind == "cuda":
            with torch.cuda.device(device.index):
                torch.cuda.empty_cache()
        elif device.kind == "mps":
            torch.mps.empty_cache()

    def memory_info(self, device: Device) -> MemoryInfo | None:
        if device.kind == "cuda":
            free, total = torch.cuda.mem_get_info(device.index)
            return MemoryInfo(total, free)
        if device.kind == "mps":
            total = torch.mps.recommended_max_memory()
            return MemoryInfo(total, max(0, total - torch.mps.driver_allocated_memory()))
        return host_memory()


def _plain(data: HostArray) -> HostArray:
    """A copy in C order and this machine's byte order, on a boundary of 64 bytes as PyTorch's own memory."""
    kind = data.dtype.newbyteorder("=")
    copied: HostArray = torch.empty(data.nbytes, dtype=torch.uint8).numpy().view(kind).reshape(data.shape)
    copied[...] = data
    return copied


def _shared(data: HostArray) -> torch.Tensor:
    """A tensor over an array's memory. That the array may be read-only does no harm: no native writes to an operand."""
    if not data.size:
        data = _plain(data)  # whose strides may be anything
    bits, kind = _FROM_HOST.get(data.dtype, (None, None))
    if bits is not None:
        data = data.view(bits)
    # `from_numpy` warns of an array that is not writable; DLPack does not.
    tensor = torch.from_numpy(data) if data.flags.writeable else torch.from_dlpack(data)
    return tensor if kind is None else tensor.view(kind)


def _pinned_like(array: torch.Tensor) -> torch.Tensor:
    return torch.empty(array.shape, dtype=array.dtype, pin_memory=array.is_cuda)
