"""Einstein's summation: what a subscript string says, and the products and sums that carry it out."""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from intermodal.errors import InvalidValueError, ShapeError
from intermodal.ops import rules
from intermodal.ops.rules import NUMERIC
from intermodal.ops.table import Inferred, Shape, Spec, op, public_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from intermodal.tensor import Tensor

Label: TypeAlias = str | int
"""A letter, or an axis of the ``...``, counted from the back as broadcasting counts."""
Labels: TypeAlias = tuple[Label, ...]


class Plan(NamedTuple):
    """What a subscript string means for operands of certain shapes."""

    inputs: tuple[Labels, ...]
    output: Labels
    sizes: Mapping[Label, int]


def plan(subscripts: object, shapes: Iterable[Shape]) -> Plan:
    """Read a subscript string; each mistake has its own sentence."""
    if not isinstance(subscripts, str):
        raise InvalidValueError(f"subscripts must be a string such as 'ij,jk->ik', not {subscripts!r}.")
    return _plan(subscripts, tuple(shapes))


@lru_cache(maxsize=256)  # a program has few strings and asks for each twice a call: for the shape, then to run it
def _plan(subscripts: str, shapes: tuple[Shape, ...]) -> Plan:
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise InvalidValueError(f"subscripts {subscripts!r} name {len(terms)} operands, {len(shapes)} are given.")
    inputs = tuple(_labels(term, shape) for term, shape in zip(terms, shapes, strict=True))
    sizes = _sizes(inputs, shapes)
    dots = tuple(sorted(label for label in sizes if isinstance(label, int)))
    if arrow:
        return Plan(inputs, _output(right, dots, sizes), sizes)
    count = Counter(label for labels in inputs for label in labels if isinstance(label, str))
    return Plan(inputs, (*dots, *sorted(label for label, n in count.items() if n == 1)), sizes)


def _labels(term: str, shape: Shape) -> Labels:
    head, dots, tail = term.partition("...")
    _check_letters(head + tail, term)
    spare = len(shape) - len(head + tail)
    if spare < 0 or (spare and not dots):
        raise ShapeError(
            f"subscripts {term!r} name {len(head + tail)} axes, but the operand has shape {shape}. Name each axis once."
        )
    return (*head, *range(-spare, 0), *tail)


def _check_letters(letters: str, term: str) -> None:
    if letters and not (letters.isascii() and letters.isalpha()):
        raise InvalidValueError(
            f"subscripts {term!r} have more than letters. Use a letter for an axis, and '...' once for several."
        )


def _sizes(inputs: tuple[Labels, ...], shapes: tuple[Shape, ...]) -> dict[Label, int]:
    sizes: dict[Label, int] = {}
    for labels, shape in zip(inputs, shapes, strict=True):
        for label, n in zip(labels, shape, strict=True):
            known, first = sizes.get(label, 1), shape[labels.index(label)]
            if n != first or (known != n and 1 not in (known, n)):  # only between operands does a size of 1 broadcast
                raise ShapeError(
                    f"axis {_name(label)} has size {first if n != first else known} in one place and {n} in another. Sizes must be equal."
                )
            sizes[label] = n if known == 1 else known
    return sizes


def _name(label: Label) -> str:
    return repr(label) if isinstance(label, str) else f"{label} of '...'"


def _output(term: str, dots: Labels, sizes: Collection[Label]) -> Labels:
    head, ellipsis, tail = term.partition("...")
    _check_letters(head + tail, term)
    for letter in head + tail:
        if letter not in sizes:
            raise InvalidValueError(f"axis {letter!r} of the result is an axis of no operand.")
        if (head + tail).count(letter) > 1:
            raise InvalidValueError(f"axis {letter!r} comes twice in the result {term!r}. Name each axis once.")
    if dots and not ellipsis:
        raise InvalidValueError(f"the operands have axes under '...', the result {term!r} has none. Write '...' there too.")
    return (*head, *dots, *tail)


def _infer_einsum(operands: list[Spec], *, subscripts: str) -> Inferred:
    _, output, sizes = plan(subscripts, (x.shape for x in operands))
    dtype = rules.require(rules.operand_dtype(*operands), NUMERIC)
    return Inferred((Spec(tuple(sizes[label] for label in output), dtype),), {"subscripts": subscripts}, dtype)


