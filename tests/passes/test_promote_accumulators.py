"""What is kept in registers, and what must not be."""

from __future__ import annotations

import pytest

from lpx.ir.printer import print_function
from lpx.passes.contract_accumulations import ContractAccumulations
from lpx.passes.lower_blocks import LowerBlocks
from lpx.passes.partition_loops import PartitionLoops
from lpx.passes.pipeline import Pass
from lpx.passes.promote_accumulators import PromoteAccumulators
from lpx.passes.simplify import Simplify
from lpx.passes.unroll_loops import UnrollLoops
from lpx.passes.vectorize_loops import VectorizeLoops
from tests.passes.support import apply, assert_pass_keeps, parse


def _promoted(body: str, buffers: str = "A: in float32[n, 4], B: inout float32[8]") -> str:
    function = parse(f"func f({buffers}) symbols(n) {{ {body} }}")
    return print_function(assert_pass_keeps(function, PromoteAccumulators(), extents=({"n": 0}, {"n": 1}, {"n": 5})))


def test_an_accumulator_lives_in_a_register() -> None:
    text = _promoted("B[3] = 0.0f32 for r in 0..n { B[3] = B[3] + A[r, 0] }")
    assert "B_acc[0] = 0.0f32\n  for r in 0..n {\n    B_acc[0] = B_acc[0] + A[r, 0]\n  }\n  B[3] = B_acc[0]" in text


def test_without_a_start_memory_is_touched_only_if_the_loop_runs() -> None:
    text = _promoted("for r in 0..n { B[3] = B[3] + A[r, 0] }")
    assert "if 0 < n {\n    B_acc[0] = B[3]" in text


def test_an_accumulation_under_a_condition_needs_a_start() -> None:
    body = "for r in 0..n { if A[r, 0] < 0.0f32 { B[3] = B[3] + A[r, 0] } }"
    assert "acc" not in _promoted(body)
    assert "B_acc[0] = B_acc[0] + A[r, 0]" in _promoted(f"B[3] = 1.0f32 {body}")


def test_a_start_under_a_condition_is_read_under_the_opposite_one() -> None:
    """The first part of a sum begins with zero, the others with what is there."""
    text = _promoted(
        """for part in 0..3 {
          if part == 0 { B[3] = 0.0f32 }
          if part == 0 { B[4] = 1.0f32 }
          for r in 0..4 { B[3] = B[3] + A[0, r] B[4] = B[4] * A[0, r] }
        }""",
        "A: in float32[1, 4], B: inout float32[8], C: in float32[n]",
    )
    assert "if part == 0 {\n      B_acc[0] = 0.0f32" in text
    assert "if part != 0 {\n      B_acc[0] = B[3]\n      B_acc[1] = B[4]\n    }" in text
    assert "B[3] = B_acc[0]" in text


@pytest.mark.parametrize(
    "body",
    [
        "for p in 0..3 { if p == 0 { B[3] = 0.0f32 } for r in 0..n { B[3] = B[3] + A[r, 0] } }",  # may not run
        "for p in 0..3 { if p == 0 { B[3] = 0.0f32 } B[1] = B[3] for r in 0..4 { B[3] = B[3] + B[3] } }",  # seen
        "for p in 0..3 { if p == 0 { if p < n { B[3] = 0.0f32 } } for r in 0..4 { B[3] = B[3] + 2.0f32 } }",
    ],
)
def test_other_starts_under_a_condition_go_to_memory(body: str) -> None:
    text = _promoted(body)
    assert "B[3] = 0.0f32" in text


def test_a_start_under_a_condition_of_its_own_and_that_of_the_place() -> None:
    text = _promoted(
        "for p in 0..3 { for o in 0..8 { if (p == 0) & (o < n) { B[o] = 0.0f32 }"
        " for r in 0..4 { if o < n { B[o] = B[o] + 1.0f32 } } } }"
    )
    assert "if p != 0 {\n        if o < n {\n          B_acc[0] = B[o]" in text


def test_guards_that_do_not_change_go_around_reading_and_writing() -> None:
    text = _promoted("for o in 0..8 { for r in 0..n { if o < 5 { B[o] = B[o] + A[r, 0] } } }")
    assert "if o < 5 {\n        B_acc[0] = B[o]" in text
    assert "if o < 5 {\n        B[o] = B_acc[0]" in text


def test_a_prefetch_of_the_accumulator_is_no_access() -> None:
    request = 'evaluate hardware["prefetch", any, same, 1](&B[r + 1])'
    assert "B_acc[0] = B_acc[0] + A[r, 0]" in _promoted(f"for r in 0..n {{ {request} B[3] = B[3] + A[r, 0] }}")


@pytest.mark.parametrize(
    "body",
    [
        "for r in 0..n { B[r % 8] = B[r % 8] + A[r, 0] }",
        "for r in 0..n { B[0] = B[0] + A[r, 0] B[r % 8] = 1.0f32 }",
        "for r in 0..n { B[0] = B[0] + B[r % 8] }",
        "for o in 0..4 { for r in 0..n { B[o] = B[o] + A[r, 0] B[7 - o] = B[7 - o] * 2.0f32 } }",
        "for r in 0..n parallel { B[3] = 1.0f32 }",
        "for r in 0..n { for p in 0..8 parallel { B[p] = B[p] + A[r, 0] } }",
        "for r in 0..n { atomic add B[3], A[r, 0] B[3] = B[3] * 2.0f32 }",
        "for r in 0..n { B[ramp(0, 1, 4)] = B[ramp(0, 1, 4)] * broadcast(2.0f32, 4) B[2] = B[2] + A[r, 0] }",
        "for r in 0..n { B[0] = A[r, 0] }",
    ],
)
def test_what_may_be_touched_otherwise_stays_in_memory(body: str) -> None:
    assert "acc" not in _promoted(body)


