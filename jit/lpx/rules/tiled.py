"""Contractions whose operands are read where they lie, or in panels copied as a whole: loops over register tiles.

A panel of the column operand stays in the first cache, a block of the row operand in the second, and a tile of the
result in registers, as in Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
"""

from __future__ import annotations

import math
from typing import Literal

from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Axis, Const, Var
from lpx.records import record
from lpx.rules.contraction import PARALLEL_PRODUCTS, Contraction, divide_evenly, loops_inside, pack_columns
from lpx.rules.elementwise import PARALLEL_WORK, share
from lpx.rules.facts import extent_of, facts_of
from lpx.schedule import queries
from lpx.schedule.errors import OptionError
from lpx.schedule.handles import BlockHandle, LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine

MIN_REUSE = 4
"""How often a panel is read again, at least, for copying it to pay."""

LIGHT = PARALLEL_PRODUCTS // PARALLEL_WORK
"""Products that take as long as one operation of an element-wise block."""

FAR = 1024
"""Bytes between neighbours of a tile from which on they share too few cache sets."""

BLOCKED_TILES = 4
"""Tiles of rows for each thread from which on rows are blocked for the second cache."""

STEPS = (8, 4, 6, 7, 5, 3)
"""Steps of the sum per iteration of a tile one vector wide, by preference: alone, one has few products."""

MAX_DEPTH = 3072
"""Length of the sum up to which a tile of the result stays in registers from start to end."""


@record
class Tiles:
    """Sizes of blocks, in iterations: register tile `rows` x `columns`, `depth` of a panel, `block` of rows."""

    rows: int
    columns: int
    depth: int
    block: int


