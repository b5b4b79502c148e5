"""Pointwise convolutions (one tap, no stride) over many pixels as matrix products, pixels in one axis.

    %2 = conv(%x, %w) ; %3 = add(%2, %b) ; %4 = relu(%3)
    ->
    %5 = matmul(reshape(%w), reshape(%x)) ; %6 = add(%5, reshape(%b)) ; %7 = relu(%6) ; %4 = reshape(%7)

Exact: every element is the same sum in the same order. Element-wise operators behind the product follow it to the flat
shape, so that they still run on its tiles; a reshape between kernels, or at an end of the graph, costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from lpx.graph.editing import make_node, without_dead_nodes
from lpx.graph.nodes import Graph, Node, Value
from lpx.graph.operators.definition import ints
from lpx.graph.shapes import Dim
from lpx.records import replace

FEWEST_PIXELS = 400
"""Pixels from which on the product is faster: its vectors run along pixels, and the last one is seldom full."""


def flatten_pointwise(graph: Graph) -> Graph:
    """`graph` with pointwise convolutions as products; itself when there are none."""
    if not any(_is_pointwise(node) for node in graph.nodes):
        return graph
    flattening = _Flattening()
    nodes = [made for node in graph.nodes for made in flattening.rewritten(node)]
    return without_dead_nodes(replace(graph, nodes=tuple(nodes)))


def _is_pointwise(node: Node) -> bool:
    if node.operator.name != "conv":
        return False
    x, w = node.inputs
    if x is None or w is None or not all(isinstance(d, int) for d in (*x.shape, *w.shape)):
        return False
    attrs, pixels = node.attrs, [d for d in x.shape[2:] if isinstance(d, int)]
    ones = (*w.shape[2:], *ints(attrs, "strides"), attrs["groups"])
    pads = (*ints(attrs, "pads_before"), *ints(attrs, "pads_after"))
    return all(n == 1 for n in ones) and not any(pads) and prod(pixels) >= FEWEST_PIXELS


class _Flattening:
    """Goes through a graph in order, and knows which values have a flat form."""

    def __init__(self) -> None:
        self._flat: dict[Value, Value] = {}
        self._reshapes: dict[tuple[Value, tuple[Dim, ...]], Value] = {}

    def rewritten(self, node: Node) -> list[Node]:
        """The nodes in place of `node`."""
        if _is_pointwise(node):
            return self._product(node)
        return self._follower(node) or [node]

    def _product(self, node: Node) -> list[Node]:
        x, w = (v for v in node.inputs if v is not None)
        rows = make_node("reshape", [w], {"shape": w.shape[:2]})
        columns, prepared = self._reshaped(x, _flat_shape(x.shape))
        product = make_node("matmul", [*rows.outputs, columns])
        return [rows, *prepared, product, self._unflattened(product, node.outputs[0])]

    def _follower(self, node: Node) -> list[Node] | None:
        """An element-wise operator on the flat form of its operands; None where it needs the pixels' places."""
        elementwise = node.operator.kind == "elementwise" and len(node.outputs) == 1
        if not elementwise or not any(v in self._flat for v in node.inputs):
            return None
        (result,) = node.outputs
        if any(v is not None and v in self._flat and v.shape != result.shape for v in node.inputs):
            return None
        operands: list[Value | None] = []
        made: list[Node] = []
        for value in node.inputs:
            shape = None if value is None else _operand_shape(value.shape, result.shape)
            if value is not None and shape is None:
                return None
            operand, prepared = (None, list[Node]()) if value is None or shape is None else self._reshaped(value, shape)
            operands.append(operand)
            made += prepared
        flat = Value(result.dtype, _flat_shape(result.shape))
        follower = Node(node.operator, tuple(operands), node.attrs, (flat,), node.span)
        return [*made, follower, self._unflattened(follower, result)]

    def _reshaped(self, value: Value, shape: tuple[Dim, ...]) -> tuple[Value, list[Node]]:
        """`value` in another shape, and the nodes that make it."""
        if value in self._flat and shape == self._flat[value].shape:
            return self._flat[value], []
        if value.shape == shape:
            return value, []
        if (value, shape) in self._reshapes:
            return self._reshapes[value, shape], []
        node = make_node("reshape", [value], {"shape": shape})
        self._reshapes[value, shape] = node.outputs[0]
        return node.outputs[0], [node]

    def _unflattened(self, node: Node, result: Value) -> Node:
        self._flat[result] = node.outputs[0]
        return make_node("reshape", node.outputs, {"shape": result.shape}, result)


def _flat_shape(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """[channels, pixels] of an image, [batch, channels, pixels] of several."""
    batch, channels, *pixels = shape
    flat = (channels, prod(d for d in pixels if isinstance(d, int)))
    return flat if batch == 1 else (batch, *flat)


def _operand_shape(shape: Sequence[Dim], result: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """The shape for an operand of a flat operator: flat too, or one number per channel, or one for all."""
    whole = (*(1,) * (len(result) - len(shape)), *shape)
    if whole == tuple(result):
        return _flat_shape(whole)
    if all(d == 1 for d in whole[2:]) and whole[1] in (1, result[1]) and whole[0] in (1, result[0]):
        return whole[1:3] if result[0] == 1 else whole[:3]
    return None
