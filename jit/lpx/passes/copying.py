"""Copies of statements in which variables stand for other expressions.

A loop variable, a let-bound variable and an allocated buffer are bound at one place in a function, so a copy binds
fresh ones.
"""

from __future__ import annotations

from collections.abc import Mapping

from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Const, Expr, Var
from lpx.ir import nodes, traverse
from lpx.ir.nodes import Stmt
from lpx.passes.folding import fold, is_false, is_true
from lpx.records import replace


def instantiate(stmt: Stmt, values: Mapping[Var, Expr]) -> Stmt:
    """A copy of `stmt` with `values` put in, folded, and everything that it binds bound afresh."""
    variables, allocated = _fresh_bindings(stmt)
    replacements = {**values, **variables}
    if allocated:
        stmt = traverse.replace_buffers(stmt, {b: _fresh_buffer(b, replacements) for b in allocated})
    return _rename(stmt, replacements, variables)


def decided(stmt: Stmt) -> Stmt | None:
    """The branch that a constant condition takes, nothing for a store whose mask is off; None for other statements."""
    match stmt:
        case nodes.If(cond=Const(value=value), then=then, orelse=orelse):
            taken = then if value else orelse
            return nodes.Seq(()) if taken is None else taken
        case nodes.Store(mask=mask) if mask is not None and is_false(mask):
            return nodes.Seq(())
        case nodes.Store(mask=mask) if mask is not None and is_true(mask):
            return replace(stmt, mask=None)
        case nodes.Seq(stmts=stmts) if any(isinstance(s, nodes.Seq) for s in stmts):
            return traverse.sequence(stmts)
        case _:
            return None


def rebind(stmt: Stmt) -> Stmt:
    """`stmt` with fresh bindings wherever the same variable or buffer is bound a second time."""
    bound: set[Var | Buffer] = set()

    def visit(node: Stmt) -> Stmt:
        variables, buffers = _fresh_bindings(node, deep=False)
        mine: set[Var | Buffer] = {*variables, *buffers}
        if mine & bound:
            return visit(instantiate(node, {}))
        bound.update(mine)
        return traverse.map_children(node, visit, lambda e: e)

    return visit(stmt)


def _rename(stmt: Stmt, values: Mapping[Var, Expr], bound: Mapping[Var, Var]) -> Stmt:
    memo: dict[Expr, Expr] = {}

    def on_node(expr: Expr) -> Expr:
        return values.get(expr, expr) if isinstance(expr, Var) else fold(expr)

    def on_stmt(node: Stmt) -> Stmt | None:
        match node:
            case nodes.For() | nodes.Let():
                return replace(node, var=bound[node.var])
            case nodes.Block(axes=axes):
                return replace(node, axes=tuple(replace(axis, var=bound[axis.var]) for axis in axes))
            case _:
                return decided(node)

    return traverse.transform(stmt, on_stmt, lambda e: expr_traverse.transform(e, on_node, memo))


def _fresh_buffer(buffer: Buffer, values: Mapping[Var, Expr]) -> Buffer:
    return replace(buffer, shape=tuple(expr_traverse.substitute(extent, values) for extent in buffer.shape))


def _fresh_bindings(stmt: Stmt, deep: bool = True) -> tuple[dict[Var, Var], list[Buffer]]:
    """Fresh variables for those bound, and the buffers allocated, in `stmt` (or, not `deep`, by `stmt` itself)."""
    variables: dict[Var, Var] = {}
    buffers: list[Buffer] = []
    for node in traverse.walk(stmt) if deep else (stmt,):
        match node:
            case nodes.For(var=var) | nodes.Let(var=var):
                variables[var] = replace(var)
            case nodes.Block(axes=axes):
                variables.update((axis.var, replace(axis.var)) for axis in axes)
            case nodes.Alloc(buffer=buffer):
                buffers.append(buffer)
            case _:
                pass
    return variables, buffers
