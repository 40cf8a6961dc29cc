"""Approximations of functions that libraries lack: coefficients as tables, read by decompositions and by NumPy's natives.

The error function is W. J. Cody's ("Rational Chebyshev approximation for the error function", 1969), to float64 precision: near
zero ``erf(x) = x * ratio(ERF_SMALL, x * x)``, beyond it ``erfc(x) = exp(-x * x)`` times one of the two other quotients.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

__all__ = ["ERFC_LARGE", "ERFC_MIDDLE", "ERF_SMALL", "MIDDLE", "SMALL", "ratio"]

Quotient: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]

SMALL: Final = 0.46875
"""Up to here the first quotient holds,"""
MIDDLE: Final = 4.0
"""up to here the second, of x itself; beyond it the third, of 1 / x**2."""

ERF_SMALL: Final[Quotient] = (
    (3.16112374387056560e00, 1.13864154151050156e02, 3.77485237685302021e02, 3.20937758913846947e03, 1.85777706184603153e-1),
    (2.36012909523441209e01, 2.44024637934444173e02, 1.28261652607737228e03, 2.84423683343917062e03),
)
ERFC_MIDDLE: Final[Quotient] = (
    (5.64188496988670089e-1, 8.88314979438837594e00, 6.61191906371416295e01, 2.98635138197400131e02, 8.81952221241769090e02,
     1.71204761263407058e03, 2.05107837782607147e03, 1.23033935479799725e03, 2.15311535474403846e-8),
    (1.57449261107098347e01, 1.17693950891312499e02, 5.37181101862009858e02, 1.62138957456669019e03, 3.29079923573345963e03,
     4.36261909014324716e03, 3.43936767414372164e03, 1.23033935480374942e03),
)  # fmt: skip
ERFC_LARGE: Final[Quotient] = (
    (
        3.05326634961232344e-1,
        3.60344899949804439e-1,
        1.25781726111229246e-1,
        1.60837851487422766e-2,
        6.58749161529837803e-4,
        1.63153871373020978e-2,
    ),
    (2.56852019228982242e00, 1.87295284992346725e00, 5.27905102951428412e-1, 6.05183413124413191e-2, 2.33520497626869185e-3),
)


def ratio(coefficients: Quotient, z: Any) -> Any:
    """The quotient of two polynomials at z, a tensor or an array; the last coefficient above is that of the highest power."""
    above, below = coefficients
    n, d = above[-1] * z, z
    for p, q in zip(above[:-2], below[:-1], strict=True):
        n, d = (n + p) * z, (d + q) * z
    return (n + above[-2]) / (d + below[-1])
