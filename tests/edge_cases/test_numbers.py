"""Numbers on which comparable compilers have been wrong: NaN, wrapping, halves, infinities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lpx
from lpx import te
from lpx.errors import FastMathWarning
from tests.edge_cases.support import BASELINE, SCHEDULES, Checker, plain, split, unrolled, vectorized

RNG = np.random.default_rng(1)
FEW = {"plain": plain, "split 8": split(8), "unrolled": unrolled}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", ["max", "min"])
def test_nan_wins_at_every_position(check: Checker, name: str, dtype: str) -> None:
    reducer = te.max if name == "max" else te.min
    for rows in (np.array([[np.nan, 1], [2, np.nan]]), _one_nan_each(37)):
        a, r = te.placeholder(rows.shape, dtype, name="A"), te.reduce_axis(rows.shape[1], "r")
        program = te.compute(rows.shape[:1], lambda i: reducer(a[i, r], axis=r), name="C")  # noqa: B023
        x = rows.astype(dtype)

        def lanes(s: Any) -> None:
            s.rfactor("C", s.split(s.loops("C")[1], 8)[1])

        check(program, [x], [np.full(len(x), np.nan, dtype)], {"plain": plain, "across": split(8), "lanes": lanes})


def _one_nan_each(length: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    values = RNG.standard_normal((length, length))
    np.fill_diagonal(values, np.nan)
    return values


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("n", [3, 8, 17])
def test_a_comparison_is_the_number_one(check: Checker, n: int, dtype: str) -> None:
    a = te.placeholder((n,), dtype, name="A")
    program = te.compute((n,), lambda i: a[i] * te.cast(a[i] >= 0.0, dtype), name="C")
    x = np.resize(np.array([-1, 0, 2], dtype), n)
    check(program, [x], [np.resize(np.array([-0.0, 0, 2], dtype), n)])


@pytest.mark.parametrize("n", [1, 2, 7, 8])
@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "min"])
def test_extremes_of_bools(name: str, n: int) -> None:
    function = getattr(np, name)

    @lpx.jit
    def extreme(x: Any) -> Any:
        return function(x, axis=0)

    for x in (RNG.integers(0, 2, (n, 32)).astype(np.bool_), np.ones((n, 32), np.bool_), np.zeros((n, 32), np.bool_)):
        got = extreme(x)
        want = function(x, axis=0)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_positions_follow_the_logical_order(axis: int | None) -> None:
    @lpx.jit
    def highest(x: Any) -> Any:
        return np.argmax(np.sin(x).T, axis=axis)

    x = RNG.standard_normal((4, 8)).astype(np.float32)
    for view in (x, np.tile(x, (2, 2))[::2, ::2], x[::-1], np.asfortranarray(x)):
        np.testing.assert_array_equal(highest(view), np.argmax(np.sin(view).T, axis=axis))


@pytest.mark.parametrize("target", ["cpu", BASELINE])
def test_float32_to_float16_rounds_to_nearest_even(check: Checker, target: str) -> None:
    halves = np.arange(0, 0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    between = (halves[:-1] + halves[1:]) / 2
    around = np.concatenate([between, np.nextafter(between, np.float32(0)), np.nextafter(between, np.float32(np.inf))])
    x = np.concatenate([around, -around, np.array([0.4999, 65519.996, 65520, np.inf, np.nan, -0.0, 1e-10], np.float32)])
    a = te.placeholder(x.shape, name="A")
    program = te.compute(x.shape, lambda i: te.cast(a[i], "float16"), name="C")
    with np.errstate(over="ignore"):
        want = x.astype(np.float16)
    check(program, [x], [want], {"split 8": split(8)}, target=target)
    assert lpx.build(program, target)(x)[-7] == np.float16(0.5)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "int16"])
def test_quotients_of_integers_are_exact(check: Checker, dtype: str) -> None:
    values = np.arange(1, 301)
    x, y = (v.ravel().astype(dtype) for v in np.meshgrid(values, values))
    big = np.array([np.iinfo(dtype).max] * 3 + [110, 110, np.iinfo(dtype).min], dtype)
    by = np.array([3, 1, np.iinfo(dtype).max, 55, 7, 3], dtype)
    x, y = np.concatenate([x, big]), np.concatenate([y, by])
    a, b = te.placeholder(x.shape, dtype, name="A"), te.placeholder(y.shape, dtype, name="B")
    program = te.compute(x.shape, lambda i: (a[i] // b[i], a[i] % b[i]), name="C")
    check(program, [x, y], [x // y, x % y], {"plain": plain, "split 8": split(8)})


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_nan_is_seen_unless_flags_say_otherwise(check: Checker, dtype: str) -> None:
    x = np.resize(np.array([np.nan, np.inf, -np.inf, 1], dtype), 11)
    a = te.placeholder(x.shape, dtype, name="A")
    program = te.compute(x.shape, lambda i: (te.isnan(a[i]), te.isfinite(a[i]), te.isinf(a[i])), name="C")
    check(program, [x], [np.isnan(x), np.isfinite(x), np.isinf(x)])
    for flags in (("reassoc",), ("contract",), ("nsz",), ("arcp",), ("reassoc", "contract", "nsz", "arcp", "afn")):
        for got, want in zip(lpx.build(program, fastmath=flags)(x), (np.isnan, np.isfinite, np.isinf), strict=True):
            np.testing.assert_array_equal(got, want(x))
    for flag in ("nnan", "ninf"):
        with pytest.warns(FastMathWarning, match=flag):
            lpx.build(program, fastmath=(flag,))


@pytest.mark.parametrize("n", [3, 8, 19])
def test_softmax_of_rows_with_infinities(n: int) -> None:
    @lpx.jit
    def softmax(x: Any) -> Any:
        return lpx.nn.softmax(x)

    inf, nan = np.inf, np.nan
    rows = np.zeros((6, n), np.float32)
    rows[0] = -inf
    rows[1, 1] = inf
    rows[2, :2] = inf
    rows[3, n // 2] = nan
    rows[4, 1] = -inf
    rows[5, : n - 1] = -inf
    got = softmax(rows)
    assert np.isnan(got[:4]).all()
    want = np.full(n, 1 / (n - 1), np.float32)
    want[1] = 0
    np.testing.assert_allclose(got[4], want, rtol=1e-6)
    np.testing.assert_array_equal(got[5], np.eye(n, dtype=np.float32)[n - 1])


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_softmax_of_any_length_sums_what_there_is(dtype: str) -> None:
    @lpx.jit(dynamic={"x": {1: "k"}})
    def softmax(x: Any) -> Any:
        return lpx.nn.softmax(x)

    for k in (1, 10, 7, 33):
        got = softmax(np.ones((10, k), dtype))
        np.testing.assert_allclose(got, np.full((10, k), 1 / k), rtol=1e-3 if dtype == "float16" else 1e-6)
    assert softmax.compilations == 1


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_products_that_wrap_are_the_same_however_they_are_written(dtype: str) -> None:
    @lpx.jit
    def row_sums(x: Any) -> Any:
        return (x @ x).sum(1)

    @lpx.jit
    def apart(x: Any, y: Any, z: Any) -> Any:
        return x @ y + x @ z

    @lpx.jit
    def together(x: Any, y: Any, z: Any) -> Any:
        return x @ (y + z)

    if dtype == "int32":
        x = np.array([[46341, 2], [3, 4]], np.int32)
        assert ((x @ x).astype(np.int32).sum(1, dtype=np.int32)).tolist() == [-2147386319, 139057]
        np.testing.assert_array_equal(row_sums(x), (x @ x).sum(1))
    info = np.iinfo(dtype)
    x, y, z = (RNG.integers(info.min, info.max, (5, 5), dtype=dtype, endpoint=True) for _ in range(3))
    np.testing.assert_array_equal(apart(x, y, z), x @ y + x @ z)
    np.testing.assert_array_equal(together(x, y, z), apart(x, y, z))


@pytest.mark.parametrize(
    ("make", "want"),
    [
        (lambda: te.const(2**63 - 1, "uint64") + 5, 9223372036854775812),
        (lambda: te.const(2**62, "uint64") * 3, 13835058055282163712),
        (lambda: te.const(2**64 - 1, "uint64") // 3, 6148914691236517205),
        (lambda: te.const(0, "uint64") - 1, 2**64 - 1),
        (lambda: te.const(2**63, "uint64") >> 3, 2**60),
    ],
)
def test_constants_in_the_upper_half_of_uint64(check: Checker, make: Callable[[], te.Scalar], want: int) -> None:
    a = te.placeholder((9,), "uint64", name="A")
    program = te.compute((9,), lambda i: (make(), make() + a[i], te.maximum(make(), a[i])), name="C")
    x = np.array([0, 1, 2**63, 2**64 - 1, 5, 6, 7, 8, 9], np.uint64)
    whole = np.full(9, want, np.uint64)
    check(program, [x], [whole, whole + x, np.maximum(whole, x)], FEW)


def test_vectors_of_every_schedule_agree_on_wrapping_sums(check: Checker) -> None:
    a, r = te.placeholder((5, 33), "int8", name="A"), te.reduce_axis(33, "r")
    program = te.compute((5,), lambda i: te.sum(a[i, r], axis=r), name="C")
    x = RNG.integers(-128, 128, (5, 33)).astype(np.int8)
    check(program, [x], [x.sum(1, dtype=np.int8)], {**SCHEDULES, "whole": vectorized})
