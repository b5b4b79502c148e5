"""The simplifier: operands first, then the rules of the node's family, then the normal form of index arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lpx import dtypes
from lpx.arith import decide
from lpx.dtypes import index
from lpx.expr import nodes, traverse
from lpx.expr.nodes import Expr

if TYPE_CHECKING:
    from lpx.arith.context import Context


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
        pending = [c for c in traverse.children(node) if number(c) not in done]
        if pending:
            stack.extend(reversed(pending))
            continue
        stack.pop()
        rebuilt = traverse.rebuild(node, [done[number(c)] for c in traverse.children(node)])
        result = _reduce(ctx, rebuilt)
        done[key] = result
        done.setdefault(number(result), result)
    result = done[number(expr)]
    return expr if number(result) == number(expr) else result


def _reduce(ctx: Context, node: Expr) -> Expr:
    if isinstance(node, nodes.Const | nodes.Var):
        return node
    if node.lanes == 1 and node.dtype == index:
        return _normal_form(ctx, node)
    if isinstance(node, nodes.Compare):
        truth = decide.decide(ctx, node)
        if truth is not None and node.lanes == 1:
            return nodes.Const(dtypes.bool_, 1, truth)
    return node


def _normal_form(ctx: Context, node: Expr) -> Expr:
    p = ctx.polynomial(node)
    table = ctx.table
    return table.emit(p) if table.cost(p) < table.interner.cost(node) else node
