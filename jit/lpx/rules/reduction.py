"""Reductions that are no contraction: partial results in the lanes of vectors.

Where the contiguous axis is kept, lanes are neighbouring results, which stay in the nearest cache while rows run past
them. Where it is reduced, lanes are parts of one result (`rfactor`), combined at the end: a float reduction is
reassociated. So it is where threads would have too few results to share and each gets parts of the reduction.
"""

from __future__ import annotations

from math import prod

from lpx.expr.nodes import Const
from lpx.rules.elementwise import PARALLEL_WORK, share
from lpx.rules.facts import BlockFacts, extent_of, facts_of
from lpx.schedule import queries
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine

ACCUMULATORS = 4
"""Vectors of partial results: enough to hide the latency of an addition."""

TUPLE_ACCUMULATORS = 2
"""The same for tuples, whose combination is long."""

TUPLE_ROWS = 4
"""Rows of tuples that are reduced side by side."""

AHEAD = 32
"""Steps ahead for which memory is asked, where it comes from far."""

ROWS = 8
"""Rows that are added to a vector of results at a time: results are read and written that much less often than rows."""

CHUNKS = 4
"""Parts of a reduction for each thread, where results are too few to be shared."""


def apply(schedule: Schedule, name: str, machine: CpuMachine) -> str:
    """Schedule one reduction; what was done, or "" where the rule does not apply."""
    facts = facts_of(schedule.function)[name]
    if not facts.is_reduction or not facts.is_accumulation:
        return ""
    loops = list(schedule.loops(name))[-len(facts.block.axes) :]
    kinds = [a.kind for a in facts.block.axes]
    kept = [h for h, k in zip(loops, kinds, strict=True) if k == "spatial"]
    reduced = [h for h, k in zip(loops, kinds, strict=True) if k == "reduce"]
    if reduces_contiguously(facts):
        return _reduce_rows(schedule, facts, kept, reduced, machine)
    return _keep_in_lanes(schedule, facts, kept, reduced, machine)


def _reduce_rows(
    schedule: Schedule, facts: BlockFacts, kept: list[LoopHandle], reduced: list[LoopHandle], machine: CpuMachine
) -> str:
    """Lanes are parts of one result."""
    reduced = fuse_contiguous(schedule, facts, reduced)
    step = _part_for_threads(schedule, facts, reduced, machine.cores, machine)
    if step:
        part, reduced[0] = schedule.split(reduced[0], step)
        schedule.rfactor(facts.block.name, part)
        kept = [schedule.fuse(*kept, part) if kept else part]
    elif not facts.is_plain and _several_rows(schedule, kept, reduced, machine.lanes(facts.bits)):
        kept[-1], note = _reduce_tuples(schedule, facts, kept[-1], reduced, machine)
        return note + share(schedule, machine, kept, facts.runs)
    note = reduce_in_lanes(schedule, facts.block.name, reduced, machine, kept[-1] if kept else None)
    _ask_ahead(schedule, facts.block.name, machine)
    if step:
        schedule.parallel(kept[0])
        return f"{note}, parts of {step} for threads (reassociated)"
    return note + share(schedule, machine, kept, facts.runs)


def reduces_contiguously(facts: BlockFacts) -> bool:
    """Whether the last reduce axis walks through memory element by element, and the last spatial one does not."""
    last = facts.axes("reduce")[-1].var
    return any(facts.stride(e.indices, e.buffer, last) == 1 for e in facts.loads)


def fuse_contiguous(schedule: Schedule, facts: BlockFacts, reduced: list[LoopHandle]) -> list[LoopHandle]:
    """`reduced`, the innermost of them joined to one loop as far as they run through memory without a gap."""
    count = contiguous_axes(facts)
    inner = schedule.fuse(*reduced[-count:]) if count > 1 else reduced[-1]
    return [*reduced[:-count], inner]


