"""Contractions of few rows by a matrix that the second cache holds: sums stay in registers, the matrix where it lies.

Copying the matrix into panels would take about as long as multiplying by it. Tiles walk down its columns instead, a few
rows of the result by a few vectors, and ask for what they read next. That is slower than `skinny` once rows of the
matrix come from memory, or are a page apart and so share few sets of the first cache.
"""

from __future__ import annotations

from math import prod

from lpx.expr.nodes import Axis, Const
from lpx.records import record
from lpx.rules.contraction import PARALLEL_PRODUCTS, Contraction, divide_evenly
from lpx.rules.facts import extent_of
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine

ROWS = range(2, 17)
"""Rows of the result: one is bound by reading, and for more than these panels pay."""

TALLEST = 8
"""Rows of a tile: more leave one vector beside them, whose reads then are as many as its products."""

VECTORS = 8
"""Vectors of a tile at most."""

STEPS = (4, 6, 5, 7, 3)
"""Steps of the sum per iteration, by preference."""

AHEAD = 4
"""Iterations from asking for rows of the matrix to reading them."""

PAGE = 4096


@record
class ResidentPlan:
    """How one contraction is scheduled. Loops from outside in: batches, a block of columns for each core, tiles of
    columns, tiles of rows, the sum, and in registers rows by vectors.
    """

    schedule: Schedule
    contraction: Contraction
    machine: CpuMachine

    def suits(self) -> bool:
        """Whether rows are few, and the matrix lies in rows, in the second cache, in whole tiles."""
        found = self.contraction
        load = found.column_operand
        if found.row is None or len(found.inner) != 1 or not self._has_known_extents():
            return False
        width, depth = extent_of(found.column.extent), extent_of(found.inner[0].extent)
        down = found.facts.stride(load.indices, load.buffer, found.inner[0].var)
        return (
            extent_of(found.row.extent) in ROWS
            and self.machine.l1d.bytes < width * depth * load.dtype.itemsize <= self.machine.l2.bytes * 3 // 2
            and found.facts.stride(load.indices, load.buffer, found.column.var) == 1
            and down is not None
            and down * load.dtype.itemsize < PAGE
            and self._vectors() > 0
            and self._steps() > 0
        )

    def apply(self) -> str:
        """Schedule the contraction; what was done, in words."""
        schedule, found = self.schedule, self.contraction
        name, load = found.facts.block.name, found.column_operand
        axes = found.facts.axes("spatial")
        *_, summed = schedule.loops(name)
        loops = dict(zip(axes, schedule.loops(name), strict=False))
        batches = [loops[a] for a in axes if a is not found.row and a is not found.column]
        block, tile, vector, lanes = self._cut_columns(loops[found.column])
        step, inside = schedule.split(summed, self._steps())
        tall, row = self._cut_rows(loops[self._row])
        schedule.reorder(*batches, block, tile, *tall, step, inside, row, vector, lanes)
        shares = self.machine.cores > 1 and found.facts.runs >= PARALLEL_PRODUCTS
        if shares:
            schedule.parallel(schedule.fuse(*batches, block) if batches else block)
        start = schedule.loops(schedule.decompose_reduction(name, step))
        schedule.prefetch(name, load.buffer, step, AHEAD, over=step)
        for loop in (start[-1], lanes):
            schedule.vectorize(loop)
        for loop in (*start[-3:-1], inside, row, vector):
            schedule.unroll(loop)
        return (
            f"contraction in register tiles of {self._height()} x {self._vectors() * self._lanes},"
            f" {load.buffer.name} read down its columns" + (", threads" if shares else "")
        )

    def _has_known_extents(self) -> bool:
        return all(isinstance(a.extent, Const) for a in self.contraction.facts.block.axes)

    @property
    def _row(self) -> Axis:
        return self.contraction.row or self.contraction.column

    @property
    def _lanes(self) -> int:
        return self.machine.lanes(self.contraction.facts.target.dtype.bits)

    def _height(self) -> int:
        return divide_evenly(extent_of(self._row.extent), TALLEST)

    def _shares(self) -> int:
        """Blocks of columns: one for each core, if there are no batches to share."""
        facts = self.contraction.facts
        others = (a for a in facts.axes("spatial") if a is not self._row and a is not self.contraction.column)
        return 1 if prod(extent_of(a.extent) for a in others) >= self.machine.cores else self.machine.cores

    def _vectors(self) -> int:
        """Vectors of a tile: as many as registers allow and tiles of a core hold without a rest, none if few do."""
        width, shared = extent_of(self.contraction.column.extent), self._shares() * self._lanes
        sums = self.machine.vector_registers * 3 // 4
        most = min(sums // self._height(), VECTORS)
        return next((v for v in range(most, most // 2, -1) if width % (v * shared) == 0), 0)

    def _steps(self) -> int:
        depth = extent_of(self.contraction.inner[0].extent)
        return next((s for s in STEPS if depth % s == 0), 0)

    def _cut_columns(self, loop: LoopHandle) -> tuple[LoopHandle, LoopHandle, LoopHandle, LoopHandle]:
        """The loops over blocks, tiles of a block, vectors of a tile, and lanes."""
        vectors, lanes = self._vectors(), self._lanes
        tiles = extent_of(self.contraction.column.extent) // (self._shares() * vectors * lanes)
        block, tile, vector, lane = self.schedule.split(loop, (tiles, vectors, lanes))
        return block, tile, vector, lane

    def _cut_rows(self, loop: LoopHandle) -> tuple[list[LoopHandle], LoopHandle]:
        """The loop over tiles of rows, if there are several, and over the rows of one."""
        if self._height() == extent_of(self._row.extent):
            return [], loop
        tall, row = self.schedule.split(loop, self._height())
        return [tall], row
