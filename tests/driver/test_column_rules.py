"""Default schedules of operations on columns: what runs together, around the edges of vectors and blocks."""

from __future__ import annotations

import numpy as np
import pytest

import lpx
from lpx import te
from lpx.rules import default
from lpx.schedule.testing import check_equivalent
from lpx.target import Target
from tests.schedule.compiled import check_compiled

HOST = Target.parse("cpu")


def softmax(a: int, n: int, m: int) -> te.Tensor:
    """Softmax of [a, n, m] along n."""
    x, r, q = te.placeholder((a, n, m), name="X"), te.reduce_axis(n, name="r"), te.reduce_axis(n, name="q")
    top = te.compute((a, m), lambda i, j: te.max(x[i, r, j], axis=r), name="T")
    powers = te.compute((a, n, m), lambda i, k, j: te.exp(x[i, k, j] - top[i, j]), name="P")
    total = te.compute((a, m), lambda i, j: te.sum(powers[i, q, j], axis=q), name="S")
    return te.compute((a, n, m), lambda i, k, j: powers[i, k, j] / total[i, j], name="C")


@pytest.mark.parametrize(("a", "n", "m"), [(2, 3, 64), (1, 5, 130), (3, 2, 16), (2, 7, 17), (2, 4, 3), (1, 33, 65)])
def test_columns_go_through_all_steps_together(a: int, n: int, m: int) -> None:
    function = te.lower(softmax(a, n, m))
    made = default.default_schedule(function, HOST)
    assert any(note.startswith("T, P, S, C: ") and "columns at a time" in note for note in made.notes)
    check_equivalent(function, made.schedule.function)
    check_compiled(function, made.schedule.function)


@pytest.mark.parametrize(
    ("shape", "axis"), [((40, 33), 0), ((2, 5, 6, 20), 1), ((2, 5, 6, 20), 2), ((3, 1, 18), 1), ((3, 5, 1), 1)]
)
def test_softmax_along_any_axis(shape: tuple[int, ...], axis: int) -> None:
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32) * 30
    powers = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    np.testing.assert_allclose(
        lpx.nn.softmax(x, axis=axis), powers / powers.sum(axis, keepdims=True), rtol=1e-5, atol=1e-30
    )


def test_columns_longer_than_a_cache_stay_apart() -> None:
    made = default.default_schedule(te.lower(softmax(1, 1 << 16, 64)), HOST)
    assert not any("columns at a time" in note for note in made.notes)
    assert any("stays in no cache" in note for note in made.notes)


def test_reductions_along_different_axes_stay_apart() -> None:
    x, r, q = te.placeholder((4, 6, 32), name="X"), te.reduce_axis(4, name="r"), te.reduce_axis(6, name="q")
    first = te.compute((6, 32), lambda k, j: te.sum(x[r, k, j], axis=r), name="F")
    second = te.compute((4, 32), lambda i, j: te.sum(x[i, q, j], axis=q), name="G")
    both = te.compute((4, 6, 32), lambda i, k, j: x[i, k, j] + first[k, j] * second[i, j], name="C")
    made = default.default_schedule(te.lower(both), HOST)
    assert not any("columns at a time" in note for note in made.notes)
    check_compiled(te.lower(both), made.schedule.function, relative=1e-5)
