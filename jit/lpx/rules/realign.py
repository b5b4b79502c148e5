"""Operands of a reduction that lie across it: copied so that they lie along it, where each element is read repeatedly.

A matrix by a vector per batch, `"lik,kl->li"`, runs along k in vector lanes. The second operand would be gathered for
each i anew; its transpose is read as whole vectors, and stays in a cache.
"""

from __future__ import annotations

from math import prod

from lpx.expr import build
from lpx.expr.nodes import Axis, Const, Load, Var
from lpx.rules import contraction, reduction
from lpx.rules.facts import BlockFacts, extent_of, facts_of
from lpx.schedule.schedule import Schedule
from lpx.schedule.values import IndexMap

REUSE = 4
"""Times that an element is read, from which on copying it pays."""


def realign(schedule: Schedule) -> list[str]:
    """Copy what reductions read across their last axis; the notes of what was done."""
    notes: list[str] = []
    for name, facts in facts_of(schedule.function).items():
        copied = _copy(schedule, name, facts)
        if copied:
            notes.append(f"{name}: {' and '.join(copied)} copied to lie along {facts.axes('reduce')[-1].var.name}")
    return notes


def _copy(schedule: Schedule, name: str, facts: BlockFacts) -> list[str]:
    """Copy what one block reads across its last reduce axis; the names of the buffers."""
    if not facts.is_reduction or not facts.is_plain or facts.axes("sequential"):
        return []
    if not reduction.reduces_contiguously(facts) or contraction.recognise(facts) is not None:
        return []
    along = facts.axes("reduce")[-1]
    copied = {e.buffer: e for e in facts.loads if _lies_across(facts, e, along)}
    if any(sum(e.buffer is buffer for e in facts.loads) > 1 for buffer in copied):
        return []
    for load in copied.values():
        schedule.pack(name, load.buffer, _last(load, along))
    return [buffer.name for buffer in copied]


def _lies_across(facts: BlockFacts, load: Load, along: Axis) -> bool:
    """Whether a read takes long steps along an axis, at plain indices, and does so again for other results."""
    known = {a.var for a in facts.block.axes if isinstance(a.extent, Const)}
    read = {i for i in load.indices if isinstance(i, Var) and i in known}
    if len(read) < len(load.indices) or along.var not in read:
        return False
    again = prod(extent_of(a.extent) for a in facts.axes("spatial") if a.var not in read)
    return facts.stride(load.indices, load.buffer, along.var) != 1 and again >= REUSE


def _last(load: Load, along: Axis) -> IndexMap:
    """The layout with the dimension of an axis last."""
    variables = tuple(build.var(f"i{k}") for k in range(len(load.indices)))
    (place,) = [v for v, index in zip(variables, load.indices, strict=True) if index is along.var]
    return IndexMap(variables, (*(v for v in variables if v is not place), place))
