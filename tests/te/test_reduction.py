"""Reductions against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from lpx import te
from tests.te.running import run, run_all
from tests.te.test_compute import INTEGERS, random_array


@pytest.mark.parametrize("dtype", [*INTEGERS, "float32", "float64"])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_named_reductions(name: str, dtype: str) -> None:
    a = random_array((3, 5), dtype)
    A = te.placeholder((3, 5), dtype, "A")
    r = te.reduce_axis(5)
    got = run(te.compute((3,), lambda i: getattr(te, name)(A[i, r], axis=r)), a)
    want = np.asarray(getattr(np, name)(a, axis=1, **({} if name in ("max", "min") else {"dtype": dtype})))
    assert got.dtype == want.dtype
    if np.dtype(dtype).kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-6)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", ["any", "all", "max", "min"])
def test_reductions_of_bools(name: str) -> None:
    a = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], bool)
    A = te.placeholder((4, 2), "bool", "A")
    r = te.reduce_axis(2)
    got = run(te.compute((4,), lambda i: getattr(te, name)(A[i, r], axis=r)), a)
    np.testing.assert_array_equal(got, getattr(np, name)(a, axis=1))


IDENTITIES = [
    ("sum", "float32", 0), ("prod", "int32", 1), ("max", "float32", -np.inf), ("min", "float64", np.inf),
    ("max", "int8", -128), ("min", "uint16", 65535), ("max", "uint8", 0), ("any", "bool", False), ("all", "bool", True),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype", "identity"), IDENTITIES)
def test_no_elements_give_the_identity(name: str, dtype: str, identity: object) -> None:
    A = te.placeholder((2, 0), dtype, "A")
    r = te.reduce_axis(0)
    got = run(te.compute((2,), lambda i: getattr(te, name)(A[i, r], axis=r)), np.empty((2, 0), dtype))
    np.testing.assert_array_equal(got, np.full(2, identity, dtype))


def test_no_elements_give_the_start() -> None:
    A, S = te.placeholder((2, 3, 0), name="A"), te.placeholder((2,), name="S")
    r, q = te.reduce_axis(3), te.reduce_axis(0)
    start = np.array([3, 4], np.float32)
    D = te.compute((2,), lambda i: te.sum(A[i, r, q], axis=(r, q), init=S[i] + 1))
    np.testing.assert_array_equal(run(D, np.empty((2, 3, 0), np.float32), start), start + 1)


def test_several_axes_and_a_start_value() -> None:
    a, s = random_array((2, 3, 4), "int32"), random_array((3,), "int32", 1)
    A, S = te.placeholder((2, 3, 4), "int32", "A"), te.placeholder((3,), "int32", "S")
    r, q = te.reduce_axis(2, "r"), te.reduce_axis(4, "q")
    D = te.compute((3,), lambda j: te.sum(A[r, j, q], axis=(r, q), init=S[j] * 2))
    np.testing.assert_array_equal(run(D, a, s), a.sum((0, 2), dtype=np.int32) + s * 2)


def test_a_matrix_product_wraps() -> None:
    x = np.array([[46341, 2], [3, 4]], np.int32)
    X = te.placeholder((2, 2), "int32", "X")
    k, j = te.reduce_axis(2, "k"), te.reduce_axis(2, "j")
    square = te.compute((2, 2), lambda i, j: te.sum(X[i, k] * X[k, j], axis=k), name="square")
    rows = te.compute((2,), lambda i: te.sum(square[i, j], axis=j), name="rows")
    np.testing.assert_array_equal(run(rows, x), np.array([-2147386319, 139057], np.int32))


def test_a_symbolic_product_with_a_rank_zero_sum() -> None:
    n = te.var("n")
    a, b = random_array((7,), "float64"), random_array((7,), "float64", 1)
    A, B = te.placeholder((n,), "float64", "A"), te.placeholder((n,), "float64", "B")
    r = te.reduce_axis(n)
    got = run(te.compute((), lambda: te.sum(A[r] * B[r], axis=r)), a, b)
    np.testing.assert_allclose(got, a @ b, rtol=1e-14)


def test_a_causal_condition_bounds_a_reduction() -> None:
    a = random_array((6, 6), "float64")
    A = te.placeholder((6, 6), "float64", "A")
    r = te.reduce_axis(6)
    got = run(te.compute((6,), lambda i: te.sum(te.where(r <= i, A[i, r], 0.0), axis=r)), a)
    np.testing.assert_allclose(got, np.tril(a).sum(1), rtol=1e-13)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("position", range(5))
def test_nan_wins_at_every_position(name: str, position: int) -> None:
    a = np.arange(5, dtype=np.float32)[None]
    a[0, position] = np.nan
    A = te.placeholder((1, 5), name="A")
    r = te.reduce_axis(5)
    value = te.compute((1,), lambda i: getattr(te, name)(A[i, r], axis=r))
    index = te.compute((1,), lambda i: EXTREMES[f"arg{name}"](A[i, r], axis=r)[0])
    np.testing.assert_array_equal(run(value, a), [np.nan])
    np.testing.assert_array_equal(run(index, a), [position])


EXTREMES = {"argmax": te.argmax, "argmin": te.argmin}


@pytest.mark.parametrize("n", range(1, 5))
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_extremes_of_all_short_bool_vectors(name: str, n: int) -> None:
    a = np.array(list(itertools.product([False, True], repeat=n))).T
    A = te.placeholder(a.shape, "bool", "A")
    r = te.reduce_axis(n)
    P, V = te.compute((a.shape[1],), lambda j: EXTREMES[name](A[r, j], axis=r), name=("P", "V"))
    position, value = run_all((P, V), a)
    np.testing.assert_array_equal(position, getattr(np, name)(a, axis=0))
    np.testing.assert_array_equal(value, getattr(np, name[3:])(a, axis=0))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_extremes_over_two_axes_take_the_first_of_equals(name: str) -> None:
    a = np.array([[[2, 5, 5], [5, 2, 2]], [[1, 1, 0], [0, 1, 0]]], np.int8)
    A = te.placeholder((2, 2, 3), "int8", "A")
    r, q = te.reduce_axis(2), te.reduce_axis(3)
    got = run(te.compute((2,), lambda i: getattr(te, name)(A[i, r, q], axis=(r, q), dtype="int32")[0]), a)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, getattr(np, name)(a.reshape(2, 6), axis=1))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_extremes_of_infinities_and_two_nans(name: str) -> None:
    a = np.array([[-np.inf, -np.inf], [np.nan, np.nan], [np.inf, np.inf]], np.float32)
    A = te.placeholder((3, 2), name="A")
    r = te.reduce_axis(2)
    got = run(te.compute((3,), lambda i: EXTREMES[name](A[i, r], axis=r)[0]), a)
    np.testing.assert_array_equal(got, [0, 0, 0])


def test_a_reducer_of_three_values() -> None:
    """Welford's mean and variance, combined pairwise (Chan et al., 1979)."""

    def combine(a: Any, b: Any) -> Any:
        (n, mean, m2), (m, other, o2) = a, b
        total = n + m
        delta = other - mean
        weight = te.where(total > 0, m / total, 0.0)
        return total, mean + delta * weight, m2 + o2 + delta * delta * n * weight

    welford = te.reducer(combine, (0.0, 0.0, 0.0), name="welford")
    a = random_array((3, 8), "float64")
    A = te.placeholder((3, 8), "float64", "A")
    r = te.reduce_axis(8)
    _, M, S = te.compute(
        (3,),
        lambda i: welford((te.const(1.0, "float64"), A[i, r], te.const(0.0, "float64")), axis=r),
        name=("count", "mean", "m2"),
    )
    mean, squares = run_all((M, S), a)
    np.testing.assert_allclose(mean, a.mean(1), rtol=1e-12)
    np.testing.assert_allclose(squares / 8, a.var(1), rtol=1e-12)


