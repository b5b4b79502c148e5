"""Blocks without reductions: vectors along the contiguous axis, threads over the rest."""

from __future__ import annotations

from math import prod

from lpx.expr.nodes import Const, Expr, Load
from lpx.rules.facts import BlockFacts, extent_of, facts_of
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine

PARALLEL_WORK = 1 << 16
"""Operations from which on threads pay for their start."""

MIN_TILE = 4
"""Rows and columns of a tile at least, for shuffles to pay."""

TILE = 16
"""Rows and columns of a tile at most: it is read to as many registers."""

TILES = 4
"""Tiles that follow one another along rows of the result."""

HEAVY = 12
"""Cost of an element from which on it matters little how it is read."""

STREAM_FROM = 32 << 20
"""Bytes read and written from which on what is stored has left the caches before anyone reads it."""

STREAM_BYTES = 16
"""Bytes to which rows must begin at a multiple, for stores past the caches."""

SHARES = 8
"""Iterations for each thread from which on a shared loop divides evenly enough."""


def apply(schedule: Schedule, name: str, machine: CpuMachine) -> str:
    """Vectorize and share out one block; what was done, or "" where the rule does not apply."""
    facts = facts_of(schedule.function)[name]
    if facts.is_reduction or not facts.is_plain or not facts.axes("spatial"):
        return ""
    loops = list(schedule.loops(name))[len(facts.axes("sequential")) :]
    if not loops or not facts.writes_in_order():
        return ""
    across = _crossing(facts)
    if across is not None:
        return _tiled(schedule, facts, loops, across, machine)
    inner = joined(schedule, facts, loops)
    lanes = lanes_for(facts, machine)
    extent = schedule.loop_of(inner).extent
    vector = split_vector(schedule, inner, lanes, extent_of(extent) if isinstance(extent, Const) else None)
    rest = [h for h in schedule.loops(name) if h is not vector][len(facts.axes("sequential")) :]
    shared = share(schedule, machine, rest, facts.runs * max(facts.cost, 1))
    schedule.vectorize(vector)
    return f"vectors of {lanes}{shared}{stream(schedule, facts)}"


def _crossing(facts: BlockFacts) -> int | None:
    """The position of a spatial axis that some read walks along in memory, the result being written along another."""
    spatial = facts.axes("spatial")
    for load in facts.loads:
        steps = [facts.stride(load.indices, load.buffer, a.var) for a in spatial]
        if 1 in steps[:-1] and steps[-1] not in (0, 1) and extent_of(spatial[steps.index(1)].extent) > 1:
            return steps.index(1)
    return None


def _tiled(schedule: Schedule, facts: BlockFacts, loops: list[LoopHandle], across: int, machine: CpuMachine) -> str:
    """Square tiles of the two axes along which memory is read and written, so that every cache line is used up.

    Four tiles of half a register make a square, of which each line is read and written in two pieces at once. Where
    rows lie a multiple of a page apart they share few sets of the nearest cache, and a square would not stay in it:
    tiles are larger, and follow one another along rows of the result.
    """
    lanes = machine.lanes(max(facts.target.dtype.bits, 8))
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


def joined(schedule: Schedule, facts: BlockFacts, loops: list[LoopHandle]) -> LoopHandle:
    """The innermost of `loops`, those of the last axes, joined with others as far as every access walks evenly through
    all of them.
    """
    spatial = facts.axes("spatial")[-len(loops) :]
    first = len(spatial) - 1
    strides = [[facts.stride(e.indices, e.buffer, a.var) for a in spatial] for e in facts.loads]
    if all(_same_order(facts, e) for e in facts.loads):
        first = 0
    while first and all(_runs_on(s[first - 1], s[first], spatial[first].extent) for s in strides):
        first -= 1
    return schedule.fuse(*loops[first:]) if len(loops) > first + 1 else loops[-1]


def _runs_on(outer: int | None, inner: int | None, extent: Expr) -> bool:
    """Whether a step of an outer loop is as long as all steps of the loop inside it, of `extent` iterations."""
    if outer is None or inner is None or not isinstance(extent, Const):
        return False
    return outer == inner * extent_of(extent)


def _same_order(facts: BlockFacts, load: Load) -> bool:
    spatial = facts.axes("spatial")
    named = [i for i in load.indices if not isinstance(i, Const)]
    return not named or (len(named) == len(spatial) and all(i is a.var for i, a in zip(named, spatial, strict=True)))


def lanes_for(facts: BlockFacts, machine: CpuMachine) -> int:
    """Lanes of the vectors of a block: one register of its widest dtype.

    The processor overlaps iterations by itself. Longer vectors would ask for all of an array's lines before those of
    the next array, which measures slower where arrays begin in the middle of a line, as NumPy's do.
    """
    bits = max([facts.target.dtype.bits, *(e.dtype.bits for e in facts.loads)])
    return machine.lanes(max(bits, 8))


def split_vector(schedule: Schedule, loop: LoopHandle, lanes: int, extent: int | None) -> LoopHandle:
    """A loop of at most `lanes` iterations: the innermost part of `loop`, or all of it where it is short."""
    if extent is not None and extent <= lanes:
        return loop
    _, vector = schedule.split(loop, lanes, tail="mask")
    return vector


def stream(schedule: Schedule, facts: BlockFacts) -> str:
    """Store a result of the caller's past the caches where they hold nothing of it until it is read; a phrase for the
    note.

    A store through a cache first reads what it overwrites: a copy moves half as many bytes again.
    """
    extents = [a.extent for a in facts.axes("spatial")]
    itemsize = facts.target.dtype.itemsize
    buffers = {e.buffer for e in facts.loads} | {facts.target}
    moved = sum(prod(extent_of(e) for e in b.shape) * b.dtype.itemsize for b in buffers)
    is_result = any(p.buffer is facts.target and p.role == "out" for p in schedule.function.params)
    is_aligned = extent_of(extents[-1]) * itemsize % STREAM_BYTES == 0 or len(schedule.loops(facts.block.name)) <= 2
    if not is_result or not is_aligned or not all(isinstance(e, Const) for e in extents) or moved < STREAM_FROM:
        return ""
    schedule.pragma(schedule.loops(facts.block.name)[0], "nontemporal")
    return ", stores past the caches"


def share(schedule: Schedule, machine: CpuMachine, loops: list[LoopHandle], work: int) -> str:
    """Share the outermost loops among threads where `work` pays; a phrase for the note.

    As few loops are fused as give every thread an equal share, or several: loops left alone keep their ends free of
    conditions.
    """
    if not loops or work < PARALLEL_WORK:
        return ""
    shares, count = 1, 0
    while count < len(loops) and shares < SHARES * machine.cores and (shares == 1 or shares % machine.cores):
        shares *= extent_of(schedule.loop_of(loops[count]).extent)
        count += 1
    schedule.parallel(schedule.fuse(*loops[:count]) if count > 1 else loops[0])
    return ", threads"
