"""Operands that lie across a reduction are copied to lie along it, where that pays."""

from __future__ import annotations

import pytest

from lpx import te
from lpx.rules.default import default_schedule
from lpx.schedule.testing import check_equivalent
from lpx.target import Target
from tests.schedule.compiled import check_compiled

HOST = Target.parse("cpu")


def vectors(batch: int, rows: int, length: int) -> te.Tensor:
    """A matrix by a vector for each of a batch, whose vectors are the columns of a matrix."""
    a, x = te.placeholder((batch, rows, length), name="A"), te.placeholder((length, batch), name="x")
    k = te.reduce_axis(length, name="k")
    return te.compute((batch, rows), lambda z, i: te.sum(a[z, i, k] * x[k, z], axis=k), name="C")


def notes(tensor: te.Tensor) -> list[str]:
    return default_schedule(te.lower(tensor), Target.parse("cpu:sapphirerapids")).notes


@pytest.mark.parametrize("shape", [(3, 5, 64), (16, 4, 33), (1, 7, 40), (2, 9, 7)])
def test_copied_operands_give_the_same(shape: tuple[int, int, int]) -> None:
    function = te.lower(vectors(*shape))
    made = default_schedule(function, HOST)
    check_equivalent(function, made.schedule.function, relative=1e-5)
    check_compiled(function, made.schedule.function, relative=1e-5)


def test_what_is_read_again_is_copied() -> None:
    assert "C: x copied to lie along vk" in notes(vectors(8, 16, 64))


def test_what_is_read_few_times_is_not() -> None:
    assert not any("copied to lie" in note for note in notes(vectors(8, 3, 64)))


def test_symbolic_extents_are_left_alone() -> None:
    n = te.var("n")
    a, x, k = te.placeholder((8, 16, n), name="A"), te.placeholder((n, 8), name="x"), te.reduce_axis(n, name="k")
    tensor = te.compute((8, 16), lambda z, i: te.sum(a[z, i, k] * x[k, z], axis=k), name="C")
    assert not any("copied to lie" in note for note in notes(tensor))


def test_rows_that_lie_side_by_side_are_rows_of_tiles() -> None:
    """Not the longer axis, along which each row would be a cache line of its own."""
    a, b, r = te.placeholder((64, 96, 24), name="A"), te.placeholder((96, 64), name="B"), te.reduce_axis(96, name="r")
    c = te.compute((64, 24, 64), lambda z, i, j: te.sum(a[z, r, i] * b[r, j], axis=r), name="C")
    assert any("register tiles of 12 x 32" in note for note in notes(c))
