"""Real constants to more digits than any format holds, and as sums of two floats."""

from __future__ import annotations

import functools
from fractions import Fraction

from lpx.expr.vecmath.formats import Format
from lpx.records import record


@record
class Constant:
    """A real number by its decimal digits."""

    digits: str

    def near(self, form: Format) -> float:
        """The nearest float of the format."""
        return self.pair(form)[0]

    def pair(self, form: Format) -> tuple[float, float]:
        """Two floats of the format: the nearest one, and the nearest to what that leaves over."""
        first, second = self.words(2, form)
        return first, second

    def words(self, count: int, form: Format) -> tuple[float, ...]:
        """Floats of the format: each is the nearest to what those before it leave over."""
        return _words(Fraction(self.digits), count, form)

    def ending_at(self, bit: int, form: Format) -> tuple[float, float]:
        """The nearest multiple of 2**bit, and the float nearest to what that leaves over."""
        unit = Fraction(2) ** bit
        high = round(Fraction(self.digits) / unit) * unit
        return float(high), round_fraction(Fraction(self.digits) - high, form)


@functools.cache
def _words(value: Fraction, count: int, form: Format) -> tuple[float, ...]:
    if not count:
        return ()
    first = round_fraction(value, form)
    return first, *_words(value - Fraction(first), count - 1, form)


def round_fraction(value: Fraction, form: Format) -> float:
    """`value`, of normal size, rounded once to the nearest float, ties to even."""
    if not value:
        return 0.0
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    if abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - form.mantissa)
    return float(round(value / unit) * unit)


LN2 = Constant("0.69314718055994530941723212145817656807550013436025525412068000949339362196969472")
HALF_LN2 = Constant("0.34657359027997265470861606072908828403775006718012762706034000474669681098484736")
LOG2_E = Constant("1.4426950408889634073599246810018921374266459541529859341354494069311092191811851")
LOG10_E = Constant("0.43429448190325182765112891891660508229439700580366656611445378316586464920887077")
LOG10_2 = Constant("0.30102999566398119521373889472449302676818988146210854131042746112710818927442451")
PI = Constant("3.1415926535897932384626433832795028841971693993751058209749445923078164062862090")
HALF_PI = Constant("1.5707963267948966192313216916397514420985846996875529104874722961539082031431045")
INVERSE_HALF_PI = Constant("0.63661977236758134307553505349005744813783858296182579499066937623558719053690614")
"""Digits as mpmath prints them; a test compares."""
