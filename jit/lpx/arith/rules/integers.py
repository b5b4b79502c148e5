"""Rules for arithmetic on integers of every width. They hold modulo 2**bits: operations may wrap around."""

from __future__ import annotations

from lpx.arith.rules.rule import ZERO, Family, Match, Rule, c1, c2, x, y, z
from lpx.expr.build import binary, maximum, minimum, unary


def _is_negative(m: Match) -> bool:
    return m.dtype.min_value < m.value(c1) < 0


def _is_smallest(m: Match) -> bool:
    return m.value(c1) == m.dtype.min_value


def _is_largest(m: Match) -> bool:
    return m.value(c1) == m.dtype.max_value


def _first_is_larger(m: Match) -> bool:
    return m.value(c1) >= m.value(c2)


def _first_is_smaller(m: Match) -> bool:
    return m.value(c1) <= m.value(c2)


SUMS = Family(
    "integer",
    (
        Rule(x + 0, x),
        Rule(x - 0, x),
        Rule(0 - x, -x),
        Rule(x - x, ZERO),
        Rule(unary("neg", -x), x),
        Rule(-(x - y), y - x),
        Rule(x + (-y), x - y),
        Rule(x - (-y), x + y),
        Rule(x + c1, x - (0 - c1), _is_negative),
        Rule(x - c1, x + (0 - c1), _is_negative),
        Rule((x + c1) + c2, x + (c1 + c2)),
        Rule((x + c1) - c2, x + (c1 - c2)),
        Rule((x - c1) + c2, x + (c2 - c1)),
        Rule((x - c1) - c2, x - (c1 + c2)),
        Rule((c1 - x) + c2, (c1 + c2) - x),
        Rule((c1 - x) - c2, (c1 - c2) - x),
        Rule(c1 - (x + c2), (c1 - c2) - x),
        Rule(c1 - (c2 - x), x + (c1 - c2)),
        Rule(c1 - (x - c2), (c1 + c2) - x),
        Rule((x - y) + y, x),
        Rule((x + y) - y, x),
        Rule(x - (x - y), y),
        Rule(x - (x + y), -y),
        Rule((x + y) - (x + z), y - z),
        Rule((x - y) - (x - z), z - y),
    ),
)

PRODUCTS = Family(
    "integer",
    (
        Rule(x * 0, ZERO),
        Rule(x * 1, x),
        Rule(x * -1, -x),
        Rule((x * c1) * c2, x * (c1 * c2)),
        Rule((-x) * c1, x * (-c1)),
        Rule(x * c1 + x, x * (c1 + 1)),
        Rule(x * c1 - x, x * (c1 - 1)),
        Rule(x * c1 + x * c2, x * (c1 + c2)),
        Rule(x * c1 - x * c2, x * (c1 - c2)),
        Rule(x * y + x * z, x * (y + z)),
        Rule(x * y - x * z, x * (y - z)),
    ),
)

DIVISIONS = Family(
    "integer",
    (
        Rule(x // 1, x),
        Rule(x % 1, ZERO),
        Rule(x // -1, -x),
        Rule(x % -1, ZERO),
        Rule(binary("truncdiv", x, 1), x),
        Rule(binary("truncmod", x, 1), ZERO),
        Rule(binary("truncdiv", x, -1), -x),
        Rule(binary("truncmod", x, -1), ZERO),
        Rule((x % c1) % c1, x % c1),
        Rule(binary("truncmod", binary("truncmod", x, c1), c1), binary("truncmod", x, c1)),
    ),
)

EXTREMA = Family(
    "integer",
    (
        Rule(minimum(x, x), x),
        Rule(maximum(x, x), x),
        Rule(minimum(x, c1), c1, _is_smallest),
        Rule(minimum(x, c1), x, _is_largest),
        Rule(maximum(x, c1), c1, _is_largest),
        Rule(maximum(x, c1), x, _is_smallest),
        Rule(minimum(minimum(x, c1), c2), minimum(x, minimum(c1, c2))),
        Rule(maximum(maximum(x, c1), c2), maximum(x, maximum(c1, c2))),
        Rule(minimum(maximum(x, c1), c2), c2, _first_is_larger),
        Rule(maximum(minimum(x, c1), c2), c2, _first_is_smaller),
        Rule(minimum(minimum(x, y), y), minimum(x, y)),
        Rule(maximum(maximum(x, y), y), maximum(x, y)),
        Rule(minimum(maximum(x, y), y), y),
        Rule(maximum(minimum(x, y), y), y),
        Rule(minimum(minimum(x, y), minimum(x, z)), minimum(x, minimum(y, z))),
        Rule(maximum(maximum(x, y), maximum(x, z)), maximum(x, maximum(y, z))),
    ),
)
