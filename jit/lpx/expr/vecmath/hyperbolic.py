"""tanh, sinh, cosh and their inverses."""

from __future__ import annotations

from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.expr.vecmath.constants import HALF_LN2, LOG2_E
from lpx.expr.vecmath.exponential import EXP_32, EXP_64
from lpx.expr.vecmath.formats import format_of
from lpx.expr.vecmath.operations import fma, magnitude, power_of_two, with_sign
from lpx.expr.vecmath.polynomial import horner

# (tanh(x) / x - 1) / x**2 as a polynomial in x**2 on |x| <= TANH_NEAR, least error relative to tanh(x) / x
TANH_NEAR = 0.55
TANH_32 = (-0.33333316445350647, 0.13332544267177582, -0.0538475438952446, 0.021050678566098213, -0.006242770701646805)
TANH_64 = (
    -0.333333333333333, 0.13333333333326583, -0.05396825396373931, 0.021869488385258682, -0.008863232591837302,
    0.0035920919352974614, -0.0014555422463055035, 0.000588442079553028, -0.00023337560744697398, 8.330816303004519e-05,
    -1.9489739330007608e-05,
)  # fmt: skip


def tanh(x: Expr) -> Expr:
    """A polynomial near zero, 1 - 2 / (e**2x + 1) further out, where an error of e**2x counts less than half.

    So the reduction 2 * x = n * ln 2 + 2 * r makes do with one word of ln 2.
    """
    form = format_of(x)
    size = magnitude(x)
    square = x * x
    near = fma(size * square, horner(square, form.pick(TANH_32, TANH_64)), size)
    inside = build.minimum(size, form.pick(9.5, 20.0))  # beyond, the result rounds to 1
    rounder = form.rounder + form.bias
    shifted = fma(inside, 2 * LOG2_E.near(form), rounder)
    r = fma(shifted - rounder, -HALF_LN2.near(form), inside)
    doubled = [c * 2.0**i for i, c in enumerate((1.0, 1.0, *form.pick(EXP_32, EXP_64)))]
    denominator = fma(horner(r, doubled), power_of_two(shifted, form), 1.0)
    return with_sign(build.select(size < TANH_NEAR, near, 1.0 - 2.0 / denominator), x)
