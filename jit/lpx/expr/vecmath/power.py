"""rsqrt, cbrt, hypot and pow."""

from __future__ import annotations

import math

from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.expr.vecmath.constants import LN2, LOG2_E
from lpx.expr.vecmath.double_word import DoubleWord, fast_two_sum, two_product
from lpx.expr.vecmath.exponential import EXP_NORMAL, Reduced, exp_polynomial, raised, scale
from lpx.expr.vecmath.formats import Format, format_of
from lpx.expr.vecmath.logarithm import Decomposed, decompose, decompose_any, is_unusual, picked
from lpx.expr.vecmath.logarithm_tables import LN_WORDS_32, LN_WORDS_64
from lpx.expr.vecmath.operations import constant, fma, from_bits, magnitude, square_root, to_bits, with_sign
from lpx.expr.vecmath.polynomial import horner

# (log(1 + r) - r + r**2 / 2) / r**3 on |r| <= 0.0495, least error of log(1 + r)
LOG_CUBIC_32 = (0.333332896232605, -0.24999941885471344, 0.20051980018615723, -0.1672130525112152)
LOG_CUBIC_64 = (
    0.3333333333333336, -0.2500000000000007, 0.19999999999863624, -0.16666666666413046, 0.14285714511656195,
    -0.12500000334309505, 0.11110941835715199, -0.09999791522644791, 0.09149721344410851, -0.08395527553593757,
)  # fmt: skip

LAST_BIT = (-16, -42)
"""The position of the last bit of the leading words of logarithms: multiples of ln 2 then add to them exactly."""


def rsqrt(x: Expr) -> Expr:
    """1 / sqrt(x), which r approaches in two steps; a root and a quotient would take three times as long."""
    form = format_of(x)
    r = _closer_inverse_root(x, _rough_inverse_root(x, form), 4)
    usual = _closer_inverse_root(x, r, form.pick(1, 2))
    return build.select(build.unlikely(is_unusual(x, form)), 1.0 / square_root(x), usual)


def _rough_inverse_root(x: Expr, form: Format) -> Expr:
    """x**(-1/2) to 3.5%: minus half the bits of x, taken for a logarithm."""
    offset = round((form.bias - 0.045) * 1.5 * 2.0**form.mantissa)
    return from_bits(offset - (to_bits(x, form) >> 1), form)


def _closer_inverse_root(x: Expr, r: Expr, terms: int) -> Expr:
    """r * (1 - e)**(-1/2) by the first terms of its series, where e = 1 - x * r**2 tells how far off r is."""
    e = fma(-(x * r), r, 1.0)
    step = r * e
    if terms == 1:
        return fma(step, 0.5, r)
    return fma(step, horner(e, (1 / 2, 3 / 8, 5 / 16, 35 / 128)[:terms]), r)


def cbrt(x: Expr) -> Expr:
    """The cube root; subnormal numbers, zeros and infinities take a branch."""
    form = format_of(x)
    size = magnitude(x)
    rare = build.unlikely(is_unusual(size, form))
    return with_sign(build.select(rare, _any_cube_root(size, form), _cube_root(size, form)), x)


