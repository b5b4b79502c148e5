"""Rules for `Select`. Dropping a side is always right; no rule makes something be computed that was guarded before."""

from __future__ import annotations

from lpx.arith.rules.rule import FALSE, TRUE, Family, Rule, p, x, y, z
from lpx.expr.build import maximum, minimum, select

SELECTIONS = Family(
    "any",
    (
        Rule(select(TRUE, x, y), x),
        Rule(select(FALSE, x, y), y),
        Rule(select(p, x, x), x),
        Rule(select(~p, x, y), select(p, y, x)),
        Rule(select(p, select(p, x, y), z), select(p, x, z)),
        Rule(select(p, x, select(p, y, z)), select(p, x, z)),
    ),
)

BOOL_SELECTIONS = Family(
    "bool",
    (
        Rule(select(p, TRUE, FALSE), p),
        Rule(select(p, FALSE, TRUE), ~p),
    ),
)

INTEGER_SELECTIONS = Family(
    "integer",
    (
        Rule(select(x < y, x, y), minimum(x, y)),
        Rule(select(x <= y, x, y), minimum(x, y)),
        Rule(select(x < y, y, x), maximum(x, y)),
        Rule(select(x <= y, y, x), maximum(x, y)),
        Rule(select(x == y, x, y), y),
        Rule(select(x != y, x, y), x),
    ),
)
"""Not for floats: a minimum is NaN when either operand is, a selection need not be."""
