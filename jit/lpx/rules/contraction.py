"""Contractions: sums of products, recognised by their algebra, as blocked register-tiled loops.

Each axis of the block plays a role by where it occurs: `column` is the last axis of the result (vector lanes), `row` an
axis of the other operand only (register rows), `inner` axes are summed, the rest are outer loops. Blocking follows Goto
and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): a panel of the column operand stays in the
first cache, a block of the row operand in the second, and a tile of the result in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Axis, Binary, Cast, Const, Expr, Load
from lpx.rules.elementwise import share
from lpx.rules.facts import BlockFacts, extent_of, facts_of
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine

MIN_PACKED_ROWS = 48
"""Rows of the result from which on a packed panel is reused often enough to pay."""


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
    columns = min(width, lanes) if vectors == 1 else min(width, 2 * lanes)
    most = (machine.vector_registers - vectors - 2) // vectors
    rows = _divide_evenly(height, min(most, height))
    depth = max(1, machine.l1d.bytes * 2 // 3 // (columns * itemsize))
    inner = extent_of(contraction.inner[0].extent) if len(contraction.inner) == 1 else 0
    depth = inner if inner <= depth * 3 // 2 else _divide_evenly(inner, depth)
    shares = machine.cores * max(1, -(-height * depth * itemsize // (machine.l2.bytes // 2 * machine.cores)))
    block = -(-height // shares)
    return Tiles(rows, columns, max(depth, 1), -(-block // rows) * rows)


def _divide_evenly(extent: int, most: int) -> int:
    """The size of at most `most` that covers `extent` in equal parts, as far as it goes."""
    return -(-extent // -(-extent // most)) if extent > 0 else 1


def apply(schedule: Schedule, name: str, machine: CpuMachine) -> str:
    """Schedule one block as a contraction; what was done, or "" where it is none."""
    contraction = recognise(facts_of(schedule.function)[name])
    if contraction is None:
        return ""
    tiles = choose_tiles(contraction, machine)
    if contraction.row is not None and len(contraction.inner) == 1 and _packs(contraction):
        return _blocked(schedule, contraction, tiles)
    return _tiled(schedule, contraction, tiles, machine)


def _packs(contraction: Contraction) -> bool:
    row = contraction.row
    static = all(isinstance(a.extent, Const) for a in contraction.facts.block.axes)
    big = row is not None and extent_of(row.extent) >= MIN_PACKED_ROWS
    return static and big and extent_of(contraction.column.extent) >= MIN_PACKED_ROWS and len(_outer(contraction)) == 0


def _outer(contraction: Contraction) -> list[Axis]:
    return [a for a in contraction.facts.axes("spatial") if a is not contraction.row and a is not contraction.column]


def _loops_of(schedule: Schedule, contraction: Contraction) -> dict[Axis, LoopHandle]:
    """The loop of each axis of a block that has not been scheduled yet."""
    loops = schedule.loops(contraction.facts.block.name)
    return dict(zip(contraction.facts.block.axes, loops, strict=True))


def _blocked(schedule: Schedule, contraction: Contraction, tiles: Tiles) -> str:
    """Both operands packed: blocks of rows (threads), panels of depth, panels of columns, register tiles."""
    name = contraction.facts.block.name
    assert contraction.row is not None
    loops = _loops_of(schedule, contraction)
    row, column, inner = loops[contraction.row], loops[contraction.column], loops[contraction.inner[0]]
    rows, columns = tiles.rows, tiles.columns
    packed_rows = schedule.pack(name, contraction.row_operand.buffer, _panel(contraction, "row", rows))
    packed_columns = schedule.pack(name, contraction.column_operand.buffer, _panel(contraction, "column", columns))
    block, tile_row, in_row = schedule.split(row, (tiles.block // rows, rows))
    tile_column, in_column = schedule.split(column, columns, tail="mask")
    panel, step = schedule.split(inner, tiles.depth)
    schedule.reorder(block, panel, tile_column, tile_row, step, in_row, in_column)
    schedule.compute_at(packed_rows, panel)
    schedule.compute_at(packed_columns, tile_column)
    start = schedule.decompose_reduction(name, panel)
    for copy in (packed_rows, packed_columns):
        schedule.vectorize(schedule.loops(copy)[-1])
    schedule.vectorize(schedule.loops(start)[-1])
    schedule.unroll(in_row)
    schedule.vectorize(in_column)
    schedule.parallel(block)
    return (
        f"contraction in register tiles of {rows} x {columns}, panels {tiles.depth} deep, blocks of {tiles.block} rows, "
        "both operands packed, threads"
    )


def _panel(contraction: Contraction, role: str, width: int):
    """The map that lays an operand out as panels: [tile, inner, within the tile]."""
    load = contraction.row_operand if role == "row" else contraction.column_operand
    axis = contraction.row if role == "row" else contraction.column
    position = next(k for k, i in enumerate(load.indices) if axis is not None and i is axis.var)
    if position == 0:
        return lambda a, b: (a // width, b, a % width)
    return lambda a, b: (b // width, a, b % width)


def _tiled(schedule: Schedule, contraction: Contraction, tiles: Tiles, machine: CpuMachine) -> str:
    """Register tiles over operands as they lie in memory."""
    facts = contraction.facts
    name = facts.block.name
    loops = _loops_of(schedule, contraction)
    outer = [loops[a] for a in _outer(contraction)]
    inner = [loops[a] for a in contraction.inner]
    lanes = machine.lanes(facts.target.dtype.bits)
    column: list[LoopHandle] = []
    vector = loops[contraction.column]
    if extent_of(contraction.column.extent) > tiles.columns or not isinstance(contraction.column.extent, Const):
        first, vector = schedule.split(vector, max(tiles.columns, lanes), tail="mask")
        column = [first]
    row: list[LoopHandle] = []
    unrolled: list[LoopHandle] = []
    if contraction.row is not None:
        if extent_of(contraction.row.extent) > tiles.rows or not isinstance(contraction.row.extent, Const):
            first, second = schedule.split(loops[contraction.row], tiles.rows)
            row, unrolled = [first], [second]
        else:
            unrolled = [loops[contraction.row]]
    schedule.reorder(*outer, *row, *column, *inner, *unrolled, vector)
    start = schedule.decompose_reduction(name, inner[0])
    for handle in unrolled:
        schedule.unroll(handle)
    schedule.vectorize(vector)
    starts: Sequence[LoopHandle] = schedule.loops(start)
    schedule.vectorize(starts[-1])
    shared = share(schedule, [*outer, *row] or column, facts.runs)
    return f"contraction in register tiles of {tiles.rows} x {tiles.columns}{shared}"


