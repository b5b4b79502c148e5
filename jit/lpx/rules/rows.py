"""Chains of row operations (softmax, normalisations): every step of a row before the next row.

The last block of the chain keeps its loops over rows; the blocks it depends on move under them, so a row stays in the
nearest cache from the first step to the last.
"""

from __future__ import annotations

from lpx.errors import ScheduleError
from lpx.rules import contraction, reduction
from lpx.rules.elementwise import lanes_for, share, split_vector
from lpx.rules.facts import BlockFacts, extent_of, facts_of
from lpx.schedule import queries
from lpx.schedule.handles import LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine


def gather(schedule: Schedule, machine: CpuMachine, notes: list[str]) -> set[str]:
    """Schedule every chain of row operations; the names of the blocks that are done."""
    done: set[str] = set()
    for name in reversed(list(facts_of(schedule.function))):
        facts = facts_of(schedule.function)
        if name in done or name not in facts:
            continue
        chain = _chain(schedule, facts[name], facts)
        if not chain:
            continue
        names = [*chain, name]
        before = schedule.function, schedule.trace
        try:
            note = _schedule_chain(schedule, chain, name, machine)
        except ScheduleError as refused:
            schedule.function, schedule.trace = before
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
    reductions = [m for m in members if m.is_reduction]
    if not reductions or any(len(m.axes("reduce")) != 1 for m in [*reductions, *([last] if last.is_reduction else [])]):
        return []
    outputs = {p.buffer for p in schedule.function.params}
    if any(m.target in outputs for m in members):
        return []
    rows = _rows(last, members)
    same = all(_leading(m, rows) == _leading(last, rows) for m in members)
    return [m.block.name for m in members] if rows and same else []


def _leading(facts: BlockFacts, rows: int) -> list[int]:
    return [extent_of(a.extent) for a in facts.axes("spatial")[:rows]]


def _schedule_chain(schedule: Schedule, chain: list[str], last: str, machine: CpuMachine) -> str:
    facts = facts_of(schedule.function)
    rows = _rows(facts[last], [facts[n] for n in chain])
    work = sum(facts[n].runs * max(facts[n].cost, 1) for n in [*chain, last])
    loops = schedule.loops(last)
    row = schedule.fuse(*loops[:rows]) if rows > 1 else loops[0]
    for name in reversed(chain):
        schedule.compute_at(name, row)
    notes = [_inside(schedule, name, row, machine) for name in [*chain, last]]
    shared = share(schedule, machine, [row], work)
    return f"row by row{shared}; " + "; ".join(n for n in notes if n)


def _inside(schedule: Schedule, name: str, row: LoopHandle, machine: CpuMachine) -> str:
    """Vectorize one block below the loop over rows."""
    facts = facts_of(schedule.function)[name]
    loops = list(schedule.loops(name))
    below = loops[next(k for k, h in enumerate(loops) if h is row) + 1 :]
    if not below:
        return ""
    if facts.is_reduction:
        inside = below[-2] if len(below) > 1 else None
        return f"{name} {reduction.reduce_in_lanes(schedule, name, [below[-1]], machine, inside)}"
    lanes = lanes_for(facts, machine)
    vector = split_vector(schedule, below[-1], lanes, extent_of(facts.block.axes[-1].extent))
    schedule.vectorize(vector)
    return f"{name} in vectors of {lanes}"
