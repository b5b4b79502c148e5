"""Inlining: values that are cheaper to compute again than to store and load."""

from __future__ import annotations

from collections.abc import Callable, Collection

from lpx.errors import ScheduleError
from lpx.rules.facts import BlockFacts, facts_of
from lpx.schedule import queries
from lpx.schedule.schedule import Schedule

CHEAP = 1
"""Cost up to which a value is computed again wherever it is read."""


def inline_positions(schedule: Schedule) -> list[str]:
    """Inline every intermediate block that counts or compares positions; the notes of what was done."""
    return _inline(schedule, _is_position)


def inline_cheap(schedule: Schedule, kept: Collection[str] = ()) -> list[str]:
    """Inline every intermediate element-wise block that pays, but those `kept`; the notes of what was done."""
    return _inline(schedule, lambda s, facts: facts.block.name not in kept and _pays(s, facts))


def _inline(schedule: Schedule, pays: Callable[[Schedule, BlockFacts], bool]) -> list[str]:
    notes: list[str] = []
    for name in list(facts_of(schedule.function)):
        facts = facts_of(schedule.function).get(name)
        if facts is None or not pays(schedule, facts):
            continue
        try:
            schedule.compute_inline(name)
        except ScheduleError:
            continue
        notes.append(f"{name}: computed where it is read")
    return notes


def _is_position(schedule: Schedule, facts: BlockFacts) -> bool:
    """Whether a block stores integers or bools that are made of its axes alone, for others to read."""
    if facts.is_reduction or not facts.is_plain or facts.axes("sequential") or facts.target.dtype.is_float:
        return False
    is_result = any(p.buffer is facts.target for p in schedule.function.params)
    return not is_result and not facts.loads and bool(queries.readers(schedule.function, facts.target))


def _pays(schedule: Schedule, facts: BlockFacts) -> bool:
    if facts.is_reduction or not facts.is_plain or facts.axes("sequential"):
        return False
    if any(p.buffer is facts.target for p in schedule.function.params):
        return False
    readers = queries.readers(schedule.function, facts.target)
    if not readers:
        return False
    if facts.is_view and not facts.checks:  # reading the original costs the same, if not far apart in each step
        return facts.keeps_order or not any(BlockFacts(schedule.function, r).axes("sequential") for r in readers)
    if facts.cost <= CHEAP:
        return len(readers) == 1 or not any(BlockFacts(schedule.function, r).is_reduction for r in readers)
    return len(readers) == 1 and not any(_reread(r.name, schedule, facts) for r in readers)


def _reread(reader: str, schedule: Schedule, facts: BlockFacts) -> bool:
    """Whether the reader runs more often than the block, so that values would be computed again and again."""
    return facts_of(schedule.function)[reader].runs > facts.runs
