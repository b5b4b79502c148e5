"""Contractions on fewer axes where that is the same, and reshapes between kernels as names of the same memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lpx
from lpx import dtypes, nn
from lpx.graph import aliases
from lpx.graph.builder import GraphBuilder
from lpx.graph.executable import compile_graph
from lpx.graph.flattening import flatten_products
from lpx.graph.nodes import Graph, Value
from lpx.runtime import arrays as generic
from lpx.target import Target

Array = NDArray[Any]
HOST = Target.parse("cpu")


def conv(builder: GraphBuilder, x: Value, w: Value, stride: int = 1, pad: int = 0) -> Value:
    steps, pads = (stride,) * 2, (pad,) * 2
    return builder.add("conv", [x, w], groups=1, strides=steps, dilations=(1, 1), pads_before=pads, pads_after=pads)


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def block(batch: int, pixels: int) -> tuple[Graph, list[Array], Callable[..., Array]]:
    """relu(w x + b) + x, of a size that is flattened."""
    builder = GraphBuilder("block")
    w, b = draw(8, 8, 1, 1), draw(8, 1, 1, seed=1)
    x = builder.input(dtypes.float32, (batch, 8, pixels, pixels), "x")
    biased = builder.add("add", [conv(builder, x, builder.constant(w, "w")), builder.constant(b, "b")])
    graph = builder.finish([builder.add("add", [builder.add("relu", [biased]), x])])

    def reference(x: Array) -> Array:
        found: Array = np.maximum(np.einsum("mc,nchw->nmhw", w[:, :, 0, 0], x) + b, 0) + x
        return found

    return graph, [draw(batch, 8, pixels, pixels, seed=2)], reference


def operators(graph: Graph) -> list[str]:
    return [n.operator.name for n in graph.nodes]


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("pixels", [20, 23])
def test_a_residual_block_runs_flat_as_one_kernel(batch: int, pixels: int) -> None:
    graph, inputs, reference = block(batch, pixels)
    inner = aliases.without_outer_reshapes(flatten_products(graph))
    assert operators(inner) == ["matmul", "add", "relu", "add"]
    assert inner.outputs[0].shape == ((8, pixels**2) if batch == 1 else (batch, 8, pixels**2))
    executable = compile_graph(graph, HOST)
    assert executable.kernels == 1
    got = generic.call(executable.specialisation, inputs, {})
    np.testing.assert_allclose(got, reference(*inputs), rtol=1e-5, atol=1e-5)
    assert got.shape == (batch, 8, pixels, pixels)


@pytest.mark.parametrize(
    ("size", "stride", "pad", "pixels"), [(1, 1, 0, 19), (1, 2, 0, 40), (1, 1, 1, 40), (3, 1, 0, 40)]
)
def test_other_convolutions_stay(size: int, stride: int, pad: int, pixels: int) -> None:
    builder = GraphBuilder("one")
    x = builder.input(dtypes.float32, (1, 4, pixels, pixels), "x")
    graph = builder.finish([conv(builder, x, builder.constant(draw(4, 4, size, size)), stride, pad)])
    assert flatten_products(graph) is graph


def test_what_needs_the_places_of_pixels_sees_them() -> None:
    """A bias per row of pixels, and a window behind the product."""
    w, b, v = draw(8, 8, 1, 1), draw(1, 1, 24, 1, seed=1), draw(8, 8, 3, 3, seed=3)
    for array in (w, b, v):
        array.flags.writeable = False

    @lpx.jit
    def block(x: Array) -> Any:
        return nn.conv2d(nn.conv2d(x, w) + b, v, padding=1)

    x = draw(1, 8, 24, 24, seed=2)
    flat = np.einsum("mc,nchw->nmhw", w[:, :, 0, 0], x) + b
    padded = np.pad(flat, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    np.testing.assert_allclose(block(x), np.einsum("mcij,nchwij->nmhw", v, windows), rtol=1e-4, atol=1e-3)


def test_results_do_not_depend_on_being_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same sums in the same order, to the bit."""
    graph, inputs, _ = block(1, 24)
    flat = generic.call(compile_graph(graph, HOST).specialisation, inputs, {})

    def unchanged(graph: Graph) -> Graph:
        return graph

    monkeypatch.setattr("lpx.graph.executable.flatten_products", unchanged)
    np.testing.assert_array_equal(flat, generic.call(compile_graph(graph, HOST).specialisation, inputs, {}))


