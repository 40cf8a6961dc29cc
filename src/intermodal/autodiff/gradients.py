"""`Gradients`: what a backward pass found, by tensor; and how tensors come to be tracked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from intermodal.autodiff import tape
from intermodal.autodiff.layer import tracked_place
from intermodal.autodiff.nodes import Node, Parent, Tracked, node_of
from intermodal.autodiff.rules import derivative
from intermodal.errors import DeviceError, DTypeError, GradientError, ShapeError
from intermodal.ops import creation as _c
from intermodal.ops.table import TABLE
from intermodal.tensor import Tensor

__all__ = [
    "Gradients",
    "backward",
    "check_seed",
    "detach",
    "from_inner",
    "inner",
    "ones_like",
    "register_hook",
    "require_grad",
    "retain_grad",
    "variable",
]


class Gradients:
    """Gradients of one backward pass, found by the tensors they belong to.

    Example:
        >>> import intermodal as im
        >>> x = im.asarray([1.0, 2.0]).require_grad()
        >>> grads = im.sum(x * x).backward()
        >>> grads[x]
        Tensor([2., 4.], dtype=float32, device=numpy:cpu)
    """

    def __init__(self, found: dict[tuple[Node, int], Tensor]) -> None:
        self._found = found

    def __getitem__(self, x: Tensor) -> Tensor:
        gradient = self.get(x)
        if gradient is None:
            raise GradientError(_why_none(x))
        return gradient

    def get(self, x: Tensor) -> Tensor | None:
        """The gradient of a tensor; None where there is none."""
        parent = node_of(x)
        return None if parent is None else self._found.get((parent.node, parent.output))

    def pop(self, x: Tensor) -> Tensor:
        """The gradient of a tensor, which is then no longer held here."""
        gradient = self[x]
        parent = node_of(x)
        assert parent is not None
        del self._found[parent.node, parent.output]
        return gradient

    def replace(self, x: Tensor, gradient: Tensor) -> None:
        """Put another gradient in the place of a tensor's: clipped, say, or averaged over machines."""
        before = self[x]
        if gradient.shape != before.shape or gradient.dtype is not before.dtype:
            raise ShapeError(
                f"replace: the gradient is {gradient.dtype} of shape {gradient.shape}, but the tensor's is {before.dtype} of shape {before.shape}. Give one like it."
            )
        parent = node_of(x)
        assert parent is not None
        self._found[parent.node, parent.output] = gradient

    def __contains__(self, x: object) -> bool:
        return isinstance(x, Tensor) and self.get(x) is not None

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Tensor]:
        raise GradientError("Gradients are found by tensor: write grads[x] for each x whose gradient is wanted.")

    def __repr__(self) -> str:
        return f"<gradients of {len(self)} tensors>"


def _why_none(x: Tensor) -> str:
    parent = node_of(x)
    if parent is None:
        return "this tensor is not tracked, so it has no gradient. Compute with the tensor that x.require_grad() returns, and ask for that one."
    if not parent.node.keep:
        return f"this tensor is a result of {parent.node.name}, and gradients of results are not kept. Call h.retain_grad() before backward."
    return "the differentiated tensor does not depend on this one, so there is no gradient. It would be zero: grads.get(x) gives None."


def require_grad(x: Tensor) -> Tensor:
    """The same value as a leaf whose gradient backward finds."""
    if not x.dtype.is_inexact:
        raise DTypeError(
            f"require_grad: a {x.dtype} tensor has no derivative. Cast it first, for example with im.astype(x, im.float32)."
        )
    place = x._place.plain
    x = detach(x)
    leaf = Node(None, (), (), None, None, None, (x.shape,), (place,))
    return Tensor(Tracked(x._data, leaf), tracked_place(place))


def variable(x: Tensor) -> Tensor:
    """The same value to differentiate by, inside a program that may differentiate too: a tracked one stays connected to its past."""
    past = node_of(x)
    if past is None:
        return require_grad(x)
    place = x._place.plain
    node = Node(derivative(TABLE["positive"]), (past,), (None,), None, None, None, (x.shape,), (place,))
    return Tensor(Tracked(x._data.value, node), tracked_place(place))


def detach(x: Tensor) -> Tensor:
    """The same value, not tracked."""
    array = x._data
    return Tensor(array.value if type(array) is Tracked else array, x._place.plain)


inner = detach  # the name in the specification: a tensor of the backend below the layer


def from_inner(x: Tensor) -> Tensor:
    """A tensor of the backend below as one of the layer, from which no derivative leads back."""
    return x if x._place.plain is not x._place else Tensor(Tracked(x._data, None), tracked_place(x._place))


def backward(x: Tensor, gradient: Tensor | None, retain_graph: bool, create_graph: bool) -> Gradients:
    """The gradients of a tensor's sum by the leaves it was computed from."""
    parent = node_of(x)
    if parent is None:
        raise GradientError(
            "backward: this tensor was not computed from a tracked one. Call require_grad() on what to differentiate by, and compute outside im.no_grad()."
        )
    if gradient is None:
        if x.dtype.is_complex:
            raise DTypeError(
                f"backward: the tensor is {x.dtype}, and complex numbers have no direction in which they grow. Differentiate im.real or im.abs of it, or give a gradient."
            )
        gradient = ones_like(x)
    else:
        check_seed(gradient, x, "backward")
    return Gradients(tape.backward([(parent, gradient)], None, retain_graph=retain_graph, create_graph=create_graph))


def ones_like(x: Tensor) -> Tensor:
    """Ones in the form of a tensor, below the layer: where a backward pass begins. A single one is made without an op."""
    place = x._place.plain
    if place.backend.defers or x.size != 1:
        return _c.ones(x.shape, dtype=x.dtype, device=x.device)
    return Tensor(place.backend.from_host(np.ones(x.shape, place.dtype.numpy), place.device), place)


def check_seed(gradient: Tensor, x: Tensor, what: str) -> None:
    """Refuse a gradient that cannot be one of this tensor; its dtype is brought to the tensor's by the tape."""
    if gradient.shape != x.shape:
        raise ShapeError(
            f"{what}: the gradient has shape {gradient.shape}, the tensor {x.shape}. Give one of the tensor's shape."
        )
    if gradient.device != x.device:
        raise DeviceError(
            f"{what}: the gradient is on {gradient.device}, the tensor on {x.device}. Move it with gradient.to({str(x.device)!r})."
        )


def retain_grad(x: Tensor) -> Tensor:
    """Have backward keep the gradient of a result."""
    _tracked_node(x, "retain_grad").node.keep = True
    return x


def register_hook(x: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Callable[[], None]:
    """Have backward call a function with a tensor's gradient; what is returned removes it again."""
    node, output = _tracked_node(x, "register_hook")
    entry = (output, hook)
    node.hooks = [*(node.hooks or ()), entry]

    def remove() -> None:
        node.hooks = [e for e in node.hooks or () if e is not entry] or None

    return remove


def _tracked_node(x: Tensor, method: str) -> Parent:
    parent = node_of(x)
    if parent is None:
        raise GradientError(f"{method}: this tensor is not tracked. Compute it from one that require_grad() returned.")
    return parent
