"""Contractions of few rows by a matrix that the second cache holds: sums stay in registers, the matrix where it lies.

Copying the matrix into panels would take about as long as multiplying by it. Tiles walk down its columns instead, a few
rows of the result by a few vectors, and ask for what they read next. That is slower than `skinny` once rows of the
matrix come from memory, or are a page apart and so share few sets of the first cache.
"""

from __future__ import annotations

from math import prod

from lpx.records import record
from lpx.rules.facts import extent_of
from lpx.rules.few_rows import FewRowsPlan
from lpx.schedule.handles import LoopHandle

ROWS = range(2, 17)
"""Rows of the result: one is bound by reading, and for more than these panels pay."""

VECTORS = 8
"""Vectors of a tile at most."""

STEPS = (4, 6, 5, 7, 3)
"""Steps of the sum per iteration, by preference."""

AHEAD = 4
"""Iterations from asking for rows of the matrix to reading them."""

PAGE = 4096


@record
class ResidentPlan(FewRowsPlan):
    """Loops from outside in: batches, a block of columns for each core, tiles of columns, tiles of rows, the sum, and
    in registers rows by vectors.
    """

    def suits(self) -> bool:
        """Whether rows are few, and the matrix lies in rows, in the second cache, in whole tiles."""
        found = self.contraction
        if len(found.inner) != 1 or not self.has_known_extents():
            return False
        itemsize = found.column_operand.dtype.itemsize
        down = self.stride(found.inner[0])
        return (
            self.rows in ROWS
            and self.machine.l1d.bytes < self.width * self._depth() * itemsize <= self.machine.l2.bytes * 3 // 2
            and self.stride(found.column) == 1
            and down is not None
            and down * itemsize < PAGE
            and self._vectors() > 0
            and self._steps() > 0
        )

    def apply(self) -> str:
        """Schedule the contraction; what was done, in words."""
        schedule, name = self.schedule, self.name
        operand = self.contraction.column_operand.buffer
        loops, batches, summed = self.loops()
        block, tile, vector, lane = self._cut_columns(loops[self.contraction.column])
        step, inside = schedule.split(summed, self._steps())
        tall, row = self.cut_rows(loops)
        schedule.reorder(*batches, block, tile, *tall, step, inside, *row, vector, lane)
        shared = self.share([*batches, block])
        start = schedule.loops(schedule.decompose_reduction(name, step))
        schedule.prefetch(name, operand, step, AHEAD, over=step)
        for loop in (start[-1], lane):
            schedule.vectorize(loop)
        for loop in (*start[-3:-1], inside, *row, vector):
            schedule.unroll(loop)
        return (
            f"contraction in register tiles of {self.height} x {self._vectors() * self.lanes},"
            f" {operand.name} read down its columns" + shared
        )

    def _blocks(self) -> int:
        """Blocks of columns: one for each core, if there are no batches to share."""
        found = self.contraction
        others = (a for a in found.facts.axes("spatial") if a is not found.row and a is not found.column)
        return 1 if prod(extent_of(a.extent) for a in others) >= self.machine.cores else self.machine.cores

    def _vectors(self) -> int:
        """Vectors of a tile: as many as registers allow and tiles of a core hold without a rest, none if few do."""
        most = min(self.registers_for_sums // self.height, VECTORS)
        whole = self._blocks() * self.lanes
        return next((v for v in range(most, most // 2, -1) if self.width % (v * whole) == 0), 0)

    def _depth(self) -> int:
        return extent_of(self.contraction.inner[0].extent)

    def _steps(self) -> int:
        return next((s for s in STEPS if self._depth() % s == 0), 0)

    def _cut_columns(self, loop: LoopHandle) -> tuple[LoopHandle, LoopHandle, LoopHandle, LoopHandle]:
        """The loops over blocks, tiles of a block, vectors of a tile, and lanes."""
        vectors = self._vectors()
        tiles = self.width // (self._blocks() * vectors * self.lanes)
        block, tile, vector, lane = self.schedule.split(loop, (tiles, vectors, self.lanes))
        return block, tile, vector, lane
