"""Vectors: any number of lanes, masks, and what falls back."""

from __future__ import annotations

import pytest

from lpx.errors import RuntimeCheckError
from lpx.ir.interpreter import interpret
from lpx.ir.nodes import Function
from lpx.ir.printer import print_function
from lpx.passes.vectorize_loops import VectorizeLoops
from tests.passes.support import apply, assert_pass_keeps, make_arrays, parse


def _vectorized(body: str, buffers: str = "A: in float32[16], B: inout float32[16]") -> str:
    return print_function(assert_pass_keeps(parse(f"func f({buffers}) {{ {body} }}"), VectorizeLoops(), seeds=(0, 1)))


@pytest.mark.parametrize("lanes", [1, 2, 3, 5, 8, 13, 16])
def test_any_number_of_lanes(lanes: int) -> None:
    text = _vectorized(f"for i in 0..{lanes} vectorize {{ B[i] = A[i] + 1.0f32 }}")
    assert "for" not in text


@pytest.mark.parametrize(("stride", "start"), [(1, 3), (2, 0), (3, 1), (-1, 15), (0, 4)])
def test_any_stride_of_reads(stride: int, start: int) -> None:
    assert "for" not in _vectorized(f"for i in 0..5 vectorize {{ B[i] = A[i * {stride} + {start}] }}")


def test_no_lanes_is_nothing() -> None:
    assert "B[" not in _vectorized("for i in 0..0 vectorize { B[i] = 1.0f32 }")


def test_a_symbolic_extent_stays_a_loop() -> None:
    # The verifier refuses such a function, but a pass may leave one behind.
    text = "func f(B: out float32[n]) symbols(n) { for i in 0..n { B[i] = 1.0f32 } }"
    assert apply(parse(text), VectorizeLoops()) is not None


def test_conditions_that_all_lanes_share_stay_branches() -> None:
    text = _vectorized("for o in 0..4 { for i in 0..4 vectorize { if (o < 3) & (i < o) { B[o * 4 + i] = A[i] } } }")
    assert "if o < 3 {" in text
    assert "mask=ramp(0, 1, 4) < broadcast(o, 4)" in text


def test_loads_that_may_leave_their_buffer_are_masked() -> None:
    text = _vectorized("for i in 0..16 vectorize { if 3 <= i { B[i] = A[i - 3] * A[i] + A[12] } }")
    assert "$0 = broadcast(3, 16) <= ramp(0, 1, 16)\n" in text
    assert "A[ramp(-3, 1, 16), mask=$0]" in text
    assert "A[ramp(0, 1, 16)]" in text
    assert "broadcast(A[12], 16)" in text


def test_a_shared_element_that_may_not_exist_is_read_if_any_lane_wants_it() -> None:
    buffers = "A: in float32[4], P: in int64[8], B: inout float32[8]"
    text = _vectorized("for o in 0..8 { for i in 0..8 vectorize { if o + i < 4 { B[i] = A[o] } } }", buffers)
    assert "A[o, mask=reduce(bitor, " in text


def test_division_is_safe_where_lanes_are_off() -> None:
    buffers = "A: in int32[16], B: inout int32[16]"
    text = _vectorized("for i in 0..16 vectorize { if A[i] != 0i32 { B[i] = 100i32 // A[i] } }", buffers)
    assert "select(mask, A[ramp(0, 1, 16)], broadcast(1i32, 16))" in text


def test_a_condition_is_read_before_its_branches_write() -> None:
    _vectorized("for i in 0..16 vectorize { if B[i] < 0.0f32 { B[i] = 1.0f32 } else { B[i] = B[i] * 2.0f32 } }")


def test_loops_inside_run_over_vectors() -> None:
    buffers = "A: in float32[6, 8], B: inout float32[8]"
    text = _vectorized("for i in 0..8 vectorize { for k in 0..6 { B[i] = B[i] + A[k, i] } }", buffers)
    assert "for k in 0..6 {\n    B[ramp(0, 1, 8)] = " in text


def test_loops_of_different_lengths_run_lane_by_lane() -> None:
    buffers = "A: in float32[6, 4], B: inout float32[4]"
    text = _vectorized("for i in 0..4 vectorize { for k in 0..i + 1 { B[i] = B[i] + A[k, i] } }", buffers)
    assert text.count("for k") == 4


@pytest.mark.parametrize(
    "body",
    [
        "for i in 0..8 vectorize { B[i] = B[i + 1] }",
        "for i in 0..8 vectorize { B[i + 8] = B[7] B[i] = A[i] }",
        "for i in 0..8 vectorize { B[2 * i] = A[i] B[i + 3] = A[i + 1] }",
        "for i in 0..8 vectorize { for k in 0..3 { B[i + k] = A[i] * A[k] } }",
        "for i in 0..8 vectorize { B[i // 2] = B[i // 2] + A[i] }",
        "for i in 0..8 vectorize { for k in 0..2 { B[0] = A[i] + A[k] } }",
    ],
)
def test_dependent_iterations_stay_a_loop(body: str) -> None:
    assert "for i in 0..8 {" in _vectorized(body)


@pytest.mark.parametrize(
    "body",
    [
        "for i in 0..8 vectorize { B[2 * i] = A[i] B[2 * i + 1] = A[i + 1] }",
        "for i in 0..8 vectorize { B[i] = A[i] B[i + 8] = B[i] }",
        "for o in 0..2 { for i in 0..8 vectorize { B[o * 8 + i] = B[o * 8 + i] + A[i] } }",
        "for i in 0..4 vectorize { for k in 0..4 { B[k * 4 + i] = B[k * 4 + i] * A[k] } }",
        "for i in 0..8 vectorize { B[i // 4] = A[i] }",
        "for i in 0..8 vectorize { B[3] = A[i] }",
    ],
)
def test_independent_iterations_are_lanes(body: str) -> None:
    assert "for i" not in _vectorized(body)


def test_checks_fail_for_the_lanes_that_are_on() -> None:
    text = """func f(A: in int64[4], B: out int64[4]) {
      for i in 0..4 vectorize { B[i] = 0 if i < LIMIT { check A[i] < 4, "too large" B[i] = A[i] } } }"""
    function = parse(text.replace("LIMIT", "3"))
    arrays = make_arrays(function, {})
    arrays[0][:] = [1, 2, 3, 9]
    interpret(_apply(function), arrays)
    assert arrays[1].tolist() == [1, 2, 3, 0]
    with pytest.raises(RuntimeCheckError, match="too large"):
        interpret(_apply(parse(text.replace("LIMIT", "4"))), arrays)


def _apply(function: Function) -> Function:
    return apply(function, VectorizeLoops())
