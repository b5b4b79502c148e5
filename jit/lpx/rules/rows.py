"""Chains of row operations (softmax, normalisations): every step of a row before the next row.

The last block of the chain keeps its loops over rows; the blocks it depends on move under them, so a row stays in the
nearest cache from the first step to the last.
"""

from __future__ import annotations

from math import prod

from lpx.errors import ScheduleError
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Load
from lpx.rules import contraction, reduction
from lpx.rules.elementwise import HEAVY, joined, lanes_for, share, split_vector
from lpx.rules.facts import BlockFacts, extent_of, facts_of
from lpx.schedule import queries
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine

GROUPS = (4, 2)
"""Rows that take each step together, where they fit the nearest cache."""


def gather(schedule: Schedule, machine: CpuMachine, notes: list[str], before: set[str]) -> set[str]:
    """Schedule every chain of row operations of blocks not done `before`; the names of the blocks that are done now."""
    done = set(before)
    for name in reversed(list(facts_of(schedule.function))):
        facts = facts_of(schedule.function)
        if name in done or name not in facts:
            continue
        chain = _chain(schedule, facts[name], facts)
        if not chain or done & {*chain, name}:
            continue
        names = [*chain, name]
        unchanged = schedule.function, schedule.trace
        try:
            note = _schedule_chain(schedule, chain, name, machine)
        except ScheduleError as refused:
            schedule.function, schedule.trace = unchanged
            notes.append(f"{', '.join(names)}: rows kept apart ({refused.message})")
            continue
        notes.append(f"{', '.join(names)}: {note}")
        done |= {b for b in facts_of(schedule.function) if any(b.startswith(n) for n in names)}
    return done


def _rows(facts: BlockFacts, others: list[BlockFacts]) -> int:
    """How many leading axes the blocks share: those the reductions among them keep."""
    kept = [len(f.axes("spatial")) for f in others if f.is_reduction]
    return min([*kept, len(facts.axes("spatial"))])


def _chain(schedule: Schedule, last: BlockFacts, facts: dict[str, BlockFacts]) -> list[str]:
    """The blocks that `last` depends on, and nobody outside the chain, with at least one row reduction."""
    members = members_of(schedule, last, facts)
    reductions = [m for m in members if m.is_reduction]
    if not reductions or not all(_reduces_rows(m) for m in [*reductions, *([last] if last.is_reduction else [])]):
        return []
    rows = _rows(last, members)
    same = all(_leading(m, rows) == _leading(last, rows) for m in members)
    if not rows or not same or _is_one_pass([*members, last], rows):
        return []
    return [m.block.name for m in members]


def members_of(schedule: Schedule, last: BlockFacts, facts: dict[str, BlockFacts]) -> list[BlockFacts]:
    """The blocks that `last` depends on, and nobody else; none where one of them cannot run in loops of `last`."""
    if last.axes("sequential") or not last.is_plain or not last.writes_in_order():
        return []
    chain = {last.block.name}
    for name in reversed(list(facts)):
        readers = [b.name for b in queries.readers(schedule.function, facts[name].target) if b.name != name]
        if name not in chain and readers and all(r in chain for r in readers):
            chain.add(name)
    chain.discard(last.block.name)
    members = [facts[n] for n in facts if n in chain]
    if any(not m.is_plain or m.axes("sequential") or m.checks or not m.writes_in_order() for m in members):
        return []
    if any(contraction.recognise(m) is not None for m in [*members, last]):
        return []
    outputs = {p.buffer for p in schedule.function.params}
    return [] if any(m.target in outputs for m in members) else members


def _is_one_pass(blocks: list[BlockFacts], rows: int) -> bool:
    """Whether a chain passes by each row once: what is left to do are numbers, for which rows are lanes."""
    passes = [b for b in blocks if b.is_reduction or len(b.axes("spatial")) > rows]
    return len(passes) == 1 and passes[0].is_reduction


