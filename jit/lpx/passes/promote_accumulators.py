"""Accumulators to registers: what a loop reads and writes at unchanging places is kept in registers meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lpx.arith.analyzer import Analyzer
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Expr, Load
from lpx.ir import nodes, traverse
from lpx.ir.hardware import is_prefetch
from lpx.ir.nodes import Alloc, For, Function, If, Stmt, Store
from lpx.passes import knowledge
from lpx.passes.folding import conjuncts
from lpx.passes.masking import negated
from lpx.passes.register_slots import (
    Access,
    AccessTable,
    ReadCache,
    Slot,
    assign_slots,
    collect,
    is_fixed,
    place_of,
    same_conditions,
)
from lpx.records import record, replace


@record
class PromoteAccumulators:
    """Keep what a serial loop accumulates in `register` buffers: read before the loop, written back after it.

    before: `C[i] = 0; for r in 0..k { C[i] = fma(A[i, r], x[r], C[i]) }`
    after:  `alloc acc: float32[1] scope(register)`
            `acc[0] = 0; for r in 0..k { acc[0] = fma(A[i, r], x[r], acc[0]) }; C[i] = acc[0]`

    A tile of several places (that of a matrix product, once its loops are unrolled and vectorized) becomes one buffer
    with a slot for each place and its lanes. What starts only under a condition (in the first part of a sum) is read
    from memory under the opposite one. A temporary that is only ever accessed at constant places moves to registers
    altogether. At most `limit` elements are kept at a time.
    """

    limit: int = 2048

    def __call__(self, function: Function) -> Function:
        body = _Promotion(self.limit).visit(function.body, knowledge.at_entry(function))
        return function if body is function.body else replace(function, body=body)


class _Promotion:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._cache = ReadCache()

    def visit(self, stmt: Stmt, analyzer: Analyzer) -> Stmt:
        """`stmt` with what is accumulated inside promoted."""
        if not any(isinstance(s, For | Alloc) for s in traverse.walk(stmt)):
            return stmt
        match stmt:
            case nodes.Seq(stmts=stmts):
                return self._sequence(stmt, stmts, analyzer)
            case For(kind="serial"):
                return self._sequence(stmt, (stmt,), analyzer)
            case Alloc():
                return self._allocation(stmt, analyzer)
            case _:
                return knowledge.visit_children(stmt, analyzer, self.visit)

    def _sequence(self, stmt: Stmt, stmts: Sequence[Stmt], analyzer: Analyzer) -> Stmt:
        done: list[Stmt] = []
        registers: list[Buffer] = []
        for child in stmts:
            tiles: list[Tile] = []
            starts: dict[Slot, Start] = {}
            if isinstance(child, For) and child.kind == "serial":
                candidates = self._candidates(child, analyzer)
                runs = analyzer.prove(build.compare("lt", 0, child.extent))
                starts = self._find_starts(done, candidates, analyzer, runs)
                tiles = [tile for tile in candidates if all(_may_be_kept(s, starts) for s in tile.slots)]
            if not tiles or not isinstance(child, For):
                done.append(self._descend(child, analyzer))
                continue
            begin = _Redirect(_starts_of(tiles, starts))  # of what stands before, nothing else, be it the same node
            done = [begin.statement(s) for s in done]
            loop = self._descend(_Redirect(_accesses_of(tiles)).statement(child), analyzer)
            done.extend(self._around(loop, child, tiles, starts, analyzer))
            registers.extend(tile.register for tile in tiles)
        if not registers and all(a is b for a, b in zip(done, stmts, strict=True)):
            return stmt
        body = traverse.sequence(done)
        for register in reversed(registers):
            body = Alloc(register, body)
        return body

    def _descend(self, stmt: Stmt, analyzer: Analyzer) -> Stmt:
        """`stmt` with what is inside it promoted; as a loop itself, it has been looked at."""
        if not isinstance(stmt, For):
            return self.visit(stmt, analyzer)
        body = self.visit(stmt.body, knowledge.inside(analyzer, stmt))
        return traverse.rebuild(stmt, [body], [stmt.start, stmt.extent])

    def _candidates(self, loop: For, analyzer: Analyzer) -> list[Tile]:
        """Places that `loop` reads and writes and that stay the same meanwhile."""
        table = collect(loop.body, [loop.var], knowledge.inside(analyzer, loop), self._cache)
        tiles: list[Tile] = []
        for buffer, accesses in table.by_buffer.items():
            is_updated = len({access.is_store for access in accesses}) == 2
            if not is_updated or table.meets_threads or buffer in table.opaque or buffer.scope == "register":
                continue
            slots = assign_slots(accesses, table.bound, analyzer, self._limit)
            if slots is not None and all(slot.is_uniform and _has_fixed_mask(slot, table) for slot in slots):
                tiles.append(Tile(buffer, _register_like(buffer, slots), slots))
        return tiles

    def _find_starts(
        self, done: Sequence[Stmt], tiles: Sequence[Tile], analyzer: Analyzer, runs: bool
    ) -> dict[Slot, Start]:
        """The stores before a loop that start its slots, such that nothing between looks at the memory they write.

        One that is under a condition only where the loop `runs` for certain: what is kept is then written in any case.
        """
        starts: dict[Slot, Start] = {}
        for tile in tiles:
            by_place = {slot.place: slot for slot in tile.slots}
            for stmt in reversed(done):
                table = collect(stmt, [], analyzer, self._cache)
                if tile.buffer in table.opaque:
                    break
                found = table.by_buffer.get(tile.buffer, [])
                places = [place_of(access.node.indices, table.bound, analyzer) for access in found]
                slots = [None if place is None else by_place.get(place) for place in places]
                matched = {slot: access for slot, access in zip(slots, found, strict=True) if slot is not None}
                made = {s: _start(s, a, runs) for s, a in matched.items() if s not in starts}
                if len(made) < len(found) or None in made.values():
                    break
                starts.update({slot: start for slot, start in made.items() if start is not None})
        return starts

    def _around(
        self, loop: Stmt, original: For, tiles: Sequence[Tile], starts: Mapping[Slot, Start], analyzer: Analyzer
    ) -> list[Stmt]:
        """The loop between reading slots that nothing has started, and writing all of them back."""
        slots = [(tile, slot) for tile in tiles for slot in tile.slots]
        started = [(tile, slot) for tile, slot in slots if slot in starts and starts[slot].condition is None]
        others = [(tile, slot) for tile, slot in slots if slot not in starts or starts[slot].condition is not None]
        read = _reads([(tile, slot) for tile, slot in others if not slot.first.is_store], starts)
        core = [*read, loop, *(_guarded(slot, tile.write_back(slot)) for tile, slot in others)]
        runs = build.compare("lt", 0, original.extent)
        if others and not analyzer.prove(runs):
            core = [If(runs, traverse.sequence(core))]
        return [*core, *(_guarded(slot, tile.write_back(slot)) for tile, slot in started)]

    def _allocation(self, stmt: Alloc, analyzer: Analyzer) -> Stmt:
        table = collect(stmt.body, [], analyzer, self._cache)
        accesses = table.by_buffer.get(stmt.buffer)
        if accesses and stmt.buffer not in table.opaque and stmt.buffer.scope != "register":
            slots = assign_slots(accesses, table.bound, analyzer, self._limit)
            if slots is not None:
                tile = Tile(stmt.buffer, _register_like(stmt.buffer, slots), slots)
                body = _Redirect(_accesses_of([tile])).statement(_unrequested(stmt.body, stmt.buffer))
                return replace(stmt, buffer=tile.register, body=self.visit(body, analyzer))
        return traverse.rebuild(stmt, [self.visit(stmt.body, analyzer)], [])


@record(eq=False)
class Tile:
    """Places of a buffer that are kept in a buffer of registers."""

    buffer: Buffer
    register: Buffer
    slots: Sequence[Slot]

    def read(self, slot: Slot) -> Stmt:
        """The statement that fetches a slot from memory."""
        node = slot.first.node
        return Store(self.register, slot.index, build.load(self.buffer, node.indices, node.mask))

    def write_back(self, slot: Slot) -> Stmt:
        """The statement that puts a slot back to memory."""
        node = slot.first.node
        return Store(self.buffer, node.indices, build.load(self.register, slot.index), node.mask)


def _unrequested(stmt: Stmt, buffer: Buffer) -> Stmt:
    """`stmt` without prefetches of a buffer that leaves memory."""
    return traverse.transform(
        stmt, lambda s: nodes.Seq(()) if is_prefetch(s) and buffer in traverse.read_buffers(s) else None
    )


def _register_like(buffer: Buffer, slots: Sequence[Slot]) -> Buffer:
    size = sum(slot.lanes for slot in slots)
    return Buffer(f"{buffer.name}_acc", buffer.dtype, (build.const(size),), scope="register")


def _has_fixed_mask(slot: Slot, table: AccessTable) -> bool:
    mask = slot.first.node.mask
    return mask is None or is_fixed(mask, table.bound)


def _touches_anyway(slot: Slot) -> bool:
    """Whether any run of the loop reads the slot first, or writes it without reading, and writes it at some point.

    Then reading it before the loop and writing it after touches only what the loop does.
    """
    return slot.first.is_certain and any(a.is_store and a.is_certain for a in slot.accesses)


def _guarded(slot: Slot, stmt: Stmt) -> Stmt:
    for guard in reversed(slot.first.guards):
        stmt = If(guard, stmt)
    return stmt


@record(eq=False)
class Start:
    """The store that starts a slot, and the condition under which it does besides those of the slot, if any."""

    access: Access
    condition: Expr | None


def _start(slot: Slot, access: Access, runs: bool) -> Start | None:
    """The start of a slot that an access is; None where it is none, or not under what the slot is accessed."""
    if not access.is_store or not access.is_certain:
        return None
    if same_conditions(access, slot.first):
        return Start(access, None)
    own = [c for guard in access.guards for c in conjuncts(guard)]
    wanted = [c for guard in slot.first.guards for c in conjuncts(guard)]
    extra = [c for c in own if not any(expr_traverse.structural_equal(c, w) for w in wanted)]
    without = replace(access, guards=slot.first.guards)
    fits = len(extra) == 1 and len(own) == len(wanted) + 1 and same_conditions(without, slot.first)
    return Start(access, extra[0]) if fits and runs and _touches_anyway(slot) else None


def _may_be_kept(slot: Slot, starts: Mapping[Slot, Start]) -> bool:
    return slot in starts or _touches_anyway(slot)


def _reads(others: Sequence[tuple[Tile, Slot]], starts: Mapping[Slot, Start]) -> list[Stmt]:
    """What fetches slots from memory: those that start under one condition together, under the opposite one."""
    plain: list[Stmt] = []
    unless: dict[Expr, list[Stmt]] = {}
    for tile, slot in others:
        fetched = _guarded(slot, tile.read(slot))
        condition = starts[slot].condition if slot in starts else None
        if condition is None:
            plain.append(fetched)
            continue
        same = next((c for c in unless if expr_traverse.structural_equal(c, condition)), condition)
        unless.setdefault(same, []).append(fetched)
    return [*plain, *(If(negated(c), traverse.sequence(fetched)) for c, fetched in unless.items())]


_Targets = Mapping["Expr | Stmt", tuple[Buffer, Slot]]
"""Loads and stores that are redirected, and where to."""


def _accesses_of(tiles: Sequence[Tile]) -> _Targets:
    """All accesses of the slots."""
    return {a.node: (tile.register, slot) for tile in tiles for slot in tile.slots for a in slot.accesses}


def _starts_of(tiles: Sequence[Tile], starts: Mapping[Slot, Start]) -> _Targets:
    """The stores that start slots."""
    return {starts[s].access.node: (tile.register, s) for tile in tiles for s in tile.slots if s in starts}


class _Redirect:
    """Puts slots in place of the memory accesses that belong to them."""

    def __init__(self, targets: _Targets) -> None:
        self._targets = targets
        self._memos: dict[Expr | None, dict[Expr, Expr]] = {}

    def statement(self, stmt: Stmt) -> Stmt:
        """`stmt` with registers instead of memory."""
        mask = stmt.mask if isinstance(stmt, Store) else None
        rebuilt = traverse.map_children(stmt, self.statement, lambda e: self._expression(e, mask))
        found = self._targets.get(stmt)
        if found is None or not isinstance(rebuilt, Store):
            return rebuilt
        register, slot = found
        return replace(rebuilt, buffer=register, indices=slot.index)

    def _expression(self, expr: Expr, mask: Expr | None) -> Expr:
        """`expr`, of whose lanes only those that are on in `mask` matter."""
        memo = self._memos.setdefault(mask, {})
        return expr_traverse.transform(
            expr, lambda e: self._on_node(e, mask), memo, within=expr_traverse.touches_memory
        )

    def _on_node(self, expr: Expr, mask: Expr | None) -> Expr | None:
        found = self._targets.get(expr)
        if found is None or not isinstance(expr, Load):
            return None
        register, slot = found
        is_implied = mask is not None and expr.mask is not None and expr_traverse.structural_equal(expr.mask, mask)
        return build.load(register, slot.index, None if is_implied else expr.mask)
