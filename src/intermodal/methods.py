"""Methods that are no function of the namespace, or take more than it: an axis by position, sizes one by one, as users write.

They stand here as functions of a tensor; `Tensor` names them in its class body. (A compiled class loses the docstrings of
what is defined in its body.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from intermodal import conversion
from intermodal.ops import manipulation as _m, reduction as _r, searching as _s

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from intermodal.autodiff import Gradients
    from intermodal.devices import DeviceLike
    from intermodal.dtypes import DTypeLike
    from intermodal.ops.rules import AxisLike
    from intermodal.tensor import Tensor


def item(self: Tensor) -> bool | int | float | complex:
    """The one element as a Python scalar."""
    return conversion.item(self, "item")


def tolist(self: Tensor) -> Any:
    """The elements as nested lists of Python scalars; a scalar for a 0-d tensor."""
    return conversion.to_numpy(self).tolist()


def numpy(self: Tensor) -> np.ndarray[Any, Any]:
    """The data as a NumPy array, read-only where it shares memory with this tensor."""
    return conversion.to_numpy(self)


def to(self: Tensor, device: DeviceLike, *, copy: bool | None = None) -> Tensor:
    """This tensor on another device.

    Args:
        device: where to.
        copy: True copies always, False never (and raises CopyRequiredError), None where needed.
    """
    return conversion.to_device(self, device, copy)


def to_device(self: Tensor, device: DeviceLike, /, *, stream: object = None) -> Tensor:
    """The Array API's name for `to`; a stream is for engines that have them."""
    return conversion.to_device(self, device, None, stream)


def all(self: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Whether all elements are true or nonzero."""
    return _r.all(self, axis=axis, keepdims=keepdims)


def any(self: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Whether some element is true or nonzero."""
    return _r.any(self, axis=axis, keepdims=keepdims)


def argmax(self: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The index of the greatest element."""
    return _s.argmax(self, axis=axis, keepdims=keepdims)


def argmin(self: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The index of the smallest element."""
    return _s.argmin(self, axis=axis, keepdims=keepdims)


def max(self: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """The greatest element over axes."""
    return _r.max(self, axis=axis, keepdims=keepdims)


def min(self: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """The smallest element over axes."""
    return _r.min(self, axis=axis, keepdims=keepdims)


def sum(self: Tensor, axis: AxisLike = None, *, dtype: DTypeLike | None = None, keepdims: bool = False) -> Tensor:
    """The sum over axes."""
    return _r.sum(self, axis=axis, dtype=dtype, keepdims=keepdims)


def prod(self: Tensor, axis: AxisLike = None, *, dtype: DTypeLike | None = None, keepdims: bool = False) -> Tensor:
    """The product over axes."""
    return _r.prod(self, axis=axis, dtype=dtype, keepdims=keepdims)


def mean(self: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """The arithmetic mean over axes."""
    return _r.mean(self, axis=axis, keepdims=keepdims)


def var(self: Tensor, axis: AxisLike = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over axes."""
    return _r.var(self, axis=axis, correction=correction, keepdims=keepdims)


def std(self: Tensor, axis: AxisLike = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation over axes."""
    return _r.std(self, axis=axis, correction=correction, keepdims=keepdims)


def reshape(self: Tensor, *shape: int | Sequence[int], copy: bool | None = None) -> Tensor:
    """The same elements in another shape, given as one tuple or as sizes: ``x.reshape(2, -1)``."""
    return _m.reshape(self, shape[0] if len(shape) == 1 else shape, copy=copy)  # type: ignore[arg-type]  # mixed forms are refused by the rule


def permute_dims(self: Tensor, *axes: int | Sequence[int]) -> Tensor:
    """The axes in another order, given as one tuple or one by one."""
    order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    return _m.permute_dims(self, order)  # type: ignore[arg-type]  # mixed forms are refused by the rule


def squeeze(self: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """The tensor without the axes given, by default without all axes of size 1."""
    return _m.squeeze(self, tuple(i for i, n in enumerate(self.shape) if n == 1) if axis is None else axis)


# --- derivatives: `autodiff` stands above this module and loads when it is first used ---------------------------------


def require_grad(self: Tensor) -> Tensor:
    """The same value as a leaf by which to differentiate. Compute with the tensor that is returned.

    Example:
        >>> import intermodal as im
        >>> x = im.asarray(3.0).require_grad()
        >>> (x * x).backward()[x]
        Tensor(6., dtype=float32, device=numpy:cpu)
    """
    from intermodal.autodiff import gradients

    return gradients.require_grad(self)


def backward(
    self: Tensor, gradient: Tensor | None = None, *, retain_graph: bool = False, create_graph: bool = False
) -> Gradients:
    """The gradients of this tensor by the leaves it was computed from; of its sum, if it has several elements.

    Args:
        gradient: weights of the elements, of this tensor's shape; ones by default.
        retain_graph: keep the record, so that backward can be called again.
        create_graph: record the derivative too, so that it can be differentiated.
    """
    from intermodal.autodiff import gradients

    return gradients.backward(self, gradient, retain_graph, create_graph)


def detach(self: Tensor) -> Tensor:
    """The same value, from which no derivative leads back."""
    from intermodal.autodiff import gradients

    return gradients.detach(self)


def retain_grad(self: Tensor) -> Tensor:
    """Have backward keep the gradient of this result as well; returns this tensor."""
    from intermodal.autodiff import gradients

    return gradients.retain_grad(self)


def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Callable[[], None]:
    """Have backward call a function with this tensor's gradient, which may answer with another; returns what removes it."""
    from intermodal.autodiff import gradients

    return gradients.register_hook(self, hook)
