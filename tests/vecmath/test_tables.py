"""The tables of the logarithms: that they can be found again, and how good their entries are."""

from __future__ import annotations

import pytest

from lpx.expr.vecmath import logarithm_tables as stored
from lpx.expr.vecmath.formats import BINARY32, BINARY64, Format
from lpx.expr.vecmath.logarithm_tables import DoubleWordTable, LogTable
from lpx.expr.vecmath.power import LAST_BIT
from tests.vecmath.multiprecision import Real, mp
from tests.vecmath.remez import BITS
from tests.vecmath.tables import derive, derive_short, interval

UNIT = (2.0**-19, 2.0**-42)
"""The last bits of the logarithms in a table."""
ERROR = (2.0**-33, 2.0**-61)
"""How far the logarithms are from those of the inverse reciprocals."""

TABLES: dict[str, tuple[LogTable, Format, Real]] = {
    "LN_64": (stored.LN_64, BINARY64, mp.e),
    "LOG2_32": (stored.LOG2_32, BINARY32, mp.mpf(2)),
    "LOG2_64": (stored.LOG2_64, BINARY64, mp.mpf(2)),
    "LOG10_32": (stored.LOG10_32, BINARY32, mp.mpf(10)),
    "LOG10_64": (stored.LOG10_64, BINARY64, mp.mpf(10)),
}


@pytest.mark.parametrize("name", TABLES)
def test_entries_are_found_again(name: str) -> None:
    table, form, base = TABLES[name]
    with mp.workprec(BITS):
        entries = derive(form, +base, form.pick(*UNIT), form.pick(*ERROR))
    assert table.reciprocals == tuple(e.reciprocal for e in entries)
    assert repr(table.logarithms) == repr(tuple(e.logarithm for e in entries))


@pytest.mark.parametrize("name", TABLES)
def test_entries_leave_little(name: str) -> None:
    """The polynomials hold up to 0.0303."""
    table, form, base = TABLES[name]
    with mp.workprec(BITS):
        for i, (reciprocal, value) in enumerate(zip(table.reciprocals, table.logarithms, strict=True)):
            assert max(abs(m * reciprocal - 1) for m in interval(i, form)) < 0.0303
            assert abs(mp.log(mp.mpf(reciprocal), +base) + value) <= form.pick(*ERROR)


DOUBLE_WORDS: dict[str, tuple[DoubleWordTable, Format]] = {
    "LN_WORDS_32": (stored.LN_WORDS_32, BINARY32),
    "LN_WORDS_64": (stored.LN_WORDS_64, BINARY64),
}


@pytest.mark.parametrize("name", DOUBLE_WORDS)
def test_short_entries_are_found_again(name: str) -> None:
    table, form = DOUBLE_WORDS[name]
    with mp.workprec(BITS):
        entries = derive_short(form, form.pick(*LAST_BIT))
    assert table.reciprocals == tuple(e.reciprocal for e in entries)
    assert repr(table.logarithms) == repr(tuple(e.logarithm for e in entries))
    assert repr(table.rests) == repr(tuple(e.rest for e in entries))


@pytest.mark.parametrize("form", [BINARY32, BINARY64])
def test_products_with_short_reciprocals_are_exact(form: Format) -> None:
    """m * c - 1 is a multiple of the product of their last bits, and below 2**precision times that."""
    with mp.workprec(BITS):
        for i, reciprocal in enumerate(stored.RECIPROCALS):
            low, high = interval(i, form)
            last_bit = mp.mpf(2) ** -(form.mantissa + (low < 1)) * _last_bit(reciprocal)
            largest = max(abs(m * reciprocal - 1) for m in (low, high))
            assert largest < 0.0495
            assert largest <= last_bit * 2 ** (form.mantissa + 1)


def _last_bit(value: float) -> float:
    _, denominator = value.as_integer_ratio()
    return 1.0 / denominator
