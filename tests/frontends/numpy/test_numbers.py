"""Numbers on which comparable compilers have been wrong, as NumPy code."""

from __future__ import annotations

import numpy as np
import pytest

import lpx
from tests.frontends.numpy.comparing import assert_same, check_batch, function_of


@pytest.mark.parametrize("length", [2, 8, 37])
def test_nan_wins_wherever_it_stands(length: int) -> None:
    x = np.random.default_rng(length).standard_normal((length, length)).astype(np.float32)
    np.fill_diagonal(x, np.nan)
    check_batch(
        ["x.max(axis=1)", "x.min(axis=0)", "x.argmax(axis=1)", "x.argmin(axis=0)", "np.maximum(x, x.T)"],
        {"x": x},
        ulps=0,
    )


@pytest.mark.parametrize("length", [3, 8, 17])
def test_a_comparison_is_a_number(length: int) -> None:
    x = np.resize(np.array([-1.0, 0.0, 2.0], np.float32), length)
    expressions = ["x * (x >= 0)", "(x > 0) + (x < 0)", "x + (x > 0) * 2", "np.sum(x > 0)", "(x > 0) * np.float64(0.5)"]
    check_batch(expressions, {"x": x}, ulps=0)


def test_extremes_and_positions_of_bools() -> None:
    rng = np.random.default_rng(0)
    expressions = ["b.max(0)", "b.min(0)", "b.argmax(0)", "b.argmin(0)", "np.argmax(~b, axis=1)"]
    for rows in (1, 5, 8):
        for b in (rng.random((rows, 32)) > 0.5, np.ones((rows, 32), bool), np.zeros((rows, 32), bool)):
            check_batch(expressions, {"b": b}, ulps=0)


def test_positions_follow_the_logical_order() -> None:
    x = np.round(np.random.default_rng(1).standard_normal((4, 8)), 1)
    for view in (x, x.T, x[::-1, ::2]):
        check_batch(
            ["np.argmax(-x.T)", "x.T.argmin(axis=0)", "np.argmax(x, axis=0)", "x.ravel().argmax()"], {"x": view}, ulps=0
        )


def test_halves_round_to_nearest_even() -> None:
    halves = np.arange(0x0400, 0x7BFF, 37).astype(np.uint16).view(np.float16).astype(np.float32)
    above = np.nextafter(halves.astype(np.float16), np.float16(np.inf)).astype(np.float32)
    middle = (halves + above) / 2
    x = np.concatenate([[0.49990], middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(9e9))])
    check_batch(
        ["x.astype(np.float16)", "(-x).astype(np.float16)", "x.astype(np.float16) + np.float16(1)"],
        {"x": x.astype(np.float32)},
        ulps=0,
    )


def test_integer_division_is_exact() -> None:
    a, b = (v.ravel().astype(np.int32) for v in np.meshgrid(np.arange(1, 301, 7), np.arange(1, 301, 3)))
    check_batch(
        ["a // b", "a % b", "-a // b", "-a % b", "a // -b", "a // 3", "np.divmod(a, 55)", "a / b"],
        {"a": a, "b": b},
        ulps=0,
    )
    extremes = np.array([2**31 - 1, -(2**31), -(2**31)], np.int32)
    check_batch(["x // 3", "x % 3", "x // np.int32(2**31 - 1)"], {"x": extremes}, ulps=0)


def test_the_most_negative_integer_divided_by_minus_one_wraps() -> None:
    x = np.array([-128, 127], np.int8)
    (quotient,) = lpx.jit(function_of(["x // np.int8(-1)"], ["x"]))(x)
    assert quotient.tolist() == [-128, -127]


def test_division_by_zero_is_a_run_time_error() -> None:
    divide = lpx.jit(function_of(["a // b"], ["a", "b"]))
    with pytest.raises(lpx.errors.RuntimeCheckError, match="division by zero"):
        divide(np.arange(3), np.array([1, 0, 2]))


def test_nan_is_seen() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    check_batch(
        ["np.isnan(x)", "np.isfinite(x)", "np.isinf(x)", "x == x", "x != x", "np.nan_to_num(x)"], {"x": x}, ulps=0
    )


def test_sums_that_wrap_are_the_same_however_they_are_written() -> None:
    x = np.array([[46341, 2], [3, 4]], np.int32)
    y = np.array([[2**30, 7], [-(2**31), 3]], np.int32)
    total, split, joined = lpx.jit(
        function_of(["(x @ x).astype(np.int32).sum(1, dtype=np.int32)", "x @ y + x @ x", "x @ (y + x)"], ["x", "y"])
    )(x, y)
    assert total.tolist() == [-2147386319, 139057]
    assert_same("distributive", split, joined)


def test_upper_half_of_uint64() -> None:
    x = np.array([2**63 - 1, 2**62], np.uint64)
    expressions = [
        "x + 5",
        "x * 3",
        "x + np.uint64(2**63)",
        "x // 3",
        "x % 1000",
        "x > 2**63",
        "np.full_like(x, 2**64 - 1)",
        "x << 1",
    ]
    check_batch(expressions, {"x": x}, ulps=0)
    assert lpx.jit(function_of(["x + 5", "x * 3"], ["x"]))(x)[1].tolist() == [9223372036854775805, 13835058055282163712]


def test_floats_to_integers() -> None:
    x = np.array([0.9, -0.9, 2.5, 127.0, -128.0], np.float32)
    check_batch(
        ["x.astype(np.int8)", "x.astype(np.int64)", "x.astype(bool)", "np.abs(x).astype(np.uint8)"], {"x": x}, ulps=0
    )
