"""Winograd convolution F(2x2, 3x3) (Lavin and Gray, 2015), all transforms of a tile fused with its products."""

from __future__ import annotations

import numpy as np

from lpx import te
from lpx.ir.nodes import Function
from lpx.schedule import Schedule, create_schedule
from tests.gallery.running import Array, assert_close, check_small, compiled, random_array

B_T = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], np.float32)
G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], np.float32)
A_T = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], np.float32)


def winograd(channels: int, features: int, height: int, width: int) -> Function:
    """Y[f, h, w] = sum of X[c, h + r, w + s] * W[f, c, r, s]; the output is height x width, both even."""
    x = te.placeholder((channels, height + 2, width + 2), name="X")
    w = te.placeholder((features, channels, 3, 3), name="W")
    b_t, g, a_t = te.constant(B_T, name="Bt"), te.constant(G, name="G"), te.constant(A_T, name="At")
    rows, columns = height // 2, width // 2

    r, s = te.reduce_axis(3, name="r"), te.reduce_axis(3, name="s")
    u = te.compute(
        (4, 4, features, channels),
        lambda a, b, f, c: te.sum(g[a, r] * w[f, c, r, s] * g[b, s], axis=(r, s)),
        name="U",
    )
    i, j = te.reduce_axis(4, name="i"), te.reduce_axis(4, name="j")
    v = te.compute(
        (rows, columns, channels, 4, 4),
        lambda p, q, c, a, b: te.sum(b_t[a, i] * x[c, p * 2 + i, q * 2 + j] * b_t[b, j], axis=(i, j)),
        name="V",
    )
    k = te.reduce_axis(channels, name="k")
    m = te.compute(
        (rows, columns, features, 4, 4),
        lambda p, q, f, a, b: te.sum(u[a, b, f, k] * v[p, q, k, a, b], axis=k),
        name="M",
    )
    a, b = te.reduce_axis(4, name="a"), te.reduce_axis(4, name="b")
    y = te.compute(
        (features, height, width),
        lambda f, h, w: te.sum(a_t[h % 2, a] * m[h // 2, w // 2, f, a, b] * a_t[w % 2, b], axis=(a, b)),
        name="Y",
    )
    return te.lower(y, [x, w])


def schedule_winograd(s: Schedule) -> None:
    f, h, w, *_ = s.loops("Y")
    p, h = s.split(h, 2)
    q, w = s.split(w, 2)
    s.reorder(p, q, f, h, w)
    s.compute_at("M", q)
    s.compute_at("V", q)
    s.vectorize(s.loops("M")[-2])
    s.parallel(p)


def direct(x: Array, w: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    found: Array = np.einsum("chwrs,fcrs->fhw", windows, w)
    return found


def test_winograd() -> None:
    s = create_schedule(winograd(4, 6, 8, 10))
    schedule_winograd(s)
    x, w = random_array(4, 10, 12), random_array(6, 4, 3, 3, seed=1)
    (y,) = compiled(s, x, w)
    assert_close(y, direct(x, w))


def test_winograd_computes_each_tile_where_it_is_used() -> None:
    s = create_schedule(winograd(2, 2, 4, 4))
    schedule_winograd(s)
    assert "alloc V: float32[2, 2, 2, 4, 4]" in str(s).split("for w_o", maxsplit=1)[1], "inside the loop over tiles"
    check_small(s, winograd(2, 2, 4, 4))
