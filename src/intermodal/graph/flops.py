"""How many floating-point operations an op takes: a table of formulas by row, then by family, then the elements of the result.

A multiplication and the addition that follows it are two. Formulas keep the leading terms; an elementwise function counts as
one however it is computed, and so does a comparison. Movement of elements counts as none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

from intermodal.ops import einsum
from intermodal.ops.table import TABLE

__all__ = ["Call", "flops"]

Shape: TypeAlias = tuple[int, ...]


class Call(NamedTuple):
    """An op with the shapes of its operands (lists taken apart, None for what is no tensor), results, and its attributes."""

    op: str
    operands: tuple[Shape | None, ...]
    results: tuple[Shape, ...]
    attrs: Mapping[str, Any]

    @property
    def first(self) -> Shape:
        """The shape of the first operand; that of the first result where it is a scalar."""
        return self.results[0] if self.operands[0] is None else self.operands[0]

    @property
    def size(self) -> int:
        """Elements of all results."""
        return sum(map(math.prod, self.results))


Formula: TypeAlias = Callable[[Call], float]


def flops(call: Call) -> int:
    """The floating-point operations of one call."""
    row = TABLE[call.op]
    formula = _BY_ROW.get(call.op)
    if formula is None and not row.movement:
        formula = _BY_FAMILY.get(row.family, lambda c: c.size)
    return 0 if formula is None else round(formula(call))


def _each(times: float) -> Formula:
    """So many for each element of the first operand."""
    return lambda call: times * math.prod(call.first)


def _matmul(call: Call) -> float:
    return 2 * call.size * call.first[-1]


def _linear(call: Call) -> float:
    bias = len(call.operands) > 2 and call.operands[2] is not None
    return call.size * (2 * call.first[-1] + bias)


def _tensordot(call: Call) -> float:
    # Contracted sizes are in both operands and not in the result: their product's square is what the sizes leave over.
    one, two = (math.prod(s or ()) for s in call.operands)
    return 2 * call.size * math.isqrt(one * two // call.size) if call.size else 0


def _vecdot(call: Call) -> float:
    return 2 * call.size * call.first[int(call.attrs["axis"])]


def _einsum(call: Call) -> float:
    shapes = cast("Iterable[Shape]", call.operands)
    return len(call.operands) * math.prod(einsum.plan(call.attrs["subscripts"], shapes).sizes.values())


def _conv(call: Call) -> float:
    weight = _weight(call)
    return 2 * call.size * math.prod(weight[1:]) + (call.size if call.operands[2] is not None else 0)


def _conv_transpose(call: Call) -> float:
    weight = _weight(call)
    return 2 * math.prod(call.first) * math.prod(weight[1:]) + (call.size if call.operands[2] is not None else 0)


def _deform_conv(call: Call) -> float:
    weight = call.operands[2] or ()
    return call.size * math.prod(weight[1:]) * (2 + 8 / max(1, weight[0]))  # each sample is a mean of four, made once


def _conv_weight_grad(call: Call) -> float:
    return 2 * math.prod(call.operands[1] or ()) * math.prod(call.results[0][1:])


def _weight(call: Call) -> Shape:
    return call.operands[1] or ()


def _attention(query: float, value: float, score: float) -> Formula:
    """For each score so many for each feature of the query and of the value, and so many for itself."""

    def formula(call: Call) -> float:
        keys, values = call.operands[1] or (), call.operands[2] or ()
        scores = math.prod(call.first[:-1]) * keys[-2]
        return scores * (query * call.first[-1] + value * values[-1] + score)

    return formula


def _fft(times: float) -> Formula:
    """Cooley's and Tukey's 5 n log n for each transform, or a part of it where half of the signal follows from the other."""

    def formula(call: Call) -> float:
        larger = max(call.first, call.results[0], key=math.prod)
        axes = call.attrs["axes"] if "axes" in call.attrs else (call.attrs["axis"],)
        points = math.prod(larger[a] for a in (range(len(larger)) if axes is None else axes))
        return times * math.prod(larger) * math.log2(max(1, points))

    return formula


def _sort(call: Call) -> float:
    axis = call.attrs.get("axis")
    along = math.prod(call.first) if axis is None else call.first[axis]
    return math.prod(call.first) * math.log2(max(2, along))


def _searchsorted(call: Call) -> float:
    return call.size * math.log2(max(2, math.prod(call.first)))


def _pool(call: Call) -> float:
    kernel = call.attrs["kernel_size"]
    window = math.prod(kernel) if isinstance(kernel, tuple) else kernel ** int(call.op[call.op.index("d") - 1])
    return math.prod(call.results[0]) * window


def _matrices(count: Callable[[int, int], float]) -> Formula:
    """For each matrix of a stack, by its longer and its shorter side."""
    return lambda call: math.prod(call.first[:-2]) * count(max(call.first[-2:]), min(call.first[-2:]))


def _systems(square: float, each: float) -> Formula:
    """For each system of n equations so many n³, and for each right-hand side so many n²."""

    def formula(call: Call) -> float:
        n = call.first[-1]
        sides = call.size // max(1, n)  # of all systems
        return square * math.prod(call.first) * n + each * sides * n * n

    return formula


def _matrix_power(call: Call) -> float:
    power = abs(int(call.attrs["n"]))
    products = max(0, power.bit_length() + power.bit_count() - 2)
    return 2 * products * call.size * call.first[-1]


_BY_ROW: Final[Mapping[str, Formula]] = {
    "matmul": _matmul,
    "linear": _linear,
    "tensordot": _tensordot,
    "vecdot": _vecdot,
    "einsum": _einsum,
    "matrix_power": _matrix_power,
    **dict.fromkeys(("vector_norm", "matrix_norm"), _each(2)),
    "trace": lambda call: math.prod(call.first[:-2]) * min(call.first[-2:]),
    **dict.fromkeys(("conv", "conv1d", "conv2d", "conv3d"), _conv),
    **dict.fromkeys(("conv_transpose", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _conv_transpose),
    "conv_weight_grad": _conv_weight_grad,
    "deform_conv2d": _deform_conv,
    "attention": _attention(2, 2, 5),  # two products, and a softmax between them
    "attention_grad": _attention(6, 4, 8),  # the scores again, and two products for each of the first two
    **dict.fromkeys(("softmax", "softmin", "log_softmax"), _each(5)),  # maximum, difference, exp, sum, quotient
    "logsumexp": _each(4),
    **dict.fromkeys(("var", "std"), _each(4)),  # sum, difference, square, sum
    **dict.fromkeys(("fft", "ifft", "fftn", "ifftn"), _fft(5)),
    **dict.fromkeys(("rfft", "irfft", "hfft", "ihfft", "rfftn", "irfftn"), _fft(2.5)),
    **dict.fromkeys(("sort", "argsort", "sort_with_indices", "topk"), _sort),
    **dict.fromkeys(("unique_all", "unique_values", "unique_counts", "unique_inverse"), _sort),
    **dict.fromkeys(("argmax", "argmin", "max_with_indices", "min_with_indices", "nonzero", "argwhere", "bincount"), _each(1)),
    "searchsorted": _searchsorted,
    **dict.fromkeys(("overlap_add", "fold"), _each(1)),
    "rms_norm": _each(4),  # square, sum, quotient, weight
    "batch_norm": _each(4),  # difference, quotient, weight, bias
    "norm_grad": _each(11),
    "adam_step": _each(12),
    # Golub and Van Loan's counts for Householder's methods, LAPACK's for eigenvalues.
    "qr": _matrices(lambda m, n: 4 * n * n * (m - n / 3)),
    "svd": _matrices(lambda m, n: 14 * m * n * n + 8 * n**3),
    **dict.fromkeys(("svdvals", "matrix_rank"), _matrices(lambda m, n: 4 * n * n * (m - n / 3))),
    "pinv": _matrices(lambda m, n: 16 * m * n * n + 8 * n**3),
    "eigh": _matrices(lambda _, n: 9 * n**3),
    "eigvalsh": _matrices(lambda _, n: 4 / 3 * n**3),
    "eig": _matrices(lambda _, n: 25 * n**3),
    "eigvals": _matrices(lambda _, n: 10 * n**3),
    "cholesky": _matrices(lambda _, n: n**3 / 3),
    **dict.fromkeys(("det", "slogdet"), _matrices(lambda _, n: 2 / 3 * n**3)),
    "inv": _matrices(lambda _, n: 2 * n**3),
    "solve": _systems(2 / 3, 2),
    "solve_triangular": _systems(0, 1),
}
_BY_FAMILY: Final[Mapping[str, Formula]] = {
    "reduction": _each(1),
    "adaptive": _each(1),
    "pooling": _pool,
    "normalization": _each(7),  # sum, difference, square, sum, quotient, weight, bias
    "loss": _each(3),
    "classification": _each(6),  # a softmax and a product
}
