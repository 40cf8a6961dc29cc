"""Derivatives of functions: `grad`, `value_and_grad`, `vjp`, `jvp`, `hvp`, `hessian`. They nest to any depth.

A function's arguments may be trees: dicts, lists, tuples, dataclasses with tensors in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from intermodal.autodiff import tape, trees
from intermodal.autodiff.gradients import check_seed, detach, ones_like, require_grad, variable
from intermodal.autodiff.nodes import ancestors, is_recording, node_of, recording
from intermodal.errors import ArgumentError, DTypeError, GradientError, ShapeError
from intermodal.ops import creation as _c, elementwise as _e, manipulation as _m, reduction as _r
from intermodal.tensor import Tensor

__all__ = ["grad", "hessian", "hvp", "jvp", "value_and_grad", "vjp"]


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of a function whose result is one number, as a function of the same arguments.

    Args:
        function: what to differentiate; its arguments may be trees of tensors.
        argnums: by which argument, or a sequence of them; then the answer is a tuple.
        has_aux: the function returns a pair, of which the second is handed on.

    Example:
        >>> import intermodal as im
        >>> im.grad(lambda x: im.sum(x**3))(im.asarray([1.0, 2.0]))
        Tensor([ 3., 12.], dtype=float32, device=numpy:cpu)
    """
    both = value_and_grad(function, argnums, has_aux=has_aux)

    @wraps(function)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """A function's value together with its gradient; arguments as in `grad`."""
    many = not isinstance(argnums, int)
    numbers: tuple[int, ...] = tuple(argnums) if not isinstance(argnums, int) else (argnums,)

    @wraps(function)
    def both(*args: Any, **kwargs: Any) -> Any:
        variables = list(args)
        for i in numbers:
            if not -len(args) <= i < len(args):
                raise ArgumentError(f"grad: argnums has {i}, but the function was called with {len(args)} positional arguments.")
            variables[i] = _variables(args[i], f"argument {i}")
        with recording(True):
            result = function(*variables, **kwargs)
        value = result[0] if has_aux else result
        if not isinstance(value, Tensor) or value.size != 1:
            shape = f"a tensor of shape {value.shape}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
            raise ShapeError(f"grad: the function returned {shape}; a gradient is of one number. Reduce it, or use im.vjp.")
        if not value.dtype.is_inexact:
            raise DTypeError(
                f"grad: the function returned a {value.dtype} number, which has no derivative. Return a floating-point number."
            )
        if value.dtype.is_complex:
            raise DTypeError(
                f"grad: the function returned a {value.dtype} number, and complex numbers have no direction in which they grow. Return im.real or im.abs of it, or use im.vjp."
            )
        chosen = [variables[i] for i in numbers]
        deeper = _depends_on_more([value], chosen)
        found = _pulled([value], [ones_like(value)], chosen, deeper=deeper)
        value = value if deeper else detach(value)
        answer = tuple(found) if many else found[0]
        if not has_aux:
            return value, answer
        aux = result[1]
        if not _depends_on_more(trees.leaves(aux), chosen):
            aux = trees.map_leaves(detach, aux)
        return (value, aux), answer

    return both