def _any_cube_root(size: Expr, form: Format) -> Expr:
    subnormal = size < form.smallest_normal
    lift = form.pick(24, 54)
    lifted = _cube_root(size * 2.0**lift, form) * 2.0 ** -(lift // 3)
    return build.select(subnormal & (size > 0.0), lifted, size)


def _cube_root(x: Expr, form: Format) -> Expr:
    """x * r**2, where r approaches x**(-1/3), and a step of Newton's method that squares its error."""
    r = _improved(x, _rough_inverse_cube_root(x, form), 3)
    if form.is_double:
        r = _improved(x, r, 2)
    root = (x * r) * r
    square = two_product(root, root)
    residual = fma(-square.low, root, fma(-square.high, root, x))
    return fma(residual * (r * r), 1 / 3, root)


def _rough_inverse_cube_root(x: Expr, form: Format) -> Expr:
    """x**(-1/3) to 3.6%: minus a third of the upper bits of x, taken for a logarithm with ten bits after its point."""
    dropped = form.mantissa - 10
    logarithm = build.cast(to_bits(x, form) >> dropped, form.dtype)
    offset = round(form.bias * 4 / 3 * 1024 - 73)
    return from_bits(to_bits(fma(logarithm, -1 / 3, form.rounder + offset), form) << dropped, form)


def _improved(x: Expr, r: Expr, terms: int) -> Expr:
    """r * (1 - e)**(-1/3) by the first terms of its series, where e = 1 - x * r**3 tells how far off r is."""
    e = fma(-(x * r), r * r, 1.0)
    return fma(r * e, horner(e, (1 / 3, 2 / 9, 14 / 81)[:terms]), r)


def hypot(x: Expr, y: Expr) -> Expr:
    """sqrt(x**2 + y**2), scaled by a power of two where a square would leave the range of numbers."""
    form = format_of(x)
    a, b = magnitude(x), magnitude(y)
    largest = build.maximum(a, b)
    edge = 2.0 ** (form.bias // 2 - form.mantissa // 2)
    shrink, grow = 2.0 ** -(form.bias // 2 + 2), 2.0 ** (form.bias // 2 + form.mantissa)
    large, small = edge < largest, largest < 1.0 / edge
    factor = build.select(large, shrink, build.select(small, constant(grow, form), 1.0))
    back = build.select(large, 1.0 / shrink, build.select(small, constant(1.0 / grow, form), 1.0))
    a_scaled, b_scaled = a * factor, b * factor
    root = square_root(fma(a_scaled, a_scaled, b_scaled * b_scaled)) * back
    infinite = build.compare("eq", a, math.inf) | build.compare("eq", b, math.inf)
    return build.select(infinite, math.inf, root)


def power(x: Expr, y: Expr) -> Expr:
    """x**y = e**(y * ln x), with the logarithm in two words. What is not a positive x of normal size, and a result that
    is none, take a branch.
    """
    form = format_of(x)
    scaled = _times(_natural_log(decompose(to_bits(x, form), form), form), y)
    reduced = _reduce(scaled, form, 0)
    usual = raised(exp_polynomial(reduced.r, form), reduced.shifted, form)
    outside = ~(magnitude(scaled.high) < form.pick(*EXP_NORMAL))  # also NaN
    return build.select(build.unlikely(is_unusual(x, form) | outside), _any_power(x, y, form), usual)


def _any_power(x: Expr, y: Expr, form: Format) -> Expr:
    """x**y for all operands; negative x for integers y."""
    size = magnitude(x)
    # also for x = -1 and infinite y; a NaN in y comes out below, where it is no integer
    is_one = build.compare("eq", size, 1.0) | build.compare("eq", y, 0.0)
    is_integer = build.compare("eq", build.call("rint", y), y)
    half = y * 0.5
    is_odd = is_integer & build.compare("ne", build.call("rint", half), half)
    sign = to_bits(build.select(is_odd, x, 0.0), form) & form.sign_bit
    positive = build.select(is_one, 1.0, _positive_power(size, y, form))
    result = from_bits(to_bits(positive, form) ^ sign, form)
    undefined = ((-math.inf < x) & (x < 0.0)) & ~is_integer
    return build.select(undefined, math.nan, result)


def _positive_power(size: Expr, y: Expr, form: Format) -> Expr:
    """size**y for size >= 0, the result rounded once where it is subnormal."""
    logarithm = _natural_log(decompose_any(size, form), form)
    end = build.select(build.compare("eq", size, 0.0), -math.inf, size)
    proper = (size > 0.0) & (size < math.inf)
    scaled = _times(DoubleWord(build.select(proper, logarithm.high, end), logarithm.low), y)
    reduced = _reduce(scaled, form, 2 * form.bias)
    result = scale(exp_polynomial(reduced.r, form), to_bits(reduced.shifted, form), form)
    lowest, highest = form.pick((-105.0, 90.0), (-747.0, 711.0))
    high = scaled.high
    return build.select(high < lowest, 0.0, build.select(high > highest, math.inf, result))


def _times(logarithm: DoubleWord, y: Expr) -> DoubleWord:
    product = two_product(y, logarithm.high)
    return DoubleWord(product.high, fma(y, logarithm.low, product.low))


def _reduce(x: DoubleWord, form: Format, bias: int) -> Reduced:
    """n and r of a number of two words, the bias added to n."""
    rounder = form.rounder + bias
    shifted = fma(x.high + x.low, LOG2_E.near(form), rounder)
    n = shifted - rounder
    high, low = LN2.pair(form)
    return Reduced(shifted, fma(n, -high, x.high) + fma(n, -low, x.low))


def _natural_log(parts: Decomposed, form: Format) -> DoubleWord:
    """ln x = k ln 2 + ln(1 / c) + ln(1 + r), where r = m * c - 1 and the leading words of the first two terms add up
    without rounding. Of the series of the third, r - r**2 / 2 counts in two words. The words may overlap by many bits.
    """
    table = form.pick(LN_WORDS_32, LN_WORDS_64)
    of_two = LN2.ending_at(form.pick(*LAST_BIT), form)
    r = fma(parts.m, picked(table.reciprocals, parts.place, form), -1.0)
    square = two_product(r, r)
    whole = fma(parts.scaled, -of_two[0] * form.epsilon, picked(table.logarithms, parts.place, form))
    rest = fma(parts.scaled, -of_two[1] * form.epsilon, picked(table.rests, parts.place, form))
    first = fast_two_sum(whole, r)
    high = fma(square.high, -0.5, first.high)
    second_low = fma(square.high, -0.5, first.high - high)
    low = (first.low + second_low) + fma(square.low, -0.5, rest)
    return DoubleWord(high, fma(r * square.high, horner(r, form.pick(LOG_CUBIC_32, LOG_CUBIC_64)), low))
