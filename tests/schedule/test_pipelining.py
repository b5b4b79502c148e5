from __future__ import annotations

import re

import pytest

from lpx import te
from lpx.ir import traverse
from lpx.schedule import LoopHandle, Schedule, create_schedule
from lpx.schedule.errors import (
    AccessError,
    BlockFormError,
    ConsumerError,
    DependenceError,
    ExtentError,
    LoopKindError,
    NestingError,
    OptionError,
)
from tests.schedule.compiled import check, confirm_compiled
from tests.schedule.support import bias_relu, elementwise, matmul
from tests.support import Golden


def staged(s: Schedule, factor: int = 4) -> LoopHandle:
    """A product whose slices of B are copied, slice by slice, inside the loop over slices."""
    i, j, r = s.loops("C")
    ro, ri = s.split(r, factor)
    s.reorder(ro, i, j, ri)
    s.compute_at(s.cache_read("C", "B", "local"), ro)
    return ro


def test_double_buffer(golden: Golden) -> None:
    confirm_compiled(golden, "double_buffer", matmul(3, 10, 4), lambda s: s.double_buffer("B_local", staged(s)))


@pytest.mark.parametrize("count", [2, 3])
def test_double_buffer_of_a_reduction_in_an_outer_loop(count: int) -> None:
    program = bias_relu(6, 3, te.var("n"))
    s = create_schedule(program)
    o, _ = s.split(s.loops("D")[0], 2)
    s.compute_at("C", o)
    s.double_buffer("C", o, count)
    check(program, s, {"n": 5})


def test_double_buffer_refuses() -> None:
    s = create_schedule(matmul(3, 8, 4))
    ro = staged(s)
    with pytest.raises(OptionError, match=r"(?s)1 is no number of versions.*give 2 or more"):
        s.double_buffer("B_local", ro, 1)
    s.double_buffer("B_local", ro)
    with pytest.raises(AccessError, match=r"(?s)B_local outlives an iteration of loop r_o.*compute_at puts"):
        s.double_buffer("B_local", ro)
    s = create_schedule(elementwise(8))
    s.compute_at("B", s.loops("C")[0])
    s.parallel(s.loops("C")[0])
    with pytest.raises(LoopKindError, match="loop i is parallel"):
        s.double_buffer("B", s.loops("C")[0])


