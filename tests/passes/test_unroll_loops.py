"""Which loops are copied out."""

from __future__ import annotations

from lpx.ir.printer import print_function
from lpx.passes.unroll_loops import UnrollLoops
from tests.passes.support import assert_pass_keeps, parse


def _unrolled(body: str, limit: int = 1024) -> str:
    function = parse(f"func f(A: in int64[8], B: inout int64[8]) {{ {body} }}")
    return print_function(assert_pass_keeps(function, UnrollLoops(limit)))


def test_indices_and_guards_are_folded() -> None:
    text = _unrolled("for i in 2..+4 unroll { if i * 2 + 1 < 8 { B[i * 2 + 1] = A[i] + i } }")
    assert "B[5] = A[2] + 2\n  B[7] = A[3] + 3\n}" in text


def test_a_pragma_asks_for_it_too() -> None:
    assert "for" not in _unrolled("for i in 0..2 pragma(unroll=true) { B[i] = A[i] }")


def test_copies_bind_variables_and_buffers_of_their_own() -> None:
    text = _unrolled(
        "for i in 0..2 unroll { alloc T: int64[4] for j in 0..4 { T[j] = A[i + j] } let x: int64 = T[i] B[i] = x }"
    )
    assert "alloc T: int64[4]" in text
    assert "alloc T_1: int64[4]" in text


def test_beyond_the_limit_a_loop_stays_a_loop() -> None:
    assert "for i in 0..8 {" in _unrolled("for i in 0..8 unroll { B[i] = A[i] }", limit=7)


def test_selections_that_an_iteration_decides_are_gone() -> None:
    text = _unrolled(
        "for i in 0..2 unroll { B[ramp(i * 4, 1, 4)] = "
        "select(broadcast(i, 4) == broadcast(0, 4), A[ramp(0, 1, 4)], A[ramp(4, 1, 4)]) }"
    )
    assert "select" not in text
    assert "B[ramp(4, 1, 4)] = A[ramp(4, 1, 4)]" in text
