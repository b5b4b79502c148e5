"""Where a buffer lives while a function runs: in memory behind a pointer, or in stack slots that become registers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from lpx.codegen.builder import Builder
from lpx.codegen.types import Value, memory_element_of, type_of
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import AddressOf, Const, Expr, Load, Ramp
from lpx.ir import nodes as ir
from lpx.ir import traverse
from lpx.records import record

Place = tuple[int, int]
"""First element and number of elements of an access at a constant index."""


@record
class Memory:
    """A buffer behind `pointer`, whose first element lies at a multiple of `alignment` bytes.

    `metadata` is attached to every access (alias scopes), `load_metadata` to every load as well. When `is_in_vectors`,
    every vector that is accessed lies at a multiple of its own length.
    """

    pointer: Value
    alignment: int
    metadata: str = ""
    load_metadata: str = ""
    is_in_vectors: bool = False


@record
class Slots:
    """A `register` buffer: one stack slot for each place that is accessed. LLVM promotes such slots without fail, since
    each is only ever read and written whole.
    """

    slots: Mapping[Place, Value]


Storage = Memory | Slots


def constant_place(index: Expr) -> Place | None:
    """The place of an access whose index is constant and consecutive, or None."""
    match index:
        case Const(value=value):
            return int(value), 1
        case Ramp(base=Const(value=base), stride=Const(value=1), lanes=lanes):
            return int(base), lanes
        case _:
            return None


def register_places(body: ir.Stmt) -> Mapping[Buffer, Sequence[Place] | None]:
    """For each `register` buffer the disjoint places of all accesses to it; None when some index is not constant, or
    two places overlap.
    """
    places: dict[Buffer, set[Place] | None] = {}
    for buffer, index in _register_accesses(body):
        known = places.setdefault(buffer, set())
        place = constant_place(index)
        if place is None:
            places[buffer] = None
        elif known is not None:
            known.add(place)
    return {buffer: None if found is None else _if_disjoint(sorted(found)) for buffer, found in places.items()}


def _if_disjoint(places: Sequence[Place]) -> Sequence[Place] | None:
    return places if all(a[0] + a[1] <= b[0] for a, b in pairwise(places)) else None


def register_slots(b: Builder, buffer: Buffer, places: Iterable[Place]) -> Slots:
    """A stack slot for each place."""
    element = memory_element_of(buffer.dtype)
    slots: dict[Place, Value] = {}
    for place in places:
        kind = type_of(element, place[1])
        size = buffer.dtype.itemsize * place[1]
        slots[place] = b.stack(kind.text, _largest_power(size))
    return Slots(slots)


def static_bytes(buffer: Buffer) -> int | None:
    """Size of the buffer, or None when its shape is symbolic."""
    extents = [e.value for e in buffer.shape if isinstance(e, Const)]
    if len(extents) < len(buffer.shape):
        return None
    return math.prod(int(e) for e in extents) * buffer.dtype.itemsize


def _register_accesses(body: ir.Stmt) -> Iterable[tuple[Buffer, Expr]]:
    if not any(isinstance(s, ir.Alloc) and s.buffer.scope == "register" for s in traverse.walk(body)):
        return
    for expr in traverse.walk_expressions(body):
        if isinstance(expr, Load | AddressOf) and expr.buffer.scope == "register":
            yield expr.buffer, expr.indices[0]
    for stmt in traverse.walk(body):
        if isinstance(stmt, ir.Store | ir.AtomicUpdate) and stmt.buffer.scope == "register":
            yield stmt.buffer, stmt.indices[0]


def _largest_power(size: int) -> int:
    """The largest power of two that divides `size` bytes, at most a cache line."""
    return min(size & -size, 64)
