from __future__ import annotations

from typing import get_args

import pytest

from lpx import te
from lpx.ir.parser import parse_function
from lpx.schedule import Schedule, create_schedule
from lpx.schedule.errors import (
    CoverageError,
    DeadHandleError,
    DependenceError,
    ExtentError,
    LoopKindError,
    NestingError,
    OptionError,
)
from lpx.schedule.loops import Tail
from lpx.schedule.testing import check_equivalent
from tests.schedule.support import confirm, elementwise, matmul
from tests.support import Golden


def _matmul() -> te.Tensor:
    return matmul(te.var("m"), te.var("k"), te.var("n"))


SIZES = {"m": 5, "k": 7, "n": 11}


@pytest.mark.parametrize("tail", get_args(Tail))
def test_split_factor(golden: Golden, tail: Tail) -> None:
    def apply(s: Schedule) -> None:
        i, j, r = s.loops("C")
        s.split(i, 2, tail=tail)
        s.split(j, (2, 4), tail=tail)
        s.split(r, 3, tail=tail)

    confirm(golden, f"split_{tail}", _matmul(), apply, SIZES)


@pytest.mark.parametrize("tail", ["guard", "peel"])
def test_split_nparts(golden: Golden, tail: Tail) -> None:
    confirm(
        golden,
        f"split_nparts_{tail}",
        elementwise(te.var("n")),
        lambda s: s.split(s.loops("C")[0], nparts=4, tail=tail),
    )


@pytest.mark.parametrize("extent", [1, 3, 7, 8, 9, 130])
@pytest.mark.parametrize("factor", [1, 4, 7, 8, 16])
@pytest.mark.parametrize("tail", ["guard", "peel"])
def test_split_covers_every_length(extent: int, factor: int, tail: Tail) -> None:
    program = elementwise(extent)
    s = create_schedule(program)
    s.split(s.loops("B")[0], factor, tail=tail)
    s.split(s.loops("C")[0], nparts=factor, tail=tail)
    check_equivalent(te.lower(program), s.function)


def test_split_exactly_needs_no_guard() -> None:
    s = create_schedule(elementwise(32))
    s.split(s.loops("C")[0], 8)
    assert "where" not in str(s)


def test_split_of_a_symbolic_multiple_needs_no_guard() -> None:
    s = create_schedule(elementwise(te.var("n") * 8))
    s.split(s.loops("C")[0], 8)
    assert "where" not in str(s)


@pytest.mark.parametrize("k", [1, 2, 3, 8])
def test_peeled_reduction_starts_once(k: int) -> None:
    program = _matmul()
    s = create_schedule(program)
    s.split(s.loops("C")[2], 3, tail="peel")
    check_equivalent(te.lower(program), s.function, {**SIZES, "k": k})


def test_peeled_tail_of_a_started_reduction_has_no_init() -> None:
    s = create_schedule(matmul(4, 7, 4))
    s.split(s.loops("C")[2], 3, tail="peel")
    assert str(s).count("init {") == 1


def test_loops_that_do_not_start_at_zero(golden: Golden) -> None:
    program = parse_function(
        "func f(A: in float32[16], B: inout float32[16]) {\n"
        "  for i in 3..+8 {\n"
        "    block B(vi: spatial 16 = i) {\n"
        "      B[vi] = A[vi] * 2.0f32\n"
        "    }\n"
        "  }\n"
        "}"
    )

    def apply(s: Schedule) -> None:
        (i,) = s.loops("B")
        o, _ = s.split(i, 3)
        s.parallel(o)

    s = confirm(golden, "split_start", program, apply)
    (_, inner) = s.loops("B")
    s.unroll(inner)
    check_equivalent(program, s.function)


def test_split_refuses() -> None:
    s = create_schedule(_matmul())
    i, j, r = s.loops("C")
    with pytest.raises(OptionError, match="split: give either factor or nparts"):
        s.split(i)
    with pytest.raises(OptionError, match="factor=0 is not a positive integer"):
        s.split(i, 0)
    with pytest.raises(OptionError, match="tail='cut' is unknown"):
        s.split(i, 2, tail="cut")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    s.parallel(i)
    with pytest.raises(LoopKindError, match="split: loop i is parallel"):
        s.split(i, 2)
    s.split(j, 4)
    with pytest.raises(DeadHandleError, match=r"loop j was split into j_o, j_i at .*test_loops.py:\d+"):
        s.split(j, 4)
    assert s.loops("C")[-1] is r


