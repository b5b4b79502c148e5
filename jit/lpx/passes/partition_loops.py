"""Loops cut in two where a guard inside changes its mind, so that the main loop carries no guard."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.ir import traverse
from lpx.ir.nodes import For, Function, If, Stmt
from lpx.passes import knowledge
from lpx.passes.copying import rebind
from lpx.passes.folding import constant
from lpx.passes.guards import Cut, find_cut, settle


@dataclass(frozen=True, slots=True)
class PartitionLoops:
    """Cut loops at the points from where, or up to where, guards in them hold for all iterations inside.

    before: `for o in 0..ceildiv(n, 8) { for i in 0..8 vectorized { if o * 8 + i < n { B[o * 8 + i] = 0 } } }`
    after:  `for o in 0..n // 8 { for i in 0..8 vectorized { B[o * 8 + i] = 0 } }`
            `for o in n // 8..ceildiv(n, 8) { for i in 0..8 vectorized { if o * 8 + i < n { B[o * 8 + i] = 0 } } }`

    The outermost loop that a guard depends on is cut; a parallel loop stays one loop with a branch in it, so that its
    iterations stay shared among threads. Cutting copies the body, and stops after copying `limit` statements (counted
    as unrolled).
    """

    limit: int = 1000

    def __call__(self, function: Function) -> Function:
        body = _Partition(self.limit).visit(function.body, knowledge.at_entry(function))
        return function if body is function.body else replace(function, body=rebind(body))


class _Partition:
    """One descent. Guards are `ignored` for a loop once it has been cut for them.

    Parts share statements and bindings until the end, so that a guard stays the same node in all of them.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit

    def visit(self, stmt: Stmt, analyzer: Analyzer) -> Stmt:
        match stmt:
            case For(kind="serial" | "parallel", stages=None):
                return self._loop(stmt, analyzer, frozenset())
            case _:
                return knowledge.visit_children(stmt, analyzer, self.visit)

    def _loop(self, loop: For, analyzer: Analyzer, ignored: frozenset[Expr]) -> Stmt:
        within = knowledge.inside(analyzer, loop)
        cut = find_cut(loop, within, ignored)
        if cut is None:
            body = self.visit(loop.body, within)
            return traverse.rebuild(loop, [body], [loop.start, loop.extent])
        before = analyzer.simplify(build.maximum(build.minimum(cut.point - loop.start, loop.extent), 0))
        after = analyzer.simplify(loop.extent - before)
        guarded, free = (after, before) if cut.side == "below" else (before, after)
        if constant(guarded) == 0:
            return self._loop(replace(loop, body=settle(loop.body, cut.guards, True)), analyzer, ignored)
        if constant(free) == 0 or not self._afford(loop.body):
            return self._loop(loop, analyzer, ignored | cut.guards)
        return self._cut(loop, cut, before, after, analyzer, ignored)

    def _cut(
        self, loop: For, cut: Cut, before: Expr, after: Expr, analyzer: Analyzer, ignored: frozenset[Expr]
    ) -> Stmt:
        main = settle(loop.body, cut.guards, True)
        rest = settle(loop.body, cut.guards, False) if cut.is_sharp else loop.body
        low, high = (main, rest) if cut.side == "below" else (rest, main)
        middle = analyzer.simplify(loop.start + before)
        ignored = ignored | cut.guards
        if loop.kind == "parallel":
            branch = If(build.compare("lt", loop.var, middle), low, high)
            return self._loop(replace(loop, body=branch), analyzer, ignored | {branch.cond})
        first = replace(loop, extent=before, body=low)
        second = replace(loop, start=middle, extent=after, body=high)
        return traverse.sequence([self._loop(part, analyzer, ignored) for part in (first, second)])

    def _afford(self, body: Stmt) -> bool:
        self._left -= _unrolled_size(body)
        return self._left >= 0


def _unrolled_size(stmt: Stmt) -> int:
    inside = sum(_unrolled_size(s) for s in traverse.substatements(stmt))
    copies = constant(stmt.extent) if isinstance(stmt, For) and stmt.kind == "unrolled" else None
    return 1 + inside * (1 if copies is None else copies)
