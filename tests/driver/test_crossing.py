"""Transposes: every way of turning tiles over moves every element to its place, around the edges of tiles too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lpx
from lpx import te
from lpx.expr.nodes import Expr
from lpx.rules import crossing, elementwise
from lpx.rules.default import DefaultSchedule, default_schedule
from lpx.target import Target
from tests.schedule.compiled import check_compiled

HOST = Target.parse("cpu")


def permuted(shape: Sequence[int], order: Sequence[int], dtype: str = "float32") -> te.Tensor:
    x = te.placeholder(tuple(shape), dtype, name="X")
    place = [order.index(axis) for axis in range(len(order))]

    def at(*i: Expr) -> Expr:
        return x[tuple(i[p] for p in place)]

    return te.compute(tuple(shape[a] for a in order), at, name="C")


def scheduled(program: te.Tensor) -> DefaultSchedule:
    function = te.lower(program)
    made = default_schedule(function, HOST)
    check_compiled(function, made.schedule.function)
    return made


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything counts as larger than caches."""
    for module in (crossing, elementwise):
        monkeypatch.setattr(module, "STREAM_FROM", 0)


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((256, 64), "float32"),
        ((257, 193), "float32"),
        ((530, 129), "float64"),
        ((300, 150), "float16"),
        ((1030, 270), "uint8"),
    ],
)
def test_blocks_that_stay_in_a_cache(shape: tuple[int, int], dtype: str) -> None:
    made = scheduled(permuted(shape, (1, 0), dtype))
    assert any("by way of blocks" in note for note in made.notes)
    assert "prefetch" in made.schedule.trace.as_python()


@pytest.mark.usefixtures("far")
def test_results_are_stored_past_the_caches_where_rows_are_long() -> None:
    long, short = scheduled(permuted((257, 64), (1, 0))), scheduled(permuted((60, 64), (1, 0)))
    assert "nontemporal" in str(long.schedule)
    assert "nontemporal" not in str(short.schedule)


@pytest.mark.usefixtures("far")
def test_an_operand_that_lies_along_the_result_is_not_asked_for() -> None:
    x, y = te.placeholder((130, 70), name="X"), te.placeholder((70, 130), name="Y")
    made = scheduled(te.compute((70, 130), lambda i, j: x[j, i] + y[i, j], name="C"))
    assert made.schedule.trace.as_python().count("prefetch") == 1


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("order", [(0, 2, 1), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_axes_around_a_tile(order: tuple[int, ...]) -> None:
    scheduled(permuted((40, 37, 66), order))


@pytest.mark.parametrize("order", [(0, 2, 1), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_small_tiles(order: tuple[int, ...]) -> None:
    made = scheduled(permuted((20, 37, 66), order))
    assert any("tiles of" in note for note in made.notes)
    assert "by way of blocks" not in " ".join(made.notes)


@pytest.mark.parametrize("width", [2, 3, 8])
@pytest.mark.parametrize("length", [5, 64, 100])
def test_short_rows_are_vectors_as_a_whole(width: int, length: int) -> None:
    made = scheduled(permuted((2, width, length), (0, 2, 1)))
    assert any(f"vectors of rows of {width}" in note for note in made.notes)


def test_short_rows_of_bytes_are_tiles() -> None:
    made = scheduled(permuted((3, 100), (1, 0), "uint8"))
    assert any("tiles of" in note for note in made.notes)


def turned(x: NDArray[Any]) -> NDArray[Any]:
    return x.T


def test_a_large_transpose_through_the_front_door() -> None:
    x = np.arange(1100 * 2060, dtype=np.float32).reshape(1100, 2060)
    np.testing.assert_array_equal(lpx.jit(turned)(x), turned(x))