def test_fuse(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        i, j, _ = s.loops("C")
        f = s.fuse(i, j)
        o, _ = s.split(f, 8)
        s.parallel(o)

    confirm(golden, "fuse", _matmul(), apply, SIZES)


def test_fuse_three_with_starts() -> None:
    program = matmul(te.var("m"), 7, te.var("n"))
    s = create_schedule(program)
    i, j, r = s.loops("C")
    _, first = s.partition(i, 2)
    s.fuse(first, *s.loops("C_rest")[1:])
    s.fuse(j, r)
    check_equivalent(te.lower(program), s.function, SIZES)


def test_fuse_keeps_the_start_of_a_sum_that_may_be_empty() -> None:
    s = create_schedule(_matmul())
    i, j, r = s.loops("C")
    with pytest.raises(CoverageError, match="the reduction of C over vr may be empty, and would not even start"):
        s.fuse(j, r)
    s.fuse(i, j)


def test_fuse_refuses() -> None:
    s = create_schedule(_matmul())
    i, _, r = s.loops("C")
    with pytest.raises(NestingError, match="fuse: loop r is not directly inside loop i: it holds a loop j") as caught:
        s.fuse(i, r)
    assert "for i in 0..m {\n  ^^^^" in str(caught.value)
    with pytest.raises(OptionError, match="two loops or more"):
        s.fuse(i)
    triangle = parse_function(
        "func f(B: out float32[4, 4]) {\n  for i in 0..4 {\n    for j in 0..i {\n"
        "      block B(vi: spatial 4 = i, vj: spatial 4 = j) {\n        B[vi, vj] = 1.0f32\n      }\n    }\n  }\n}"
    )
    s = create_schedule(triangle)
    with pytest.raises(ExtentError, match="the bounds of loop j depend on loop i"):
        s.fuse(*s.loops("B"))
    with pytest.raises(ExtentError, match="the bounds of loop j depend on loop i"):
        s.reorder(*reversed(s.loops("B")))


def test_tile(golden: Golden) -> None:
    confirm(golden, "tile", _matmul(), lambda s: s.tile(s.loops("C")[0], s.loops("C")[1], 2, 4), SIZES)


def test_tile_refuses() -> None:
    s = create_schedule(_matmul())
    i, j, _ = s.loops("C")
    with pytest.raises(OptionError, match="tile cannot peel"):
        s.tile(i, j, 2, 4, tail="peel")
    with pytest.raises(OptionError, match="factor=0"):
        s.tile(i, j, 2, 0)
    assert len(s.trace) == 1, "a refused primitive leaves no instruction"


def test_reorder(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        i, j, r = s.loops("C")
        io, ii = s.split(i, 2)
        s.reorder(r, io, j, ii)

    confirm(golden, "reorder", _matmul(), apply, SIZES)


def test_reorder_of_reduce_loops_adds_the_same_terms() -> None:
    program = _matmul()
    s = create_schedule(program)
    ro, ri = s.split(s.loops("C")[2], 3)
    s.reorder(ri, ro)
    check_equivalent(te.lower(program), s.function, SIZES, relative=1e-6)


PREFIX = (
    "func f(A: in float32[8], S: inout float32[9, 4]) {\n  for t in 0..8 {\n    for i in 0..4 {\n"
    "      block S(vt: sequential 8 = t, vi: spatial 4 = i) {\n"
    "        S[vt + 1, vi] = S[vt, %s] + A[vt]\n      }\n    }\n  }\n}"
)


def test_reorder_past_a_sequential_loop_where_columns_are_independent() -> None:
    program = parse_function(PREFIX % "vi")
    s = create_schedule(program)
    t, i = s.loops("S")
    s.reorder(i, t)
    s.parallel(i)
    check_equivalent(program, s.function)


def test_reorder_refuses_to_break_a_recurrence() -> None:
    s = create_schedule(parse_function(PREFIX % "3 - vi"))
    t, i = s.loops("S")
    with pytest.raises(DependenceError, match="reorder: iterations of loops t, i touch the same elements of S"):
        s.reorder(i, t)
    with pytest.raises(DependenceError, match="sequential loop of block S"):
        s.parallel(t)


def test_reorder_refuses_what_is_not_a_chain() -> None:
    s = create_schedule(elementwise(8))
    with pytest.raises(NestingError, match="loops i and i are not inside each other"):
        s.reorder(*s.loops("B"), *s.loops("C"))


def test_add_unit_loop(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        s.add_unit_loop(s.loops("C")[2])
        s.add_unit_loop("C")

    confirm(golden, "add_unit_loop", _matmul(), apply, SIZES)


def test_add_unit_loop_refuses_an_unknown_block() -> None:
    s = create_schedule(_matmul())
    with pytest.raises(Exception, match="no block is named Q"):
        s.add_unit_loop("Q")


def test_partition(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        i, _, r = s.loops("C")
        s.partition(i, 2)
        s.partition(r, s.symbol("k") // 2)

    confirm(golden, "partition", _matmul(), apply, SIZES)


@pytest.mark.parametrize("at", [-1, 0, 5, 6, 100])
def test_partition_clamps(at: int) -> None:
    program = _matmul()
    s = create_schedule(program)
    s.partition(s.loops("C")[0], at)
    check_equivalent(te.lower(program), s.function, SIZES)


def test_partition_refuses() -> None:
    s = create_schedule(_matmul())
    i, j, _ = s.loops("C")
    with pytest.raises(OptionError, match="not an index expression over symbolic extents"):
        s.partition(j, i.var + 1)
