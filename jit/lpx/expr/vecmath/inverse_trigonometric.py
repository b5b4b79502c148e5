"""asin, acos, atan and atan2."""

from __future__ import annotations

import math

from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.expr.vecmath.constants import HALF_PI, PI
from lpx.expr.vecmath.formats import Format, format_of
from lpx.expr.vecmath.operations import constant, fma, magnitude, square_root, with_sign
from lpx.expr.vecmath.polynomial import horner

# (asin(x) / x - 1) / x**2 as a polynomial in x**2 on |x| <= 1/2, least error relative to x
ASIN_32 = (0.16666659712791443, 0.07500521093606949, 0.04451363533735275, 0.03183605521917343, 0.014329158701002598,
           0.03767324984073639)  # fmt: skip
ASIN_64 = (
    0.16666666666666763, 0.07499999999970128, 0.044642857175258274, 0.03038194267660597, 0.02237221586865687,
    0.017351596167839173, 0.01398101054511325, 0.011397358274254754, 0.010788956707273895, 0.003673556333981806,
    0.0217873257015431, -0.02111204200931084, 0.032699252241077184,
)  # fmt: skip
# (atan(x) / x - 1) / x**2 as a polynomial in x**2 on |x| <= 1, least error relative to atan(x) / x
ATAN_32 = (
    -0.33333298563957214, 0.1999852955341339, -0.1426401436328888, 0.10950861871242523, -0.08399216830730438,
    0.057879239320755005, -0.03109421581029892, 0.010866859927773476, -0.0017823377856984735,
)  # fmt: skip
ATAN_64 = (
    -0.33333333333333287, 0.19999999999990614, -0.1428571428504473, 0.11111111086661563, -0.09090908550809784,
    0.07692299751903639, -0.06666584047463278, 0.058817181048901726, -0.05259442714848059, 0.04744957764306289,
    -0.04286478890670549, 0.038211994655744166, -0.03278878332732783, 0.026156274309290725, -0.018619169618483918,
    0.01132180915039829, -0.0056150286179447745, 0.0021528180053246816, -0.0005932890679716823, 0.000103950520002315,
    -8.661467409577469e-06,
)  # fmt: skip


def asin(x: Expr) -> Expr:
    """The angle in [-pi/2, pi/2] whose sine is x; where |x| > 1/2, pi/2 - 2 * asin(sqrt((1 - |x|) / 2))."""
    form = format_of(x)
    size = magnitude(x)
    near, angle = _half_angle(size, form)
    return with_sign(build.select(near, angle, _minus(HALF_PI.pair(form), angle + angle)), x)


def acos(x: Expr) -> Expr:
    """The angle in [0, pi] whose cosine is x."""
    form = format_of(x)
    near, angle = _half_angle(magnitude(x), form)
    signed = with_sign(angle, x)
    middle = _minus(HALF_PI.pair(form), signed)
    doubled = angle + angle
    outside = build.select(x < 0.0, _minus(PI.pair(form), doubled), doubled)
    return build.select(near, middle, outside)


def atan(x: Expr) -> Expr:
    """The angle in [-pi/2, pi/2] whose tangent is x: pi/2 - atan(1/x) for x > 1."""
    form = format_of(x)
    size = magnitude(x)
    steep = size > 1.0
    angle = _small_angle(build.select(steep, 1.0 / size, size), form)
    return with_sign(build.select(steep, _minus(HALF_PI.pair(form), angle), angle), x)


def atan2(y: Expr, x: Expr) -> Expr:
    """The angle in [-pi, pi] of the point (x, y), by the quotient of the smaller and the larger coordinate."""
    form = format_of(x)
    across, up = magnitude(x), magnitude(y)
    smaller, larger = build.minimum(across, up), build.maximum(across, up)
    quotient = smaller / larger
    diagonal = build.compare("eq", smaller, math.inf)
    origin = build.compare("eq", larger, 0.0)
    tangent = build.select(diagonal, 1.0, build.select(origin, constant(0.0, form), quotient))
    angle = _small_angle(tangent, form)
    angle = build.select(up > across, _minus(HALF_PI.pair(form), angle), angle)
    angle = build.select(build.call("signbit", x), _minus(PI.pair(form), angle), angle)
    return with_sign(angle, y)


def _half_angle(size: Expr, form: Format) -> tuple[Expr, Expr]:
    """Whether size <= 1/2, and asin(size) there, asin(sqrt((1 - size) / 2)) elsewhere."""
    near = size <= 0.5
    halved = fma(size, -0.5, 0.5)
    square = build.select(near, size * size, halved)
    sine = build.select(near, size, square_root(halved))
    return near, fma(sine * square, horner(square, form.pick(ASIN_32, ASIN_64)), sine)


def _small_angle(tangent: Expr, form: Format) -> Expr:
    """atan of a number in [0, 1]."""
    square = tangent * tangent
    return fma(tangent * square, horner(square, form.pick(ATAN_32, ATAN_64)), tangent)


def _minus(words: tuple[float, ...], angle: Expr) -> Expr:
    """A constant of two words less an angle."""
    return words[0] - (angle - words[1])
