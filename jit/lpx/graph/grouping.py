"""Convolutions in groups with an axis for the groups: filters of one group then read their images with one index each.

    %2 = conv(%x, %w, groups=g)   ->   %3 = grouped_conv(reshape(%x), reshape(%w)) ; %2 = reshape(%3)

Exact: every element is the same sum in the same order. Element-wise operators behind the convolution take the axis too,
so that they still run on its tiles. Groups of one channel are left alone: filters have nothing to share there.
"""

from __future__ import annotations

from typing import cast

from lpx.graph.editing import make_node, without_dead_nodes
from lpx.graph.nodes import Graph, Node, Value
from lpx.graph.shapes import Dim
from lpx.records import replace

Shape = tuple[Dim, ...]

WINDOW = ("strides", "dilations", "pads_before", "pads_after")
"""What a convolution in groups says of its windows."""


def separate_groups(graph: Graph) -> Graph:
    """`graph` with an axis for the groups of each convolution that has some; itself when there are none."""
    if not any(_is_grouped(node) for node in graph.nodes):
        return graph
    splitting = _Splitting()
    nodes = [made for node in graph.nodes for made in splitting.rewritten(node)]
    return without_dead_nodes(replace(graph, nodes=tuple(nodes)))


def _is_grouped(node: Node) -> bool:
    if node.operator.name != "conv" or node.attrs["groups"] == 1:
        return False
    shapes = [v.shape for v in (*node.inputs, *node.outputs) if v is not None]
    _, w, _ = shapes
    return w[1] != 1 and all(isinstance(d, int) for shape in shapes for d in shape)


class _Splitting:
    """Goes through a graph in order, and knows which values exist with an axis for groups, and how many these are."""

    def __init__(self) -> None:
        self._split: dict[Value, tuple[Value, int]] = {}

    def rewritten(self, node: Node) -> list[Node]:
        """The nodes in place of `node`."""
        if not _is_grouped(node):
            return self._follower(node) or [node]
        x, w = (v for v in node.inputs if v is not None)
        groups = cast("int", node.attrs["groups"])
        image, prepared = self._reshaped(x, _split(x.shape, 1, groups))
        filters = make_node("reshape", [w], {"shape": _split(w.shape, 0, groups)})
        conv = make_node("grouped_conv", [image, *filters.outputs], {name: node.attrs[name] for name in WINDOW})
        return [*prepared, filters, conv, self._joined(conv, node.outputs[0], groups)]

    def _follower(self, node: Node) -> list[Node] | None:
        """An element-wise operator with the axis of its operands; None where it needs channels in one."""
        given = [v for v in node.inputs if v is not None and v in self._split]
        if node.operator.kind != "elementwise" or len(node.outputs) != 1 or not given:
            return None
        (result,), (_, groups) = node.outputs, self._split[given[0]]
        operands: list[Value | None] = []
        made: list[Node] = []
        for value in node.inputs:
            shape = None if value is None else _in_groups(groups, value.shape, result.shape)
            if value is not None and shape is None:
                return None
            operand, prepared = (None, list[Node]()) if value is None or shape is None else self._reshaped(value, shape)
            operands.append(operand)
            made += prepared
        output = Value(result.dtype, _split(result.shape, 1, groups))
        follower = Node(node.operator, tuple(operands), node.attrs, (output,), node.span)
        return [*made, follower, self._joined(follower, result, groups)]

    def _reshaped(self, value: Value, shape: Shape) -> tuple[Value, list[Node]]:
        """`value` in another shape, and the node that makes it, if there is none yet."""
        if value in self._split and self._split[value][0].shape == shape:
            return self._split[value][0], []
        node = make_node("reshape", [value], {"shape": shape})
        return node.outputs[0], [node]

    def _joined(self, node: Node, result: Value, groups: int) -> Node:
        """The reshape that makes `result` from what `node` computes in groups."""
        self._split[result] = node.outputs[0], groups
        return make_node("reshape", node.outputs, {"shape": result.shape}, result)


def _split(shape: Shape, axis: int, groups: int) -> Shape:
    size = cast("int", shape[axis])
    return (*shape[:axis], groups, size // groups, *shape[axis + 1 :])


def _in_groups(groups: int, shape: Shape, result: Shape) -> Shape | None:
    """The shape for an operand of `result` with an axis for groups."""
    whole = (*(1,) * (len(result) - len(shape)), *shape)
    if len(whole) != len(result) or whole[1] not in (1, result[1]):
        return None
    return (whole[0], 1, 1, *whole[2:]) if whole[1] == 1 else _split(whole, 1, groups)
