"""Graphs the driver's tests compile: built by hand, and drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from lpx import dtypes, te
from lpx.graph import operators
from lpx.graph.builder import GraphBuilder, define_graph
from lpx.graph.nodes import Graph, Value
from lpx.ir.interpreter import interpret

Array = NDArray[Any]
ROWS, COLUMNS = 4, 6
assert operators.names()  # registers every operator

UNARY = ("tanh", "neg", "relu", "sigmoid")
BINARY = ("add", "sub", "max", "min")


def inputs_of(graph: Graph, seed: int = 0) -> list[Array]:
    """Small normally distributed numbers for the inputs of a static graph."""
    rng = np.random.default_rng(seed)
    return [0.5 * rng.standard_normal([int(str(d)) for d in v.shape], dtype=np.float32) for v in graph.inputs]


def interpreted(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """The outputs of a static graph as one function, not cut into kernels, in the reference interpreter."""
    tensors = define_graph(graph)
    sources = (*graph.inputs, *graph.constants)
    function = te.lower([tensors[v] for v in graph.outputs], [tensors[v] for v in sources])
    outputs = [np.empty([int(str(d)) for d in v.shape], v.dtype.to_numpy()) for v in graph.outputs]
    interpret(function, [*arrays, *graph.constants.values(), *outputs])
    return outputs


@st.composite
def random_graphs(draw: st.DrawFn) -> Graph:
    """Up to twelve nodes over matrices of one shape, rows' reductions and square products among them."""
    builder = GraphBuilder("drawn")
    square = builder.constant(np.linspace(-0.5, 0.5, COLUMNS * COLUMNS, dtype=np.float32).reshape(COLUMNS, COLUMNS))
    values = [builder.input(dtypes.float32, (ROWS, COLUMNS), f"x{k}") for k in range(draw(st.integers(1, 2)))]

    def any_value() -> Value:
        return draw(st.sampled_from(values))

    for _ in range(draw(st.integers(1, 12))):
        match draw(st.sampled_from(["unary", "binary", "row", "softmax", "matmul", "views"])):
            case "unary":
                made = builder.add(draw(st.sampled_from(UNARY)), [any_value()])
            case "binary":
                made = builder.add(draw(st.sampled_from(BINARY)), [any_value(), any_value()])
            case "row":
                largest = builder.add("reduce_max", [any_value()], axes=(1,), keepdims=True)
                made = builder.add("sub", [any_value(), largest])
            case "softmax":
                made = builder.add("softmax", [any_value()], axis=-1, log=False)
            case "matmul":
                made = builder.add("matmul", [any_value(), square])
            case _:
                turned = builder.add("transpose", [any_value()], axes=(1, 0))
                made = builder.add("tanh", [builder.add("reshape", [turned], shape=(ROWS, COLUMNS))])
        values.append(made)
    made_here = [v for v in values if v not in builder.sources]
    return builder.finish(draw(st.lists(st.sampled_from(made_here), min_size=1, max_size=3, unique_by=id)))
