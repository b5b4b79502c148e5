"""Rules for the logic of bools, and for `not` of comparisons."""

from __future__ import annotations

from lpx.arith.rules.rule import FALSE, TRUE, Family, Rule, p, q, r, u, v, x, y
from lpx.expr.build import compare, maximum, minimum

LOGIC = Family(
    "bool",
    (
        Rule(p & TRUE, p),
        Rule(p & FALSE, FALSE),
        Rule(p & p, p),
        Rule(p & ~p, FALSE),
        Rule(p & (p & q), p & q),
        Rule(p & (p | q), p),
        Rule((p & q) & (p & r), p & (q & r)),
        Rule(p | TRUE, TRUE),
        Rule(p | FALSE, p),
        Rule(p | p, p),
        Rule(p | ~p, TRUE),
        Rule(p | (p | q), p | q),
        Rule(p | (p & q), p),
        Rule((p | q) | (p | r), p | (q | r)),
        Rule(p ^ TRUE, ~p),
        Rule(p ^ FALSE, p),
        Rule(p ^ p, FALSE),
        Rule(~(~p), p),
        Rule(~p & ~q, ~(p | q)),
        Rule(~p | ~q, ~(p & q)),
        Rule(minimum(p, q), p & q),
        Rule(maximum(p, q), p | q),
        Rule(p == TRUE, p),
        Rule(p == FALSE, ~p),
        Rule(p != TRUE, ~p),
        Rule(p != FALSE, p),
        Rule(compare("eq", p, p), TRUE),
        Rule(compare("ne", p, p), FALSE),
    ),
)

NEGATED_COMPARISONS = Family(
    "bool",
    (
        Rule(~(x < y), y <= x),
        Rule(~(x <= y), y < x),
        Rule(~(x == y), x != y),
        Rule(~(x != y), x == y),
        Rule(~(u == v), u != v),
        Rule(~(u != v), u == v),
    ),
)
"""With NaN neither x < y nor y <= x holds, so an ordering is negated for integers only."""
