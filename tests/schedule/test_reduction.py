from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lpx import te
from lpx.expr.nodes import Expr
from lpx.ir.parser import parse_function
from lpx.schedule import Schedule, create_schedule
from lpx.schedule.errors import (
    BlockFormError,
    CoverageError,
    DependenceError,
    ExtentError,
    LoopKindError,
    NestingError,
    OptionError,
)
from tests.schedule.compiled import check, confirm_compiled, run_compiled
from tests.schedule.support import Extent, bias_relu, confirm, matmul, softmax
from tests.support import Golden


def total(n: Extent, dtype: str = "float32") -> te.Tensor:
    a = te.placeholder((n,), dtype, name="A")
    r = te.reduce_axis(n, name="r")
    return te.compute((1,), lambda _: te.sum(a[r], axis=r), name="S")


def argmax(m: int, n: Extent, dtype: str = "float32") -> tuple[te.Tensor, te.Tensor]:
    a = te.placeholder((m, n), dtype, name="A")
    r = te.reduce_axis(n, name="r")
    where, largest = te.compute((m,), lambda i: te.argmax(a[i, r], axis=r), name=("where", "largest"))
    return where, largest


def started_moments(n: Extent) -> tuple[te.Tensor, te.Tensor]:
    """A sum and a sum of squares, from 5 and 7 on."""
    a = te.placeholder((n,), "int32", name="A")
    r = te.reduce_axis(n, name="r")
    moments = te.reducer(lambda p, q: (p[0] + q[0], p[1] + q[1]), (0, 0), name="moments")
    s, q = te.compute((1,), lambda _: moments((a[r], a[r] * a[r]), axis=r, init=(5, 7)), name=("s", "q"))
    return s, q


