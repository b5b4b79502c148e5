"""Polynomials with integer coefficients over numbered atoms: the normal form of index arithmetic.

An atom is an expression's number (see `interner`): a variable, or something opaque such as a division. Terms keep the
order in which they were met, so that writing a polynomial out again gives back the order the user wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd

Monomial = tuple[int, ...]
"""Sorted atom numbers, repeated for powers; the empty one belongs to the constant."""

ONE: Monomial = ()


class Polynomial:
    """An immutable sum of coefficient * monomial; no coefficient is 0."""

    __slots__ = ("_key", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = terms
        self._key: frozenset[tuple[Monomial, int]] | None = None

    @property
    def key(self) -> frozenset[tuple[Monomial, int]]:
        """Equal for equal polynomials, whatever the order of their terms."""
        if self._key is None:
            self._key = frozenset(self.terms.items())
        return self._key

    @property
    def constant(self) -> int:
        """The constant term."""
        return self.terms.get(ONE, 0)

    @property
    def is_constant(self) -> bool:
        return not self.terms or (len(self.terms) == 1 and ONE in self.terms)

    @property
    def is_zero(self) -> bool:
        return not self.terms

    def same(self, other: Polynomial) -> bool:
        """Whether both are the same polynomial."""
        return self.terms == other.terms

    def coefficient(self, *atoms: int) -> int:
        """The coefficient of the monomial of `atoms` (given sorted)."""
        return self.terms.get(atoms, 0)

    def varying(self) -> Iterator[tuple[Monomial, int]]:
        """The terms other than the constant."""
        return ((m, k) for m, k in self.terms.items() if m)

    def atoms(self) -> set[int]:
        """All atoms in it."""
        return {atom for monomial in self.terms for atom in monomial}

    def single_atom(self) -> int | None:
        """The atom it consists of, if it is just one with coefficient 1."""
        if len(self.terms) != 1:
            return None
        ((monomial, coefficient),) = self.terms.items()
        return monomial[0] if coefficient == 1 and len(monomial) == 1 else None

    def content(self) -> int:
        """The greatest common divisor of all coefficients but the constant's; 0 for a constant."""
        return gcd(*(k for m, k in self.terms.items() if m))

    def __add__(self, other: Polynomial) -> Polynomial:
        return self.plus(other, 1)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self.plus(other, -1)

    def plus(self, other: Polynomial, factor: int) -> Polynomial:
        """self + factor * other."""
        if not other.terms:
            return self
        total = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            value = total.get(monomial, 0) + coefficient * factor
            if value:
                total[monomial] = value
            else:
                total.pop(monomial, None)
        return Polynomial(total)

    def shifted(self, amount: int) -> Polynomial:
        """self + amount."""
        return self + constant(amount) if amount else self

    def scaled(self, factor: int) -> Polynomial:
        """self * factor."""
        if factor == 1:
            return self
        return Polynomial({m: k * factor for m, k in self.terms.items()}) if factor else ZERO

    def divided(self, divisor: int) -> Polynomial:
        """self / divisor, which must divide every coefficient."""
        return Polynomial({m: k // divisor for m, k in self.terms.items()})

    def __mul__(self, other: Polynomial) -> Polynomial:
        if other.is_constant:
            return self.scaled(other.constant)
        if self.is_constant:
            return other.scaled(self.constant)
        total: dict[Monomial, int] = {}
        for left, k in self.terms.items():
            for right, c in other.terms.items():
                monomial = tuple(sorted(left + right))
                value = total.get(monomial, 0) + k * c
                if value:
                    total[monomial] = value
                else:
                    total.pop(monomial, None)
        return Polynomial(total)

    def split_by(self, atom: int) -> tuple[Polynomial, Polynomial] | None:
        """(A, B) with self = A * atom + B and no `atom` in either; None when it has a power of `atom`."""
        factor: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms.items():
            count = monomial.count(atom)
            if count > 1:
                return None
            if count:
                factor[without(monomial, (atom,))] = coefficient
            else:
                rest[monomial] = coefficient
        return Polynomial(factor), Polynomial(rest)


ZERO = Polynomial({})


def constant(value: int) -> Polynomial:
    """The polynomial of one constant."""
    return Polynomial({ONE: value}) if value else ZERO


def atom(number: int) -> Polynomial:
    """The polynomial of one atom."""
    return Polynomial({(number,): 1})


def without(monomial: Monomial, factor: Monomial) -> Monomial:
    """monomial / factor, which must divide it."""
    left = list(monomial)
    for number in factor:
        left.remove(number)
    return tuple(left)


def divides(factor: Monomial, monomial: Monomial) -> bool:
    """Whether every atom of `factor` is in `monomial`, as often."""
    if len(factor) == 1:
        return factor[0] in monomial
    return all(monomial.count(number) >= factor.count(number) for number in factor)


def exact_quotient(dividend: Polynomial, divisor: Polynomial) -> Polynomial | None:
    """dividend / divisor when it is a polynomial, else None."""
    quotient, remainder = long_division(dividend, divisor)
    return quotient if remainder.is_zero else None


def long_division(dividend: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
    """(Q, R) with dividend = divisor * Q + R, dividing out terms that the divisor's leading term divides.

    Example: i*n + i + j by n + 1 is (i, j).
    """
    lead = max(divisor.terms, key=lambda m: (len(m), m))
    scale = divisor.terms[lead]
    quotient, remainder = ZERO, dividend
    for _ in range(len(dividend.terms) + 1):
        step = {without(m, lead): k // scale for m, k in remainder.terms.items() if k % scale == 0 and divides(lead, m)}
        if not step:
            break
        quotient = quotient + Polynomial(step)
        remainder = remainder - Polynomial(step) * divisor
    return quotient, remainder
