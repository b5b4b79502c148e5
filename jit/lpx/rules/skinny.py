"""Contractions of few rows by a matrix that no cache holds: the matrix is read once, as it lies in memory.

A vector by a matrix is bound by reading the matrix. Tiles that stay in registers would walk down its columns, from page
to page; here some rows of the matrix at a time are added to all of the result, which stays in a cache.
"""

from __future__ import annotations

from lpx.records import record
from lpx.rules.facts import extent_of
from lpx.rules.few_rows import FewRowsPlan
from lpx.schedule.handles import LoopHandle

MOST_ROWS = 8
"""Rows up to which reading the matrix takes longer than multiplying."""

VECTORS = 2
"""Vectors of columns at a time."""

STEPS = (8, 4, 6, 7, 5, 3)
"""Rows of the matrix at a time, by preference: as many products for each element of the result read and written."""


@record
class SkinnyPlan(FewRowsPlan):
    """Loops from outside in: batches, blocks of columns, rows of the matrix, columns, and in registers some rows of the
    matrix by all rows of the result by a vector of columns.
    """

    def suits(self) -> bool:
        """Whether rows are few, the matrix lies in rows, and is larger than the first cache."""
        found = self.contraction
        if len(found.inner) != 1 or self.rows > MOST_ROWS or self.stride(found.column) != 1:
            return False
        size = self.width * extent_of(found.inner[0].extent) * found.column_operand.dtype.itemsize
        return size > self.machine.l1d.bytes and self.width >= self._vector

    @property
    def _vector(self) -> int:
        """Columns in registers at a time."""
        return VECTORS * self.lanes

    def apply(self) -> str:
        """Schedule the contraction; what was done, in words."""
        schedule, found, name = self.schedule, self.contraction, self.name
        loops, batches, summed = self.loops()
        block, columns, lanes = self._cut_columns(loops[found.column])
        steps = next((s for s in STEPS if extent_of(found.inner[0].extent) % s == 0), STEPS[0])
        part, step = schedule.split(summed, steps)
        rows = [] if found.row is None else [loops[found.row]]
        schedule.reorder(*batches, *block, part, columns, step, *rows, lanes)
        shared = self.share([*batches, *block])
        start = schedule.loops(schedule.decompose_reduction(name, part))
        for loop in (start[-1], lanes):
            schedule.vectorize(loop)
        for loop in (step, *rows):
            schedule.unroll(loop)
        return f"{steps} rows of {found.column_operand.buffer.name} at a time added to the result" + shared

    def _cut_columns(self, loop: LoopHandle) -> tuple[list[LoopHandle], LoopHandle, LoopHandle]:
        """The loops over blocks of columns, one for each core, over vectors, and over their lanes."""
        vectors = -(-self.width // self._vector)
        if self.machine.cores == 1 or vectors < 2 * self.machine.cores:
            columns, inside = self.schedule.split(loop, self._vector, tail="mask")
            return [], columns, inside
        parts = (-(-vectors // self.machine.cores), self._vector)
        block, columns, inside = self.schedule.split(loop, parts, tail="mask")
        return [block], columns, inside
