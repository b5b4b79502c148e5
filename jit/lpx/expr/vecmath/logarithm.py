"""log, log2, log10 and log1p: x = 2**k * m with 2/3 <= m < 4/3, log x = k * log 2 + log m.

The interval contains 1, so nothing cancels near x = 1, and of all intervals [a, 2 a) it needs the lowest degree. A
table of reciprocals c shortens it: log m = log(1 / c) + log(1 + r) with r = m * c - 1, |r| < 0.0303; P.-T. P. Tang,
"Table-driven implementation of the logarithm function in IEEE floating-point arithmetic", 1990. Around m = 1, c is 1.
The natural logarithm of float32 numbers does without, since its bound leaves no room for the rounding of r.

Numbers that are not positive, normal and finite take a branch of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.expr.vecmath.constants import LN2, LOG2_E, LOG10_2, LOG10_E, Constant
from lpx.expr.vecmath.formats import Format, format_of
from lpx.expr.vecmath.logarithm_tables import ENTRY_BITS, LN_64, LOG2_32, LOG2_64, LOG10_32, LOG10_64, LogTable
from lpx.expr.vecmath.operations import constant, fma, from_bits, to_bits
from lpx.expr.vecmath.polynomial import horner
from lpx.records import record

# (log(1 + f) - f + f**2 / 2) / f**3 on |f| <= 1/3, least error relative to log(1 + f)
LOG_32 = (
    0.33333197236061096, -0.24999919533729553, 0.20011430978775024, -0.1667446345090866, 0.1398986130952835,
    -0.12272960692644119, 0.14058908820152283, -0.12492392212152481,
)  # fmt: skip
# (log(1 + r) - r) / r**2 on |r| <= 0.0303, least error relative to log(1 + r)
SHORT_LOG_32 = (-0.4999999701976776, 0.333333283662796, -0.2501911520957947, 0.20018555223941803)
SHORT_LOG_64 = (
    -0.4999999999999975, 0.3333333333333283, -0.25000000003625805, 0.2000000000503041, -0.16666652436365453,
    0.14285698164933935, -0.12520671928822696, 0.11131682488211345,
)  # fmt: skip


@record
class Decomposed:
    """x = 2**k * m. `scaled` is -k * 2**mantissa as a float; from bit mantissa - ENTRY_BITS of the integer `place` on
    stands the number of m's entry in a table.

    The sign makes zero times a constant come out as -0, which changes no sum, so log1p(-0) is -0.
    """

    scaled: Expr
    place: Expr
    m: Expr


@record
class _Base:
    """What a logarithm to base b needs: its tables for both formats, log 2, and log e (None: that is 1)."""

    tables: tuple[LogTable, LogTable]
    of_two: Constant
    of_e: Constant | None


def log(x: Expr) -> Expr:
    """The natural logarithm."""
    form = format_of(x)
    return _of_any(x, lambda parts: _total(parts, _E, form) if form.is_double else _natural_single(parts, form))


def log2(x: Expr) -> Expr:
    """The logarithm to base 2."""
    form = format_of(x)
    return _of_any(x, lambda parts: _total(parts, _TWO, form))


def log10(x: Expr) -> Expr:
    """The logarithm to base 10."""
    form = format_of(x)
    return _of_any(x, lambda parts: _total(parts, _TEN, form))


def _of_any(x: Expr, of_positive: Callable[[Decomposed], Expr]) -> Expr:
    """A logarithm by the parts of x."""
    form = format_of(x)
    rare = with_special_values(x, of_positive(decompose_any(x, form)))
    return build.select(build.unlikely(is_unusual(x, form)), rare, of_positive(decompose(to_bits(x, form), form)))


def log1p(x: Expr) -> Expr:
    """log(1 + x)."""
    return log1p_of(x, format_of(x))


def log1p_of(x: Expr, form: Format, doubled: Expr | None = None) -> Expr:
    """log(1 + x), plus log(2) where `doubled` is true.

    k is that of the rounded 1 + x, and m - 1 = 2**-k * x - (1 - 2**-k) loses nothing near x = 0.
    """
    total = 1.0 + x
    place = _place(to_bits(total, form), form)
    minus_k = place & form.exponent_mask
    quarter = form.bits_of(2)  # 4 * 2**-k, which is a normal number where 2**-k is none
    shrunk = from_bits(to_bits(x, form) + minus_k, form)
    f = shrunk - fma(from_bits(minus_k + quarter, form), -0.25, 1.0)  # -0 - 0 is -0
    scaled = build.cast(minus_k, form.dtype)
    if doubled is not None:
        scaled = build.select(doubled, scaled - 2.0**form.mantissa, scaled)
    usual = _of_difference(scaled, place, f, form) if form.is_double else _natural(scaled, f, form)
    return build.select(build.unlikely(is_unusual(total, form)), with_special_values(total, usual), usual)


TWO_THIRDS = (0x3F2AAAAB, 0x3FE5555555555555)
"""Bits of the lower end of the interval of m."""


def is_unusual(x: Expr, form: Format) -> Expr:
    """Whether x is not a positive, finite number of normal size, by its bits as an unsigned integer."""
    smallest, infinity = form.bits_of(1 - form.bias), form.bits_of(form.bias + 1)
    above = build.bitcast(to_bits(x, form) - smallest, form.unsigned)
    return above >= infinity - smallest


def decompose(bits: Expr, form: Format) -> Decomposed:
    """The parts of the positive number of normal size that has these bits."""
    place = _place(bits, form)
    minus_k = place & form.exponent_mask
    return Decomposed(build.cast(minus_k, form.dtype), place, from_bits(bits + minus_k, form))


def decompose_any(x: Expr, form: Format) -> Decomposed:
    """The parts of a positive finite number."""
    subnormal = x < form.smallest_normal
    lift = form.mantissa
    parts = decompose(to_bits(build.select(subnormal, x * 2.0**lift, x), form), form)
    scaled = build.select(subnormal, parts.scaled + lift * 2.0**lift, parts.scaled)
    return Decomposed(scaled, parts.place, parts.m)


def with_special_values(x: Expr, result: Expr) -> Expr:
    """The logarithm at 0 (-inf), below (NaN), at +inf and NaN (as they are), `result` elsewhere."""
    form = format_of(x)
    outside = build.select(build.compare("eq", x, 0.0), constant(-math.inf, form), math.nan)
    positive = build.select(x <= 0.0, outside, result)
    return build.select(x < math.inf, positive, x)


def _place(bits: Expr, form: Format) -> Expr:
    """How far the bits are below the upper end of the interval: the exponent of that is -k, added to the bits it brings
    them into the interval.
    """
    return (form.pick(*TWO_THIRDS) + (1 << form.mantissa) - 1) - bits


def picked(entries: tuple[float, ...], place: Expr, form: Format) -> Expr:
    """The entry of a table that belongs to `Decomposed.place`."""
    return build.lookup(entries, place >> (form.mantissa - ENTRY_BITS), form.dtype)


_E = _Base((LN_64, LN_64), LN2, None)
_TWO = _Base((LOG2_32, LOG2_64), Constant("1"), LOG2_E)
_TEN = _Base((LOG10_32, LOG10_64), LOG10_2, LOG10_E)


def _total(parts: Decomposed, base: _Base, form: Format) -> Expr:
    """The logarithm of x."""
    table = form.pick(*base.tables)
    r = fma(parts.m, picked(table.reciprocals, parts.place, form), -1.0)
    of_two, of_two_low = base.of_two.pair(form)
    whole = fma(parts.scaled, -of_two * form.epsilon, picked(table.logarithms, parts.place, form))
    if base.of_e is None:
        return whole + _log1p(r, form)
    high, low = base.of_e.pair(form)  # r * high is the only term whose constant needs two words
    small = r * horner(r, [low, *(c * high for c in form.pick(SHORT_LOG_32, SHORT_LOG_64))])
    if of_two_low:
        small = fma(parts.scaled, -of_two_low * form.epsilon, small)
    return whole + fma(r, high, small)


def _of_difference(scaled: Expr, place: Expr, f: Expr, form: Format) -> Expr:
    """The natural logarithm for m = 1 + f, all bits of f counting."""
    reciprocal = picked(LN_64.reciprocals, place, form)
    r = fma(f, reciprocal, -(1.0 - reciprocal))  # -0 - 0 is -0
    whole = fma(scaled, -LN2.near(form) * form.epsilon, picked(LN_64.logarithms, place, form))
    return whole + _log1p(r, form)


def _log1p(r: Expr, form: Format) -> Expr:
    """log(1 + r) for small r."""
    return fma(r * r, horner(r, form.pick(SHORT_LOG_32, SHORT_LOG_64)), r)


def _natural_single(parts: Decomposed, form: Format) -> Expr:
    return _natural(parts.scaled, parts.m - 1.0, form)


def _natural(scaled: Expr, f: Expr, form: Format) -> Expr:
    """The natural logarithm of a float32 number with m = 1 + f. One word of ln 2 is exact to 0.03 ulp."""
    small = fma(f * f, horner(f, (-0.5, *LOG_32)), f)
    return fma(scaled, -LN2.near(form) * form.epsilon, small)
