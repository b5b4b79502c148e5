"""Generic traversal of statements: children, rebuilding, rewriting.

`children` gives a statement's sub-statements and expressions; `rebuild` puts others in their place. Everything else is
built on the two. A rewriter that changes nothing returns the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import AddressOf, Expr, Load, Var
from lpx.ir import nodes
from lpx.ir.nodes import Stmt

# Per node type: its statement fields and its expression fields. A field holds a node, a tuple of nodes, or None.
_STMT_FIELDS: dict[type[Stmt], tuple[str, ...]] = {
    nodes.Seq: ("stmts",),
    nodes.For: ("body",),
    nodes.ParallelRegion: ("body",),
    nodes.If: ("then", "orelse"),
    nodes.While: ("body",),
    nodes.Let: ("body",),
    nodes.Block: ("init", "body"),
    nodes.Alloc: ("body",),
}
_EXPR_FIELDS: dict[type[Stmt], tuple[str, ...]] = {
    nodes.For: ("start", "extent"),
    nodes.If: ("cond",),
    nodes.While: ("cond",),
    nodes.Let: ("value",),
    nodes.Block: ("bindings", "predicate"),
    nodes.Store: ("indices", "value", "mask"),
    nodes.AtomicUpdate: ("indices", "value"),
    nodes.AsyncCopy: ("target_indices", "source_indices"),
    nodes.Evaluate: ("value",),
    nodes.CallFunction: ("extents",),
    nodes.Check: ("cond",),
}


def _flatten(node: Stmt, names: tuple[str, ...]) -> list[object]:
    found: list[object] = []
    for name in names:
        value = getattr(node, name)
        if isinstance(value, tuple):
            found.extend(cast("tuple[object, ...]", value))
        elif value is not None:
            found.append(value)
    return found


def substatements(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside `stmt`, in order."""
    return cast("tuple[Stmt, ...]", tuple(_flatten(stmt, _STMT_FIELDS.get(type(stmt), ()))))


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions directly in `stmt` (not those of sub-statements), in order."""
    return cast("tuple[Expr, ...]", tuple(_flatten(stmt, _EXPR_FIELDS.get(type(stmt), ()))))


def _refill(stmt: Stmt, names: tuple[str, ...], new: Sequence[object]) -> dict[str, object]:
    queue = iter(new)
    changes: dict[str, object] = {}
    for name in names:
        old = getattr(stmt, name)
        if isinstance(old, tuple):
            olds = cast("tuple[object, ...]", old)
            news = tuple(next(queue) for _ in olds)
            if any(a is not b for a, b in zip(olds, news, strict=True)):
                changes[name] = news
        elif old is not None:
            value = next(queue)
            if value is not old:
                changes[name] = value
    return changes


def rebuild(stmt: Stmt, stmts: Sequence[Stmt], exprs: Sequence[Expr]) -> Stmt:
    """`stmt` with other sub-statements and expressions; itself when all are the same objects."""
    changes = _refill(stmt, _STMT_FIELDS.get(type(stmt), ()), stmts)
    changes.update(_refill(stmt, _EXPR_FIELDS.get(type(stmt), ()), exprs))
    return replace(stmt, **changes) if changes else stmt  # type: ignore[arg-type]


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

    return transform(stmt, on_stmt, lambda e: expr_traverse.transform(e, on_node, memo))


def walk(stmt: Stmt) -> Iterator[Stmt]:
    """Every statement, parents before children, in program order."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(substatements(node)))


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
    found = {e.buffer for e in walk_expressions(stmt) if isinstance(e, Load | AddressOf)}
    for node in walk(stmt):
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
            case nodes.Evaluate(value=value):
                found.update(e.buffer for e in expr_traverse.walk(value) if isinstance(e, AddressOf))
            case _:
                pass
    return found
