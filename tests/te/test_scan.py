"""Scans against NumPy, and where their states live."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from lpx import te
from lpx.errors import DefinitionError, DTypeError, LpxError, ShapeError
from lpx.expr.nodes import Expr
from lpx.ir import nodes as ir
from lpx.ir.traverse import walk
from tests.te.running import Array, run, run_all
from tests.te.test_compute import random_array


def block_names(function: ir.Function) -> list[str]:
    return [stmt.name for stmt in walk(function.body) if isinstance(stmt, ir.Block)]


def scratch_names(function: ir.Function) -> list[str]:
    return [stmt.buffer.name for stmt in walk(function.body) if isinstance(stmt, ir.Alloc)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("keep", ["last", "all"])
def test_cumulative_sum(keep: te.Keep, reverse: bool) -> None:
    n, m = te.var("n"), te.var("m")
    x = random_array((5, 3), "int32")
    X = te.placeholder((n, m), "int32", "X")
    total = te.scan(
        n,
        ((m,), lambda i: te.const(0, "int32")),
        lambda t, s: te.compute((m,), lambda i: s[i] + X[t, i]),
        keep=keep,
        reverse=reverse,
    )
    steps = np.cumsum(x[::-1] if reverse else x, 0, dtype=np.int32)
    want = steps[-1] if keep == "last" else steps[::-1] if reverse else steps
    np.testing.assert_array_equal(run(total, x), want)
    np.testing.assert_array_equal(run(total, x[:0]), np.zeros(3, np.int32) if keep == "last" else want[:0])


def test_a_rank_zero_state() -> None:
    x = random_array((6,), "float64")
    X = te.placeholder((6,), "float64", "X")
    S = te.scan(6, ((), lambda: te.const(1.0, "float64")), lambda t, s: te.compute((), lambda: s[()] * X[t]))
    np.testing.assert_allclose(run(S, x), np.prod(x), rtol=1e-14)


def test_a_given_tensor_starts_a_state_and_is_left_alone() -> None:
    x = random_array((4,), "float32")
    X = te.placeholder((4,), name="X")
    Y = te.compute((4,), lambda i: X[i] * 2, name="Y")
    doubled = te.scan(3, Y, lambda t, s: te.compute((4,), lambda i: s[i] * 2), name="doubled")
    both = te.compute((4,), lambda i: doubled[i] + Y[i], name="both")
    np.testing.assert_array_equal(run(both, x), x * 16 + x * 2)
    assert "s_init" not in block_names(te.lower(doubled)), "nothing else needs Y: the state starts in it"
    assert "doubled_init" in block_names(te.lower(both))


def test_states_that_swap() -> None:
    """Fibonacci numbers: each state becomes the other's old value or needs it."""
    a, b = te.scan(
        10,
        [((), lambda: te.const(0)), ((), lambda: te.const(1))],
        lambda t, a, b: (b, te.compute((), lambda: a[()] + b[()], name="next")),
    )
    first, second = run_all((a, b))
    assert (int(first), int(second)) == (55, 89)


def test_states_that_are_exchanged_unchanged() -> None:
    x, y = random_array((3,), "float32"), random_array((3,), "float32", 1)
    X, Y = te.placeholder((3,), name="X"), te.placeholder((3,), name="Y")
    a, b = te.scan(3, [X, Y], lambda t, a, b: (b, a))
    first, second = run_all((a, b), x, y)
    np.testing.assert_array_equal(first, y)
    np.testing.assert_array_equal(second, x)


def test_one_tensor_for_two_states_and_one_from_outside() -> None:
    x = random_array((3,), "float32")
    X = te.placeholder((3,), name="X")

    def step(t: Expr, a: te.Tensor, b: te.Tensor, c: te.Tensor) -> list[te.Tensor]:
        new = te.compute((3,), lambda i: a[i] + b[i], name="new")
        return [new, new, X]

    outputs = te.scan(2, [X, X, X], step)
    a, b, c = run_all(outputs, x)
    np.testing.assert_array_equal(a, x * 4)
    np.testing.assert_array_equal(b, x * 4)
    np.testing.assert_array_equal(c, x)


