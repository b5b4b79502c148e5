"""The default schedule of a program: rules applied in order, each to the blocks it recognises.

    1. inline what is cheap to compute again (`inlining`), and copy what lies across a reduction (`realign`);
    2. run tiles of bilinear algorithms through all their steps (`bilinear`), and strips of rows from one contraction to
       the next (`strips`);
    3. gather windows with what makes them (`windows`), chains of operations on rows, or on columns, under one loop over
       them (`rows`, `columns`), the steps of a scan under loops over its elements (`recurrences`), and element-wise
       blocks that feed each other in one loop (`chains`);
    4. schedule convolutions, some along with what makes their image;
    5. give each remaining block the schedule of its kind: contraction, reduction, transpose, elementwise.

A rule uses nothing but schedule primitives, so the trace of a default schedule replays like any other. Each rule leaves
a note that `explain()` shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lpx.errors import ScheduleError
from lpx.ir.nodes import Function
from lpx.rules import (
    bilinear,
    chains,
    columns,
    convolution,
    crossing,
    dotted,
    elementwise,
    inlining,
    products,
    realign,
    recurrences,
    reduction,
    rows,
    strips,
    windows,
)
from lpx.rules.facts import facts_of
from lpx.schedule import queries
from lpx.schedule.schedule import Schedule, create_schedule
from lpx.target import CpuMachine, Target

Rule = Callable[[Schedule, str, CpuMachine], str]
"""Schedules the block of that name if it recognises it; what it did, in words, or nothing."""

RULES: tuple[tuple[Rule, ...], ...] = (
    (dotted.apply, convolution.apply),
    (products.apply, reduction.apply, crossing.apply, elementwise.apply),
)
"""What a block by itself may be, the most special first; rules of one line see all blocks before those of the next."""


@dataclass(slots=True)
class DefaultSchedule:
    """A schedule the rules made, and in words what they did."""

    schedule: Schedule
    notes: list[str] = field(default_factory=list[str])


def default_schedule(function: Function, target: Target) -> DefaultSchedule:
    """A good schedule of `function` for a CPU, without measuring anything.

    The result computes the same values; floating-point reductions may be reassociated, which a note then says.
    """
    made = DefaultSchedule(create_schedule(function))
    machine = target.cpu
    made.notes += inlining.inline_positions(made.schedule)
    algorithms = bilinear.find(made.schedule)
    runs = strips.find(made.schedule)
    kept = [name for steps in algorithms for name in steps.names] + [name for run in runs for name in run.names]
    made.notes += inlining.inline_cheap(made.schedule, kept)
    made.notes += realign.realign(made.schedule)
    for steps in algorithms:
        _apply_first(made, steps.products, (bilinear.apply,), machine)
    grouped = strips.gather(made.schedule, runs, machine, made.notes)
    grouped = columns.gather(made.schedule, machine, made.notes, grouped)
    grouped = windows.gather(made.schedule, machine, made.notes, grouped)
    grouped = rows.gather(made.schedule, machine, made.notes, grouped)
    grouped = recurrences.gather(made.schedule, machine, made.notes, grouped)
    grouped = chains.gather(made.schedule, machine, made.notes, grouped)
    for rules in RULES:
        for name in facts_of(made.schedule.function):
            if name not in grouped and not _is_scheduled(made.schedule, name):
                _apply_first(made, name, rules, machine)
    return made


def _apply_first(made: DefaultSchedule, name: str, rules: Sequence[Rule], machine: CpuMachine) -> None:
    """Schedule a block by the first rule that recognises it; what a rule did before it was refused is undone."""
    for rule in rules:
        before = made.schedule.function, made.schedule.trace
        try:
            note = rule(made.schedule, name, machine)
        except ScheduleError as refused:
            made.schedule.function, made.schedule.trace = before
            made.notes.append(f"{name}: left as it was by {rule.__module__.rpartition('.')[2]} ({refused.message})")
            continue
        if note:
            made.notes.append(f"{name}: {note}")
            return


def _is_scheduled(schedule: Schedule, name: str) -> bool:
    """Whether a block is gone, or has been scheduled along with another."""
    if name not in queries.live_blocks(schedule.function):
        return True
    return any(queries.live_loops(schedule.function)[h.var].kind != "serial" for h in schedule.loops(name))