def contiguous_axes(facts: BlockFacts) -> int:
    """How many of the last reduce axes run through memory without a gap, as one axis would."""
    axes = facts.axes("reduce")
    count, length = 1, extent_of(axes[-1].extent)
    while count < len(axes) and isinstance(axes[-count].extent, Const):
        outer = axes[-count - 1]
        steps = [[facts.stride(e.indices, e.buffer, a.var) for a in (outer, axes[-1])] for e in facts.loads]
        if any(step is None or unit is None or step != unit * length for step, unit in steps):
            break
        length *= extent_of(outer.extent)
        count += 1
    return count


def _part_for_threads(
    schedule: Schedule, facts: BlockFacts, reduced: list[LoopHandle], enough: int, machine: CpuMachine
) -> int:
    """How many iterations of the first loop make a part of the reduction for one thread.

    0 where results are `enough` for all threads, or where that does not pay.
    """
    results = prod(extent_of(a.extent) for a in facts.axes("spatial"))
    length = schedule.loop_of(reduced[0]).extent
    if results >= enough or machine.cores == 1 or not isinstance(length, Const) or facts.axes("sequential"):
        return 0
    whole = machine.lanes(facts.bits) * ACCUMULATORS if len(reduced) == 1 else 1
    step = -(-extent_of(length) // (CHUNKS * machine.cores) // whole) * whole
    return step if facts.runs >= PARALLEL_WORK and step < extent_of(length) else 0


def reduce_in_lanes(
    schedule: Schedule, name: str, reduced: list[LoopHandle], machine: CpuMachine, row: LoopHandle | None
) -> str:
    """Reduce over the loops `reduced`, the innermost around the block, the last of them in vector lanes.

    Lanes are combined inside the loop `row`, after all loops where there is none. Returns what was done.
    """
    facts = facts_of(schedule.function)[name]
    loop = reduced[-1]
    lanes = machine.lanes(facts.bits)
    extent = extent_of(schedule.loop_of(loop).extent)
    if extent < lanes:
        return f"in order, {extent} steps"
    most = ACCUMULATORS if facts.is_plain else TUPLE_ACCUMULATORS
    width = lanes * min(most, max(1, extent // lanes))
    steps, part = schedule.split(loop, width, tail="mask")
    combine = schedule.rfactor(name, part)
    schedule.reorder(steps, part)
    if row is not None and all(h.var is not row.var for h in schedule.loops(combine)):
        schedule.reverse_compute_at(combine, row)
    start = schedule.decompose_reduction(name, (*reduced[:-1], steps)[0])
    _in_vectors(schedule, part, lanes, facts)
    _in_vectors(schedule, schedule.loops(start)[-1], lanes, facts)
    schedule.cross_lane_reduce(combine, schedule.loops(combine)[-1])
    return f"{width} partial results in lanes (reassociated)"


def _ask_ahead(schedule: Schedule, name: str, machine: CpuMachine) -> None:
    """Ask for what is reduced some steps early where it comes from far: between rows no processor looks ahead."""
    facts = facts_of(schedule.function)[name]
    loops = list(schedule.loops(name))
    if len(loops) < 2 or schedule.loop_of(loops[-1]).kind != "vectorized":
        return
    for buffer in dict.fromkeys(e.buffer for e in facts.loads):
        size = prod(extent_of(e) for e in buffer.shape) * buffer.dtype.itemsize
        if size > machine.l2.bytes:
            schedule.prefetch(name, buffer, loops[-2], AHEAD)


def _several_rows(schedule: Schedule, kept: list[LoopHandle], reduced: list[LoopHandle], lanes: int) -> bool:
    """Whether rows come in groups, and are long enough for lanes."""
    count = queries.constant_value(schedule.loop_of(kept[-1]).extent) if kept else None
    if count is None or count == 0 or count % TUPLE_ROWS:
        return False
    return extent_of(schedule.loop_of(reduced[-1]).extent) >= 2 * lanes


def _reduce_tuples(
    schedule: Schedule, facts: BlockFacts, row: LoopHandle, reduced: list[LoopHandle], machine: CpuMachine
) -> tuple[LoopHandle, str]:
    """Several rows side by side, a register of partial results for each: their long combinations overlap.

    The loop over groups of rows, and what was done.
    """
    name, lanes = facts.block.name, machine.lanes(facts.bits)
    group, row = schedule.split(row, TUPLE_ROWS)
    steps, part = schedule.split(reduced[-1], lanes, tail="mask")
    combine = schedule.rfactor(name, part)
    schedule.reorder(group, *reduced[:-1], steps, row, part)
    schedule.reverse_compute_at(combine, group)
    start = schedule.decompose_reduction(name, (*reduced[:-1], steps)[0])
    *_, start_row, start_part = schedule.loops(start)
    *_, combine_row, combine_part = schedule.loops(combine)
    for each in (row, start_row, combine_row):
        schedule.unroll(each)
    for each in (part, start_part):
        schedule.vectorize(each)
    schedule.cross_lane_reduce(combine, combine_part)
    return group, f"{TUPLE_ROWS} rows at a time, {lanes} partial results of each in lanes (reassociated)"


def _in_vectors(schedule: Schedule, loop: LoopHandle, lanes: int, facts: BlockFacts) -> None:
    """Run a loop in vectors; for a tuple of one register each, as wider conditions are joined and taken apart."""
    if not facts.is_plain and extent_of(schedule.loop_of(loop).extent) > lanes:
        registers, loop = schedule.split(loop, lanes)
        schedule.unroll(registers)
    schedule.vectorize(loop)


def _keep_in_lanes(
    schedule: Schedule, facts: BlockFacts, kept: list[LoopHandle], reduced: list[LoopHandle], machine: CpuMachine
) -> str:
    """Lanes are neighbouring results: rows pass a block of them that stays in the nearest cache, several at a time."""
    name, work = facts.block.name, facts.runs
    if not kept or not facts.writes_in_order():
        return f"in order{share(schedule, machine, kept[:1], work)}" if kept else "in order"
    outer, vector, columns = kept[:-1], kept[-1], list[LoopHandle]()
    step = _part_for_threads(schedule, facts, reduced, machine.cores * machine.lanes(facts.bits), machine)
    if step:
        part, reduced[0] = schedule.split(reduced[0], step)
        schedule.rfactor(name, part)
        outer = [part, *outer]
    lanes = machine.lanes(facts.bits) * (ACCUMULATORS if facts.is_plain else 1)
    extent = extent_of(facts.axes("spatial")[-1].extent)
    size = _block_of_results(facts, lanes, machine)
    if extent > size:
        block, vector = schedule.split(vector, size)
        outer.append(block)
    if extent > lanes:
        column, vector = schedule.split(vector, lanes, tail="mask")
        columns = [column]
    rows = []
    if extent_of(schedule.loop_of(reduced[-1]).extent) > ROWS and columns:
        reduced[-1], row = schedule.split(reduced[-1], ROWS)
        rows = [row]
    schedule.reorder(*outer, *reduced, *columns, *rows, vector)
    start = schedule.decompose_reduction(name, reduced[0])
    for row in rows:
        schedule.unroll(row)
    schedule.vectorize(vector)
    schedule.vectorize(schedule.loops(start)[-1])
    note = f"{min(lanes, extent)} results in lanes"
    if step:
        schedule.parallel(outer[0])
        return f"{note}, parts of {step} for threads (reassociated)"
    return note + share(schedule, machine, outer, work)


def _block_of_results(facts: BlockFacts, lanes: int, machine: CpuMachine) -> int:
    """Neighbouring results, whole vectors of them, that fit the nearest cache and leave some for each thread."""
    others = prod(extent_of(a.extent) for a in facts.axes("spatial")[:-1])
    itemsize = sum(s.buffer.dtype.itemsize for s in facts.stores)
    fits = machine.l1d.bytes // 3 // itemsize
    fair = -(-extent_of(facts.axes("spatial")[-1].extent) * others // machine.cores)
    return max(1, min(fits, fair) // lanes) * lanes