def choose_tiles(contraction: Contraction, machine: CpuMachine) -> Tiles:
    """Tile sizes from register counts, cache sizes and the extents."""
    facts = contraction.facts
    itemsize = facts.target.dtype.itemsize
    lanes = machine.lanes(facts.target.dtype.bits)
    width = extent_of(contraction.column.extent)
    height = 1 if contraction.row is None else extent_of(contraction.row.extent)
    vectors = 1 if width <= lanes else 2
    columns = vectors * lanes  # whole registers: LLVM takes a vector of another length apart, element by element
    most = (machine.vector_registers - vectors - 2) // vectors if vectors > 1 else machine.vector_registers * 3 // 4
    rows = _tile_rows(height, most)
    inner = math.prod(extent_of(a.extent) for a in contraction.inner)
    depth = inner if inner <= MAX_DEPTH else divide_evenly(inner, MAX_DEPTH // 3)
    cached = max(rows, machine.l2.bytes // 2 // (depth * itemsize))
    shares = machine.cores * max(1, -(-height // (cached * machine.cores)))
    return Tiles(rows, columns, depth, -(-height // shares // rows) * rows)


def _tile_rows(height: int, most: int) -> int:
    """Rows of a register tile: the largest number that divides the height, if it is not much less than `most`."""
    exact = max(d for d in range(1, most + 1) if height % d == 0) if height else 1
    return exact if exact * 3 >= most * 2 else divide_evenly(height, most)


@record
class TiledPlan:
    """How one contraction is scheduled. `host` is the block whose loops are tiled: the epilogue, or the contraction.

    Loops from outside in: other axes, blocks of rows, tiles of columns, tiles of rows, the sum, the tile itself.
    """

    schedule: Schedule
    contraction: Contraction
    tiles: Tiles
    epilogue: str
    machine: CpuMachine

    @property
    def name(self) -> str:
        return self.contraction.facts.block.name

    @property
    def host(self) -> str:
        return self.epilogue or self.name

    @property
    def height(self) -> int:
        return 1 if self.contraction.row is None else extent_of(self.contraction.row.extent)

    @property
    def width(self) -> int:
        return extent_of(self.contraction.column.extent)

    def apply(self) -> str:
        """Schedule the contraction; what was done, in words."""
        schedule, contraction = self.schedule, self.contraction
        panels = pack_columns(schedule, contraction, self.tiles.columns) if self.packs_columns() else None
        axes = contraction.facts.axes("spatial")
        loops = dict(zip(axes, schedule.loops(self.host), strict=False))
        others = [a for a in axes if a is not contraction.row and a is not contraction.column]
        outer = [loops[a] for a in others]
        tile_column, in_column = self._cut(loops[contraction.column], contraction.column, self.tiles.columns, "mask")
        block, tile_row, in_row = self._cut_rows(loops)
        first = [*outer, *block]
        if self._rows_stream(outer):
            first, tile_row = [*block, *tile_row, *outer], []
        panel = self._sum(first, [*tile_column, *tile_row], in_row, in_column)
        if panels is not None:
            used = {v for i in contraction.column_operand.indices for v in expr_traverse.free_vars(i)}
            own = [*panel, *tile_column, *(loops[a] for a in others if a.var in used)]
            self._place(panels, [h for h in (*first, *panel, *tile_column) if any(h is o for o in own)])
        shared = share(schedule, self.machine, first or [*tile_column, *tile_row], contraction.facts.runs // LIGHT)
        return (
            f"contraction in register tiles of {self.tiles.rows} x {self.tiles.columns}"
            + (", columns packed into panels" if panels is not None else "")
            + shared
            + (f", {self.epilogue} applied to each tile" if self.epilogue else "")
        )

    def _rows_stream(self, outer: list[LoopHandle]) -> bool:
        """Whether the row operand is too large to stay in the second cache while the other axes run.

        Its tiles then go outermost: each is read once, and all the rest for each of them.
        """
        load, row = self.contraction.row_operand, self.contraction.row
        size = math.prod(extent_of(e) for e in load.buffer.shape) * load.dtype.itemsize
        used = {v for i in load.indices for v in expr_traverse.free_vars(i)}
        reread = [
            a for a in self.contraction.facts.axes("spatial") if a.var not in used and a is not self.contraction.column
        ]
        return row is not None and bool(outer) and len(reread) == len(outer) and size > self.machine.l2.bytes // 2

    def packs_columns(self) -> bool:
        """Whether columns do not lie side by side, or a panel's rows lie far apart and would not be found in a cache.

        One tile of rows reads a panel once: copying it pays only if it comes from beyond the second cache.
        """
        if not self._is_plain() or self.height < MIN_REUSE:
            return False
        load = self.contraction.column_operand
        stride = self.contraction.facts.stride
        if stride(load.indices, load.buffer, self.contraction.column.var) != 1:
            return True
        down = stride(load.indices, load.buffer, self.contraction.inner[-1].var)
        is_far = down is not None and down * load.dtype.itemsize >= FAR
        size = math.prod(extent_of(e) for e in load.buffer.shape) * load.dtype.itemsize
        return is_far and (self.height > self.tiles.rows or size > self.machine.l2.bytes // 2)

    def _is_plain(self) -> bool:
        """Whether the column operand is indexed by axes of the block themselves, all of known extent."""
        indices = self.contraction.column_operand.indices
        known = {a.var for a in self.contraction.facts.block.axes if isinstance(a.extent, Const)}
        summed = {a.var for a in self.contraction.inner}
        plain = all(isinstance(i, Var) and i in known for i in indices)
        return plain and len({i for i in indices if i in summed}) == len(summed)

    def _place(self, copy: BlockHandle, inside: list[LoopHandle]) -> None:
        """Run a packing copy, in vectors, inside the given loop, or before all loops where it is the same for all."""
        schedule = self.schedule
        if inside:
            schedule.compute_at(copy, inside[-1])
        *around, vector = schedule.loops(copy)
        if not inside:
            share(schedule, self.machine, around, facts_of(schedule.function)[copy.name].runs)
        schedule.vectorize(vector)

    def _cut_rows(self, loops: dict[Axis, LoopHandle]) -> tuple[list[LoopHandle], list[LoopHandle], LoopHandle | None]:
        """Blocks of rows (where every thread gets some), tiles of rows, and the rows of a tile."""
        row, tiles = self.contraction.row, self.tiles
        if row is None:
            return [], [], None
        if self.height < BLOCKED_TILES * tiles.rows * self.machine.cores or not isinstance(row.extent, Const):
            tile, inside = self._cut(loops[row], row, tiles.rows, "guard")
            return [], tile, inside
        block, tile_row, inside = self.schedule.split(loops[row], (tiles.block // tiles.rows, tiles.rows))
        return [block], [tile_row], inside

    def _cut(
        self, loop: LoopHandle, axis: Axis, size: int, tail: Literal["guard", "mask"]
    ) -> tuple[list[LoopHandle], LoopHandle]:
        """Split off `size` iterations, with lanes to spare where the axis has fewer."""
        extent = extent_of(axis.extent)
        if isinstance(axis.extent, Const) and (extent == size or (extent < size and tail == "guard")):
            return [], loop
        outer, inside = self.schedule.split(loop, size, tail=tail)
        return [outer], inside

    def _sum(
        self, outer: list[LoopHandle], tiles: list[LoopHandle], in_row: LoopHandle | None, in_column: LoopHandle
    ) -> list[LoopHandle]:
        """Put the sum inside the loops over tiles and the tile inside the sum; the loop over panels, if it is cut."""
        schedule, count = self.schedule, len(self.contraction.inner)
        inside = [in_column] if in_row is None else [in_row, in_column]
        if self.epilogue:
            self._sum_in_epilogue([*outer, *tiles], inside)
            return []
        inner = list(schedule.loops(self.name)[-count:])
        panel: list[LoopHandle] = []
        if count == 1 and self.tiles.depth < extent_of(self.contraction.inner[0].extent):
            first, second = schedule.split(inner[0], self.tiles.depth)
            panel, inner = [first], [second]
        inner = self._unrolled(inner)
        schedule.reorder(*outer, *panel, *tiles, *inner, *inside)
        self._finish((panel or inner)[0], inside)
        return panel

    def _unrolled(self, inner: list[LoopHandle]) -> list[LoopHandle]:
        """The loops of the sum; where a tile is one vector wide, the last is cut into iterations of several steps."""
        extent = queries.constant_value(self.schedule.loop_of(inner[-1]).extent)
        steps = next((s for s in STEPS if extent is not None and extent > s and extent % s == 0), 1)
        if steps == 1 or self.tiles.columns > self.machine.lanes(self.contraction.facts.target.dtype.bits):
            return inner
        outer, step = self.schedule.split(inner[-1], steps)
        self.schedule.unroll(step)
        return [*inner[:-1], outer, step]

    def _sum_in_epilogue(self, tiles: list[LoopHandle], inside: list[LoopHandle]) -> None:
        """Compute the contraction's tile in registers, before the epilogue uses it."""
        schedule = self.schedule
        if not tiles:
            tiles = [schedule.add_unit_loop(inside[0])]
        if len(tiles) + len(inside) > 1:
            schedule.reorder(*tiles, *inside)
        schedule.compute_at(self.name, tiles[-1])
        inner = loops_inside(schedule, self.name, tiles[-1], [a.var for a in self.contraction.inner])
        axes = (
            [self.contraction.column]
            if self.contraction.row is None
            else [self.contraction.row, self.contraction.column]
        )
        spatial = loops_inside(schedule, self.name, tiles[-1], [a.var for a in axes])
        if not inner or not spatial:
            raise OptionError("a tile of the contraction has nothing to run over")
        inner = self._unrolled(inner)
        schedule.reorder(*inner, *spatial)
        self._finish(inner[0], spatial)
        schedule.set_scope(self.name, "register")
        for row in inside[:-1]:
            schedule.unroll(row)
        schedule.vectorize(inside[-1])

    def _finish(self, inner: LoopHandle, inside: list[LoopHandle]) -> None:
        """Start the accumulation before `inner`; unroll the rows and vectorize the columns of the tile."""
        schedule = self.schedule
        start = schedule.loops(schedule.decompose_reduction(self.name, inner))
        for row, start_row in zip(inside[:-1], start[-len(inside) : -1], strict=True):
            schedule.unroll(row)
            schedule.unroll(start_row)
        schedule.vectorize(inside[-1])
        schedule.vectorize(start[-1])