def vjp(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """A function's value, and the function that carries gradients of it back to the arguments.

    Example:
        >>> import intermodal as im
        >>> value, pull = im.vjp(lambda x: x * x, im.asarray([1.0, 2.0]))
        >>> pull(im.asarray([1.0, 10.0]))
        (Tensor([ 2., 40.], dtype=float32, device=numpy:cpu),)
    """
    value, pull, _ = _linearized(function, primals)
    return value, pull


def _linearized(function: Callable[..., Any], primals: Sequence[Any]) -> tuple[Any, Callable[..., Any], list[Any]]:
    """What `vjp` gives, and the variables by which it differentiates."""
    variables = [_variables(p, f"argument {i}") for i, p in enumerate(primals)]
    with recording(True):
        value = function(*variables)
    values = trees.leaves(value)
    deeper = _depends_on_more(values, variables)

    def pull(gradients: Any) -> tuple[Any, ...]:
        """The gradients by each argument, for a gradient of the value."""
        given = trees.leaves(gradients)
        tracked = deeper or any(node_of(g) is not None for g in given)
        return tuple(_pulled(values, given, variables, deeper=tracked, retain=True))

    return value if deeper else trees.map_leaves(detach, value), pull, variables


def jvp(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """A function's value, and its derivative in the direction of the tangents, which are like the arguments.

    Example:
        >>> import intermodal as im
        >>> im.jvp(lambda x: x * x, [im.asarray([1.0, 2.0])], [im.asarray([1.0, 0.0])])[1]
        Tensor([2., 0.], dtype=float32, device=numpy:cpu)
    """
    # What `pull` computes is linear in the gradient it is given, and its derivative by that gradient is the direction's.
    _check_tangents(primals, tangents, "jvp")
    value, pull, variables = _linearized(function, primals)
    seeds = trees.map_leaves(lambda v: require_grad(_c.zeros_like(v)) if v.dtype.is_inexact else _c.zeros_like(v), value)
    pulled = pull(seeds)
    with recording(True):
        inner = _inner_product(pulled, tuple(tangents))
    if inner is None or node_of(inner) is None:
        return value, trees.map_leaves(_c.zeros_like, value)
    return value, _pulled([inner], [ones_like(inner)], [seeds], deeper=_depends_on_more([inner], [seeds, *variables]))[0]


def hvp(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The product of a function's second derivative with a vector, by each argument; no matrix is made.

    Example:
        >>> import intermodal as im
        >>> im.hvp(lambda x: im.sum(x**3), [im.asarray([1.0, 2.0])], [im.asarray([1.0, 1.0])])
        (Tensor([ 6., 12.], dtype=float32, device=numpy:cpu),)
    """
    _check_tangents(primals, tangents, "hvp")
    numbers = tuple(range(len(primals)))

    def slope(*args: Any) -> Any:
        inner = _inner_product(grad(function, numbers)(*args), tuple(tangents))
        return _c.zeros(()) if inner is None else inner

    return grad(slope, numbers)(*primals)


def hessian(function: Callable[..., Any], argnums: int = 0) -> Callable[..., Tensor]:
    """The matrix of second derivatives by one tensor argument: its shape is the argument's, twice.

    Example:
        >>> import intermodal as im
        >>> im.hessian(lambda x: im.sum(x) ** 2)(im.asarray([2.0, 3.0]))
        Tensor([[2., 2.],
                [2., 2.]], dtype=float32, device=numpy:cpu)
    """

    @wraps(function)
    def matrix(*args: Any, **kwargs: Any) -> Tensor:
        x = args[argnums]
        if not isinstance(x, Tensor):
            raise ArgumentError(f"hessian: argument {argnums} is a {type(x).__name__}, not a tensor. Use im.hvp for trees.")

        if x.dtype.is_complex:
            raise DTypeError(
                f"hessian: argument {argnums} is {x.dtype}, by whose two parts one matrix cannot hold all derivatives. Use im.hvp."
            )

        def of_one(changed: Tensor) -> Any:
            given = list(args)
            given[argnums] = changed
            return grad(function, argnums)(*given, **kwargs)

        slope, pull = vjp(of_one, x)
        basis = _m.reshape(_c.eye(x.size, dtype=slope.dtype, device=slope.device), (x.size, *x.shape))
        rows = [pull(row)[0] for row in basis]
        return (
            _m.reshape(_m.stack(rows), (*x.shape, *x.shape))
            if rows
            else _c.zeros((*x.shape, *x.shape), dtype=x.dtype, device=x.device)
        )

    return matrix


# --- the parts -----------------------------------------------------------------------------------------------------


def _variables(tree: Any, what: str) -> Any:
    """The tree with its tensors as what is differentiated by; one that is tracked already stays connected to its past."""
    made = trees.map_leaves(lambda x: variable(x) if x.dtype.is_inexact else x, tree)
    if not any(node_of(x) is not None for x in trees.leaves(made)):
        raise GradientError(f"grad: {what} has no floating-point tensor to differentiate by. Make one with im.asarray(...).")
    return made


def _check_tangents(primals: Sequence[Any], tangents: Sequence[Any], what: str) -> None:
    """Each tensor of the arguments has a tangent of its shape."""
    if len(primals) != len(tangents):
        raise ArgumentError(f"{what}: there are {len(primals)} arguments and {len(tangents)} tangents. Give one for each.")
    for i, (primal, tangent) in enumerate(zip(primals, tangents, strict=True)):
        along = dict(trees.paths(tangent))
        for path, x in trees.paths(primal):
            if x.dtype.is_inexact and (path not in along or along[path].shape != x.shape):
                found = f"shape {along[path].shape}" if path in along else "no tensor"
                raise ShapeError(
                    f"{what}: argument {i}{path} has shape {x.shape}, its tangent {found}. Give tangents of the arguments' form."
                )


def _pulled(
    values: list[Tensor], gradients: list[Tensor], variables: list[Any], *, deeper: bool, retain: bool = False
) -> list[Any]:
    """Gradients in the form of the variables; zero where a value does not depend on one."""
    if len(values) != len(gradients):
        raise ArgumentError(f"vjp: the function has {len(values)} results, and {len(gradients)} gradients were given.")
    roots = []
    for v, g in zip(values, gradients, strict=True):
        parent = node_of(v)
        if parent is not None:
            check_seed(g, v, "vjp")
            roots.append((parent, g))
    # Where nothing else can be differentiated by, every way back leads to a variable, and none has to be looked for.
    wanted = [p for x in trees.leaves(variables) if (p := node_of(x)) is not None] if deeper else None
    found = tape.backward(roots, wanted, retain_graph=retain or deeper, create_graph=deeper) if roots else {}

    def of(x: Tensor) -> Tensor:
        parent = node_of(x)
        gradient = None if parent is None else found.get((parent.node, parent.output))
        return _c.zeros(x.shape, dtype=x.dtype, device=x.device) if gradient is None else gradient

    return [trees.map_leaves(of, tree) for tree in variables]


def _depends_on_more(values: list[Tensor], variables: list[Any]) -> bool:
    """Whether something outside this derivative may be differentiated by later: then the derivative itself is recorded."""
    if not is_recording():
        return False
    own = {p.node for x in trees.leaves(variables) if (p := node_of(x)) is not None}
    if any(n.derivative is not None for n in own):
        return True
    starts = [p.node for v in values if (p := node_of(v)) is not None]
    return any(node.derivative is None for node in ancestors(starts, without=own))


def _inner_product(tree: Any, other: Any) -> Tensor | None:
    total: Tensor | None = None
    for x, y in zip(trees.leaves(tree), trees.leaves(other), strict=True):
        if x.dtype.is_inexact:
            # Of complex tensors the part that says how far a step in one's direction goes along the other.
            part = _r.sum(x * y if not x.dtype.is_complex else _e.real(_e.conj(x) * y))
            total = part if total is None else total + part
    return total
