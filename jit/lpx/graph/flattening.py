"""Axes that stay side by side in all operands of a contraction become one: products of matrices, seen as such.

    %2 = conv(%x, %w), one tap, no stride          ->  matmul(reshape(%w), reshape(%x)), pixels in one axis
    %2 = einsum(%x, %w), "bchw,oc->bohw"           ->  einsum(reshape(%x), %w), "bch,oc->boh"
    %2 = matmul(%x[b, s, k], %w[k, n])             ->  matmul(reshape(%x), %w), rows of all batches in one axis

Exact: every element is the same sum in the same order. Element-wise operators behind the product follow it to the flat
shape, and those that make an operand go ahead of it, so that they still run with its tiles; a reshape between kernels,
or at an end of the graph, costs nothing. Where an operand is read through a transpose or the like, axes stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import cast

from lpx.graph.editing import make_node, without_dead_nodes
from lpx.graph.nodes import Graph, Node, Value
from lpx.graph.operator import AttrValue
from lpx.graph.operators.definition import ints
from lpx.graph.shapes import Dim
from lpx.records import record, replace

FEWEST_PIXELS = 400
"""Pixels from which on a product is faster than a convolution: vectors run along pixels, the last is seldom full."""

Groups = tuple[int, ...]
"""How many axes, from the first on, become each axis of the flat shape."""


@record
class _Plan:
    """An operator on flat operands: which of the node's it takes, in what groups, and the groups of its result."""

    operator: str
    attrs: Mapping[str, AttrValue]
    operands: tuple[Value, ...]
    groups: tuple[Groups, ...]
    result: Groups


def flatten_products(graph: Graph) -> Graph:
    """`graph` with contractions on fewer axes where that is the same; itself when there are none."""
    flattening = _Flattening(graph)
    nodes = [made for node in graph.nodes for made in flattening.rewritten(node)]
    if not flattening.has_changed:
        return graph
    return without_dead_nodes(replace(graph, nodes=tuple(nodes)))


class _Flattening:
    """Goes through a graph in order, and knows which values have a flat form."""

    def __init__(self, graph: Graph) -> None:
        self.has_changed = False
        self._makers, self._users, self._kept = graph.producers(), graph.users(), set(graph.outputs)
        self._flat: dict[Value, tuple[Value, Groups]] = {}
        self._reshapes: dict[tuple[Value, tuple[Dim, ...]], Value] = {}

    def rewritten(self, node: Node) -> list[Node]:
        """The nodes in place of `node`."""
        plan = _plan_of(node)
        if plan is not None and all(self._lies(v, g) for v, g in zip(plan.operands, plan.groups, strict=True)):
            self.has_changed = True
            return self._product(node, plan)
        return self._follower(node) or [node]

    def _product(self, node: Node, plan: _Plan) -> list[Node]:
        flat = [self._flattened(v, g) for v, g in zip(plan.operands, plan.groups, strict=True)]
        product = make_node(plan.operator, [value for value, _ in flat], plan.attrs)
        return [*(n for _, made in flat for n in made), product, self._unflattened(product, node, plan.result)]

    def _follower(self, node: Node) -> list[Node] | None:
        """An element-wise operator on the flat form of its operands; None where it needs the axes apart."""
        given = [v for v in node.inputs if v is not None and v in self._flat]
        if not given or not _is_elementwise(node) or any(v.shape != node.outputs[0].shape for v in given):
            return None
        groups = self._flat[given[0]][1]
        made = self._elementwise(node, groups)
        return None if made is None else [*made, self._unflattened(made[-1], node, groups)]

    def _unflattened(self, product: Node, node: Node, groups: Groups) -> Node:
        """The reshape that makes what `node` made."""
        (result,) = node.outputs
        self._flat[result] = product.outputs[0], groups
        return make_node("reshape", product.outputs, {"shape": result.shape}, result)

    def _elementwise(self, node: Node, groups: Groups) -> list[Node] | None:
        """An element-wise operator on flat operands, behind what makes these; None where one has no such shape."""
        (result,) = node.outputs
        operands: list[Value | None] = []
        made: list[Node] = []
        for value in node.inputs:
            shape = None if value is None else _group_shape(value.shape, groups, result.shape)
            if value is None or shape is None:
                if value is not None:
                    return None
                operands.append(None)
                continue
            operand, prepared = (
                self._flattened(value, groups) if value.shape == result.shape else self._reshaped(value, shape)
            )
            operands.append(operand)
            made += prepared
        output = Value(result.dtype, _flat_shape(result.shape, groups))
        return [*made, Node(node.operator, tuple(operands), node.attrs, (output,), node.span)]

    def _flattened(self, value: Value, groups: Groups) -> tuple[Value, list[Node]]:
        """`value` in its flat shape, and the nodes that make it: among them what computes it for this reader alone."""
        node, shape = self._makers.get(value), _flat_shape(value.shape, groups)
        if value.shape == shape or node is None or value in self._flat or not self._is_private(node):
            return self._reshaped(value, shape)
        made = self._elementwise(node, groups)
        return (made[-1].outputs[0], made) if made is not None else self._reshaped(value, shape)

    def _reshaped(self, value: Value, shape: tuple[Dim, ...]) -> tuple[Value, list[Node]]:
        """`value` in another shape, and the node that makes it, if there is none yet."""
        if value in self._flat and shape == self._flat[value][0].shape:
            return self._flat[value][0], []
        if value.shape == shape:
            return value, []
        if (value, shape) in self._reshapes:
            return self._reshapes[value, shape], []
        node = make_node("reshape", [value], {"shape": shape})
        self._reshapes[value, shape] = node.outputs[0]
        return node.outputs[0], [node]

    def _lies(self, value: Value, groups: Groups) -> bool:
        """Whether a value is in memory when the product begins, or what makes it can run on the flat shape as well."""
        node = self._makers.get(value)
        if node is None or all(g == 1 for g in groups) or value in self._flat:
            return True
        if node.operator.name == "reshape":
            (source, *_) = node.inputs
            return source is not None and self._is_in_memory(source)
        if self._is_in_memory(value):
            return True
        shapes = [None if v is None else _group_shape(v.shape, groups, value.shape) for v in node.inputs]
        return (
            self._is_private(node)
            and all(shape is not None for v, shape in zip(node.inputs, shapes, strict=True) if v is not None)
            and all(self._lies(v, groups) for v in node.inputs if v is not None and v.shape == value.shape)
        )

    def _is_in_memory(self, value: Value) -> bool:
        """Whether a kernel of its own makes a value, or none."""
        node = self._makers.get(value)
        return node is None or node.operator.kind in ("contraction", "reduction", "opaque")

    def _is_private(self, node: Node) -> bool:
        """Whether an element-wise operator computes what one reader alone needs."""
        (result, *_) = node.outputs
        return _is_elementwise(node) and len(self._users.get(result, ())) == 1 and result not in self._kept


