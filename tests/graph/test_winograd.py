"""Winograd convolution: where it is used, what it computes, and how exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lpx
from lpx import dtypes, nn
from lpx.graph.builder import GraphBuilder
from lpx.graph.executable import compile_graph
from lpx.graph.nodes import Graph
from lpx.graph.operators.winograd import F2, F4, Algorithm
from lpx.graph.winograd import use_winograd
from lpx.runtime import arrays as generic
from lpx.target import Target

Array = NDArray[Any]
MACHINE = Target.parse("cpu:x86_64-unknown-linux-gnu/skylake-avx512").cpu


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def frozen(*shape: int, seed: int = 1) -> Array:
    array = draw(*shape, seed=seed)
    array.flags.writeable = False
    return array


def convolved(x: Array, w: Array, pad: int) -> Array:
    """The convolution in float64."""
    wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(2, 3))
    found: Array = np.einsum("nchwij,mcij->nmhw", windows, w.astype(np.float64), optimize=True)
    return found


def padded(w: Array) -> Callable[[Array], Array]:
    """A compiled convolution with one pixel of padding."""

    def conv(x: Array) -> Any:
        return nn.conv2d(x, w, padding=1)

    return lpx.jit(conv)


def error(got: Array, want: Array) -> float:
    """The largest difference relative to the largest magnitude."""
    return float(np.abs(got - want).max() / np.abs(want).max())


def graph_of(
    x: tuple[int, ...], w: tuple[int, ...], *, dtype: str = "float32", constant: bool = True, **attrs: Any
) -> Graph:
    given = {"strides": (1, 1), "dilations": (1, 1), "pads_before": (1, 1), "pads_after": (1, 1), "groups": 1, **attrs}
    builder = GraphBuilder("conv")
    image = builder.input(dtypes.parse(dtype), x, "x")
    array = np.zeros(w, dtype)
    filters = builder.constant(array, "w") if constant else builder.input(dtypes.parse(dtype), w, "w")
    return builder.finish([builder.add("conv", [image, filters], **given)])


@pytest.mark.parametrize(("channels", "size", "results"), [(64, 56, 4), (128, 28, 4), (256, 14, 2)])
def test_it_is_used_for_the_layers_of_a_resnet(channels: int, size: int, results: int) -> None:
    graph = graph_of((1, channels, size, size), (channels, channels, 3, 3))
    (node,) = use_winograd(graph, graph.constants, MACHINE).nodes
    assert (node.operator.name, node.attrs["results"]) == ("winograd_conv", results)


@pytest.mark.parametrize(
    ("x", "w", "other"),
    [
        ((1, 64, 56, 56), (64, 64, 3, 3), {"constant": False}),  # filters would be transformed at every call
        ((1, 64, 56, 56), (64, 64, 3, 3), {"strides": (2, 2)}),
        ((1, 64, 56, 56), (64, 64, 3, 3), {"dilations": (2, 2)}),
        ((1, 64, 56, 56), (64, 32, 3, 3), {"groups": 2}),
        ((1, 64, 56, 56), (64, 64, 3, 3), {"dtype": "float64"}),
        ((1, 64, 56, 56), (64, 64, 5, 5), {}),
        ((1, 64, 56, 56), (64, 64, 1, 3), {}),
        ((1, 3, 56, 56), (64, 3, 3, 3), {}),  # few channels
        ((1, 40, 56, 56), (40, 40, 3, 3), {}),  # no whole vectors of channels
        ((1, 512, 7, 7), (512, 512, 3, 3), {}),  # 17 MB of transformed filters
        ((1, 64, 4, 4), (64, 64, 3, 3), {}),  # transformed filters are read for four tiles
        ((1, 64, 2, 2), (64, 64, 3, 3), {}),  # a tile that is mostly thrown away
    ],
)
def test_where_it_is_not_used(x: tuple[int, ...], w: tuple[int, ...], other: dict[str, Any]) -> None:
    graph = graph_of(x, w, **other)
    assert use_winograd(graph, graph.constants, MACHINE) is graph


@pytest.mark.parametrize("algorithm", [F2, F4], ids=["F2", "F4"])
@pytest.mark.parametrize(
    ("size", "pad", "batch"), [((4, 4), 1, 1), ((5, 9), 0, 1), ((16, 17), 1, 3), ((23, 8), 2, 1), ((30, 31), 0, 2)]
)
def test_it_computes_the_convolution(size: tuple[int, int], pad: int, batch: int, algorithm: Algorithm) -> None:
    x, w = draw(batch, 32, *size), draw(32, 32, 3, 3, seed=1)
    builder = GraphBuilder("conv")
    operands = [builder.input(dtypes.float32, a.shape, name) for name, a in (("x", x), ("w", w))]
    pads = {"pads_before": (pad, pad), "pads_after": (pad, pad)}
    graph = builder.finish([builder.add("winograd_conv", operands, results=algorithm.results, **pads)])
    executable = compile_graph(graph, Target.parse("cpu"))
    got: Any = generic.call(executable.specialisation, (x, w), {})
    assert f"tiles of {algorithm.results} x" in executable.lowered().explain()
    assert error(got, convolved(x, w, pad)) < algorithm.error


def test_what_follows_is_applied_to_each_tile() -> None:
    w, bias = frozen(64, 32, 3, 3), frozen(64, seed=2)

    @lpx.jit
    def block(x: Array, residual: Array) -> Any:
        return nn.relu(nn.conv2d(x, w, bias, padding=1)) + residual

    x, residual = draw(1, 32, 18, 22), draw(1, 64, 18, 22, seed=3)
    want = np.maximum(convolved(x, w, 1) + bias[:, None, None], 0) + residual
    assert error(block(x, residual), want) < F4.error
    lowered = block.lower(x, residual)
    assert "Winograd tiles of 2 x 2 results" in lowered.explain()
    assert len(lowered.kernels) == 1


def test_strict_adds_up_what_it_is_told() -> None:
    w = frozen(32, 32, 3, 3)

    def conv(x: Array) -> Any:
        return nn.conv2d(x, w, padding=1)

    x = draw(1, 32, 12, 12)
    strict = lpx.jit(strict=True)(conv)
    assert "Winograd" not in strict.lower(x).explain()
    assert error(strict(x), convolved(x, w, 1)) < 1e-6
    assert "Winograd" in lpx.jit(conv).lower(x).explain()


def test_threads_do_not_change_results() -> None:
    conv, x = padded(frozen(64, 32, 3, 3)), draw(2, 32, 40, 40)
    before, results = lpx.get_num_threads(), list[Array]()
    try:
        for threads in (1, 2):
            lpx.set_num_threads(threads)
            results.append(conv(x))
    finally:
        lpx.set_num_threads(before)
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize(("channels", "size", "algorithm"), [(64, 56, F4), (256, 14, F2)])
def test_the_stated_error_holds_on_layers_of_a_resnet(channels: int, size: int, algorithm: Algorithm) -> None:
    w = frozen(channels, channels, 3, 3)
    x = draw(1, channels, size, size)
    assert error(padded(w)(x), convolved(x, w, 1)) < algorithm.error
