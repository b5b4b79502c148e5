"""Blocks that read along one axis of memory and write along another (transposes): tiles turned over in registers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Const, Load
from lpx.rules.elementwise import HEAVY, STREAM_FROM, moved_bytes, share, stream
from lpx.rules.facts import BlockFacts, extent_of, facts_of
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine

MIN_TILE = 4
"""Rows and columns of a tile at least, for shuffles to pay."""

TILE = 16
"""Rows and columns of a tile at most: it is read to as many registers."""

TILES = 4
"""Tiles that follow one another along rows of the result."""

THIN = 8
"""Elements of a row of the result up to which whole rows are vectors, rather than parts of rows."""

GATHERED_BITS = 32
"""Width of the narrowest elements that processors gather."""

RUN_READ = 256
"""Bytes of each row of an operand that are read one after another, where memory is far."""

RUN_WRITTEN = 1024
"""Bytes of each row of the result that are written one after another, where memory is far."""


def apply(schedule: Schedule, name: str, machine: CpuMachine) -> str:
    """Schedule one block whose operand lies across its result; what was done, or "" where the rule does not apply."""
    facts = facts_of(schedule.function)[name]
    if facts.is_reduction or not facts.is_plain or not facts.axes("spatial") or not facts.writes_in_order():
        return ""
    crossing = crossing_reads(facts)
    if not crossing:
        return ""
    across = next(iter(crossing.values()))
    if _is_thin(facts, across):
        return _interleaved(schedule, facts, machine)
    if _comes_from_far(facts, across):
        return _staged(schedule, facts, [e.buffer for e in crossing], across, machine)
    return _tiled(schedule, facts, across, machine)


def crossing_reads(facts: BlockFacts) -> dict[Load, int]:
    """Reads that walk along another axis in memory than the result is written, and the positions of that axis."""
    spatial = facts.axes("spatial")
    found: dict[Load, int] = {}
    for load in facts.loads:
        steps = [facts.stride(load.indices, load.buffer, a.var) for a in spatial]
        if 1 in steps[:-1] and steps[-1] not in (0, 1) and extent_of(spatial[steps.index(1)].extent) > 1:
            found[load] = steps.index(1)
    return found


def _is_thin(facts: BlockFacts, across: int) -> bool:
    """Whether the two axes are the last ones, and rows of the result are short, of elements that can be gathered."""
    *_, row, column = facts.axes("spatial")
    is_short = isinstance(column.extent, Const) and extent_of(column.extent) <= THIN
    return is_short and facts.axes("spatial")[across] is row and facts.target.dtype.bits >= GATHERED_BITS


def _comes_from_far(facts: BlockFacts, across: int) -> bool:
    """Whether the block moves more than caches hold, of two axes that are long enough for runs of cache lines."""
    spatial = facts.axes("spatial")
    if facts.axes("sequential") or not all(isinstance(a.extent, Const) for a in spatial):
        return False
    size = facts.target.dtype.itemsize
    long = extent_of(spatial[across].extent) * size >= RUN_READ // 2
    return long and extent_of(spatial[-1].extent) * size >= RUN_READ // 2 and moved_bytes(facts) >= STREAM_FROM


def _staged(schedule: Schedule, facts: BlockFacts, operands: Sequence[Buffer], across: int, machine: CpuMachine) -> str:
    """Blocks that stay in a cache between being read, row by row of the operand, and written, row by row of the result.

    Memory serves neighbouring lines best: a block is read in runs of several lines, which the requests for the next
    block ask for early, and written in longer ones, past the caches where nothing reads the result soon. Blocks follow
    one another along rows of the operand.
    """
    name, itemsize = facts.block.name, facts.target.dtype.itemsize
    size = min(TILE, machine.lanes(facts.bits))
    copy = schedule.cache_write(name)
    loops = schedule.loops(copy)
    outer = [h for k, h in enumerate(loops[:-1]) if k != across]
    rows, in_rows = _cut(schedule, loops[across], RUN_READ // itemsize)
    runs, in_run = _cut(schedule, loops[-1], RUN_WRITTEN // itemsize)
    schedule.reorder(*outer, runs, rows, in_rows, in_run)
    schedule.compute_at(name, rows)
    *_, row, column = schedule.loops(name)
    row_tiles, row = schedule.split(row, size)
    column_tiles, column = schedule.split(column, size, tail="mask")
    schedule.reorder(column_tiles, row_tiles, row, column)
    for operand in dict.fromkeys(operands):
        schedule.prefetch(name, operand, rows, over=row_tiles)
    if facts.cost < HEAVY:
        schedule.unroll(row)
    _, vector = schedule.split(in_run, machine.lanes(facts.bits), tail="mask")
    schedule.vectorize(column)
    schedule.vectorize(vector)
    note = f"tiles of {size} x {size} between two orders of memory, by way of blocks that stay in a cache"
    shared = share(schedule, machine, [*outer, runs, rows], facts.runs * max(facts.cost, 1))
    return note + shared + stream(schedule, facts_of(schedule.function)[copy.name])


def _cut(schedule: Schedule, loop: LoopHandle, size: int) -> tuple[LoopHandle, LoopHandle]:
    """A loop as blocks of `size` iterations, at most."""
    outer, inner = schedule.split(loop, min(size, extent_of(schedule.loop_of(loop).extent)))
    return outer, inner


def _interleaved(schedule: Schedule, facts: BlockFacts, machine: CpuMachine) -> str:
    """Vectors of whole short rows: what is read lies as far apart as it may, what is written side by side."""
    *outer, row, column = list(schedule.loops(facts.block.name))[len(facts.axes("sequential")) :]
    extent = extent_of(schedule.loop_of(column).extent)
    lanes = machine.lanes(facts.bits) * extent
    vectors, vector = schedule.split(schedule.fuse(row, column), lanes, tail="mask")
    shared = share(schedule, machine, [*outer, vectors], facts.runs * max(facts.cost, 1))
    schedule.vectorize(vector)
    return f"vectors of rows of {extent}{shared}{stream(schedule, facts)}"


def _tiled(schedule: Schedule, facts: BlockFacts, across: int, machine: CpuMachine) -> str:
    """Square tiles of the two axes along which memory is read and written, so that every cache line is used up.

    Four tiles of half a register make a square, of which each line is read and written in two pieces at once. Where
    rows lie a multiple of a page apart they share few sets of the nearest cache, and a square would not stay in it:
    tiles are larger, and follow one another along rows of the result.
    """
    loops = list(schedule.loops(facts.block.name))[len(facts.axes("sequential")) :]
    lanes = machine.lanes(facts.bits)
    outer = [h for k, h in enumerate(loops[:-1]) if k != across]
    if _shares_sets(facts, across, machine):
        size = min(TILE, lanes)
        rows, row = schedule.split(loops[across], size, tail="guard")
        columns, tile, vector = schedule.split(loops[-1], (TILES, size), tail="mask")
        schedule.reorder(*outer, columns, rows, tile, row, vector)
        outer = [*outer, columns]
    else:
        size = min(TILE, max(lanes // 2, MIN_TILE))
        rows, upper, row = schedule.split(loops[across], (2, size), tail="guard")
        columns, left, vector = schedule.split(loops[-1], (2, size), tail="mask")
        schedule.reorder(*outer, rows, columns, upper, left, row, vector)
        outer = [*outer, rows]
    shared = share(schedule, machine, outer, facts.runs * max(facts.cost, 1))
    schedule.vectorize(vector)
    if facts.cost < HEAVY:
        schedule.unroll(row)
    return f"tiles of {size} x {size} between two orders of memory{shared}"


def _shares_sets(facts: BlockFacts, across: int, machine: CpuMachine) -> bool:
    """Whether rows of a tile, read or written, lie a multiple of a page apart."""
    spatial = facts.axes("spatial")
    pitches = [prod(extent_of(a.extent) for a in spatial[across + 1 :]) * facts.target.dtype.itemsize]
    for load in facts.loads:
        step = facts.stride(load.indices, load.buffer, spatial[-1].var)
        pitches.append((step or 0) * load.dtype.itemsize)
    return any(pitch and pitch % machine.page_bytes == 0 for pitch in pitches)
