"""Default schedules of two contractions with operations on rows between them: strips of rows."""

from __future__ import annotations

import numpy as np
import pytest

import lpx
from lpx import te
from lpx.rules import default
from lpx.target import Target
from tests.driver.programs import Array

HOST = Target.parse("cpu")


def chain(h: int, m: int, n: int, d: int, e: int, *, causal: bool, scaled: bool) -> te.Tensor:
    """softmax(Q K^T) V of h heads, perhaps of scaled queries, perhaps of keys up to each query."""
    q, k, v = (te.placeholder(s, name=x) for x, s in (("Q", (h, m, d)), ("K", (h, n, d)), ("V", (h, n, e))))
    r, a, b, c = (te.reduce_axis(x, name=y) for x, y in ((d, "r"), (n, "a"), (n, "b"), (n, "c")))
    rows = te.compute((h, m, d), lambda z, i, x: q[z, i, x] * 0.5, name="R") if scaled else q
    s = te.compute((h, m, n), lambda z, i, j: te.sum(rows[z, i, r] * k[z, j, r], axis=r), name="S")

    def seen(i: te.Scalar, j: te.Scalar, x: te.Scalar, instead: float) -> te.Scalar:
        return te.where(j <= i + (n - m), x, instead) if causal else x

    top = te.compute((h, m), lambda z, i: te.max(seen(i, a, s[z, i, a], float("-inf")), axis=a), name="T")
    p = te.compute((h, m, n), lambda z, i, j: te.exp(s[z, i, j] - top[z, i]), name="P")
    total = te.compute((h, m), lambda z, i: te.sum(seen(i, b, p[z, i, b], 0.0), axis=b), name="D")
    o = te.compute((h, m, e), lambda z, i, x: te.sum(seen(i, c, p[z, i, c] * v[z, c, x], 0.0), axis=c), name="O")
    return te.compute((h, m, e), lambda z, i, x: o[z, i, x] / total[z, i], name="A")


def reference(q: Array, k: Array, v: Array, *, causal: bool, scaled: bool) -> Array:
    scores = q.astype(np.float64) * (0.5 if scaled else 1.0) @ k.swapaxes(-1, -2)
    if causal:
        m, n = scores.shape[-2:]
        scores = np.where(np.tri(m, n, n - m, dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers @ v / powers.sum(-1, keepdims=True))


SHAPES = [
    (1, 8, 8, 4, 4),
    (2, 13, 31, 16, 16),
    (2, 14, 32, 32, 32),
    (1, 15, 33, 33, 33),
    (2, 30, 65, 8, 40),
    (1, 57, 57, 5, 3),
    (1, 240, 256, 16, 16),
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("h", "m", "n", "d", "e"), SHAPES)
def test_strips_around_the_edges_of_tiles(h: int, m: int, n: int, d: int, e: int, causal: bool) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(s, dtype=np.float32) for s in ((h, m, d), (h, n, d), (h, n, e)))
    scaled = m % 2 == 0
    program = chain(h, m, n, d, e, causal=causal, scaled=scaled)
    made = default.default_schedule(te.lower(program), HOST)
    (note,) = [x for x in made.notes if "from contraction to contraction" in x]
    assert ("left out" in note) == (causal and m > 14)  # the first strip, which looks at all panels, is not alone
    got = lpx.build(made.schedule)(q, k, v)
    np.testing.assert_allclose(got, reference(q, k, v, causal=causal, scaled=scaled), rtol=1e-4, atol=1e-5)


def test_products_that_nobody_looks_at_are_left_out() -> None:
    """Panels of keys after a strip of queries, exponentials, and values."""
    made = default.default_schedule(te.lower(chain(1, 280, 256, 16, 16, causal=True, scaled=False)), HOST)
    guarded = [line for line in str(made.schedule).splitlines() if "block " in line and "0 <= " in line]
    assert {line.split("block ")[1].split("(")[0] for line in guarded} >= {"S", "S_init", "T", "P", "D", "O"}


def test_no_matrix_of_scores_is_kept() -> None:
    forms = lpx.lower_program(chain(2, 280, 256, 64, 64, causal=True, scaled=True))
    lowered = [line.strip() for line in forms.ir.splitlines() if "alloc" in line]
    sizes = [eval(line.partition("[")[2].partition("]")[0].replace(",", "*")) for line in lowered]
    assert max(sizes) <= 256 * 64, lowered


def test_values_after_a_query_are_not_looked_at() -> None:
    q, k, v = (np.random.default_rng(s).standard_normal((1, 30, 16), dtype=np.float32) for s in range(3))
    bad_k, bad_v = k.copy(), v.copy()
    bad_k[:, 20:], bad_v[:, 20:] = np.nan, np.inf
    kernel = lpx.build(chain(1, 30, 30, 16, 16, causal=True, scaled=True))
    np.testing.assert_array_equal(kernel(q, bad_k, bad_v)[:, :20], kernel(q, k, v)[:, :20])
    assert not np.isfinite(kernel(q, bad_k, bad_v)[:, 20:]).any()


def test_a_score_read_elsewhere_keeps_contractions_apart() -> None:
    q, k, v = (te.placeholder((16, 16), name=x) for x in "QKV")
    r, c = te.reduce_axis(16, name="r"), te.reduce_axis(16, name="c")
    s = te.compute((16, 16), lambda i, j: te.sum(q[i, r] * k[j, r], axis=r), name="S")
    p = te.compute((16, 16), lambda i, j: te.exp(s[i, j]), name="P")
    o = te.compute((16, 16), lambda i, x: te.sum(p[i, c] * v[c, x], axis=c), name="O")
    made = default.default_schedule(te.lower([s, o]), HOST)
    assert not any("from contraction to contraction" in note for note in made.notes)
    kernel = lpx.build(made.schedule)
    a, b, d = (np.random.default_rng(s).standard_normal((16, 16), dtype=np.float32) for s in range(3))
    scores, out = kernel(a, b, d)
    np.testing.assert_allclose(scores, a @ b.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(out, np.exp((a @ b.T).astype(np.float64)) @ d, rtol=1e-3, atol=1e-2)
