"""In-place updates against NumPy, and the rules that keep them safe."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from lpx import te
from lpx.errors import DefinitionError, DTypeError, IndexRangeError, LpxError, RuntimeCheckError
from lpx.expr.nodes import Expr
from lpx.ir.nodes import Seq
from lpx.te import Scalar
from tests.te.running import run, run_all, run_in_place
from tests.te.test_compute import random_array


def test_an_inout_parameter_is_changed_in_its_own_array() -> None:
    a = random_array((4,), "float32")
    A = te.placeholder((4,), name="A", inout=True)
    want = a * 2 + 1
    run_in_place(te.update(A, lambda i: A[i] * 2 + 1), a)
    np.testing.assert_array_equal(a, want)


def test_part_of_a_cache_is_appended() -> None:
    n, p = te.var("n"), te.var("p")
    cache, new = random_array((6, 2), "float32"), random_array((2, 2), "float32", 1)
    C = te.placeholder((p + n, 2), name="C", inout=True)
    X = te.placeholder((n, 2), name="X")
    want = np.concatenate([cache[:4], new])
    run_in_place(te.update(C, lambda i, j: X[i, j], (n, 2), lambda i, j: (p + i, j)), new, cache, p=4)
    np.testing.assert_array_equal(cache, want)


def test_readers_of_the_old_value_run_before_the_update() -> None:
    a = random_array((4,), "float32")
    A = te.placeholder((4,), name="A", inout=True)
    U = te.update(A, lambda i: A[i] + 1, name="U")
    old = te.compute((4,), lambda i: A[i] * 10, name="old")
    both = te.compute((4,), lambda i: U[i] + old[i], name="both")
    want, changed = (a + 1) + a * 10, a + 1
    np.testing.assert_array_equal(run(both, a.copy()), want)
    assert te.lower((both, U)).params[0].role == "inout"
    after = a.copy()
    (got,) = run_all((both, U), after)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(after, changed)


def test_a_computed_tensor_is_filled_piece_by_piece() -> None:
    a, b = random_array((2, 3), "int32"), random_array((4, 3), "int32", 1)
    A, B = te.placeholder((2, 3), "int32", "A"), te.placeholder((4, 3), "int32", "B")
    Z = te.compute((6, 3), lambda i, j: te.const(0, "int32"), name="Z")
    top = te.update(Z, lambda i, j: A[i, j], (2, 3), lambda i, j: (i, j))
    all_ = te.update(top, lambda i, j: B[i, j], (4, 3), lambda i, j: (i + 2, j))
    np.testing.assert_array_equal(run(all_, a, b), np.concatenate([a, b]))
    assert isinstance(te.lower(all_).body, Seq), "there is no scratch buffer"


def test_an_ordered_scatter_adds_repeatedly() -> None:
    a, v = random_array((5,), "int32"), random_array((7,), "int32", 1)
    index = np.array([0, 3, 3, 1, 0, 4, 3], np.int64)
    A = te.placeholder((5,), "int32", "A", inout=True)
    J, V = te.placeholder((7,), "int64", "J"), te.placeholder((7,), "int32", "V")
    want = a.copy()
    np.add.at(want, index, v)
    run_in_place(te.update(A, lambda i: A[J[i]] + V[i], 7, lambda i: J[i], ordered=True), index, a, v)
    np.testing.assert_array_equal(a, want)
    index[2] = 5
    with pytest.raises(RuntimeCheckError, match=re.escape("index J[i] of A, axis 0, is outside [0, 5)")):
        run_in_place(te.update(A, lambda i: V[i], 7, lambda i: J[i], ordered=True), v, index, a)


def test_an_ordered_update_is_a_recurrence() -> None:
    a = np.zeros(10, np.int64)
    A = te.placeholder((10,), "int64", "A", inout=True)
    U = te.update(A, lambda i: te.where(i < 2, i, A[i - 1] + A[i - 2]), ordered=True)
    run_in_place(U, a)
    np.testing.assert_array_equal(a, [0, 1, 1, 2, 3, 5, 8, 13, 21, 34])


def test_a_reduction_accumulates_into_its_target() -> None:
    a, b, c = random_array((3, 4), "float64"), random_array((4, 2), "float64", 1), random_array((3, 2), "float64", 2)
    A, B = te.placeholder((3, 4), "float64", "A"), te.placeholder((4, 2), "float64", "B")
    C = te.placeholder((3, 2), "float64", "C", inout=True)
    r = te.reduce_axis(4)
    want = c + a @ b
    run_in_place(te.update(C, lambda i, j: te.sum(A[i, r] * B[r, j], axis=r, init=C[i, j])), a, b, c)
    np.testing.assert_allclose(c, want, rtol=1e-12)


def test_an_ordered_reduction_solves_a_triangular_system() -> None:
    a, b = np.tril(random_array((5, 5), "float64")) + 3 * np.eye(5), random_array((5,), "float64", 1)
    A, X = te.placeholder((5, 5), "float64", "A"), te.placeholder((5,), "float64", "X", inout=True)
    r = te.reduce_axis(5)
    rows = te.compute((5, 5), lambda i, j: A[i, j] / A[i, i], name="rows")
    scaled = te.update(X, lambda i: X[i] / A[i, i], name="scaled")
    solved = te.update(
        scaled,
        lambda i: te.sum(te.where(r < i, -rows[i, r] * scaled[r], 0.0), axis=r, init=scaled[i]),
        ordered=True,
    )
    x = b.copy()
    run_in_place(solved, a, x)
    np.testing.assert_allclose(a @ x, b, rtol=1e-10)


def test_a_rank_zero_target() -> None:
    S, A = te.placeholder((), name="S", inout=True), te.placeholder((3,), name="A")
    r = te.reduce_axis(3)
    s = np.array(2, np.float32)
    run_in_place(te.update(S, lambda: te.sum(A[r], axis=r, init=S[()])), np.array([1, 2, 3], np.float32), s)
    assert s == 8


Place = Callable[[Expr, Expr], tuple[Scalar, Scalar]]

INJECTIVE: list[Place] = [
    lambda i, j: (j, i),
    lambda i, j: (7 - i, 7 - j),
    lambda i, j: (2 * i, i + j),
    lambda i, j: (4 * (i // 4) + i, j),
    lambda i, j: (0, 4 * i + j),
]
OVERLAPPING: list[Place] = [
    lambda i, j: (i, i),
    lambda i, j: (0, 3 * i + j),
    lambda i, j: (i + j, 0),
    lambda i, j: (i * j, j),
    lambda i, j: (i // 2, j),
]


@pytest.mark.parametrize("at", INJECTIVE)
def test_places_that_are_told_apart(at: Place) -> None:
    A = te.placeholder((32, 32), name="A", inout=True)
    te.update(A, lambda i, j: 0.0, (3, 4), at)


@pytest.mark.parametrize("at", OVERLAPPING)
def test_places_that_may_coincide_need_an_order(at: Place) -> None:
    A = te.placeholder((32, 32), name="A", inout=True)
    with pytest.raises(DefinitionError, match=r"may write one element of A(.|\n)*ordered=True"):
        te.update(A, lambda i, j: 0.0, (3, 4), at)
    te.update(A, lambda i, j: 0.0, (3, 4), at, ordered=True)


def inout(name: str = "A") -> te.Tensor:
    return te.placeholder((8,), name=name, inout=True)


def read_only() -> object:
    A = te.placeholder((8,), name="A")
    return te.update(A, lambda i: 0.0)


def constant_target() -> object:
    return te.update(te.constant(np.zeros(8, np.float32), name="A"), lambda i: 0.0)


def other_dtype() -> object:
    return te.update(inout(), lambda i: i)


def two_values() -> object:
    def body(i: Expr) -> tuple[Scalar, Scalar]:
        return 0.0, 1.0

    return te.update(inout(), cast("Any", body))


def shifted_read() -> object:
    A = inout()
    return te.update(A, lambda i: A[7 - i])


def read_while_accumulating() -> object:
    A = inout()
    r = te.reduce_axis(3)
    return te.update(A, lambda i: te.sum(A[i] * te.cast(r, "float32"), axis=r))


def out_of_range() -> object:
    return te.update(inout(), lambda i: 0.0, 4, lambda i: i + 5)


def place_read_from_the_target() -> object:
    P = te.placeholder((8, 8), "int64", "A", inout=True)
    return te.update(P, lambda i: 0, 8, lambda i: (i, te.clip(P[7 - i, 0], 0, 7)))


def accumulation_at_a_place_read_from_the_target() -> object:
    P = te.placeholder((8,), "int64", "A", inout=True)
    r = te.reduce_axis(3)
    return te.update(P, lambda i: te.sum(r, axis=r), 8, lambda i: te.clip(P[i], 0, 7), ordered=True)


def crossed_updates() -> object:
    P, Q = inout("P"), inout("Q")
    one = te.update(P, lambda i: Q[i], name="one")
    two = te.update(Q, lambda i: P[i], name="two")
    return te.lower(te.compute((8,), lambda i: one[i] + two[i]))


def updated_twice() -> object:
    A = inout()
    first, second = te.update(A, lambda i: 0.0, name="first"), te.update(A, lambda i: 1.0, name="second")
    return te.lower([first, second])


def old_output() -> object:
    Z = te.compute((8,), lambda i: 0.0, name="Z")
    return te.lower([Z, te.update(Z, lambda i: 1.0, name="Z1")])


def old_read_after_new() -> object:
    A = inout()
    U = te.update(A, lambda i: A[i] + 1, name="U")
    return te.lower(te.compute((8,), lambda i: A[i] * U[i], name="product"))


def outer_target() -> object:
    A = inout()
    return te.scan(3, ((8,), lambda i: 0.0), lambda t, s: te.update(A, lambda i: s[i]))


MISUSES: list[tuple[Callable[[], object], type[LpxError], str]] = [
    (read_only, DefinitionError, "A is read-only(.|\n)*inout=True"),
    (constant_target, DefinitionError, "A is read-only"),
    (other_dtype, DTypeError, "writes int64 into A, which holds float32(.|\n)*te.cast"),
    (two_values, DefinitionError, "writes one tensor, but its body gives 2 values"),
    (shifted_read, DefinitionError, "reads elements of it that other indices write(.|\n)*ordered=True"),
    (read_while_accumulating, DefinitionError, "reads it while it accumulates in it(.|\n)*init="),
    (out_of_range, IndexRangeError, r"index i \+ 5 of A, axis 0, can leave \[0, 8\): it lies in \[5, 8\]"),
    (place_read_from_the_target, DefinitionError, "reads elements of it that other indices write"),
    (accumulation_at_a_place_read_from_the_target, DefinitionError, "depends on A itself(.|\n)*from a copy"),
    (crossed_updates, DefinitionError, "what reads P needs its updated value one too"),
    (updated_twice, DefinitionError, "A is updated in place into second, but it is also updated into first"),
    (old_output, DefinitionError, "Z is updated in place into Z1, but it is an output"),
    (old_read_after_new, DefinitionError, "what reads A needs its updated value U too(.|\n)*copy A before"),
    (outer_target, DefinitionError, "the step of a scan updates A(.|\n)*make A a state"),
]


@pytest.mark.parametrize(("misuse", "error", "message"), MISUSES, ids=[entry[0].__name__ for entry in MISUSES])
def test_misuse_is_explained(misuse: Callable[[], object], error: type[LpxError], message: str) -> None:
    with pytest.raises(error) as caught:
        misuse()
    assert re.search(message, str(caught.value))
    assert caught.value.span is not None
    assert caught.value.span.filename == __file__
