"""Truth of conditions under what a context knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lpx.arith import ranges
from lpx.arith.polynomial import Polynomial
from lpx.dtypes import index
from lpx.expr import nodes
from lpx.expr.nodes import Expr
from lpx.expr.ops import Op

if TYPE_CHECKING:
    from lpx.arith.context import Context


OPPOSITE: dict[nodes.CompareOp, nodes.CompareOp] = {"lt": "le", "le": "lt", "eq": "ne", "ne": "eq"}
"""not (a op b) is b OPPOSITE[op] a, for integers."""


def decide(ctx: Context, cond: Expr) -> bool | None:
    """Whether a bool expression is certainly true or certainly false, in every lane; None when neither is proved."""
    if isinstance(cond, nodes.Const):
        return bool(cond.value)
    number = ctx.table.interner.number(cond)
    if number in ctx.truths:
        return True
    if number in ctx.negated:
        return False
    match cond:
        case nodes.Compare(op=op, a=a, b=b):
            return _compare(ctx, op, a, b)
        case nodes.Unary(op="not", a=a):
            inner = decide(ctx, a)
            return None if inner is None else not inner
        case nodes.Binary(op="bitand" | "min", a=a, b=b):
            return _both(decide(ctx, a), decide(ctx, b))
        case nodes.Binary(op="bitor" | "max", a=a, b=b):
            return _either(decide(ctx, a), decide(ctx, b))
        case nodes.Broadcast(value=value) | nodes.Call(op=Op(name="unlikely"), args=(value,)):
            return decide(ctx, value)
        case nodes.Select(cond=guard, a=a, b=b):
            return _choice(decide(ctx, guard), decide(ctx, a), decide(ctx, b))
        case _:
            return None


def lane_ends(ctx: Context, expr: Expr) -> tuple[Polynomial, Polynomial] | None:
    """The first and last lane of an index expression whose lanes are evenly spaced, when both are exact."""
    match expr:
        case nodes.Broadcast(value=value):
            first = last = ctx.polynomial(value)
        case nodes.Ramp(base=base, stride=stride, lanes=lanes):
            first = ctx.polynomial(base)
            last = first + ctx.polynomial(stride).scaled(lanes - 1)
        case _ if expr.lanes == 1:
            first = last = ctx.polynomial(expr)
        case _:
            return None
    return (first, last) if ctx.is_exact(first) and ctx.is_exact(last) else None


def _compare(ctx: Context, op: nodes.CompareOp, a: Expr, b: Expr) -> bool | None:
    if a.dtype.is_float or a.dtype.kind == "handle":
        return None
    interner = ctx.table.interner
    if interner.number(a) == interner.number(b):
        return op in ("eq", "le")
    if a.dtype != index:
        return _compare_intervals(ctx, op, a, b)
    left, right = lane_ends(ctx, a), lane_ends(ctx, b)
    if left is None or right is None:
        if a.lanes == 1 and ctx.polynomial(a).same(ctx.polynomial(b)):
            return op in ("eq", "le")
        return _compare_intervals(ctx, op, a, b)
    first, last = right[0] - left[0], right[1] - left[1]
    differences = (first,) if first.same(last) else (first, last)
    return _sign(ctx, op, differences)


def _sign(ctx: Context, op: nodes.CompareOp, differences: tuple[Polynomial, ...]) -> bool | None:
    """Decide `a op b` from b - a at the first and last lane; between them it changes evenly."""
    if op in ("lt", "le"):
        margin = -1 if op == "lt" else 0
        if all(ctx.is_non_negative(d.shifted(margin)) for d in differences):
            return True
        if all(ctx.is_non_negative(d.scaled(-1).shifted(-1 - margin)) for d in differences):
            return False
        return None
    if _is_never_zero(ctx, differences):
        return op == "ne"
    if all(d.is_zero or (ctx.is_non_negative(d) and ctx.is_non_negative(d.scaled(-1))) for d in differences):
        return op == "eq"
    return None


def _is_never_zero(ctx: Context, differences: tuple[Polynomial, ...]) -> bool:
    if len(differences) == 1:
        content, constant = differences[0].content(), differences[0].constant
        if constant % content if content else constant:
            return True
    return all(ctx.is_positive(d) for d in differences) or all(ctx.is_positive(d.scaled(-1)) for d in differences)


def _compare_intervals(ctx: Context, op: nodes.CompareOp, a: Expr, b: Expr) -> bool | None:
    x, y = ranges.of_expr(ctx, a), ranges.of_expr(ctx, b)
    below = x.hi is not None and y.lo is not None and x.hi < y.lo
    above = y.hi is not None and x.lo is not None and y.hi < x.lo
    if op in ("eq", "ne"):
        if below or above:
            return op == "ne"
        return op == "eq" if x.is_point and x == y else None
    if op == "lt":
        return True if below else (False if x.lo is not None and y.hi is not None and x.lo >= y.hi else None)
    return False if above else (True if x.hi is not None and y.lo is not None and x.hi <= y.lo else None)


def _both(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return True if a and b else None


def _either(a: bool | None, b: bool | None) -> bool | None:
    if a or b:
        return True
    return False if a is False and b is False else None


def _choice(guard: bool | None, a: bool | None, b: bool | None) -> bool | None:
    if guard is None:
        return a if a is b else None
    return a if guard else b


def assume(ctx: Context, cond: Expr, holds: bool) -> None:
    """Note in a context being made that `cond` is true, or false."""
    number = ctx.table.interner.number(cond)
    if holds:
        ctx.truths = ctx.truths | {number}
    else:
        ctx.negated = ctx.negated | {number}
    match cond:
        case nodes.Unary(op="not", a=a):
            assume(ctx, a, not holds)
        case nodes.Binary(op=op, a=a, b=b) if op in (("bitand", "min") if holds else ("bitor", "max")):
            assume(ctx, a, holds)
            assume(ctx, b, holds)
        case nodes.Broadcast(value=value) | nodes.Call(op=Op(name="unlikely"), args=(value,)):
            assume(ctx, value, holds)
        case nodes.Compare(op=op, a=a, b=b) if a.dtype == index and a.lanes == 1:
            _assume_comparison(ctx, op, ctx.polynomial(a), ctx.polynomial(b), holds)
        case _:
            ctx.forget()


def _assume_comparison(ctx: Context, op: nodes.CompareOp, a: Polynomial, b: Polynomial, holds: bool) -> None:
    if not _is_value(ctx, a) or not _is_value(ctx, b):
        ctx.forget()
        return
    if not holds:
        op, a, b = OPPOSITE[op], b, a
    difference = b - a
    if op == "lt":
        ctx.assume_non_negative(difference.shifted(-1))
    elif op in ("le", "eq"):
        ctx.assume_non_negative(difference)
    if op == "eq":
        ctx.assume_non_negative(difference.scaled(-1))
    elif op == "ne":
        for apart in (difference, difference.scaled(-1)):
            if ctx.is_non_negative(apart):
                ctx.assume_non_negative(apart.shifted(-1))
    ctx.forget()


def _is_value(ctx: Context, p: Polynomial) -> bool:
    """Whether p is what the expression gives: it cannot wrap, or is a single atom or constant."""
    return p.is_constant or p.single_atom() is not None or ctx.is_exact(p)
