"""Scans whose steps treat every element by itself (running sums): the elements outside, time inside.

    for t { for i { s[i] = s[i] + x[t, i] } ; for i { y[t, i] = s[i] } }
    ->
    for i_o parallel { for t { for i in lanes { s[i] = s[i] + x[t, i] ; y[t, i] = s[i] } } }

The state stays in registers, or in the nearest cache. Where time runs along rows of the operand or of the result,
lanes are rows, and tiles of both are turned over in registers: sums are taken in the order of time all the same.
"""

from __future__ import annotations

from math import prod

from lpx.errors import ScheduleError
from lpx.expr.nodes import Const
from lpx.ir import traverse
from lpx.ir.nodes import For
from lpx.records import record
from lpx.rules.crossing import RUN_WRITTEN, TILE, crossing_reads
from lpx.rules.elementwise import STREAM_FROM, moved_bytes, share, stream
from lpx.rules.facts import BlockFacts, extent_of, facts_of
from lpx.schedule import queries
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine


@record
class Recurrence:
    """The blocks of one scan, and those around it that serve nothing else: `starts` write its states beforehand,
    `makers` compute what its steps read, `takers` copy out what they keep.
    """

    steps: tuple[str, ...]
    starts: tuple[str, ...]
    makers: tuple[str, ...]
    takers: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All blocks, in running order."""
        return (*self.starts, *self.makers, *self.steps, *self.takers)


def gather(schedule: Schedule, machine: CpuMachine, notes: list[str], before: set[str]) -> set[str]:
    """Schedule every such scan of blocks not done `before`; the names of the blocks that are done now."""
    done = set(before)
    loops = [s for s in traverse.walk(schedule.function.body) if isinstance(s, For)]
    for found in (recognise(schedule, loop) for loop in loops):
        if found is None or not done.isdisjoint(found.names):
            continue
        unchanged = schedule.function, schedule.trace
        try:
            note = _schedule(schedule, found, machine)
        except ScheduleError as refused:
            schedule.function, schedule.trace = unchanged
            notes.append(f"{', '.join(found.names)}: time left outside ({refused.message})")
            continue
        notes.append(f"{', '.join(found.names)}: {note}")
        done |= {b for b in facts_of(schedule.function) if any(b.startswith(n) for n in found.names)}
    return done


def recognise(schedule: Schedule, loop: For) -> Recurrence | None:
    """The recurrence whose time runs along `loop`, if steps are element-wise and of one shape."""
    facts = facts_of(schedule.function)
    steps = [facts[b.name] for b in queries.blocks_within(loop)]
    if not steps or not all(_is_step(schedule, f, loop) for f in steps):
        return None
    shape = _shape(steps[0])
    if not shape or any(_shape(f) != shape for f in steps):
        return None
    written = {f.target for f in steps}
    names = {f.block.name for f in steps}
    others = [f for f in facts.values() if f.block.name not in names and f.stores]
    read = {e.buffer for f in steps for e in f.loads}
    starts = [f for f in others if f.target in written]
    makers = [f for f in others if f.target in read - written and _serves_only(schedule, f, names)]
    takers = [f for f in others if _is_plain(f) and any(e.buffer in written for e in f.loads)]
    if not all(_is_plain(f) and _shape(f) == shape for f in starts) or len(takers) > 1:
        return None
    return Recurrence(*(tuple(f.block.name for f in group) for group in (steps, starts, makers, takers)))


def _is_step(schedule: Schedule, facts: BlockFacts, loop: For) -> bool:
    loops = schedule.loops(facts.block.name)
    return _is_plain(facts, sequential=1) and loops[0].var is loop.var and len(loops) == len(facts.block.axes)


def _is_plain(facts: BlockFacts, sequential: int = 0) -> bool:
    """Whether a block computes one element after another, each by itself, of constant extents."""
    known = all(isinstance(a.extent, Const) for a in facts.block.axes)
    plain = facts.is_plain and not facts.is_reduction and not facts.checks and facts.writes_in_order()
    return known and plain and len(facts.axes("sequential")) == sequential


def _serves_only(schedule: Schedule, facts: BlockFacts, names: set[str]) -> bool:
    is_param = any(p.buffer is facts.target for p in schedule.function.params)
    readers = queries.readers(schedule.function, facts.target)
    return _is_plain(facts) and not is_param and all(b.name in names for b in readers)


def _shape(facts: BlockFacts) -> list[int]:
    return [extent_of(a.extent) for a in facts.axes("spatial")]


def _schedule(schedule: Schedule, found: Recurrence, machine: CpuMachine) -> str:
    facts = facts_of(schedule.function)
    crosses = any(crossing_reads(facts[n]) for n in (*found.makers, *found.takers))
    steps = [facts[n] for n in found.steps]
    lanes = machine.lanes(max(f.bits for f in steps))
    work = sum(f.runs * max(f.cost, 1) for f in steps)
    if crosses:
        return _in_tiles(schedule, found, lanes, machine, work)
    return _in_rows(schedule, found, lanes, machine, work)


def _elements_outside(schedule: Schedule, found: Recurrence, width: int) -> tuple[list[LoopHandle], LoopHandle]:
    """The loops over blocks of `width` elements outside, and the loop over time inside them."""
    first, *others = found.steps
    time, *outer = _blocks_of(schedule, first, width)
    for name in others:
        _, *same = _blocks_of(schedule, name, width)
        for one, other in zip(outer, same, strict=True):
            schedule.merge(one, other)
    schedule.reorder(*outer, time)
    for name in found.makers:
        schedule.compute_at(name, time)
    for name in reversed(found.starts):
        same = _blocks_of(schedule, name, width)
        for one, other in zip(same, outer, strict=True):
            schedule.merge(one, other)
        outer = same
    return outer, time


def _blocks_of(schedule: Schedule, name: str, width: int) -> list[LoopHandle]:
    """The loops around a block, the last one cut into blocks of `width` iterations, but the loop over one block."""
    *loops, last = schedule.loops(name)
    blocks, _ = schedule.split(last, width, tail="mask")
    return [*loops, blocks]


def _in_rows(schedule: Schedule, found: Recurrence, lanes: int, machine: CpuMachine, work: int) -> str:
    """Neighbouring elements in lanes, a page of them at a time: their states stay in the nearest cache."""
    facts = facts_of(schedule.function)[found.steps[0]]
    shape = _shape(facts)
    fits = machine.page_bytes // facts.target.dtype.itemsize
    fair = -(-prod(shape) // machine.cores)
    width = -(-min(fits, fair, shape[-1]) // lanes) * lanes
    outer, time = _elements_outside(schedule, found, width)
    for name in found.takers:
        schedule.reverse_compute_at(name, time)
    _join_vectors(schedule, found, lanes)
    for name in (*found.starts, *found.makers, *found.takers):
        _vectorize(schedule, schedule.loops(name)[-1], lanes)
    shared = share(schedule, machine, outer, work)
    kept = facts_of(schedule.function)[(*found.steps, *found.takers)[-1]]
    return f"{width} elements at a time through all of time{shared}{stream(schedule, kept)}"


def _join_vectors(schedule: Schedule, found: Recurrence, lanes: int) -> None:
    """All blocks of a step for one vector before the next vector: what one stores stays in a register for the other."""
    first, *others = (schedule.loops(name)[-1] for name in found.steps)
    for other in others:
        schedule.merge(first, other)
    _vectorize(schedule, first, lanes)


def _vectorize(schedule: Schedule, loop: LoopHandle, lanes: int) -> None:
    if extent_of(schedule.loop_of(loop).extent) > lanes:
        _, loop = schedule.split(loop, lanes, tail="mask")
    schedule.vectorize(loop)


def _in_tiles(schedule: Schedule, found: Recurrence, lanes: int, machine: CpuMachine, work: int) -> str:
    """Rows in lanes: a tile of rows and steps is turned over, run through, and turned back.

    Large results are written in runs of several lines, past the caches.
    """
    size = min(TILE, lanes)
    copy = _staged_taker(schedule, found)
    outer, time = _elements_outside(schedule, found, lanes)
    runs, steps = schedule.split(time, _run(schedule, found)) if copy else (time, time)
    tiles, step = schedule.split(steps, size)
    for name in found.makers:
        schedule.compute_at(name, tiles)
        *_, row, vector = schedule.loops(name)
        schedule.unroll(row)
        schedule.vectorize(vector)
    for name in found.takers:
        schedule.reverse_compute_at(name, tiles)
    if copy:
        schedule.reverse_compute_at(copy, runs)
        _vectorize(schedule, schedule.loops(copy)[-1], lanes)
    for name in found.takers:
        *_, row, vector = schedule.loops(name)
        schedule.unroll(row)
        schedule.vectorize(vector)
    schedule.unroll(step)
    for name in (*found.steps, *found.starts):
        schedule.vectorize(schedule.loops(name)[-1])
    shared = share(schedule, machine, outer, work)
    streamed = stream(schedule, facts_of(schedule.function)[copy]) if copy else ""
    return f"tiles of {lanes} rows and {size} steps, turned over{shared}{streamed}"


def _staged_taker(schedule: Schedule, found: Recurrence) -> str:
    """The block that writes out what a large result's tiles leave in a cache; "" where results are small."""
    facts = facts_of(schedule.function)
    large = [n for n in found.takers if moved_bytes(facts[n]) >= STREAM_FROM]
    return schedule.cache_write(large[0]).name if large else ""


def _run(schedule: Schedule, found: Recurrence) -> int:
    """Steps that a row of the result is written at a time."""
    (taker,) = found.takers
    return RUN_WRITTEN // facts_of(schedule.function)[taker].target.dtype.itemsize