def test_different_reductions_side_by_side() -> None:
    a = random_array((3, 4), "int64")
    A = te.placeholder((3, 4), "int64", "A")
    r = te.reduce_axis(4)
    outputs = te.compute((3,), lambda i: (te.max(A[i, r], axis=r), *te.argmin(A[i, r], axis=r)), name=("a", "b", "c"))
    high, position, low = run_all(outputs, a)
    np.testing.assert_array_equal(high, a.max(1))
    np.testing.assert_array_equal(position, a.argmin(1))
    np.testing.assert_array_equal(low, a.min(1))


def test_a_reducer_may_take_its_identity_from_the_dtype() -> None:
    widest = te.reducer(te.maximum, lambda dtype: dtype.min_value, name="widest")
    a = random_array((2, 3), "int16")
    A = te.placeholder((2, 3), "int16", "A")
    r = te.reduce_axis(3)
    np.testing.assert_array_equal(run(te.compute((2,), lambda i: widest(A[i, r], axis=r)), a), a.max(1))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_reduced_in_their_own_dtype(dtype: str) -> None:
    A = te.placeholder((2, 2), dtype, "A")
    r = te.reduce_axis(2)
    assert te.compute((2,), lambda i: te.sum(A[i, r], axis=r)).dtype.name == dtype
