"""Convolutions that Winograd's algorithm makes faster: 3 x 3 filters known when compiling, and enough of everything.

    %2 = conv(%x, %w)   ->   %2 = winograd_conv(%x, %w, results=4)

Not exact: see `operators.winograd.Algorithm.error`. A strict compilation leaves convolutions alone.
"""

from __future__ import annotations

from collections.abc import Container

from lpx import dtypes
from lpx.graph.editing import make_node
from lpx.graph.nodes import Graph, Node, Value
from lpx.graph.operators.definition import ints
from lpx.graph.operators.winograd import F4, Algorithm
from lpx.records import replace
from lpx.target import CpuMachine

FEWEST_CHANNELS = 32
"""Channels and filters from which on the products outweigh the transforms."""

LEAST_SAVED = 2.0
"""How many times fewer products it must need, whole tiles counted."""

MOST_FILTER_BYTES = 12 << 20
"""Transformed filters take 4 times the memory of the filters; beyond this they come too slowly."""


def use_winograd(graph: Graph, constants: Container[Value], machine: CpuMachine) -> Graph:
    """`graph` with Winograd's algorithm where it pays; itself where that is nowhere."""
    nodes = [_rewritten(node) if _pays(node, constants, machine) else node for node in graph.nodes]
    return graph if all(a is b for a, b in zip(nodes, graph.nodes, strict=True)) else replace(graph, nodes=tuple(nodes))


def _rewritten(node: Node) -> Node:
    pads = {name: node.attrs[name] for name in ("pads_before", "pads_after")}
    operands = [v for v in node.inputs if v is not None]
    return make_node("winograd_conv", operands, {"results": F4.results, **pads}, node.outputs[0])


def _pays(node: Node, constants: Container[Value], machine: CpuMachine) -> bool:
    if node.operator.name != "conv":
        return False
    x, w = node.inputs
    if x is None or w is None or w not in constants or len(w.shape) != 4 or x.dtype != dtypes.float32:
        return False
    attrs, sizes = node.attrs, [d for d in (*w.shape, *x.shape, *node.outputs[0].shape) if isinstance(d, int)]
    if len(sizes) != 12 or tuple(sizes[2:4]) != (3, 3) or attrs["groups"] != 1:
        return False
    if any(n != 1 for n in (*ints(attrs, "strides"), *ints(attrs, "dilations"))):
        return False
    filters, channels, *_, height, width = sizes
    lanes = machine.lanes(x.dtype.bits)
    fits = channels % lanes == 0 and filters % (2 * lanes) == 0 and min(channels, filters) >= FEWEST_CHANNELS
    held = F4.points**2 * channels * filters * x.dtype.itemsize
    return fits and held <= MOST_FILTER_BYTES and _saved(F4, height, width) >= LEAST_SAVED


def _saved(algorithm: Algorithm, height: int, width: int) -> float:
    """Products of the plain convolution for each one of the algorithm."""
    tiles = -(-height // algorithm.results) * -(-width // algorithm.results)
    return 9 * height * width / max(1, tiles * algorithm.points**2)
