from __future__ import annotations

import pytest

from lpx import te
from lpx.schedule import Schedule, create_schedule
from lpx.schedule.errors import LoopKindError, NestingError, OptionError
from tests.schedule.compiled import check, confirm_compiled
from tests.schedule.support import elementwise
from tests.support import Golden


def reversed_twice(n: int) -> te.Tensor:
    """C[i] = B[n - 1 - i] * 2, B = A + 1: each thread needs what another one made."""
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    return te.compute((n,), lambda i: b[n - 1 - i] * 2.0, name="C")


def test_parallel_region(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        (i,), (j,) = s.loops("B"), s.loops("C")
        s.parallel(i)
        s.parallel(j)
        s.parallel_region(i, j)

    confirm_compiled(golden, "parallel_region", reversed_twice(23), apply)


def test_no_barrier_between_loops_that_do_not_meet() -> None:
    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((16,), lambda i: a[15 - i] * 2.0, name="C")
    d = te.compute((16,), lambda i: b[15 - i] + c[i], name="D")
    s = create_schedule(d)
    loops = [s.loops(name)[0] for name in "BCD"]
    for loop in loops:
        s.parallel(loop)
    s.parallel_region(*loops)
    assert str(s).count("barrier") == 1
    check(d, s)


def test_parallel_region_around_a_scan(golden: Golden) -> None:
    """Threads stay together through all steps of a recurrence."""
    x = te.placeholder((5, 8), name="x")
    q = te.reduce_axis(8, name="q")

    def step(t: te.Scalar, h: te.Tensor) -> te.Tensor:
        total = te.compute((8,), lambda i: te.max(h[(i + q) % 8], axis=q), name="total")
        return te.compute((8,), lambda i: total[7 - i] + x[t, i], name="next")

    program = te.scan(5, ((8,), lambda i: 0.0), step, name="h")

    def apply(s: Schedule) -> None:
        for name in ("total", "next"):
            s.parallel(s.loops(name)[1])
        s.parallel_region(s.loops("next")[0])

    confirm_compiled(golden, "parallel_region_scan", program, apply)


def test_parallel_region_refuses() -> None:
    s = create_schedule(elementwise(8))
    (i,), (j,) = s.loops("B"), s.loops("C")
    with pytest.raises(
        LoopKindError, match=r"(?s)loop i is serial and holds more than parallel loops.*make it parallel"
    ):
        s.parallel_region(i, j)
    s.parallel(i)
    s.parallel(j)
    with pytest.raises(NestingError, match=r"(?s)loops i, i do not follow one another.*neighbours in program order"):
        s.parallel_region(j, i)
    with pytest.raises(OptionError, match="a region of no loops"):
        s.parallel_region()
    s.parallel_region(i, j)
    with pytest.raises(NestingError, match="a region stands at the top"):
        s.parallel_region(i)


def test_parallel_region_refuses_memory_of_one_iteration() -> None:
    """Inside a serial loop an allocation would become one per thread."""
    a = te.placeholder((4, 8), name="A")
    b = te.compute((4, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((4, 8), lambda i, j: b[i, 7 - j] * 2.0, name="C")
    s = create_schedule(c)
    i, j = s.loops("C")
    s.compute_at("B", i)
    s.parallel(j)
    s.parallel(s.loops("B")[1])
    with pytest.raises(LoopKindError, match="loop i is serial and holds more than parallel loops"):
        s.parallel_region(i)
