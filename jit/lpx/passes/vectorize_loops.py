"""Vectorized loops to vector expressions."""

from __future__ import annotations

from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.ir import traverse
from lpx.ir.nodes import For, Function, Stmt
from lpx.passes import knowledge
from lpx.passes.copying import instantiate
from lpx.passes.folding import constant, fold
from lpx.passes.lane_dependence import can_interleave
from lpx.passes.lanes import widen_loop
from lpx.records import record, replace


@record
class VectorizeLoops:
    """Run the iterations of each `vectorized` loop side by side, in the lanes of vectors.

    before: `for j in 0..8 vectorized { if x + j < n { B[x + j] = A[x + j] + c } }`
    after:  `B[ramp(x, 1, 8), mask=m] = A[ramp(x, 1, 8), mask=m] + broadcast(c, 8)`
            where `m` is `ramp(x, 1, 8) < broadcast(n, 8)`

    Conditions on the loop's variable become masks. A loop whose iterations depend on each other, or whose extent is
    known only at run time, becomes a serial loop: slower, and as right.

    A loop longer than a register of `vector_bits` whose extent is no power of two becomes several vectors (28 lanes of
    16 become 16 and 12): LLVM takes such a vector apart, element by element, where it lives on across a loop.
    """

    vector_bits: int = 512

    def __call__(self, function: Function) -> Function:
        body = self._visit(function.body, knowledge.at_entry(function))
        return function if body is function.body else replace(function, body=body)

    def _visit(self, stmt: Stmt, analyzer: Analyzer) -> Stmt:
        """Inner loops first: around vectors, an outer vectorized loop is repeated lane by lane."""
        visited = knowledge.visit_children(stmt, analyzer, self._visit)
        if not isinstance(visited, For) or visited.kind != "vectorized":
            return visited
        lanes = constant(visited.extent)
        if lanes is None or not can_interleave(visited, lanes):
            return replace(visited, kind="serial")
        pieces = vector_lengths(lanes, self.vector_bits // _widest_bits(visited))
        if len(pieces) == 1:
            return widen_loop(visited, lanes, analyzer)
        vectors: list[Stmt] = []
        start = visited.start
        for piece in pieces:
            var = build.var(visited.var.name)
            body = instantiate(visited.body, {visited.var: var})
            loop = replace(visited, var=var, start=fold(start), extent=build.const(piece), body=body)
            vectors.append(widen_loop(loop, piece, analyzer))
            start = start + piece
        return traverse.sequence(vectors)


def vector_lengths(lanes: int, register: int) -> list[int]:
    """`lanes` as a sum of powers of two from `register` on, and at most one shorter rest."""
    lengths: list[int] = []
    while lanes > register:
        lengths.append(1 << (lanes.bit_length() - 1))
        lanes -= lengths[-1]
    return [*lengths, lanes] if lanes else lengths


def _widest_bits(stmt: Stmt) -> int:
    """The width of the widest element that a statement reads or writes."""
    buffers = traverse.read_buffers(stmt) | traverse.written_buffers(stmt)
    return max((b.dtype.bits for b in buffers), default=8)