def _is_elementwise(node: Node) -> bool:
    return node.operator.kind == "elementwise" and len(node.outputs) == 1


def _flat_shape(shape: Sequence[Dim], groups: Groups) -> tuple[Dim, ...]:
    """The shape with the axes of each group as one."""
    flat: list[Dim] = []
    for length in groups:
        own, shape = shape[:length], shape[length:]
        flat.append(own[0] if length == 1 else prod(d for d in own if isinstance(d, int)))
    return tuple(flat)


def _group_shape(shape: Sequence[Dim], groups: Groups, result: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """The shape for an operand that broadcasts to a flat `result`: each group whole, or one for all of it."""
    whole = (*(1,) * (len(result) - len(shape)), *shape)
    flat: list[Dim] = []
    first = 0
    for length in groups:
        own, full = whole[first : first + length], tuple(result[first : first + length])
        if own != full and any(d != 1 for d in own):
            return None
        flat += _flat_shape(own, (length,))
        first += length
    return tuple(flat)


def _plan_of(node: Node) -> _Plan | None:
    """How a node is computed on fewer axes; None where it is not, or not for the better."""
    find = _PLANS.get(node.operator.name)
    static = all(v is not None and all(isinstance(d, int) for d in v.shape) for v in node.inputs)
    return find(node) if find is not None and static else None


def _pointwise(node: Node) -> _Plan | None:
    """A convolution of one tap: rows are filters, columns the pixels of an image, a batch of one goes."""
    x, w = (v for v in node.inputs if v is not None)
    attrs, pixels = node.attrs, [d for d in x.shape[2:] if isinstance(d, int)]
    ones = (*w.shape[2:], *ints(attrs, "strides"), attrs["groups"])
    pads = (*ints(attrs, "pads_before"), *ints(attrs, "pads_after"))
    if any(n != 1 for n in ones) or any(pads) or prod(pixels) < FEWEST_PIXELS:
        return None
    lead = (2,) if x.shape[0] == 1 else (1, 1)
    image = (*lead, len(pixels))
    return _Plan("matmul", {}, (w, x), ((1, len(w.shape) - 1), image), image)


def _rows(node: Node) -> _Plan | None:
    """Matrices by one matrix that they share: their rows in one axis."""
    x, w = (v for v in node.inputs if v is not None)
    if len(w.shape) != 2 or sum(d != 1 for d in x.shape[:-1]) < 2:
        return None
    groups = (len(x.shape) - 1, 1)
    return _Plan("matmul", {}, (x, w), (groups, (1, 1)), groups)


def _einsum(node: Node) -> _Plan | None:
    """Labels that follow each other wherever they occur as one label, unless all operands and the result have them."""
    operands = tuple(v for v in node.inputs if v is not None)
    terms, result = cast("tuple[str, ...]", node.attrs["terms"]), cast("str", node.attrs["result"])
    everywhere = (*terms, result)
    if any(len(set(term)) < len(term) for term in everywhere) or not _have_one_extent(operands, terms):
        return None
    joined = {b for a, b in _neighbours(everywhere) if not all(a in term for term in everywhere)}
    if not joined:
        return None
    groups = tuple(_groups_of(term, joined) for term in everywhere)
    short = tuple("".join(c for c in term if c not in joined) for term in everywhere)
    attrs: dict[str, AttrValue] = {"terms": short[:-1], "result": short[-1]}
    return _Plan("einsum", attrs, operands, groups[:-1], groups[-1])


def _neighbours(terms: Sequence[str]) -> list[tuple[str, str]]:
    """The labels of which the second stands right behind the first in each term that has either."""
    pairs = {(a, b) for term in terms for a, b in pairwise(term)}
    return [(a, b) for a, b in sorted(pairs) if all(a + b in term for term in terms if a in term or b in term)]


def _have_one_extent(operands: Sequence[Value], terms: Sequence[str]) -> bool:
    """Whether no label is stretched from one place to several."""
    extents: dict[str, Dim] = {}
    for value, term in zip(operands, terms, strict=True):
        for label, extent in zip(term, value.shape, strict=True):
            if extents.setdefault(label, extent) != extent:
                return False
    return True


def _groups_of(term: str, joined: set[str]) -> Groups:
    groups: list[int] = []
    for label in term:
        if label in joined and groups:
            groups[-1] += 1
        else:
            groups.append(1)
    return tuple(groups)


_PLANS: dict[str, Callable[[Node], _Plan | None]] = {"conv": _pointwise, "matmul": _rows, "einsum": _einsum}
