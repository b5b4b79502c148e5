"""What is simplified away, and what stays."""

from __future__ import annotations

from lpx.ir.printer import print_function
from lpx.passes.serialize_pipelines import SerializePipelines
from lpx.passes.simplify import Simplify
from tests.passes.support import assert_pass_keeps, parse


def _simplified(body: str) -> str:
    function = parse(f"func f(A: in int64[n + 8], B: inout int64[n + 8]) symbols(n) {{ {body} }}")
    return print_function(assert_pass_keeps(function, Simplify(), extents=({"n": 0}, {"n": 1}, {"n": 6})))


def test_ranges_of_loops_decide_conditions() -> None:
    assert "if" not in _simplified("for i in 0..n { if i < n { B[i] = A[i] } }")
    assert "if" not in _simplified("for i in 0..n { if n <= i { B[i] = A[i] } else { B[i] = 7 } }")


def test_conditions_around_decide_those_inside() -> None:
    text = _simplified(
        "for i in 0..8 { if i < n { if i <= n { B[i] = 1 } } else { if i < n { B[i] = 2 } else { B[i] = 3 } } }"
    )
    assert text.count("if") == 1


def test_a_decided_part_of_a_condition_goes() -> None:
    assert "if i % 3 == 0 {" in _simplified("for i in 0..n { if (i % 3 == 0) & (0 <= i) { B[i] = 1 } }")


def test_an_empty_then_turns_the_condition_around() -> None:
    text = _simplified("for i in 0..8 { if i < 3 { } else { B[i] = A[i] } }")
    assert "if 3 <= i {\n      B[i] = A[i]" in text
    assert "else" not in text


def test_data_decides_nothing_since_it_may_change() -> None:
    text = _simplified("for i in 0..n { if A[i] < 4 { B[0] = 1 if A[i] < 4 { B[i] = 2 } } }")
    assert text.count("if") == 2


def test_lets_of_constants_and_variables_are_put_in() -> None:
    text = _simplified("for i in 0..n { let j: int64 = i let k: int64 = A[j] * 3 B[j] = k + k }")
    assert "let j" not in text
    assert "let k" in text


def test_checks_that_may_fail_stay() -> None:
    text = _simplified('for i in 0..n { check A[i] < 9, "too large" check i < n, "never" B[i] = A[i] }')
    assert text.count("check") == 1


def test_masks_that_are_on_or_off_everywhere_go() -> None:
    text = _simplified(
        """B[ramp(0, 1, 4), mask=ramp(0, 1, 4) < broadcast(4, 4)] = broadcast(1, 4)
        B[ramp(4, 1, 4), mask=ramp(4, 1, 4) < broadcast(4, 4)] = broadcast(2, 4)"""
    )
    assert "mask" not in text
    assert "ramp(4" not in text


def test_nothing_to_do_returns_the_same_function() -> None:
    function = parse("func f(A: in int64[4], B: out int64[4]) { for i in 0..4 { B[i] = A[i] } }")
    assert Simplify()(function) is function
    assert SerializePipelines()(function) is function


def test_stages_are_forgotten() -> None:
    loop = "for i in 0..4 stages(0:0, 1:1) { B[i] = i C[i] = B[i] }"
    function = parse(f"func f(B: out int64[4], C: out int64[4]) {{ {loop} }}")
    assert "stages" not in print_function(assert_pass_keeps(function, SerializePipelines()))


def test_loops_of_one_iteration_go() -> None:
    assert "for" not in _simplified("for i in 0..1 parallel { for j in 3..+1 { B[i + j] = A[i] } }")


def test_a_loop_of_one_iteration_stays_where_every_thread_would_run_it() -> None:
    text = _simplified("region { for t in 0..1 { for i in 0..1 parallel { for j in 0..1 parallel { B[i] = A[j] } } } }")
    assert "for i in 0..1 parallel {\n      B[i] = A[0]" in text
