"""Loops cut in two where a guard inside changes its mind, so that the main loop carries no guard."""

from __future__ import annotations

from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.ir import nodes, traverse
from lpx.ir.nodes import For, Function, If, Stmt
from lpx.passes import knowledge
from lpx.passes.copying import rebind
from lpx.passes.folding import constant
from lpx.passes.guards import Cut, find_cut, settle
from lpx.records import record, replace


@record
class PartitionLoops:
    """Cut loops at the points from where, or up to where, guards in them hold for all iterations inside.

    before: `for o in 0..ceildiv(n, 8) { for i in 0..8 vectorize { if o * 8 + i < n { B[o * 8 + i] = 0 } } }`
    after:  `for o in 0..n // 8 { for i in 0..8 vectorize { B[o * 8 + i] = 0 } }`
            `for o in n // 8..ceildiv(n, 8) { for i in 0..8 vectorize { if o * 8 + i < n { B[o * 8 + i] = 0 } } }`

    The outermost loop that a guard depends on is cut; a parallel loop stays one loop with a branch in it, so that its
    iterations stay shared among threads. A vectorized or unrolled loop that is guarded up to a constant gets as short
    as the guard allows. Cutting copies the body, and stops after copying `limit` statements (counted as unrolled).
    """

    limit: int = 1000

    def __call__(self, function: Function) -> Function:
        body = _Partition(self.limit).visit(function.body, knowledge.at_entry(function))
        return function if body is function.body else replace(function, body=rebind(body))


@record
class _Interest:
    """Which guards a loop may be cut for: none of `ignored`, and those of selects only in main parts, not in edges."""

    ignored: frozenset[Expr] = frozenset()
    is_edge: bool = False

    def after(self, cut: Cut, *, is_edge: bool = False) -> _Interest:
        """What is left in a part once the loop has been cut."""
        return _Interest(self.ignored | cut.guards, self.is_edge or is_edge)


class _Partition:
    """One descent.

    Parts share statements and bindings until the end, so that a guard stays the same node in all of them.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit

    def visit(self, stmt: Stmt, analyzer: Analyzer, *, is_edge: bool = False) -> Stmt:
        """`stmt` with its loops cut; `is_edge`: it is a part that few iterations run."""
        match stmt:
            case For(kind="serial", stages=None):
                return self._serial(stmt, analyzer, _Interest(is_edge=is_edge))
            case For(kind="parallel", stages=None):
                body = self._parallel(stmt, knowledge.inside(analyzer, stmt), _Interest(is_edge=is_edge))
                return traverse.rebuild(stmt, [body], [stmt.start, stmt.extent])
            case For(kind="vectorized" | "unrolled"):
                return self._children(_shorten(stmt, analyzer), analyzer, is_edge)
            case _:
                return self._children(stmt, analyzer, is_edge)

    def _children(self, stmt: Stmt, analyzer: Analyzer, is_edge: bool) -> Stmt:
        return knowledge.visit_children(stmt, analyzer, lambda s, known: self.visit(s, known, is_edge=is_edge))

    def _serial(self, loop: For, analyzer: Analyzer, interest: _Interest) -> Stmt:
        """The loop as one loop for each part."""
        cut = find_cut(loop, knowledge.inside(analyzer, loop), interest.ignored, selects=not interest.is_edge)
        if cut is None:
            return self._children(loop, analyzer, interest.is_edge)
        before = analyzer.simplify(build.maximum(build.minimum(cut.point - loop.start, loop.extent), 0))
        after = analyzer.simplify(loop.extent - before)
        low, high = _bodies(loop.body, cut)
        if constant(after) == 0:
            return self._serial(replace(loop, body=low), analyzer, interest.after(cut))
        if constant(before) == 0:
            return self._serial(replace(loop, body=high), analyzer, interest.after(cut))
        if not self._afford(low, high):
            return self._serial(loop, analyzer, interest.after(cut))
        first = replace(loop, extent=before, body=low)
        second = replace(loop, start=analyzer.simplify(loop.start + before), extent=after, body=high)
        edges = (cut.side == "above", cut.side == "below")
        return traverse.sequence(
            [
                self._serial(part, analyzer, interest.after(cut, is_edge=is_edge))
                for part, is_edge in zip((first, second), edges, strict=True)
            ]
        )

    def _parallel(self, loop: For, within: Analyzer, interest: _Interest) -> Stmt:
        """The body of the loop with a branch for each part; `within` is what holds in the part at hand."""
        cut = find_cut(loop, within, interest.ignored, selects=not interest.is_edge)
        if cut is None:
            return self.visit(loop.body, within, is_edge=interest.is_edge)
        low, high = _bodies(loop.body, cut)
        is_low = build.compare("lt", loop.var, within.simplify(cut.point))
        if within.prove(is_low):
            return self._parallel(replace(loop, body=low), within, interest.after(cut))
        if within.prove(build.unary("not", is_low)):
            return self._parallel(replace(loop, body=high), within, interest.after(cut))
        if not self._afford(low, high):
            return self._parallel(loop, within, interest.after(cut))
        low_interest = interest.after(cut, is_edge=cut.side == "above")
        high_interest = interest.after(cut, is_edge=cut.side == "below")
        return If(
            is_low,
            self._parallel(replace(loop, body=low), knowledge.assuming(within, is_low), low_interest),
            self._parallel(replace(loop, body=high), knowledge.otherwise(within, is_low), high_interest),
        )

    def _afford(self, low: Stmt, high: Stmt) -> bool:
        """Whether two parts instead of a loop are within the limit: the shorter one is what is added."""
        self._left -= min(_unrolled_size(low), _unrolled_size(high))
        return self._left >= 0


def _bodies(body: Stmt, cut: Cut) -> tuple[Stmt, Stmt]:
    """The body below and above the point of a cut."""
    main = settle(body, cut.guards, True)
    rest = settle(body, cut.guards, False) if cut.is_sharp else body
    return (main, rest) if cut.side == "below" else (rest, main)


def _shorten(loop: For, analyzer: Analyzer) -> For:
    """A loop of lanes or copies without those that a guard turns off for certain: a power of two of lanes stays."""
    cut = find_cut(loop, knowledge.inside(analyzer, loop), frozenset(), selects=False)
    if cut is None or cut.side == "above" or not cut.is_sharp:
        return loop
    needed, extent = constant(analyzer.simplify(cut.point - loop.start)), constant(loop.extent)
    main, rest = _bodies(loop.body, cut)
    if needed is None or extent is None or not 0 < needed < extent or _has_effect(rest):
        return loop
    kept = needed if loop.kind == "unrolled" else min(1 << (needed - 1).bit_length(), extent)
    return replace(loop, extent=build.const(kept), body=main if kept == needed else loop.body)


def _has_effect(stmt: Stmt) -> bool:
    return not all(
        isinstance(s, nodes.Seq | nodes.For | nodes.If | nodes.Let | nodes.Alloc) for s in traverse.walk(stmt)
    )


def _unrolled_size(stmt: Stmt) -> int:
    inside = sum(_unrolled_size(s) for s in traverse.substatements(stmt))
    copies = constant(stmt.extent) if isinstance(stmt, For) and stmt.kind == "unrolled" else None
    return 1 + inside * (1 if copies is None else copies)
