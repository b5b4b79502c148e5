"""What is known inside a statement: ranges of loop variables, conditions of branches, values of lets."""

from __future__ import annotations

from collections.abc import Callable

from lpx import dtypes
from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Expr
from lpx.ir import nodes, traverse
from lpx.ir.nodes import Function, Stmt
from lpx.passes.folding import conjuncts, fold


def at_entry(function: Function) -> Analyzer:
    """What holds everywhere: symbolic extents are not negative."""
    analyzer = Analyzer()
    for symbol in function.symbols:
        analyzer = analyzer.with_range(symbol, 0, None)
    return analyzer


def inside(analyzer: Analyzer, stmt: Stmt) -> Analyzer:
    """What holds in the body of a loop, let or block, or in the `then` branch of an `If`."""
    match stmt:
        case nodes.For(var=var, start=start, extent=extent) if var.dtype == dtypes.index:
            low = None if reads_memory(start) else start
            high = None if low is None or reads_memory(extent) else fold(start + extent)
            return analyzer.with_range(var, low, high)
        case nodes.If(cond=cond):
            return assuming(analyzer, cond)
        case nodes.Let(var=var, value=value) if var.dtype == dtypes.index and var.lanes == 1:
            return analyzer if reads_memory(value) else analyzer.with_fact(build.compare("eq", var, value))
        case nodes.Block(axes=axes, predicate=predicate):
            for axis in axes:
                analyzer = analyzer.with_axis(axis)
            return analyzer if predicate is None else assuming(analyzer, predicate)
        case _:
            return analyzer


def visit_children(
    stmt: Stmt,
    analyzer: Analyzer,
    visit: Callable[[Stmt, Analyzer], Stmt],
    on_expr: Callable[[Expr], Expr] | None = None,
) -> Stmt:
    """`stmt` with each sub-statement replaced by what `visit` makes of it and of what is known there."""
    within = inside(analyzer, stmt)
    otherwise_known = otherwise(analyzer, stmt.cond) if isinstance(stmt, nodes.If) and stmt.orelse else within

    def on_stmt(child: Stmt) -> Stmt:
        is_else = isinstance(stmt, nodes.If) and child is stmt.orelse
        return visit(child, otherwise_known if is_else else within)

    return traverse.map_children(stmt, on_stmt, on_expr or (lambda e: e))


def assuming(analyzer: Analyzer, cond: Expr) -> Analyzer:
    """What holds where `cond` does, as long as memory may change: its parts that read none."""
    for part in conjuncts(cond):
        if not reads_memory(part):
            analyzer = analyzer.with_fact(part)
    return analyzer


def otherwise(analyzer: Analyzer, cond: Expr) -> Analyzer:
    """What holds where `cond` does not."""
    return analyzer if reads_memory(cond) else analyzer.with_fact(build.unary("not", cond))


def reads_memory(expr: Expr) -> bool:
    """Whether the value of `expr` depends on a buffer."""
    return expr_traverse.touches_memory(expr)
