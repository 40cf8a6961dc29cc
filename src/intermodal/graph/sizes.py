"""`Size`: a size that is not a number yet, as a polynomial in named sizes with integer values: ``2*n + 1``, ``batch*length``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final, TypeAlias

from intermodal.errors import InvalidValueError

__all__ = ["AnySize", "Size", "evaluated"]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
# One way to read each text: a pattern that could split a name in two would try all ways before it refuses.
_TERM: Final = re.compile(
    r"(?:(?P<number>\d{1,19})(?:/(?P<divisor>\d{1,19}))?)?(?P<names>(?:\*?[A-Za-z_]\w{0,63}(?!\w))*)", re.ASCII
)
_LONGEST: Final = 1000  # characters of a size's text: a bound on what reading one costs


class Size:
    """A sum of products of named sizes. Equal sizes are equal objects; text and object are each other's form.

    Example:
        >>> n = Size.named("n")
        >>> size = Size({("n",): Fraction(2), (): Fraction(1)})
        >>> str(size), size.at({"n": 5}), Size.parse("2*n + 1") == size
        ('2*n + 1', 11, True)
    """

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[tuple[str, ...], Fraction]) -> None:
        kept = {tuple(sorted(names)): value for names, value in terms.items() if value}
        self.terms = tuple(sorted(kept.items(), key=lambda term: (-len(term[0]), term[0])))

    @classmethod
    def named(cls, name: str) -> Size:
        """A size of its own."""
        if not _NAME.fullmatch(name):
            raise InvalidValueError(f"{name!r} names no size. Use letters, digits and _, at most 64, not a digit first.")
        return cls({(name,): Fraction(1)})

    @classmethod
    def parse(cls, text: str) -> Size:
        """A size from its text."""
        terms: dict[tuple[str, ...], Fraction] = {}
        if len(text) > _LONGEST:
            raise InvalidValueError(f"a size of {len(text)} characters is too long. At most {_LONGEST} are read.")
        for sign, part in re.findall(r"(^|[+-])([^+-]*)", re.sub(r"\s*([+-])\s*", r"\1", text)):
            found = _TERM.fullmatch(part)
            if not part and not sign:
                continue  # a minus in front of the first term
            if not part or found is None or (found["number"] is None) is (found["names"][:1] in ("", "*")):
                raise InvalidValueError(f"{text!r} is no size. Write a sum of products, such as 2*n*m + 1.")
            if found["divisor"] is not None and int(found["divisor"]) == 0:
                raise InvalidValueError(f"{text!r} divides by zero.")
            value = Fraction(int(found["number"] or 1), int(found["divisor"] or 1))
            names = tuple(sorted(filter(None, found["names"].split("*"))))
            terms[names] = terms.get(names, Fraction(0)) + (-value if sign == "-" else value)
        size = cls(terms)
        if not size.names:
            raise InvalidValueError(f"{text!r} names no size. Write a number as a number.")
        return size

    @property
    def names(self) -> frozenset[str]:
        """The named sizes it depends on."""
        return frozenset(name for names, _ in self.terms for name in names)

    def at(self, sizes: Mapping[str, int]) -> int:
        """The number, where the named sizes are known."""
        total = Fraction(0)
        for names, value in self.terms:
            for name in names:
                if name not in sizes:
                    raise InvalidValueError(f"the size {name} of {self} is not known. Known are {', '.join(sizes) or 'none'}.")
                value *= sizes[name]
            total += value
        if total.denominator != 1:
            raise InvalidValueError(f"the size {self} is {total} for {dict(sizes)}, not a whole number.")
        return int(total)

    def __str__(self) -> str:
        text = ""
        for names, value in self.terms:
            number = "" if abs(value) == 1 and names else str(abs(value))
            sign = "-" if value < 0 else "+"
            text += f" {sign} " if text else "-" if value < 0 else ""
            text += "*".join(filter(None, (number, *names)))
        return text or "0"

    def __repr__(self) -> str:
        return f"Size({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)


AnySize: TypeAlias = int | Size


def evaluated(shape: Iterable[AnySize], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """A shape in numbers."""
    return tuple(s.at(sizes) if isinstance(s, Size) else s for s in shape)
