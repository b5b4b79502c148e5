"""rsqrt, cbrt, hypot and pow."""

from __future__ import annotations

import math

from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.expr.vecmath.constants import TWO_LOG2_E, TWO_THIRDS_LOG2_E
from lpx.expr.vecmath.double_word import DoubleWord, fast_two_sum, times, two_product
from lpx.expr.vecmath.exponential import EXP2_32, EXP2_64, scale
from lpx.expr.vecmath.formats import Format, format_of
from lpx.expr.vecmath.logarithm import HALF_SQRT2, decompose
from lpx.expr.vecmath.operations import constant, fma, from_bits, magnitude, square_root, to_bits, with_sign
from lpx.expr.vecmath.polynomial import horner

# with A = 2 / ln 2: (A * atanh(s) / s - A) / s**2 as a polynomial in s**2 on |s| <= (sqrt(2) - 1) / (sqrt(2) + 1)
ATANH_32 = (0.9617967009544373, 0.5770788788795471, 0.4119214415550232, 0.3366260826587677)
# the same without its first term A / 3, divided by s**2
ATANH_64 = (
    0.5770780163555851, 0.41219858311134616, 0.3205988979126029, 0.26230819868669425, 0.22195226805354207,
    0.19240142145285757, 0.16844932417482564, 0.1728367822548474,
)  # fmt: skip


def rsqrt(x: Expr) -> Expr:
    """1 / sqrt(x)."""
    return 1.0 / square_root(x)


def cbrt(x: Expr) -> Expr:
    """The cube root: x * r**2, where r approaches x**(-1/3), and a step of Newton's method that squares its error."""
    form = format_of(x)
    size = magnitude(x)
    subnormal = size < form.smallest_normal
    lift = form.pick(24, 54)
    scaled = build.select(subnormal, size * 2.0**lift, size)
    r = _improved(scaled, _rough_inverse_cube_root(scaled, form), 3)
    if form.is_double:
        r = _improved(scaled, r, 2)
    root = (scaled * r) * r
    square = two_product(root, root)
    residual = fma(-square.low, root, fma(-square.high, root, scaled))
    root = fma(residual * (r * r), 1 / 3, root)
    proper = (size > 0.0) & (size < math.inf)
    return with_sign(build.select(proper, build.select(subnormal, root * 2.0 ** -(lift // 3), root), size), x)


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
    """x**y = 2**(y * log2 |x|), with the logarithm in two words; negative x for integers y."""
    form = format_of(x)
    size = magnitude(x)
    positive = _positive_power(size, y, form)
    # also for x = -1 and infinite y; a NaN in y comes out below, where it is no integer
    is_one = build.compare("eq", size, 1.0) | build.compare("eq", y, 0.0)
    is_integer = build.compare("eq", build.call("rint", y), y)
    half = y * 0.5
    is_odd = is_integer & build.compare("ne", build.call("rint", half), half)
    sign = to_bits(build.select(is_odd, x, 0.0), form) & form.sign_bit
    result = from_bits(to_bits(build.select(is_one, 1.0, positive), form) ^ sign, form)
    undefined = ((-math.inf < x) & (x < 0.0)) & ~is_integer
    return build.select(undefined, math.nan, result)


def _positive_power(size: Expr, y: Expr, form: Format) -> Expr:
    logarithm = _log2(size, form)
    high = y * logarithm.high
    low = fma(y, logarithm.low, fma(y, logarithm.high, -high))
    rounder = form.rounder + 2 * form.bias
    shifted = (high + low) + rounder
    r = (high - (shifted - rounder)) + low
    result = scale(horner(r, (1.0, *form.pick(EXP2_32, EXP2_64))), to_bits(shifted, form), form)
    lowest, highest = form.pick((-152.0, 130.0), (-1077.0, 1026.0))
    return build.select(high < lowest, 0.0, build.select(high > highest, math.inf, result))


def _log2(x: Expr, form: Format) -> DoubleWord:
    """log2(x) for x >= 0: k + A * atanh(s), where s = f / (2 + f) and A = 2 / ln 2; -inf at 0, inf and NaN as they are.

    The words may overlap by a few bits.
    """
    parts = decompose(x, form, HALF_SQRT2)
    f = parts.f
    divisor = f + 2.0
    inverse = 1.0 / divisor
    s = f * inverse
    rest = fma(-s, f - (divisor - 2.0), fma(-s, divisor, f)) * inverse
    leading = times(DoubleWord(s, rest), TWO_LOG2_E.pair(form))
    tail = _tail_double(s, rest, form) if form.is_double else _tail_single(s, rest)
    mantissa = fast_two_sum(leading.high, tail.high)
    total = fma(parts.scaled, -form.epsilon, mantissa.high)
    lost = mantissa.high - fma(parts.scaled, form.epsilon, total)
    low = lost + (mantissa.low + (leading.low + tail.low))
    high = build.select(build.compare("eq", x, 0.0), -math.inf, build.select(x < math.inf, total, x))
    return DoubleWord(high, low)


def _tail_single(s: Expr, rest: Expr) -> DoubleWord:
    """A * (atanh(s + rest) - s - rest), at most 1% of A * s: one word is enough but for the effect of `rest`."""
    square = s * s
    factor = horner(square, ATANH_32)
    cube = two_product(square, s)
    product = cube.high * factor
    return DoubleWord(product, fma(square, rest * 3.0, cube.low) * factor)


def _tail_double(s: Expr, rest: Expr, form: Format) -> DoubleWord:
    product = two_product(s, s)
    square = DoubleWord(product.high, fma(s + s, rest, product.low))
    first, second = TWO_THIRDS_LOG2_E.pair(form)
    factor = fast_two_sum(first, square.high * horner(square.high, ATANH_64))
    factor = DoubleWord(factor.high, factor.low + second)
    cubic = times(square, (factor.high, factor.low))
    return times(cubic, (s, rest))
