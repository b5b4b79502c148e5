"""Temporaries inside vectorized loops: each lane has its own."""

from __future__ import annotations

import numpy as np

import lpx
from lpx import te


def test_lanes_of_a_temporary_with_strides() -> None:
    a = te.placeholder((8, 3), name="A")
    t = te.compute((8, 3), lambda i, j: a[i, j] + 1.0, name="T")
    c = te.compute((8, 3), lambda i, j: t[i, j] * 2.0, name="C")
    s = lpx.create_schedule(c)
    i, _ = s.loops(c)
    s.compute_at(t, i)
    s.storage_align(t, 0, 4)
    s.vectorize(i)
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    np.testing.assert_array_equal(lpx.build(s)(x), (x + 1) * 2)
