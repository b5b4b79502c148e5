"""Contractions of few rows: what the ways to schedule them share."""

from __future__ import annotations

from abc import ABC, abstractmethod

from lpx.expr.nodes import Axis, Const
from lpx.records import record
from lpx.rules.contraction import PARALLEL_PRODUCTS, Contraction, divide_evenly
from lpx.rules.facts import extent_of
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine

TALLEST = 8
"""Rows of a tile."""


@record
class FewRowsPlan(ABC):
    """How one contraction is scheduled whose sum has one axis."""

    schedule: Schedule
    contraction: Contraction
    machine: CpuMachine

    @abstractmethod
    def suits(self) -> bool:
        """Whether the contraction has the shape and the layout that this way is for."""

    @abstractmethod
    def apply(self) -> str:
        """Schedule the contraction; what was done, in words."""

    @property
    def name(self) -> str:
        return self.contraction.facts.block.name

    @property
    def rows(self) -> int:
        return 1 if self.contraction.row is None else extent_of(self.contraction.row.extent)

    @property
    def width(self) -> int:
        return extent_of(self.contraction.column.extent)

    @property
    def lanes(self) -> int:
        return self.machine.lanes(self.contraction.facts.target.dtype.bits)

    @property
    def height(self) -> int:
        """Rows of a tile: in equal parts."""
        return divide_evenly(self.rows, TALLEST)

    @property
    def registers_for_sums(self) -> int:
        return self.machine.vector_registers * 3 // 4

    @property
    def uses_threads(self) -> bool:
        return self.machine.cores > 1 and self.contraction.facts.runs >= PARALLEL_PRODUCTS

    def has_known_extents(self) -> bool:
        return all(isinstance(a.extent, Const) for a in self.contraction.facts.block.axes)

    def stride(self, along: Axis) -> int | None:
        """Elements between neighbours of the column operand along an axis."""
        load = self.contraction.column_operand
        return self.contraction.facts.stride(load.indices, load.buffer, along.var)

    def loops(self) -> tuple[dict[Axis, LoopHandle], list[LoopHandle], LoopHandle]:
        """The loop of each axis of the result, those of batches among them, and the loop of the sum."""
        found = self.contraction
        axes = found.facts.axes("spatial")
        *_, summed = self.schedule.loops(self.name)
        loops = dict(zip(axes, self.schedule.loops(self.name), strict=False))
        return loops, [loops[a] for a in axes if a is not found.row and a is not found.column], summed

    def cut_rows(self, loops: dict[Axis, LoopHandle]) -> tuple[list[LoopHandle], list[LoopHandle]]:
        """The loop over tiles of rows, if there are several, and that over the rows of one."""
        if self.contraction.row is None:
            return [], []
        loop = loops[self.contraction.row]
        if self.height == self.rows:
            return [], [loop]
        tall, row = self.schedule.split(loop, self.height)
        return [tall], [row]

    def share(self, outer: list[LoopHandle]) -> str:
        """Share the iterations of the outermost loops among threads, if that pays; what was done."""
        if not self.uses_threads or not outer:
            return ""
        self.schedule.parallel(self.schedule.fuse(*outer) if len(outer) > 1 else outer[0])
        return ", threads"
