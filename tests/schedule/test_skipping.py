"""skip_idle: blocks that do not run where it makes no difference."""

from __future__ import annotations

import pytest

from lpx import te
from lpx.expr.nodes import Expr
from lpx.schedule import Schedule, create_schedule
from lpx.schedule.errors import BlockFormError, ConsumerError, OutputError
from lpx.schedule.testing import check_equivalent
from tests.schedule.compiled import check_compiled
from tests.schedule.support import confirm, elementwise
from tests.support import Golden


def triangle(m: int, n: int, shift: int = 0) -> te.Tensor:
    """C[i] = the sum of B[i, j] over j <= i + shift, where B = A * 2."""
    a, r = te.placeholder((m, n), name="A"), te.reduce_axis(n, name="r")
    b = te.compute((m, n), lambda i, j: a[i, j] * 2.0, name="B")
    return te.compute((m,), lambda i: te.sum(te.where(r <= i + shift, b[i, r], 0.0), axis=r), name="C")


def skip_both(s: Schedule) -> None:
    s.compute_at("B", s.loops("C")[0])
    s.decompose_reduction("C", s.loops("C")[1])
    s.skip_idle("C")
    s.skip_idle("B")


def test_idle_updates_and_what_nobody_reads(golden: Golden) -> None:
    confirm(golden, "skip_idle", triangle(6, 8, 1), skip_both)


def test_vectors_are_tested_as_a_whole(golden: Golden) -> None:
    def apply(s: Schedule) -> None:
        s.compute_at("B", s.loops("C")[0])
        s.vectorize(s.split(s.loops("B")[-1], 4)[1])
        s.skip_idle("B")

    confirm(golden, "skip_idle_in_vectors", triangle(6, 8), apply)


@pytest.mark.parametrize(
    ("m", "n", "shift"), [(3, 12, 0), (5, 9, 4), (9, 5, -2), (33, 33, 0), (17, 64, 47), (3, 40, -3)]
)
def test_compiled_triangles(m: int, n: int, shift: int) -> None:
    program = triangle(m, n, shift)
    s = create_schedule(program)
    s.compute_at("B", s.loops("C")[0])
    s.vectorize(s.split(s.loops("B")[-1], 8, tail="mask")[1])
    s.decompose_reduction("C", s.loops("C")[1])
    s.skip_idle("C")
    s.skip_idle("B")
    check_equivalent(te.lower(program), s.function)
    check_compiled(te.lower(program), s.function)


def test_readers_that_are_skipped_read_nothing() -> None:
    """B is read by D everywhere, but D only on a triangle: in vectors of two, B is needed one place further."""
    a, r = te.placeholder((6, 6), name="A"), te.reduce_axis(6, name="r")
    b = te.compute((6, 6), lambda i, j: a[i, j] * 2.0, name="B")
    d = te.compute((6, 6), lambda i, j: b[i, j] + 1.0, name="D")
    program = te.compute((6,), lambda i: te.max(te.where(r < i, d[i, r], float("-inf")), axis=r), name="C")
    s = create_schedule(program)
    with pytest.raises(ConsumerError, match="every instance of B counts"):
        s.skip_idle("B")
    s.vectorize(s.split(s.loops("D")[1], 2)[1])
    s.skip_idle("D")
    s.skip_idle("B")
    assert str(s).count(" where ") == 2
    check_equivalent(te.lower(program), s.function)


def test_several_readers_need_what_one_of_them_does(golden: Golden) -> None:
    """A sum up to the diagonal, and one up to two places further."""
    a, r, q = te.placeholder((6, 9), name="A"), te.reduce_axis(9, name="r"), te.reduce_axis(9, name="q")
    b = te.compute((6, 9), lambda i, j: a[i, j] * 2.0, name="B")
    near = te.compute((6,), lambda i: te.sum(te.where(r <= i, b[i, r], 0.0), axis=r), name="C")
    far = te.compute((6,), lambda i: te.sum(te.where(q <= i + 2, b[i, q], 0.0), axis=q), name="D")
    confirm(golden, "skip_idle_of_several_readers", [near, far], lambda s: s.skip_idle("B"))


def read_as(value: te.Scalar, instead: float, name: str = "C") -> te.Tensor:
    a, r = te.placeholder((4, 4), name="A"), te.reduce_axis(4, name="r")
    return te.compute((4,), lambda i: te.sum(te.where(r <= i, a[i, r] * value, instead), axis=r), name=name)


def test_what_counts_everywhere_is_not_skipped() -> None:
    s = create_schedule(read_as(te.const(1.0, "float32"), 1.0))
    s.decompose_reduction("C", s.loops("C")[1])
    with pytest.raises(OutputError, match="C is an output of the program, all of which somebody may read"):
        s.skip_idle("C")


def test_the_start_of_a_reduction_is_not_skipped() -> None:
    s = create_schedule(triangle(4, 4))
    with pytest.raises(BlockFormError, match="block C also starts its reduction"):
        s.skip_idle("C")


def test_what_is_read_everywhere_is_not_skipped() -> None:
    s = create_schedule(elementwise(4))
    with pytest.raises(ConsumerError, match="every instance of B counts"):
        s.skip_idle("B")


def test_one_reader_of_all_is_enough_to_refuse() -> None:
    a, r, q = te.placeholder((4, 4), name="A"), te.reduce_axis(4, name="r"), te.reduce_axis(4, name="q")
    b = te.compute((4, 4), lambda i, j: a[i, j] * 2.0, name="B")
    some = te.compute((4,), lambda i: te.sum(te.where(r <= i, b[i, r], 0.0), axis=r), name="C")
    every = te.compute((4,), lambda i: te.sum(b[i, q], axis=q), name="D")
    s = create_schedule([some, every])
    with pytest.raises(ConsumerError, match="every instance of B counts"):
        s.skip_idle("B")


def test_conditions_on_memory_do_not_count() -> None:
    a, mask = te.placeholder((4, 4), name="A"), te.placeholder((4, 4), "bool", name="M")
    r = te.reduce_axis(4, name="r")

    def at(i: Expr) -> Expr:
        return te.sum(te.where(mask[i, r], a[i, r], 0.0), axis=r)

    s = create_schedule(te.compute((4,), at, name="C"))
    s.decompose_reduction("C", s.loops("C")[1])
    with pytest.raises(OutputError):
        s.skip_idle("C")
