"""Sums of two floats that stand for one number of twice the precision.

T. J. Dekker, "A floating-point technique for extending the available precision", 1971; D. E. Knuth, "The Art of
Computer Programming", volume 2, section 4.2.2; M. Joldes, J.-M. Muller and V. Popescu, "Tight and rigorous error bounds
for basic building blocks of double-word arithmetic", 2017.
"""

from __future__ import annotations

from lpx.expr.nodes import Expr
from lpx.expr.vecmath.operations import Operand, fma
from lpx.records import record


@record
class DoubleWord:
    """high + low, where `low` is at most half a unit in the last place of `high`."""

    high: Expr
    low: Expr


def two_sum(a: Expr, b: Expr) -> DoubleWord:
    """a + b exactly."""
    high = a + b
    of_b = high - a
    return DoubleWord(high, (a - (high - of_b)) + (b - of_b))


def fast_two_sum(a: Operand, b: Expr) -> DoubleWord:
    """a + b exactly, if |a| >= |b| or a is 0."""
    high = a + b
    return DoubleWord(high, b - (high - a))


def two_product(a: Expr, b: Operand) -> DoubleWord:
    """a * b exactly, unless it underflows."""
    high = a * b
    return DoubleWord(high, fma(a, b, -high))


def times(a: DoubleWord, b: tuple[Operand, Operand]) -> DoubleWord:
    """a times a constant or expression of two words; `low` may be a few units of the last place of `high`."""
    product = two_product(a.high, b[0])
    return DoubleWord(product.high, fma(a.high, b[1], fma(a.low, b[0], product.low)))
