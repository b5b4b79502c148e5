"""Random programs under random schedules: every accepted primitive leaves the result as it was, to the bit."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lpx import te
from lpx.errors import ScheduleError
from lpx.expr import traverse
from lpx.schedule import LoopHandle, Schedule, create_schedule, replay
from lpx.schedule.loops import Tail
from lpx.schedule.testing import check_equivalent

Rng = random.Random


def random_program(rng: Rng) -> te.Tensor:
    """A few definitions over each other: elementwise, stencils, transposes, reductions, matrix products."""
    dtype = rng.choice(("float32", "int32"))
    rows, columns = (rng.choice((1, 3, 4, 6, 8, "n")) for _ in range(2))
    shape = tuple(te.var("n") if e == "n" and i == 0 else (5 if e == "n" else e) for i, e in enumerate((rows, columns)))
    tensors = [te.placeholder(shape, dtype, name="A")]
    if rng.random() < 0.4:
        tensors.append(te.placeholder(shape, dtype, name="B"))
    for step in range(rng.randint(1, 4)):
        rule = rng.choice(_RULES)
        tensors.append(rule(rng, tensors, f"T{step}"))
    return tensors[-1]


def _elementwise(rng: Rng, tensors: list[te.Tensor], name: str) -> te.Tensor:
    a = tensors[-1]
    b = rng.choice([t for t in tensors if [str(e) for e in t.shape] == [str(e) for e in a.shape]])
    is_linear = rng.random() < 0.5

    def body(*i: te.Scalar) -> te.Scalar:
        return a[i] * 3 + b[i] if is_linear else te.maximum(a[i] - b[i], 1)

    return te.compute(a.shape, body, name=name)


def _stencil(rng: Rng, tensors: list[te.Tensor], name: str) -> te.Tensor:
    a, axis, shift = tensors[-1], rng.randrange(tensors[-1].rank), rng.choice((-2, -1, 1, 2))

    def body(*indices: te.Scalar) -> te.Scalar:
        moved = list(indices)
        moved[axis] = moved[axis] + shift
        inside = (moved[axis] >= 0) & (moved[axis] < a.shape[axis])
        return a[indices] + te.where(inside, a[tuple(moved)], 0)

    return te.compute(a.shape, body, name=name)


def _window(rng: Rng, tensors: list[te.Tensor], name: str) -> te.Tensor:
    """A sum over a window, zeros outside, as in a convolution."""
    a, size = tensors[-1], rng.choice((2, 3))
    r = te.reduce_axis(size, name="w")

    def body(*indices: te.Scalar) -> te.Scalar:
        position = indices[0] + r - 1
        inside = (position >= 0) & (position < a.shape[0])
        return te.sum(te.where(inside, a[(position, *indices[1:])], 0), axis=r)

    return te.compute(a.shape, body, name=name)


def _transpose(rng: Rng, tensors: list[te.Tensor], name: str) -> te.Tensor:
    a = tensors[-1]

    def body(*i: te.Scalar) -> te.Scalar:
        return a[tuple(reversed(i))]

    return te.compute(tuple(reversed(a.shape)), body, name=name)


def _reduce(rng: Rng, tensors: list[te.Tensor], name: str) -> te.Tensor:
    a = tensors[-1]
    r = te.reduce_axis(a.shape[-1], name="r")
    reducer = rng.choice((te.sum, te.max))
    kept = a.shape[:-1] or (1,)

    def body(*i: te.Scalar) -> te.Scalar:
        return reducer(a[r] if a.rank == 1 else a[(*i, r)], axis=r)

    return te.compute(kept, body, name=name)


def _gram(rng: Rng, tensors: list[te.Tensor], name: str) -> te.Tensor:
    a = tensors[-1]
    if a.rank != 2:
        return _elementwise(rng, tensors, name)
    r = te.reduce_axis(a.shape[1], name="k")
    return te.compute((a.shape[0], a.shape[0]), lambda i, j: te.sum(a[i, r] * a[j, r], axis=r), name=name)


_RULES: tuple[Callable[[Rng, list[te.Tensor], str], te.Tensor], ...] = (
    _elementwise,
    _elementwise,
    _stencil,
    _window,
    _transpose,
    _reduce,
    _gram,
)


def _split(s: Schedule, rng: Rng) -> None:
    tail: Tail = rng.choice(get_args(Tail))
    if rng.random() < 0.3:
        s.split(_loop(s, rng), nparts=rng.choice((1, 2, 3)), tail=tail)
    else:
        s.split(_loop(s, rng), rng.choice((1, 2, 3, 4, (2, 2))), tail=tail)


def _fuse(s: Schedule, rng: Rng) -> None:
    nest = _nest(s, rng)
    start = rng.randrange(len(nest))
    s.fuse(*nest[start : start + 2])


def _tile(s: Schedule, rng: Rng) -> None:
    nest = _nest(s, rng)
    s.tile(rng.choice(nest), rng.choice(nest), rng.choice((2, 3)), rng.choice((1, 4)))


def _reorder(s: Schedule, rng: Rng) -> None:
    nest = list(_nest(s, rng))
    rng.shuffle(nest)
    s.reorder(*nest[: rng.randint(2, max(len(nest), 2))])


def _partition(s: Schedule, rng: Rng) -> None:
    s.partition(_loop(s, rng), rng.randint(0, 4))


def _merge(s: Schedule, rng: Rng) -> None:
    """Loops at one depth around blocks that follow each other, or any two."""
    names = s.blocks()
    at = rng.randrange(len(names))
    depth = rng.randrange(2)
    first, second = (s.loops(b)[depth:] for b in (names[at], names[(at + 1) % len(names)]))
    if first and second:
        s.merge(first[0], second[0])


ACTIONS: dict[str, Callable[[Schedule, Rng], object]] = {
    "split": _split,
    "fuse": _fuse,
    "tile": _tile,
    "reorder": _reorder,
    "partition": _partition,
    "merge": _merge,
    "add_unit_loop": lambda s, rng: s.add_unit_loop(_loop(s, rng)),
    "vectorize": lambda s, rng: s.vectorize(_loop(s, rng)),
    "unroll": lambda s, rng: s.unroll(_loop(s, rng)),
    "parallel": lambda s, rng: s.parallel(_loop(s, rng)),
    "bind": lambda s, rng: s.bind(_loop(s, rng), rng.choice(("blockIdx.x", "threadIdx.x"))),
    "compute_at": lambda s, rng: s.compute_at(rng.choice(s.blocks()), _loop(s, rng)),
    "reverse_compute_at": lambda s, rng: s.reverse_compute_at(rng.choice(s.blocks()), _loop(s, rng)),
    "compute_root": lambda s, rng: s.compute_root(rng.choice(s.blocks())),
    "compute_inline": lambda s, rng: s.compute_inline(rng.choice(s.blocks())),
    "reverse_compute_inline": lambda s, rng: s.reverse_compute_inline(rng.choice(s.blocks())),
}
WEIGHTS = [1 if n.endswith("inline") or n in ("vectorize", "unroll", "bind", "parallel") else 3 for n in ACTIONS]


def _nest(s: Schedule, rng: Rng) -> tuple[LoopHandle, ...]:
    nest = s.loops(rng.choice(s.blocks())) or s.loops()
    if not nest:
        raise ScheduleError("no loop is left")
    return nest


def _loop(s: Schedule, rng: Rng) -> LoopHandle:
    return rng.choice(_nest(s, rng))


def adds_up_in_order(s: Schedule) -> bool:
    """Whether the loops of every reduction run its terms in the order of the axis, as far as can be told simply."""
    for block in s.blocks():
        node = s.statement(block)
        for axis, value in zip(node.axes, node.bindings, strict=True):  # type: ignore[union-attr] # pyright: ignore
            if axis.kind != "reduce":
                continue
            used = [f for f in s.loops(block) if f.var in traverse.free_vars(value)]
            if len(used) > 1:
                return False
    return True


def random_schedule(s: Schedule, rng: Rng, steps: int) -> Counter[tuple[str, bool]]:
    """Apply random primitives; counts per primitive how often it was accepted (True) and refused (False)."""
    counts: Counter[tuple[str, bool]] = Counter()
    for _ in range(steps):
        name = rng.choices(list(ACTIONS), WEIGHTS)[0]
        try:
            ACTIONS[name](s, rng)
        except ScheduleError:
            counts[name, False] += 1
        else:
            counts[name, True] += 1
    return counts


def check_random(rng: Rng) -> Counter[tuple[str, bool]]:
    program = random_program(rng)
    s = create_schedule(program)
    counts = random_schedule(s, rng, rng.randint(1, 8))
    exact = program.dtype.is_integer or adds_up_in_order(s)
    for n in (1, 5, 7):
        check_equivalent(te.lower(program), s.function, {"n": n}, seed=n, relative=0.0 if exact else 1e-5)
    assert str(replay(s.trace, program)) == str(s)
    return counts


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
    for seed in range(100):
        rng = random.Random(seed)
        total += random_schedule(create_schedule(random_program(rng)), rng, 8)
    assert {name for name, accepted in total if accepted} == set(ACTIONS)
    never_refused = {"add_unit_loop"}
    assert {name for name, accepted in total if not accepted} >= set(ACTIONS) - never_refused - {"split", "partition"}
