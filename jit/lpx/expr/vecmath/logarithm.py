"""log, log2, log10 and log1p: x = 2**k * (1 + f) with |f| <= 1/3, log x = k * log 2 + log(1 + f).

The interval [2/3, 4/3] of 1 + f contains 1, so nothing cancels near x = 1, and it needs the lowest degree of all
intervals [a, 2 a].
"""

from __future__ import annotations

import math

from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.expr.vecmath.constants import LN2, LOG2_E, LOG10_2, LOG10_E, Constant
from lpx.expr.vecmath.formats import Format, format_of
from lpx.expr.vecmath.operations import constant, fma, from_bits, to_bits
from lpx.expr.vecmath.polynomial import horner
from lpx.records import record

# (log(1 + f) - f + f**2 / 2) / f**3 on |f| <= 1/3, least error relative to log(1 + f)
LOG_32 = (
    0.33333197236061096, -0.24999919533729553, 0.20011430978775024, -0.1667446345090866, 0.1398986130952835,
    -0.12272960692644119, 0.14058908820152283, -0.12492392212152481,
)  # fmt: skip
LOG_64 = (
    0.3333333333333317, -0.24999999999999425, 0.20000000000073362, -0.16666666666849408, 0.14285714274483371,
    -0.1249999997777674, 0.11111111954696337, -0.10000001413000191, 0.09090872912901937, -0.08333279996152915,
    0.07693261559173128, -0.07144127511659558, 0.06650708946434407, -0.06230448227414153, 0.06051413246841705,
    -0.05748644981772252, 0.04176700439064783, -0.038322082229489615, 0.08497717392855643, -0.08346832233475876,
)  # fmt: skip


@record
class Decomposed:
    """x = 2**k * (1 + f), exactly but for the rounding of f. `scaled` is -k * 2**mantissa as a float.

    The sign makes zero times a constant come out as -0, which changes no sum, so log1p(-0) is -0.
    """

    scaled: Expr
    f: Expr


def log(x: Expr) -> Expr:
    """The natural logarithm."""
    form = format_of(x)
    parts = decompose(x, form)
    return with_special_values(x, _natural(parts, form))


def log2(x: Expr) -> Expr:
    """The logarithm to base 2."""
    form = format_of(x)
    parts = decompose(x, form)
    return with_special_values(x, fma(parts.scaled, -form.epsilon, _times_constant(parts.f, LOG2_E, form)))


def log10(x: Expr) -> Expr:
    """The logarithm to base 10."""
    form = format_of(x)
    parts = decompose(x, form)
    high, low = _log2_words(LOG10_2, form)
    small = fma(parts.scaled, low, _times_constant(parts.f, LOG10_E, form))
    return with_special_values(x, fma(parts.scaled, high, small))


def log1p(x: Expr) -> Expr:
    """log(1 + x)."""
    return log1p_of(x, format_of(x))


def log1p_of(x: Expr, form: Format, doubled: Expr | None = None) -> Expr:
    """log(1 + x), plus log(2) where `doubled` is true.

    k is that of the rounded 1 + x, and f = 2**-k * x - (1 - 2**-k) loses nothing near x = 0.
    """
    total = 1.0 + x
    minus_k = _minus_exponent(to_bits(total, form), form)
    quarter = form.bits_of(2)  # 4 * 2**-k, which is a normal number where 2**-k is none
    shrunk = from_bits(to_bits(x, form) + minus_k, form)
    f = shrunk - fma(from_bits(minus_k + quarter, form), -0.25, 1.0)  # -0 - 0 is -0
    scaled = build.cast(minus_k, form.dtype)
    if doubled is not None:
        scaled = build.select(doubled, scaled - 2.0**form.mantissa, scaled)
    return with_special_values(total, _natural(Decomposed(scaled, f), form))


TWO_THIRDS = (0x3F2AAAAB, 0x3FE5555555555555)
HALF_SQRT2 = (0x3F3504F3, 0x3FE6A09E667F3BCD)
"""Bits of the lower end of an interval [a, 2 * a) that contains 1."""


def decompose(x: Expr, form: Format, lowest: tuple[int, int] = TWO_THIRDS) -> Decomposed:
    """k and f of a positive finite x, with 1 + f in the interval that starts at `lowest`."""
    subnormal = x < form.smallest_normal
    lift = form.mantissa
    bits = to_bits(build.select(subnormal, x * 2.0**lift, x), form)
    minus_k = _minus_exponent(bits, form, lowest)
    f = from_bits(bits + minus_k, form) - 1.0
    scaled = build.cast(minus_k, form.dtype)
    return Decomposed(build.select(subnormal, scaled + lift * 2.0**lift, scaled), f)


def with_special_values(x: Expr, result: Expr) -> Expr:
    """The logarithm at 0 (-inf), below (NaN), at +inf and NaN (as they are), `result` elsewhere."""
    form = format_of(x)
    outside = build.select(build.compare("eq", x, 0.0), constant(-math.inf, form), math.nan)
    positive = build.select(x <= 0.0, outside, result)
    return build.select(x < math.inf, positive, x)


def _minus_exponent(bits: Expr, form: Format, lowest: tuple[int, int] = TWO_THIRDS) -> Expr:
    """-k in the place of the exponent, all other bits zero: what to add to the bits to bring them into the interval."""
    return ((form.pick(*lowest) + (1 << form.mantissa) - 1) - bits) & form.exponent_mask


def _log2_words(number: Constant, form: Format) -> tuple[float, float]:
    """-number * 2**-mantissa in two words: the factor of `Decomposed.scaled`."""
    high, low = number.pair(form)
    return -high * form.epsilon, -low * form.epsilon


def _natural(parts: Decomposed, form: Format) -> Expr:
    """The natural logarithm. In float32 one word of ln 2 is exact to 0.03 ulp."""
    f, scaled = parts.f, parts.scaled
    tail = horner(f, (-0.5, *form.pick(LOG_32, LOG_64)))
    small = fma(f * f, tail, f)
    high, low = _log2_words(LN2, form)
    return fma(scaled, high, fma(scaled, low, small) if form.is_double else small)


def _times_constant(f: Expr, number: Constant, form: Format) -> Expr:
    """log(1 + f) * number; the leading term f * number is the only one whose constant needs two words."""
    high, low = number.pair(form)
    tail = horner(f, [c * high for c in (-0.5, *form.pick(LOG_32, LOG_64))])
    return fma(f, high, f * fma(f, tail, low))
