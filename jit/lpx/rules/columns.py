"""Chains of operations on columns (softmax along another axis than the last): all steps of some before the next.

Neighbouring columns are the lanes of vectors, as in reductions that keep the contiguous axis. A block of columns goes
through all steps while it is in a cache, and comes from memory once.
"""

from __future__ import annotations

from math import prod

from lpx.errors import ScheduleError
from lpx.expr.nodes import Load
from lpx.rules import rows
from lpx.rules.contraction import loops_inside
from lpx.rules.elementwise import lanes_for, share, split_vector
from lpx.rules.facts import BlockFacts, extent_of, facts_of
from lpx.rules.reduction import ACCUMULATORS
from lpx.schedule import queries
from lpx.schedule.errors import OptionError
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine


def gather(schedule: Schedule, machine: CpuMachine, notes: list[str], before: set[str]) -> set[str]:
    """Schedule every chain of column operations of blocks not done `before`; the names of the blocks that are done."""
    done = set(before)
    for name in reversed(list(facts_of(schedule.function))):
        facts = facts_of(schedule.function)
        if name in done or name not in facts:
            continue
        members = rows.members_of(schedule, facts[name], facts)
        along = _reduced_axis(facts[name], members)
        names = [*(m.block.name for m in members), name]
        if along is None or done & set(names):
            continue
        unchanged = schedule.function, schedule.trace
        try:
            note = _schedule_chain(schedule, names, along, machine)
        except ScheduleError as refused:
            schedule.function, schedule.trace = unchanged
            notes.append(f"{', '.join(names)}: columns kept apart ({refused.message})")
            continue
        notes.append(f"{', '.join(names)}: {note}")
        done |= {b for b in facts_of(schedule.function) if any(b.startswith(n) for n in names)}
    return done


def _reduced_axis(last: BlockFacts, members: list[BlockFacts]) -> int | None:
    """The axis of `last`, not the last one, that all reductions among the members run along; None for other chains."""
    extents = [a.extent for a in last.axes("spatial")]
    reductions = [m for m in members if m.is_reduction]
    places = {_place(m, e, len(extents)) for m in reductions for e in m.loads if len(e.buffer.shape) == len(extents)}
    if last.is_reduction or len(places) != 1:
        return None
    (place,) = places
    if place is None or not all(isinstance(queries.constant_value(e), int) for e in extents):
        return None
    kept = [extent_of(e) for k, e in enumerate(extents) if k != place]
    shapes = [[extent_of(a.extent) for a in m.axes("spatial")] for m in members]
    return place if all(s in (kept, [extent_of(e) for e in extents]) for s in shapes) else None


def _place(reduction: BlockFacts, load: Load, rank: int) -> int | None:
    """The axis of what it reads that a reduction runs along: not the last one, and all others are its own, in order."""
    reduced = reduction.axes("reduce")
    spatial = [a.var for a in reduction.axes("spatial")]
    if len(reduced) != 1 or len(spatial) != rank - 1:
        return None
    found = [k for k, i in enumerate(load.indices) if i is reduced[0].var]
    others = [i for i in load.indices if i is not reduced[0].var]
    plain = len(found) == 1 and all(i is v for i, v in zip(others, spatial, strict=True))
    return found[0] if plain and found[0] < rank - 1 else None


def _schedule_chain(schedule: Schedule, names: list[str], along: int, machine: CpuMachine) -> str:
    facts = facts_of(schedule.function)
    *chain, last = names
    work = sum(facts[n].runs * max(facts[n].cost, 1) for n in names)
    lanes = max(lanes_for(facts[n], machine) for n in names)
    *outer, loop = schedule.loops(last)
    reduced = outer.pop(along)
    width = lanes * min(ACCUMULATORS, max(1, extent_of(schedule.loop_of(loop).extent) // lanes))
    block, inner = schedule.split(loop, width, tail="mask")
    blocks = prod(extent_of(schedule.loop_of(h).extent) for h in (*outer, block))
    kept = extent_of(schedule.loop_of(reduced).extent) * width * facts[last].target.dtype.itemsize
    if kept > machine.l2.bytes // 4 or (machine.cores > 1 and blocks < machine.cores):
        raise OptionError("a block of columns stays in no cache, or leaves threads without one")
    schedule.reorder(*outer, block, reduced, inner)
    for name in reversed(chain):
        schedule.compute_at(name, block)
    for name in names:
        _inside(schedule, name, block, lanes)
    shared = share(schedule, machine, [*outer, block], work)
    return f"{width} columns at a time{shared}"


def _inside(schedule: Schedule, name: str, block: LoopHandle, lanes: int) -> None:
    """Vectorize a step below the loop over blocks of columns."""
    facts = facts_of(schedule.function)[name]
    inside = loops_inside(schedule, name, block, [a.var for a in (*facts.axes("reduce"), facts.axes("spatial")[-1])])
    if len(inside) <= facts.is_reduction:
        raise OptionError(f"an axis of {name} has one place only")
    if not facts.is_reduction:
        extent = queries.constant_value(schedule.loop_of(inside[-1]).extent)
        schedule.vectorize(split_vector(schedule, inside[-1], lanes, extent))
        return
    column, step = inside
    schedule.reorder(step, column)
    start = schedule.decompose_reduction(name, step)
    schedule.vectorize(column)
    schedule.vectorize(schedule.loops(start)[-1])
