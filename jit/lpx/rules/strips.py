"""Two contractions with operations on rows between them, such as attention: a strip of rows at a time.

Q K^T, softmax, V: a strip is as many rows of Q as a register tile has. All its products with K are computed first, then
the operations on rows, then the products with V; what is between the two contractions is a strip long and stays in the
second cache. K is copied into panels once, which pass by every strip. Unlike the algorithm of Dao et al.,
"FlashAttention" (2022), this keeps a whole row of scores, and so computes each exponential once and corrects nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from lpx.errors import ScheduleError
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Axis
from lpx.records import record
from lpx.rules import rows
from lpx.rules.contraction import PARALLEL_PRODUCTS, Contraction, loops_inside, pack_columns, recognise
from lpx.rules.elementwise import SHARES
from lpx.rules.facts import BlockFacts, extent_of, facts_of, follower
from lpx.schedule import queries
from lpx.schedule.errors import OptionError
from lpx.schedule.handles import BlockHandle, LoopHandle
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine

VECTORS = 2
"""Vectors of columns of a register tile."""

FEWEST_ROWS = 8
"""Rows of a tile from which on its sums are enough to hide the latency of a multiply-add."""

MANY_STRIPS = 16
"""Strips from which on a short one at the end costs little, and tiles are as high as registers allow."""

STEPS = (4, 6, 5, 3, 2)
"""Steps of a sum per iteration, by preference."""


@record
class Chain:
    """Names of the blocks of a chain: `scaled` (or "") makes the rows of the first contraction, `made` those of the
    second.
    """

    scaled: str
    first: str
    made: str
    second: str

    @property
    def names(self) -> tuple[str, ...]:
        """The blocks that stay blocks of their own."""
        return tuple(n for n in (self.scaled, self.first, self.made, self.second) if n)


def find(schedule: Schedule) -> list[Chain]:
    """The chains of a function."""
    found = [_chain_to(schedule, f) for f in facts_of(schedule.function).values() if f.is_reduction]
    return [chain for chain in found if chain is not None]


def _chain_to(schedule: Schedule, facts: BlockFacts) -> Chain | None:
    """The chain whose second contraction is the given block."""
    second = recognise(facts)
    made = None if second is None or second.row is None else _maker(schedule, second.row_operand.buffer)
    if made is None or made.is_reduction or not made.is_plain:
        return None
    pending, first = [made], None
    while pending and first is None:
        makers = [_maker(schedule, e.buffer) for e in pending.pop().loads]
        pending += [m for m in makers if m is not None]
        first = next((c for c in (recognise(m) for m in makers if m is not None) if c is not None), None)
    if first is None or first.row is None or len(first.inner) != 1:
        return None
    scaled = _maker(schedule, first.row_operand.buffer)
    own = scaled is not None and scaled.is_plain and not scaled.is_reduction and not scaled.is_view
    return Chain(scaled.block.name if scaled and own else "", first.facts.block.name, made.block.name, facts.block.name)


def _maker(schedule: Schedule, buffer: Buffer) -> BlockFacts | None:
    """The block that makes a buffer that is no parameter."""
    if any(p.buffer is buffer for p in schedule.function.params):
        return None
    return next((f for f in facts_of(schedule.function).values() if f.stores and f.target is buffer), None)


def gather(schedule: Schedule, chains: Sequence[Chain], machine: CpuMachine, notes: list[str]) -> set[str]:
    """Schedule chains; the names of the blocks that are done."""
    done: set[str] = set()
    for chain in chains:
        before = schedule.function, schedule.trace
        try:
            plan = _plan(schedule, chain, machine)
            notes.append(f"{', '.join(plan.names)}: {plan.apply()}")
        except ScheduleError as refused:
            schedule.function, schedule.trace = before
            notes.append(f"{chain.first}, {chain.second}: not strip by strip ({refused.message})")
            continue
        done |= {b for b in facts_of(schedule.function) if any(b.startswith(n) for n in plan.names)}
    return done


def _plan(schedule: Schedule, chain: Chain, machine: CpuMachine) -> StripPlan:
    """The plan of a chain, once views and what is cheap have been inlined."""
    facts = facts_of(schedule.function)
    first, second = recognise(facts[chain.first]), recognise(facts[chain.second])
    if first is None or second is None or second.row is None or len(second.inner) != 1 or len(first.inner) != 1:
        raise OptionError("operands of a contraction are computed where they are read")
    after = follower(schedule.function, chain.second)
    between: list[str] = []
    made = {first.facts.target}
    for name, each in facts.items():
        if name not in (chain.second, after) and any(e.buffer in made for e in each.loads):
            between.append(name)
            made.add(each.target)
    return StripPlan(schedule, chain, first, second, tuple(between), after, machine)


@record
class StripPlan:
    """How one chain is scheduled. `between` are the blocks from the first contraction to the second, in order; `after`
    is an epilogue of the second, or "".
    """

    schedule: Schedule
    chain: Chain
    first: Contraction
    second: Contraction
    between: tuple[str, ...]
    after: str
    machine: CpuMachine

    @property
    def names(self) -> list[str]:
        """All blocks, in order."""
        scaled, after = ([n] if n else [] for n in (self.chain.scaled, self.after))
        return [*scaled, self.chain.first, *self.between, self.chain.second, *after]

    @property
    def host(self) -> str:
        """The block whose loops over rows are cut into strips."""
        return self.after or self.chain.second

    @property
    def products(self) -> str:
        """In whose loops the first contraction is tiled: one that follows it element by element, or itself."""
        after = follower(self.schedule.function, self.chain.first)
        return after if after in self.between and after != self.chain.made else self.chain.first

    def apply(self) -> str:
        """Schedule the chain; what was done, in words."""
        schedule = self.schedule
        lanes = self.machine.lanes(self.second.facts.target.dtype.bits)
        width = VECTORS * lanes
        panels = pack_columns(schedule, self.first, width)
        own, shared, strip, tile = self._cut(width)
        self._second_tile(tile)
        for name in reversed(self.between):
            schedule.compute_at(name, strip)
        for name in (self.chain.first, self.chain.scaled):
            if name:
                schedule.compute_at(name, strip)
        shares = self._place(panels, own, [*shared, strip])
        products = self.products
        self._first_tile(products, strip, width)
        rest = [n for n in (self.chain.scaled, *self.between) if n and n != products]
        notes = [*rows.inside_all(schedule, rest, strip, self.machine), self._skip_idle()]
        height = queries.constant_value(schedule.loop_of(tile[-2]).extent)
        if shares:
            schedule.parallel(schedule.fuse(*shares) if len(shares) > 1 else shares[0])
        return f"{height} rows at a time from contraction to contraction, in tiles of {width} columns; " + "; ".join(
            n for n in notes if n
        )

    def _cut(self, width: int) -> tuple[list[LoopHandle], list[LoopHandle], LoopHandle, list[LoopHandle]]:
        """Cut rows and columns of the result.

        Loops over batches that panels are copied for, other batches, strips, and the tile: columns, rows, columns.
        """
        schedule, second = self.schedule, self.second
        axes = second.facts.axes("spatial")
        loops = dict(zip(axes, schedule.loops(self.host), strict=False))
        row = self._row
        strip, in_row = schedule.split(loops[row], self._height(extent_of(row.extent), width), tail="guard")
        columns, in_column = schedule.split(loops[second.column], width, tail="mask")
        batches = [a for a in axes if a is not row and a is not second.column]
        places = [k for k, a in enumerate(axes) if a in batches and self._copies_for(k)]
        own = [loops[axes[k]] for k in places]
        shared = [loops[a] for a in batches if loops[a] not in own]
        schedule.reorder(*own, *shared, strip, columns, in_row, in_column)
        return own, shared, strip, [columns, in_row, in_column]

    @property
    def _row(self) -> Axis:
        row = self.second.row
        if row is None:
            raise OptionError("the second contraction has no rows")
        return row

    def _height(self, height: int, width: int) -> int:
        """Rows of a tile."""
        most = (self.machine.vector_registers - VECTORS - 2) // VECTORS
        if height >= MANY_STRIPS * most:
            return most
        exact = [d for d in range(FEWEST_ROWS, most + 1) if height % d == 0]
        return max(exact, default=min(most, height))

    def _copies_for(self, place: int) -> bool:
        """Whether the first contraction has other columns for each index of an axis of the result."""
        axis = self.first.facts.axes("spatial")[place]
        return any(axis.var in expr_traverse.free_vars(i) for i in self.first.column_operand.indices)

    def _second_tile(self, tile: Sequence[LoopHandle]) -> None:
        """Sum up a tile of the result in registers."""
        schedule, name = self.schedule, self.chain.second
        columns, in_row, in_column = tile
        if self.after:
            schedule.compute_at(name, columns)
            in_row, in_column = loops_inside(schedule, name, columns, [self._row.var, self.second.column.var])
        self._finish(name, [in_row, in_column])
        if self.after:
            schedule.set_scope(name, "register")
            schedule.unroll(tile[-2])
            schedule.vectorize(tile[-1])

    def _finish(self, name: str, inside: Sequence[LoopHandle]) -> None:
        """Put the sum of a contraction outside of its tile, several steps an iteration, and the tile into registers."""
        schedule = self.schedule
        summed = schedule.loops(name)[-1]
        extent = extent_of(schedule.loop_of(summed).extent)
        count = next((s for s in STEPS if extent % s == 0), 1)
        steps = list(schedule.split(summed, count)) if count > 1 else [summed]
        schedule.reorder(*steps, *inside)
        start = schedule.loops(schedule.decompose_reduction(name, steps[0]))
        for loop in (*steps[1:], inside[0], start[-2]):
            schedule.unroll(loop)
        for loop in (inside[1], start[-1]):
            schedule.vectorize(loop)

    def _place(self, panels: BlockHandle, own: list[LoopHandle], inside: list[LoopHandle]) -> list[LoopHandle]:
        """Place the copy of panels; the loops whose iterations threads are to share, if that pays."""
        schedule, cores = self.schedule, self.machine.cores
        copies = prod(extent_of(schedule.loop_of(h).extent) for h in own)
        threads = cores > 1 and self.first.facts.runs >= PARALLEL_PRODUCTS
        apart = bool(own) and (not threads or copies % cores == 0 or copies >= SHARES * cores)
        if apart:
            schedule.compute_at(panels, own[-1])
        *around, lane = schedule.loops(panels)
        if threads and not apart:
            schedule.parallel(around[0])
        schedule.vectorize(lane)
        if not threads:
            return []
        return own if apart else [*own, *inside]

    def _first_tile(self, host: str, strip: LoopHandle, width: int) -> None:
        """Compute the products of a strip, a panel at a time."""
        schedule, name = self.schedule, self.chain.first
        row, column = self._axes_of(host)
        in_row, loop = loops_inside(schedule, host, strip, [row.var, column.var])
        columns, in_column = schedule.split(loop, width, tail="mask")
        schedule.reorder(columns, in_row, in_column)
        if host == name:
            self._finish(name, [in_row, in_column])
            return
        schedule.compute_at(name, columns)
        row, column = self._axes_of(name)
        self._finish(name, loops_inside(schedule, name, columns, [row.var, column.var]))
        schedule.set_scope(name, "register")
        schedule.unroll(in_row)
        schedule.vectorize(in_column)

    def _skip_idle(self) -> str:
        """Leave out what makes no difference, readers first; in words, for the note."""
        skipped = 0
        for name in reversed(list(facts_of(self.schedule.function))):
            try:
                self.schedule.skip_idle(name)
            except ScheduleError:
                continue
            skipped += 1
        return "what nobody looks at left out" if skipped else ""

    def _axes_of(self, name: str) -> tuple[Axis, Axis]:
        """The axes of rows and columns of a block that has those of the first contraction."""
        own = self.first.facts.axes("spatial")
        theirs = facts_of(self.schedule.function)[name].axes("spatial")
        row = self.first.row
        if row is None:
            raise OptionError("the first contraction has no rows")
        return theirs[own.index(row)], theirs[own.index(self.first.column)]
