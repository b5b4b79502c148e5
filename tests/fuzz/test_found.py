"""Cases that random programs have found, each as small as it gets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lpx
from lpx import te
from lpx.expr.nodes import Expr
from lpx.ir import traverse
from lpx.ir.nodes import If
from lpx.ir.parser import parse_function
from lpx.ir.printer import print_function
from lpx.passes.lower_blocks import LowerBlocks
from lpx.schedule import Schedule
from lpx.schedule.testing import check_equivalent


def equal(program: te.Tensor, apply: Callable[[Schedule], object], **extents: int) -> Schedule:
    """The schedule, which computes what the program does."""
    s = lpx.create_schedule(program)
    apply(s)
    check_equivalent(te.lower(program), s.function, extents, relative=1e-6)
    return s


def windows(n: te.Dim) -> te.Tensor:
    """Maxima over windows of 3 rows, of which the first lies outside."""
    x, w = te.placeholder((2, n), "float16", "X"), te.reduce_axis(3, "w")

    def row(j: te.Scalar) -> te.Scalar:
        inside = (w - 1 >= 0) & (w - 1 < 2)
        return te.max(te.where(inside, x[w - 1, j], -1.0), axis=w)

    return te.compute((n,), row, name="C")


def test_a_peeled_iteration_does_not_use_the_accumulator_of_the_others() -> None:
    """The peeled iteration reads its accumulator by the same node as the loop after it."""
    s = lpx.create_schedule(windows(te.var("n")))
    s.cache_write("C")
    x = np.arange(14, dtype=np.float16).reshape(2, 7) + 1
    np.testing.assert_array_equal(lpx.build(s)(x), x.max(0))


def row_sums(extent: te.Dim) -> te.Tensor:
    a, r = te.placeholder((3, extent), name="A"), te.reduce_axis(extent, name="r")
    return te.compute((3,), lambda i: te.sum(a[i, r], axis=r), name="C")


@pytest.mark.parametrize("op", [te.sum, te.prod, te.min, te.max])
def test_rfactor_over_the_only_reduce_loop(op: Callable[..., te.Scalar]) -> None:
    a, r = te.placeholder((3, 5), name="A"), te.reduce_axis(5, name="r")
    program = te.compute((3,), lambda i: op(a[i, r], axis=r), name="C")
    s = equal(program, lambda s: s.rfactor("C", s.loops("C")[1]))
    assert str(s).count("init {") == 1, "the parts need no start"


def test_compute_at_where_a_vector_reads() -> None:
    a, r = te.placeholder((4, 5), name="A"), te.reduce_axis(5, name="r")
    b = te.compute((4, 5), lambda i, j: a[i, j] * 2.0, name="B")
    program = te.compute((4,), lambda i: te.sum(b[i, r], axis=r), name="C")

    def apply(s: Schedule) -> None:
        s.cross_lane_reduce("C", s.loops("C")[1])
        s.compute_at("B", s.loops("C")[0])

    equal(program, apply)


def test_compute_at_of_what_data_selects_reads_no_more_data() -> None:
    """Where a tail keeps the gather from running, its positions are not read to find out what to compute."""
    n = te.var("n")
    a, k = te.placeholder((n,), name="A"), te.placeholder((5,), "int32", "K")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")

    def gathered(j: te.Scalar) -> te.Scalar:
        position = te.cast(k[j], "int64")
        return te.where((position >= 0) & (position < n), b[te.clip(position, 0, n - 1)], 1.0)

    program = te.compute((5,), gathered, name="C")

    def apply(s: Schedule) -> None:
        outer, _ = s.split(s.loops("C")[0], 4)
        s.compute_at("B", outer)

    for extent in (1, 7):
        equal(program, apply, n=extent)


def test_an_aligned_tensor_may_be_empty() -> None:
    n = te.var("n")
    a = te.placeholder((n, 3, 3), name="A")
    b = te.compute((n, 3, 3), lambda i, j, k: a[i, j, k] + 1.0, name="B")
    s = lpx.create_schedule(te.compute((n, 3, 3), lambda i, j, k: b[i, k, j] * 2.0, name="C"))
    s.storage_align("B", 1, 8)
    kernel = lpx.build(s)
    assert kernel(np.empty((0, 3, 3), np.float32)).shape == (0, 3, 3)
    x = np.arange(18, dtype=np.float32).reshape(2, 3, 3)
    np.testing.assert_array_equal(kernel(x), (x + 1).transpose(0, 2, 1) * 2)


def test_a_sum_over_nothing_keeps_its_start_where_loops_inside_it_are_cut() -> None:
    n = te.var("n")
    a, r = te.placeholder((4, n), name="A"), te.reduce_axis(n, name="r")
    s = lpx.create_schedule(te.compute((4,), lambda i: te.sum(a[i, r], axis=r), name="C"))
    i, k = s.loops("C")
    s.reorder(k, i)
    with pytest.raises(lpx.errors.ScheduleError, match="C may be empty, and would not start once i is cut"):
        s.partition(i, 2)
    s.reorder(i, k)
    s.partition(i, 2)
    np.testing.assert_array_equal(lpx.build(s)(np.empty((4, 0), np.float32)), np.zeros(4, np.float32))


def scan_of_two_blocks() -> te.Tensor:
    """S = S + P with P = X[t] * 2, for every t."""
    n = te.var("n")
    x = te.placeholder((n, 4), name="X")

    def step(t: Expr, s: te.Tensor) -> te.Tensor:
        p = te.compute((4,), lambda i: x[t, i] * 2.0, name="P")
        return te.compute((4,), lambda i: s[i] + p[i], name="Q")

    return te.scan(n, ((4,), lambda i: 0.0), step, name="S")


MOVES: dict[str, Callable[[Schedule], object]] = {
    "compute_at": lambda s: s.compute_at("P", s.loops("Q")[-1]),
    "reverse_compute_at": lambda s: s.reverse_compute_at("Q", s.loops("P")[-1]),
    "compute_root": lambda s: s.compute_root("P"),
    "cache_read": lambda s: s.cache_read("Q", "P"),
    "compute_inline": lambda s: s.compute_inline("P"),
}


@pytest.mark.parametrize("move", MOVES)
def test_blocks_of_a_step_stay_guarded_in_the_tail_of_its_loop(move: str) -> None:
    def apply(s: Schedule) -> None:
        s.split(s.loops("Q")[0], 4)
        MOVES[move](s)

    for extent in (1, 5, 8):
        equal(scan_of_two_blocks(), apply, n=extent)


def test_vectors_are_not_prefetched() -> None:
    s = lpx.create_schedule(row_sums(8))
    i, r = s.loops("C")
    s.cross_lane_reduce("C", r)
    with pytest.raises(lpx.errors.ScheduleError, match="C reads A in vectors"):
        s.prefetch("C", "A", i)


def test_a_sum_over_nothing_may_be_prefetched() -> None:
    """Also where the program was read from text, which has operations of its own."""
    s = lpx.create_schedule(row_sums(te.var("n")))
    s.prefetch("C", "C", s.loops("C")[1])
    result = np.full(3, np.nan, np.float32)
    lpx.build(lpx.create_schedule(parse_function(print_function(s.function))))(np.empty((3, 0), np.float32), result)
    np.testing.assert_array_equal(result, np.zeros(3, np.float32))


def test_a_sum_over_nothing_starts_before_a_region() -> None:
    s = lpx.create_schedule(row_sums(te.var("n")))
    i, k = s.loops("C")
    s.reorder(k, i)
    s.parallel(i)
    s.parallel_region(i)
    kernel = lpx.build(s)
    np.testing.assert_array_equal(kernel(np.empty((3, 0), np.float32)), np.zeros(3, np.float32))
    np.testing.assert_array_equal(kernel(np.ones((3, 5), np.float32)), np.full(3, 5, np.float32))


def test_half_of_a_tensor_of_symbolic_length_can_be_read() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute(((n + 1) // 2,), lambda i: a[2 * i], name="B")
    program = te.compute(b.shape, lambda i: b[i] * 2.0, name="C")
    assert len(te.lower(program).symbols) == 1


def column_of_three() -> te.Tensor:
    """C = A * 2 + 1 in two steps, over a column: the loop over the one element of a row may be split."""
    a = te.placeholder((3, 1), name="A")
    b = te.compute((3, 1), lambda i, j: a[i, j] * 2.0, name="B")
    return te.compute((3, 1), lambda i, j: b[i, j] + 1.0, name="C")


def test_iterations_that_write_nothing_copy_nothing() -> None:
    """Of the two iterations over the one element of a row, the second has nothing to copy, not the whole row."""

    def apply(s: Schedule) -> None:
        _, inner = s.split(s.loops("B")[1], 2)
        s.reverse_compute_at("C", inner)
        s.cache_write("B", "global")

    equal(column_of_three(), apply)


def test_iterations_that_complete_nothing_run_no_consumer() -> None:
    """An addition in place would add its one element twice."""
    a = te.placeholder((3, 1), name="A")
    total = te.placeholder((3, 1), name="T", inout=True)
    b = te.compute((3, 1), lambda i, j: a[i, j] * 2.0, name="B")
    program = te.update(total, lambda i, j: total[i, j] + b[i, j], name="C")

    def apply(s: Schedule) -> None:
        _, inner = s.split(s.loops("B")[1], 2)
        s.reverse_compute_at("C", inner)

    equal(program, apply)


def test_one_thread_of_a_region_runs_the_one_iteration_of_a_loop() -> None:
    a, r = te.placeholder((8, 1), name="A"), te.reduce_axis(8, name="r")
    s = lpx.create_schedule(te.compute((1,), lambda i: te.sum(a[r, i], axis=r), name="C"))
    i, k = s.loops("C")
    s.reorder(k, i)
    s.parallel(i)
    s.parallel_region(i)
    np.testing.assert_array_equal(lpx.build(s)(np.ones((8, 1), np.float32)), [8.0])


@pytest.mark.parametrize("move", ["compute_root", "reverse_compute_at"])
def test_copies_of_rows_do_not_move(move: str) -> None:
    """Loops over all elements would start a copy of a row at each."""
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] * 2.0, name="B")
    s = lpx.create_schedule(te.compute((8,), lambda i: b[7 - i] + 1.0, name="C"))
    copy = s.cache_read("C", "B", "local")
    s.async_copy(copy, s.loops(copy)[0])
    with pytest.raises(lpx.errors.ScheduleError, match="B_local copies several elements at once"):
        s.compute_root(copy) if move == "compute_root" else s.reverse_compute_at(copy, s.loops("B")[0])


def sum_of_doubles() -> te.Tensor:
    """One number, whose half way stands in a temporary of no dimension."""
    a, r = te.placeholder((5,), name="A"), te.reduce_axis(5, name="r")
    total = te.compute((), lambda: te.sum(a[r], axis=r), name="B")
    return te.compute((), lambda: total[()] * 2.0, name="C")


def test_what_moved_to_registers_is_not_prefetched() -> None:
    s = lpx.create_schedule(sum_of_doubles())
    s.prefetch("B", "B", s.loops("B")[0])
    s.decompose_reduction("B", s.loops("B")[0])
    assert lpx.build(s)(np.ones(5, np.float32)) == 10.0


def test_lines_of_a_tensor_of_no_dimension() -> None:
    s = equal(sum_of_doubles(), lambda s: s.prefetch("B", "B", s.loops("B")[0], over=s.loops("B")[0]))
    assert "&B[]" in str(s)


def test_a_sum_over_nothing_has_no_first_part() -> None:
    n = te.var("n")
    a, r = te.placeholder((4, n), name="A"), te.reduce_axis(n, name="r")
    s = lpx.create_schedule(te.compute((4,), lambda i: te.sum(a[i, r], axis=r), name="C"))
    i, k = s.loops("C")
    _, _, inner, _ = s.tile(k, i, 2, 8, tail="guard")
    with pytest.raises(lpx.errors.ScheduleError, match="runs over r_o as well"):
        s.decompose_reduction("C", inner)


def test_parts_start_from_what_exists_where_they_are_combined() -> None:
    x, a, r = te.placeholder((4,), name="X"), te.placeholder((4, 8), name="A"), te.reduce_axis(8, name="r")
    b = te.compute((4,), lambda i: x[i] * 2.0, name="B")
    s = lpx.create_schedule(te.compute((4,), lambda i: te.sum(a[i, r], axis=r, init=b[i]), name="C"))
    i, k = s.loops("C")
    s.compute_at("B", i)
    with pytest.raises(lpx.errors.ScheduleError, match="C reads B, which exists only inside another loop"):
        s.rfactor("C", k)


def test_a_sum_over_nothing_starts_in_a_tail_of_symbolic_place() -> None:
    n = te.var("n")
    a, r = te.placeholder((n + 1, n), name="A"), te.reduce_axis(n, name="r")
    s = lpx.create_schedule(te.compute((n + 1,), lambda i: te.sum(a[i, r], axis=r), name="C"))
    s.split(s.loops("C")[0], 2, tail="peel")
    lowered = LowerBlocks()(s.function)
    assert not any(isinstance(x, If) for x in traverse.walk(lowered.body)), "a test of the first iteration"


def test_versions_with_gaps_are_not_copied_once_rows_are_copied_asynchronously() -> None:
    """The row before the first one is in no version."""
    b = te.placeholder((8, 6), name="B")

    def body(i: Expr, j: Expr) -> Expr:
        return b[i, j] + te.where((i - 1 >= 0) & (i - 1 < 8), b[i - 1, j], 0.0)

    s = lpx.create_schedule(te.compute((8, 6), body, name="C"))
    i, _ = s.loops("C")
    s.cache_read("C", "B", "local")
    s.compute_at("B_local", i)
    s.double_buffer("B_local", i)
    s.async_copy("B_local", s.loops("B_local")[-1])
    with pytest.raises(lpx.errors.ScheduleError, match="B_local may leave gaps in B_local"):
        s.cache_read("C", "B_local", "local")


def test_a_part_of_a_sum_does_not_follow_its_producer() -> None:
    """It would add up what the tail adds up, too."""
    a, r = te.placeholder((4,), name="A"), te.reduce_axis(4, name="r")
    b = te.compute((4,), lambda i: a[i] * 2.0, name="B")
    s = lpx.create_schedule(te.compute((), lambda: te.sum(b[r], axis=r), name="C"))
    s.split(s.loops("C")[0], 3, tail="peel")
    with pytest.raises(lpx.errors.ScheduleError, match="C takes a part of the values of its axis vr only"):
        s.reverse_compute_at("C", s.loops("B")[0])
