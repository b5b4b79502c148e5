"""Transposes that run alone join axes that stay side by side, and move every element where NumPy does."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lpx
from lpx import dtypes
from lpx.graph.builder import GraphBuilder
from lpx.graph.nodes import Graph
from lpx.graph.permutations import merge_permuted_axes


def transpose(shape: tuple[int, ...], axes: tuple[int, ...], before: str = "") -> Graph:
    builder = GraphBuilder("transpose")
    x = builder.input(dtypes.float32, shape, "x")
    return builder.finish([builder.add("transpose", [builder.add(before, [x]) if before else x], axes=axes)])


def order_of(graph: Graph) -> list[tuple[tuple[object, ...], object]]:
    """The shape that each transpose reads, and its axes."""
    return [
        (n.inputs[0].shape, n.attrs["axes"])
        for n in graph.nodes
        if n.operator.name == "transpose" and n.inputs[0] is not None
    ]


@pytest.mark.parametrize(
    ("shape", "axes", "merged"),
    [
        ((2, 3, 4, 5), (0, 2, 3, 1), ((2, 3, 20), (0, 2, 1))),
        ((2, 3, 4, 5), (0, 3, 1, 2), ((2, 12, 5), (0, 2, 1))),
        ((2, 3, 4, 5), (2, 3, 0, 1), ((6, 20), (1, 0))),
        ((2, 1, 4, 1), (2, 1, 3, 0), ((2, 4), (1, 0))),
        ((1, 2, 1, 3, 4), (3, 4, 0, 1, 2), ((2, 12), (1, 0))),
        ((2, 3, 4), (2, 1, 0), ((2, 3, 4), (2, 1, 0))),
    ],
)
def test_what_is_joined(shape: tuple[int, ...], axes: tuple[int, ...], merged: object) -> None:
    assert order_of(merge_permuted_axes(transpose(shape, axes))) == [merged]


def test_a_transpose_of_what_its_kernel_computes_is_left_alone() -> None:
    graph = transpose((2, 3, 4, 5), (0, 2, 3, 1), before="exp")
    assert merge_permuted_axes(graph) is graph


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 3, 1, 5), (2, 1, 1, 1)])
@pytest.mark.parametrize("axes", list(permutations(range(4))))
def test_elements_are_where_numpy_puts_them(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    def turned(x: NDArray[Any]) -> NDArray[Any]:
        return np.transpose(x, axes)

    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(lpx.jit(turned)(x), turned(x))