def _reduces_rows(facts: BlockFacts) -> bool:
    """Whether a reduction runs through memory without a gap; down the columns of a matrix, results would be lanes."""
    return reduction.reduces_contiguously(facts) and reduction.contiguous_axes(facts) == len(facts.axes("reduce"))


def _leading(facts: BlockFacts, rows: int) -> list[int]:
    return [extent_of(a.extent) for a in facts.axes("spatial")[:rows]]


def _schedule_chain(schedule: Schedule, chain: list[str], last: str, machine: CpuMachine) -> str:
    facts = facts_of(schedule.function)
    rows = _rows(facts[last], [facts[n] for n in chain])
    work = sum(facts[n].runs * max(facts[n].cost, 1) for n in [*chain, last])
    loops = schedule.loops(last)
    row = schedule.fuse(*loops[:rows]) if rows > 1 else loops[0]
    group = _rows_at_a_time(facts[last], queries.constant_value(schedule.loop_of(row).extent), rows, machine)
    if group > 1:
        row, _ = schedule.split(row, group)
    for name in reversed(chain):
        schedule.compute_at(name, row)
    notes = inside_all(schedule, [*chain, last], row, machine)
    notes += _ask_for_next_row(schedule, [*chain, last], row, machine)
    notes += _ask_for_results(schedule, chain, last, row, machine)
    shared = share(schedule, machine, [row], work)
    grouped = f", {group} at a time" if group > 1 else ""
    return f"row by row{grouped}{shared}; " + "; ".join(n for n in notes if n)


def _rows_at_a_time(last: BlockFacts, count: int | None, rows: int, machine: CpuMachine) -> int:
    """How many rows take each step together: while the lanes of one are combined, another one is under way."""
    length = prod(extent_of(a.extent) for a in last.axes("spatial")[rows:]) * last.target.dtype.itemsize
    sizes = [g for g in GROUPS if count is not None and count % g == 0 and g * length * 4 <= machine.l1d.bytes]
    return sizes[0] if sizes and count else 1


def inside_all(schedule: Schedule, names: list[str], row: LoopHandle, machine: CpuMachine) -> list[str]:
    """Vectorize the blocks below the loop over rows, sums of what was just computed along with it."""
    notes: list[str] = []
    done: set[str] = set()
    for position, name in enumerate(names):
        sums = [r for r in names[position + 1 :] if _adds_up(schedule, r, name)]
        before = schedule.function, schedule.trace
        try:
            note = _with_sum(schedule, name, sums[0], machine) if len(sums) == 1 else ""
        except ScheduleError:
            schedule.function, schedule.trace = before
            note = ""
        if note:
            done.add(sums[0])
        if name not in done:
            notes.append(note or _inside(schedule, name, row, machine))
    return notes


def _adds_up(schedule: Schedule, reduction_name: str, name: str) -> bool:
    """Whether a block reduces a row of what another, element-wise one computes, all of it and in order."""
    facts = facts_of(schedule.function)
    made, reducing = facts[name], facts[reduction_name]
    if made.is_reduction or len(reducing.axes("reduce")) != 1:
        return False
    reads = [e for e in reducing.loads if e.buffer is made.target]
    axis = reducing.axes("reduce")[0]
    extents = [extent_of(a.extent) for a in (axis, made.axes("spatial")[-1])]
    return bool(reads) and all(e.indices[-1] is axis.var for e in reads) and extents[0] == extents[1]


