from __future__ import annotations

from typing import get_args

import pytest

from lpx import te
from lpx.ir.parser import parse_function
from lpx.schedule import Schedule, create_schedule
from lpx.schedule.errors import DependenceError, ExtentError, LoopKindError, NestingError, OptionError
from lpx.schedule.loops import Tail
from lpx.schedule.testing import check_equivalent
from tests.schedule.support import blur, confirm, elementwise, matmul
from tests.support import Golden

MATMUL = matmul(6, 7, 16)


def test_vectorize(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        _, j, r = s.loops("C")
        _, lanes = s.split(j, 8)
        s.reorder(r, lanes)
        s.vectorize(lanes)

    confirm(golden, "vectorize", MATMUL, apply)


@pytest.mark.parametrize("length", [1, 3, 7, 13])
@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("tail", get_args(Tail))
def test_vectors_wider_than_the_extent(length: int, lanes: int, tail: Tail) -> None:
    program = elementwise(length)
    s = create_schedule(program)
    s.vectorize(s.split(s.loops("C")[0], lanes, tail=tail)[1])
    check_equivalent(create_schedule(program).function, s.function)


def test_vectorize_refuses() -> None:
    s = create_schedule(MATMUL)
    i, j, r = s.loops("C")
    with pytest.raises(
        DependenceError, match="iterations of loop r cannot be lanes: it is a reduction loop of block C"
    ):
        s.vectorize(r)
    s.vectorize(j)
    with pytest.raises(LoopKindError, match="loop j inside loop i is vectorized"):
        s.vectorize(i)
    with pytest.raises(LoopKindError, match="loop j is already vectorized"):
        s.vectorize(j)
    with pytest.raises(LoopKindError, match="loop r is inside loop j, which is vectorized"):
        s.parallel(r)
    symbolic = create_schedule(elementwise(te.var("n")))
    with pytest.raises(ExtentError, match="loop i has a symbolic extent") as caught:
        symbolic.vectorize(symbolic.loops("C")[0])
    assert "split it by a constant factor first" in str(caught.value)


def test_vectorize_refuses_lanes_of_different_trip_count() -> None:
    s = create_schedule(
        parse_function(
            "func f(B: out float32[4, 4]) {\n  for i in 0..4 {\n    for j in 0..i + 1 {\n"
            "      block B(vi: spatial 4 = i, vj: spatial 4 = j) {\n        B[vi, vj] = 1.0f32\n      }\n    }\n  }\n}"
        )
    )
    with pytest.raises(NestingError, match="lanes of loop i would run different iterations"):
        s.vectorize(s.loops("B")[0])


def test_unroll(golden: Golden) -> None:
    confirm(golden, "unroll", MATMUL, lambda s: [s.unroll(loop) for loop in s.loops("C")[1:]])


def test_unroll_refuses() -> None:
    s = create_schedule(MATMUL)
    i, _, _ = s.loops("C")
    s.parallel(i)
    with pytest.raises(LoopKindError, match="unroll: loop i is already parallel"):
        s.unroll(i)


def test_parallel(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        f = s.fuse(*s.loops("C")[:2])
        s.parallel(f)

    confirm(golden, "parallel", MATMUL, apply)


def test_parallel_with_a_private_temporary(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        o, _ = s.split(s.loops("S")[0], 4)
        s.compute_at("P", o)
        s.parallel(o)

    confirm(golden, "parallel_private", blur(13), apply)


COUNTER = (
    "func f(A: inout int32[8], N: inout int32[1]) {\n  for i in 0..8 {\n"
    "    block count(vi: spatial 8 = i) {\n      N[0] = N[0] + 1i32\n      A[vi] = A[vi] + N[0]\n    }\n  }\n}"
)


def test_a_carried_scalar_is_not_parallel() -> None:
    """What the block says of its axis does not help: the accesses are looked at."""
    s = create_schedule(parse_function(COUNTER))
    (i,) = s.loops("count")
    for kind in (s.parallel, s.vectorize):
        with pytest.raises(DependenceError, match="several touch the same element of N"):
            kind(i)
    with pytest.raises(DependenceError, match="several touch the same element of N"):
        s.bind(i, "threadIdx.x")
    with pytest.raises(DependenceError):
        s.reorder(*reversed(s.split(i, 4)))


def test_dependent_statements_of_one_loop_are_not_parallel() -> None:
    s = create_schedule(
        parse_function(
            "func f(A: in float32[8], B: out float32[9], C: out float32[8]) {\n  for i in 0..8 {\n"
            "    block B(vi: spatial 9 = i) {\n      B[vi] = A[vi]\n    }\n"
            "    block C(vi: spatial 8 = i) {\n      C[vi] = B[max(vi - 1, 0)]\n    }\n  }\n}"
        )
    )
    with pytest.raises(DependenceError, match=r"several touch the same element of B \(blocks B and C\)"):
        s.parallel(s.loops("B")[0])


def test_bind(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        i, j, _ = s.loops("C")
        s.bind(i, "blockIdx.x")
        s.bind(j, "threadIdx.x")

    confirm(golden, "bind", MATMUL, apply)


def test_bind_refuses() -> None:
    s = create_schedule(MATMUL)
    i, j, r = s.loops("C")
    s.bind(i, "threadIdx.x")
    with pytest.raises(LoopKindError, match=r"loop i is bound to threadIdx.x already"):
        s.bind(j, "threadIdx.x")
    with pytest.raises(OptionError, match="thread axis 'thread' is unknown"):
        s.bind(j, "thread")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with pytest.raises(DependenceError, match="it is a reduction loop"):
        s.bind(r, "threadIdx.y")


def test_reorder_keeps_what_kinds_need() -> None:
    """A loop may be parallel inside a sequential one, and not outside of it."""
    s = create_schedule(
        parse_function(
            "func f(S: inout float32[9, 4]) {\n  for t in 0..8 {\n    for i in 0..4 {\n"
            "      block S(vt: sequential 8 = t, vi: spatial 4 = i) {\n"
            "        S[vt + 1, vi] = S[vt, vi] + S[vt, 3 - vi]\n      }\n    }\n  }\n}"
        )
    )
    t, i = s.loops("S")
    s.parallel(i)
    with pytest.raises(DependenceError):
        s.reorder(i, t)


def test_pragma(golden: Golden) -> None:
    confirm(golden, "pragma", MATMUL, lambda s: s.pragma(s.loops("C")[0], "unroll_limit", 4))


def test_pragma_refuses_what_is_not_a_loop() -> None:
    s = create_schedule(MATMUL)
    with pytest.raises(OptionError, match="'C' is not a loop"):
        s.pragma("C", "note")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_parallel_over_three_fused_loops() -> None:
    a = te.placeholder((2, 12, 16), name="A")
    s = create_schedule(te.compute((2, 12, 16), lambda i, j, k: a[i, j, k] + 1.0, name="B"))
    s.parallel(s.fuse(*s.loops("B")))
    assert "parallel" in str(s)
