"""Cutting a graph into groups of nodes, each of which becomes one kernel.

A group has at most one node with work of its own (a contraction or a chain of reductions); elementwise nodes join the
group that makes their operand, cheap producers join the group that uses them. One exception: a contraction whose rows
are reduced and then multiplied by another matrix, as in attention, is one group with both, since some rows at a time
need no more than a cache of what is between the two. Groups never depend on each other in a circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from lpx.graph import shapes
from lpx.graph.nodes import Graph, Node, Value
from lpx.graph.operator import OperatorKind
from lpx.records import record

_VIEWS = frozenset({"reshape", "transpose", "broadcast", "slice"})
"""Operators that only say where to read: they are computed as part of whatever reads them."""


STRIP_ROWS = 8
"""Rows from which on two contractions with operations on rows between them run strip by strip."""


@record(eq=False)
class Group:
    """Nodes of one kernel in running order, the values it reads from outside and those it hands out."""

    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]


@dataclass(slots=True, eq=False)
class _Draft:
    """A group being filled. `rows` are the leading extents that its reductions keep, once it has one: steps of one row
    can then run together.
    """

    kind: OperatorKind
    nodes: list[Node]
    ancestors: set[_Draft] = field(default_factory=set["_Draft"])
    rows: tuple[shapes.Dim, ...] | None = None


def partition(graph: Graph) -> tuple[Group, ...]:
    """The groups of a graph in an order in which they can run."""
    return _Partitioner(graph).run()


class _Partitioner:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._users = graph.users()
        self._outputs = set(graph.outputs)
        self._producer = graph.producers()
        self._draft_of: dict[Node, _Draft] = {}
        self._drafts: list[_Draft] = []

    def run(self) -> tuple[Group, ...]:
        for node in self._graph.nodes:
            if not self._is_free(node):
                self._place(node)
        self._join_elementwise()
        for draft in list(self._drafts):
            self._join_chain(draft)
        return tuple(self._seal(draft) for draft in self._ordered())

    def _is_free(self, node: Node) -> bool:
        """Whether a node costs nothing where it is read, and so is repeated in every group that uses it."""
        free = not node.inputs or node.operator.name in _VIEWS or self._is_position(node) or self._is_widened(node)
        return free and self._outputs.isdisjoint(node.outputs)

    def _is_widened(self, node: Node) -> bool:
        """Whether a node gives contractions alone what is in memory in fewer bits: they multiply it as it is stored."""
        if node.operator.name != "cast" or node.inputs[0] is None:
            return False
        (result,) = node.outputs
        users = self._users.get(result, [])
        is_wider = result.dtype.bits > node.inputs[0].dtype.bits
        return is_wider and bool(users) and all(u.operator.kind == "contraction" for u in users)

    def _is_position(self, node: Node) -> bool:
        """Whether a node counts or compares positions, and nothing that is in memory."""
        if not node.inputs:
            return True
        exact = all(v.dtype.is_integer or v.dtype.is_bool for v in node.outputs)
        simple = node.operator.kind == "elementwise" or node.operator.name in _VIEWS
        makers = [None if v is None else self._producer.get(v) for v in node.inputs]
        return exact and simple and all(m is not None and self._is_position(m) for m in makers)

    def _place(self, node: Node) -> None:
        sources = {d for v in node.inputs for d in self._sources(v)}
        candidates = self._candidates(node)
        home = next((d for d in candidates if self._may_join(d, sources)), None)
        if home is None:
            home = _Draft(node.operator.kind, [])
            self._drafts.append(home)
        if node.operator.kind == "reduction":
            home.kind = "reduction"
            home.rows = home.rows or _rows(node)
        home.nodes.append(node)
        self._draft_of[node] = home
        self._add_ancestors(home, sources - {home})
        for other in candidates:
            if other is not home and other in self._drafts and self._is_part_of(other, home, node):
                self._absorb(home, other)

    def _sources(self, value: Value | None) -> set[_Draft]:
        """The groups that a value comes from, through nodes that are free."""
        node = None if value is None else self._producer.get(value)
        if node is None:
            return set()
        if node in self._draft_of:
            return {self._draft_of[node]}
        return {d for v in node.inputs for d in self._sources(v)}

    def _source(self, value: Value | None) -> _Draft | None:
        node = None if value is None else self._producer.get(value)
        return None if node is None else self._draft_of.get(node)

    def _real_users(self, value: Value) -> list[Node]:
        """The nodes with a group of their own that read a value, perhaps through nodes that are free."""
        found: list[Node] = []
        for user in self._users.get(value, []):
            found.extend([user] if user in self._draft_of else [n for v in user.outputs for n in self._real_users(v)])
        return found

    def _candidates(self, node: Node) -> list[_Draft]:
        """Groups that `node` may join, the one with the most work first."""
        kind = node.operator.kind
        if kind in ("contraction", "opaque"):
            return []
        found: list[_Draft] = []
        for value in node.inputs:
            draft = self._source(value)
            if value is None or draft is None or draft.kind == "opaque":
                continue
            same_space = all(_same_shape(value.shape, out.shape) for out in node.outputs)
            only_here = len(self._users[value]) == 1 and value not in self._outputs
            if (
                (kind == "elementwise" and same_space)
                or (draft.kind in ("elementwise", "injective") and only_here)
                or _shares_rows(node, draft)
            ):
                found.append(draft)
        rank = {"contraction": 0, "reduction": 1, "elementwise": 2, "injective": 3}
        return sorted(found, key=lambda d: rank[d.kind])

    def _is_part_of(self, other: _Draft, home: _Draft, node: Node) -> bool:
        """Whether a group of element-wise nodes serves only `node`, of its shape, and no group runs between the two."""
        kinds = {other.kind, home.kind}
        if kinds != {"elementwise"} or any(other in d.ancestors for d in self._drafts if d is not home):
            return False
        shape = node.outputs[0].shape
        made = [v for n in other.nodes for v in n.outputs]
        inside = {*other.nodes, node}
        served = all(user in inside for v in made for user in self._users.get(v, []))
        return served and self._outputs.isdisjoint(made) and all(_same_shape(v.shape, shape) for v in made)

    def _absorb(self, home: _Draft, other: _Draft) -> None:
        """Make one group of two: the nodes of `other` run first."""
        home.nodes[:0] = other.nodes
        home.ancestors = (home.ancestors | other.ancestors) - {other, home}
        self._draft_of.update(dict.fromkeys(other.nodes, home))
        self._drafts.remove(other)
        for draft in self._drafts:
            if other in draft.ancestors:
                draft.ancestors = (draft.ancestors - {other}) | {home}
            if home in draft.ancestors:
                draft.ancestors |= home.ancestors

    @staticmethod
    def _may_join(draft: _Draft, sources: set[_Draft]) -> bool:
        return not any(draft in source.ancestors for source in sources)

    def _add_ancestors(self, draft: _Draft, sources: set[_Draft]) -> None:
        added = sources.union(*(s.ancestors for s in sources)) - draft.ancestors
        if not added:
            return
        for other in self._drafts:
            if other is draft or draft in other.ancestors:
                other.ancestors |= added

    def _join_elementwise(self) -> None:
        """Make one group of element-wise groups of one shape that feed each other: values stay in registers."""
        order = {node: position for position, node in enumerate(self._graph.nodes)}
        for draft in list(self._drafts):
            feeding = {d for n in draft.nodes for v in n.inputs for d in self._sources(v)} - {draft}
            for other in sorted(feeding, key=lambda d: order[d.nodes[0]]):
                if other in self._drafts and draft in self._drafts and self._are_one_loop(other, draft):
                    self._absorb(draft, other)
                    draft.nodes.sort(key=order.__getitem__)

    def _are_one_loop(self, first: _Draft, second: _Draft) -> bool:
        """Whether two groups are element-wise, of one shape, and no group runs between the two."""
        if first.kind != "elementwise" or second.kind != "elementwise":
            return False
        if any(first in d.ancestors and d in second.ancestors for d in self._drafts):
            return False
        shape = first.nodes[0].outputs[0].shape
        return all(_same_shape(v.shape, shape) for d in (first, second) for n in d.nodes for v in n.outputs)

    def _join_chain(self, last: _Draft) -> None:
        """Make one group of two contractions, operations on rows between them, and what scales rows of the first."""
        value = last.nodes[0].inputs[0] if last.nodes[0].operator.kind == "contraction" else None
        between = self._source(value)
        if value is None or between is None or between.kind != "reduction" or not self._feeds_only(between, last):
            return
        before = {d for n in between.nodes for v in n.inputs for d in self._sources(v)} - {between}
        first = next((d for d in before if d.kind == "contraction" and self._feeds_only(d, between)), None)
        if first is None or not _is_strip(first, between, value):
            return
        parts = [first, between, last]
        scaling = self._source(first.nodes[0].inputs[0])
        if scaling is not None and scaling.kind == "elementwise" and self._feeds_only(scaling, first):
            parts.insert(0, scaling)
        self._merge(parts)

    def _feeds_only(self, draft: _Draft, reader: _Draft) -> bool:
        """Whether what a group makes is read in it and in one other, and nowhere else."""
        made = [v for n in draft.nodes for v in n.outputs]
        users = {self._draft_of[u] for v in made for u in self._real_users(v)}
        return self._outputs.isdisjoint(made) and users - {draft} == {reader}

    def _merge(self, parts: Sequence[_Draft]) -> None:
        """Put a group of `parts`, each of which feeds only the next one, in their place."""
        nodes = [n for d in parts for n in d.nodes]
        ancestors = set[_Draft]().union(*(d.ancestors for d in parts)).difference(parts)
        merged = _Draft("contraction", nodes, ancestors)
        self._drafts = [d for d in self._drafts if d not in parts]
        for draft in self._drafts:
            if not draft.ancestors.isdisjoint(parts):
                draft.ancestors = draft.ancestors.difference(parts) | {merged}
        self._drafts.append(merged)
        self._draft_of.update(dict.fromkeys(nodes, merged))

    def _ordered(self) -> list[_Draft]:
        return sorted(self._drafts, key=lambda d: len(d.ancestors))

    def _seal(self, draft: _Draft) -> Group:
        nodes = self._with_free_producers(draft.nodes)
        made = {v for n in nodes for v in n.outputs}
        reads = dict.fromkeys(v for n in nodes for v in n.inputs if v is not None and v not in made)
        members = set(draft.nodes)
        escaping = tuple(
            v
            for n in draft.nodes
            for v in n.outputs
            if v in self._outputs or any(user not in members for user in self._real_users(v))
        )
        return Group(tuple(nodes), tuple(reads), escaping)

    def _with_free_producers(self, nodes: Sequence[Node]) -> list[Node]:
        """`nodes` and the free ones they read, but for reshapes of what others make: those are names of its memory."""
        found: dict[Node, None] = {}
        own = {v for n in nodes for v in n.outputs}

        def add(node: Node) -> None:
            for value in node.inputs:
                producer = None if value is None else self._producer.get(value)
                if producer is None or producer in self._draft_of or producer in found:
                    continue
                if not self._is_alias(producer, own):
                    add(producer)
            found[node] = None

        for node in nodes:
            add(node)
        return list(found)

    def _is_alias(self, node: Node, own: set[Value]) -> bool:
        """Whether a node reshapes, perhaps not for the first time, what is in memory before its group runs."""
        if node.operator.name != "reshape":
            return False
        (value,) = node.inputs
        producer = None if value is None else self._producer.get(value)
        if producer is None:
            return True
        return value not in own and (producer in self._draft_of or self._is_alias(producer, own))


def _is_strip(first: _Draft, between: _Draft, value: Value) -> bool:
    """Whether two groups, products and what follows on each row of them, make a matrix of several rows."""
    shape = value.shape
    rows = shape[-2] if len(shape) > 1 else 1
    if not isinstance(rows, int) or rows < STRIP_ROWS or not _same_shape(between.rows or (), shape[:-1]):
        return False
    products = [v.shape for n in first.nodes for v in n.outputs]
    others = [v.shape for n in between.nodes for v in n.outputs]
    return all(_same_shape(s, shape) for s in products) and all(_starts_with(s, shape[:-1]) for s in others)


def _rows(node: Node) -> tuple[shapes.Dim, ...]:
    """The leading extents that a reduction keeps where it reduces the trailing axes; () for any other."""
    value = node.inputs[0]
    if value is None:
        return ()
    given = node.attrs.get("axes", node.attrs.get("axis"))
    axes = shapes.normalize_axes(cast("Sequence[int] | int | None", given), len(value.shape))
    first = min(axes, default=0)
    return value.shape[:first] if axes == tuple(range(first, len(value.shape))) else ()


def _shares_rows(node: Node, draft: _Draft) -> bool:
    """Whether `node` works on the rows that the reductions of `draft` keep."""
    if draft.kind not in ("elementwise", "reduction"):
        return False
    if node.operator.kind == "reduction":
        rows = _rows(node)
        fits = draft.rows is None or _same_shape(draft.rows, rows)
        outputs = [v.shape for n in draft.nodes for v in n.outputs]
        return bool(rows) and fits and all(_starts_with(shape, rows) for shape in outputs)
    rows = draft.rows or ()
    return bool(rows) and node.operator.kind == "elementwise" and all(_starts_with(v.shape, rows) for v in node.outputs)


def _starts_with(shape: Sequence[shapes.Dim], rows: Sequence[shapes.Dim]) -> bool:
    return _same_shape(shape[: len(rows)], rows)


def _same_shape(a: Sequence[shapes.Dim], b: Sequence[shapes.Dim]) -> bool:
    return len(a) == len(b) and all(shapes.same_dim(x, y) for x, y in zip(a, b, strict=True))
