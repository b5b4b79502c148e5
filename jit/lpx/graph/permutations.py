"""Transposes that run alone, with axes that stay side by side as one axis.

    %2 = transpose(%1: [8, 64, 56, 56], axes=(0, 2, 3, 1))
    ->
    %3 = reshape(%1: [8, 64, 3136]) ; %4 = transpose(%3, axes=(0, 2, 1)) ; %2 = reshape(%4)

A kernel then goes along the joined axis without a stop. The reshapes are at ends of the graph, where they cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from lpx.graph.editing import make_node
from lpx.graph.nodes import Graph, Node, Value
from lpx.graph.operators.definition import ints
from lpx.records import replace

_JOINED = ("elementwise", "injective")
"""Kinds of operators in whose kernels a transpose of their result may run."""


def merge_permuted_axes(graph: Graph) -> Graph:
    """`graph` with transposes of joined axes where they make an output by themselves; itself when there are none."""
    makers, nodes = graph.producers(), list[Node]()
    for node in graph.nodes:
        nodes += _merged(node) if _runs_alone(graph, node, makers) else [node]
    return graph if len(nodes) == len(graph.nodes) else replace(graph, nodes=tuple(nodes))


def _runs_alone(graph: Graph, node: Node, makers: Mapping[Value, Node]) -> bool:
    if node.operator.name != "transpose" or node.outputs[0] not in graph.outputs or node.inputs[0] is None:
        return False
    maker = makers.get(node.inputs[0])
    return maker is None or maker.operator.kind not in _JOINED


def _merged(node: Node) -> list[Node]:
    """The nodes in place of a transpose."""
    (x,), (result,), axes = node.inputs, node.outputs, ints(node.attrs, "axes")
    if x is None or not all(isinstance(d, int) for d in x.shape):
        return [node]
    runs = _runs(axes, [d for d in x.shape if isinstance(d, int)])
    order = sorted(runs)
    if len(order) == len(axes) or len(order) < 2:
        return [node]
    shape = tuple(prod(d for d in x.shape[run[0] : run[-1] + 1] if isinstance(d, int)) for run in order)
    before = make_node("reshape", [x], {"shape": shape})
    turned = make_node("transpose", before.outputs, {"axes": tuple(order.index(run) for run in runs)})
    return [before, turned, make_node("reshape", turned.outputs, {"shape": result.shape}, result)]


def _runs(axes: Sequence[int], shape: Sequence[int]) -> list[list[int]]:
    """The axes of the operand in the order of the result, those that follow one another in both together.

    An axis of one element, which lies anywhere, is left out.
    """
    runs: list[list[int]] = []
    for axis in (a for a in axes if shape[a] != 1):
        between: Sequence[int] = shape[runs[-1][-1] + 1 : axis] if runs else ()
        if runs and runs[-1][-1] < axis and all(d == 1 for d in between):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs
