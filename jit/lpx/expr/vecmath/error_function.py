"""erf and erfc."""

from __future__ import annotations

from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.expr.vecmath.double_word import two_product, two_sum
from lpx.expr.vecmath.exponential import exp_of_negative, scaled_exp_of_negative
from lpx.expr.vecmath.formats import Format, format_of
from lpx.expr.vecmath.operations import constant, fma, magnitude, with_sign
from lpx.expr.vecmath.polynomial import horner

# erf(x) / x - 1 as a polynomial in x**2 on |x| <= SMALL, least error relative to erf(x) / x
SMALL = (1.25, 1.0)
ERF_32 = (
    0.12837916612625122, -0.3761262893676758, 0.11283658444881439, -0.026859499514102936, 0.005207504145801067,
    -0.0008324287482537329, 0.0001031837600748986, -7.427671789628221e-06,
)  # fmt: skip
ERF_64 = (
    0.12837916709551256, -0.37612638903183343, 0.11283791670936921, -0.026866170641948864, 0.005223977596601062,
    -0.000854832547597714, 0.0001205528014760094, -1.4924457387053789e-05, 1.6444029521909538e-06,
    -1.6182917573197825e-07, 1.3611430003238953e-08, -7.596833849705015e-10,
)  # fmt: skip
# erfc(x) as a polynomial in x - 2.625 on [1.25, 4], least absolute error
CENTRE_32 = 2.625
LIMIT_32 = 4.0
ERFC_32 = (
    0.00020537461386993527, -0.001147837727330625, 0.003013232722878456, -0.004891112446784973, 0.005413796752691269,
    -0.004214220214635134, 0.0022482157219201326, -0.0006895328988321126, -3.607841790653765e-05,
    0.00016318963025696576, -7.39071037969552e-05, 3.370127160451375e-06, 7.645408913958818e-06,
    -1.8446652347847703e-06,
)  # fmt: skip
# log(erfc(x)) / x on [1, 5.95], least absolute error of erfc(x)
LIMIT_64 = 5.95
LOG_ERFC_64 = (
    -1.1283791081492174, -0.6366202776645355, -0.10277072014458244, 0.01912468268302887, 0.00021254952045653104,
    -0.0016932914015639429, 0.00057534877716161, 4.355412853963915e-07, -9.515632299766303e-05, 5.5879200261116404e-05,
    -2.029079352836639e-05, 5.367201412388678e-06, -1.073968309144428e-06, 1.622968770844453e-07,
    -1.8037712895834257e-08, 1.3942095948231197e-09, -6.700102313018754e-11, 1.5075869391579942e-12,
)  # fmt: skip

# with q = (x - c) / (x + c): e**x**2 * erfc(x) * (x + c) as a polynomial in q for 0 <= x <= limit, least relative error
ERFC_CENTRES = (3.0, 4.0)
ERFC_LIMITS = (10.1, 27.3)
"""From here on erfc rounds to 0."""
ERFC_NEAR = 1.0
SCALED_ERFC_32 = (
    1.0740069150924683, -0.8833945393562317, 0.5902277231216431, -0.3104647099971771, 0.11953640729188919,
    -0.026845749467611313, -0.0012583871139213443, 0.003078944282606244, -0.00043724937131628394,
    -0.00029850759892724454,
)  # fmt: skip
SCALED_ERFC_64 = (
    1.095995661000491, -0.976548729080882, 0.7732087022652373, -0.5408538313132351, 0.3308515878779959,
    -0.17401093723992786, 0.07638151490981603, -0.026370053340530393, 0.006112055647918923, -0.0002809588632326371,
    -0.00045505261665471574, 0.00017681280765468986, -3.6355296044434997e-06, -1.8860873293953735e-05,
    4.695641670723585e-06, 1.4242814745786721e-06, -8.489388648869598e-07, -7.59773325560258e-08,
    1.2802145025140978e-07, 1.7992851222440995e-09, -1.860317764831053e-08, -8.350852939953338e-10,
    2.1056391886251643e-09, 4.170230714093461e-10,
)  # fmt: skip


def erfc(x: Expr) -> Expr:
    """1 - erf(x): near zero so; further out e**-x**2 times a smooth function, the square in two words; there
    2 - erfc(-x) for negative x.
    """
    form = format_of(x)
    size = build.minimum(magnitude(x), form.pick(*ERFC_LIMITS))
    square = two_product(size, size)
    positive = scaled_exp_of_negative(-square.high, -square.low, _scaled_erfc(size, form), form)
    further_out = build.select(x < 0.0, 2.0 - positive, positive)
    return build.select(size < ERFC_NEAR, fma(-x, _near_zero(x, form), 1.0 - x), further_out)


def _scaled_erfc(x: Expr, form: Format) -> Expr:
    """e**x**2 * erfc(x) for x >= 0. Its quotients would lose the most by rounding, so they have two words."""
    centre = form.pick(*ERFC_CENTRES)
    divisor = two_sum(x, constant(centre, form))
    inverse = 1.0 / divisor.high
    rest = fma(-divisor.low, inverse, fma(-divisor.high, inverse, 1.0)) * inverse
    difference = x - centre
    smooth = horner(fma(difference, inverse, difference * rest), form.pick(SCALED_ERFC_32, SCALED_ERFC_64))
    return fma(smooth, inverse, smooth * rest)


def erf(x: Expr) -> Expr:
    """The error function: a polynomial near zero; further out 1 - p(x), in float64 1 - e**p(x)."""
    form = format_of(x)
    size = magnitude(x)
    complement = _complement_double(size, form) if form.is_double else _complement_single(size)
    return build.select(size < form.pick(*SMALL), fma(x, _near_zero(x, form), x), with_sign(1.0 - complement, x))


def _near_zero(x: Expr, form: Format) -> Expr:
    """erf(x) / x - 1."""
    return horner(x * x, form.pick(ERF_32, ERF_64))


def _complement_single(size: Expr) -> Expr:
    return horner(build.minimum(size, LIMIT_32) - CENTRE_32, ERFC_32)


def _complement_double(size: Expr, form: Format) -> Expr:
    inside = build.minimum(size, LIMIT_64)
    return exp_of_negative(inside * horner(inside, LOG_ERFC_64), form)
