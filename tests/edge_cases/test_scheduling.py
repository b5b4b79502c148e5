"""Small programs under schedules, on which comparable compilers have been wrong."""

from __future__ import annotations

import numpy as np
import pytest

import lpx
from lpx import te
from lpx.errors import IndexRangeError
from lpx.ir.parser import parse_function
from lpx.schedule import Schedule
from tests.edge_cases.support import SCHEDULES, Array, Checker, parallel, plain, split, vectorized

RNG = np.random.default_rng(0)


def floats(*shape: int, dtype: str = "float32") -> Array:
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("n", [1024, 1000])
def test_consumers_under_a_split_loop(check: Checker, n: int) -> None:
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    d = te.compute((n,), lambda i: c[i] + c[i], name="D")
    e = te.compute((n,), lambda i: d[i] + a[i], name="E")

    def around(s: Schedule) -> None:
        outer, _ = s.split(s.loops("D")[0], 32)
        s.reverse_compute_at("E", outer)
        s.compute_at("C", outer)

    x, y = floats(n), floats(n)
    check(e, [x, y], [((x + y) + (x + y)) + x], {"around": around})


@pytest.mark.parametrize("stride", [5, 1, 3])
def test_strided_producers_are_computed_where_they_are_read(check: Checker, stride: int) -> None:
    a = te.placeholder((15,), name="A")
    b = te.compute((15,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((5, 3), lambda i, j: b[i + stride * j] * 2.0, name="C")
    x = floats(15)
    want = [[2 * (x[i + stride * j] + 1) for j in range(3)] for i in range(5)]
    check(c, [x], [np.array(want, np.float32)], {"at i": lambda s: s.compute_at("B", s.loops("C")[0])})


def test_a_constant_is_never_read_out_of_range() -> None:
    t, k = te.constant(np.full(3, -34.0282, np.float32), "T"), te.reduce_axis(64, "k")
    with pytest.raises(IndexRangeError, match="k of T"):
        te.compute((), lambda: te.sum(t[k], axis=k), name="C")


@pytest.mark.parametrize("modulus", [7, 5, 64])
def test_nested_remainders(check: Checker, modulus: int) -> None:
    b = te.placeholder((64,), "int32", name="B")
    values = np.arange(10, 74, dtype=np.int32)
    t = np.arange(128)
    flat = te.compute((128,), lambda i: b[(i % 64) % modulus], name="C")
    check(flat, [values], [values[t % 64 % modulus]])
    table = te.compute((2, 64), lambda i, j: b[j % modulus] + te.cast(i, "int32"), name="C")
    want = values[t % 64 % modulus].reshape(2, 64) + np.array([[0], [1]], np.int32)
    check(table, [values], [want], {"fused": lambda s: s.vectorize(s.split(s.fuse(*s.loops("C")), 8)[1])})


def test_remainders_of_products_of_quotients(check: Checker) -> None:
    program = te.compute((300,), lambda i: i % 20 // 2 * 2 % 4, name="C")
    i = np.arange(300)
    check(program, [], [i % 20 // 2 * 2 % 4])


@pytest.mark.parametrize(("old", "new"), [(4, 2), (2, 4), (8, 2)])
def test_change_of_a_blocked_layout(check: Checker, old: int, new: int) -> None:
    channels = 20 if old == 4 else 16
    x = floats(2, channels // old, 2, 2, old)
    a = te.placeholder(x.shape, name="A")

    def moved(n: te.Scalar, c: te.Scalar, h: te.Scalar, w: te.Scalar, part: te.Scalar) -> te.Scalar:
        channel = c * new + part
        return a[n, channel // old, h, w, channel % old]

    program = te.compute((2, channels // new, 2, 2, new), moved, name="C")
    nchw = x.transpose(0, 1, 4, 2, 3).reshape(2, channels, 2, 2)
    want = nchw.reshape(2, channels // new, new, 2, 2).transpose(0, 1, 3, 4, 2)
    check(program, [x], [want])


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8"])
def test_division_of_negative_numbers(check: Checker, dtype: str) -> None:
    x = np.arange(-20, 21)
    a = te.placeholder((41,), "int32", name="A")

    def quotients(value: te.Scalar) -> list[te.Scalar]:
        return [(value * 48 + 241) // 16, te.truncdiv(value * 10 + 5, 10), (value * 10 + 5) // 10]

    wide = 48 * x + 241
    want = [wide // 16, np.trunc((10 * x + 5) / 10), (10 * x + 5) // 10]
    if dtype == "int8":
        wanted = [np.asarray(w, np.int64) for w in want]
        program = te.compute((41,), lambda i: tuple(te.cast(q, "int8") for q in quotients(a[i])), name="Q")
        check(program, [x.astype(np.int32)], [w.astype(np.int8) for w in wanted], {"plain": plain, "split": split(8)})
        return
    data = te.compute((41,), lambda i: tuple(quotients(te.cast(a[i], dtype))), name="Q")
    check(data, [x.astype(np.int32)], [np.asarray(w, dtype) for w in want], {"plain": plain, "split": split(8)})
    index = te.compute((41,), lambda i: tuple(te.cast(q, dtype) for q in quotients(i - 20)), name="Q")
    check(index, [], [np.asarray(w, dtype) for w in want], {"plain": plain, "split": split(8)})


def test_floor_division_with_negative_coefficients(check: Checker) -> None:
    program = te.compute(
        (5, 101),
        lambda i, j: i - (0 - 5 * (j - 50)) // 2 - 1 + (37 - 5 * (j - 50 + 7)) // 2,
        name="C",
    )
    want = np.broadcast_to(np.arange(5)[:, None], (5, 101))
    check(program, [], [want], {"plain": plain, "split": split(8)})


@pytest.mark.parametrize("dtype", ["float32", "int8", "float16"])
@pytest.mark.parametrize("n", [0, 1, 3, 7])
def test_vectors_wider_than_the_extent(check: Checker, n: int, dtype: str) -> None:
    x = RNG.integers(-5, 5, n).astype(dtype)
    a = te.placeholder((n,), dtype, name="A")
    fixed = te.compute((n,), lambda i: a[i] * 2, name="C")
    check(fixed, [x], [x * x.dtype.type(2)], {"8": split(8), "16": split(16), "whole": vectorized})
    length = te.var("n")
    b = te.placeholder((length,), dtype, name="A")
    symbolic = te.compute((length,), lambda i: b[i] * 2, name="C")
    check(symbolic, [x], [x * x.dtype.type(2)], {"8": split(8), "16": split(16)})


@pytest.mark.parametrize("kind", ["", "vectorize", "unroll", "parallel"])
@pytest.mark.parametrize(("start", "count"), [(3, 8), (1, 7), (5, 1)])
def test_loops_that_do_not_start_at_zero(check: Checker, kind: str, start: int, count: int) -> None:
    function = parse_function(f"""
func f(A: in float32[16], C: inout float32[16]) {{
  for i in {start}..+{count} {kind} {{ block C(vi: spatial 16 = i) {{ C[vi] = A[vi] * 2.0f32 }} }}
}}""")
    x, before = floats(16), np.full(16, -99, np.float32)
    want = before.copy()
    want[start : start + count] = 2 * x[start : start + count]
    schedules = {"plain": plain} if kind else {"plain": plain, "split": split(4), "peeled": peeled}
    check(function, [x, before], [want], schedules, with_default=not kind)


def peeled(s: Schedule) -> None:
    s.split(s.loops("C")[0], 4, tail="peel")


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16", "int8"])
@pytest.mark.parametrize("n", [16, 13])
def test_guarded_stores_leave_the_others(check: Checker, n: int, dtype: str) -> None:
    guarded = f"block C(vi: spatial {n} = i) where (2 < i) & (i % 3 != 0) {{ C[vi] = {dtype}(A[vi]) }}"
    branched = f"block C(vi: spatial {n} = i) {{ if (2 < vi) & (vi % 3 != 0) {{ C[vi] = {dtype}(A[vi]) }} }}"
    x = RNG.integers(-5, 5, n).astype(np.float32)
    i = np.arange(n)
    for block in (guarded, branched):
        function = parse_function(
            f"func f(A: in float32[{n}], C: inout {dtype}[{n}]) {{ for i in 0..{n} {{ {block} }} }}"
        )
        before = np.full(n, -99).astype(function.params[1].buffer.dtype.to_numpy())
        want = np.where((i > 2) & (i % 3 != 0), x.astype(before.dtype), before)
        check(function, [x, before], [want], {"plain": plain, "split 4": split(4), "whole": vectorized})


@pytest.mark.parametrize("n", [128, 130])
@pytest.mark.parametrize("factor", [16, 7])
@pytest.mark.parametrize("part", [0, 1])
def test_factored_sums_with_a_tail(check: Checker, n: int, factor: int, part: int) -> None:
    a, r = te.placeholder((3, n), "int32", name="A"), te.reduce_axis(n, "r")
    program = te.compute((3,), lambda i: te.sum(a[i, r], axis=r), name="C")
    x = RNG.integers(-1000, 1000, (3, n)).astype(np.int32)

    def factored(s: Schedule) -> None:
        s.rfactor("C", s.split(s.loops("C")[1], factor)[part])

    check(program, [x], [x.sum(1, dtype=np.int32)], {"factored": factored}, with_default=False)


@pytest.mark.parametrize(("narrow", "wide"), [("int8", "int64"), ("int16", "int32"), ("uint8", "int64")])
def test_inlining_keeps_the_width_of_integers(check: Checker, narrow: str, wide: str) -> None:
    top = int(np.iinfo(narrow).max)
    a, b = te.placeholder((4,), narrow, name="A"), te.placeholder((4,), wide, name="B")
    t = te.compute((4,), lambda i: a[i] * a[i], name="T")
    program = te.compute((4,), lambda i: te.cast(t[i], wide) * b[i], name="C")
    factors = np.arange(1, 5, dtype=wide)
    check(program, [np.full(4, top, narrow), factors], [factors])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("factor", [128, 16])
def test_vectors_on_an_axis_of_prime_length(check: Checker, dtype: str, factor: int) -> None:
    a = te.placeholder((131,), dtype, name="A")
    x = floats(131, dtype=dtype)
    check(te.compute((131,), lambda i: te.abs(a[i]), name="C"), [x], [np.abs(x)], {"vectors": split(factor)})


def test_every_schedule_of_a_chain_writes_all_of_it(check: Checker) -> None:
    """The handful of schedules on one program with all that the others have: a stencil, a sum, a cast."""
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 3.0, name="B")
    c = te.compute((n,), lambda i: b[i] + te.where(i > 0, b[te.maximum(i - 1, 0)], 0.0), name="C")
    program = te.compute((n,), lambda i: te.cast(c[i], "float64"), name="D")
    for size in (0, 1, 9, 16):
        x = floats(size)
        shifted = np.concatenate([np.zeros(min(size, 1), np.float32), x[:-1] * np.float32(3)])
        check(program, [x], [(x * np.float32(3) + shifted).astype(np.float64)], SCHEDULES)


def test_iterations_that_depend_on_each_other_are_not_parallel(check: Checker) -> None:
    """A counter carried by a loop: refused on threads and in lanes; equal to serial otherwise."""
    counter = parse_function("""
func f(A: in int32[9], C: inout int32[1], D: out int32[9]) {
  for i in 0..9 { block S(vi: sequential 9 = i) { C[0] = C[0] + 1i32  D[vi] = A[vi] * C[0] } }
}""")
    s = lpx.create_schedule(counter)
    (i,) = s.loops("S")
    for kind in (s.parallel, s.vectorize):
        with pytest.raises(lpx.errors.ScheduleError, match="sequential loop of block S"):
            kind(i)
    x = np.arange(9, dtype=np.int32)
    want: list[Array] = [np.array([12], np.int32), x * np.arange(4, 13, dtype=np.int32)]
    check(counter, [x, np.array([3], np.int32)], want, {"plain": plain, "parallel": parallel, "split": split(4)})
