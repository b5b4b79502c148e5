"""exp, exp2, expm1 and sigmoid: e**x = 2**n * e**r with n = rint(x / ln 2) and |r| <= ln(2) / 2.

n comes out of adding a large constant, which rounds and leaves n in the lowest bits, as in W. J. Cody and W. Waite,
"Software Manual for the Elementary Functions", 1980; a bias added to the constant saves work on 2**n later.
"""

from __future__ import annotations

from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.expr.vecmath.constants import LN2, LOG2_E
from lpx.expr.vecmath.formats import Format, format_of
from lpx.expr.vecmath.operations import clamp, fma, from_bits, magnitude, power_of_two, to_bits
from lpx.expr.vecmath.polynomial import horner
from lpx.records import record

# (e**r - 1 - r) / r**2 on |r| <= ln(2) / 2, least error relative to e**r
EXP_32 = (0.4999999403953552, 0.16666516661643982, 0.041668105870485306, 0.008369206450879574, 0.001383872819133103)
EXP_64 = (
    0.5000000000000011, 0.1666666666666643, 0.04166666666652563, 0.008333333333479529, 0.0013888888944939284,
    0.00019841269547156922, 2.4801491633989587e-05, 2.755754288349522e-06, 2.763080543036532e-07,
    2.5016081475493644e-08,
)  # fmt: skip
# the same, least error relative to e**r - 1
EXPM1_32 = (0.4999999701976776, 0.16666539013385773, 0.04166774824261665, 0.008367082104086876, 0.0013838219456374645)
EXPM1_64 = (
    0.5, 0.16666666666666677, 0.041666666666666685, 0.00833333333332179, 0.0013888888888893673, 0.00019841269885370887,
    2.4801587279119322e-05, 2.7557245107589592e-06, 2.755732929593461e-07, 2.510870801341586e-08,
    2.0894028600438184e-09,
)  # fmt: skip
# (2**r - 1) / r on |r| <= 1 / 2, least error relative to 2**r
EXP2_32 = (
    0.6931471824645996, 0.24022594094276428, 0.055503662675619125, 0.009625433012843132, 0.0013387901708483696,
    0.00013338822463992983,
)  # fmt: skip
EXP2_64 = (
    0.6931471805599453, 0.24022650695910172, 0.05550410866482457, 0.009618129107577126, 0.0013333558145573162,
    0.00015403530478692707, 1.5252734727622678e-05, 1.3215424616985908e-06, 1.017766280229802e-07,
    7.075583944138704e-09, 4.517898436748663e-10,
)  # fmt: skip


@record
class Reduced:
    """x = n * ln 2 + r (or n + r for exp2); the lowest bits of the float `shifted` hold n plus a bias."""

    shifted: Expr
    r: Expr


def exp(x: Expr) -> Expr:
    """e**x. In float32 without a branch: exponentials of such numbers, as those of a softmax, often underflow."""
    form = format_of(x)
    if not form.is_double:
        return _any_exp(x, form)
    reduced = reduce(x, form, 0)
    usual = raised(exp_polynomial(reduced.r, form), reduced.shifted, form)
    return build.select(_is_outside(x, EXP_NORMAL, form), _any_exp(x, form), usual)


def exp2(x: Expr) -> Expr:
    """2**x."""
    form = format_of(x)
    shifted = x + form.rounder
    usual = raised(_exp2_polynomial(x - (shifted - form.rounder), form), shifted, form)
    return build.select(_is_outside(x, EXP2_NORMAL, form), _any_exp2(x, form), usual)


EXP_NORMAL, EXP2_NORMAL = (87.0, 708.0), (126.0, 1022.0)
"""e**x and 2**x are normal numbers for x closer to zero than these."""


def _is_outside(x: Expr, normal: tuple[float, float], form: Format) -> Expr:
    """Whether |x| is at or past a limit, or NaN, which is unlikely."""
    return build.unlikely(~(magnitude(x) < form.pick(*normal)))


def _any_exp(x: Expr, form: Format) -> Expr:
    """e**x for all x. At the lower end of the clamped range `scale` multiplies by 0, so that numbers far below, such as
    -inf, do not underflow by multiplication, which takes processors a hundred times as long.
    """
    reduced = reduce(clamp(x, *form.pick((-176.0, 89.0), (-1418.2, 710.0))), form, 2 * form.bias)
    return scale(exp_polynomial(reduced.r, form), to_bits(reduced.shifted, form), form)


