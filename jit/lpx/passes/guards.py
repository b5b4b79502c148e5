"""Conditions in the body of a loop, and the values of the loop's variable from which, or up to which, they hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from lpx import dtypes
from lpx.arith.affine import AffineForm
from lpx.arith.analyzer import Analyzer
from lpx.expr import build, nodes
from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Compare, Expr, Var
from lpx.ir import nodes as ir
from lpx.ir import traverse
from lpx.ir.nodes import For, Stmt
from lpx.passes import knowledge
from lpx.passes.copying import decided
from lpx.passes.folding import FALSE, TRUE, conjuncts, fold
from lpx.records import record

Side = Literal["below", "above"]


@record
class Cut:
    """`guards` hold for all values of a loop's variable on one `side` of `point` (which is itself above).

    `is_sharp`: they fail everywhere on the other side.
    """

    guards: frozenset[Expr]
    point: Expr
    side: Side
    is_sharp: bool


def find_cut(loop: For, analyzer: Analyzer, ignored: frozenset[Expr], *, selects: bool) -> Cut | None:
    """Where to cut `loop` for the first guard in it that allows it, together with guards of the same point.

    `analyzer` knows what holds inside the loop, `ignored` are guards that are not to be looked at. Guards are the
    conditions of branches and, if asked for, of `selects` that read memory.
    """
    first: Cut | None = None
    for guard, path in _guards(loop, ignored, selects):
        cut = _cut_of(loop, guard, path, analyzer)
        if cut is None:
            continue
        if first is None:
            first = cut
        elif first.side == cut.side and first.is_sharp == cut.is_sharp and analyzer.equal(first.point, cut.point):
            first = Cut(first.guards | cut.guards, first.point, first.side, first.is_sharp)
    return first


def settle(stmt: Stmt, guards: frozenset[Expr], value: bool) -> Stmt:
    """`stmt` where each of `guards` is known to be `value`."""
    truth = TRUE if value else FALSE
    memo: dict[Expr, Expr] = {}

    def on_node(node: Expr) -> Expr | None:
        if node in guards:
            return truth
        return fold(node) if node.dtype.is_bool or isinstance(node, nodes.Select) else None

    return traverse.transform(stmt, decided, lambda e: expr_traverse.transform(e, on_node, memo))


def _guards(loop: For, ignored: frozenset[Expr], selects: bool) -> Iterator[tuple[Compare, tuple[Stmt, ...]]]:
    """Comparisons of indices that decide something, with the statements around them."""
    stack: list[tuple[Stmt, tuple[Stmt, ...]]] = [(loop.body, ())]
    while stack:
        stmt, path = stack.pop()
        for cond in _conditions(stmt, selects):
            for part in conjuncts(cond):
                if isinstance(part, Compare) and part.a.dtype == dtypes.index and part not in ignored:
                    yield part, path
        stack.extend((s, (*path, stmt)) for s in reversed(traverse.substatements(stmt)))


def _conditions(stmt: Stmt, selects: bool) -> Iterator[Expr]:
    if isinstance(stmt, ir.If):
        yield stmt.cond
    for expr in traverse.expressions(stmt) if selects else ():
        for node in expr_traverse.walk(expr):
            if isinstance(node, nodes.Select) and (knowledge.reads_memory(node.a) or knowledge.reads_memory(node.b)):
                yield node.cond


def _cut_of(loop: For, guard: Compare, path: tuple[Stmt, ...], analyzer: Analyzer) -> Cut | None:
    var = loop.var
    if guard.op not in ("lt", "le") or guard.lanes != 1 or var not in expr_traverse.free_vars(guard):
        return None
    for stmt in path:
        analyzer = knowledge.inside(analyzer, stmt) if isinstance(stmt, For | ir.Let) else analyzer
    margin = fold(guard.b - guard.a - (1 if guard.op == "lt" else 0))
    form = analyzer.affine(margin)
    factor = None if form is None else form.coefficient(var)
    if form is None or not factor:
        return None
    if _is_triangle(form, factor, path):
        return None
    inner = [s.var for s in path if isinstance(s, For)]
    limits = analyzer.symbolic_bounds(margin - var * factor, inner)
    if limits is None or not _is_known_outside(limits[0], loop, path):
        return None
    # The guard is factor * var + rest >= 0 with rest at least limits[0].
    quotient = build.binary("floordiv", limits[0], build.const(abs(factor)))
    is_sharp = analyzer.equal(limits[0], limits[1])
    if factor < 0:
        return Cut(frozenset((guard,)), quotient + 1, "below", is_sharp)
    return Cut(frozenset((guard,)), -quotient, "above", is_sharp)


def _is_triangle(form: AffineForm, factor: int, path: tuple[Stmt, ...]) -> bool:
    """Whether an inner loop takes a guard the other way, as in `c <= r`: it is the one that gets shorter or longer."""
    inner = (form.coefficient(s.var) for s in path if isinstance(s, For) and s.kind == "serial")
    return any(other is not None and other * factor < 0 for other in inner)


def _is_known_outside(expr: Expr, loop: For, path: tuple[Stmt, ...]) -> bool:
    bound: set[Var] = {loop.var} | {s.var for s in path if isinstance(s, For | ir.Let)}
    return not knowledge.reads_memory(expr) and not expr_traverse.free_vars(expr) & bound
