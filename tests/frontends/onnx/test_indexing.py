"""Handlers that read and write at computed places."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.onnx.support import Case, case, check, floats, integers, onnxruntime

X = floats(4, 5, 3)
CASES = [
    case("Gather", X, np.array([[0, -1], [2, 3]]), axis=1),
    case("Gather", X, np.array(2), axis=0),
    case("GatherElements", X, integers(4, 2, 3, low=-5, high=5), axis=1),
    case("GatherND", X, np.array([[0, 1], [-1, 4]])),
    case("GatherND", X, integers(4, 2, 1, low=-5, high=5), batch_dims=1),
    case("ScatterND", X, np.array([[1], [-1]]), floats(2, 5, 3, seed=1)),
    case("ScatterND", X, np.array([[1, 2], [1, 2], [0, -1]]), floats(3, 3, seed=1), reduction="add"),
    case("ScatterElements", X, integers(2, 5, 3, low=-4, high=4), floats(2, 5, 3, seed=1), axis=0, reduction="max"),
    case("ScatterElements", floats(3, 3), np.array([[1, 0, 2]]), floats(1, 3, seed=1)),
    case("TopK", floats(3, 7), np.array([3]), outputs=2),
    case("TopK", np.array([[3, 1, 2, 9], [1, 8, 7, 0]]), np.array([2]), axis=1, largest=0, outputs=2),
    case("ReverseSequence", floats(4, 3), np.array([1, 4, 2]), time_axis=0, batch_axis=1),
    case("ReverseSequence", floats(3, 4), np.array([1, 4, 2]), time_axis=1, batch_axis=0),
]


@pytest.mark.parametrize("c", CASES, ids=str)
def test_places(c: Case) -> None:
    check(c)


def test_gather_elements_of_part_of_the_data() -> None:
    """Axes other than the gathered one may be shorter in the indices."""
    check(case("GatherElements", X, integers(2, 4, 2, low=-4, high=4), axis=0), oracle=onnxruntime)
