"""Rules for floats that are exact in IEEE arithmetic, signed zeros, infinities and NaN included.

Missing on purpose: x + 0.0 (gives 0.0 for -0.0), x * 0.0, x - x and x / x (NaN), -(x - y) (the sign of zero),
everything that reassociates.
"""

from __future__ import annotations

import math

from lpx.arith.rules.rule import Family, Match, Rule, f1, f2, u, v
from lpx.dtypes import DType
from lpx.expr.build import maximum, minimum, round_to, unary

_MIN_NORMAL_EXPONENT = {"float64": -1022, "float32": -126, "float16": -14, "bfloat16": -126}


def _has_exact_reciprocal(m: Match) -> bool:
    """A power of two whose reciprocal is a normal number: multiplying by it rounds as the division does."""
    divisor = m.value(f1)
    if not math.isfinite(divisor) or divisor == 0 or abs(math.frexp(divisor)[0]) != 0.5:
        return False
    return _is_normal(1.0 / divisor, m.dtype) and _is_normal(divisor, m.dtype)


def _is_normal(value: float, dtype: DType) -> bool:
    smallest = _MIN_NORMAL_EXPONENT.get(dtype.name)
    return smallest is not None and abs(value) >= math.ldexp(1.0, smallest) and round_to(value, dtype) == value


def _are_nonzero(m: Match) -> bool:
    """Neither constant is 0, so no minimum of zeros of unlike sign arises."""
    return m.value(f1) != 0 and m.value(f2) != 0


FLOATS = Family(
    "float",
    (
        Rule(u * 1.0, u),
        Rule(u / 1.0, u),
        Rule(u - 0.0, u),
        Rule(u + -0.0, u),
        Rule(u * -1.0, -u),
        Rule(u / -1.0, -u),
        Rule(unary("neg", -u), u),
        Rule(u + (-v), u - v),
        Rule(u - (-v), u + v),
        Rule((-u) * (-v), u * v),
        Rule((-u) / (-v), u / v),
        Rule((-u) * f1, u * (-f1)),
        Rule((-u) / f1, u / (-f1)),
        Rule(u / f1, u * (1.0 / f1), _has_exact_reciprocal),
        Rule(minimum(u, u), u),
        Rule(maximum(u, u), u),
        Rule(minimum(minimum(u, f1), f2), minimum(u, minimum(f1, f2)), _are_nonzero),
        Rule(maximum(maximum(u, f1), f2), maximum(u, maximum(f1, f2)), _are_nonzero),
    ),
)
