"""How the stored tables of reciprocals and logarithms are found again.

Entry i belongs to the numbers m of [2/3, 4/3) whose bits are i sixteenths of that interval's below its upper end. Its
reciprocal c is near 1 / m there, and such that log(1 / c) is, beyond its rounding, a number of the format with few
bits: S. Gal, "Computing elementary functions: a new approach for achieving high accuracy and good performance", 1986.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lpx.expr.vecmath.formats import Format
from lpx.expr.vecmath.logarithm import TWO_THIRDS
from lpx.expr.vecmath.logarithm_tables import ENTRIES
from tests.vecmath.multiprecision import Real, mp
from tests.vecmath.remez import to_nearest


@dataclass(frozen=True, slots=True)
class Entry:
    """A reciprocal, the logarithm of its inverse, and by how much that is wrong."""

    reciprocal: float
    logarithm: float
    error: float


def interval(index: int, form: Format) -> tuple[Real, Real]:
    """The numbers m that entry `index` is for, as an interval."""
    step = (1 << form.mantissa) // ENTRIES
    low = form.pick(*TWO_THIRDS) + (ENTRIES - 1 - index) * step
    return _number(low, form), _number(low + step, form)


def derive(form: Format, base: Real, unit: float, error: float) -> list[Entry]:
    """The entries for logarithms to `base`: multiples of `unit`, right to `error`."""
    return [_entry(interval(i, form), form, base, unit, error) for i in range(ENTRIES)]


@dataclass(frozen=True, slots=True)
class ShortEntry:
    """A reciprocal of few bits, and the logarithm of its inverse in two words."""

    reciprocal: float
    logarithm: float
    rest: float


def derive_short(form: Format, last_bit: int) -> list[ShortEntry]:
    """The entries for natural logarithms whose first words are multiples of 2**last_bit."""
    return [_short_entry(interval(i, form), form, mp.mpf(2) ** last_bit) for i in range(ENTRIES)]


def _short_entry(m: tuple[Real, Real], form: Format, unit: Real) -> ShortEntry:
    if m[0] < 1 < m[1]:
        return ShortEntry(1.0, -0.0, -0.0)
    reciprocal = min(_short_reciprocals(m), key=lambda c: _loss(c, m))
    logarithm = -mp.log(reciprocal)
    first = mp.nint(logarithm / unit) * unit
    return ShortEntry(float(reciprocal), float(first), to_nearest(logarithm - first, form.dtype.to_numpy().type))


def _short_reciprocals(m: tuple[Real, Real]) -> Iterator[Real]:
    """Numbers c near 1 / m for which m * c - 1 is exact: small enough for the bits that c has after its point."""
    for bits in range(3, 12):
        nearest = round(2 / (m[0] + m[1]) * 2**bits)
        for c in (mp.mpf(n) / 2**bits for n in (nearest - 1, nearest, nearest + 1)):
            used = next(b for b in range(bits + 1) if mp.isint(c * 2**b))
            if max(abs(end * c - 1) for end in m) <= mp.mpf(2) ** ((m[0] >= 1) - used):
                yield c


def _loss(c: Real, m: tuple[Real, Real]) -> Real:
    """The size of the cubic term of log(1 + r) relative to the logarithm: rounding it costs the most."""
    return max(abs(end * c - 1) ** 3 / abs(mp.log(end)) for end in m)


def _entry(m: tuple[Real, Real], form: Format, base: Real, unit: float, error: float) -> Entry:
    if m[0] < 1 < m[1]:
        return Entry(1.0, -0.0, 0.0)
    dtype: type[np.floating[Any]] = form.dtype.to_numpy().type
    nearest = round(mp.log((m[0] + m[1]) / 2, base) / unit)
    for steps in _outwards():
        logarithm = (nearest + steps) * mp.mpf(unit)
        reciprocal = to_nearest(base**-logarithm, dtype)
        wrong = abs(logarithm + mp.log(mp.mpf(reciprocal), base))
        if wrong <= error:
            return Entry(reciprocal, float(logarithm), float(wrong))
    raise AssertionError("unreachable")


def _outwards() -> Iterator[int]:
    """0, 1, -1, 2, -2, ..."""
    yield 0
    size = 1
    while True:
        yield size
        yield -size
        size += 1


def _number(bits: int, form: Format) -> Real:
    """The positive number of these bits."""
    exponent, fraction = divmod(bits, 1 << form.mantissa)
    return mp.ldexp(mp.mpf(fraction + (1 << form.mantissa)), exponent - form.bias - form.mantissa)
