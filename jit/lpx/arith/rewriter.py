"""The simplifier: operands first, then rules at the node, until nothing more applies.

For every node, in this order: constants are folded, the rules of `lpx.arith.rules` are tried, conditions are decided
by proof, and scalar index arithmetic is replaced by its normal form where that is cheaper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lpx.arith import comparison
from lpx.arith.decide import decide
from lpx.arith.folding import fold
from lpx.arith.rules import casts, matching, vectors
from lpx.dtypes import bool_, index
from lpx.expr import build, nodes, traverse
from lpx.expr.nodes import Const, Expr

if TYPE_CHECKING:
    from lpx.arith.context import Context

_LEAVES = (nodes.Const, nodes.Var)


def simplify(ctx: Context, expr: Expr) -> Expr:
    """An equal expression of at most the same cost; `expr` itself when nothing is gained."""
    done = ctx.simplified
    number = ctx.table.interner.number
    stack = [expr]
    while stack:
        node = stack[-1]
        key = number(node)
        if key in done:
            stack.pop()
            continue
        needed = _needed(ctx, node)
        pending = [c for c in needed if number(c) not in done]
        if pending:
            stack.extend(reversed(pending))
            continue
        stack.pop()
        result = _simplify_select(ctx, node) if isinstance(node, nodes.Select) else _simplify_operands(ctx, node)
        done[key] = result
        done.setdefault(number(result), result)
    result = done[number(expr)]
    return expr if number(result) == number(expr) else result


def _needed(ctx: Context, node: Expr) -> tuple[Expr, ...]:
    """The operands to simplify first: of a `Select` the condition only, since each side is seen under it."""
    return (node.cond,) if isinstance(node, nodes.Select) else traverse.children(node)


def _simplify_operands(ctx: Context, node: Expr) -> Expr:
    if isinstance(node, _LEAVES):
        return _reduce(ctx, node)
    done, number = ctx.simplified, ctx.table.interner.number
    return _reduce(ctx, traverse.rebuild(node, [done[number(c)] for c in traverse.children(node)]))


def _simplify_select(ctx: Context, node: nodes.Select) -> Expr:
    """Each side of a scalar selection may rely on the condition; a side never taken is not looked at."""
    cond = ctx.simplified[ctx.table.interner.number(node.cond)]
    truth = decide(ctx, cond)
    if truth is not None:
        return simplify(ctx, node.a if truth else node.b)
    if node.lanes > 1:
        sides = simplify(ctx, node.a), simplify(ctx, node.b)
    else:
        sides = _side(ctx, cond, True, node.a), _side(ctx, cond, False, node.b)
    return _reduce(ctx, traverse.rebuild(node, (cond, *sides)))


def _side(ctx: Context, cond: Expr, holds: bool, side: Expr) -> Expr:
    if ctx.table.interner.is_decision(side):
        side = simplify(ctx.under(cond, holds), side)
    return simplify(ctx, side)


def _reduce(ctx: Context, node: Expr) -> Expr:
    """A node whose operands are simplified, rewritten until nothing applies."""
    replaced = fold(node)
    if replaced is not None:
        return replaced
    made = _rewrite(ctx, node)
    return node if made is None else simplify(ctx, made)


def _rewrite(ctx: Context, node: Expr) -> Expr | None:
    made = matching.rewrite(node, ctx.table.interner.number)
    if made is not None:
        return made
    if node.lanes > 1 or isinstance(node, nodes.HorizontalReduce | nodes.Shuffle):
        made = vectors.rewrite(ctx, node)
        if made is not None:
            return made
    if isinstance(node, nodes.Cast | nodes.Bitcast):
        return casts.rewrite(node)
    if node.dtype.is_bool:
        return _condition(ctx, node)
    if node.dtype == index and node.lanes == 1:
        return _normal_form(ctx, node)
    return None


def _condition(ctx: Context, node: Expr) -> Expr | None:
    if isinstance(matching.scalar_constant(node), Const):
        return None
    truth = decide(ctx, node)
    if truth is not None:
        return build.broadcast(Const(bool_, 1, truth), node.lanes)
    match node:
        case nodes.Compare() if node.lanes == 1 and node.a.dtype == index:
            return comparison.normal_form(ctx, node)
        case nodes.Binary(op="bitand" | "bitor" as op, a=a, b=b) if node.lanes == 1:
            implied = _implied(ctx, op, a, b)
            return _implied(ctx, op, b, a) if implied is None else implied
        case _:
            return None


def _implied(ctx: Context, op: nodes.BinaryOp, a: Expr, b: Expr) -> Expr | None:
    """`a & b` is a where a implies b, and false where it excludes b; `a | b` likewise, with a false."""
    if not comparison.are_related(ctx, a, b):
        return None
    truth = decide(ctx.under(a, op == "bitand"), b)
    if truth is None:
        return None
    return a if truth == (op == "bitand") else Const(bool_, 1, op == "bitor")


def _normal_form(ctx: Context, node: Expr) -> Expr | None:
    p = ctx.polynomial(node)
    table = ctx.table
    return table.emit(p) if table.cost(p) < table.interner.cost(node) else None
