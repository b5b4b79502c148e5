"""Where loops are cut."""

from __future__ import annotations

from lpx.ir.printer import print_function
from lpx.passes.partition_loops import PartitionLoops
from lpx.passes.simplify import Simplify
from tests.passes.support import assert_pass_keeps, parse

_SIZES = ({"n": 0}, {"n": 1}, {"n": 5}, {"n": 8}, {"n": 11})


def _partitioned(body: str, *, limit: int = 1000, extents: tuple[dict[str, int], ...] = _SIZES) -> str:
    function = parse(f"func f(A: in float32[n], B: inout float32[n]) symbols(n) {{ {body} }}")
    return print_function(assert_pass_keeps(function, PartitionLoops(limit), Simplify(), extents=extents))


def test_a_guard_on_the_loop_itself_shortens_it() -> None:
    text = _partitioned("for i in 0..n + 7 { if i < n { B[i] = A[i] } }")
    assert "for i in 0..n {\n    B[i] = A[i]" in text
    assert "if" not in text


def test_guards_from_both_ends_leave_a_free_middle() -> None:
    text = _partitioned("for i in 0..n { if (3 <= i) & (i < n - 2) { B[i] = A[i - 3] + A[i + 2] } }")
    assert "if" not in text


def test_falling_guards_cut_from_above() -> None:
    text = _partitioned("for i in 0..n { if 0 <= n - 1 - i - 2 { B[i] = A[i + 2] } }")
    assert "if" not in text


def test_the_other_branch_runs_where_the_guard_fails() -> None:
    text = _partitioned("for i in 0..n { if i < 4 { B[i] = A[i] } else { B[i] = A[i] * 2.0f32 } }")
    assert "if" not in text
    assert text.count("for i") == 2


def test_selects_are_cut_in_main_parts_only() -> None:
    text = _partitioned(
        "for i in 0..n { for j in 0..3 { B[i] = B[i] + select((1 <= i + j) & (i + j <= n), A[i + j - 1], 0.0f32) } }"
    )
    assert text.count("select") == 2


def test_a_parallel_loop_stays_one_loop() -> None:
    text = _partitioned(
        "for o in 0..(n + 3) // 4 parallel { for i in 0..4 { if o * 4 + i < n { B[o * 4 + i] = 1.0f32 } } }"
    )
    assert text.count("parallel") == 1
    assert "if o < n // 4 {" in text


def test_a_guard_on_data_is_left_alone() -> None:
    body = "for i in 0..n { if A[i] < 0.0f32 { B[i] = 1.0f32 } }"
    assert "for i in 0..n {\n    if A[i] < 0.0f32" in _partitioned(body)


def test_copying_stops_at_the_limit() -> None:
    body = "for o in 0..(n + 3) // 4 { for i in 0..4 { if o * 4 + i < n { B[o * 4 + i] = 1.0f32 } } }"
    assert _partitioned(body).count("for o") == 2
    assert _partitioned(body, limit=1).count("for o") == 1


def test_lanes_and_copies_that_are_off_for_certain_are_dropped() -> None:
    text = _partitioned("for i in 0..16 vectorize { if i < 5 { if i < n { B[i] = 2.0f32 } } }")
    assert "for i in 0..8 vectorize" in text
    text = _partitioned("for i in 0..16 unroll { if i < 5 { if i < n { B[i] = 2.0f32 } } }")
    assert "for i in 0..5 unroll" in text
