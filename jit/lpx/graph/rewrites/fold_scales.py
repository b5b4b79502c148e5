"""Fold a factor per channel behind a convolution, such as batch normalisation leaves, into its weights.

    %2 = conv(%x, %w) ; %3 = mul(%2, %s)                       ->   %3 = conv(%x, %w * %s)
    %2 = conv(%x, %w) ; %3 = add(%2, %b) ; %4 = mul(%3, %s)    ->   %4 = add(conv(%x, %w * %s), %b * %s)

Not exact: each weight is rounded once more, and the sum is not rounded before it is scaled, so that results differ by a
few units in the last place of the largest product. It is done for float32 and float64 with constant weights.
"""

from __future__ import annotations

from lpx import dtypes
from lpx.graph.editing import constant_values, make_node, without_dead_nodes
from lpx.graph.nodes import Graph, Node, Value
from lpx.records import record, replace


def fold_scales(graph: Graph) -> Graph:
    """`graph` with factors in the weights; itself when there is nothing to fold."""
    matcher = _Matcher(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.extend(matcher.rewritten(node) or [node])
    if len(nodes) == len(graph.nodes):
        return graph
    return without_dead_nodes(replace(graph, nodes=tuple(nodes)))


@record
class _Scaled:
    """A convolution whose result is only used once shifted by `shift` (if any) and then scaled by `factor`."""

    conv: Node
    shift: Value | None
    factor: Value


class _Matcher:
    def __init__(self, graph: Graph) -> None:
        self._constants = constant_values(graph)
        self._producers = graph.producers()
        self._users = graph.users()
        self._outputs = set(graph.outputs)

    def rewritten(self, node: Node) -> list[Node] | None:
        """The nodes in place of a `mul` that can be folded; None for any other node."""
        found = self._match(node)
        if found is None:
            return None
        x, weights = found.conv.inputs
        if x is None or weights is None:
            return None
        (result,) = node.outputs
        rank = len(weights.shape)
        spread = make_node("reshape", [found.factor], {"shape": (_size(found.factor), *(1,) * (rank - 1))})
        product = make_node("mul", [weights, *spread.outputs])
        operands = [x, *product.outputs]
        if found.shift is None:
            return [spread, product, make_node("conv", operands, found.conv.attrs, result)]
        conv = make_node("conv", operands, found.conv.attrs)
        shift = make_node("mul", [found.shift, found.factor])
        return [spread, product, conv, shift, make_node("add", [*conv.outputs, *shift.outputs], {}, result)]

    def _match(self, node: Node) -> _Scaled | None:
        value, factor = self._with_constant(node, "mul")
        if value is None or factor is None or value.dtype not in (dtypes.float32, dtypes.float64):
            return None
        inner, shift = self._only_here(value), None
        if inner is not None and inner.operator.name == "add":
            value, shift = self._with_constant(inner, "add")
            inner = None if value is None else self._only_here(value)
        if inner is None or inner.operator.name != "conv" or inner.inputs[1] not in self._constants:
            return None
        rank = len(inner.outputs[0].shape)
        if not _is_per_channel(factor, rank) or (shift is not None and not _is_per_channel(shift, rank)):
            return None
        return _Scaled(inner, shift, factor)

    def _with_constant(self, node: Node, name: str) -> tuple[Value | None, Value | None]:
        """The operand of a binary node that varies, and the one that does not."""
        if node.operator.name != name:
            return None, None
        a, b = node.inputs
        if a is None or b is None or (a in self._constants) == (b in self._constants):
            return None, None
        return (b, a) if a in self._constants else (a, b)

    def _only_here(self, value: Value) -> Node | None:
        """The node that makes a value, if it is used once."""
        return self._producers.get(value) if len(self._users[value]) == 1 and value not in self._outputs else None


def _is_per_channel(value: Value, rank: int) -> bool:
    """Whether a value holds one number per channel (axis 1) of a tensor of this rank, or one for all."""
    shape = (1,) * (rank - len(value.shape)) + tuple(value.shape)
    return len(shape) == rank and all(isinstance(d, int) and (axis == 1 or d == 1) for axis, d in enumerate(shape))


def _size(value: Value) -> int:
    return max((d for d in value.shape if isinstance(d, int)), default=1)
