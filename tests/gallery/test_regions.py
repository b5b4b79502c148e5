"""Two kernels whose threads start once: row sums, a barrier, and the division by them, all rows shared."""

from __future__ import annotations

from lpx import te
from lpx.schedule import Schedule, create_schedule
from tests.gallery.running import assert_close, check_small, compiled, random_array


def normalise_columns(m: int, n: int) -> te.Tensor:
    """X divided by the sums of its columns: the first kernel shares out columns, the second rows."""
    x = te.placeholder((m, n), name="X")
    r = te.reduce_axis(m, name="r")
    total = te.compute((n,), lambda j: te.sum(x[r, j], axis=r), name="total")
    return te.compute((m, n), lambda i, j: x[i, j] / total[j], name="Y")


def schedule_normalise(s: Schedule) -> None:
    j, r = s.loops("total")
    jo, ji = s.split(j, 16)
    s.reorder(jo, r, ji)
    i, lanes = s.loops("Y")
    s.vectorize(ji)
    s.vectorize(s.split(lanes, 16)[1])
    s.parallel(jo)
    s.parallel(i)
    s.parallel_region(jo, i)


def test_two_kernels_in_one_region() -> None:
    s = create_schedule(normalise_columns(30, 50))
    schedule_normalise(s)
    assert str(s).count("barrier region") == 1
    x = random_array(30, 50)
    (y,) = compiled(s, x)
    assert_close(y, x / x.sum(0))
    check_small(s, te.lower(normalise_columns(30, 50)))
