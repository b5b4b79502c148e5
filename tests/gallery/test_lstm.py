"""A long short-term memory (Hochreiter and Schmidhuber, 1997) as a scan over time, gates as PyTorch orders them."""

from __future__ import annotations

import numpy as np
import pytest

from lpx import te
from lpx.expr.nodes import Expr
from lpx.ir.nodes import Function
from lpx.schedule import Schedule, create_schedule
from tests.gallery.running import Array, assert_close, check_small, compiled, random_array


def lstm(steps: int, batch: int, size: int, hidden: int) -> Function:
    """The outputs of every step, steps x batch x hidden, and the last cell."""
    x = te.placeholder((steps, batch, size), name="x")
    w, u = te.placeholder((4, size, hidden), name="W"), te.placeholder((4, hidden, hidden), name="U")
    k, q = te.reduce_axis(size, name="k"), te.reduce_axis(hidden, name="q")
    shape = (4, batch, hidden)

    # What the inputs contribute does not wait for the states: one matrix product for all steps.
    inner = te.compute((steps, *shape), lambda t, g, b, j: te.sum(x[t, b, k] * w[g, k, j], axis=k), name="inner")

    def step(t: Expr, h: te.Tensor, c: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
        gates = te.compute(
            shape, lambda g, b, j: te.sum(h[b, q] * u[g, q, j], axis=q, init=inner[t, g, b, j]), name="gates"
        )
        cell = te.compute(
            (batch, hidden),
            lambda b, j: te.sigmoid(gates[1, b, j]) * c[b, j] + te.sigmoid(gates[0, b, j]) * te.tanh(gates[2, b, j]),
            name="cell",
        )
        out = te.compute((batch, hidden), lambda b, j: te.sigmoid(gates[3, b, j]) * te.tanh(cell[b, j]), name="hidden")
        return out, cell

    zeros: te.Init = ((batch, hidden), lambda b, j: 0.0)
    outputs = te.scan(steps, [zeros, zeros], step, keep=("all", "last"))
    return te.lower(outputs, [x, w, u])


def schedule_lstm(s: Schedule) -> None:
    t, g, b, j, k = s.loops("inner")
    s.reorder(t, g, b, k, j)
    s.vectorize(j)
    s.parallel(t)
    _, g, b, j, q = s.loops("gates")
    s.reorder(g, b, q, j)
    s.vectorize(j)
    s.parallel(g)
    for name in ("cell", "hidden"):
        s.vectorize(s.loops(name)[-1])


def run_lstm(x: Array, w: Array, u: Array) -> tuple[Array, Array]:
    def sigmoid(v: Array) -> Array:
        return 1 / (1 + np.exp(-v))

    h, c = (np.zeros((x.shape[1], u.shape[1])) for _ in range(2))
    every: list[Array] = []
    for row in x:
        i, f, g, o = row @ w + h @ u
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        every.append(h)
    return np.stack(every), c


@pytest.mark.parametrize(("steps", "batch", "size", "hidden"), [(5, 2, 8, 16), (1, 1, 3, 5)])
def test_lstm(steps: int, batch: int, size: int, hidden: int) -> None:
    s = create_schedule(lstm(steps, batch, size, hidden))
    schedule_lstm(s)
    x, w, u = random_array(steps, batch, size), random_array(4, size, hidden), random_array(4, hidden, hidden)
    got = compiled(s, x, w, u)
    for have, want in zip(got, run_lstm(x, w, u), strict=True):
        assert_close(have, want)


def test_lstm_waits_for_the_state_before() -> None:
    s = create_schedule(lstm(2, 1, 2, 3))
    schedule_lstm(s)
    check_small(s, lstm(2, 1, 2, 3))
