"""Default schedules of row operations: what runs together, and what is asked for early."""

from __future__ import annotations

import pytest

from lpx import te
from lpx.expr.nodes import Expr
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


@pytest.mark.parametrize(("m", "n"), [(3, 64), (3, 128), (2, 100), (4, 70), (6, 48), (2, 20), (2, 16), (2, 12)])
def test_a_row_is_added_up_while_it_is_computed(m: int, n: int) -> None:
    function = te.lower(normalised(m, n))
    made = default.default_schedule(function, HOST)
    assert any("S with it" in note for note in made.notes) == (n > 16)
    check_equivalent(function, made.schedule.function, relative=1e-5)
    check_compiled(function, made.schedule.function, relative=1e-5)


@pytest.mark.parametrize(("m", "n", "group"), [(8, 64, 4), (6, 64, 2), (5, 64, 1), (8, 1 << 16, 1)])
def test_short_rows_take_each_step_together(m: int, n: int, group: int) -> None:
    made = default.default_schedule(te.lower(normalised(m, n)), HOST)
    assert any(f"{group} at a time" in note for note in made.notes) == (group > 1)


def test_the_next_row_is_asked_for_where_rows_come_from_far() -> None:
    far = default.default_schedule(te.lower(normalised(4096, 256)), HOST)
    near = default.default_schedule(te.lower(normalised(16, 256)), HOST)
    assert any("the next row of X asked for by P" in note for note in far.notes)
    assert any("the place of C asked for by S" in note for note in far.notes)
    assert str(far.schedule).count("prefetch") == 2
    assert "prefetch" not in str(near.schedule)


def pooled(size: int, kernel: int, stride: int, padding: int) -> te.Tensor:
    """Window maxima of images [2, 3, size, size + 1], padded with the lowest number."""
    x = te.placeholder((2, 3, size, size + 1), name="X")
    height, width = size + 2 * padding, size + 1 + 2 * padding

    def at(n: te.Scalar, c: te.Scalar, h: Expr, w: Expr) -> Expr:
        inside = (h >= padding) & (h < height - padding) & (w >= padding) & (w < width - padding)
        return te.where(inside, x[n, c, h - padding, w - padding], float("-inf"))

    padded = te.compute((2, 3, height, width), at, name="P") if padding else x
    r, q = te.reduce_axis(kernel, name="r"), te.reduce_axis(kernel, name="q")
    shape = (2, 3, (height - kernel) // stride + 1, (width - kernel) // stride + 1)
    return te.compute(
        shape, lambda n, c, h, w: te.max(padded[n, c, h * stride + r, w * stride + q], axis=[r, q]), name="C"
    )


@pytest.mark.parametrize("size", [5, 40, 150])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (3, 1, 1), (5, 3, 2)])
def test_windows_lie_side_by_side_in_lanes(size: int, kernel: int, stride: int, padding: int) -> None:
    function = te.lower(pooled(size, kernel, stride, padding))
    made = default.default_schedule(function, HOST)
    assert any("windows side by side in lanes" in note for note in made.notes)
    check_compiled(function, made.schedule.function)
    if size < 40:
        check_equivalent(function, made.schedule.function)


def test_long_windows_are_reduced_in_lanes() -> None:
    """A window of many elements is a row of its own."""
    x = te.placeholder((3, 200), name="X")
    r = te.reduce_axis(100, name="r")
    program = te.compute((3, 101), lambda i, j: te.sum(x[i, j + r], axis=r), name="C")
    made = default.default_schedule(te.lower(program), HOST)
    assert any("partial results in lanes" in note for note in made.notes)
    check_equivalent(te.lower(program), made.schedule.function, relative=1e-5)


def test_what_is_reduced_is_asked_for_early_where_it_comes_from_far() -> None:
    x = te.placeholder((1024, 1100), "int32", name="X")
    r = te.reduce_axis(1100, name="r")
    function = te.lower(te.compute((1024,), lambda i: te.sum(x[i, r], axis=r), name="C"))
    made = default.default_schedule(function, HOST)
    assert "prefetch" in str(made.schedule)
    check_compiled(function, made.schedule.function)