def test_decompose_reduction(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        i, j, r = s.loops("C")
        jo, ji = s.split(j, 4)
        s.reorder(i, jo, r, ji)
        s.vectorize(ji)
        s.decompose_reduction("C", r)

    confirm_compiled(golden, "decompose_reduction", matmul(3, 5, te.var("n")), apply, {"n": 10})


@pytest.mark.parametrize("position", [0, 1, 2])
def test_decompose_reduction_at_every_loop(position: int) -> None:
    program = matmul(4, 3, 6)
    s = create_schedule(program)
    s.decompose_reduction("C", s.loops("C")[position])
    check(program, s)


def test_decompose_a_reduction_of_pairs() -> None:
    program = argmax(3, 7)
    s = create_schedule(program)
    s.decompose_reduction("where", s.loops("where")[1])
    check(program, s)


def test_decompose_reduction_keeps_tails() -> None:
    program = total(te.var("n"), "int32")
    s = create_schedule(program)
    ro, _ = s.split(s.loops("S")[1], 4)
    s.decompose_reduction("S", ro)
    for n in (1, 4, 5):
        check(program, s, {"n": n})


def test_decompose_reduction_below_a_loop_of_one_iteration() -> None:
    """The first part of a sum starts its accumulators itself; the parts after it go on."""
    program = total(10, "int32")
    s = create_schedule(program)
    ro, ri = s.split(s.loops("S")[1], 4)
    s.partition(ro, 1)
    s.decompose_reduction("S", ri)
    check(program, s)


def test_decompose_reduction_inside_of_a_part(golden: Golden) -> None:
    """The start runs in the first part of the sum only."""

    def apply(s: Schedule) -> None:
        i, j, r = s.loops("C")
        r_o, r_i = s.split(r, 4)
        s.reorder(r_o, i, r_i, j)
        s.decompose_reduction("C", r_i)
        s.vectorize(j)

    confirm_compiled(golden, "decompose_reduction_inside", matmul(3, 10, 8), apply)


def test_decompose_reduction_inside_refuses_what_may_not_run() -> None:
    """Without a first part nothing would start the sum."""
    n = te.var("n")
    s = create_schedule(matmul(4, n, 8))
    i, j, r = s.loops("C")
    r_o, r_i = s.split(r, 4)
    s.reorder(r_o, i, j, r_i)
    with pytest.raises(
        DependenceError, match=r"(?s)runs over r_o as well, which is further out.*take r_o or a loop around it"
    ):
        s.decompose_reduction("C", r_i)
    s.decompose_reduction("C", r_o)
    result = np.full((4, 8), np.nan, np.float32)
    run_compiled(s.function, [np.empty((4, 0), np.float32), np.empty((0, 8), np.float32), result], {"n": 0})
    np.testing.assert_array_equal(result, np.zeros((4, 8), np.float32))


def test_decompose_reduction_inside_refuses_parts_in_any_order() -> None:
    s = create_schedule(matmul(4, 8, 8))
    i, j, r = s.loops("C")
    r_o, r_i = s.split(r, 4)
    s.reorder(r_o, i, j, r_i)
    s.unroll(r_o)
    with pytest.raises(DependenceError, match="runs over r_o as well"):
        s.decompose_reduction("C", r_i)


def test_decompose_reduction_refuses() -> None:
    s = create_schedule(bias_relu(4, 3, 8))
    with pytest.raises(BlockFormError, match=r"(?s)D has no init.*it may be decomposed already"):
        s.decompose_reduction("D", s.loops("D")[0])
    with pytest.raises(NestingError, match="i is not a loop around C"):
        s.decompose_reduction("C", s.loops("D")[0])
    s = create_schedule(bias_relu(4, 3, 8))
    s.reverse_compute_at("D", s.loops("C")[0])
    with pytest.raises(DependenceError, match=r"(?s)D in the same loop touches C.*a loop that holds the block alone"):
        s.decompose_reduction("C", s.loops("C")[0])


def test_decompose_reduction_refuses_to_leave_an_allocation() -> None:
    s = create_schedule(bias_relu(4, 3, 8))
    i = s.loops("D")[0]
    s.compute_at("C", i)
    with pytest.raises(DependenceError, match="C exists only inside i"):
        s.decompose_reduction("C", i)
    s.decompose_reduction("C", s.loops("C")[1])
    check(bias_relu(4, 3, 8), s)


def test_rfactor(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        _, ri = s.split(s.loops("C")[2], 4)
        s.rfactor("C", ri)

    confirm_compiled(golden, "rfactor", matmul(3, te.var("k"), 5), apply, {"k": 10}, relative=1e-6)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("factor", [7, 16])
@pytest.mark.parametrize("n", [128, 130, 5])
@pytest.mark.parametrize("part", [0, 1])
def test_rfactor_either_part_of_a_split_with_a_tail(n: int, factor: int, part: int, dtype: str) -> None:
    program = total(n, dtype)
    s = create_schedule(program)
    s.rfactor("S", s.split(s.loops("S")[1], factor)[part])
    check(program, s, relative=1e-5 if dtype == "float32" else 0.0)


@pytest.mark.parametrize("reducer", [te.sum, te.prod, te.min, te.max])
@pytest.mark.parametrize("dtype", ["int8", "uint32", "float32"])
def test_rfactor_of_every_operation(reducer: te.Reducer, dtype: str) -> None:
    a = te.placeholder((2, 10), dtype, name="A")
    r = te.reduce_axis(10, name="r")
    program = te.compute((2,), lambda i: reducer(a[i, r], axis=r), name="S")
    s = create_schedule(program)
    s.rfactor("S", s.split(s.loops("S")[1], 4)[1])
    check(program, s, relative=1e-5 if dtype == "float32" else 0.0)


def test_rfactor_of_conditions() -> None:
    a = te.placeholder((2, 10), "bool", name="A")
    r, q = te.reduce_axis(10, name="r"), te.reduce_axis(10, name="q")
    every = te.compute((2,), lambda i: te.all(a[i, r], axis=r), name="every")
    program = te.compute((2,), lambda i: te.any(a[i, q] & every[i], axis=q), name="some")
    s = create_schedule(program)
    for name in ("every", "some"):
        s.rfactor(name, s.split(s.loops(name)[1], 4)[1])
    check(program, s)


def test_rfactor_keeps_negative_zero() -> None:
    a = te.placeholder((8,), name="A")
    r = te.reduce_axis(8, name="r")
    s = create_schedule(te.compute((1,), lambda _: te.sum(a[r], axis=r, init=-0.0), name="S"))
    s.rfactor("S", s.split(s.loops("S")[1], 3)[1])
    out = np.ones(1, np.float32)
    run_compiled(s.function, [np.full(8, -0.0, np.float32), out])
    assert np.signbit(out[0])


def test_rfactor_inside_a_loop_shared_with_a_consumer() -> None:
    program = softmax(te.var("m"), 12)
    s = create_schedule(program)
    i, _ = s.loops("O")
    for name in ("Z", "E", "M"):
        s.compute_at(name, i)
    for name in ("M", "Z"):
        s.rfactor(name, s.split(s.loops(name)[-1], 4)[1])
    s.parallel(i)
    check(program, s, {"m": 3}, relative=1e-6)


def test_rfactor_of_a_pair(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        _, r = s.loops("where")
        s.rfactor("where", s.split(r, 4)[1])

    confirm_compiled(golden, "rfactor_pair", argmax(3, 10), apply)


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
@pytest.mark.parametrize(("n", "factor", "part"), [(128, 16, 0), (130, 16, 1), (130, 7, 0), (130, 7, 1), (8, 8, 1)])
def test_rfactor_of_pairs_with_tails(n: int, factor: int, part: int, dtype: str) -> None:
    program = argmax(2, n, dtype)
    s = create_schedule(program)
    s.rfactor("where", s.split(s.loops("where")[1], factor)[part])
    check(program, s)


def test_rfactor_of_a_pair_keeps_the_start() -> None:
    """A start of the user's counts once, not once per part."""
    program = started_moments(12)
    s = create_schedule(program)
    s.rfactor("s", s.split(s.loops("s")[1], 4)[1])
    check(program, s)


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int64"])
@pytest.mark.parametrize("position", ["int32", "int64"])
@pytest.mark.parametrize("extreme", [te.argmax, te.argmin])
def test_rfactor_of_extremes_where_parts_may_have_no_run(
    extreme: Callable[..., tuple[Expr, Expr]], position: str, dtype: str
) -> None:
    """What the reduction starts from is seen to change nothing, so that every part may start from it."""
    n = te.var("n")
    a = te.placeholder((2, n), dtype, name="A")
    r = te.reduce_axis(n, name="r")
    program = te.compute((2,), lambda i: extreme(a[i, r], axis=r, dtype=position), name=("where", "found"))
    s = create_schedule(program)
    s.rfactor("where", s.split(s.loops("where")[1], 4)[1])
    for extent in (1, 3, 9):
        check(program, s, {"n": extent})


def test_rfactor_refuses() -> None:
    s = create_schedule(matmul(4, te.var("k"), 8))
    i, _, r = s.loops("C")
    with pytest.raises(ExtentError, match=r"(?s)r does not run over a constant range from 0.*split it first"):
        s.rfactor("C", r)
    with pytest.raises(OptionError, match="i is not a loop of the reduction of C alone"):
        s.rfactor("C", i)
    s = create_schedule(started_moments(te.var("n")))
    with pytest.raises(CoverageError, match=r"(?s)some of the 4 parts of s may get no value.*factor a loop"):
        s.rfactor("s", s.split(s.loops("s")[1], 4)[1])
    s = create_schedule(softmax(3, 8))
    with pytest.raises(BlockFormError, match="E is not a reduction of one value"):
        s.rfactor("E", s.loops("E")[1])


def test_rfactor_refuses_values_made_of_what_was_accumulated() -> None:
    logistic = parse_function("""
        func logistic(A: in float32[8], S: out float32[1]) {
          for r in 0..8 {
            block S(vr: reduce 8 = r) {
              init { S[0] = 0.0f32 }
              S[0] = S[0] + A[vr] * S[0]
            }
          }
        }
    """)
    s = create_schedule(logistic)
    with pytest.raises(BlockFormError, match="S reads S in the value it adds"):
        s.rfactor("S", s.loops("S")[0])


def test_cross_lane_reduce(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        combine = s.rfactor("C", s.split(s.loops("C")[2], 8)[1])
        s.cross_lane_reduce(combine, s.loops(combine)[-1])

    confirm_compiled(golden, "cross_lane_reduce", matmul(3, 20, 5), apply, relative=1e-6)


def test_cross_lane_reduce_of_a_pair(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        combine = s.rfactor("where", s.split(s.loops("where")[1], 4)[1])
        s.cross_lane_reduce(combine, s.loops(combine)[-1])

    confirm_compiled(golden, "cross_lane_reduce_pair", argmax(3, 10), apply)


@pytest.mark.parametrize("lanes", [1, 2, 7, 16])
@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
def test_cross_lane_reduce_of_pairs(lanes: int, dtype: str) -> None:
    program = argmax(3, lanes, dtype)
    s = create_schedule(program)
    s.cross_lane_reduce("where", s.loops("where")[1])
    check(program, s)


def test_cross_lane_reduce_of_pairs_keeps_the_first_of_equals_and_of_nans() -> None:
    rows = np.zeros((4, 16), np.float32)
    rows[1, [9, 4, 12]] = 3.0
    rows[2, [13, 6]] = np.nan
    rows[2, 2] = np.inf
    rows[3] = -np.inf
    s = create_schedule(argmax(4, 16))
    combine = s.rfactor("where", s.split(s.loops("where")[1], 4)[1])
    s.cross_lane_reduce(combine, s.loops(combine)[-1])
    where, found = np.empty(4, np.int64), np.empty(4, np.float32)
    run_compiled(s.function, [rows, where, found])
    np.testing.assert_array_equal(where, rows.argmax(axis=1))
    np.testing.assert_array_equal(found, rows.max(axis=1))


def test_cross_lane_reduce_of_a_pair_goes_on() -> None:
    """Where another reduce loop is left, the lanes are combined with what it accumulated."""
    a = te.placeholder((2, 3, 4), name="A")
    r, q = te.reduce_axis(3, name="r"), te.reduce_axis(4, name="q")
    program = te.compute((2,), lambda i: te.argmax(a[i, r, q], axis=(r, q)), name=("where", "largest"))
    s = create_schedule(program)
    s.cross_lane_reduce("where", s.loops("where")[2])
    check(program, s)


@pytest.mark.parametrize("lanes", [3, 8, 16])
def test_cross_lane_reduce_of_a_condition(lanes: int) -> None:
    """Values that some lanes must not read are not read."""
    a = te.placeholder((4, 12), name="A")
    r = te.reduce_axis(lanes, name="r")
    program = te.compute(
        (4,), lambda i: te.sum(te.where(r + i * 3 < 12, a[i, te.minimum(r + i * 3, 11)], 0.0), axis=r), name="S"
    )
    s = create_schedule(program)
    s.cross_lane_reduce("S", s.loops("S")[1])
    check(program, s, relative=1e-6)


@pytest.mark.parametrize("reducer", [te.min, te.max, te.prod])
def test_cross_lane_reduce_of_integers(reducer: te.Reducer) -> None:
    a = te.placeholder((4, 8), "int32", name="A")
    r = te.reduce_axis(8, name="r")
    program = te.compute((4,), lambda i: reducer(a[i, r], axis=r), name="S")
    s = create_schedule(program)
    s.cross_lane_reduce("S", s.loops("S")[1])
    check(program, s)


def test_cross_lane_reduce_refuses() -> None:
    s = create_schedule(matmul(4, 16, 8))
    i, j, r = s.loops("C")
    with pytest.raises(NestingError, match="C does not stand directly in j"):
        s.cross_lane_reduce("C", j)
    s.reorder(r, i, j)
    with pytest.raises(NestingError, match="C does not stand directly in j"):
        s.cross_lane_reduce("C", j)
    s = create_schedule(matmul(4, te.var("k"), 8))
    with pytest.raises(ExtentError, match="the extent of r is not a constant"):
        s.cross_lane_reduce("C", s.loops("C")[2])
    _, ri = s.split(s.loops("C")[2], 4)
    with pytest.raises(NestingError, match="C does not stand directly in r_i"):
        s.cross_lane_reduce("C", ri)
    s = create_schedule(softmax(2, 8))
    with pytest.raises(BlockFormError, match="E is not a reduction of one value"):
        s.cross_lane_reduce("E", s.loops("E")[1])
    checked = parse_function("""
        func checked(A: in float32[8], S: out float32[1]) {
          for r in 0..8 {
            block S(vr: reduce 8 = r) {
              init {
                check A[0] < 1.0f32, "too large"
                S[0] = 0.0f32
              }
              S[0] = S[0] + A[vr]
            }
          }
        }
    """)
    s = create_schedule(checked)
    with pytest.raises(BlockFormError, match="S is not a reduction of one value"):
        s.cross_lane_reduce("S", s.loops("S")[0])


def test_cross_thread_reduce(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        i, r = s.loops("S")
        s.bind(i, "blockIdx.x")
        s.cross_thread_reduce("S", s.split(r, 8)[1])

    confirm(golden, "cross_thread_reduce", total(30), apply, relative=1e-6)


def test_cross_thread_reduce_refuses() -> None:
    s = create_schedule(total(32))
    i, r = s.loops("S")
    s.bind(i, "threadIdx.x")
    _, ri = s.split(r, 8)
    before = str(s)
    with pytest.raises(LoopKindError, match=r"loop _ is bound to threadIdx\.x already"):
        s.cross_thread_reduce("S", ri)
    with pytest.raises(OptionError, match="_ is not a loop of the reduction of S alone"):
        s.cross_thread_reduce("S", i)
    assert str(s) == before, "a refused primitive changes nothing"


def test_blockize(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        i, j, r = s.loops("C")
        jo, ji = s.split(j, 4)
        ro, ri = s.split(r, 2)
        s.reorder(i, jo, ro, ji, ri)
        assert s.blockize(ji).name == "C_o"
        s.parallel(i)

    confirm_compiled(golden, "blockize", matmul(3, 6, te.var("n")), apply, {"n": 10})


def test_blockize_holds_several_blocks_together() -> None:
    program = softmax(te.var("m"), 5)
    s = create_schedule(program)
    o, i = s.split(s.loops("O")[0], 2)
    for name in ("Z", "E", "M"):
        s.compute_at(name, i)
    whole = s.blockize(i)
    assert [b.name for b in s.blocks()] == [whole.name, "M", "E", "Z", "O"]
    s.parallel(o)
    check(program, s, {"m": 5})
    with pytest.raises(NestingError, match="block O_o holds other blocks"):
        s.compute_root("M")


def test_blockize_refuses() -> None:
    s = create_schedule(matmul(4, 6, 8))
    i, _, r = s.loops("C")
    s.vectorize(i)
    with pytest.raises(LoopKindError, match="loop i is vectorized"):
        s.blockize(r)
    diagonal = parse_function("""
        func diagonal(A: in float32[4, 4], S: out float32[4]) {
          for i in 0..4 {
            for j in 0..1 {
              block S(vi: spatial 4 = i, vr: reduce 4 = i) {
                S[vi] = A[vi, vr]
              }
            }
          }
        }
    """)
    s = create_schedule(diagonal)
    with pytest.raises(DependenceError, match=r"(?s)loop i is bound to spatial and to reduce axes.*a loop around it"):
        s.blockize(s.loops("S")[1])
