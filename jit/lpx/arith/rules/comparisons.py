"""Rules for comparisons of integers of every width (they hold where arithmetic wraps), and of floats."""

from __future__ import annotations

import math

from lpx import dtypes
from lpx.arith.rules.rule import FALSE, TRUE, ZERO, Family, Rule, c1, c2, p, u, x, y, z
from lpx.expr.build import cast, compare

INTEGER_COMPARISONS = Family(
    "integer",
    (
        Rule(compare("eq", x, x), TRUE),
        Rule(compare("ne", x, x), FALSE),
        Rule(compare("le", x, x), TRUE),
        Rule(compare("lt", x, x), FALSE),
        Rule(x + c1 == c2, x == c2 - c1),
        Rule(x + c1 != c2, x != c2 - c1),
        Rule(x - c1 == c2, x == c2 + c1),
        Rule(x - c1 != c2, x != c2 + c1),
        Rule(x + y == x + z, y == z),
        Rule(x + y != x + z, y != z),
        Rule(x - y == ZERO, x == y),
        Rule(x - y != ZERO, x != y),
        Rule(x + y == x, y == ZERO),
        Rule(x + y != x, y != ZERO),
        Rule(cast(p, dtypes.index) != ZERO, p),
        Rule(cast(p, dtypes.index) == ZERO, ~p),
    ),
)


FLOAT_COMPARISONS = Family(
    "float",
    (
        Rule(compare("lt", u, u), FALSE),
        Rule(compare("lt", math.inf, u), FALSE),
        Rule(compare("lt", u, -math.inf), FALSE),
    ),
)
"""NaN differs from itself, so nothing else is known of u compared with u."""
