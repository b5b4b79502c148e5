"""Contractions: sums of products, recognised by their algebra, as blocked register-tiled loops.

Each axis of the block plays a role by where it occurs: `column` is the last axis of the result (vector lanes), `row` an
axis of the other operand only (register rows), `inner` axes are summed, the rest are outer loops. Blocking follows Goto
and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): a panel of the column operand stays in the
first cache, a block of the row operand in the second, and a tile of the result in registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Axis, Binary, Cast, Const, Expr, Load, Var
from lpx.rules.elementwise import share
from lpx.rules.facts import BlockFacts, extent_of, facts_of
from lpx.schedule import queries
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine

MIN_PACKED_ROWS = 48
"""Rows of the result from which on a packed panel is reused often enough to pay."""

MAX_DEPTH = 3072
"""Length of the sum up to which a tile of the result stays in registers from start to end."""


@dataclass(frozen=True)
class Contraction:
    """The roles in `result[.., row, .., column] += row_operand * column_operand`. `row` may be missing (a vector)."""

    facts: BlockFacts
    row_operand: Load
    column_operand: Load
    row: Axis | None
    column: Axis
    inner: tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class Tiles:
    """Sizes of blocks, in iterations: register tile `rows` x `columns`, `depth` of a panel, `block` of rows."""

    rows: int
    columns: int
    depth: int
    block: int


def recognise(facts: BlockFacts) -> Contraction | None:
    """The contraction that a block is, if it is one."""
    if not facts.is_reduction or not facts.is_plain or facts.axes("sequential") or not facts.writes_in_order():
        return None
    value = facts.stores[0].value
    if not isinstance(value, Binary) or value.op != "add" or not isinstance(value.b, Binary) or value.b.op != "mul":
        return None
    left, right = _operand(value.b.a), _operand(value.b.b)
    spatial = facts.axes("spatial")
    if left is None or right is None or not spatial:
        return None
    column = spatial[-1]
    if _mentions(left, column) == _mentions(right, column):
        return None
    rows, columns = (right, left) if _mentions(left, column) else (left, right)
    candidates = [a for a in spatial[:-1] if _mentions(rows, a) and not _mentions(columns, a)]
    row = max(candidates, key=lambda a: extent_of(a.extent), default=None)
    if not all(_mentions(rows, a) or _mentions(columns, a) for a in facts.axes("reduce")):
        return None
    return Contraction(facts, rows, columns, row, column, facts.axes("reduce"))


def _operand(expr: Expr) -> Load | None:
    inside = expr.value if isinstance(expr, Cast) else expr
    return inside if isinstance(inside, Load) else None


def _mentions(load: Load, axis: Axis) -> bool:
    return any(axis.var in expr_traverse.free_vars(i) for i in load.indices)


def choose_tiles(contraction: Contraction, machine: CpuMachine) -> Tiles:
    """Tile sizes from register counts, cache sizes and the extents."""
    facts = contraction.facts
    itemsize = facts.target.dtype.itemsize
    lanes = machine.lanes(facts.target.dtype.bits)
    width = extent_of(contraction.column.extent)
    height = 1 if contraction.row is None else extent_of(contraction.row.extent)
    vectors = 1 if width <= lanes else 2
    columns = min(width, vectors * lanes)
    most = (machine.vector_registers - vectors - 2) // vectors
    rows = _divide_evenly(height, most)
    inner = math.prod(extent_of(a.extent) for a in contraction.inner)
    depth = inner if inner <= MAX_DEPTH else _divide_evenly(inner, MAX_DEPTH // 3)
    cached = max(rows, machine.l2.bytes // 2 // (depth * itemsize))
    shares = machine.cores * -(-height // (cached * machine.cores))
    return Tiles(rows, columns, depth, -(-height // shares // rows) * rows)


def _divide_evenly(extent: int, most: int) -> int:
    """The size of at most `most` that covers `extent` in equal parts, as far as it goes."""
    return -(-extent // -(-extent // most)) if extent > 0 else 1


def apply(schedule: Schedule, name: str, machine: CpuMachine) -> str:
    """Schedule one block as a contraction; what was done, or "" where it is none."""
    contraction = recognise(facts_of(schedule.function)[name])
    if contraction is None:
        return ""
    tiles = choose_tiles(contraction, machine)
    plan = _Plan(schedule, contraction, tiles, _epilogue(schedule, contraction))
    return plan.blocked() if plan.packs() else plan.tiled()


def _epilogue(schedule: Schedule, contraction: Contraction) -> str:
    """The one element-wise block that reads the result, position by position, and nothing else does; "" for none."""
    target = contraction.facts.target
    readers = [b for b in queries.readers(schedule.function, target) if b.name != contraction.facts.block.name]
    if len(readers) != 1 or target in queries.param_buffers(schedule.function):
        return ""
    facts = facts_of(schedule.function)[readers[0].name]
    own, theirs = facts.axes("spatial"), contraction.facts.axes("spatial")
    if facts.is_reduction or not facts.is_plain or not facts.writes_in_order() or len(own) != len(theirs):
        return ""
    reads = [e for e in facts.loads if e.buffer is target]
    aligned = all(i is a.var for e in reads for i, a in zip(e.indices, own, strict=True))
    same = all(extent_of(a.extent) == extent_of(b.extent) for a, b in zip(own, theirs, strict=True))
    return readers[0].name if aligned and same else ""


@dataclass(frozen=True, slots=True)
class _Plan:
    """How one contraction is scheduled. `host` is the block whose loops are tiled: the epilogue, or the contraction."""

    schedule: Schedule
    contraction: Contraction
    tiles: Tiles
    epilogue: str

    @property
    def name(self) -> str:
        return self.contraction.facts.block.name

    @property
    def host(self) -> str:
        return self.epilogue or self.name

    def packs(self) -> bool:
        """Whether both operands are worth copying into panels: two-dimensional, large, of known extents."""
        spatial = self.contraction.facts.axes("spatial")
        static = all(isinstance(a.extent, Const) for a in self.contraction.facts.block.axes)
        plain = len(spatial) == 2 and len(self.contraction.inner) == 1 and self.contraction.row is not None
        big = all(extent_of(a.extent) >= MIN_PACKED_ROWS for a in spatial)
        both = (self.contraction.row_operand, self.contraction.column_operand)
        return static and plain and big and all(all(isinstance(i, Var) for i in load.indices) for load in both)

    def blocked(self) -> str:
        """Both operands packed: blocks of rows (threads), panels of columns, register tiles."""
        schedule, name, tiles = self.schedule, self.name, self.tiles
        rows = schedule.pack(name, self.contraction.row_operand.buffer, self._panel("row", tiles.rows))
        columns = schedule.pack(name, self.contraction.column_operand.buffer, self._panel("column", tiles.columns))
        row, column = schedule.loops(self.host)[:2]
        block, tile_row, in_row = schedule.split(row, (tiles.block // tiles.rows, tiles.rows))
        tile_column, in_column = schedule.split(column, tiles.columns, tail="mask")
        deep = tiles.depth < extent_of(self.contraction.inner[0].extent)
        if deep and self.epilogue:
            return self.tiled()
        if self.epilogue:
            schedule.reorder(block, tile_column, tile_row, in_row, in_column)
            self._finish_epilogue(tile_row, in_row, in_column)
            outer = block
        else:
            step = schedule.loops(name)[-1]
            panel = [step]
            if deep:
                panel = list(schedule.split(step, tiles.depth))
            schedule.reorder(block, *panel[:-1], tile_column, tile_row, panel[-1], in_row, in_column)
            self._finish(panel[0], in_row, in_column)
            outer = panel[0] if deep else block
        schedule.compute_at(rows, outer)
        schedule.compute_at(columns, tile_column)
        for copy in (rows, columns):
            schedule.vectorize(schedule.loops(copy)[-1])
        schedule.parallel(block)
        return (
            f"contraction in register tiles of {tiles.rows} x {tiles.columns}, panels {tiles.depth} deep, blocks of "
            f"{tiles.block} rows, both operands packed, threads{self._with_epilogue()}"
        )

    def _with_epilogue(self) -> str:
        return f", {self.epilogue} applied to each tile" if self.epilogue else ""

    def _panel(self, role: str, width: int) -> Callable[..., tuple[Expr, ...]]:
        """The map that lays an operand out as panels: [tile, inner, within the tile]."""
        load = self.contraction.row_operand if role == "row" else self.contraction.column_operand
        axis = self.contraction.row if role == "row" else self.contraction.column
        first = axis is not None and load.indices[0] is axis.var

        def panel(a: Expr, b: Expr) -> tuple[Expr, Expr, Expr]:
            along, across = (a, b) if first else (b, a)
            return along // width, across, along % width

        return panel

    def _finish(self, inner: LoopHandle, in_row: LoopHandle | None, in_column: LoopHandle) -> None:
        """Start the accumulation before `inner`; unroll rows and vectorize columns of the tile."""
        schedule = self.schedule
        start = schedule.decompose_reduction(self.name, inner)
        if in_row is not None:
            schedule.unroll(in_row)
            schedule.unroll(schedule.loops(start)[-2])
        schedule.vectorize(in_column)
        schedule.vectorize(schedule.loops(start)[-1])

    def _finish_epilogue(self, tile: LoopHandle, in_row: LoopHandle | None, in_column: LoopHandle) -> None:
        """Compute the contraction's tile in registers inside `tile`, before the epilogue uses it."""
        schedule = self.schedule
        schedule.compute_at(self.name, tile)
        around = [h.name for h in schedule.loops(self.host)]
        own = schedule.loops(self.name)[around.index(tile.name) + 1 :]
        inner = list(own[len(own) - len(self.contraction.inner) :])
        spatial = list(own[: len(own) - len(inner)])
        schedule.reorder(*inner, *spatial)
        self._finish(inner[0], spatial[-2] if in_row is not None and len(spatial) > 1 else None, spatial[-1])
        schedule.set_scope(self.name, "register")
        if in_row is not None:
            schedule.unroll(in_row)
        schedule.vectorize(in_column)

    def tiled(self) -> str:
        """Register tiles over operands as they lie in memory."""
        schedule, contraction, tiles = self.schedule, self.contraction, self.tiles
        axes = list(contraction.facts.axes("spatial"))
        loops = list(schedule.loops(self.host)[: len(axes)])
        by_axis = dict(zip(axes, loops, strict=True))
        outer = [by_axis[a] for a in axes if a is not contraction.row and a is not contraction.column]
        column, vector = self._cut(by_axis[contraction.column], contraction.column, tiles.columns, "mask")
        row: list[LoopHandle] = []
        in_row: LoopHandle | None = None
        if contraction.row is not None:
            row, in_row = self._cut(by_axis[contraction.row], contraction.row, tiles.rows, "guard")
        tile = [*outer, *row, *column]
        unrolled = [] if in_row is None else [in_row]
        if self.epilogue:
            if not tile:
                tile = [schedule.add_unit_loop(loops[0])]
            schedule.reorder(*tile, *unrolled, vector)
            self._finish_epilogue(tile[-1], in_row, vector)
        else:
            inner = schedule.loops(self.name)[-len(contraction.inner) :]
            schedule.reorder(*tile, *inner, *unrolled, vector)
            self._finish(inner[0], in_row, vector)
        shared = share(schedule, [*outer, *row] or column, contraction.facts.runs)
        return f"contraction in register tiles of {tiles.rows} x {tiles.columns}{shared}{self._with_epilogue()}"

    def _cut(
        self, loop: LoopHandle, axis: Axis, size: int, tail: Literal["guard", "mask"]
    ) -> tuple[list[LoopHandle], LoopHandle]:
        """Split off `size` iterations, where the axis has more."""
        if isinstance(axis.extent, Const) and extent_of(axis.extent) <= size:
            return [], loop
        outer, inside = self.schedule.split(loop, size, tail=tail)
        return [outer], inside
