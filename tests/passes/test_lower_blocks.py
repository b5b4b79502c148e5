"""Blocks to statements: where initialisations go, and when they stay."""

from __future__ import annotations

import numpy as np

from lpx.ir.interpreter import interpret
from lpx.ir.nodes import Function
from lpx.ir.printer import print_function
from lpx.passes.lower_blocks import LowerBlocks
from lpx.passes.simplify import Simplify
from tests.passes.programs import PROGRAMS
from tests.passes.support import apply, assert_pass_keeps, parse


def _lowered(text: str) -> str:
    return print_function(assert_pass_keeps(parse(text), LowerBlocks()))


def _with_body(body: str) -> str:
    return f"func f(A: in float32[4, 6], B: inout float32[4], C: inout float32[6]) {{ {body} }}"


def test_empty_reductions_still_start() -> None:
    function = apply(PROGRAMS["matmul_symbolic"].function, LowerBlocks(), Simplify())
    result = np.full((3, 5), 99, np.float32)
    interpret(function, [np.zeros((3, 0), np.float32), np.zeros((0, 5), np.float32), result])
    np.testing.assert_array_equal(result, np.zeros((3, 5)))


def test_spatial_loops_inside_the_reduction_are_repeated_for_the_start() -> None:
    text = _lowered(
        _with_body(
            """for r in 0..6 { for i in 0..4 vectorize {
              block B(vi: spatial 4 = i, vr: reduce 6 = r) { init { B[vi] = 0.0f32 } B[vi] = B[vi] + A[vi, vr] } } }"""
        )
    )
    assert "for i in 0..4 vectorize {\n    B[i] = 0.0f32" in text
    assert "if" not in text


def test_another_reader_of_the_target_keeps_the_start_in_place() -> None:
    text = _lowered(
        _with_body(
            """for i in 0..4 { for r in 0..6 {
              C[r] = B[i]
              block B(vi: spatial 4 = i, vr: reduce 6 = r) { init { B[vi] = 0.0f32 } B[vi] = B[vi] + A[vi, vr] } } }"""
        )
    )
    assert "if r == 0 {" in text


def test_a_start_that_reads_what_the_loop_writes_stays_in_place() -> None:
    text = _lowered(
        _with_body(
            """for i in 0..4 { for r in 0..6 {
              C[0] = A[i, r]
              block B(vi: spatial 4 = i, vr: reduce 6 = r) { init { B[vi] = C[0] } B[vi] = B[vi] + A[vi, vr] } } }"""
        )
    )
    assert "if r == 0 {" in text


def test_a_guard_over_both_kinds_of_loops_keeps_the_start_under_it() -> None:
    text = _lowered(
        _with_body(
            """for i in 0..6 { for r in 0..6 { block B(vi: spatial 4 = i, vr: reduce 6 = r) where i * 6 + r < 20 {
              init { B[vi] = 0.0f32 } B[vi] = B[vi] + A[vi, vr] } } }"""
        )
    )
    assert "if i * 6 + r < 20 {\n        if r == 0 {" in text


def test_reductions_over_no_loop_start_without_a_test() -> None:
    function = parse(
        _with_body(
            """for i in 0..4 { block B(vi: spatial 4 = i, vr: reduce 6 = 0) {
              init { B[vi] = 0.0f32 } B[vi] = B[vi] + A[vi, vr] } }"""
        )
    )
    assert "if" not in print_function(assert_pass_keeps(function, LowerBlocks(), Simplify()))


def test_a_function_without_blocks_is_returned_as_it_is() -> None:
    function: Function = PROGRAMS["recurrence"].function
    assert LowerBlocks()(function) is function


def test_the_rest_of_a_reduction_goes_on_where_the_first_part_ended() -> None:
    function = parse(
        _with_body(
            """for i in 0..4 {
              for r in 0..4 { block B(vi: spatial 4 = i, vr: reduce 6 = r) {
                init { B[vi] = 0.0f32 } B[vi] = B[vi] + A[vi, vr] } }
              for r in 4..+2 { block rest(vi: spatial 4 = i, vr: reduce 6 = r) {
                init { B[vi] = 0.0f32 } B[vi] = B[vi] + A[vi, vr] } } }"""
        )
    )
    text = print_function(assert_pass_keeps(function, LowerBlocks(), Simplify()))
    assert text.count("= 0.0f32") == 1
