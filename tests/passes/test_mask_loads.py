"""Loads and divisions that a select protects."""

from __future__ import annotations

from lpx.ir.printer import print_function
from lpx.passes.mask_loads import MaskLoads
from tests.passes.support import assert_pass_keeps, parse


def _masked(value: str, dtype: str = "float32") -> str:
    function = parse(f"func f(A: in {dtype}[8], B: out {dtype}[8]) {{ for i in 0..8 {{ B[i] = {value} }} }}")
    return print_function(assert_pass_keeps(function, MaskLoads(), seeds=(0, 1)))


def test_both_sides_get_the_condition_that_protects_them() -> None:
    text = _masked("select(i < 4, A[i + 4], A[i - 4])")
    assert "select(i < 4, A[i + 4, mask=i < 4], A[i - 4, mask=4 <= i])" in text


def test_what_is_in_bounds_anyway_stays_plain() -> None:
    assert "mask" not in _masked("select(i % 2 == 0, A[i], A[7 - i])")


def test_nested_conditions_join() -> None:
    text = _masked("select(1 <= i, select(i < 5, A[i * 2 - 1], 1.0f32), 0.0f32)")
    assert "mask=(1 <= i) & (i < 5)" in text


def test_a_load_that_is_read_anyway_stays_plain() -> None:
    text = _masked("A[i * i % 9 % 8] + select(A[i * i % 9 % 8] < 0.0f32, A[i * i % 9 % 8], 0.0f32)")
    assert "mask" not in text


def test_divisors_are_safe_on_the_side_not_taken() -> None:
    text = _masked("select(A[i] != 0i32, 100i32 // A[i], -1i32)", "int32")
    assert "// select(" in text


def test_constant_divisors_need_nothing() -> None:
    assert _masked("select(A[i] != 0i32, A[i] // 3i32, -1i32)", "int32").count("select") == 1


def test_a_load_or_zero_is_a_masked_load() -> None:
    assert "B[i] = A[i - 1, mask=0 < i]\n" in _masked("select(0 < i, A[i - 1], 0.0f32)")
    assert "select" in _masked("select(0 < i, A[i - 1], -0.0f32)")
    assert "select" in _masked("select(0 < i, A[i], 0.0f32)")
