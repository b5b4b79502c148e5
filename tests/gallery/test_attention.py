"""Causal attention in one pass over the keys, without a matrix of scores (Dao et al., 2022)."""

from __future__ import annotations

import numpy as np
import pytest

from lpx import te
from lpx.expr.nodes import Expr
from lpx.schedule import Schedule, create_schedule
from tests.gallery.running import Array, assert_close, check_small, compiled, random_array

BLOCK = 8  # keys that are looked at together


def causal_attention(n: int, d: int) -> te.Tensor:
    """softmax(Q K^T, with -inf where the key comes after the query) V, over n queries and keys, n a multiple of BLOCK.

    The scan carries, per query, the largest score so far, the sum of exponentials, and the weighted sum of values.
    """
    queries, keys, values = (te.placeholder((n, d), name=name) for name in "QKV")
    e, q = te.reduce_axis(d, name="e"), te.reduce_axis(BLOCK, name="q")

    def step(t: Expr, top: te.Tensor, total: te.Tensor, out: te.Tensor) -> tuple[te.Tensor, ...]:
        dots = te.compute((n, BLOCK), lambda i, j: te.sum(queries[i, e] * keys[t * BLOCK + j, e], axis=e), name="dots")
        score = te.compute(
            (n, BLOCK), lambda i, j: te.where(t * BLOCK + j <= i, dots[i, j], float("-inf")), name="score"
        )
        new = te.compute((n,), lambda i: te.max(score[i, q], axis=q, init=top[i]), name="new")
        weight = te.compute((n, BLOCK), lambda i, j: te.exp(score[i, j] - new[i]), name="weight")
        shrink = te.compute((n,), lambda i: te.exp(top[i] - new[i]), name="shrink")
        total_new = te.compute(
            (n,), lambda i: te.sum(weight[i, q], axis=q, init=total[i] * shrink[i]), name="total_new"
        )
        out_new = te.compute(
            (n, d),
            lambda i, c: te.sum(weight[i, q] * values[t * BLOCK + q, c], axis=q, init=out[i, c] * shrink[i]),
            name="out_new",
        )
        return new, total_new, out_new

    lowest: te.Init = ((n,), lambda i: float("-inf"))
    none: te.Init = ((n,), lambda i: 0.0)
    nothing: te.Init = ((n, d), lambda i, c: 0.0)
    _, total, out = te.scan(n // BLOCK, [lowest, none, nothing], step)
    return te.compute((n, d), lambda i, c: out[i, c] / total[i], name="attention")


def schedule_attention(s: Schedule) -> None:
    s.compute_inline("score")
    _, i, j, e = s.loops("dots")
    s.reorder(i, e, j)
    s.vectorize(j)
    s.vectorize(s.loops("weight")[2])
    _, i, c, q = s.loops("out_new")
    s.reorder(i, q, c)
    s.vectorize(c)
    for name in ("dots", "new", "weight", "total_new", "out_new"):
        s.parallel(s.loops(name)[1])  # loop 0 is the scan's


def attend(q: Array, k: Array, v: Array) -> Array:
    scores = np.where(np.tri(len(q), dtype=bool), q @ k.T, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    found: Array = weights @ v / weights.sum(1, keepdims=True)
    return found


@pytest.mark.parametrize(("n", "d"), [(8, 4), (32, 16)])
def test_causal_attention(n: int, d: int) -> None:
    s = create_schedule(causal_attention(n, d))
    schedule_attention(s)
    q, k, v = (random_array(n, d, seed=seed) for seed in range(3))
    (out,) = compiled(s, q, k, v)
    assert_close(out, attend(q, k, v))


def test_causal_attention_keeps_no_matrix_of_scores() -> None:
    s = create_schedule(causal_attention(16, 4))
    schedule_attention(s)
    assert "[16, 16]" not in str(s)
    check_small(s, te.lower(causal_attention(16, 4)))