@op(infer=_infer_einsum, autocast=True)
def einsum(subscripts: str, /, *operands: Tensor) -> Tensor:
    """Products of the operands, summed over the axes that the result does not name; pairs are taken from left to right.

    Args:
        subscripts: a letter for each axis of each operand, commas between operands, and after ``->`` the axes of the
            result; ``...`` stands for axes that broadcast. A letter twice in one operand is its diagonal. Without
            ``->`` the result has the letters that come once, in alphabetical order.
        operands: the tensors.

    Example:
        >>> import intermodal as im
        >>> im.einsum("ij,j->i", im.asarray([[1, 2], [3, 4]]), im.asarray([10, 1]))
        Tensor([12, 34], dtype=int64, device=numpy:cpu)
    """
    inputs, output, sizes = plan(subscripts, (x.shape for x in operands))
    parts = [_distinct(x, labels, sizes) for x, labels in zip(operands, inputs, strict=True)]
    result: tuple[Tensor, Labels] | None = None
    for i, part in enumerate(parts):
        kept = {*output, *(label for _, labels in parts[i + 1 :] for label in labels)}
        result = _reduced(*part, kept) if result is None else _product(result, part, kept)
    assert result is not None  # the plan has as many operands as the string has terms, which is one at least
    return _ordered(*result, output)


def _distinct(x: Tensor, labels: Labels, sizes: Mapping[Label, int]) -> tuple[Tensor, Labels]:
    """The operand with each label once (its diagonal), and without the axes of size 1 that others broadcast."""
    spread = tuple(a for a, label in enumerate(labels) if x.shape[a] == 1 != sizes[label])
    if spread:
        x, labels = squeeze(x, spread), tuple(label for a, label in enumerate(labels) if a not in spread)
    for label in [label for label, n in Counter(labels).items() if n > 1]:
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = diagonal(moveaxis(x, (i, j), (-2, -1)))
            labels = (*labels[:i], *labels[i + 1 : j], *labels[j + 1 :], label)
    return x, labels


def _reduced(x: Tensor, labels: Labels, kept: Collection[Label]) -> tuple[Tensor, Labels]:
    """The sum over the labels that nothing else needs."""
    gone = tuple(a for a, label in enumerate(labels) if label not in kept)
    total = sum(x, axis=gone, dtype=x.dtype) if gone else x
    return total, tuple(label for label in labels if label in kept)


def _product(first: tuple[Tensor, Labels], second: tuple[Tensor, Labels], kept: set[Label]) -> tuple[Tensor, Labels]:
    """The product of two operands, summed over the labels that they share and nothing else needs."""
    (a, left), (b, right) = _reduced(*first, kept | set(second[1])), _reduced(*second, kept | set(first[1]))
    both = [label for label in left if label in right]
    batch, inner = [label for label in both if label in kept], [label for label in both if label not in kept]
    rows, cols = [label for label in left if label not in both], [label for label in right if label not in both]
    a, b = _ordered(a, left, (*batch, *rows, *inner)), _ordered(b, right, (*batch, *inner, *cols))
    cut, end = len(batch), len(batch) + len(rows)
    lead, high, deep, wide = a.shape[:cut], a.shape[cut:end], a.shape[end:], b.shape[cut + len(inner) :]
    # Without a label to sum over the depth is 1, and the elements are multiplied as they are.
    a = _shaped(a, (*lead, math.prod(high), math.prod(deep)))
    b = _shaped(b, (*lead, math.prod(deep), math.prod(wide)))
    return _shaped(matmul(a, b) if inner else multiply(a, b), (*lead, *high, *wide)), (*batch, *rows, *cols)


def _ordered(x: Tensor, labels: Labels, order: Labels) -> Tensor:
    return x if labels == order else permute_dims(x, tuple(labels.index(label) for label in order))


def _shaped(x: Tensor, shape: Shape) -> Tensor:
    return x if x.shape == shape else reshape(x, shape)


from intermodal.ops.elementwise import multiply  # families use each other; bodies look names up when they run
from intermodal.ops.linalg import diagonal, matmul
from intermodal.ops.manipulation import moveaxis, permute_dims, reshape, squeeze
from intermodal.ops.reduction import sum

if not TYPE_CHECKING:  # a type checker reads the definitions; at run time the rows are the public names
    __all__ = public_names(__name__)
