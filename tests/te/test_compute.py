"""Element-wise definitions against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lpx import dtypes, te
from lpx.expr import ops
from lpx.expr.nodes import Const, Expr
from tests.te.running import Array, run, run_all

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64"]
SHAPES = [(), (1,), (7,), (3, 4), (2, 3, 2), (2, 1, 3, 2), (2, 0, 3)]


def random_array(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind == "f":
        return np.asarray(rng.standard_normal(shape), dtype)
    info = np.iinfo(dtype)
    return np.asarray(rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True))


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("shape", SHAPES)
def test_arithmetic_of_every_rank_and_dtype(dtype: str, shape: tuple[int, ...]) -> None:
    a, b = random_array(shape, dtype), random_array(shape, dtype, 1)
    A, B = te.placeholder(shape, dtype, "A"), te.placeholder(shape, dtype, "B")

    def element(*i: Expr) -> Expr:
        return A[i] * B[i] + A[i] - 3

    C = te.compute(shape, element, name="C")
    with np.errstate(over="ignore"):
        want = a * b + a - np.asarray(3, dtype)
    got = run(C, a, b)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_narrow_floats_round_after_each_operation(name: str) -> None:
    numpy_dtype = dtypes.parse(name).to_numpy()
    a = random_array((5,), "float32").astype(numpy_dtype)
    b = random_array((5,), "float32", 1).astype(numpy_dtype)
    A, B = te.placeholder((5,), name, "A"), te.placeholder((5,), name, "B")
    got = run(te.compute((5,), lambda i: A[i] * B[i] + A[i]), a, b)
    product = (a.astype(np.float32) * b.astype(np.float32)).astype(numpy_dtype)
    want = (product.astype(np.float32) + a.astype(np.float32)).astype(numpy_dtype)
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


def test_bools() -> None:
    a, b = random_array((9,), "bool"), random_array((9,), "bool", 1)
    A, B = te.placeholder((9,), "bool", "A"), te.placeholder((9,), "bool", "B")
    got = run(te.compute((9,), lambda i: (A[i] & ~B[i]) ^ (A[i] | B[i])), a, b)
    np.testing.assert_array_equal(got, (a & ~b) ^ (a | b))


@pytest.mark.parametrize(("divide", "want"), [(te.truncdiv, [-3, 3, -3, 0]), (te.truncmod, [-1, -1, 1, 1])])
def test_truncating_division(divide: Any, want: list[int]) -> None:
    a, b = np.array([-7, -7, 7, 1], np.int32), np.array([2, -2, -2, 5], np.int32)
    A, B = te.placeholder((4,), "int32", "A"), te.placeholder((4,), "int32", "B")
    np.testing.assert_array_equal(run(te.compute((4,), lambda i: divide(A[i], B[i])), a, b), np.array(want))


def test_flooring_division() -> None:
    a, b = np.array([-7, -7, 7, 1], np.int32), np.array([2, -2, -2, 5], np.int32)
    A, B = te.placeholder((4,), "int32", "A"), te.placeholder((4,), "int32", "B")
    np.testing.assert_array_equal(run(te.compute((4,), lambda i: A[i] // B[i]), a, b), a // b)
    np.testing.assert_array_equal(run(te.compute((4,), lambda i: A[i] % B[i]), a, b), a % b)


def test_clip_keeps_nan_and_lets_the_upper_limit_win() -> None:
    a = np.array([-2, 0.5, 9, np.nan], np.float32)
    A = te.placeholder((4,), name="A")
    np.testing.assert_array_equal(run(te.compute((4,), lambda i: te.clip(A[i], 0.0, 1.0)), a), np.clip(a, 0, 1))
    np.testing.assert_array_equal(run(te.compute((4,), lambda i: te.clip(A[i], 3.0, 1.0)), a), [1, 1, 1, np.nan])


def test_an_inner_width_is_kept_by_what_reads_it() -> None:
    """int8 squares wrap before they meet int64, in a tensor of their own or not."""
    t, n = np.full((1,), 127, np.int8), np.arange(1, 5)
    T, N = te.placeholder((1,), "int8", "T"), te.placeholder((4,), "int64", "N")
    square = te.compute((1,), lambda i: T[i] * T[i], name="square")
    apart = te.compute((4,), lambda i: te.cast(square[0], "int64") * N[i])
    inline = te.compute((4,), lambda i: te.cast(T[0] * T[0], "int64") * N[i])
    np.testing.assert_array_equal(run(apart, t, n), n)
    np.testing.assert_array_equal(run(inline, t, n), n)


def test_every_operation_of_expressions_is_a_function() -> None:
    for name, op in ops.ALL.items():
        dtype = {"integer": "int32", "bool": "bool"}.get(op.domain, "float32")
        A = te.placeholder((1,), dtype, "A")
        made = getattr(te, name)(*[A[0]] * op.arity)
        assert isinstance(made, Expr)
        assert name in te.__all__
        assert getattr(te, name).__doc__


def test_unlikely_reads_stay_in_bounds() -> None:
    a = np.arange(40, dtype=np.float32)
    A = te.placeholder((40,), "float32", "A")
    before = te.compute((40,), lambda i: te.where(te.unlikely(i >= 32), A[i - 32] / 3, A[i]))
    np.testing.assert_array_equal(run(before, a), np.where(np.arange(40) >= 32, np.roll(a, 32) / np.float32(3), a))


def test_functions_of_numbers_take_the_dtype_beside_them() -> None:
    A = te.placeholder((1,), "float64", "A")
    assert te.where(A[0] > 1, A[0], 0).dtype == dtypes.float64
    assert te.maximum(0, A[0]).dtype == dtypes.float64
    assert te.const(3).dtype == dtypes.int64
    assert te.bitcast(A[0], "int64").dtype == dtypes.int64


def test_several_outputs_from_one_definition() -> None:
    a = random_array((2, 3), "float32")
    A = te.placeholder((2, 3), name="A")
    P, Q = te.compute((2, 3), lambda i, j: (A[i, j] + 1, te.cast(A[i, j] > 0, "int32")), name=("P", "Q"))
    assert (P.name, Q.name, Q.dtype) == ("P", "Q", dtypes.int32)
    p, q = run_all((P, Q), a)
    np.testing.assert_array_equal(p, a + 1)
    np.testing.assert_array_equal(q, (a > 0).astype(np.int32))


def test_symbolic_and_affine_shapes() -> None:
    n = te.var("n")
    a = random_array((6,), "float32")
    A = te.placeholder((n,), name="A")
    padded = te.compute((n + 2,), lambda i: te.where((i >= 1) & (i < n + 1), A[i - 1], 0.0), name="padded")
    even = te.compute(((n + 2) // 2,), lambda i: padded[2 * i], name="even")
    np.testing.assert_array_equal(run(padded, a), np.pad(a, 1))
    np.testing.assert_array_equal(run(even, a), np.pad(a, 1)[::2])


def test_a_constant_tensor() -> None:
    table = np.arange(12, dtype=np.int16).reshape(3, 4)
    T = te.constant(table, name="table")
    got = run(te.compute((4, 3), lambda i, j: T[j, i] + T[0, 1]))
    np.testing.assert_array_equal(got, table.T + 1)
    assert T.shape == (3, 4)


def test_a_gather_reads_where_data_says() -> None:
    a, index = random_array((5, 3), "float32"), np.array([4, 0, 0, 2], np.int32)
    A, J = te.placeholder((5, 3), name="A"), te.placeholder((4,), "int32", "J")
    np.testing.assert_array_equal(run(te.compute((4, 3), lambda i, j: A[J[i], j]), index, a), a[index])


def test_rank_zero() -> None:
    S = te.placeholder((), name="S")
    T = te.compute((), lambda: S[()] * 2, name="T")
    U = te.compute((3,), lambda i: T[()] + te.cast(i, "float32"), name="U")
    np.testing.assert_array_equal(run(U, np.array(1.5, np.float32)), [3, 4, 5])


def test_one_dimension_needs_no_tuple_and_numpy_integers_are_integers() -> None:
    A = te.placeholder(np.int32(4), name="A")
    B = te.compute(4, lambda i: A[i] + A[np.int64(3)], name="B")
    assert A.shape == B.shape == (4,)
    np.testing.assert_array_equal(run(B, np.arange(4, dtype=np.float32)), [3, 4, 5, 6])


def test_shapes_are_numbers_where_they_can_be() -> None:
    n = te.var("n")
    A = te.placeholder((n, 3), name="A")
    assert A.shape[0] is n
    assert A.shape[1] == 3
    assert isinstance(A.buffer.shape[1], Const)
    assert repr(A) == "Tensor(A: float32[n, 3])"
