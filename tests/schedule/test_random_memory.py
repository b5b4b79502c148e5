"""Random schedules of memory, reductions and pipelines: results stay, and nothing unwritten is read."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lpx import te
from lpx.errors import ScheduleError
from lpx.ir import traverse
from lpx.ir.nodes import Block
from lpx.schedule import LoopHandle, Schedule, create_schedule, replay
from lpx.schedule.testing import check_equivalent
from tests.schedule import test_random as plain

Rng = random.Random
REASSOCIATING = ("rfactor", "cross_lane_reduce")


def _block(s: Schedule, rng: Rng) -> Block:
    found = s.statement(rng.choice(s.blocks()))
    assert isinstance(found, Block)
    return found


def _input(s: Schedule, rng: Rng) -> tuple[str, str]:
    """A block, and a buffer that it reads."""
    block = _block(s, rng)
    read = sorted(b.name for b in traverse.read_buffers(block))
    if not read:
        raise ScheduleError("nothing is read")
    return block.name, rng.choice(read)


def _loop(s: Schedule, rng: Rng, block: str) -> LoopHandle:
    loops = s.loops(block)
    if not loops:
        raise ScheduleError("no loop is left")
    return rng.choice(loops)


def _transform_layout(s: Schedule, rng: Rng) -> None:
    name = _block(s, rng).name
    if rng.random() < 0.5:
        s.transform_layout(name, lambda i, j: (j, i))
    else:
        s.transform_layout(name, lambda i, j: (i // 2, j, i % 2))


def _pack(s: Schedule, rng: Rng) -> None:
    s.pack(*_input(s, rng), lambda i, j: (j // 2, i, j % 2))


def _rfactor(s: Schedule, rng: Rng) -> None:
    name = _block(s, rng).name
    parts = s.split(s.loops(name)[-1], rng.choice((2, 3, 4)))
    combine = s.rfactor(name, rng.choice(parts))
    if rng.random() < 0.5:
        s.cross_lane_reduce(combine, s.loops(combine)[-1])


def _decompose(s: Schedule, rng: Rng) -> None:
    name = _block(s, rng).name
    s.decompose_reduction(name, _loop(s, rng, name))


def _pipeline(s: Schedule, rng: Rng) -> None:
    """A copy in a loop of its reader, in versions, asynchronous, in stages: as far as each is accepted."""
    name, buffer = _input(s, rng)
    copy, loop = s.cache_read(name, buffer, "local"), _loop(s, rng, name)
    s.compute_at(copy, loop)
    s.double_buffer(copy, loop, rng.choice((2, 3)))
    if rng.random() < 0.5 and s.loops(copy):
        s.async_copy(copy, s.loops(copy)[-1])
    s.software_pipeline(loop, (0, rng.choice((0, 1, 2))))


def _pad(s: Schedule, rng: Rng) -> None:
    block = _block(s, rng)
    s.pad(block.name, [rng.choice((1, 2, 4)) for _ in block.axes])


def _region(s: Schedule, rng: Rng) -> None:
    loops = [s.loops(b)[0] for b in s.blocks() if s.loops(b)]
    for loop in loops:
        if not rng.random() < 0.2:
            s.parallel(loop)
    s.parallel_region(*dict.fromkeys(loops))


def _prefetch(s: Schedule, rng: Rng) -> None:
    name, buffer = _input(s, rng)
    loop = _loop(s, rng, name)
    s.prefetch(name, buffer, loop, 2, over=rng.choice([None, loop, _loop(s, rng, name)]))


ACTIONS: dict[str, Callable[[Schedule, Rng], object]] = {
    "cache_read": lambda s, rng: s.cache_read(*_input(s, rng), "local"),
    "cache_write": lambda s, rng: s.cache_write(_block(s, rng).name),
    "set_scope": lambda s, rng: s.set_scope(_block(s, rng).name, "local"),
    "storage_align": lambda s, rng: s.storage_align(_block(s, rng).name, 0, rng.choice((4, 7)), 1),
    "transform_layout": _transform_layout,
    "pack": _pack,
    "pad": _pad,
    "decompose_reduction": _decompose,
    "rfactor": _rfactor,
    "blockize": lambda s, rng: s.blockize(_loop(s, rng, _block(s, rng).name)),
    "pipeline": _pipeline,
    "parallel_region": _region,
    "prefetch": _prefetch,
}


def random_schedule(s: Schedule, rng: Rng, steps: int) -> Counter[tuple[str, bool]]:
    """Apply random primitives of this file and of `test_random`; counts of those here, accepted (True) and refused."""
    counts: Counter[tuple[str, bool]] = Counter()
    for _ in range(steps):
        table = ACTIONS if rng.random() < 0.6 else plain.ACTIONS
        name = rng.choice(list(table))
        try:
            table[name](s, rng)
        except (ScheduleError, IndexError):
            counts[name, False] += table is ACTIONS
        else:
            counts[name, True] += table is ACTIONS
    return counts


def check_random(rng: Rng) -> None:
    program = plain.random_program(rng)
    s = create_schedule(program)
    random_schedule(s, rng, rng.randint(1, 8))
    reassociates = any(i.name in REASSOCIATING for i in s.trace.instructions)
    exact = program.dtype.is_integer or (plain.adds_up_in_order(s) and not reassociates)
    for n in (1, 5, 7):
        check_equivalent(te.lower(program), s.function, {"n": n}, seed=n, relative=0.0 if exact else 1e-5)
    assert str(replay(s.trace, program)) == str(s)


@given(st.integers(0, 1 << 40))
@settings(max_examples=60)
def test_random_schedules_keep_results(seed: int) -> None:
    check_random(random.Random(seed))


@pytest.mark.long
@given(st.integers(0, 1 << 40))
@settings(max_examples=5000)
def test_many_random_schedules_keep_results(seed: int) -> None:
    check_random(random.Random(seed))


def test_every_primitive_is_accepted_and_refused_somewhere() -> None:
    total: Counter[tuple[str, bool]] = Counter()
    for seed in range(150):
        rng = random.Random(seed)
        total += random_schedule(create_schedule(plain.random_program(rng)), rng, 8)
    assert {name for (name, accepted), count in total.items() if accepted and count} >= set(ACTIONS)
    assert {name for (name, accepted), count in total.items() if not accepted and count} >= set(ACTIONS)