@pytest.mark.parametrize(
    ("subscripts", "shapes", "flat"),
    [
        ("bchw,oc->bohw", [(2, 5, 3, 4), (6, 5)], [("bch", "oc"), "boh"]),
        ("bhqd,bkd->bhqk", [(2, 3, 4, 5), (2, 7, 5)], [("bhd", "bkd"), "bhk"]),
        ("nchw,ochw->no", [(2, 3, 4, 5), (6, 3, 4, 5)], [("nc", "oc"), "no"]),
        ("abij,jkl->abikl", [(2, 3, 4, 5), (5, 2, 3)], [("aj", "jk"), "ak"]),
    ],
)
def test_labels_that_stay_together_are_one(subscripts: str, shapes: list[tuple[int, ...]], flat: list[Any]) -> None:
    operands = [draw(*shape, seed=k) for k, shape in enumerate(shapes)]
    graph = einsum(subscripts, shapes)
    (node,) = [n for n in flatten_products(graph).nodes if n.operator.name == "einsum"]
    assert [node.attrs["terms"], node.attrs["result"]] == flat
    got = generic.call(compile_graph(graph, HOST).specialisation, operands, {})
    np.testing.assert_allclose(got, np.einsum(subscripts, *operands), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),  # b and h are of both: batches
        ("bchw,ocw->boh", [(2, 5, 3, 4), (6, 5, 4)]),
        ("iij,jk->ik", [(3, 3, 4), (4, 5)]),
        ("bhw,cwh->bc", [(2, 3, 4), (5, 4, 3)]),
        ("ahw,bhw->ab", [(2, 1, 4), (3, 5, 4)]),  # h is stretched
    ],
)
def test_other_labels_stay_apart(subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    graph = einsum(subscripts, shapes)
    assert flatten_products(graph) is graph


def einsum(subscripts: str, shapes: list[tuple[int, ...]]) -> Graph:
    """A graph of one einsum."""
    builder = GraphBuilder("einsum")
    operands = [builder.input(dtypes.float32, shape, f"x{k}") for k, shape in enumerate(shapes)]
    terms, result = subscripts.split("->")
    return builder.finish([builder.add("einsum", operands, terms=tuple(terms.split(",")), result=result)])


def test_matrices_by_one_matrix_are_one_matrix_with_what_makes_and_uses_it() -> None:
    """Ahead of the product an operator of its own and one that is a matrix already, a bias and a residual behind."""
    builder = GraphBuilder("layer")
    x = builder.input(dtypes.float32, (2, 5, 8), "x")
    w = builder.input(dtypes.float32, (8, 8), "w")
    b = builder.input(dtypes.float32, (8,), "b")
    scaled = builder.add("mul", [builder.add("exp", [x]), b])
    product = builder.add("add", [builder.add("matmul", [scaled, w]), b])
    graph = builder.finish([builder.add("add", [product, x])])
    inner = aliases.without_outer_reshapes(flatten_products(graph))
    assert [n.outputs[0].shape for n in inner.nodes if n.operator.name != "reshape"] == [(10, 8)] * 5
    inputs = [draw(2, 5, 8), draw(8, 8, seed=1), draw(8, seed=2)]
    x_, w_, b_ = inputs
    executable = compile_graph(graph, HOST)
    got = generic.call(executable.specialisation, inputs, {})
    np.testing.assert_allclose(got, (np.exp(x_) * b_) @ w_ + b_ + x_, rtol=1e-4, atol=1e-4)
    assert executable.kernels == 2  # what makes the operand, and the product


def test_an_operand_read_through_a_transpose_keeps_its_axes() -> None:
    builder = GraphBuilder("heads")
    x = builder.input(dtypes.float32, (2, 3, 4, 5), "x")
    turned = builder.add("transpose", [x], axes=(0, 2, 1, 3))
    graph = builder.finish([builder.add("matmul", [turned, builder.input(dtypes.float32, (5, 6), "w")])])
    assert flatten_products(graph) is graph


def reshapes() -> Graph:
    """Two kernels with reshapes before, between and behind them, of arguments, constants and results."""
    builder = GraphBuilder("reshapes")
    x = builder.input(dtypes.float32, (4, 6), "x")
    w = builder.constant(draw(1, 6, 6), "w")
    first = builder.add("matmul", [x, builder.add("reshape", [w], shape=(6, 6))])
    turned = builder.add("reshape", [first], shape=(6, 4))
    second = builder.add("matmul", [turned, builder.add("reshape", [x], shape=(4, 6))])
    return builder.finish(
        [builder.add("reshape", [second], shape=(36,)), builder.add("reshape", [second], shape=(9, 4))]
    )


def test_reshapes_between_kernels_are_no_kernels() -> None:
    graph, x = reshapes(), draw(4, 6, seed=5)
    executable = compile_graph(graph, HOST)
    (w,) = graph.constants.values()
    first = x @ w[0]
    second = first.reshape(6, 4) @ x.reshape(4, 6)
    a, b = generic.call(executable.specialisation, [x], {})
    np.testing.assert_allclose(a, second.reshape(36), rtol=1e-4)
    np.testing.assert_allclose(b, second.reshape(9, 4), rtol=1e-4)
    assert executable.kernels <= 3  # two products, and one of the results copied: they are two arrays


def test_an_argument_that_is_only_reshaped_and_returned() -> None:
    builder = GraphBuilder("same")
    x = builder.input(dtypes.float32, (2, 3), "x")
    executable = compile_graph(builder.finish([builder.add("reshape", [x], shape=(6,)), x]), HOST)
    array = draw(2, 3)
    flat, same = generic.call(executable.specialisation, [array], {})
    np.testing.assert_array_equal(flat, array.ravel())
    np.testing.assert_array_equal(same, array)


def test_a_constant_in_two_shapes() -> None:
    builder = GraphBuilder("shapes")
    x = builder.input(dtypes.float32, (6, 6), "x")
    w = builder.constant(draw(36), "w")
    square = builder.add("reshape", [w], shape=(6, 6))
    long = builder.add("reshape", [w], shape=(6, 2, 3))
    rows = builder.add("reshape", [long], shape=(12, 3))
    columns = builder.add("reshape", [w], shape=(3, 12))
    graph = builder.finish([builder.add("matmul", [x, square]), builder.add("matmul", [rows, columns])])
    array, constant, executable = draw(6, 6, seed=1), draw(36), compile_graph(graph, HOST)
    a, b = generic.call(executable.specialisation, [array], {})
    np.testing.assert_allclose(a, array @ constant.reshape(6, 6), rtol=1e-4)
    np.testing.assert_allclose(b, constant.reshape(12, 3) @ constant.reshape(3, 12), rtol=1e-4)
