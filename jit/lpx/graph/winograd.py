"""Convolutions that Winograd's algorithm makes faster: 3 x 3 filters known when compiling, and enough of everything.

    %2 = conv(%x, %w)   ->   %2 = winograd_conv(%x, %w, results=4)

Four results to a tile need fewest products, and four times the memory of the filters; on small images two do better,
whose transformed filters come from memory in less than half the time.

Not exact: see `operators.winograd.Algorithm.error`. A strict compilation leaves convolutions alone.
"""

from __future__ import annotations

from collections.abc import Container

from lpx import dtypes
from lpx.graph.editing import make_node
from lpx.graph.nodes import Graph, Node, Value
from lpx.graph.operators.definition import ints
from lpx.graph.operators.winograd import ALGORITHMS, Algorithm
from lpx.records import replace
from lpx.target import CpuMachine

FEWEST_CHANNELS = 32
"""Channels and filters from which on the products outweigh the transforms."""

READ = 40
"""Products that take as long as one element of the filters takes to come from memory."""


def use_winograd(graph: Graph, constants: Container[Value], machine: CpuMachine) -> Graph:
    """`graph` with Winograd's algorithm where it pays; itself where that is nowhere."""
    chosen = [_choose(node, constants, machine) for node in graph.nodes]
    if not any(chosen):
        return graph
    nodes = [_rewritten(n, a) if a is not None else n for n, a in zip(graph.nodes, chosen, strict=True)]
    return replace(graph, nodes=tuple(nodes))


def _rewritten(node: Node, algorithm: Algorithm) -> Node:
    pads = {name: node.attrs[name] for name in ("pads_before", "pads_after")}
    operands = [v for v in node.inputs if v is not None]
    return make_node("winograd_conv", operands, {"results": algorithm.results, **pads}, node.outputs[0])


def _choose(node: Node, constants: Container[Value], machine: CpuMachine) -> Algorithm | None:
    """The algorithm that pays for a node, if one does."""
    if node.operator.name != "conv":
        return None
    x, w = node.inputs
    if x is None or w is None or w not in constants or len(w.shape) != 4 or x.dtype != dtypes.float32:
        return None
    attrs, sizes = node.attrs, [d for d in (*w.shape, *x.shape, *node.outputs[0].shape) if isinstance(d, int)]
    if len(sizes) != 12 or tuple(sizes[2:4]) != (3, 3) or attrs["groups"] != 1:
        return None
    if any(n != 1 for n in (*ints(attrs, "strides"), *ints(attrs, "dilations"))):
        return None
    filters, channels, *_, height, width = sizes
    lanes = machine.lanes(x.dtype.bits)
    if channels % lanes or filters % (2 * lanes) or min(channels, filters) < FEWEST_CHANNELS:
        return None
    best = min(ALGORITHMS.values(), key=lambda a: _cost(a, height, width))
    return best if _cost(best, height, width) < 9 * (height * width + READ) else None


def _cost(algorithm: Algorithm, height: int, width: int) -> int:
    """Products for each channel and filter, and what reading transformed filters takes, as products.

    Filters come from memory: in a network, other layers have used the caches since the last time.
    """
    tiles = -(-height // algorithm.results) * -(-width // algorithm.results)
    return algorithm.points**2 * (tiles + READ)
