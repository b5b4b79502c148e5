"""Contractions of few rows by a matrix that is stored by columns: rows of both operands multiply in vector lanes.

`x @ w.T` with few rows of x reads w once, as it lies in memory. To copy it into panels would take longer than to
multiply by it; instead lanes hold partial sums of a tile of results, and are added up at its end.
"""

from __future__ import annotations

from lpx.records import record
from lpx.rules.facts import extent_of
from lpx.rules.few_rows import FewRowsPlan

ROWS = range(2, 17)
"""Rows of the result: a single one is a plain reduction, and for more panels pay."""

WIDEST = 8
"""Columns of a tile."""

SHORTEST = 8
"""Vectors in a sum, for adding up their lanes to be the lesser part."""


@record
class DotsPlan(FewRowsPlan):
    """Loops from outside in: batches, tiles of columns, tiles of rows, vectors of the sum, and in registers rows by
    columns by lanes.
    """

    def suits(self) -> bool:
        """Whether rows are few, both operands lie along the sum, and the sum is long."""
        found = self.contraction
        if len(found.inner) != 1 or not self.has_known_extents():
            return False
        (summed,) = found.inner
        load = found.row_operand
        return (
            self.rows in ROWS
            and extent_of(summed.extent) >= SHORTEST * self.lanes
            and self.stride(summed) == 1
            and found.facts.stride(load.indices, load.buffer, summed.var) == 1
            and self._columns() > 1
        )

    def apply(self) -> str:
        """Schedule the contraction; what was done, in words."""
        schedule, name = self.schedule, self.name
        loops, batches, summed = self.loops()
        tile, column = schedule.split(loops[self.contraction.column], self._columns())
        tall, row = self.cut_rows(loops)
        vectors, lane = schedule.split(summed, self.lanes, tail="mask")
        combine = schedule.rfactor(name, lane)
        schedule.reorder(*batches, tile, *tall, vectors, *row, column, lane)
        schedule.reverse_compute_at(combine, (tall or [tile])[-1])
        start = schedule.decompose_reduction(name, vectors)
        shared = self.share([*batches, tile])
        for block in (name, start, combine):
            *_, in_row, in_column, in_lane = schedule.loops(block)
            schedule.unroll(in_row)
            schedule.unroll(in_column)
            if block is combine:
                schedule.cross_lane_reduce(combine, in_lane)
            else:
                schedule.vectorize(in_lane)
        return (
            f"contraction in register tiles of {self.height} x {self._columns()},"
            f" {self.lanes} partial results of each in lanes (reassociated)" + shared
        )

    def _columns(self) -> int:
        """Columns of a tile: as many as registers allow and divide the width."""
        most = min(self.registers_for_sums // self.height, WIDEST)
        return next((c for c in range(most, 1, -1) if self.width % c == 0), 1)
