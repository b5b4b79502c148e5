"""Convolutions in groups get an axis for the groups, and what follows them keeps it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lpx
from lpx import dtypes, nn
from lpx.graph.builder import GraphBuilder
from lpx.graph.grouping import separate_groups
from lpx.graph.nodes import Graph

Array = NDArray[Any]


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def graph_of(channels: int, filters: int, groups: int) -> Graph:
    """relu(conv(x, w) * scale + x0), with one scale per filter and one x0 per pixel."""
    builder = GraphBuilder("block")
    x = builder.input(dtypes.float32, (2, channels, 6, 6), "x")
    w = builder.constant(draw(filters, channels // groups, 3, 3), "w")
    ones = {"strides": (1, 1), "dilations": (1, 1), "pads_before": (1, 1), "pads_after": (1, 1)}
    conv = builder.add("conv", [x, w], groups=groups, **ones)
    scaled = builder.add("mul", [conv, builder.constant(draw(filters, 1, 1), "scale")])
    added = builder.add("add", [scaled, builder.input(dtypes.float32, (2, 1, 6, 6), "x0")])
    return builder.finish([builder.add("relu", [added])])


def operators(graph: Graph) -> list[str]:
    return [n.operator.name for n in graph.nodes]


def test_what_follows_keeps_the_axis() -> None:
    found = separate_groups(graph_of(8, 12, 4))
    assert [n for n in operators(found) if n != "reshape"] == ["grouped_conv", "mul", "add", "relu"]
    relu = next(n for n in found.nodes if n.operator.name == "relu")
    assert relu.outputs[0].shape == (2, 4, 3, 6, 6)
    assert [v.shape for v in found.outputs] == [(2, 12, 6, 6)]


@pytest.mark.parametrize(("channels", "filters", "groups"), [(8, 12, 1), (8, 8, 8), (8, 16, 8)])
def test_one_group_and_one_channel_to_a_group_are_left_alone(channels: int, filters: int, groups: int) -> None:
    graph = graph_of(channels, filters, groups)
    assert separate_groups(graph) is graph


def test_a_residual_block_of_groups_computes_the_same() -> None:
    x, w, b = draw(2, 12, 9, 9), draw(18, 4, 3, 3, seed=1), draw(18, seed=2)

    def block(x: Array, w: Array, b: Array, y: Array) -> Any:
        return nn.conv2d(x, w, b, padding=1, groups=3, activation="relu") * 2 + y

    y = draw(2, 18, 9, 9, seed=3)
    parts = [nn.conv2d(x[:, 4 * g : 4 * g + 4], w[6 * g : 6 * g + 6], padding=1) for g in range(3)]
    want = np.maximum(np.concatenate(parts, axis=1) + b[:, None, None], 0) * 2 + y
    np.testing.assert_allclose(lpx.jit(block)(x, w, b, y), want, rtol=1e-5, atol=1e-5)
