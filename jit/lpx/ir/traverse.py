"""Generic traversal of statements: children, rebuilding, rewriting.

`substatements` and `expressions` give what a statement is made of, `rebuild` puts others in their place; everything
else is built on the three. A rewriter that changes nothing returns the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any

from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import AddressOf, Expr, Load, Var
from lpx.ir import nodes
from lpx.ir.hardware import is_prefetch
from lpx.ir.nodes import Stmt
from lpx.records import replace

_SUBSTATEMENTS: dict[type[Stmt], Callable[[Any], tuple[Stmt, ...]]] = {
    nodes.Seq: lambda s: s.stmts,
    nodes.For: lambda s: (s.body,),
    nodes.ParallelRegion: lambda s: (s.body,),
    nodes.If: lambda s: (s.then,) if s.orelse is None else (s.then, s.orelse),
    nodes.While: lambda s: (s.body,),
    nodes.Let: lambda s: (s.body,),
    nodes.Block: lambda s: (s.body,) if s.init is None else (s.init, s.body),
    nodes.Alloc: lambda s: (s.body,),
}
_EXPRESSIONS: dict[type[Stmt], Callable[[Any], tuple[Expr, ...]]] = {
    nodes.For: lambda s: (s.start, s.extent),
    nodes.If: lambda s: (s.cond,),
    nodes.While: lambda s: (s.cond,),
    nodes.Let: lambda s: (s.value,),
    nodes.Block: lambda s: s.bindings if s.predicate is None else (*s.bindings, s.predicate),
    nodes.Store: lambda s: (*s.indices, s.value) if s.mask is None else (*s.indices, s.value, s.mask),
    nodes.AtomicUpdate: lambda s: (*s.indices, s.value),
    nodes.AsyncCopy: lambda s: (*s.target_indices, *s.source_indices),
    nodes.Evaluate: lambda s: (s.value,),
    nodes.CallFunction: lambda s: s.extents,
    nodes.Check: lambda s: (s.cond,),
}
_REBUILD: dict[type[Stmt], Callable[[Any, Sequence[Stmt], Sequence[Expr]], Stmt]] = {
    nodes.Seq: lambda s, stmts, _: replace(s, stmts=tuple(stmts)),
    nodes.For: lambda s, stmts, exprs: replace(s, start=exprs[0], extent=exprs[1], body=stmts[0]),
    nodes.ParallelRegion: lambda s, stmts, _: replace(s, body=stmts[0]),
    nodes.If: lambda s, stmts, exprs: replace(
        s, cond=exprs[0], then=stmts[0], orelse=None if s.orelse is None else stmts[1]
    ),
    nodes.While: lambda s, stmts, exprs: replace(s, cond=exprs[0], body=stmts[0]),
    nodes.Let: lambda s, stmts, exprs: replace(s, value=exprs[0], body=stmts[0]),
    nodes.Block: lambda s, stmts, exprs: replace(
        s,
        bindings=tuple(exprs[: len(s.bindings)]),
        predicate=None if s.predicate is None else exprs[-1],
        init=None if s.init is None else stmts[0],
        body=stmts[-1],
    ),
    nodes.Alloc: lambda s, stmts, _: replace(s, body=stmts[0]),
    nodes.Store: lambda s, _, exprs: replace(
        s,
        indices=tuple(exprs[: len(s.indices)]),
        value=exprs[len(s.indices)],
        mask=None if s.mask is None else exprs[-1],
    ),
    nodes.AtomicUpdate: lambda s, _, exprs: replace(s, indices=tuple(exprs[:-1]), value=exprs[-1]),
    nodes.AsyncCopy: lambda s, _, exprs: replace(
        s,
        target_indices=tuple(exprs[: len(s.target_indices)]),
        source_indices=tuple(exprs[len(s.target_indices) :]),
    ),
    nodes.Evaluate: lambda s, _, exprs: replace(s, value=exprs[0]),
    nodes.CallFunction: lambda s, _, exprs: replace(s, extents=tuple(exprs)),
    nodes.Check: lambda s, _, exprs: replace(s, cond=exprs[0]),
}
"""How a statement is put together again; what is in no table has neither sub-statements nor expressions."""


def substatements(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside `stmt`, in order."""
    get = _SUBSTATEMENTS.get(type(stmt))
    return () if get is None else get(stmt)


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions directly in `stmt` (not those of sub-statements), in order."""
    get = _EXPRESSIONS.get(type(stmt))
    return () if get is None else get(stmt)


def rebuild(stmt: Stmt, stmts: Sequence[Stmt], exprs: Sequence[Expr]) -> Stmt:
    """`stmt` with other sub-statements and expressions; itself when all are the same objects."""
    if all(map(is_, stmts, substatements(stmt))) and all(map(is_, exprs, expressions(stmt))):
        return stmt
    return _REBUILD[type(stmt)](stmt, stmts, exprs)


def map_children(stmt: Stmt, on_stmt: Callable[[Stmt], Stmt], on_expr: Callable[[Expr], Expr]) -> Stmt:
    """`stmt` with each direct sub-statement and expression replaced."""
    return rebuild(stmt, [on_stmt(s) for s in substatements(stmt)], [on_expr(e) for e in expressions(stmt)])


def transform(
    stmt: Stmt,
    on_stmt: Callable[[Stmt], Stmt | None] | None = None,
    on_expr: Callable[[Expr], Expr] | None = None,
) -> Stmt:
    """Rewrite bottom up: sub-statements and expressions first, then `on_stmt` may replace the rebuilt statement.

    `on_expr` gets whole expressions as they stand in statements, not their operands.
    """

    def visit(node: Stmt) -> Stmt:
        rebuilt = map_children(node, visit, on_expr or _same)
        replaced = on_stmt(rebuilt) if on_stmt else None
        return rebuilt if replaced is None else replaced

    return visit(stmt)


def _same(expr: Expr) -> Expr:
    return expr


def substitute(stmt: Stmt, values: Mapping[Var, Expr]) -> Stmt:
    """`stmt` with variables replaced in every expression."""
    if not values:
        return stmt
    memo: dict[Expr, Expr] = {}
    return transform(stmt, on_expr=lambda e: expr_traverse.substitute(e, values, memo))


def replace_buffers(stmt: Stmt, buffers: Mapping[Buffer, Buffer]) -> Stmt:
    """`stmt` with every access to a buffer of the mapping going to its replacement, at the same indices."""
    memo: dict[Expr, Expr] = {}

    def on_node(expr: Expr) -> Expr | None:
        if isinstance(expr, Load | AddressOf) and expr.buffer in buffers:
            return replace(expr, buffer=buffers[expr.buffer])
        return None

    def on_stmt(node: Stmt) -> Stmt | None:
        match node:
            case nodes.Store(buffer=b) | nodes.AtomicUpdate(buffer=b) | nodes.Alloc(buffer=b) if b in buffers:
                return replace(node, buffer=buffers[b])
            case nodes.AsyncCopy(target=t, source=s) if t in buffers or s in buffers:
                return replace(node, target=buffers.get(t, t), source=buffers.get(s, s))
            case nodes.CallFunction(buffers=bs) if any(b in buffers for b in bs):
                return replace(node, buffers=tuple(buffers.get(b, b) for b in bs))
            case _:
                return None

    def on_expr(expr: Expr) -> Expr:
        return expr_traverse.transform(expr, on_node, memo, within=expr_traverse.touches_memory)

    return transform(stmt, on_stmt, on_expr)


def walk(stmt: Stmt) -> Iterator[Stmt]:
    """Every statement, parents before children, in program order."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        yield node
        stack += substatements(node)[::-1]


