"""Reshapes where memory changes hands, at the ends of a graph and between kernels: other names of one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from lpx.graph import shapes
from lpx.graph.editing import without_dead_nodes
from lpx.graph.nodes import Graph, Node, Value
from lpx.records import replace


def without_outer_reshapes(graph: Graph) -> Graph:
    """`graph` with inputs, constants and outputs in the shapes that its nodes use, in the same order.

    Memory is the same in either shape, so kernels of the result work on the arrays of `graph`.
    """
    users, kept = graph.users(), set(graph.outputs)
    renamed: dict[Value, Value] = {}
    for value in (*graph.inputs, *graph.constants):
        readers = users.get(value, [])
        if len(readers) == 1 and readers[0].operator.name == "reshape" and value not in kept and _is_static(value):
            (made,) = readers[0].outputs
            if made not in kept:
                renamed[value] = made
    nodes = [n for n in graph.nodes if not any(v in renamed for v in n.inputs)]
    inner = replace(
        graph,
        inputs=tuple(renamed.get(v, v) for v in graph.inputs),
        constants={renamed.get(v, v): reshaped(a, renamed.get(v, v)) for v, a in graph.constants.items()},
        nodes=tuple(nodes),
        outputs=_outputs(graph, nodes),
    )
    return without_dead_nodes(inner)


def _outputs(graph: Graph, nodes: Sequence[Node]) -> tuple[Value, ...]:
    makers = {value: node for node in nodes for value in node.outputs}
    found: list[Value] = []
    for value in graph.outputs:
        source = _source(makers.get(value))
        taken = source in graph.outputs or source in found
        found.append(value if source is None or source not in makers or taken or not _is_static(value) else source)
    return tuple(found)


def _source(node: Node | None) -> Value | None:
    """What a reshape reads; None for any other node."""
    return node.inputs[0] if node is not None and node.operator.name == "reshape" else None


def _is_static(value: Value) -> bool:
    return all(isinstance(d, int) for d in value.shape)


def reshaped(array: NDArray[Any], value: Value) -> NDArray[Any]:
    """`array` in the static shape of `value`."""
    return array.reshape(shapes.static(value.shape, "a constant"))


def root(value: Value, makers: Mapping[Value, Node], known: Mapping[Value, object]) -> Value:
    """The value whose memory `value` is: the first that is in `known`, or that no reshape makes."""
    while value not in known:
        source = _source(makers.get(value))
        if source is None:
            return value
        value = source
    return value
