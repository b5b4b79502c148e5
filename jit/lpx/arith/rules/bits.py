"""Rules for bit operations on integers."""

from __future__ import annotations

from lpx.arith.rules.rule import ZERO, Family, Match, Rule, c1, c2, x, y


def _is_all_ones(m: Match) -> bool:
    return m.value(c1) == (-1 if m.dtype.is_signed else m.dtype.max_value)


def _shifts_add_up(m: Match) -> bool:
    first, second = m.value(c1), m.value(c2)
    return first >= 0 and second >= 0 and first + second < m.dtype.bits


BITS = Family(
    "integer",
    (
        Rule(x & x, x),
        Rule(x & 0, ZERO),
        Rule(x & c1, x, _is_all_ones),
        Rule((x & c1) & c2, x & (c1 & c2)),
        Rule(x & (x | y), x),
        Rule(x & ~x, ZERO),
        Rule(x | x, x),
        Rule(x | 0, x),
        Rule(x | c1, c1, _is_all_ones),
        Rule((x | c1) | c2, x | (c1 | c2)),
        Rule(x | (x & y), x),
        Rule(x ^ x, ZERO),
        Rule(x ^ 0, x),
        Rule(x ^ c1, ~x, _is_all_ones),
        Rule((x ^ c1) ^ c2, x ^ (c1 ^ c2)),
        Rule((x ^ y) ^ y, x),
        Rule(~(~x), x),
    ),
)

SHIFTS = Family(
    "integer",
    (
        Rule(x << 0, x),
        Rule(x >> 0, x),
        Rule((x << c1) << c2, x << (c1 + c2), _shifts_add_up),
        Rule((x >> c1) >> c2, x >> (c1 + c2), _shifts_add_up),
    ),
)
