"""Reductions that are no contraction: partial results in the lanes of vectors.

Where the contiguous axis is kept, lanes are neighbouring results. Where it is reduced, lanes are parts of one result
(`rfactor`), combined at the end: a float reduction is reassociated.
"""

from __future__ import annotations

from lpx.rules.elementwise import share
from lpx.rules.facts import BlockFacts, extent_of, facts_of
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine

ACCUMULATORS = 4
"""Vectors of partial results: enough to hide the latency of an addition."""

SHARES = 2
"""Blocks of neighbouring results, at least, so that threads have something to share."""


def apply(schedule: Schedule, name: str, machine: CpuMachine) -> str:
    """Schedule one reduction; what was done, or "" where the rule does not apply."""
    facts = facts_of(schedule.function)[name]
    if not facts.is_reduction or not facts.is_plain:
        return ""
    loops = list(schedule.loops(name))
    kept = [h for h, k in zip(loops, _kinds(facts), strict=False) if k == "spatial"]
    if reduces_contiguously(facts):
        reduced = [h for h, k in zip(loops, _kinds(facts), strict=False) if k == "reduce"]
        inner = schedule.fuse(*reduced) if len(reduced) > 1 else reduced[0]
        note = reduce_in_lanes(schedule, name, inner, machine)
        outer = [h for h in schedule.loops(name) if any(h is k for k in kept)]
        return note + share(schedule, machine, outer, facts.runs)
    return _keep_in_lanes(schedule, facts, list(loops), kept, machine)


def _kinds(facts: BlockFacts) -> list[str]:
    return [a.kind for a in facts.block.axes]


def reduces_contiguously(facts: BlockFacts) -> bool:
    """Whether the last reduce axis walks through memory element by element, and the last spatial one does not."""
    last = facts.axes("reduce")[-1].var
    return any(facts.stride(e.indices, e.buffer, last) == 1 for e in facts.loads)


def reduce_in_lanes(schedule: Schedule, name: str, loop: LoopHandle, machine: CpuMachine) -> str:
    """Reduce over `loop`, the innermost around the block, in vector lanes; what was done."""
    facts = facts_of(schedule.function)[name]
    lanes = machine.lanes(max(facts.target.dtype.bits, 8))
    extent = extent_of(schedule.loop_of(loop).extent)
    if extent < 2 * lanes:
        return f"in order, {extent} steps"
    width = lanes * min(ACCUMULATORS, max(1, extent // lanes))
    steps, part = schedule.split(loop, width, tail="mask")
    combine = schedule.rfactor(name, part)
    schedule.reorder(steps, part)
    start = schedule.decompose_reduction(name, steps)
    schedule.vectorize(part)
    schedule.vectorize(schedule.loops(start)[-1])
    schedule.cross_lane_reduce(combine, schedule.loops(combine)[-1])
    return f"{width} partial results in lanes (reassociated)"


def _keep_in_lanes(
    schedule: Schedule, facts: BlockFacts, loops: list[LoopHandle], kept: list[LoopHandle], machine: CpuMachine
) -> str:
    name = facts.block.name
    if not kept or not facts.writes_in_order():
        return f"in order{share(schedule, machine, kept[:1], facts.runs)}" if kept else "in order"
    vector_lanes = machine.lanes(max(facts.target.dtype.bits, 8))
    extent = extent_of(facts.axes("spatial")[-1].extent)
    lanes = vector_lanes * min(machine.vector_registers // 2, max(ACCUMULATORS, extent // (vector_lanes * SHARES)))
    reduces = [h for h in loops if not any(h is k for k in kept)]
    if extent <= lanes:
        vector, outer = kept[-1], kept[:-1]
    else:
        block, vector = schedule.split(kept[-1], lanes, tail="mask")
        outer = [*kept[:-1], block]
    schedule.reorder(*outer, *reduces, vector)
    start = schedule.decompose_reduction(name, reduces[0])
    schedule.vectorize(vector)
    schedule.vectorize(schedule.loops(start)[-1])
    return f"{min(lanes, extent)} results in lanes{share(schedule, machine, outer, facts.runs)}"
