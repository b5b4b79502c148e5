"""Blocks without reductions: vectors along the contiguous axis, threads over the rest."""

from __future__ import annotations

from lpx.expr.nodes import Const
from lpx.rules.facts import BlockFacts, extent_of, facts_of
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine

PARALLEL_WORK = 1 << 16
"""Operations from which on threads pay for their start."""

SHARES = 8
"""Iterations for each thread from which on a shared loop divides evenly enough."""

VECTORS = 4
"""Vectors in flight per iteration of a cheap block: enough loads to hide their latency."""


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
    inner = _fused(schedule, facts, loops)
    lanes = lanes_for(facts, machine)
    extent = schedule.loop_of(inner).extent
    vector = split_vector(schedule, inner, lanes, extent_of(extent) if isinstance(extent, Const) else None)
    rest = [h for h in schedule.loops(name) if h is not vector][len(facts.axes("sequential")) :]
    shared = share(schedule, machine, rest, facts.runs * max(facts.cost, 1))
    schedule.vectorize(vector)
    return f"vectors of {lanes}{shared}"


def _crossing(facts: BlockFacts) -> int | None:
    """The position of a spatial axis that some read walks along in memory, the result being written along another."""
    spatial = facts.axes("spatial")
    for load in facts.loads:
        steps = [facts.stride(load.indices, load.buffer, a.var) for a in spatial]
        if 1 in steps[:-1] and steps[-1] not in (0, 1) and extent_of(spatial[steps.index(1)].extent) > 1:
            return steps.index(1)
    return None


def _tiled(schedule: Schedule, facts: BlockFacts, loops: list[LoopHandle], across: int, machine: CpuMachine) -> str:
    """Square tiles of the two axes along which memory is read and written, so that every cache line is used up."""
    lanes = machine.lanes(max(facts.target.dtype.bits, 8))
    outer = [h for k, h in enumerate(loops[:-1]) if k != across]
    rows, row = schedule.split(loops[across], lanes, tail="guard")
    columns, vector = schedule.split(loops[-1], lanes, tail="mask")
    schedule.reorder(*outer, rows, columns, row, vector)
    shared = share(schedule, machine, [*outer, rows], facts.runs * max(facts.cost, 1))
    schedule.vectorize(vector)
    return f"tiles of {lanes} x {lanes} between two orders of memory{shared}"


def _fused(schedule: Schedule, facts: BlockFacts, loops: list[LoopHandle]) -> LoopHandle:
    """One loop over everything where every access is contiguous in it, else the innermost."""
    if len(loops) > 1 and all(_same_order(facts, k) for k in range(len(facts.loads))):
        return schedule.fuse(*loops)
    return loops[-1]


def _same_order(facts: BlockFacts, which: int) -> bool:
    load = facts.loads[which]
    spatial = facts.axes("spatial")
    if all(isinstance(i, Const) for i in load.indices):
        return True
    named = [i for i in load.indices if not isinstance(i, Const)]
    return len(named) == len(spatial) and all(i is a.var for i, a in zip(named, spatial, strict=True))


def lanes_for(facts: BlockFacts, machine: CpuMachine) -> int:
    """Lanes of the vectors of a block: registers of its widest dtype, several of them while it is cheap."""
    bits = max([facts.target.dtype.bits, *(e.dtype.bits for e in facts.loads)])
    lanes = machine.lanes(max(bits, 8))
    return lanes * (VECTORS if facts.cost < 12 else 1)


def split_vector(schedule: Schedule, loop: LoopHandle, lanes: int, extent: int | None) -> LoopHandle:
    """A loop of at most `lanes` iterations: the innermost part of `loop`, or all of it where it is short."""
    if extent is not None and extent <= lanes:
        return loop
    _, vector = schedule.split(loop, lanes, tail="mask")
    return vector


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