def test_places_of_one_base_are_told_apart() -> None:
    text = _promoted(
        """for o in 0..2 { for r in 0..n {
          B[o * 4] = B[o * 4] + A[r, 0]
          B[o * 4 + 1] = B[o * 4 + 1] + A[r, 1]
          B[2 + 4 * o] = B[2 + 4 * o] + B[o * 4 + 1] } }"""
    )
    assert "float32[3] scope(register)" in text


def test_places_that_might_meet_are_not() -> None:
    assert "acc" not in _promoted(
        "for o in 0..8 { for q in 0..8 { for r in 0..n { B[o] = B[o] + A[r, 0] + B[q] B[q] = 1.0f32 } } }"
    )


def test_masked_lanes_stay_untouched_and_unseen() -> None:
    text = _promoted(
        """for r in 0..n {
          B[ramp(0, 1, 4), mask=ramp(0, 1, 4) < broadcast(3, 4)] =
            B[ramp(0, 1, 4), mask=ramp(0, 1, 4) < broadcast(3, 4)] + A[r, ramp(0, 1, 4)]
        }"""
    )
    mask = "mask=ramp(0, 1, 4) < broadcast(3, 4)"
    assert f"B_acc[ramp(0, 1, 4), {mask}] = B_acc[ramp(0, 1, 4)] + A[r, ramp(0, 1, 4)]" in text
    assert "B[ramp(0, 1, 4), mask=ramp(0, 1, 4) < broadcast(3, 4)] = B_acc[ramp(0, 1, 4)]" in text


def test_a_temporary_at_constant_places_is_all_registers() -> None:
    text = _promoted(
        """for r in 0..n {
          alloc T: float32[2]
          T[0] = A[r, 0] * 2.0f32
          T[1] = T[0] + A[r, 1]
          B[r % 8] = T[1] - T[0]
        }"""
    )
    assert "alloc T_acc: float32[2] scope(register)" in text


def test_partly_written_lanes_of_a_temporary_keep_the_others() -> None:
    _promoted(
        """for r in 0..n {
          alloc T: float32[4]
          T[ramp(0, 1, 4)] = A[r, ramp(0, 1, 4)]
          T[ramp(0, 1, 4), mask=ramp(0, 1, 4) < broadcast(2, 4)] = broadcast(5.0f32, 4)
          B[ramp(0, 1, 4)] = T[ramp(0, 1, 4)] + T[ramp(0, 1, 4), mask=broadcast(1, 4) < ramp(0, 1, 4)]
        }"""
    )


_ORDERS = {
    "rows then lanes": "for ii in 0..3 unroll { for jj in 0..4 vectorize { BODY } }",
    "lanes then rows": "for jj in 0..4 vectorize { for ii in 0..3 unroll { BODY } }",
    "reduction inside": "for jj in 0..4 vectorize { for ii in 0..3 unroll { for rr in 0..1 { BODY } } }",
}
_PASSES: tuple[Pass, ...] = (ContractAccumulations(), LowerBlocks(), Simplify(), PartitionLoops(), Simplify())


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("unroll_first", [False, True])
def test_register_tiles_are_found_in_any_order_of_loops_and_passes(order: str, unroll_first: bool) -> None:
    block = """block C(vi: spatial 6 = io * 3 + ii, vj: spatial 8 = jo * 4 + jj, vr: reduce 5 = r) {
      init { C[vi, vj] = 0.0f32 } C[vi, vj] = C[vi, vj] + A[vi, vr] * B[vr, vj] }"""
    function = parse(
        f"""func f(A: in float32[6, 5], B: in float32[5, 8], C: out float32[6, 8]) {{
          for io in 0..2 {{ for jo in 0..2 {{ for r in 0..5 {{ {_ORDERS[order].replace("BODY", block)} }} }} }} }}"""
    )
    copies = (UnrollLoops(), VectorizeLoops()) if unroll_first else (VectorizeLoops(), UnrollLoops())
    text = print_function(assert_pass_keeps(apply(function, *_PASSES), *copies, PromoteAccumulators()))
    assert "alloc C_acc: float32[12] scope(register)" in text
    loop = text[text.index("for r") :]
    assert loop.count("fma") == 3
    assert "C[" not in loop[: loop.index("}")]


def test_memory_that_other_threads_may_look_at_is_kept_up_to_date() -> None:
    text = "func f(A: in float32[4], B: inout float32[8]) { region { for r in 0..4 { B[3] = B[3] + A[r] BARRIER } } }"
    promoted = PromoteAccumulators()(parse(text.replace("BARRIER", "")))
    assert "acc" in print_function(promoted)
    kept = parse(text.replace("BARRIER", "barrier region"))
    assert PromoteAccumulators()(kept) is kept
