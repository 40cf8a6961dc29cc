"""The exception tree: every error that intermodal raises on purpose.

::

    IntermodalError
    ├── ArgumentError          (TypeError)            a call that does not fit the op's signature
    ├── DTypeError             (TypeError)            a dtype that the op does not take
    ├── ShapeError             (ValueError)           shapes that do not fit together
    │   └── AxisError          (IndexError)           an axis that the tensor does not have
    ├── ViewWriteError         (ValueError)           a write to a view whose elements are not its own
    ├── InvalidValueError      (ValueError)           an argument outside its allowed values
    ├── IndexRangeError        (IndexError)           an index outside the tensor
    ├── DeviceError            (ValueError)           a device that is malformed or unknown
    │   ├── DeviceMismatchError                       tensors of two devices in one call
    │   ├── EngineUnavailableError (ImportError)      an engine that cannot be loaded
    │   └── NoSuitableDeviceError                     no device meets what was required of it
    ├── UnsupportedError       (NotImplementedError)  an op or dtype that this device lacks
    ├── GradientError          (RuntimeError)         a derivative that does not exist, or whose record is gone
    ├── GraphError             (ValueError)           a graph that is ill-formed, or larger than allowed
    ├── CaptureError           (RuntimeError)         a program that cannot be captured as a graph
    ├── LifecycleError         (RuntimeError)         a backend used before its start or after its end
    ├── MissingExtraError      (ImportError)          a library that this part needs and that is not installed
    ├── NoDataError            (RuntimeError)         a read of a tensor that has no data
    ├── CopyRequiredError      (ValueError, BufferError)  copy=False, but only a copy would do
    ├── ExchangeError          (BufferError)          an array that DLPack cannot hand over
    └── ExecutionError         (RuntimeError)         the engine failed while computing
        └── OutOfMemoryError   (MemoryError)          the engine had no memory left

Each is also the built-in that fits, so code that catches ``ValueError`` keeps working. A message says what
happened with the values, then what to write instead; an engine's own error is chained as ``__cause__``.
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "AxisError",
    "CaptureError",
    "CopyRequiredError",
    "DTypeError",
    "DeviceError",
    "DeviceMismatchError",
    "EngineUnavailableError",
    "ExchangeError",
    "ExecutionError",
    "GradientError",
    "GraphError",
    "IndexRangeError",
    "IntermodalError",
    "InvalidValueError",
    "LifecycleError",
    "MissingExtraError",
    "NoDataError",
    "NoSuitableDeviceError",
    "OutOfMemoryError",
    "ShapeError",
    "UnsupportedError",
    "ViewWriteError",
]


class IntermodalError(Exception):
    """Base of every error that intermodal raises on purpose.

    Example:
        >>> import intermodal as im
        >>> try:
        ...     im.ones((3, 4)) @ im.ones((5, 6))
        ... except im.IntermodalError as error:
        ...     print(error)
        matmul: cannot multiply (3, 4) by (5, 6): inner sizes 4 and 5 differ.
    """


class ArgumentError(IntermodalError, TypeError):
    """The arguments do not fit the op's signature; the message shows the signature."""


class DTypeError(IntermodalError, TypeError):
    """The op does not take this dtype; the message names the dtypes it takes and the cast to write."""


class ShapeError(IntermodalError, ValueError):
    """The shapes do not fit together; the message names them and the sizes that differ."""


class AxisError(ShapeError, IndexError):
    """The tensor has no such axis; the message gives the valid range."""


class InvalidValueError(IntermodalError, ValueError):
    """An argument lies outside its allowed values; the message lists them."""


class ViewWriteError(IntermodalError, ValueError):
    """A write to a tensor that shows the same element in several places (`broadcast_to`), as NumPy refuses it too."""


class IndexRangeError(IntermodalError, IndexError):
    """An index lies outside the tensor, or indexes more axes than there are."""


class DeviceError(IntermodalError, ValueError):
    """The device is malformed or unknown; the message shows the form and the devices that exist."""


class DeviceMismatchError(DeviceError):
    """Tensors of two devices met in one call; the message names the ``.to()`` to write."""


class EngineUnavailableError(DeviceError, ImportError):
    """The engine cannot be loaded; the message says why and which ``pip install`` mends it."""


class NoSuitableDeviceError(DeviceError):
    """No device meets the requirements, or the one that was named does not; the message lists every reason."""


class UnsupportedError(IntermodalError, NotImplementedError):
    """The device lacks this op or dtype; nothing else was tried in its place."""


class GradientError(IntermodalError, RuntimeError):
    """A derivative that does not exist, or a record of a computation that is no longer there."""


class GraphError(IntermodalError, ValueError):
    """A graph, or its text or bytes, is ill-formed or larger than the limits allow; the message names the op or the line.

    Attributes:
        operation: the index of the op that is wrong; None where it is something else.
    """

    def __init__(self, message: str, *, operation: int | None = None) -> None:
        super().__init__(message)
        self.operation = operation


class CaptureError(IntermodalError, RuntimeError):
    """What the program does cannot be captured as a graph; the message names the line of the program and the way around it."""


class LifecycleError(IntermodalError, RuntimeError):
    """A backend was used before `initialize` or after `shutdown`; the message says which call comes first."""


class MissingExtraError(IntermodalError, ImportError):
    """A library that this part needs is not installed; the message has the ``pip install`` to run."""


class NoDataError(IntermodalError, RuntimeError):
    """The tensor has a shape and a dtype but no data (device ``meta``), so it cannot be read."""


class CopyRequiredError(IntermodalError, ValueError, BufferError):
    """``copy=False`` was asked for, but only a copy would do; the message says why."""


class ExchangeError(IntermodalError, BufferError):
    """DLPack cannot hand the array over as asked; the message says why and what to use instead."""


class ExecutionError(IntermodalError, RuntimeError):
    """The engine failed while computing.

    Attributes:
        reason: what the engine said, without our own words around it.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class OutOfMemoryError(ExecutionError, MemoryError):
    """The engine had no memory left for a result; the message gives its size."""
