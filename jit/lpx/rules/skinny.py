"""Contractions of few rows by a matrix that no cache holds: the matrix is read once, as it lies in memory.

A vector by a matrix is bound by reading the matrix. Tiles that stay in registers would walk down its columns, from page
to page; here some rows of the matrix at a time are added to all of the result, which stays in a cache.
"""

from __future__ import annotations

from lpx.records import record
from lpx.rules.contraction import PARALLEL_PRODUCTS, Contraction
from lpx.rules.facts import extent_of
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine

MOST_ROWS = 8
"""Rows up to which reading the matrix takes longer than multiplying."""

VECTORS = 2
"""Vectors of columns at a time."""

STEPS = (8, 4, 6, 7, 5, 3)
"""Rows of the matrix at a time, by preference: as many products for each element of the result read and written."""


@record
class SkinnyPlan:
    """How one contraction of few rows is scheduled.

    Loops from outside in: batches, blocks of columns, rows of the matrix, columns, and in registers some rows of the
    matrix by all rows of the result by a vector of columns.
    """

    schedule: Schedule
    contraction: Contraction
    machine: CpuMachine

    def suits(self) -> bool:
        """Whether rows are few, the matrix lies in rows, and is larger than the first cache."""
        found = self.contraction
        load = found.column_operand
        rows = 1 if found.row is None else extent_of(found.row.extent)
        size = extent_of(found.column.extent) * extent_of(found.inner[0].extent) * load.dtype.itemsize
        return (
            rows <= MOST_ROWS
            and len(found.inner) == 1
            and size > self.machine.l1d.bytes
            and found.facts.stride(load.indices, load.buffer, found.column.var) == 1
            and extent_of(found.column.extent) >= self._lanes
        )

    @property
    def _lanes(self) -> int:
        return VECTORS * self.machine.lanes(self.contraction.facts.target.dtype.bits)

    def apply(self) -> str:
        """Schedule the contraction; what was done, in words."""
        schedule, found = self.schedule, self.contraction
        name = found.facts.block.name
        axes = found.facts.axes("spatial")
        *_, summed = schedule.loops(name)
        loops = dict(zip(axes, schedule.loops(name), strict=False))
        batches = [loops[a] for a in axes if a is not found.row and a is not found.column]
        block, columns, lanes = self._cut_columns(loops[found.column])
        steps = next((s for s in STEPS if extent_of(found.inner[0].extent) % s == 0), STEPS[0])
        part, step = schedule.split(summed, steps)
        rows = [] if found.row is None else [loops[found.row]]
        schedule.reorder(*batches, *block, part, columns, step, *rows, lanes)
        outermost = [*batches, *block]
        shares = self.machine.cores > 1 and found.facts.runs >= PARALLEL_PRODUCTS and bool(outermost)
        if shares:
            schedule.parallel(schedule.fuse(*outermost) if len(outermost) > 1 else outermost[0])
        start = schedule.loops(schedule.decompose_reduction(name, part))
        for loop in (start[-1], lanes):
            schedule.vectorize(loop)
        for loop in (step, *rows):
            schedule.unroll(loop)
        return f"{steps} rows of {found.column_operand.buffer.name} at a time added to the result" + (
            ", threads" if shares else ""
        )

    def _cut_columns(self, loop: LoopHandle) -> tuple[list[LoopHandle], LoopHandle, LoopHandle]:
        """The loops over blocks of columns, one for each core, over vectors, and over their lanes."""
        width, lanes = extent_of(self.contraction.column.extent), self._lanes
        vectors = -(-width // lanes)
        if self.machine.cores == 1 or vectors < 2 * self.machine.cores:
            columns, inside = self.schedule.split(loop, lanes, tail="mask")
            return [], columns, inside
        block, columns, inside = self.schedule.split(loop, (-(-vectors // self.machine.cores), lanes), tail="mask")
        return [block], columns, inside
