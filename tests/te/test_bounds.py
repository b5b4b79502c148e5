"""Index safety: what is proved, what is refused, and what is checked when the kernel runs."""

from __future__ import annotations

import re
from collections.abc import Callable

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from lpx import te
from lpx.errors import IndexRangeError, RuntimeCheckError
from lpx.expr.nodes import Expr
from lpx.ir import nodes as ir
from lpx.ir.traverse import walk
from tests.te.running import run
from tests.te.test_compute import random_array

n, m = te.var("n"), te.var("m")


def checks_of(tensor: te.Tensor) -> list[ir.Check]:
    return [stmt for stmt in walk(te.lower(tensor).body) if isinstance(stmt, ir.Check)]


def reading(extent: te.Dim, index: Callable[[Expr], Expr], size: te.Dim) -> te.Tensor:
    """A tensor of `extent` elements that reads a tensor of `size` elements at `index`."""
    A = te.placeholder((size,), name="A")
    return te.compute((extent,), lambda i: A[index(i)], name="B")


PROVED: list[tuple[te.Dim, Callable[[Expr], Expr], te.Dim]] = [
    (n, lambda i: i, n),
    (n, lambda i: n - 1 - i, n),
    (n, lambda i: i + 2, n + 2),
    (n - 1, lambda i: i + 1, n),
    (n * 4, lambda i: i // 4, n),
    (n * m, lambda i: i % m, m),
    (n * m, lambda i: i // m, n),
    (n // 2, lambda i: 2 * i + 1, n),
    (n, lambda i: te.clip(i * i - 7, 0, n - 1), n),
    (n, lambda i: te.minimum(i, m), m + 1),
    (n + m, lambda i: te.where(i < n, i, i - n), n + m),
    (10, lambda i: (i * 7) % 10, 10),
    (8, lambda i: i ^ 3, 8),
    (n, lambda i: te.truncmod(i, 5), 5),
    (n, lambda i: te.cast(i < 3, "int64"), 2),
]


@pytest.mark.parametrize("case", range(len(PROVED)))
def test_indices_that_are_proved_need_no_check(case: int) -> None:
    built = reading(*PROVED[case])
    assert [check for check in checks_of(built) if "extent" not in check.message] == []


REFUSED: list[tuple[te.Dim, Callable[[Expr], Expr], te.Dim, str]] = [
    (n, lambda i: i + 1, n, "index i + 1 of A, axis 0, can leave [0, n): it lies in [1, n]"),
    (n, lambda i: i - 1, n, "index i - 1 of A, axis 0, can leave [0, n): it lies in [-1, n - 2]"),
    (n, lambda i: i, m, "index i of A, axis 0, can leave [0, m): it lies in [0, n - 1]"),
    (10, lambda i: i, 9, "index i of A, axis 0, can leave [0, 9): it lies in [0, 9]"),
    (10, lambda i: te.const(-1), 10, "index -1 of A, axis 0, can leave [0, 10): it lies in [-1, -1]"),
    (n, lambda i: i * i, n, "index i * i of A, axis 0, can leave [0, n)"),
    (n, lambda i: i + m, n, "index i + m of A, axis 0, can leave [0, n)"),
    (n, lambda i: te.maximum(i, 4), n, "index max(i, 4) of A, axis 0, can leave [0, n)"),
    (9, lambda i: te.clip(i, 0, n - 1), n, "index min(max(i, 0), n - 1) of A, axis 0, can leave [0, n)"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_indices_that_can_leave_are_refused_where_they_are_written(case: int) -> None:
    extent, index, size, message = REFUSED[case]
    with pytest.raises(IndexRangeError) as caught:
        reading(extent, index, size)
    assert message in caught.value.message
    assert "te.where" in caught.value.hint
    assert caught.value.span is not None
    assert "A[index(i)]" in str(caught.value), "the line of the read is shown"


def test_a_short_table_is_not_read_beyond_its_end() -> None:
    T = te.constant(np.full(3, -34.0282, np.float32), name="T")
    k = te.reduce_axis(64, "k")
    with pytest.raises(IndexRangeError, match=re.escape("index k of T, axis 0, can leave [0, 3): it lies in [0, 63]")):
        te.compute((), lambda: te.sum(T[k], axis=k))


def test_conditions_around_a_read_help() -> None:
    A = te.placeholder((n,), name="A")
    te.compute((n + 2,), lambda i: te.where((i > 0) & (i <= n), A[i - 1], 0.0))
    te.compute((n + 2,), lambda i: te.where((i == 0) | (i > n), 0.0, A[i - 1]))
    te.compute((n,), lambda i: te.where(i > 0, te.where(A[i] > 0, A[i - 1], 1.0), 0.0))
    te.compute((n,), lambda i: te.where(~(i < 1), A[i - 1], A[i]))
    with pytest.raises(IndexRangeError):
        te.compute((n + 2,), lambda i: te.where((i > 0) & (i <= n), 0.0, A[i - 1]))
    with pytest.raises(IndexRangeError):
        te.compute((n + 1,), lambda i: te.where((i < n) & (A[i] > 0), 1.0, 0.0))


def test_a_node_used_inside_and_outside_a_condition_is_checked_for_both() -> None:
    A = te.placeholder((n,), name="A")

    def body(i: Expr) -> Expr:
        read = A[i - 1]
        return te.where(i > 0, read, 0.0) + read

    with pytest.raises(IndexRangeError):
        te.compute((n,), body)


def test_a_start_value_does_not_profit_from_the_reduce_axes() -> None:
    """A reduction over nothing starts too: the last element need not exist."""
    A = te.placeholder((n,), name="A")
    r = te.reduce_axis(n)
    with pytest.raises(IndexRangeError):
        te.compute((), lambda: te.sum(A[r], axis=r, init=A[n - 1]))
    te.compute((n,), lambda i: te.sum(A[r], axis=r, init=A[n - 1]))


def test_the_time_of_a_scan_is_known() -> None:
    A = te.placeholder((n,), name="A")
    te.scan(n, ((), lambda: 0.0), lambda t, s: te.compute((), lambda: s[()] + A[n - 1 - t]))
    with pytest.raises(IndexRangeError, match=re.escape("index t + 1 of A")):
        te.scan(n, ((), lambda: 0.0), lambda t, s: te.compute((), lambda: s[()] + A[t + 1]))


def test_a_negative_extent_is_checked_when_the_kernel_runs() -> None:
    A = te.placeholder((n,), name="A")
    B = te.compute((n - 2,), lambda i: A[i + 1], name="B")
    assert [check.message for check in checks_of(B)] == ["the extent n - 2 is negative"]


class TestIndicesFromData:
    data = np.arange(10, 15, dtype=np.float32)

    def gather(self, guard: Callable[[Expr], Expr] | None = None, dtype: str = "int32") -> te.Tensor:
        A, J = te.placeholder((5,), name="A"), te.placeholder((3,), dtype, "J")
        if guard is None:
            return te.compute((3,), lambda i: A[J[i]], name="B")
        return te.compute((3,), lambda i: te.where(guard(J[i]), A[J[i]], -1.0), name="B")

    @pytest.mark.parametrize("bad", [-1, 5, -(2**31), 2**31 - 1])
    def test_are_checked(self, bad: int) -> None:
        gathered = self.gather()
        np.testing.assert_array_equal(run(gathered, np.array([4, 0, 2], np.int32), self.data), [14, 10, 12])
        with pytest.raises(RuntimeCheckError, match=re.escape("index J[i] of A, axis 0, is outside [0, 5)")):
            run(gathered, np.array([4, bad, 2], np.int32), self.data)

    def test_unsigned_ones_that_are_huge_do_not_wrap_around(self) -> None:
        with pytest.raises(RuntimeCheckError):
            run(self.gather(dtype="uint64"), np.array([4, 2**64 - 1, 2], np.uint64), self.data)

    def test_are_not_checked_where_a_condition_proves_them(self) -> None:
        gathered = self.gather(lambda j: (j >= 0) & (j < 5))
        assert checks_of(gathered) == []
        np.testing.assert_array_equal(run(gathered, np.array([9, -9, 2], np.int32), self.data), [-1, -1, 12])

    def test_are_checked_only_where_a_condition_holds(self) -> None:
        gathered = self.gather(lambda j: j >= 0)
        np.testing.assert_array_equal(run(gathered, np.array([-9, -1, 2], np.int32), self.data), [-1, -1, 12])
        with pytest.raises(RuntimeCheckError):
            run(gathered, np.array([-9, 5, 2], np.int32), self.data)

    def test_are_not_checked_where_the_dtype_or_a_limit_proves_them(self) -> None:
        A, J = te.placeholder((256,), name="A"), te.placeholder((3,), "uint8", "J")
        assert checks_of(te.compute((3,), lambda i: A[J[i]])) == []
        K = te.placeholder((3,), "int64", "K")
        assert checks_of(te.compute((3,), lambda i: A[te.clip(K[i], 0, 255)])) == []
        assert checks_of(te.compute((3,), lambda i: A[K[i] % 256])) == []

    def test_of_indices_are_checked_inner_first(self) -> None:
        A, J = te.placeholder((5,), name="A"), te.placeholder((3,), "int32", "J")
        B = te.compute((3,), lambda i: A[J[J[i]]] + A[J[i]])
        messages = [check.message for check in checks_of(B)]
        assert messages == [
            "index J[i] of J, axis 0, is outside [0, 3)",
            "index J[int64(J[i])] of A, axis 0, is outside [0, 5)",
            "index J[i] of A, axis 0, is outside [0, 5)",
        ]
        with pytest.raises(RuntimeCheckError, match="of J"):
            run(B, np.array([0, 1, 7], np.int32), self.data)

    def test_in_a_reduction_are_checked_in_each_step_and_in_the_start(self) -> None:
        A, J = te.placeholder((5,), name="A"), te.placeholder((3,), "int32", "J")
        r = te.reduce_axis(3)
        B = te.compute((), lambda: te.sum(A[J[r]], axis=r, init=A[J[0]]), name="B")
        index = np.array([4, 0, 2], np.int32)
        np.testing.assert_allclose(run(B, index, self.data), self.data[index].sum() + self.data[4])
        block = next(stmt for stmt in walk(te.lower(B).body) if isinstance(stmt, ir.Block))
        assert block.init is not None
        assert [isinstance(stmt, ir.Check) for stmt in walk(block.init)].count(True) == 1
        for position in range(3):
            wrong = index.copy()
            wrong[position] = 5
            with pytest.raises(RuntimeCheckError):
                run(B, wrong, self.data)


def draw_index(draw: st.DrawFn, axes: list[Expr], depth: int) -> Expr:
    kind = draw(st.sampled_from(["axis", "const", "add", "sub", "mul", "floordiv", "floormod", "min", "max", "where"]))
    if depth == 0 or kind in ("axis", "const"):
        if kind == "const":
            return te.const(draw(st.integers(-3, 9)))
        return draw(st.sampled_from(axes))
    a, b = draw_index(draw, axes, depth - 1), draw_index(draw, axes, depth - 1)
    divisor = draw(st.integers(1, 5))
    match kind:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * divisor
        case "floordiv":
            return a // divisor
        case "floormod":
            return a % divisor
        case "min":
            return te.minimum(a, b)
        case "max":
            return te.maximum(a, b)
        case _:
            return te.where(draw(st.sampled_from([a < b, a <= b, a == b, (a < b) | (b < 3)])), a, b)


def draw_read(draw: st.DrawFn, A: te.Tensor, axes: list[Expr]) -> Expr:
    """A read, perhaps guarded by the condition that its index is in range, written in one of several ways."""
    index = draw_index(draw, axes, draw(st.integers(0, 3)))
    extent = A.shape[0]
    read, other = A[index], te.const(-1.0)
    forms: list[Callable[[], Expr]] = [
        lambda: read,
        lambda: te.where((index >= 0) & (index < extent), read, other),
        lambda: te.where((index < 0) | (index >= extent), other, read),
        lambda: te.where(index >= 0, te.where(index < extent, read, other), other),
        lambda: te.where(index >= 0, read, other),
        lambda: te.where(index < extent, other, read),
        lambda: A[te.clip(index, 0, extent - 1)],
    ]
    return draw(st.sampled_from(forms))()


@given(st.data())
def test_what_is_accepted_never_reads_outside(data: st.DataObject) -> None:
    """The interpreter raises MemoryAccessError on a read outside; nothing accepted without a check may do that."""
    rows, columns, size = (data.draw(st.integers(1, 6)) for _ in range(3))
    symbolic = data.draw(st.booleans())
    extents: list[te.Dim] = [te.var("rows"), te.var("columns"), te.var("size")] if symbolic else [rows, columns, size]
    X, Y = te.placeholder((extents[0],), name="X"), te.placeholder((extents[1],), name="Y")
    A = te.placeholder((extents[2],), name="A")
    try:
        B = te.compute(
            extents[:2], lambda i, j: data.draw(st.composite(draw_read)(A, [i, j])) + 0 * (X[i] + Y[j]), name="B"
        )
    except IndexRangeError:
        return
    arrays = [random_array((size,), "float32"), np.zeros(rows, np.float32), np.zeros(columns, np.float32)]
    assert run(B, *arrays).shape == (rows, columns)


@given(st.integers(1, 4), st.lists(st.integers(-6, 6), min_size=1, max_size=5), st.integers(0, 6))
def test_run_time_checks_fail_exactly_when_numpy_would(size: int, index: list[int], form: int) -> None:
    A, J = te.placeholder((size,), "int64", "A"), te.placeholder((len(index),), "int8", "J")
    forms: list[Callable[[Expr], Expr]] = [
        lambda j: A[j],
        lambda j: te.where(j >= 0, A[j], 0),
        lambda j: te.where(j < 2, A[j + 1], A[1 - j]),
        lambda j: A[te.maximum(j, 0)],
        lambda j: te.where((j >= 0) & (j < size), A[j], 0),
        lambda j: A[j % size],
        lambda j: te.where(j * 2 < 3, A[j * 2], 0),
    ]
    places: list[Callable[[int], int | None]] = [
        lambda j: j,
        lambda j: j if j >= 0 else None,
        lambda j: j + 1 if j < 2 else 1 - j,
        lambda j: max(j, 0),
        lambda j: j if 0 <= j < size else None,
        lambda j: j % size,
        lambda j: j * 2 if j * 2 < 3 else None,
    ]
    a, index_array = np.arange(10, 10 + size), np.array(index, np.int8)
    B = te.compute((len(index),), lambda i: forms[form](te.cast(J[i], "int64")), name="B")
    read = [places[form](j) for j in index]
    if all(place is None or 0 <= place < size for place in read):
        np.testing.assert_array_equal(run(B, index_array, a), [0 if p is None else a[p] for p in read])
    else:
        with pytest.raises(RuntimeCheckError):
            run(B, index_array, a)
