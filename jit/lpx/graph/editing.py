"""What rewrites share: making nodes, finding constants, dropping what is dead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lpx.graph.builder import infer
from lpx.graph.nodes import Graph, Node, Value
from lpx.graph.operator import AttrValue
from lpx.graph.operators import lookup
from lpx.records import replace


def make_node(
    name: str, inputs: Sequence[Value], attrs: Mapping[str, AttrValue] | None = None, output: Value | None = None
) -> Node:
    """A node with one output of the type that its definition gives; `output` lets it make a value that exists."""
    row, given = lookup(name), dict(attrs or {})
    ((dtype, shape),) = infer(row, inputs, given)
    return Node(row, tuple(inputs), given, (output or Value(dtype, shape),))


def constant_values(graph: Graph) -> dict[Value, int]:
    """The values that depend on no input, with the number of elements of the constants they are made from."""
    sources = {value: array.size for value, array in graph.constants.items()}
    for node in graph.nodes:
        if all(v is None or v in sources for v in node.inputs):
            size = sum(sources[v] for v in node.inputs if v is not None)
            sources.update(dict.fromkeys(node.outputs, size))
    return sources


def without_dead_nodes(graph: Graph) -> Graph:
    """`graph` with only the nodes and constants that its outputs need."""
    needed: set[Value] = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed.update(v for v in node.inputs if v is not None)
    constants = {v: a for v, a in graph.constants.items() if v in needed}
    return replace(graph, nodes=tuple(reversed(kept)), constants=constants)
