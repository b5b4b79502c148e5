"""Accesses to a buffer at places that stay the same while a statement runs, as numbered slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import AddressOf, Broadcast, Expr, Load, Ramp, Select, Var
from lpx.ir import nodes, traverse
from lpx.ir.hardware import is_prefetch
from lpx.ir.nodes import Stmt
from lpx.passes import knowledge
from lpx.passes.folding import constant
from lpx.passes.masking import negated
from lpx.records import record

Place = tuple[tuple[object, ...], tuple[int, ...], tuple[int, ...], int]
"""(what the index of each axis has besides its constant, the constants, strides between lanes, lanes)."""


@record(eq=False)
class Access:
    """A load or store. `guards` are the unchanging conditions around it; it `is_certain` to run when they hold."""

    node: Load | nodes.Store
    guards: tuple[Expr, ...]
    is_certain: bool

    @property
    def is_store(self) -> bool:
        return isinstance(self.node, nodes.Store)


@dataclass(slots=True)
class AccessTable:
    """Accesses by buffer in program order, and the buffers with accesses that are not understood.

    `bound` are the variables that change in between. At a barrier other threads may look at any memory.
    """

    by_buffer: dict[Buffer, list[Access]] = field(default_factory=dict[Buffer, list[Access]])
    opaque: set[Buffer] = field(default_factory=set[Buffer])
    bound: set[Var] = field(default_factory=set[Var])
    meets_threads: bool = False


def collect(stmt: Stmt, bound: Iterable[Var], analyzer: Analyzer, cache: ReadCache) -> AccessTable:
    """The accesses in `stmt`, in which the variables `bound` change."""
    table = AccessTable(bound=set(bound))
    _Collector(table, analyzer, cache).visit(stmt, (), is_certain=True, is_shared=False)
    return table


class ReadCache:
    """What expressions read; kept, since the statements inside nested loops are looked at once for each loop."""

    def __init__(self) -> None:
        self._found: dict[Expr, list[tuple[Load | AddressOf, bool]]] = {}

    def reads(self, expr: Expr) -> list[tuple[Load | AddressOf, bool]]:
        """Loads and addresses in `expr`, operands first, and whether only one side of a select asks for each."""
        if expr not in self._found:
            found = expr_traverse.accesses(expr)
            selects = [node for node in expr_traverse.walk(expr) if isinstance(node, Select)] if found else []
            sides = [side for node in selects for side in (node.a, node.b)]
            optional = {node for side in sides for node in expr_traverse.accesses(side)}
            self._found[expr] = [(node, node in optional) for node in found]
        return self._found[expr]


class _Collector:
    def __init__(self, table: AccessTable, analyzer: Analyzer, cache: ReadCache) -> None:
        self._memory = cache
        self._table = table
        self._analyzer = analyzer

    def visit(self, stmt: Stmt, guards: tuple[Expr, ...], *, is_certain: bool, is_shared: bool) -> None:
        if is_prefetch(stmt):
            return
        table = self._table
        for expr in traverse.expressions(stmt):
            self._reads(expr, guards, is_certain, is_shared)
        match stmt:
            case nodes.Store(buffer=buffer):
                self._add(buffer, Access(stmt, guards, is_certain), is_shared)
            case nodes.If(cond=cond) if self._is_fixed(cond):
                self.visit(stmt.then, (*guards, cond), is_certain=is_certain, is_shared=is_shared)
                if stmt.orelse is not None:
                    self.visit(stmt.orelse, (*guards, negated(cond)), is_certain=is_certain, is_shared=is_shared)
                return
            case nodes.For(var=var, kind=kind):
                table.bound.add(var)
                is_certain = is_certain and self._runs(stmt)
                is_shared = is_shared or kind in ("parallel", "bound")
            case nodes.Let(var=var):
                table.bound.add(var)
            case nodes.If() | nodes.While():
                is_certain = False
            case nodes.ParallelRegion():
                is_shared = True
            case nodes.Alloc(buffer=buffer):
                table.opaque.add(buffer)
            case nodes.Barrier():
                table.meets_threads = True
            case nodes.AtomicUpdate() | nodes.AsyncCopy() | nodes.CallFunction():
                table.opaque |= traverse.read_buffers(stmt) | traverse.written_buffers(stmt)
            case _:
                pass
        for child in traverse.substatements(stmt):
            self.visit(child, guards, is_certain=is_certain, is_shared=is_shared)

    def _runs(self, loop: nodes.For) -> bool:
        count = constant(loop.extent)
        if count is None:
            return self._analyzer.prove(build.compare("lt", 0, loop.extent))
        return count > 0

    def _is_fixed(self, cond: Expr) -> bool:
        return is_fixed(cond, self._table.bound)

    def _add(self, buffer: Buffer, access: Access, is_shared: bool) -> None:
        if is_shared:
            self._table.opaque.add(buffer)
        self._table.by_buffer.setdefault(buffer, []).append(access)

    def _reads(self, expr: Expr, guards: tuple[Expr, ...], is_certain: bool, is_shared: bool) -> None:
        for node, is_optional in self._memory.reads(expr):
            if isinstance(node, Load):
                self._add(node.buffer, Access(node, guards, is_certain and not is_optional), is_shared)
            else:
                self._table.opaque.add(node.buffer)


def is_fixed(expr: Expr, bound: set[Var]) -> bool:
    """Whether `expr` has one value for as long as the variables `bound` and memory change."""
    return not knowledge.reads_memory(expr) and expr_traverse.free_vars(expr).isdisjoint(bound)


@record(eq=False)
class Slot:
    """One place of a buffer, and where it is kept: `offset` in a buffer of registers, over `lanes` elements."""

    place: Place
    offset: int
    lanes: int
    accesses: tuple[Access, ...]

    @property
    def is_uniform(self) -> bool:
        """Whether all accesses have the same mask and guards."""
        return all(same_conditions(access, self.first) for access in self.accesses)

    @property
    def first(self) -> Access:
        """The first access in program order."""
        return self.accesses[0]

    @property
    def index(self) -> tuple[Expr]:
        """The index of the slot in the buffer of registers."""
        return (build.ramp(self.offset, 1, self.lanes),)


def assign_slots(accesses: Sequence[Access], bound: set[Var], analyzer: Analyzer, limit: int) -> list[Slot] | None:
    """A slot for each place that `accesses` touch; None when places change, may overlap, or exceed `limit` elements."""
    groups: dict[Place, list[Access]] = {}
    for access in accesses:
        found = place_of(access.node.indices, bound, analyzer)
        if found is None:
            return None
        groups.setdefault(found, []).append(access)
    if len({place[0] for place in groups}) > 1 or not _are_disjoint(groups, limit):
        return None
    slots: list[Slot] = []
    offset = 0
    for place, members in groups.items():
        slots.append(Slot(place, offset, place[3], tuple(members)))
        offset += place[3]
    return slots


def same_conditions(a: Access, b: Access) -> bool:
    """Whether two accesses happen under the same guards, for the same lanes."""
    x, y = a.node.mask, b.node.mask
    if (x is None) != (y is None) or len(a.guards) != len(b.guards):
        return False
    pairs = [*zip(a.guards, b.guards, strict=True), *([(x, y)] if x is not None and y is not None else [])]
    return all(expr_traverse.structural_equal(p, q) for p, q in pairs)


def place_of(indices: tuple[Expr, ...], bound: set[Var], analyzer: Analyzer) -> Place | None:
    """The place that `indices` name while the variables `bound` change; None when it changes, or is not understood."""
    lanes = max([i.lanes for i in indices], default=1)
    keys: list[object] = []
    constants: list[int] = []
    strides: list[int] = []
    for index in indices:
        base, stride = index, 0
        match index:
            case Broadcast(value=value):
                base = value
            case Ramp(base=start, stride=step) if constant(step) is not None:
                base, stride = start, constant(step) or 0
            case _ if index.lanes > 1:
                return None
            case _:
                pass
        form = analyzer.affine(base) if is_fixed(base, bound) else None
        if form is None:
            return None
        keys.append(frozenset((t.coefficient, tuple(sorted(id(atom) for atom in t.atoms))) for t in form.terms))
        constants.append(form.constant)
        strides.append(stride)
    return tuple(keys), tuple(constants), tuple(strides), lanes


def _are_disjoint(places: Iterable[Place], limit: int) -> bool:
    """Whether no two places (or two lanes of one) share an element, and all have `limit` elements at most."""
    elements: set[tuple[int, ...]] = set()
    total = 0
    for _, constants, strides, lanes in places:
        total += lanes
        if total > limit:
            return False
        elements |= {tuple(c + s * n for c, s in zip(constants, strides, strict=True)) for n in range(lanes)}
    return len(elements) == total