def _with_sum(schedule: Schedule, name: str, reduction_name: str, machine: CpuMachine) -> str:
    """Vectorize an element-wise block, and the reduction of what it computes in the same loop; "" for short rows."""
    facts = facts_of(schedule.function)
    lanes = machine.lanes(max(facts[name].bits, facts[reduction_name].bits))
    loop = schedule.loops(name)[-1]
    extent = extent_of(schedule.loop_of(loop).extent)
    if extent < lanes:
        return ""
    width = lanes * min(reduction.ACCUMULATORS, max(1, extent // (2 * lanes)))
    if facts[name].cost >= HEAVY:  # one addition waits for the other no longer than a value takes to compute
        width = lanes
    steps, inner = schedule.split(loop, width, tail="mask")
    schedule.reverse_compute_at(reduction_name, steps)
    part = schedule.loops(reduction_name)[-1]
    combine = schedule.rfactor(reduction_name, part)
    start = schedule.decompose_reduction(reduction_name, steps)
    vector = inner
    if width > lanes:
        registers, vector = schedule.split(inner, lanes, tail="mask")
        schedule.unroll(registers)
    for each in (vector, part, schedule.loops(start)[-1]):
        schedule.vectorize(each)
    schedule.cross_lane_reduce(combine, schedule.loops(combine)[-1])
    return f"{name} in vectors of {lanes}, {reduction_name} with it in {width} partial results (reassociated)"


def _ask_for_next_row(schedule: Schedule, names: list[str], row: LoopHandle, machine: CpuMachine) -> list[str]:
    """While the last block that reads rows of an operand runs, ask for the next row: the first block waits for it."""
    for name in reversed(names):
        facts = facts_of(schedule.function)[name]
        loops = list(schedule.loops(name))
        *steps, _ = loops[next(k for k, h in enumerate(loops) if h.var is row.var) :]
        extents = [queries.constant_value(schedule.loop_of(h).extent) for h in steps[1:]]
        if not extents or None in extents or facts.is_reduction:
            continue
        for load in facts.loads:
            if _is_next_row_behind(facts, load) and _size(load.buffer) > machine.l2.bytes // 2:
                schedule.prefetch(name, load.buffer, steps[-1], prod(e or 0 for e in extents))
                return [f"the next row of {load.buffer.name} asked for by {name}"]
    return []


def _ask_for_results(
    schedule: Schedule, chain: list[str], last: str, row: LoopHandle, machine: CpuMachine
) -> list[str]:
    """While the last but one block runs along a row, ask for the lines that the last one writes.

    A store to a line that is not in the nearest cache waits for it, and there are more of them than can wait.
    """
    target = facts_of(schedule.function)[last].target
    if _size(target) <= machine.l2.bytes // 2:
        return []
    for name in reversed(chain):
        loops = list(schedule.loops(name))
        inside = loops[next(k for k, h in enumerate(loops) if h.var is row.var) + 1 :]
        if len(inside) > 1 and schedule.loop_of(inside[-1]).kind == "vectorized":
            schedule.prefetch(last, target, row, 0, over=inside[-2])
            return [f"the place of {target.name} asked for by {name}"]
    return []


def _is_next_row_behind(facts: BlockFacts, load: Load) -> bool:
    """Whether a block reads rows of an operand one after another."""
    spatial = facts.axes("spatial")
    strides = [facts.stride(load.indices, load.buffer, a.var) for a in spatial[-2:]]
    is_operand = any(p.buffer is load.buffer for p in facts.function.params)
    return is_operand and strides == [extent_of(spatial[-1].extent), 1]


def _size(buffer: Buffer) -> int:
    return prod(extent_of(e) for e in buffer.shape) * buffer.dtype.itemsize


def _inside(schedule: Schedule, name: str, row: LoopHandle, machine: CpuMachine) -> str:
    """Vectorize one block below the loop over rows."""
    facts = facts_of(schedule.function)[name]
    loops = list(schedule.loops(name))
    below = loops[next(k for k, h in enumerate(loops) if h is row) + 1 :]
    if not below:
        return ""
    if facts.is_reduction:
        reduced = reduction.fuse_contiguous(schedule, facts, below[-len(facts.axes("reduce")) :])
        kept = below[: -len(facts.axes("reduce"))]
        return f"{name} {reduction.reduce_in_lanes(schedule, name, reduced, machine, kept[-1] if kept else None)}"
    lanes = lanes_for(facts, machine)
    inner = joined(schedule, facts, below)
    extent = queries.constant_value(schedule.loop_of(inner).extent)
    vector = split_vector(schedule, inner, lanes, extent)
    schedule.vectorize(vector)
    return f"{name} in vectors of {lanes}"
