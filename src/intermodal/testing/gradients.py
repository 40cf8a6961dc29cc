"""Derivatives tested: `check_grad` holds the tape against finite differences, `no_leaked_nodes` looks for records left behind."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from intermodal.autodiff import trees, vjp
from intermodal.autodiff.gradients import detach
from intermodal.autodiff.nodes import Node
from intermodal.conversion import asarray
from intermodal.errors import ArgumentError
from intermodal.inspection import finfo
from intermodal.tensor import Tensor
from intermodal.testing.samples import HostArray

__all__ = ["check_grad", "no_leaked_nodes"]

MARGIN = 64
"""What the bound of `check_grad` leaves for the function: how many roundings its results may be off by, and how many
times larger than the function its third derivative may be (over six, measured in steps of the argument's own size)."""
COARSEST = 1e-5
"""The largest eps of a dtype in which differences say something: float32 has 1.2e-7, sixteen bits have 1e-3 and more."""


class _Leaf(NamedTuple):
    """A tensor of the arguments that is differentiated by, with the text that leads to it."""

    path: str
    value: Tensor


def check_grad(
    function: Callable[..., Any],
    *tensors: Any,
    order: int = 1,
    eps: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    r"""Hold the derivatives of a function against central differences; an AssertionError says where they disagree.

    The results are weighted with fixed random numbers and added up, so that one gradient speaks for the whole Jacobian
    matrix. Each element x of an argument is then moved by h up and down, and the tape's gradient is to be

        (f(x + h) - f(x - h)) / 2h

    up to two errors. The formula leaves out h² f'''/6; and f's values, each off by some roundings, differ by some
    eps * abs(f) / h too much. The sum of both is least near h = eps^(1/3), where each is a multiple of eps^(2/3) * abs(f).
    So the step is eps^(1/3) (times the element's size, where that is more than 1), and ``rtol`` is 64 eps^(2/3), which is
    2e-9 in float64 and 2e-3 in float32: of the largest element of the gradient, and of the sum of the weighted results'
    sizes, which is ``atol`` by default. An element that is off by more is measured again with a formula
    of the fourth order, (4 D(h/2) - D(h)) / 3, that a large third derivative does not disturb.

    Args:
        function: what to differentiate. Its results may be trees of tensors; those that are not floating-point numbers
            are left out. It must give the same results each time: random ops in it need a seed.
        *tensors: its arguments, which may be trees. They are best in float64 or complex128, at a point where the function
            has a derivative: away from kinks, by more than the step.
        order: 2 checks the second derivative as well: the gradient of a random linear function of the gradient.
        eps: the step h, in place of eps^(1/3).
        rtol: the difference that is allowed, relative to the largest element of the gradient.
        atol: the difference that is allowed besides.

    Example:
        >>> import intermodal as im
        >>> from intermodal.testing import check_grad
        >>> x = im.asarray([0.3, 1.2], dtype="float64")
        >>> check_grad(lambda x: im.sin(x) * x, x, order=2)
        >>> check_grad(lambda p: p["a"] @ p["b"], {"a": im.ones((2, 2), dtype="float64"), "b": x})
    """
    if order < 1:
        raise ArgumentError(f"check_grad: the order of a derivative is at least 1, not {order}.")
    leaves = [_Leaf(f"argument {i}{path}", detach(x)) for i, tree in enumerate(tensors) for path, x in _variable(tree)]
    if not leaves:
        raise ArgumentError("check_grad: no argument has a floating-point tensor to differentiate by. Give one, best in float64.")

    def flat(*values: Tensor) -> list[Tensor]:
        given = iter(values)
        args = [trees.map_leaves(lambda x: next(given) if x.dtype.is_inexact else x, tree) for tree in tensors]
        return [x for x in trees.leaves(function(*args)) if x.dtype.is_inexact]

    # Each order is checked on the function that gives the weighted gradient of the order before.
    size = 0.0
    for n in range(1, order + 1):
        weights, size = _check(flat, leaves, n, size, eps, rtol, atol)
        flat = _gradient_of(flat, weights)


def _variable(tree: Any) -> Iterator[tuple[str, Tensor]]:
    return ((path, x) for path, x in trees.paths(tree) if x.dtype.is_inexact)


def _gradient_of(function: Callable[..., list[Tensor]], weights: list[Tensor]) -> Callable[..., list[Tensor]]:
    return lambda *values: list(vjp(function, *values)[1](weights))


def _check(
    function: Callable[..., list[Tensor]],
    leaves: list[_Leaf],
    order: int,
    size: float,
    eps: float | None,
    rtol: float | None,
    atol: float | None,
) -> tuple[list[Tensor], float]:
    """Compare one order; the weights of the results are handed back, and their size."""
    values = [x.value for x in leaves]
    results, pull = vjp(function, *values)
    outputs = [_host(x) for x in results]
    if not all(np.isfinite(y).all() for y in outputs):
        raise ArgumentError("check_grad: the function is infinite or NaN here, where it has no derivative. Choose another point.")
    gap = max(finfo(x.dtype).eps for x in (*values, *results))
    if gap > COARSEST:
        raise ArgumentError(
            f"check_grad: differences of numbers with a relative gap of {gap:.2g} say nothing. Cast the arguments to float64."
        )
    random = np.random.default_rng(order)
    hosts = [_normal(random, y).astype(y.dtype) for y in outputs]
    weights = [asarray(w, device=x.device) for w, x in zip(hosts, results, strict=True)]
    differences = _Differences(function, values, hosts, gap ** (1 / 3) if eps is None else eps)
    relative = MARGIN * gap ** (2 / 3) if rtol is None else rtol
    # A gradient can be small because large numbers cancel in it, whose roundings stay: so a size from before counts too.
    size = max(size, sum(float((np.abs(w) * np.abs(y)).sum()) for w, y in zip(hosts, outputs, strict=True)))
    absolute = relative * size if atol is None else atol
    for which, (leaf, gradient) in enumerate(zip(leaves, pull(weights), strict=True)):
        x = leaf.value
        if gradient.shape != x.shape or gradient.dtype is not x.dtype:
            raise AssertionError(
                f"the gradient by {leaf.path} is {gradient.dtype} of shape {gradient.shape}, "
                f"but the tensor is {x.dtype} of shape {x.shape}"
            )
        found = _host(gradient)
        wanted = {index: differences.second_order(which, index) for index in np.ndindex(x.shape)}
        allowed = absolute + relative * max(map(abs, wanted.values()), default=0.0)
        for index, number in wanted.items():
            if abs(found[index] - number) <= allowed:
                continue
            better = differences.fourth_order(which, index)
            if not abs(found[index] - better) <= allowed:  # also where one of them is NaN
                raise AssertionError(
                    f"the derivative of order {order} by {leaf.path}, element {index}, is {found[index]!s} on the tape and "
                    f"{better if x.dtype.is_complex else better.real!s} by differences; they may lie {allowed:.2g} apart"
                )
    return weights, size


class _Differences(NamedTuple):
    """Derivatives of a function's weighted results, measured by moving one element of an argument."""

    function: Callable[..., list[Tensor]]
    values: list[Tensor]
    weights: list[HostArray]
    step: float

    def second_order(self, which: int, index: tuple[int, ...], part: float = 1.0) -> complex:
        """The derivative by an element of an argument; by both parts of a complex one. ``part`` makes the step smaller."""
        x = self.values[which]
        h = part * self.step * max(1.0, abs(_host(x)[index]))
        return sum((d * self._slope(which, index, d * h) for d in ((1, 1j) if x.dtype.is_complex else (1,))), 0j)

    def fourth_order(self, which: int, index: tuple[int, ...]) -> complex:
        return (4 * self.second_order(which, index, 0.5) - self.second_order(which, index)) / 3

    def _slope(self, which: int, index: tuple[int, ...], by: complex) -> float:
        (high, upper), (low, lower) = self._moved(which, index, by), self._moved(which, index, -by)
        # Subtracted before they are weighted and added: what does not change costs no digits then.
        terms = [(np.conj(w) * (a - b)).real.sum() for w, a, b in zip(self.weights, upper, lower, strict=True)]
        return float(sum(terms) / abs(high - low))  # the step that was made, after rounding

    def _moved(self, which: int, index: tuple[int, ...], by: complex) -> tuple[Any, list[HostArray]]:
        array = _host(self.values[which]).copy()
        array[index] += by
        moved = asarray(array, device=self.values[which].device)
        results = self.function(*self.values[:which], moved, *self.values[which + 1 :])
        return array[index], [_host(y) for y in results]


def _host(x: Tensor) -> HostArray:
    return np.asarray(detach(x).numpy())


def _normal(random: np.random.Generator, like: HostArray) -> HostArray:
    values = random.standard_normal(like.shape)
    return np.asarray(values + 1j * random.standard_normal(like.shape) if like.dtype.kind == "c" else values)


@contextmanager
def no_leaked_nodes(*, cycles: bool = True) -> Iterator[None]:
    """A block after which no record of a computation may be left; an AssertionError says of which ops there are some.

    Args:
        cycles: whether what only Python's garbage collector would free is freed before the count. Without it, a record that
            refers to itself is a leak too: it holds the device's memory for an unknown time.

    Example:
        >>> import intermodal as im
        >>> from intermodal.testing import no_leaked_nodes
        >>> with no_leaked_nodes():
        ...     gradient = im.grad(lambda x: im.sum(x * x))(im.ones(3))
    """
    gc.collect()
    before = {node.id for node in _live_nodes()}
    collecting = gc.isenabled()
    if not cycles:
        gc.disable()
    try:
        yield
        if cycles:
            gc.collect()
        left = [node for node in _live_nodes() if node.id not in before]
    finally:
        if collecting:
            gc.enable()
    if left:
        names = sorted({node.name for node in left})
        raise AssertionError(f"{len(left)} records of ops are still alive: {', '.join(names)}")


def _live_nodes() -> list[Node]:
    return [x for x in gc.get_objects() if type(x) is Node]
