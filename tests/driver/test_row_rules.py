"""Default schedules of row operations: what runs together, and what is asked for early."""

from __future__ import annotations

import pytest

from lpx import te
from lpx.rules import default
from lpx.schedule.testing import check_equivalent
from lpx.target import Target
from tests.schedule.compiled import check_compiled

HOST = Target.parse("cpu")


def normalised(m: int, n: int) -> te.Tensor:
    """Rows divided by the sum of their exponentials, as softmax without a maximum."""
    x = te.placeholder((m, n), name="X")
    r = te.reduce_axis(n, name="r")
    powers = te.compute((m, n), lambda i, j: te.exp(x[i, j]), name="P")
    total = te.compute((m,), lambda i: te.sum(powers[i, r], axis=r), name="S")
    return te.compute((m, n), lambda i, j: powers[i, j] / total[i], name="C")


@pytest.mark.parametrize(("m", "n"), [(3, 64), (3, 128), (2, 100), (2, 70), (2, 20)])
def test_a_row_is_added_up_while_it_is_computed(m: int, n: int) -> None:
    function = te.lower(normalised(m, n))
    made = default.default_schedule(function, HOST)
    assert any("S with it" in note for note in made.notes) == (n >= 32)
    check_equivalent(function, made.schedule.function, relative=1e-5)
    check_compiled(function, made.schedule.function, relative=1e-5)


def test_the_next_row_is_asked_for_where_rows_come_from_far() -> None:
    far = default.default_schedule(te.lower(normalised(4096, 256)), HOST)
    near = default.default_schedule(te.lower(normalised(16, 256)), HOST)
    assert any("the next row of X asked for by P" in note for note in far.notes)
    assert "prefetch" in str(far.schedule)
    assert "prefetch" not in str(near.schedule)
