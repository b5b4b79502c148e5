"""Fold constants: what depends on no input is computed once, when the model is compiled.

    %2 = transpose(%w) ; %3 = matmul(%x, %2)   ->   %3 = matmul(%x, %w')     with %w' the elements of %2

Exact: the elements are those the operators would have given at run time. A value that is much larger than the constants
it is made from (a broadcast, an `arange`) stays a node, because making it again is cheaper than reading it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx.graph.editing import constant_values, without_dead_nodes
from lpx.graph.nodes import Graph, Node, Value
from lpx.graph.operators import lookup
from lpx.graph.rewrites.evaluate import run_constants, size_of
from lpx.records import replace
from lpx.target import Target

GROWTH = 2
"""How many times larger than the constants it is made from a folded value may be."""

SMALL = 1024
"""A value with no more elements than this is folded however few constants it is made from."""


def fold_constants(graph: Graph, target: Target) -> Graph:
    """`graph` with every value that is worth it computed; `target` is this machine."""
    sources = constant_values(graph)
    folded = _worth_folding(graph, sources)
    if not folded:
        return graph
    constant_nodes = [n for n in graph.nodes if all(v in sources for v in n.outputs)]
    known = Graph("constants", (), tuple(constant_nodes), tuple(folded), graph.constants)
    arrays = dict(zip(folded, run_constants(without_dead_nodes(known), target), strict=True))
    return without_dead_nodes(_with_arrays(graph, arrays))


def _worth_folding(graph: Graph, sources: Mapping[Value, int]) -> list[Value]:
    """The values to compute: the last ones on each way from constants to what depends on inputs."""
    made = graph.producers()
    found: dict[Value, None] = {}
    waiting = [v for n in graph.nodes for v in n.inputs if v in sources and any(o not in sources for o in n.outputs)]
    waiting += [v for o in graph.outputs if o in sources and o in made for v in made[o].inputs if v is not None]
    seen: set[Value] = set()
    while waiting:
        value = waiting.pop()
        node = None if value is None else made.get(value)
        if value is None or value in seen or node is None or not node.inputs:
            continue
        seen.add(value)
        if size_of(value) <= max(GROWTH * sources[value], SMALL) and value not in graph.outputs:
            found[value] = None
        else:
            waiting.extend(node.inputs)
    return list(found)


def _with_arrays(graph: Graph, arrays: Mapping[Value, NDArray[Any]]) -> Graph:
    """`graph` with these values known. One of rank 0 becomes a number in the code of its users."""
    constants = dict(graph.constants)
    nodes: list[Node] = []
    for value, array in arrays.items():
        if array.ndim:
            constants[value] = array
        else:
            nodes.append(_number(value, array))
    nodes.extend(n for n in graph.nodes if any(v not in arrays for v in n.outputs))
    return replace(graph, nodes=tuple(nodes), constants=constants)


def _number(value: Value, array: NDArray[Any]) -> Node:
    number = array.astype(np.float64).item() if value.dtype.is_float else array.item()
    return Node(lookup("full"), (), {"shape": (), "value": number, "dtype": value.dtype.name}, (value,))
