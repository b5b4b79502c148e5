"""The static memory plan of a graph: where each intermediate value lives in one workspace.

Two values may share memory when no step needs both. Placement is greedy by size, largest first, at the lowest offset
that is free during the value's whole life (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from lpx.graph import shapes
from lpx.graph.nodes import Value
from lpx.graph.partition import Group
from lpx.records import record

ALIGNMENT = 64


@record
class MemoryPlan:
    """Byte offsets of intermediate values in a workspace of `size` bytes."""

    offsets: Mapping[Value, int]
    size: int


def plan(groups: Sequence[Group], kept: set[Value]) -> MemoryPlan:
    """Place every value that a group makes and that is not in `kept` (the graph's outputs)."""
    lives = _lives(groups, kept)
    placed: list[tuple[int, int, int, int]] = []  # (first step, last step, begin, end)
    offsets: dict[Value, int] = {}
    for value in sorted(lives, key=lambda v: (-size_of(v), lives[v])):
        first, last = lives[value]
        busy = sorted((b, e) for f, la, b, e in placed if f <= last and first <= la)
        begin = _lowest_gap(busy, size_of(value))
        placed.append((first, last, begin, begin + size_of(value)))
        offsets[value] = begin
    return MemoryPlan(offsets, max((end for *_, end in placed), default=0))


def size_of(value: Value) -> int:
    """Bytes a static value takes, rounded up to the alignment."""
    size = prod(shapes.static(value.shape, "a memory plan")) * value.dtype.itemsize
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT


def _lives(groups: Sequence[Group], kept: set[Value]) -> dict[Value, tuple[int, int]]:
    lives = {v: (step, step) for step, group in enumerate(groups) for v in group.outputs if v not in kept}
    for step, group in enumerate(groups):
        for value in group.inputs:
            if value in lives:
                lives[value] = (lives[value][0], step)
    return lives


def _lowest_gap(busy: Sequence[tuple[int, int]], size: int) -> int:
    begin = 0
    for start, end in busy:
        if start - begin >= size:
            break
        begin = max(begin, end)
    return begin
