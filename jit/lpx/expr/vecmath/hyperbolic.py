"""tanh, sinh, cosh and their inverses."""

from __future__ import annotations

import math

from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.expr.vecmath.constants import HALF_LN2, LOG2_E
from lpx.expr.vecmath.exponential import EXP_64, reduce
from lpx.expr.vecmath.formats import Format, format_of
from lpx.expr.vecmath.logarithm import log1p_of
from lpx.expr.vecmath.operations import (
    fma,
    from_bits,
    magnitude,
    power_of_two,
    square_root,
    to_bits,
    with_sign,
)
from lpx.expr.vecmath.polynomial import horner
from lpx.expr.vecmath.tanh_table import LAST, PIECE_BIT, TANH_COEFFICIENTS, TANH_EDGES
from lpx.records import record

# (tanh(x) / x - 1) / x**2 as a polynomial in x**2 on |x| <= TANH_NEAR, least error relative to tanh(x) / x
TANH_NEAR = 0.55
TANH_64 = (
    -0.333333333333333, 0.13333333333326583, -0.05396825396373931, 0.021869488385258682, -0.008863232591837302,
    0.0035920919352974614, -0.0014555422463055035, 0.000588442079553028, -0.00023337560744697398, 8.330816303004519e-05,
    -1.9489739330007608e-05,
)  # fmt: skip

# (sinh(r) / r - 1) / r**2 as a polynomial in r**2 on |r| <= ln(2) / 2, least error relative to r
SINH_32 = (0.1666666716337204, 0.00833317544311285, 0.000199740708922036)
SINH_64 = (
    0.16666666666666677, 0.008333333333321386, 0.0001984126988681578, 2.7557243451586474e-06, 2.5109321294455797e-08,
)  # fmt: skip
# (cosh(r) - 1 - r**2 / 2) / r**4, least absolute error of cosh(r)
COSH_32 = (0.041666459292173386, 0.0013935437891632318)
COSH_64 = (
    0.041666666666666685, 0.0013888888888873283, 2.4801587349202496e-05, 2.755725181969329e-07, 2.0921769613479436e-09,
)  # fmt: skip


def sinh(x: Expr) -> Expr:
    """sinh(n ln 2 + r) = cosh(r) sinh(n ln 2) + sinh(r) cosh(n ln 2); for n = 0 that is sinh(r), so nothing cancels."""
    form = format_of(x)
    size = magnitude(x)
    parts = _hyperbolic_parts(size, form)
    sinh_n, cosh_n = parts.rising - parts.falling, parts.rising + parts.falling
    half = fma(parts.cosh_minus_1, sinh_n, fma(parts.sinh, cosh_n, sinh_n))
    return build.select(size < form.pick(2.0**-13, 2.0**-28), x, with_sign(half + half, x))


def cosh(x: Expr) -> Expr:
    """cosh(n ln 2 + r) = cosh(r) cosh(n ln 2) + sinh(r) sinh(n ln 2)."""
    form = format_of(x)
    parts = _hyperbolic_parts(magnitude(x), form)
    sinh_n, cosh_n = parts.rising - parts.falling, parts.rising + parts.falling
    half = fma(parts.cosh_minus_1, cosh_n, fma(parts.sinh, sinh_n, cosh_n))
    return half + half


@record
class _HyperbolicParts:
    """cosh(r) - 1, sinh(r), and 2**n / 4 and 2**-n / 4: quarters, so that 2**n / 4 is finite where the result is."""

    cosh_minus_1: Expr
    sinh: Expr
    rising: Expr
    falling: Expr


def _hyperbolic_parts(size: Expr, form: Format) -> _HyperbolicParts:
    reduced = reduce(build.minimum(size, form.pick(89.7, 710.8)), form, form.bias - 2)
    r = reduced.r
    square = r * r
    cosh_minus_1 = square * horner(square, (0.5, *form.pick(COSH_32, COSH_64)))
    sinh_r = fma(r * square, horner(square, form.pick(SINH_32, SINH_64)), r)
    rising = to_bits(reduced.shifted, form) << form.mantissa
    falling = build.maximum(((2 * form.bias - 4) << form.mantissa) - rising, 0)
    return _HyperbolicParts(cosh_minus_1, sinh_r, from_bits(rising, form), from_bits(falling, form))


def asinh(x: Expr) -> Expr:
    """log(|x| + sqrt(x**2 + 1)) = log1p(|x| + x**2 / (1 + sqrt(x**2 + 1))), or log(2 * |x|) where the 1 is lost."""
    form = format_of(x)
    size = magnitude(x)
    large = size > 1 / form.epsilon
    square = size * size
    grown = fma(square, 1.0 / (1.0 + square_root(square + 1.0)), size)
    result = log1p_of(build.select(large, size, grown), form, doubled=large)
    return with_sign(result, x)


def acosh(x: Expr) -> Expr:
    """log1p(t + sqrt(2 * t + t**2)) with t = x - 1, or log(2 * x) where the 1 is lost; NaN for x < 1."""
    form = format_of(x)
    t = x - 1.0
    large = x > 1 / form.epsilon
    grown = t + square_root(fma(t, t, t + t))
    return build.select(x < 1.0, math.nan, log1p_of(build.select(large, x, grown), form, doubled=large))


def atanh(x: Expr) -> Expr:
    """log1p(2 * |x| / (1 - |x|)) / 2; infinite at 1 and NaN beyond."""
    form = format_of(x)
    size = magnitude(x)
    return with_sign(log1p_of((size + size) / (1.0 - size), form) * 0.5, x)


def tanh(x: Expr) -> Expr:
    """In float32 a polynomial for each of seven pieces; in float64 a polynomial near zero, 1 - 2 / (e**2x + 1) further
    out.
    """
    form = format_of(x)
    return with_sign(_tanh_double(x, form) if form.is_double else _tanh_single(magnitude(x), form), x)


def _tanh_single(size: Expr, form: Format) -> Expr:
    inside = build.select(size > LAST, LAST, size)  # NaN stays NaN
    piece = to_bits(1.0 + inside, form) >> PIECE_BIT
    t = inside - build.lookup(TANH_EDGES, piece, form.dtype)
    return horner(t, [build.lookup(power, piece, form.dtype) for power in TANH_COEFFICIENTS])


def _tanh_double(x: Expr, form: Format) -> Expr:
    """|tanh(x)|. Further out, an error of e**2x counts less than half, so the reduction 2 * x = n * ln 2 + 2 * r makes
    do with one word of ln 2.
    """
    size = magnitude(x)
    square = x * x
    near = fma(size * square, horner(square, TANH_64), size)
    inside = build.minimum(size, 20.0)  # beyond, the result rounds to 1
    rounder = form.rounder + form.bias
    shifted = fma(inside, 2 * LOG2_E.near(form), rounder)
    r = fma(shifted - rounder, -HALF_LN2.near(form), inside)
    doubled = [c * 2.0**i for i, c in enumerate((1.0, 1.0, *EXP_64))]
    denominator = fma(horner(r, doubled), power_of_two(shifted, form), 1.0)
    return build.select(size < TANH_NEAR, near, 1.0 - 2.0 / denominator)
