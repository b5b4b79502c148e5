"""Scans of element-wise steps: elements outside and time inside, to the bit what steps one after another give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lpx
from lpx import te
from lpx.rules import recurrences
from lpx.rules.default import DefaultSchedule, default_schedule
from lpx.target import Target
from tests.schedule.compiled import check_compiled

HOST = Target.parse("cpu")


def scheduled(program: te.Tensor) -> DefaultSchedule:
    function = te.lower(program)
    made = default_schedule(function, HOST)
    check_compiled(function, made.schedule.function)
    return made


def running(shape: tuple[int, int], axis: int, *, reverse: bool = False) -> te.Tensor:
    """Running sums of a matrix along one axis."""
    x = te.placeholder(shape, name="X")
    others = shape[1 - axis]
    steps = te.compute((shape[axis], others), lambda t, i: x[(t, i) if axis == 0 else (i, t)], name="steps")

    def step(t: te.Scalar, s: te.Tensor) -> te.Tensor:
        return te.compute((others,), lambda i: s[i] + steps[t, i], name="add")

    sums = te.scan(shape[axis], ((others,), lambda _: 0.0), step, keep="all", reverse=reverse, name="S")
    return sums if axis == 0 else te.compute(shape, lambda i, t: sums[t, i], name="C")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(32, 48), (5, 100), (37, 29)])
def test_time_along_rows(shape: tuple[int, int], reverse: bool) -> None:
    made = scheduled(running(shape, 1, reverse=reverse))
    assert any("turned over" in note for note in made.notes)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(32, 48), (100, 5), (37, 1100)])
def test_time_along_columns(shape: tuple[int, int], reverse: bool) -> None:
    made = scheduled(running(shape, 0, reverse=reverse))
    assert any("through all of time" in note for note in made.notes)


@pytest.mark.parametrize("shape", [(32, 512), (19, 300), (40, 257)])
def test_large_results_are_written_in_runs(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrences, "STREAM_FROM", 0)
    made = scheduled(running(shape, 1))
    assert "cache_write" in made.schedule.trace.as_python()


def test_steps_that_read_their_neighbours_stay_as_they_are() -> None:
    x = te.placeholder((34,), name="X")

    def step(_: te.Scalar, s: te.Tensor) -> te.Tensor:
        def at(i: te.Scalar) -> te.Scalar:
            inside = (i > 0) & (i < 33)
            return te.where(inside, s[te.maximum(i - 1, 0)] + s[te.minimum(i + 1, 33)], s[i])

        return te.compute((34,), at, name="next")

    made = scheduled(te.scan(5, x, step, name="S"))
    assert not any("through all of time" in note for note in made.notes)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((2, 33, 20), "float32"), ((3, 1, 70), "float64"), ((17, 40, 1), "float32"), ((3, 18, 9), "int32")],
)
def test_running_sums_are_those_of_numpy_to_the_bit(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    def sums(x: NDArray[Any]) -> NDArray[Any]:
        return np.cumsum(x, axis=axis)

    x = (np.random.default_rng(0).standard_normal(shape) * 100).astype(dtype)
    np.testing.assert_array_equal(lpx.jit(sums)(x), sums(x))