def test_software_pipeline(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        ro = staged(s)
        s.double_buffer("B_local", ro)
        s.software_pipeline(ro, (0, 1))

    confirm_compiled(golden, "software_pipeline", matmul(3, 10, 4), apply)


def test_software_pipeline_needs_a_version_per_stage() -> None:
    s = create_schedule(matmul(3, 16, 4))
    ro = staged(s)
    with pytest.raises(
        NestingError, match=r"(?s)does not hold a sequence of statements.*double_buffer takes memory out"
    ):
        s.software_pipeline(ro, (0, 1))
    s.double_buffer("B_local", ro)
    with pytest.raises(DependenceError, match=r"(?s)before one of the iteration 2 before.*more versions"):
        s.software_pipeline(ro, (0, 3))
    with pytest.raises(DependenceError, match=r"(?s)before one of the iteration 2 before.*more versions"):
        s.software_pipeline(ro, (0, 2))
    with pytest.raises(DependenceError, match=r"(?s)before one of its own iteration.*give it a later stage"):
        s.software_pipeline(ro, (1, 0))
    with pytest.raises(DependenceError, match="before one of its own iteration"):
        s.software_pipeline(ro, (0, 0), (1, 0))
    s.software_pipeline(ro, (0, 2), (1, 0))
    check(matmul(3, 16, 4), s)


def test_software_pipeline_refuses_numbers_that_do_not_fit() -> None:
    s = create_schedule(matmul(3, 8, 4))
    ro = staged(s)
    s.double_buffer("B_local", ro)
    for stages, order in (((0,), None), ((1, 2), None), ((0, 1), (0, 0))):
        with pytest.raises(OptionError, match=r"do not fit 2 statements"):
            s.software_pipeline(ro, stages, order)


def test_a_pipeline_keeps_its_statements() -> None:
    s = create_schedule(matmul(3, 16, 4))
    ro = staged(s)
    s.double_buffer("B_local", ro)
    s.software_pipeline(ro, (0, 1))
    before = str(s)
    with pytest.raises(NestingError, match=r"(?s)r_o is a pipeline of 2 statements and would have 3.*comes last"):
        s.prefetch("C", "A", ro)
    s.vectorize(s.loops("B_local")[-1])
    s.reorder(*reversed(s.loops("C")[1:3]))
    assert str(s) != before
    check(matmul(3, 16, 4), s)


def test_async_copy(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        staged(s)
        s.async_copy("B_local", s.loops("B_local")[-1])

    confirm_compiled(golden, "async_copy", matmul(3, 8, 4), apply)


def test_async_copy_waits_once_for_both_operands() -> None:
    program = matmul(4, 8, 4)
    s = create_schedule(program)
    for tile in [s.cache_read("C", operand, "shared") for operand in ("A", "B")]:
        s.async_copy(tile, s.loops(tile)[-1])
    assert (str(s).count("async_commit"), str(s).count("async_wait")) == (2, 1)


def test_async_copy_refuses() -> None:
    s = create_schedule(matmul(3, 10, 8))
    staged(s)
    a0, a1 = s.loops("B_local")[1:]
    with pytest.raises(NestingError, match=f"B_local does not stand directly in {a0.name}"):
        s.async_copy("B_local", a0)
    with pytest.raises(BlockFormError, match=r"(?s)C does more than copy one element.*copy with cache_read"):
        s.async_copy("C", s.loops("C")[-1])
    _, tail = s.split(a1, 3)
    with pytest.raises(ExtentError, match="has a tail"):
        s.async_copy("B_local", tail)
    s = create_schedule(matmul(3, 8, 8))
    staged(s)
    _, a0, a1 = s.loops("B_local")
    s.reorder(a1, a0)
    with pytest.raises(AccessError, match=f"{a0.name} does not run along rows of B_local"):
        s.async_copy("B_local", a0)
    s.reorder(a0, a1)
    s.parallel(a0)
    with pytest.raises(LoopKindError, match=f"loop {a0.name} is parallel; one thread starts the copies"):
        s.async_copy("B_local", a1)


def test_async_copy_refuses_rows_of_no_elements() -> None:
    s = create_schedule(elementwise(4))
    copy = s.cache_read("C", "B")
    _, rest = s.partition(s.loops(copy)[0], 4)
    with pytest.raises(ExtentError, match=f"the extent of {rest.name} is not a constant of 1 or more"):
        s.async_copy(s.blocks()[2], rest)


def test_async_copy_refuses_a_copy_that_nobody_reads() -> None:
    s = create_schedule(elementwise(8))
    out = s.cache_write("C")
    with pytest.raises(ConsumerError, match="nothing after it in its sequence reads C"):
        s.async_copy(out, s.loops(out)[0])


def test_prefetch(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        i, j, r = s.loops("C")
        s.reorder(i, r, j)
        s.prefetch("C", "B", r, 2)
        s.vectorize(j)

    confirm_compiled(golden, "prefetch", matmul(3, 6, 8), apply)


def test_prefetch_over_an_inner_loop(golden: Golden) -> None:
    """Two lines of B and two of C, asked for in 6 iterations of r; and all lines of A at once."""

    def apply(s: Schedule) -> None:
        i, j, r = s.loops("C")
        j_o, j_i = s.split(j, 32)
        s.reorder(i, j_o, r, j_i)
        s.prefetch("C", "C", i, over=r)
        s.prefetch("C", "A", i, 2, over=i)
        s.prefetch("C", "B", j_o, over=r)
        s.vectorize(j_i)

    confirm_compiled(golden, "prefetch_over", matmul(3, 6, 64), apply)


def test_prefetch_spreads_lines_evenly() -> None:
    """Four rows of four lines in eight iterations: two requests in each, every line once."""
    s = create_schedule(matmul(12, 8, 128))
    i, j, r = s.loops("C")
    i_o, i_i = s.split(i, 4)
    j_o, j_i = s.split(j, 64)
    s.reorder(j_o, i_o, r, i_i, j_i)
    s.prefetch("C", "C", i_o, over=r)
    text = str(s)
    assert "for line in 0..2 unroll" in text
    assert re.search(r"&C\[min\(i_o \+ 1, 2\) \* 4 \+ .*r.*, j_o \* 64 \+ \(r \* 2 \+ line\) % 4 \* 16\]", text), text


def test_prefetch_counts_lines_of_whole_rows_on() -> None:
    """Four whole rows of four lines are sixteen lines one after another."""
    s = create_schedule(matmul(12, 8, 64))
    i, j, r = s.loops("C")
    i_o, i_i = s.split(i, 4)
    s.reorder(i_o, r, i_i, j)
    s.prefetch("C", "C", i_o, over=r)
    assert "&C[min(i_o + 1, 2) * 4, (r * 2 + line) * 16]" in str(s)


def test_a_prefetch_writes_nothing() -> None:
    """Else what constants are packed into would not be known to be ready before the first call."""
    s = create_schedule(matmul(4, 6, 32))
    i, j, r = s.loops("C")
    s.reorder(i, r, j)
    s.prefetch("C", "B", i, over=r)
    assert [b.name for b in traverse.written_buffers(s.function.body)] == ["C"]


def test_a_prefetch_is_no_dependence() -> None:
    """Iterations of a loop may be threads though they ask for lines that others write."""
    program = matmul(8, 6, 32)
    s = create_schedule(program)
    i, j, r = s.loops("C")
    s.reorder(i, r, j)
    s.prefetch("C", "C", i, over=r)
    s.parallel(i)
    s.vectorize(j)
    check(program, s)


def test_prefetch_of_a_part_of_unknown_size_is_refused() -> None:
    n = te.var("n")
    s = create_schedule(matmul(n, 6, n))
    i, _, r = s.loops("C")
    s.reorder(i, r, s.loops("C")[1])
    with pytest.raises(ExtentError, match="how much of B an iteration touches is not a constant"):
        s.prefetch("C", "B", i, over=r)
    s = create_schedule(matmul(8, n, 8))
    i, _, r = s.loops("C")
    with pytest.raises(ExtentError, match="the extent of r is not a constant"):
        s.prefetch("C", "C", i, over=r)


def test_prefetch_over_a_loop_elsewhere_is_refused() -> None:
    s = create_schedule(elementwise(8))
    with pytest.raises(NestingError, match="i is not a loop inside i"):
        s.prefetch("B", "A", s.loops("B")[0], over=s.loops("C")[0])


def test_prefetch_for_a_block_of_blocks() -> None:
    program = matmul(3, 6, 8)
    s = create_schedule(program)
    i, j, _ = s.loops("C")
    s.prefetch(s.blockize(j), "A", i)
    assert "(&A[i + 1, 0])" in str(s)
    check(program, s)


def test_prefetch_refuses() -> None:
    where = te.placeholder((8,), "int64", name="where")
    a = te.placeholder((8,), name="A")
    program = te.compute((8,), lambda i: a[te.clip(where[i], 0, 7)], name="C")
    s = create_schedule(program)
    (i,) = s.loops("C")
    with pytest.raises(AccessError, match="where C reads A is itself read from memory"):
        s.prefetch("C", "A", i)
    s.prefetch("C", "where", i)
    check(program, s)
    s = create_schedule(elementwise(8))
    with pytest.raises(NestingError, match="i is not a loop around C"):
        s.prefetch("C", "B", s.loops("B")[0])
    s.compute_at("B", s.loops("C")[0])
    with pytest.raises(AccessError, match="B exists in one iteration of i only"):
        s.prefetch("C", "B", s.loops("C")[0])