def _any_exp2(x: Expr, form: Format) -> Expr:
    """2**x for all x."""
    clamped = clamp(x, *form.pick((-254.0, 129.0), (-2046.0, 1025.0)))
    rounder = form.rounder + 2 * form.bias
    shifted = clamped + rounder
    return scale(_exp2_polynomial(clamped - (shifted - rounder), form), to_bits(shifted, form), form)


def exp_polynomial(r: Expr, form: Format) -> Expr:
    """e**r for |r| <= ln(2) / 2."""
    return horner(r, (1.0, 1.0, *form.pick(EXP_32, EXP_64)))


def _exp2_polynomial(r: Expr, form: Format) -> Expr:
    """2**r for |r| <= 1 / 2."""
    return horner(r, (1.0, *form.pick(EXP2_32, EXP2_64)))


def expm1(x: Expr) -> Expr:
    """e**x - 1 = 2 * (2**(n-1) * (e**r - 1) + (2**(n-1) - 1/2)); half of 2**n, since 2**n itself may overflow."""
    form = format_of(x)
    reduced = reduce(clamp(x, *form.pick((-18.0, 89.0), (-39.0, 710.0))), form, form.bias - 1)
    half_power = power_of_two(reduced.shifted, form)
    half = fma(half_power, expm1_polynomial(reduced.r, form), half_power - 0.5)
    tiny = magnitude(x) < form.epsilon / 2
    return build.select(tiny, x, half + half)


def sigmoid(x: Expr) -> Expr:
    """1 / (1 + e**-x), as t / (1 + t) with t = e**x for negative x, so that small results keep their precision.

    What rounding loses of 1 + t is as much as the bound allows in all, so the quotient is corrected for it.
    """
    decay = exp_of_negative(-magnitude(x), format_of(x))
    denominator = 1.0 + decay
    lost = (1.0 - denominator) + decay
    quotient = build.select(x < 0.0, decay, 1.0) / denominator
    return fma(-quotient, lost, quotient)


LOWEST = (-115.8, -757.6)
"""Here 2**(n + LIFT) gets the bits of 0: as in `_any_exp`."""
LIFT = (40, 70)
"""2**LIFT times a result that may be subnormal is a normal number."""


def exp_of_negative(x: Expr, form: Format) -> Expr:
    """e**x for x <= 0 or NaN, in which case one power of two will do: 2**LIFT times too large at first."""
    lift = form.pick(*LIFT)
    reduced = reduce(build.maximum(x, form.pick(*LOWEST)), form, form.bias + lift)
    lifted = exp_polynomial(reduced.r, form) * power_of_two(reduced.shifted, form)
    return lifted * 2.0**-lift


def scaled_exp_of_negative(x: Expr, rest: Expr, factor: Expr, form: Format) -> Expr:
    """factor * e**(x + rest) for x <= 0 or NaN, a tiny `rest` and a factor in [2**-10, 1]."""
    lift = form.pick(*LIFT)
    reduced = reduce(build.maximum(x, form.pick(*LOWEST)), form, form.bias + lift)
    r = reduced.r + rest
    less_one = fma(r * r, horner(r, form.pick(EXP_32, EXP_64)), r)
    return fma(factor, less_one, factor) * power_of_two(reduced.shifted, form) * 2.0**-lift


def reduce(x: Expr, form: Format, bias: int) -> Reduced:
    """n and r of x, the bias added to n."""
    rounder = form.rounder + bias
    shifted = fma(x, LOG2_E.near(form), rounder)
    n = shifted - rounder
    high, low = LN2.pair(form)
    return Reduced(shifted, fma(n, -low, fma(n, -high, x)))


def expm1_polynomial(r: Expr, form: Format) -> Expr:
    """e**r - 1 for |r| <= ln(2) / 2, to a relative error of little more than half an ulp."""
    return fma(r * r, horner(r, form.pick(EXPM1_32, EXPM1_64)), r)


def raised(value: Expr, shifted: Expr, form: Format) -> Expr:
    """`value` times 2**n, a normal number, where the lowest bits of the float `shifted` hold n."""
    return from_bits(to_bits(value, form) + (to_bits(shifted, form) << form.mantissa), form)


def scale(value: Expr, bits: Expr, form: Format) -> Expr:
    """`value` times 2**n, where the lowest bits of the integer `bits` hold n + 2 * bias.

    In two factors of about 2**(n/2), of which the first is exact: the result is rounded once, also a subnormal one, and
    n may leave the range of exponents.
    """
    first = (bits >> 1) << form.mantissa
    second = (bits << form.mantissa) - first
    return value * from_bits(first, form) * from_bits(second, form)
