"""fmod and nextafter, both exact."""

from __future__ import annotations

import math

from lpx import dtypes
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.expr.vecmath.exponential import scale
from lpx.expr.vecmath.formats import BINARY64, Format, format_of
from lpx.expr.vecmath.operations import constant, fma, from_bits, magnitude, to_bits, with_sign


def fmod(x: Expr, y: Expr) -> Expr:
    """x - n * y for the integer n that x / y gives when cut off, by long division with 45 bits in each step.

    A step subtracts the multiple of y * 2**j nearest to x, for ever smaller j. What is left is a multiple of the last
    bits of x and y and smaller than y * 2**j, so it is exact.
    """
    form = format_of(x)
    size, divisor = magnitude(x), magnitude(y)
    left = _double_remainder(size, divisor) if form.is_double else _single_remainder(size, divisor)
    result = with_sign(build.select(size < divisor, size, left), x)
    return build.select((size < math.inf) & (divisor > 0.0), result, math.nan)


def nextafter(x: Expr, y: Expr) -> Expr:
    """The number next to x on the side of y."""
    form = format_of(x)
    bits = to_bits(x, form)
    away = build.compare("eq", x < y, x > 0.0)
    moved = from_bits(bits + build.select(away, build.const(1, form.signed), -1), form)
    first = with_sign(constant(2.0 ** (1 - form.bias - form.mantissa), form), y)
    neighbour = build.select(build.compare("eq", x, 0.0), first, moved)
    same = build.select(build.compare("eq", x, y), y, neighbour)
    return build.select(build.call("isnan", x) | build.call("isnan", y), x + y, same)


# --- float32, in float64 ----------------------------------------------------------------------------------------------

_STEP = 45
"""Bits of a quotient. Its error, that of the reciprocal and of a product, stays below 1."""
_SINGLE_STEPS = 7
"""Enough for quotients up to 2**277."""


def _single_remainder(size: Expr, divisor: Expr) -> Expr:
    wide = build.cast(divisor, dtypes.float64)
    left = _divide(build.cast(size, dtypes.float64), wide, 1.0 / wide, _SINGLE_STEPS)
    return build.cast(_not_negative(left, wide), dtypes.float32)


# --- float64 ----------------------------------------------------------------------------------------------------------

_DOUBLE_STEPS = 16
_ROUND = _DOUBLE_STEPS * _STEP
"""The exponents of x and y differ by up to 2097, more than a number can hold: x is shifted and divided three times."""


def _double_remainder(size: Expr, divisor: Expr) -> Expr:
    form = BINARY64
    left, x_exponent = _normalised(size, form)
    y_fraction, y_exponent = _normalised(divisor, form)
    inverse = 1.0 / y_fraction
    for already in (2 * _ROUND, _ROUND, 0):
        shift = build.minimum(build.maximum((x_exponent - y_exponent) - already, 0), _ROUND)
        power = from_bits((shift + form.bias) << form.mantissa, form)
        left = _divide(left * power, y_fraction, inverse, _DOUBLE_STEPS)
    return scale(_not_negative(left, y_fraction), y_exponent + 2 * form.bias, form)


def _normalised(x: Expr, form: Format) -> tuple[Expr, Expr]:
    """x = fraction * 2**exponent for x > 0, with 1 <= fraction < 2."""
    subnormal = x < form.smallest_normal
    bits = to_bits(build.select(subnormal, x * 2.0**form.mantissa, x), form)
    one = form.bits_of(0)
    fraction = from_bits((bits & ~form.exponent_mask) | one, form)
    lifted = build.select(subnormal, build.const(form.bias + form.mantissa, form.signed), form.bias)
    return fraction, (bits >> form.mantissa) - lifted


def _divide(left: Expr, divisor: Expr, inverse: Expr, steps: int) -> Expr:
    """What is left of a division: within half the divisor, or a little more, of zero."""
    rounder = BINARY64.rounder
    for j in range((steps - 1) * _STEP, -1, -_STEP):
        quotient = fma(left, inverse * 2.0**-j, rounder) - rounder
        left = fma(-quotient, divisor * 2.0**j, left)
    return left


def _not_negative(left: Expr, divisor: Expr) -> Expr:
    return build.select(left < 0.0, left + divisor, left)
