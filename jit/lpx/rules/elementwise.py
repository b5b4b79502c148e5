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

HEAVY = 12
"""Cost of an element from which on it matters little how it is read."""

STREAM_FROM = 8 << 20
"""Bytes read and written from which on stores past the caches pay, even where the result is read right afterwards."""

STREAM_ROW = 512
"""Bytes of a row from which on stores past the caches pay: its ends, which are parts of lines, go through them."""

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
    inner = joined(schedule, facts, loops)
    lanes = lanes_for(facts, machine)
    extent = schedule.loop_of(inner).extent
    vector = split_vector(schedule, inner, lanes, extent_of(extent) if isinstance(extent, Const) else None)
    rest = [h for h in schedule.loops(name) if h is not vector][len(facts.axes("sequential")) :]
    shared = share(schedule, machine, rest, facts.runs * max(facts.cost, 1))
    schedule.vectorize(vector)
    return f"vectors of {lanes}{shared}{stream(schedule, facts)}"


def joined(schedule: Schedule, facts: BlockFacts, loops: list[LoopHandle]) -> LoopHandle:
    """The innermost of `loops`, those of the last axes, joined with others as far as every access walks evenly through
    all of them.
    """
    first = joint_depth(facts, len(loops))
    return schedule.fuse(*loops[first:]) if len(loops) > first + 1 else loops[-1]


def joint_depth(facts: BlockFacts, count: int) -> int:
    """How many of the last `count` axes stay outside when the others are joined."""
    spatial = facts.axes("spatial")[-count:]
    first = len(spatial) - 1
    strides = [[facts.stride(e.indices, e.buffer, a.var) for a in spatial] for e in facts.loads]
    if all(_same_order(facts, e) for e in facts.loads):
        first = 0
    while first and all(_runs_on(s[first - 1], s[first], spatial[first].extent) for s in strides):
        first -= 1
    return first


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


def moved_bytes(facts: BlockFacts) -> int:
    """Bytes of all that a block reads and of what it writes."""
    buffers = {e.buffer for e in facts.loads} | {facts.target}
    return sum(prod(extent_of(e) for e in b.shape) * b.dtype.itemsize for b in buffers)


def stream(schedule: Schedule, facts: BlockFacts) -> str:
    """Store a result of the caller's past the caches where they hold nothing of it until it is read; a phrase for the
    note.

    A store through a cache first reads what it overwrites: a copy moves half as many bytes again.
    """
    extents = [a.extent for a in facts.axes("spatial")]
    itemsize = facts.target.dtype.itemsize
    is_result = any(p.buffer is facts.target and p.role == "out" for p in schedule.function.params)
    is_long = extent_of(extents[-1]) * itemsize >= STREAM_ROW or len(schedule.loops(facts.block.name)) <= 2
    is_large = all(isinstance(e, Const) for e in extents) and moved_bytes(facts) >= STREAM_FROM
    if not is_result or not is_long or not is_large:
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
