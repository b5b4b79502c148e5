"""Merge additions of constants: a bias and a shift behind it become one.

    %2 = add(%1, %b) ; %3 = add(%2, %c)   ->   %3 = add(%1, %b + %c)

Not exact: %b + %c is rounded instead of %1 + %b. It is done where both constants have the shape of one another, in
float32 and float64.
"""

from __future__ import annotations

from lpx import dtypes
from lpx.graph.editing import constant_values, make_node, without_dead_nodes
from lpx.graph.nodes import Graph, Node, Value
from lpx.records import replace


def merge_additions(graph: Graph) -> Graph:
    """`graph` with runs of constant additions merged; itself when there are none."""
    constants, users = constant_values(graph), graph.users()
    outputs = set(graph.outputs)
    makers: dict[Value, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        made = _merged(node, makers, constants, users, outputs)
        nodes.extend(made or [node])
        makers.update({value: n for n in made or [node] for value in n.outputs})
        if made:
            constants[made[0].outputs[0]] = 0
    if len(nodes) == len(graph.nodes):
        return graph
    return without_dead_nodes(replace(graph, nodes=tuple(nodes)))


def _merged(
    node: Node,
    makers: dict[Value, Node],
    constants: dict[Value, int],
    users: dict[Value, list[Node]],
    outputs: set[Value],
) -> list[Node] | None:
    outer = _parts(node, constants)
    if outer is None or node.outputs[0].dtype not in (dtypes.float32, dtypes.float64):
        return None
    value, second = outer
    maker = makers.get(value)
    inner = None if maker is None or len(users[value]) > 1 or value in outputs else _parts(maker, constants)
    if inner is None or _extents(inner[1]) != _extents(second):
        return None
    total = make_node("add", [inner[1], second])
    return [total, make_node("add", [inner[0], *total.outputs], {}, node.outputs[0])]


def _parts(node: Node, constants: dict[Value, int]) -> tuple[Value, Value] | None:
    """The varying and the constant operand of an addition."""
    if node.operator.name != "add":
        return None
    a, b = node.inputs
    if a is None or b is None or (a in constants) == (b in constants):
        return None
    return (b, a) if a in constants else (a, b)


def _extents(value: Value) -> tuple[object, ...]:
    """The shape without leading ones, which broadcasting does not see."""
    shape = list(value.shape)
    while shape and isinstance(shape[0], int) and shape[0] == 1:
        shape.pop(0)
    return tuple(shape)
