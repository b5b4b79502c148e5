"""Reductions of windows (pooling, moving sums): neighbouring results in lanes, the taps of a window copied out.

What only the windows read, such as a padded image, is computed plane by plane just before, and stays in the caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from lpx.errors import ScheduleError
from lpx.expr import traverse as expr_traverse
from lpx.expr.nodes import Load, Var
from lpx.rules.contraction import loops_inside
from lpx.rules.elementwise import lanes_for, share, split_vector
from lpx.rules.facts import BlockFacts, facts_of, follower, sole_maker
from lpx.schedule import queries
from lpx.schedule.errors import OptionError
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine

WIDEST_STEP = 4
"""Elements from a window to the next one at most: up to there vectors are read whole and shuffled."""

TAPS = 64
"""Taps of a window that are copied out, at most."""

VECTORS = 4
"""Registers of neighbouring results: they are computed side by side while reads of others are under way."""


def gather(schedule: Schedule, machine: CpuMachine, notes: list[str], before: set[str]) -> set[str]:
    """Schedule every reduction of windows of blocks not done `before`, with what makes them; the blocks done now."""
    done = set(before)
    for name in list(facts_of(schedule.function)):
        if name in done or not is_window(facts_of(schedule.function)[name]):
            continue
        unchanged = schedule.function, schedule.trace
        try:
            makers, after = _maker(schedule, name), follower(schedule.function, name)
            notes.append(f"{', '.join([*makers, name])}: {_schedule(schedule, name, makers, machine)}")
        except ScheduleError as refused:
            schedule.function, schedule.trace = unchanged
            notes.append(f"{name}: no windows side by side ({refused.message})")
            continue
        done |= {b for b in facts_of(schedule.function) if any(b.startswith(n) for n in [*makers, name]) or b == after}
    return done


def is_window(facts: BlockFacts) -> bool:
    """Whether neighbouring results reduce short windows that lie side by side in memory.

    Windows may be weighted, by one number for a whole vector of results that serves no results elsewhere: a depthwise
    convolution. A convolution whose filters share their windows has better loops.
    """
    if not facts.is_reduction or not facts.is_plain or facts.axes("sequential") or not facts.writes_in_order():
        return False
    spatial, reduced = facts.axes("spatial"), facts.axes("reduce")
    taps = [queries.constant_value(a.extent) for a in reduced]
    if not spatial or None in taps or prod(t or 0 for t in taps) > TAPS or not facts.loads:
        return False
    steps = {e: facts.stride(e.indices, e.buffer, spatial[-1].var) for e in facts.loads}
    images = [e for e, step in steps.items() if step is not None and 1 <= step <= WIDEST_STEP]
    weights = [e for e, step in steps.items() if step == 0]
    if not images or len(images) + len(weights) < len(steps):
        return False
    return not weights or (all(_walks(facts, e) for e in images) and _used(weights) <= _used(images))


def _walks(facts: BlockFacts, load: Load) -> bool:
    """Whether an index of a read mixes an axis of the result with one of the window."""
    kept, reduced = ({a.var for a in facts.axes(kind)} for kind in ("spatial", "reduce"))
    used = (expr_traverse.free_vars(i) for i in load.indices)
    return any(not kept.isdisjoint(u) and not reduced.isdisjoint(u) for u in used)


def _used(loads: Sequence[Load]) -> set[Var]:
    return {v for e in loads for i in e.indices for v in expr_traverse.free_vars(i)}


def _maker(schedule: Schedule, name: str) -> list[str]:
    """The element-wise block that makes what only the windows read, if there is one."""
    facts = facts_of(schedule.function)[name]
    makers = (sole_maker(schedule.function, name, load.buffer) for load in facts.loads)
    fits = (m for m in makers if m is not None and len(m.axes("spatial")) == len(facts.axes("spatial")) > 2)
    return [m.block.name for m in fits][:1]


def _schedule(schedule: Schedule, name: str, makers: list[str], machine: CpuMachine) -> str:
    facts = facts_of(schedule.function)[name]
    count = len(facts.axes("spatial"))
    after = follower(schedule.function, name) if count > 2 else ""
    loops = list(schedule.loops(name))
    outer, last, taps = loops[: count - 1], loops[count - 1], loops[count:]
    around = outer
    if after:
        planes = list(schedule.loops(after)[: count - 2])
        schedule.compute_at(name, planes[-1])
        rows, columns, taps = (
            loops_inside(schedule, name, planes[-1], [a.var for a in axes])
            for axes in (facts.axes("spatial")[:-1], facts.axes("spatial")[-1:], facts.axes("reduce"))
        )
        if not columns or not taps:
            raise OptionError("windows of one element, or planes of one column")
        outer, around, last = [*planes, *rows], rows, columns[0]
    vector, steps = _side_by_side(schedule, facts, last, machine)
    schedule.reorder(*around, *steps, *taps, vector)
    start = schedule.decompose_reduction(name, taps[0])
    for tap in taps:
        schedule.unroll(tap)
    schedule.vectorize(vector)
    schedule.vectorize(schedule.loops(start)[-1])
    for maker in makers:
        schedule.compute_at(maker, outer[count - 3])
    for other in [*makers, *([after] if after else [])]:
        inner = schedule.loops(other)[-1]
        extent = queries.constant_value(schedule.loop_of(inner).extent)
        lanes = lanes_for(facts_of(schedule.function)[other], machine)
        schedule.vectorize(split_vector(schedule, inner, lanes, extent))
    shared = share(schedule, machine, outer[: count - 2] if makers or after else outer, facts.runs)
    return f"windows side by side in lanes{shared}" + (f", {after} applied to each plane" if after else "")


def _side_by_side(
    schedule: Schedule, facts: BlockFacts, loop: LoopHandle, machine: CpuMachine
) -> tuple[LoopHandle, list[LoopHandle]]:
    """The loop over neighbouring results in vectors, and the loops outside of it; parts of a row are equal."""
    most = VECTORS * machine.lanes(facts.bits)
    extent = queries.constant_value(schedule.loop_of(loop).extent)
    lanes = machine.lanes(facts.bits)
    if extent is not None and extent < lanes and extent & (extent - 1):  # one register, whose last lanes are off
        whole, vector = schedule.split(loop, 1 << extent.bit_length(), tail="mask")
        return vector, [whole]
    if extent is not None and extent <= most:
        return loop, []
    size = most if extent is None else -(-extent // -(-extent // most))
    step, vector = schedule.split(loop, size, tail="mask")
    return vector, [step]
