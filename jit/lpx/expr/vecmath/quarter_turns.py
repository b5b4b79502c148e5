"""x as quarter turns: x * 2/pi = n + r for an integer n of which only the lowest two bits matter, and |r| <= 9/16.

For numbers of common size, pi/2 in three words is subtracted n times (W. J. Cody and W. Waite, "Software Manual for the
Elementary Functions", 1980); by fused multiply-add all but the last roundings are exact.

Others need 2/pi to as many bits as x has before its point, and some 120 more. But a large x is a multiple of 2**k, and
multiples of four quarter turns do not matter, so 2**k * 2/pi may be taken modulo 4: the further out x is, the later the
bits of 2/pi that count. M. Payne and R. Hanek, "Radian reduction for trigonometric functions", 1983. Here the bits are
picked by selections between constants, and products are exact by fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from lpx import dtypes
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.expr.vecmath.constants import HALF_PI, INVERSE_HALF_PI, round_fraction
from lpx.expr.vecmath.double_word import fast_two_sum, times, two_product, two_sum
from lpx.expr.vecmath.formats import BINARY64, Format
from lpx.expr.vecmath.operations import constant, fma, to_bits
from lpx.records import record

_HEX_DIGITS = """
A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E0
06492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639835339F4
9C845F8BBDF9283B1FF897FFDE05980FEF2F118B5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D
7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D0856033046FC7B6BABF0CFBC209AF4361D
"""
TWO_OVER_PI = Fraction(int("".join(_HEX_DIGITS.split()), 16), 1 << 1280)
"""2 / pi, cut off after 1280 bits."""


@record
class QuarterTurns:
    """x = (n + r) * pi/2. `count` holds n modulo 4 in its lowest bits (int32 for float32, int64 for float64), `angle`
    is r * pi/2 in x's dtype and `rest` what is missing of it (None for float32, where it is too small to matter).
    """

    count: Expr
    angle: Expr
    rest: Expr | None


NEAR = (2.0**16, 2.0**25)
"""Below these, `near_quarter_turns` does."""


def near_quarter_turns(x: Expr, form: Format) -> QuarterTurns:
    """The quarter turns of 0 <= x < NEAR."""
    first, second, third = HALF_PI.words(3, form)
    shifted = fma(x, INVERSE_HALF_PI.near(form), form.rounder)
    n = shifted - form.rounder
    most = fma(n, -first, x)  # exact: a multiple of the last bit of `first`, and below 1
    angle = fma(n, -second, most)
    count = to_bits(shifted, form)
    if not form.is_double:
        return QuarterTurns(count, fma(n, -third, angle), None)
    return QuarterTurns(count, angle, fma(n, -third, fma(n, -second, most - angle)))


def quarter_turns(x: Expr, form: Format) -> QuarterTurns:
    """The quarter turns of any x >= 0; `angle` is NaN for infinite x."""
    return _double(x) if form.is_double else _single(x)


# --- float32, in float64 ----------------------------------------------------------------------------------------------

_SINGLE_RANGES = ((50, 27), (76, 53), (102, 79))
"""(e, k): from 2**e on, x is a multiple of 2**k. The product with 2/pi * 2**k modulo 4 is below 2**51 in each
range, so that adding `rounder` leaves its integer in the lowest bits."""


def _single(x: Expr) -> QuarterTurns:
    wide = build.cast(x, dtypes.float64)
    first, second = (constant(word, BINARY64) for word in _scaled_words(0))
    for exponent, k in _SINGLE_RANGES:
        beyond = wide >= 2.0**exponent
        high, low = _scaled_words(k)
        first, second = build.select(beyond, high, first), build.select(beyond, low, second)
    shifted = fma(wide, first, BINARY64.rounder)
    n = shifted - BINARY64.rounder
    r = fma(wide, second, fma(wide, first, -n))
    angle = build.cast(r * HALF_PI.near(BINARY64), dtypes.float32)
    return QuarterTurns(build.cast(to_bits(shifted, BINARY64), dtypes.int32), angle, None)


def _scaled_words(k: int) -> tuple[float, float]:
    """(2/pi * 2**k modulo 4) / 2**k in two words."""
    value = TWO_OVER_PI * 2**k
    value -= 4 * round(value / 4)
    high = round_fraction(value, BINARY64)
    return high / 2.0**k, round_fraction(value - Fraction(high), BINARY64) / 2.0**k


# --- float64 ----------------------------------------------------------------------------------------------------------

_PIECE = 53
_FIRST_RANGE = 107
"""Below 2**107 the pieces 0 to 4 of 2/pi count; from there on one piece later for each 53 bits."""
_PIECES_USED = 5
_RANGES = 19
_SHRINK = 200
"""x is scaled by 2**-200 and the pieces of 2/pi by 2**200, so that the last pieces are normal numbers."""


def _double(x: Expr) -> QuarterTurns:
    form = BINARY64
    pieces = _pick_pieces(_range_of(x, form))
    shrunk = x * 2.0**-_SHRINK
    products = [two_product(shrunk, piece) for piece in pieces[:-1]]
    p = [product.high for product in products]
    e = [product.low for product in products]
    sums: list[Expr] = []
    total = _modulo_four(p[0])
    for term in (_modulo_four(e[0]), _modulo_four(p[1]), e[1], p[2]):
        added = two_sum(total, term)
        total = added.high
        sums.append(added.low)
    shifted = total + form.rounder
    fraction = total - (shifted - form.rounder)
    low = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((e[2] + p[3]) + fma(shrunk, pieces[-1], e[3]))
    r = two_sum(fraction, low)
    angle = times(r, HALF_PI.pair(form))
    result = fast_two_sum(angle.high, angle.low)
    tiny = x < 2.0**-30
    return QuarterTurns(
        to_bits(shifted, form),
        build.select(tiny, x, result.high),
        build.select(tiny, constant(0.0, form), result.low),
    )


def _modulo_four(value: Expr) -> Expr:
    return fma(build.call("rint", value * 0.25), -4.0, value)


def _range_of(x: Expr, form: Format) -> Expr:
    """0 below 2**107, then 1 for each 53 more bits."""
    exponent = to_bits(x, form) >> form.mantissa
    past = build.maximum(exponent - (form.bias + _FIRST_RANGE - _PIECE), 0)
    return (past * 1237) >> 16  # floor(past / 53) for 0 <= past <= 970


def _pick_pieces(start: Expr) -> Sequence[Expr]:
    """Pieces start, start + 1, ... of 2/pi, by a selection for each bit of `start`, the highest bit first."""
    window: list[Expr] = [constant(_piece(i), BINARY64) for i in range(_RANGES + _PIECES_USED - 1)]
    for bit in (16, 8, 4, 2, 1):
        is_set = build.compare("ne", start & bit, 0)
        wanted = _PIECES_USED + bit - 1
        window = [
            build.select(is_set, window[i + bit], window[i]) if i + bit < len(window) else window[i]
            for i in range(min(wanted, len(window)))
        ]
    return window


def _piece(index: int) -> float:
    """Bits 53 * index to 53 * index + 52 after the point of 2/pi, as a number 2**200 times their worth."""
    position = _PIECE * (index + 1)
    bits = (TWO_OVER_PI.numerator * 2**position // TWO_OVER_PI.denominator) % 2**_PIECE
    return float(Fraction(bits) * Fraction(2) ** (_SHRINK - position))
