"""Random schedules: primitives with random handles and arguments, of which the legal ones are applied.

`ACTIONS` has one entry per primitive. An action draws what it needs from the present state of the schedule; where the
primitive refuses, nothing has changed and the next is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast, get_args

from hypothesis import strategies as st

from lpx.errors import ScheduleError
from lpx.expr import build
from lpx.expr import traverse as expr_traverse
from lpx.expr.buffer import Buffer, Scope
from lpx.expr.nodes import Expr
from lpx.ir import traverse
from lpx.ir.nodes import Block, Seq
from lpx.schedule import BlockHandle, IndexMap, LoopHandle, Schedule
from lpx.schedule.errors import AccessError, NestingError
from lpx.schedule.loops import Tail

T = TypeVar("T")

LEAST_ACCEPTED = 4
MOST_ATTEMPTS = 40
_SCOPES: tuple[Scope, ...] = ("global", "local")


@dataclass(slots=True)
class Counts:
    """How often each primitive was accepted and refused."""

    accepted: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])

    def add(self, other: Counts) -> None:
        self.accepted.update(other.accepted)
        self.refused.update(other.refused)

    def __str__(self) -> str:
        names = sorted({*self.accepted, *self.refused})
        rows = [f"{n:24} {self.accepted[n]:8} {self.refused[n]:8}" for n in names]
        total = f"{'total':24} {sum(self.accepted.values()):8} {sum(self.refused.values()):8}"
        return "\n".join([f"{'primitive':24} {'accepted':>8} {'refused':>8}", *rows, total])


@dataclass(slots=True)
class Dice:
    """Draws handles and arguments for one schedule."""

    draw: st.DrawFn
    schedule: Schedule
    reassociated: bool = False
    padded: set[str] = field(default_factory=set[str])
    """Buffers with places that no element lies at, which a copy of the whole would read."""

    def one_of(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(options))

    def block(self) -> BlockHandle:
        return self.one_of(self.schedule.blocks())

    def nest(self) -> tuple[LoopHandle, ...]:
        """The loops around some block."""
        found = self.schedule.loops(self.block())
        if not found:
            raise NestingError("no loop around the block")
        return found

    def loop(self) -> LoopHandle:
        """Some loop, innermost ones more often."""
        nest = self.nest()
        return self.one_of((*nest, nest[-1]))

    def reduction(self) -> tuple[BlockHandle, LoopHandle]:
        """A block with a reduction, where there is one, and a loop around it, its reduction loops more often."""
        blocks = [b for b in self.schedule.blocks() if self.reduce_loops(b)]
        block = self.one_of(blocks) if blocks else self.block()
        nest = self.schedule.loops(block) or self.nest()
        return block, self.one_of((*nest, *self.reduce_loops(block)))

    def reduce_loops(self, block: BlockHandle) -> tuple[LoopHandle, ...]:
        """The loops that the reduce axes of a block are bound to, outermost first."""
        node = cast("Block", self.schedule.statement(block))
        used = {
            var
            for axis, value in zip(node.axes, node.bindings, strict=True)
            if axis.kind == "reduce"
            for var in expr_traverse.free_vars(value)
        }
        return tuple(h for h in self.schedule.loops(block) if h.var in used)

    def read_buffer(self, block: BlockHandle) -> Buffer:
        """A buffer that a block reads."""
        read = traverse.read_buffers(self.schedule.statement(block))
        found = sorted((b for b in read if b.name not in self.padded), key=lambda b: b.name)
        if not found:
            raise AccessError(f"{block.name} reads nothing")
        return self.one_of(found)

    def written_rank(self, block: BlockHandle) -> int:
        """The rank of what a block writes."""
        return max(b.rank for b in traverse.written_buffers(self.schedule.statement(block)))

    def order(self) -> list[tuple[LoopHandle, ...]]:
        """The order in which the reductions of the program run their loops."""
        return [self.reduce_loops(b) for b in self.schedule.blocks()]

    def index_map(self, rank: int) -> IndexMap:
        """A bijection of `rank` indices: permuted, and perhaps one of them split into the first and last place."""
        variables = tuple(build.var(f"i{k}") for k in range(rank))
        split = self.one_of((None, *range(rank)))
        factor = self.one_of((2, 3, 4, 8))
        targets: list[Expr] = [variables[k] for k in self.draw(st.permutations(range(rank))) if k != split]
        if split is not None:
            targets = [variables[split] // factor, *targets, variables[split] % factor]
        return IndexMap(variables, tuple(targets))


def _split(s: Schedule, d: Dice) -> None:
    tail: Tail = d.one_of(get_args(Tail))
    match d.one_of(("factor", "factor", "factors", "nparts")):
        case "factor":
            s.split(d.loop(), d.one_of((1, 2, 3, 4, 7, 8)), tail=tail)
        case "factors":
            s.split(d.loop(), d.one_of(((2, 2), (2, 4), (3, 1))), tail=tail)
        case _:
            s.split(d.loop(), nparts=d.one_of((1, 2, 3, 4)), tail=tail)


def _fuse(s: Schedule, d: Dice) -> None:
    nest = d.nest()
    start = d.draw(st.integers(0, len(nest) - 1))
    s.fuse(*nest[start : start + d.one_of((2, 2, 3))])


def _merge(s: Schedule, d: Dice) -> None:
    """Loops at one depth around blocks that follow each other."""
    names = s.blocks()
    at, depth = d.draw(st.integers(0, len(names) - 1)), d.one_of((0, 0, 1))
    first, second = (s.loops(b)[depth:] for b in (names[at], names[(at + 1) % len(names)]))
    if not first or not second:
        raise NestingError("no loops side by side")
    s.merge(first[0], second[0])


def _tile(s: Schedule, d: Dice) -> None:
    nest = d.nest()
    rows, columns = (d.draw(st.permutations(nest)) * 2)[:2]
    reductions = [d.reduce_loops(b) for b in s.blocks()]
    s.tile(rows, columns, d.one_of((2, 3, 4)), d.one_of((1, 4, 8)), tail=d.one_of(("guard", "mask")))
    d.reassociated |= any(len(loops) > 1 and (rows in loops or columns in loops) for loops in reductions)


def _reorder(s: Schedule, d: Dice) -> None:
    nest = d.draw(st.permutations(d.nest()))
    before = d.order()
    s.reorder(*nest[: d.draw(st.integers(2, max(len(nest), 2)))])
    d.reassociated |= before != d.order()


def _sample_tile(s: Schedule, d: Dice) -> None:
    loop = d.loop()
    factors = s.sample_tile(loop, d.one_of((2, 3)), max_innermost=8, exact=d.one_of((True, False)))
    s.split(loop, factors)


def _sample_location(s: Schedule, d: Dice) -> None:
    block = d.block()
    s.compute_at(block, s.sample_location(block))


def _compute_at(s: Schedule, d: Dice) -> None:
    """At a loop of a consumer, mostly."""
    block = d.block()
    written = traverse.written_buffers(s.statement(block))
    readers = [b for b in s.blocks() if b != block and traverse.read_buffers(s.statement(b)) & written]
    nest = s.loops(d.one_of(readers)) if readers else d.nest()
    s.compute_at(block, d.one_of(nest or d.nest()))


def _reverse_compute_at(s: Schedule, d: Dice) -> None:
    """At a loop of a producer, mostly."""
    block = d.block()
    read = traverse.read_buffers(s.statement(block))
    writers = [b for b in s.blocks() if b != block and traverse.written_buffers(s.statement(b)) & read]
    nest = s.loops(d.one_of(writers)) if writers else d.nest()
    s.reverse_compute_at(block, d.one_of(nest or d.nest()))


def _cache_read(s: Schedule, d: Dice) -> None:
    block = d.block()
    s.cache_read(block, d.read_buffer(block), d.one_of(_SCOPES))


def _pack(s: Schedule, d: Dice) -> None:
    block = d.block()
    source = d.read_buffer(block)
    s.pack(block, source, d.index_map(source.rank))


def _transform_layout(s: Schedule, d: Dice) -> None:
    block = d.block()
    s.transform_layout(block, d.index_map(d.written_rank(block)))
    d.padded |= {b.name for b in traverse.written_buffers(s.statement(block))}


def _storage_align(s: Schedule, d: Dice) -> None:
    block = d.block()
    axis = d.draw(st.integers(0, max(d.written_rank(block) - 1, 0)))
    s.storage_align(block, axis, d.one_of((4, 8)), d.one_of((0, 1)))


def _rfactor(s: Schedule, d: Dice) -> None:
    s.rfactor(*d.reduction())
    d.reassociated = True


def _cross_lane_reduce(s: Schedule, d: Dice) -> None:
    block, _ = d.reduction()
    s.cross_lane_reduce(block, (s.loops(block) or d.nest())[-1])
    d.reassociated = True


def _pad(s: Schedule, d: Dice) -> None:
    block = d.block()
    count = len(cast("Block", s.statement(block)).axes)
    s.pad(block, [d.one_of((1, 2, 4)) for _ in range(count)])


def _prefetch(s: Schedule, d: Dice) -> None:
    block = d.block()
    loops = s.loops(block) or d.nest()
    s.prefetch(block, d.read_buffer(block), d.one_of(loops), d.one_of((1, 3)), over=d.one_of((None, *loops)))


def _parallel_region(s: Schedule, d: Dice) -> None:
    """Around parallel loops that follow one another, where there are any."""
    loops = [h for h in s.loops() if s.loop_of(h).kind == "parallel"] or [d.loop()]
    first = d.draw(st.integers(0, len(loops) - 1))
    s.parallel_region(*loops[first : first + d.one_of((1, 2))])


def _double_buffer(s: Schedule, d: Dice) -> None:
    block = d.block()
    s.double_buffer(block, d.one_of(s.loops(block) or d.nest()), d.one_of((2, 3)))


def _software_pipeline(s: Schedule, d: Dice) -> None:
    loop = d.loop()
    body = s.loop_of(loop).body
    count = len(body.stmts) if isinstance(body, Seq) else 1
    s.software_pipeline(loop, sorted(d.one_of((0, 1, 2)) for _ in range(count)))


def _async_copy(s: Schedule, d: Dice) -> None:
    """Of a copy that was made just before, mostly."""
    block = s.cache_read(d.block(), d.read_buffer(d.block())) if d.one_of((True, False)) else d.block()
    s.async_copy(block, (s.loops(block) or d.nest())[-1])


ACTIONS: dict[str, tuple[int, Callable[[Schedule, Dice], object]]] = {
    "split": (6, _split),
    "fuse": (3, _fuse),
    "merge": (4, _merge),
    "tile": (3, _tile),
    "reorder": (4, _reorder),
    "partition": (2, lambda s, d: s.partition(d.loop(), d.draw(st.integers(0, 9)))),
    "add_unit_loop": (1, lambda s, d: s.add_unit_loop(d.loop() if d.one_of((True, False)) else d.block())),
    "pragma": (0, lambda s, d: s.pragma(d.loop(), "note", d.one_of((0, 3, 7)))),
    "vectorize": (3, lambda s, d: s.vectorize(d.loop())),
    "unroll": (2, lambda s, d: s.unroll(d.loop())),
    "parallel": (2, lambda s, d: s.parallel(d.loop())),
    "compute_at": (5, _compute_at),
    "reverse_compute_at": (6, _reverse_compute_at),
    "compute_root": (2, lambda s, d: s.compute_root(d.block())),
    "compute_inline": (3, lambda s, d: s.compute_inline(d.block())),
    "reverse_compute_inline": (4, lambda s, d: s.reverse_compute_inline(d.block())),
    "cache_read": (3, _cache_read),
    "cache_write": (3, lambda s, d: s.cache_write(d.block(), d.one_of(_SCOPES))),
    "set_scope": (1, lambda s, d: s.set_scope(d.block(), d.one_of(_SCOPES))),
    "storage_align": (3, _storage_align),
    "transform_layout": (2, _transform_layout),
    "pack": (2, _pack),
    "decompose_reduction": (3, lambda s, d: s.decompose_reduction(*d.reduction())),
    "rfactor": (5, _rfactor),
    "cross_lane_reduce": (4, _cross_lane_reduce),
    "pad": (2, _pad),
    "prefetch": (1, _prefetch),
    "blockize": (1, lambda s, d: s.blockize(d.loop())),
    "parallel_region": (2, _parallel_region),
    "double_buffer": (3, _double_buffer),
    "software_pipeline": (2, _software_pipeline),
    "async_copy": (1, _async_copy),
    "sample_tile": (1, _sample_tile),
    "sample_location": (1, _sample_location),
}
"""How often each primitive is tried, relative to the others, and how."""

_NAMES = ["pragma", *(name for name, (weight, _) in ACTIONS.items() for _ in range(weight))]
"""The first is what hypothesis likes best: one that does nothing."""


def apply_random(draw: st.DrawFn, s: Schedule, counts: Counts) -> bool:
    """Apply at least `LEAST_ACCEPTED` legal primitives to `s`; whether one of them reassociated a reduction."""
    dice = Dice(draw, s)
    wanted = draw(st.integers(LEAST_ACCEPTED, 9))
    accepted = 0
    for _ in range(MOST_ATTEMPTS):
        name = dice.one_of(_NAMES)
        accepted += _attempt(name, s, dice, counts)
        if accepted == wanted:
            break
    while accepted < LEAST_ACCEPTED:
        s.add_unit_loop(dice.block())
        counts.accepted["add_unit_loop"] += 1
        accepted += 1
    return dice.reassociated


def _attempt(name: str, s: Schedule, dice: Dice, counts: Counts) -> bool:
    try:
        ACTIONS[name][1](s, dice)
    except ScheduleError:
        counts.refused[name] += 1
        return False
    counts.accepted[name] += 1
    return True
