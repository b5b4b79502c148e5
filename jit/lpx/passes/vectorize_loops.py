"""Vectorized loops to vector expressions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lpx.arith.analyzer import Analyzer
from lpx.ir import traverse
from lpx.ir.nodes import For, Function, Stmt
from lpx.passes import knowledge
from lpx.passes.folding import constant
from lpx.passes.lane_dependence import can_interleave
from lpx.passes.lanes import widen_loop


@dataclass(frozen=True, slots=True)
class VectorizeLoops:
    """Run the iterations of each `vectorized` loop side by side, in the lanes of vectors.

    before: `for j in 0..8 vectorized { if x + j < n { B[x + j] = A[x + j] + c } }`
    after:  `B[ramp(x, 1, 8), mask=m] = A[ramp(x, 1, 8), mask=m] + broadcast(c, 8)`
            where `m` is `ramp(x, 1, 8) < broadcast(n, 8)`

    Conditions on the loop's variable become masks. A loop whose iterations depend on each other, or whose extent is
    known only at run time, becomes a serial loop: slower, and as right.
    """

    def __call__(self, function: Function) -> Function:
        body = _visit(function.body, knowledge.at_entry(function))
        return function if body is function.body else replace(function, body=body)


def _visit(stmt: Stmt, analyzer: Analyzer) -> Stmt:
    """Inner loops first: around vectors, an outer vectorized loop is repeated lane by lane."""
    visited = knowledge.visit_children(stmt, analyzer, _visit)
    if not isinstance(visited, For) or visited.kind != "vectorized":
        return visited
    lanes = constant(visited.extent)
    if lanes is None or not can_interleave(visited, lanes):
        return replace(visited, kind="serial")
    return widen_loop(visited, lanes, analyzer) if lanes > 0 else traverse.sequence(())
