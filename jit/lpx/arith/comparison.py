"""Comparisons of scalar index expressions with shared terms cancelled and common factors divided out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lpx.arith.polynomial import Monomial, Polynomial, constant
from lpx.dtypes import bool_, index
from lpx.expr import nodes
from lpx.expr.nodes import Expr

if TYPE_CHECKING:
    from lpx.arith.context import Context

_Sides = tuple[nodes.CompareOp, Polynomial, Polynomial]


def normal_form(ctx: Context, node: nodes.Compare) -> Expr | None:
    """A cheaper comparison that means the same, or None. Example: i*4 + 3 < n*4 becomes i < n."""
    a, b = ctx.polynomial(node.a), ctx.polynomial(node.b)
    if not ctx.is_exact(a) or not ctx.is_exact(b):
        return None
    table = ctx.table
    options = _orderings(ctx, b - a, node.op) if node.op in ("lt", "le") else [_equality(b - a, node.op)]
    costs = [table.cost(left) + table.cost(right) for _, left, right in options]
    cheapest = min(costs)
    if cheapest >= table.interner.cost(node.a) + table.interner.cost(node.b):
        return None
    op, left, right = options[costs.index(cheapest)]
    return nodes.Compare(bool_, 1, op, table.emit(left), table.emit(right))


def are_related(ctx: Context, a: Expr, b: Expr) -> bool:
    """Whether two conditions compare something in common, so that one may decide the other."""
    return not _compared(ctx, a).isdisjoint(_compared(ctx, b))


def _compared(ctx: Context, cond: Expr) -> set[Monomial]:
    """The terms that the scalar index comparisons in a conjunction or disjunction are about."""
    match cond:
        case nodes.Compare(a=a, b=b) if a.dtype == index and a.lanes == 1:
            return {m for m, _ in (ctx.polynomial(b) - ctx.polynomial(a)).varying()}
        case nodes.Binary(a=a, b=b) if cond.dtype.is_bool:
            return _compared(ctx, a) | _compared(ctx, b)
        case nodes.Unary(a=a) if cond.dtype.is_bool:
            return _compared(ctx, a)
        case _:
            return set()


def _orderings(ctx: Context, difference: Polynomial, op: nodes.CompareOp) -> list[_Sides]:
    """0 <= s is 0 <= s // g for any g > 0, which may drop terms: io*32 + ii < n*32 is io < n for ii in [0, 32)."""
    slack = difference.shifted(-1) if op == "lt" else difference
    factors = {abs(k) for _, k in slack.varying()}
    options: list[_Sides] = []
    for factor in {slack.content() or 1, max(factors, default=1)}:
        quotient = slack if factor == 1 else ctx.divide(slack, constant(factor))[0]
        options.append(("lt", *_sides(quotient.shifted(1))))
        options.append(("le", *_sides(quotient)))
    return sorted(options, key=lambda option: option[0] != op)


def _equality(difference: Polynomial, op: nodes.CompareOp) -> _Sides:
    """The content divides the constant, or else the comparison had been decided."""
    content = difference.content() or 1
    if difference.constant % content:
        content = 1
    left, right = _sides(difference.divided(content))
    return (op, right, left) if left.is_constant else (op, left, right)


def _sides(whole: Polynomial) -> tuple[Polynomial, Polynomial]:
    """(left, right) with whole = right - left and no negative coefficient in either."""
    left = Polynomial({m: -k for m, k in whole.terms.items() if k < 0})
    right = Polynomial({m: k for m, k in whole.terms.items() if k > 0})
    return left, right
