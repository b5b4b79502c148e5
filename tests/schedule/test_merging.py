"""`merge`: loops one behind the other as one loop."""

from __future__ import annotations

import pytest

from lpx import te
from lpx.schedule import Schedule, create_schedule
from lpx.schedule.errors import DeadHandleError, DependenceError, ExtentError, LoopKindError, NestingError
from tests.schedule.compiled import confirm_compiled
from tests.schedule.support import blur, elementwise
from tests.support import Golden


def running_sums(rows: int, steps: int) -> te.Tensor:
    """The sum of each column of X up to each of its rows."""
    x = te.placeholder((steps, rows), name="X")

    def step(t: te.Scalar, s: te.Tensor) -> te.Tensor:
        return te.compute((rows,), lambda i: s[i] + x[t, i], name="add")

    return te.scan(steps, ((rows,), lambda _: 0.0), step, keep="all", name="S")


def test_merge(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        (first,), (second,) = s.loops("B"), s.loops("C")
        assert s.merge(first, second) == first
        outer, _ = s.split(first, 4)
        s.parallel(outer)

    confirm_compiled(golden, "merge", elementwise(te.var("n")), apply, {"n": 11})


def test_elements_of_a_scan_go_outside(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        time, i = s.loops("add")
        s.merge(i, s.loops("S")[-1])
        s.reorder(i, time)
        (start,) = s.loops("S_init")
        s.merge(start, i)
        s.parallel(start)

    confirm_compiled(golden, "merge_scan", running_sums(5, 7), apply)


def test_what_is_read_in_another_iteration_stays_apart() -> None:
    s = create_schedule(blur(12))
    with pytest.raises(DependenceError, match="merge: P is touched in one iteration of i and in another one behind it"):
        s.merge(s.loops("P")[0], s.loops("S")[0])


def test_loops_of_different_bounds_stay_apart() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    s = create_schedule(te.compute((5,), lambda i: b[i] * 2.0, name="C"))
    with pytest.raises(ExtentError, match="merge: loops i and i have different bounds"):
        s.merge(s.loops("B")[0], s.loops("C")[0])


def test_loops_that_do_not_follow_each_other_stay_apart() -> None:
    s = create_schedule(elementwise(8))
    (first,), (second,) = s.loops("B"), s.loops("C")
    for pair in ((second, first), (first, first)):
        with pytest.raises(NestingError, match=r"merge: loop .* is not the statement behind loop"):
            s.merge(*pair)
    s.parallel(second)
    with pytest.raises(LoopKindError, match="merge: loop i is parallel"):
        s.merge(first, second)


def test_the_second_loop_is_gone() -> None:
    s = create_schedule(elementwise(8))
    (first,), (second,) = s.loops("B"), s.loops("C")
    s.merge(first, second)
    with pytest.raises(DeadHandleError, match=r"loop i was merged into i at .*test_merging.py:\d+"):
        s.unroll(second)
    assert s.loops("C") == (first,)
