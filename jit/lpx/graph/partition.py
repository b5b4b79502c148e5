"""Cutting a graph into groups of nodes, each of which becomes one kernel.

A group has at most one node with work of its own (a contraction or a chain of reductions); elementwise nodes join the
group that makes their operand, cheap producers join the group that uses them. Groups never depend on each other in a
circle.
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
        return tuple(self._seal(draft) for draft in self._ordered())

    def _is_free(self, node: Node) -> bool:
        """Whether a node costs nothing where it is read, and so is repeated in every group that uses it."""
        free = not node.inputs or node.operator.name in _VIEWS
        return free and self._outputs.isdisjoint(node.outputs)

    def _place(self, node: Node) -> None:
        sources = {d for v in node.inputs for d in self._sources(v)}
        home = next((d for d in self._candidates(node) if self._may_join(d, sources)), None)
        if home is None:
            home = _Draft(node.operator.kind, [])
            self._drafts.append(home)
        if node.operator.kind == "reduction":
            home.kind = "reduction"
            home.rows = home.rows or _rows(node)
        home.nodes.append(node)
        self._draft_of[node] = home
        self._add_ancestors(home, sources - {home})

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
