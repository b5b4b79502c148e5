"""Where temporaries end up, and how large."""

from __future__ import annotations

import pytest

from lpx.ir.printer import print_function
from lpx.passes.plan_allocations import PlanAllocations
from tests.passes.support import assert_pass_keeps, parse


def _planned(body: str, *, small: int = 16384, extents: tuple[dict[str, int], ...] = ({"n": 9}, {"n": 1})) -> str:
    function = parse(f"func f(A: in float32[n], B: inout float32[n]) symbols(n) {{ {body} }}")
    return print_function(assert_pass_keeps(function, PlanAllocations(small), extents=extents))


def test_a_temporary_of_one_iteration_shrinks_to_what_it_touches() -> None:
    text = _planned("alloc T: float32[n] for i in 0..n { T[i] = A[i] * 2.0f32 B[i] = T[i] + T[i] }")
    assert "for i in 0..n {\n    alloc T: float32[1]\n    T[0] = " in text


def test_what_an_earlier_iteration_wrote_is_kept() -> None:
    text = _planned("alloc T: float32[n + 1] T[0] = 0.0f32 for i in 0..n { T[i + 1] = A[i] + T[i] B[i] = T[i + 1] }")
    assert text.index("alloc T") < text.index("for i")


def test_reading_more_than_was_written_keeps_it_outside() -> None:
    text = _planned(
        """alloc T: float32[n + 2]
        for i in 0..n + 2 { T[i] = 1.0f32 }
        for o in 0..n { for i in 0..2 { T[o + i] = A[o] } B[o] = T[o] + T[o + 2] }"""
    )
    assert text.index("alloc T") < text.index("for o")


def test_a_conditional_write_does_not_count() -> None:
    text = _planned(
        """alloc T: float32[1]
        T[0] = 0.0f32
        for i in 0..n { if A[i] < 0.0f32 { T[0] = A[i] } B[i] = T[0] }"""
    )
    assert text.index("alloc T") < text.index("for i")


def test_a_write_under_the_same_condition_counts() -> None:
    text = _planned("alloc T: float32[n] for i in 0..n + 3 { if i < n { T[i] = A[i] B[i] = T[i] } }")
    assert "alloc T: float32[1]" in text


def test_tails_count_as_far_as_they_go() -> None:
    text = _planned(
        """alloc T: float32[n]
        for o in 0..(n + 3) // 4 {
          for i in 0..4 { if o * 4 + i < n { T[o * 4 + i] = A[o * 4 + i] } }
          for i in 0..4 { if o * 4 + i < n { B[o * 4 + i] = T[o * 4 + i] } }
        }"""
    )
    assert "alloc T: float32[4]" in text


def test_a_read_beyond_the_tail_does_not_count() -> None:
    text = _planned(
        """alloc T: float32[n + 4]
        for i in 0..n + 4 { T[i] = 5.0f32 }
        for o in 0..(n + 3) // 4 {
          for i in 0..4 { if o * 4 + i < n - 1 { T[o * 4 + i] = A[o * 4 + i] } }
          for i in 0..4 { if o * 4 + i < n { B[o * 4 + i] = T[o * 4 + i] } }
        }"""
    )
    assert text.index("alloc T") < text.index("for o")


def test_gaps_between_writes_do_not_count() -> None:
    text = _planned(
        """alloc T: float32[8]
        for i in 0..8 { T[i] = 3.0f32 }
        for o in 0..n { for i in 0..4 { T[i * 2] = A[o] } for i in 0..8 { B[o] = B[o] + T[i] } }"""
    )
    assert text.index("alloc T") < text.index("for o")


def test_large_temporaries_are_allocated_once_but_for_each_parallel_iteration() -> None:
    body = """alloc T: float32[n, 64]
        for p in 0..n parallel { for s in 0..1 { for i in 0..64 { T[p, i] = A[p] } B[p] = T[p, 0] + T[p, 63] } }"""
    assert "parallel {\n    for s in 0..1 {\n      alloc T: float32[1, 64]" in _planned(body)
    assert "parallel {\n    alloc T: float32[1, 64]\n    for s" in _planned(body, small=16)


def test_several_readers_share_the_window_of_all() -> None:
    text = _planned(
        """alloc T: float32[n + 6]
        for o in 0..n {
          for i in 0..4 { T[o + i + 2] = A[o] }
          B[o] = T[o + 2] * T[o + 5]
        }"""
    )
    assert "alloc T: float32[4]" in text
    assert "T[0] * T[3]" in text


@pytest.mark.parametrize("how", ["strides(1, 8)", "layout((i, j) -> (j, i) in [4, 8])"])
def test_what_has_a_place_in_memory_of_its_own_moves_but_does_not_shrink(how: str) -> None:
    text = _planned(f"alloc T: float32[8, 4] {how} for i in 0..n {{ T[2, 1] = A[i] B[i] = T[2, 1] }}")
    assert "for i in 0..n {\n    alloc T: float32[8, 4]" in text
