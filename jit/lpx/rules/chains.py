"""Element-wise blocks of one shape that feed each other: one loop, whose iterations hand values on in registers.

    for i { d[i] = f(x[i]) } ; for i { u[i] = g(d[i]) } ; for i { v[i] = h(d[i]) }
    ->
    for i_o { for i in lanes { d } ; for i in lanes { u } ; for i in lanes { v } }

Values that several blocks read are computed once, and none of them goes through memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from lpx.errors import ScheduleError
from lpx.expr.nodes import Const
from lpx.ir import traverse
from lpx.ir.nodes import For, Seq
from lpx.rules.elementwise import joint_depth, lanes_for, share, split_vector, stream
from lpx.rules.facts import BlockFacts, extent_of, facts_of, follower
from lpx.schedule import queries
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine


def gather(schedule: Schedule, machine: CpuMachine, notes: list[str], before: set[str]) -> set[str]:
    """Schedule every such chain of blocks not done `before`; the names of the blocks that are done now."""
    done = set(before)
    for names in list(_chains(schedule, before)):
        unchanged = schedule.function, schedule.trace
        try:
            note = _schedule(schedule, names, machine)
        except ScheduleError as refused:
            schedule.function, schedule.trace = unchanged
            notes.append(f"{', '.join(names)}: loops kept apart ({refused.message})")
            continue
        notes.append(f"{', '.join(names)}: {note}")
        done.update(names)
    return done


def _chains(schedule: Schedule, before: set[str]) -> Iterator[list[str]]:
    """Runs of neighbouring blocks of one shape, of which one reads what another writes, at its own place.

    What alone reads a sum is left to it: it may be applied to each of its tiles.
    """
    facts = facts_of(schedule.function)
    followers = {follower(schedule.function, n) for n, f in facts.items() if f.is_reduction}
    chain: list[BlockFacts] = []
    for nest in (n for s in traverse.walk(schedule.function.body) if isinstance(s, Seq) for n in s.stmts):
        blocks = [b.name for b in queries.blocks_within(nest)] if isinstance(nest, For) else []
        found = facts[blocks[0]] if len(blocks) == 1 and blocks[0] not in before else None
        is_link = found is not None and _is_link(found) and found.block.name not in followers
        if not is_link or (chain and found is not None and not _continues(chain, found)):
            yield from _worth(chain)
            chain = []
        if found is not None and is_link:
            chain.append(found)
    yield from _worth(chain)


def _is_link(facts: BlockFacts) -> bool:
    """Whether a block is element-wise, of a known shape, and by itself in its loops."""
    return (
        not facts.is_reduction
        and facts.is_plain
        and not facts.axes("sequential")
        and not facts.checks
        and facts.writes_in_order()
        and bool(facts.axes("spatial"))
        and all(isinstance(a.extent, Const) for a in facts.block.axes)
    )


def _continues(chain: list[BlockFacts], facts: BlockFacts) -> bool:
    """Whether a block has the shape of a chain, and reads what the chain writes at its own place only."""
    written = {f.target for f in chain}
    same = [extent_of(a.extent) for a in facts.axes("spatial")] == [
        extent_of(a.extent) for a in chain[0].axes("spatial")
    ]
    places = [e.indices for e in facts.loads if e.buffer in written]
    own = [a.var for a in facts.axes("spatial")]
    return same and all(len(p) == len(own) and all(i is v for i, v in zip(p, own, strict=True)) for p in places)


def _worth(chain: list[BlockFacts]) -> Iterator[list[str]]:
    """The names of a chain whose blocks have something to hand on."""
    written = {f.target for f in chain}
    if len(chain) > 1 and any(e.buffer in written for f in chain for e in f.loads):
        yield [f.block.name for f in chain]


def _schedule(schedule: Schedule, names: list[str], machine: CpuMachine) -> str:
    """Make one nest of all loops, and cut it into vectors."""
    facts = [facts_of(schedule.function)[n] for n in names]
    depth = max(joint_depth(f, len(f.axes("spatial"))) for f in facts)
    lanes = min(lanes_for(f, machine) for f in facts)
    loops = list(schedule.loops(names[0]))
    for name in names[1:]:
        for loop, behind in zip(loops, schedule.loops(name), strict=True):
            schedule.merge(loop, behind)
    inner = schedule.fuse(*loops[depth:]) if len(loops) > depth + 1 else loops[-1]
    vector = split_vector(schedule, inner, lanes, queries.constant_value(schedule.loop_of(inner).extent))
    outer = [h for h in schedule.loops(names[0]) if h is not vector]
    schedule.vectorize(vector)
    streamed = [stream(schedule, f) for f in facts if not _is_temporary(schedule, f)]
    shared = share(schedule, machine, outer, sum(f.runs * max(f.cost, 1) for f in facts))
    return f"one loop, vectors of {lanes}{shared}{next((s for s in streamed if s), '')}"


def _is_temporary(schedule: Schedule, facts: BlockFacts) -> bool:
    return all(p.buffer is not facts.target for p in schedule.function.params)
