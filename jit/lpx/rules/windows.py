"""Reductions of windows (pooling, moving sums): neighbouring results in lanes, the taps of a window copied out.

What only the windows read, such as a padded image, is computed plane by plane just before, and stays in the caches.
"""

from __future__ import annotations

from math import prod

from lpx.errors import ScheduleError
from lpx.rules.elementwise import lanes_for, share, split_vector
from lpx.rules.facts import BlockFacts, facts_of
from lpx.schedule import queries
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine

WIDEST_STEP = 4
"""Elements from a window to the next one at most: up to there vectors are read whole and shuffled."""

TAPS = 32
"""Taps of a window that are copied out, at most."""

VECTORS = 4
"""Registers of neighbouring results: they are computed side by side while reads of others are under way."""


def gather(schedule: Schedule, machine: CpuMachine, notes: list[str]) -> set[str]:
    """Schedule every reduction of windows, with what makes them; the names of the blocks that are done."""
    done: set[str] = set()
    for name in list(facts_of(schedule.function)):
        if not is_window(facts_of(schedule.function)[name]):
            continue
        before = schedule.function, schedule.trace
        try:
            makers = _maker(schedule, name)
            notes.append(f"{', '.join([*makers, name])}: {_schedule(schedule, name, makers, machine)}")
        except ScheduleError as refused:
            schedule.function, schedule.trace = before
            notes.append(f"{name}: no windows side by side ({refused.message})")
            continue
        done |= {b for b in facts_of(schedule.function) if any(b.startswith(n) for n in [*makers, name])}
    return done


def is_window(facts: BlockFacts) -> bool:
    """Whether neighbouring results reduce short windows that lie side by side in memory."""
    if not facts.is_reduction or not facts.is_plain or facts.axes("sequential") or not facts.writes_in_order():
        return False
    spatial, reduced = facts.axes("spatial"), facts.axes("reduce")
    taps = [queries.constant_value(a.extent) for a in reduced]
    if not spatial or None in taps or prod(t or 0 for t in taps) > TAPS or not facts.loads:
        return False
    steps = [facts.stride(e.indices, e.buffer, spatial[-1].var) for e in facts.loads]
    return all(step is not None and 1 <= step <= WIDEST_STEP for step in steps)


def _maker(schedule: Schedule, name: str) -> list[str]:
    """The element-wise block that makes what only the windows read, if there is one."""
    facts = facts_of(schedule.function)
    outputs = queries.param_buffers(schedule.function)
    for load in facts[name].loads:
        makers = [f for f in facts.values() if f.stores and f.target is load.buffer]
        readers = [b for b in queries.readers(schedule.function, load.buffer) if b.name != name]
        if len(makers) == 1 and not readers and load.buffer not in outputs:
            (maker,) = makers
            fits = len(maker.axes("spatial")) == len(facts[name].axes("spatial")) > 2
            if fits and maker.is_plain and not maker.is_reduction and maker.writes_in_order():
                return [maker.block.name]
    return []


def _schedule(schedule: Schedule, name: str, makers: list[str], machine: CpuMachine) -> str:
    facts = facts_of(schedule.function)[name]
    count = len(facts.axes("spatial"))
    loops = list(schedule.loops(name))
    outer, last, taps = loops[: count - 1], loops[count - 1], loops[count:]
    vector, steps = _side_by_side(schedule, facts, last, machine)
    schedule.reorder(*outer, *steps, *taps, vector)
    start = schedule.decompose_reduction(name, taps[0])
    for tap in taps:
        schedule.unroll(tap)
    schedule.vectorize(vector)
    schedule.vectorize(schedule.loops(start)[-1])
    for maker in makers:
        schedule.compute_at(maker, outer[-2])
        made = facts_of(schedule.function)[maker]
        inner = schedule.loops(maker)[-1]
        extent = queries.constant_value(schedule.loop_of(inner).extent)
        schedule.vectorize(split_vector(schedule, inner, lanes_for(made, machine), extent))
    return f"windows side by side in lanes{share(schedule, machine, outer[:-1] if makers else outer, facts.runs)}"


def _side_by_side(
    schedule: Schedule, facts: BlockFacts, loop: LoopHandle, machine: CpuMachine
) -> tuple[LoopHandle, list[LoopHandle]]:
    """The loop over neighbouring results in vectors, and the loops outside of it; parts of a row are equal."""
    most = VECTORS * machine.lanes(facts.bits)
    extent = queries.constant_value(schedule.loop_of(loop).extent)
    if extent is not None and extent <= most:
        return loop, []
    size = most if extent is None else -(-extent // -(-extent // most))
    step, vector = schedule.split(loop, size, tail="mask")
    return vector, [step]