def walk_expressions(stmt: Stmt) -> Iterator[Expr]:
    """Every distinct expression node under `stmt`, per statement, operands before users."""
    for node in walk(stmt):
        for expr in expressions(node):
            yield from expr_traverse.walk(expr)


def sequence(stmts: Sequence[Stmt]) -> Stmt:
    """The statements in order: nested sequences opened, a single statement bare."""
    flat: list[Stmt] = []
    for stmt in stmts:
        flat.extend(stmt.stmts if isinstance(stmt, nodes.Seq) else (stmt,))
    return flat[0] if len(flat) == 1 else nodes.Seq(tuple(flat))


def read_buffers(stmt: Stmt) -> set[Buffer]:
    """Buffers that `stmt` may read (accumulation through an atomic update included)."""
    found: set[Buffer] = set()
    for node in walk(stmt):
        for expr in expressions(node):
            found.update([access.buffer for access in expr_traverse.accesses(expr)])
        match node:
            case nodes.AtomicUpdate(buffer=buffer) | nodes.AsyncCopy(source=buffer):
                found.add(buffer)
            case nodes.CallFunction(buffers=buffers):
                found.update(buffers)
            case _:
                pass
    return found


def written_buffers(stmt: Stmt) -> set[Buffer]:
    """Buffers that `stmt` may write."""
    found: set[Buffer] = set()
    for node in walk(stmt):
        match node:
            case nodes.Store(buffer=buffer) | nodes.AtomicUpdate(buffer=buffer) | nodes.AsyncCopy(target=buffer):
                found.add(buffer)
            case nodes.CallFunction(buffers=buffers):
                found.update(buffers)
            case nodes.Evaluate(value=value) if not is_prefetch(node):
                found.update(e.buffer for e in expr_traverse.accesses(value) if isinstance(e, AddressOf))
            case _:
                pass
    return found
