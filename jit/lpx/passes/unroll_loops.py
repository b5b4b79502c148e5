"""Unrolled loops to copies of their bodies."""

from __future__ import annotations

from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.ir import traverse
from lpx.ir.nodes import For, Function, Stmt
from lpx.passes.copying import decided, instantiate
from lpx.passes.folding import constant, fold
from lpx.records import record, replace


@record
class UnrollLoops:
    """Copy out each `unrolled` loop, and each serial loop with the pragma `unroll`, that has a constant extent.

    before: `for i in 0..2 unrolled { B[x + i] = 0 }`
    after:  `B[x] = 0; B[x + 1] = 0`

    A loop of more than `limit` iterations, or of an extent known only at run time, stays a serial loop.
    """

    limit: int = 1024

    def __call__(self, function: Function) -> Function:
        body = traverse.transform(function.body, self._visit)
        return replace(function, body=body) if body is not function.body else function

    def _visit(self, stmt: Stmt) -> Stmt | None:
        if not isinstance(stmt, For) or not (stmt.kind == "unrolled" or stmt.pragmas.get("unroll")):
            return decided(stmt)
        extent = constant(stmt.extent)
        if extent is None or extent > self.limit:
            return replace(stmt, kind="serial")
        return traverse.sequence([instantiate(stmt.body, {stmt.var: iteration(stmt, i)}) for i in range(extent)])


def iteration(loop: For, number: int) -> Expr:
    """The value of the loop's variable in iteration `number`."""
    return fold(build.binary("add", loop.start, build.const(number, loop.var.dtype)))
