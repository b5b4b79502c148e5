"""Regions: the box of each buffer that a statement may touch, computed when asked for.

Variables declared inside the statement are eliminated, so a region is in terms of what stands around it. Boxes are
conservative: where an index is not understood, the whole dimension; parts skipped by conditions count as touched, so a
box may reach beyond the buffer (`clip`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lpx import dtypes
from lpx.arith.analyzer import Analyzer
from lpx.expr import build, traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import AddressOf, Broadcast, Expr, Load, Ramp, Var
from lpx.ir import nodes
from lpx.ir.nodes import Stmt
from lpx.ir.traverse import expressions, substatements
from lpx.records import record


@record
class Region:
    """A box of a buffer: for each dimension its first index and its extent."""

    buffer: Buffer
    ranges: tuple[tuple[Expr, Expr], ...]


@record
class _Box:
    """Inclusive bounds per dimension; None where they are not known."""

    buffer: Buffer
    bounds: tuple[tuple[Expr, Expr] | None, ...]


def access_region(stmt: Stmt, analyzer: Analyzer) -> tuple[list[Region], list[Region]]:
    """What `stmt` reads and what it writes, one region per buffer, in order of first access.

    `analyzer` knows the ranges of variables around `stmt`. Buffers allocated inside are left out. Axes of a block
    inside are taken at their bindings; for a block's region in terms of its own axes, ask for its body.
    """
    collector = _Collector()
    collector.visit(stmt, _Inside(analyzer, {}, frozenset()))
    return _regions(collector.reads, analyzer), _regions(collector.writes, analyzer)


def clip(region: Region, analyzer: Analyzer) -> Region:
    """The part of `region` inside its buffer; a bound that is proved to be inside stays as it is."""
    return Region(
        region.buffer,
        tuple(_clip(r, size, analyzer) for r, size in zip(region.ranges, region.buffer.shape, strict=True)),
    )


def _clip(bounds: tuple[Expr, Expr], size: Expr, analyzer: Analyzer) -> tuple[Expr, Expr]:
    start, extent = bounds
    begins_inside = analyzer.prove(build.compare("le", 0, start))
    ends_inside = analyzer.prove(build.compare("le", start + extent, size))
    if begins_inside and ends_inside:
        return bounds
    low = start if begins_inside else build.maximum(start, 0)
    end = start + extent if ends_inside else build.minimum(start + extent, size)
    return analyzer.simplify(low), analyzer.simplify(build.maximum(end - low, 0))


@record
class _Inside:
    """What is known at a place inside the statement: ranges, values of lets and axes, and variables to eliminate."""

    analyzer: Analyzer
    values: dict[Var, Expr]
    variables: frozenset[Var]

    def with_loop(self, loop: nodes.For) -> _Inside:
        start, extent = (self.resolve(e) for e in (loop.start, loop.extent))
        ranged = loop.var.dtype == dtypes.index
        analyzer = self.analyzer.with_range(loop.var, start, start + extent) if ranged else self.analyzer
        return _Inside(analyzer, self.values, self.variables | {loop.var})

    def with_value(self, var: Var, value: Expr) -> _Inside:
        return _Inside(self.analyzer, {**self.values, var: self.resolve(value)}, self.variables)

    def resolve(self, expr: Expr) -> Expr:
        return traverse.substitute(expr, self.values)

    def bounds(self, index: Expr) -> tuple[Expr, Expr] | None:
        """Inclusive bounds of an index over all variables inside."""
        lane = build.var("lane")
        scalar = _one_lane(self.resolve(index), lane)
        analyzer = self.analyzer if index.lanes == 1 else self.analyzer.with_range(lane, 0, index.lanes)
        gone = self.variables | {lane}
        if scalar.dtype != dtypes.index:
            return None
        found = analyzer.symbolic_bounds(scalar, gone)
        if found is None or any(not gone.isdisjoint(traverse.free_vars(e)) or _reads(e) for e in found):
            return None
        return found


def _one_lane(index: Expr, lane: Var) -> Expr:
    """A vector index as a scalar expression of the number of the lane."""

    def visit(node: Expr) -> Expr | None:
        match node:
            case Ramp(base=base, stride=stride):
                return base + stride * lane
            case Broadcast(value=value):
                return value
            case _:
                return None

    return index if index.lanes == 1 else traverse.transform(index, visit)


def _reads(expr: Expr) -> bool:
    return any(isinstance(node, Load) for node in traverse.accesses(expr))


class _Collector:
    def __init__(self) -> None:
        self.reads: list[_Box] = []
        self.writes: list[_Box] = []
        self._local: set[Buffer] = set()

    def visit(self, stmt: Stmt, inside: _Inside) -> None:
        """Collect the accesses of `stmt`."""
        while isinstance(stmt, nodes.Let | nodes.Alloc):  # chains of these may be long
            self._expressions(stmt, inside)
            if isinstance(stmt, nodes.Let):
                inside = inside.with_value(stmt.var, stmt.value)
            else:
                self._local.add(stmt.buffer)
            stmt = stmt.body
        self._expressions(stmt, inside)
        self._own(stmt, inside)
        within = inside
        match stmt:
            case nodes.For():
                within = inside.with_loop(stmt)
            case nodes.Block(axes=axes, bindings=bindings):
                for axis, binding in zip(axes, bindings, strict=True):
                    within = within.with_value(axis.var, inside.resolve(binding))
            case _:
                pass
        for child in substatements(stmt):
            self.visit(child, within)

    def _expressions(self, stmt: Stmt, inside: _Inside) -> None:
        for root in expressions(stmt):
            for node in traverse.walk(root):
                if isinstance(node, Load):
                    self._touch(self.reads, node.buffer, node.indices, inside)
                elif isinstance(node, AddressOf):
                    self._touch_all(node.buffer)

    def _own(self, stmt: Stmt, inside: _Inside) -> None:
        match stmt:
            case nodes.Store(buffer=buffer, indices=indices):
                self._touch(self.writes, buffer, indices, inside)
            case nodes.AtomicUpdate(buffer=buffer, indices=indices):
                self._touch(self.reads, buffer, indices, inside)
                self._touch(self.writes, buffer, indices, inside)
            case nodes.AsyncCopy():
                self._touch(self.reads, stmt.source, stmt.source_indices, inside, stmt.count)
                self._touch(self.writes, stmt.target, stmt.target_indices, inside, stmt.count)
            case nodes.CallFunction(buffers=buffers):
                for buffer in buffers:
                    self._touch_all(buffer)
            case _:
                pass

    def _touch(
        self, boxes: list[_Box], buffer: Buffer, indices: Sequence[Expr], inside: _Inside, count: int = 1
    ) -> None:
        if buffer in self._local:
            return
        bounds = [inside.bounds(index) for index in indices]
        if count > 1 and bounds and bounds[-1] is not None:
            low, high = bounds[-1]
            bounds[-1] = (low, high + (count - 1))
        boxes.append(_Box(buffer, tuple(bounds)))

    def _touch_all(self, buffer: Buffer) -> None:
        if buffer not in self._local:
            box = _Box(buffer, (None,) * buffer.rank)
            self.reads.append(box)
            self.writes.append(box)


def _regions(boxes: Sequence[_Box], analyzer: Analyzer) -> list[Region]:
    by_buffer: dict[Buffer, list[_Box]] = {}
    for box in boxes:
        by_buffer.setdefault(box.buffer, []).append(box)
    return [Region(buffer, tuple(_ranges(buffer, found, analyzer))) for buffer, found in by_buffer.items()]


def _ranges(buffer: Buffer, boxes: Sequence[_Box], analyzer: Analyzer) -> Iterator[tuple[Expr, Expr]]:
    for dimension, size in enumerate(buffer.shape):
        known = [bounds for box in boxes if (bounds := box.bounds[dimension]) is not None]
        if len(known) < len(boxes):
            yield build.const(0), size
            continue
        low, high = known[0]
        for other_low, other_high in known[1:]:
            low = _extreme(low, other_low, analyzer, upper=False)
            high = _extreme(high, other_high, analyzer, upper=True)
        yield analyzer.simplify(low), analyzer.simplify(high - low + 1)


def _extreme(a: Expr, b: Expr, analyzer: Analyzer, *, upper: bool) -> Expr:
    small, large = (b, a) if upper else (a, b)
    if a is b or analyzer.prove(build.compare("le", small, large)):
        return a
    if analyzer.prove(build.compare("le", large, small)):
        return b
    return build.maximum(a, b) if upper else build.minimum(a, b)