def test_what_reads_an_old_state_runs_before_it_is_overwritten() -> None:
    """`s` is overwritten in place though `delta`, written down later, reads the old one."""
    x = random_array((5, 3), "float64")
    X = te.placeholder((5, 3), "float64", "X")

    def step(t: Expr, s: te.Tensor, d: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
        new = te.compute((3,), lambda i: s[i] + X[t, i], name="new")
        delta = te.compute((3,), lambda i: d[i] + s[2 - i] * X[t, i], name="delta")
        return new, delta

    zeros: te.Init = ((3,), lambda i: te.const(0.0, "float64"))
    outputs = te.scan(5, [zeros, zeros], step)
    want_s, want_d = np.zeros(3), np.zeros(3)
    for row in x:
        want_d = want_d + want_s[::-1] * row
        want_s = want_s + row
    s, d = run_all(outputs, x)
    np.testing.assert_allclose(s, want_s, rtol=1e-14)
    np.testing.assert_allclose(d, want_d, rtol=1e-14)
    assert scratch_names(te.lower(outputs)) == []
    assert block_names(te.lower(outputs)) == ["s_init", "d_init", "delta", "new"]


def test_a_state_read_elsewhere_gets_a_second_buffer() -> None:
    x = random_array((4,), "float32")
    X = te.placeholder((4,), name="X")
    turned = te.scan(3, X, lambda t, s: te.compute((4,), lambda i: s[(i + 1) % 4], name="turned"))
    np.testing.assert_array_equal(run(turned, x), np.roll(x, -3))
    function = te.lower(turned)
    assert scratch_names(function) == ["turned"]
    assert block_names(function) == ["s_init", "turned", "s_next"]


def test_a_reduction_overwrites_its_state_only_when_it_starts_from_it() -> None:
    w, x = random_array((3, 3), "float64"), random_array((3,), "float64", 1)
    W, X = te.placeholder((3, 3), "float64", "W"), te.placeholder((3,), "float64", "X")
    r = te.reduce_axis(3)
    power = te.scan(4, X, lambda t, s: te.compute((3,), lambda i: te.sum(W[i, r] * s[r], axis=r)))
    np.testing.assert_allclose(run(power, x, w), np.linalg.matrix_power(w, 4) @ x, rtol=1e-12)
    assert len(scratch_names(te.lower(power))) == 1
    grown = te.scan(4, X, lambda t, s: te.compute((3,), lambda i: te.sum(W[i, r], axis=r, init=s[i] * 2)))
    want = x
    for _ in range(4):
        want = want * 2 + w.sum(1)
    np.testing.assert_allclose(run(grown, x, w), want, rtol=1e-12)
    assert scratch_names(te.lower(grown)) == []


def test_different_keeps() -> None:
    x = random_array((4, 2), "int64")
    X = te.placeholder((4, 2), "int64", "X")
    zeros: te.Init = ((2,), lambda i: te.const(0))
    a, b = te.scan(
        4,
        [zeros, zeros],
        lambda t, a, b: (
            te.compute((2,), lambda i: a[i] + X[t, i]),
            te.compute((2,), lambda i: te.maximum(b[i], X[t, i])),
        ),
        keep=["last", "all"],
        name=["a", "b"],
    )
    assert (a.shape, b.shape) == ((2,), (4, 2))
    last, every = run_all((a, b), x)
    np.testing.assert_array_equal(last, x.sum(0))
    np.testing.assert_array_equal(every, np.maximum.accumulate(np.maximum(x, 0)))


def test_lstm() -> None:
    """Gates i, f, g, o of PyTorch's LSTM, batch 2, hidden 3, inputs of 4, over 5 steps."""
    steps, batch, size, hidden = 5, 2, 4, 3
    x = random_array((steps, batch, size), "float64")
    w, u = random_array((4, hidden, size), "float64", 1), random_array((4, hidden, hidden), "float64", 2)
    X = te.placeholder(x.shape, "float64", "X")
    W, U = te.placeholder(w.shape, "float64", "W"), te.placeholder(u.shape, "float64", "U")
    k, q = te.reduce_axis(size, "k"), te.reduce_axis(hidden, "q")

    def step(t: Expr, h: te.Tensor, c: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
        shape = (4, batch, hidden)
        inner = te.compute(shape, lambda g, b, j: te.sum(X[t, b, k] * W[g, j, k], axis=k), name="inner")
        gates = te.compute(
            shape, lambda g, b, j: te.sum(h[b, q] * U[g, j, q], axis=q, init=inner[g, b, j]), name="gates"
        )
        cell = te.compute(
            (batch, hidden),
            lambda b, j: te.sigmoid(gates[1, b, j]) * c[b, j] + te.sigmoid(gates[0, b, j]) * te.tanh(gates[2, b, j]),
            name="cell",
        )
        return te.compute((batch, hidden), lambda b, j: te.sigmoid(gates[3, b, j]) * te.tanh(cell[b, j])), cell

    zeros: te.Init = ((batch, hidden), lambda b, j: te.const(0.0, "float64"))
    outputs = te.scan(steps, [zeros, zeros], step, keep=("all", "last"))
    hs, c = run_all(outputs, x, w, u)

    want_h, want_c = np.zeros((batch, hidden)), np.zeros((batch, hidden))
    every: list[Array] = []
    for row in x:
        i, f, g, o = row @ w.transpose(0, 2, 1) + want_h @ u.transpose(0, 2, 1)
        want_c = want_c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        want_h = np.tanh(want_c) / (1 + np.exp(-o))
        every.append(want_h)
    np.testing.assert_allclose(hs, every, rtol=1e-12)
    np.testing.assert_allclose(c, want_c, rtol=1e-12)
    assert "cell" not in scratch_names(te.lower(outputs)), "the cell state is updated in place"


def flash_attention(m: int, n: int, d: int, block: int) -> te.Tensor:
    """Softmax attention over key blocks with running maximum, sum and output (Dao et al., 2022)."""
    Q, K, V = (te.placeholder((rows, d), "float64", name) for rows, name in ((m, "Q"), (n, "K"), (n, "V")))
    e, q = te.reduce_axis(d, "e"), te.reduce_axis(block, "q")

    def step(t: Expr, top: te.Tensor, total: te.Tensor, out: te.Tensor) -> tuple[te.Tensor, ...]:
        S = te.compute((m, block), lambda i, j: te.sum(Q[i, e] * K[t * block + j, e], axis=e), name="S")
        new = te.compute((m,), lambda i: te.max(S[i, q], axis=q, init=top[i]), name="new")
        P = te.compute((m, block), lambda i, j: te.exp(S[i, j] - new[i]), name="P")
        alpha = te.compute((m,), lambda i: te.exp(top[i] - new[i]), name="alpha")
        total_new = te.compute((m,), lambda i: te.sum(P[i, q], axis=q, init=total[i] * alpha[i]), name="total_new")
        out_new = te.compute(
            (m, d),
            lambda i, c: te.sum(P[i, q] * V[t * block + q, c], axis=q, init=out[i, c] * alpha[i]),
            name="out_new",
        )
        return new, total_new, out_new

    def zero(*_: Expr) -> Expr:
        return te.const(0.0, "float64")

    lowest: te.Init = ((m,), lambda i: te.const(-np.inf, "float64"))
    _, total, out = te.scan(n // block, [lowest, ((m,), zero), ((m, d), zero)], step)
    return te.compute((m, d), lambda i, c: out[i, c] / total[i], name="attention")


def test_flash_attention() -> None:
    q, k, v = random_array((5, 4), "float64"), random_array((6, 4), "float64", 1), random_array((6, 4), "float64", 2)
    attention = flash_attention(5, 6, 4, 2)
    weights = np.exp(q @ k.T)
    np.testing.assert_allclose(run(attention, q, k, v), weights @ v / weights.sum(1, keepdims=True), rtol=1e-12)
    scratch = scratch_names(te.lower(attention))
    assert sorted(scratch) == ["P", "S", "alpha", "new", "out", "top", "total"], "total and out are updated in place"


def test_an_update_of_a_state() -> None:
    """Gaussian elimination of an n x n matrix, one column per step, in the matrix itself."""
    n = 4
    a = random_array((n, n), "float64") + 4 * np.eye(n)
    A = te.placeholder((n, n), "float64", "A")

    def step(t: Expr, s: te.Tensor) -> te.Tensor:
        factor = te.compute((n,), lambda i: te.where(i > t, s[i, t] / s[t, t], 0.0), name="factor")
        pivot = te.compute((n,), lambda j: s[t, j], name="pivot")
        return te.update(s, lambda i, j: s[i, j] - factor[i] * pivot[j])

    upper = run(te.scan(n, A, step), a)
    want = a.copy()
    for t in range(n):
        for i in range(t + 1, n):
            want[i] -= want[i, t] / want[t, t] * want[t]
    np.testing.assert_allclose(upper, want, rtol=1e-12, atol=1e-12)


def test_scratch_of_a_step_is_fresh_in_every_step() -> None:
    x = np.array([1, 0, 2, 2], np.int64)
    X = te.placeholder((4,), "int64", "X")

    def step(t: Expr, s: te.Tensor) -> te.Tensor:
        zero = te.compute((3,), lambda i: te.const(0), name="zero")
        hot = te.update(zero, lambda i: te.const(1), 1, lambda i: te.clip(X[t], 0, 2) + i * 0, ordered=True)
        return te.compute((3,), lambda i: s[i] + hot[i])

    counts = te.scan(4, ((3,), lambda i: te.const(0)), step)
    np.testing.assert_array_equal(run(counts, x), [1, 1, 2])


def test_a_scan_within_a_scan() -> None:
    x = random_array((3, 4, 2), "int64")
    X = te.placeholder((3, 4, 2), "int64", "X")
    zeros: te.Init = ((2,), lambda i: te.const(0))

    def outer(t: Expr, s: te.Tensor) -> te.Tensor:
        def inner(u: Expr, p: te.Tensor) -> te.Tensor:
            return te.compute((2,), lambda i: p[i] * s[i] + X[t, u, i])

        poly = te.scan(4, zeros, inner, name="poly", reverse=True)
        return te.compute((2,), lambda i: poly[i] + s[i], name="new")

    got = run(te.scan(3, ((2,), lambda i: te.const(1)), outer), x)
    want = np.ones(2, np.int64)
    with np.errstate(over="ignore"):
        for rows in x:
            poly = np.zeros(2, np.int64)
            for row in rows[::-1]:
                poly = poly * want + row
            want = poly + want
    np.testing.assert_array_equal(got, want)


def test_every_block_of_a_step_carries_the_time() -> None:
    function = te.lower(flash_attention(4, 4, 2, 2))
    for stmt in walk(function.body):
        if isinstance(stmt, ir.Block) and not stmt.name.endswith("_init") and stmt.name != "attention":
            assert stmt.axes[0].kind == "sequential"
            assert [axis.kind for axis in stmt.axes[1:]].count("sequential") == 0


def _simple(step: Callable[[Expr, te.Tensor], te.Tensor]) -> te.Tensor:
    return te.scan(3, ((4,), lambda i: 0.0), step, name="s")


def leaked_tensor() -> object:
    kept: list[te.Tensor] = []

    def step(t: Expr, s: te.Tensor) -> te.Tensor:
        kept.append(te.compute((4,), lambda i: s[i], name="inside"))
        return kept[0]

    _simple(step)
    return te.compute((4,), lambda i: kept[0][i])


def leaked_output() -> object:
    kept: list[te.Tensor] = []

    def step(t: Expr, s: te.Tensor) -> te.Tensor:
        kept.append(te.compute((4,), lambda i: s[i], name="inside"))
        return kept[0]

    _simple(step)
    return te.lower(kept[0])


def leaked_time() -> object:
    kept: list[Expr] = []

    def step(t: Expr, s: te.Tensor) -> te.Tensor:
        kept.append(t)
        return s

    _simple(step)
    return te.compute((4,), lambda i: i + kept[0])


def time_as_extent() -> object:
    return _simple(lambda t, s: te.compute((t,), lambda i: 0.0))


def unknown_keep() -> object:
    keep: Any = "some"
    return te.scan(3, ((), lambda: 0.0), lambda t, a: a, keep=keep)


def no_states() -> object:
    def step(t: Expr) -> tuple[te.Tensor, ...]:
        return ()

    return te.scan(3, [], cast("Any", step))


def an_element_for_a_state() -> object:
    def step(t: Expr, s: te.Tensor) -> Expr:
        return s[0]

    return _simple(cast("Any", step))


MISUSES: list[tuple[Callable[[], object], type[LpxError], str]] = [
    (leaked_tensor, DefinitionError, "inside has a meaning only within the step of scan s"),
    (leaked_output, DefinitionError, "inside has a meaning only within the step of scan s"),
    (leaked_time, DefinitionError, "uses the time t where it has no value"),
    (time_as_extent, ShapeError, "depends on the axis t"),
    (
        lambda: _simple(lambda t, s: te.compute((4,), lambda i: i)),
        DTypeError,
        "state s holds float32, but its new value T is int64",
    ),
    (
        lambda: _simple(lambda t, s: te.compute((5,), lambda i: 0.0)),
        ShapeError,
        re.escape("state s has shape [4], but its new value T has [5]"),
    ),
    (no_states, DefinitionError, "at least one state"),
    (
        lambda: te.scan(3, [((), lambda: 0.0)] * 2, lambda t, a, b: (a,)),
        DefinitionError,
        r"gives 1 tensor\(s\) for 2 state\(s\)",
    ),
    (
        lambda: te.scan(3, [((), lambda: 0.0)] * 2, lambda t, a: (a, a)),
        DefinitionError,
        r"one tensor per state \(1 \+ 2\), but it takes \(t, a\)",
    ),
    (unknown_keep, DefinitionError, 'keep is \'some\'(.|\n)*give "last" or "all"'),
    (lambda: te.scan(-1, ((), lambda: 0.0), lambda t, a: a), ShapeError, "an extent of a scan is -1"),
    (an_element_for_a_state, DTypeError, "the new value of state s is .*not a tensor"),
]


@pytest.mark.parametrize(("misuse", "error", "message"), MISUSES, ids=range(len(MISUSES)))
def test_misuse_is_explained(misuse: Callable[[], object], error: type[LpxError], message: str) -> None:
    with pytest.raises(error) as caught:
        misuse()
    assert re.search(message, str(caught.value))
    assert caught.value.span is not None
    assert caught.value.span.filename == __file__


def test_a_failing_step_leaves_no_scan_open() -> None:
    def step(t: Expr, s: te.Tensor) -> te.Tensor:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        _simple(step)
    A = te.placeholder((4,), name="A")
    assert te.compute((4,), lambda i: A[i]).op.scope == ()
