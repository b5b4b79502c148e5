"""Matrix multiplication as libraries do it: five loops, both operands packed, a register tile, an epilogue in it."""

from __future__ import annotations

import numpy as np
import pytest

from lpx import te
from lpx.schedule import Schedule, create_schedule, replay
from tests.gallery.running import assert_close, check_small, compiled, random_array

ROWS, LANES = 4, 16  # the register tile
MC, KC, NC = 16, 32, 32  # blocks for the caches


def dense(m: int, k: int, n: int) -> te.Tensor:
    """relu(A B + bias)."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    bias = te.placeholder((n,), name="bias")
    r = te.reduce_axis(k, name="r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.compute((m, n), lambda i, j: te.maximum(c[i, j] + bias[j], 0.0), name="D")


def schedule_dense(s: Schedule) -> None:
    i, j, r = s.loops("C")
    ic, i = s.split(i, MC)
    jc, j = s.split(j, NC)
    rc, r = s.split(r, KC)
    ir, ii = s.split(i, ROWS)
    jr, ji = s.split(j, LANES)
    s.reorder(jc, rc, ic, jr, ir, r, ii, ji)
    s.vectorize(ji)
    s.unroll(ii)

    panels = s.pack("C", "B", lambda r, j: (j // LANES, r, j % LANES))
    s.compute_at(panels, rc)  # stays in the outer cache while all rows pass
    strips = s.pack("C", "A", lambda i, r: (i // ROWS, r, i % ROWS))
    s.compute_at(strips, ic)  # stays in the inner cache while the panels pass

    s.reverse_compute_at("D", jc)
    _, lanes = s.split(s.loops("D")[-1], LANES)
    s.vectorize(lanes)
    s.parallel(jc)


@pytest.mark.parametrize(("m", "k", "n"), [(16, 32, 32), (33, 70, 50), (5, 3, 40), (48, 64, 96)])
def test_dense(m: int, k: int, n: int) -> None:
    program = dense(m, k, n)
    s = create_schedule(program)
    schedule_dense(s)
    assert str(replay(s.trace, program)) == str(s)
    a, b, bias = random_array(m, k), random_array(k, n, seed=1), random_array(n, seed=2)
    (d,) = compiled(s, a, b, bias)
    assert_close(d, np.maximum(a @ b + bias, 0))


def test_dense_reads_nothing_unwritten() -> None:
    s = create_schedule(dense(5, 3, 17))
    schedule_dense(s)
    check_small(s, te.lower(dense(5, 3, 17)))
