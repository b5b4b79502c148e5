"""sin, cos and tan: reduction by quarter turns, then polynomials on half a quarter turn to each side of zero."""

from __future__ import annotations

from collections.abc import Callable

from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.expr.vecmath.formats import Format, format_of
from lpx.expr.vecmath.operations import fma, from_bits, magnitude, to_bits
from lpx.expr.vecmath.polynomial import horner
from lpx.expr.vecmath.quarter_turns import NEAR, QuarterTurns, near_quarter_turns, quarter_turns

# (sin(a) / a - 1) / a**2 as a polynomial in a**2, least error relative to sin(a) / a; |a| <= 0.563 * pi/2 in float32,
# as far as `quarter_turns` goes there, and 0.501 * pi/2 in float64
SIN_32 = (-0.1666664332151413, 0.008331498131155968, -0.0001943274401128292)
SIN_64 = (
    -0.16666666666666632, 0.008333333333322418, -0.00019841269829766958, 2.7557313667324376e-06,
    -2.5050753056842777e-08, 1.5896447274398709e-10,
)  # fmt: skip
# (cos(a) - 1 + a**2 / 2) / a**4, least error relative to cos(a)
COS_32 = (0.04166662320494652, -0.0013886339729651809, 2.4333125111297704e-05)
COS_64 = (
    0.04166666666666659, -0.0013888888888872186, 2.4801587288295315e-05, -2.755731401508123e-07,
    2.0875678077344603e-09, -1.1357336277607712e-11,
)  # fmt: skip


def sin(x: Expr) -> Expr:
    """The sine of an angle in radians."""
    form = format_of(x)

    def of(turns: QuarterTurns) -> Expr:
        sine, cosine = _sine_and_cosine(turns, form)
        result = build.select(_is_odd(turns), cosine, sine)
        return _flip(result, _second_bit(turns.count, form) ^ _sign(x, form), form)

    return _by_quarter_turns(x, of)


def cos(x: Expr) -> Expr:
    """The cosine of an angle in radians."""
    form = format_of(x)

    def of(turns: QuarterTurns) -> Expr:
        sine, cosine = _sine_and_cosine(turns, form)
        result = build.select(_is_odd(turns), sine, cosine)
        return _flip(result, _second_bit(turns.count + 1, form), form)

    return _by_quarter_turns(x, of)


def tan(x: Expr) -> Expr:
    """The tangent of an angle in radians."""
    form = format_of(x)

    def of(turns: QuarterTurns) -> Expr:
        sine, cosine = _sine_and_cosine(turns, form)
        odd = _is_odd(turns)
        quotient = build.select(odd, -cosine, sine) / build.select(odd, sine, cosine)
        return _flip(quotient, _sign(x, form), form)

    return _by_quarter_turns(x, of)


def _by_quarter_turns(x: Expr, of: Callable[[QuarterTurns], Expr]) -> Expr:
    """A function of the quarter turns of |x|; large numbers, which need more bits of pi, take a branch."""
    form = format_of(x)
    size = magnitude(x)
    far = build.unlikely(~(size < form.pick(*NEAR)))  # also NaN
    return build.select(far, of(quarter_turns(size, form)), of(near_quarter_turns(size, form)))


def _sine_and_cosine(turns: QuarterTurns, form: Format) -> tuple[Expr, Expr]:
    angle, rest = turns.angle, turns.rest
    square = angle * angle
    sine_tail = square * horner(square, form.pick(SIN_32, SIN_64))
    cosine_tail = horner(square, form.pick(COS_32, COS_64))
    if rest is None:
        sine = fma(angle, sine_tail, angle)
        cosine = fma(square, fma(square, cosine_tail, -0.5), 1.0)
    else:
        sine = angle + fma(angle, sine_tail, rest)
        cosine = fma(square, -0.5, fma(square * square, cosine_tail, -(angle * rest))) + 1.0
    return sine, cosine


def _is_odd(turns: QuarterTurns) -> Expr:
    return build.compare("ne", turns.count & 1, 0)


def _second_bit(count: Expr, form: Format) -> Expr:
    """Bit 1 of the count in the place of the sign."""
    return (count & 2) << (form.dtype.bits - 2)


def _sign(x: Expr, form: Format) -> Expr:
    return to_bits(x, form) & form.sign_bit


def _flip(value: Expr, sign: Expr, form: Format) -> Expr:
    return from_bits(to_bits(value, form) ^ sign, form)
