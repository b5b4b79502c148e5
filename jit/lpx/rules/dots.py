"""Contractions of few rows by a matrix that is stored by columns: rows of both operands multiply in vector lanes.

`x @ w.T` with few rows of x reads w once, as it lies in memory. To copy it into panels would take longer than to
multiply by it; instead lanes hold partial sums of a tile of results, and are added up at its end.
"""

from __future__ import annotations

from lpx.expr.nodes import Axis, Const
from lpx.records import record
from lpx.rules.contraction import PARALLEL_PRODUCTS, Contraction, divide_evenly
from lpx.rules.facts import extent_of
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine

ROWS = range(2, 17)
"""Rows of the result: a single one is a plain reduction, and for more panels pay."""

TALLEST = 8
"""Rows of a tile."""

WIDEST = 8
"""Columns of a tile."""

SHORTEST = 8
"""Vectors in a sum, for adding up their lanes to be the lesser part."""


@record
class DotsPlan:
    """How one contraction is scheduled. Loops from outside in: batches, tiles of columns, tiles of rows, vectors of the
    sum, and in registers rows by columns by lanes.
    """

    schedule: Schedule
    contraction: Contraction
    machine: CpuMachine

    def suits(self) -> bool:
        """Whether rows are few, both operands lie along the sum, and the sum is long."""
        found = self.contraction
        if found.row is None or len(found.inner) != 1:
            return False
        (summed,) = found.inner
        loads = (found.row_operand, found.column_operand)
        return (
            all(isinstance(a.extent, Const) for a in found.facts.block.axes)
            and extent_of(found.row.extent) in ROWS
            and extent_of(summed.extent) >= SHORTEST * self._lanes
            and all(found.facts.stride(e.indices, e.buffer, summed.var) == 1 for e in loads)
            and self._columns() > 1
        )

    def apply(self) -> str:
        """Schedule the contraction; what was done, in words."""
        schedule, found = self.schedule, self.contraction
        name, axes = found.facts.block.name, found.facts.axes("spatial")
        *_, summed = schedule.loops(name)
        loops = dict(zip(axes, schedule.loops(name), strict=False))
        batches = [loops[a] for a in axes if a is not found.row and a is not found.column]
        tile, column = schedule.split(loops[found.column], self._columns())
        tall, row = self._cut_rows(loops[self._row])
        vectors, lane = schedule.split(summed, self._lanes, tail="mask")
        combine = schedule.rfactor(name, lane)
        schedule.reorder(*batches, tile, *tall, vectors, row, column, lane)
        schedule.reverse_compute_at(combine, (tall or [tile])[-1])
        start = schedule.decompose_reduction(name, vectors)
        if self.machine.cores > 1 and found.facts.runs >= PARALLEL_PRODUCTS:
            schedule.parallel(schedule.fuse(*batches, tile) if batches else tile)
        for block in (name, start, combine):
            *_, in_row, in_column, in_lane = schedule.loops(block)
            schedule.unroll(in_row)
            schedule.unroll(in_column)
            if block is combine:
                schedule.cross_lane_reduce(combine, in_lane)
            else:
                schedule.vectorize(in_lane)
        return (
            f"contraction in register tiles of {self._height()} x {self._columns()},"
            f" {self._lanes} partial results of each in lanes (reassociated)"
        )

    @property
    def _row(self) -> Axis:
        return self.contraction.row or self.contraction.column

    @property
    def _lanes(self) -> int:
        return self.machine.lanes(self.contraction.facts.target.dtype.bits)

    def _height(self) -> int:
        return divide_evenly(extent_of(self._row.extent), TALLEST)

    def _columns(self) -> int:
        """Columns of a tile: as many as registers allow and divide the width."""
        width = extent_of(self.contraction.column.extent)
        most = min(self.machine.vector_registers * 3 // 4 // self._height(), WIDEST)
        return next((c for c in range(most, 1, -1) if width % c == 0), 1)

    def _cut_rows(self, loop: LoopHandle) -> tuple[list[LoopHandle], LoopHandle]:
        """The loop over tiles of rows, if there are several, and over the rows of one."""
        if self._height() == extent_of(self._row.extent):
            return [], loop
        tall, row = self.schedule.split(loop, self._height())
        return [tall], row
