"""Numbers for expressions: structurally equal ones get the same number.

Every comparison of subexpressions in this package goes through these numbers, which makes it one integer comparison.
An interner keeps its expressions alive; analyzers derived from one another share one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lpx.expr import nodes, traverse
from lpx.expr.nodes import Expr

Key = tuple[object, ...]

_MAX_COST = 1 << 40
_LEAF_COST = 1
_OP_COST = {
    "add": 2, "sub": 2, "neg": 2, "mul": 3, "min": 2, "max": 2, "div": 8, "floordiv": 12, "floormod": 12,
    "truncdiv": 12, "truncmod": 12, "bitand": 2, "bitor": 2, "bitxor": 2, "shl": 2, "shr": 2, "not": 2,
    "eq": 2, "ne": 2, "lt": 2, "le": 2,
}  # fmt: skip
_OTHER_COST = 4
_ORDERED = frozenset(("min", "max", "floordiv", "floormod", "truncdiv", "truncmod"))

ADD_COST, MUL_COST, NEG_COST, LEAF_COST = _OP_COST["add"], _OP_COST["mul"], _OP_COST["neg"], _LEAF_COST


class Interner:
    """Structural numbering of expressions, with a rough cost of computing each (as a tree)."""

    __slots__ = ("_by_key", "_by_node", "_decisions", "costs", "exprs")

    def __init__(self) -> None:
        self._by_node: dict[Expr, int] = {}
        self._by_key: dict[Key, int] = {}
        self._decisions: set[int] = set()
        self.exprs: list[Expr] = []
        self.costs: list[int] = []

    def number(self, expr: Expr) -> int:
        """The number of `expr`; the same for every structurally equal expression."""
        found = self._by_node.get(expr)
        if found is not None:
            return found
        by_node = self._by_node
        stack = [expr]
        while stack:
            node = stack[-1]
            children = traverse.children(node)
            pending = [c for c in children if c not in by_node]
            if pending:
                stack += pending
                continue
            stack.pop()
            if node not in by_node:
                by_node[node] = self._intern(node, tuple([by_node[c] for c in children]))
        return by_node[expr]

    def representative(self, expr: Expr) -> Expr:
        """The first expression seen that is structurally equal to `expr`."""
        return self.exprs[self.number(expr)]

    def cost(self, expr: Expr) -> int:
        """The sum of rough costs of all operations in `expr`."""
        return self.costs[self.number(expr)]

    def is_decision(self, expr: Expr) -> bool:
        """Whether anything in `expr` depends on the order of integers: knowing a condition may simplify it."""
        return self.number(expr) in self._decisions

    def _intern(self, node: Expr, children: tuple[int, ...]) -> int:
        kind = type(node)
        payload = _PAYLOADS[kind](node)
        key = (kind, node.dtype.name, node.lanes, payload, children)
        found = self._by_key.get(key)
        if found is not None:
            return found
        number = len(self.exprs)
        self._by_key[key] = number
        self.exprs.append(node)
        costs = self.costs
        costs.append(min(_own_cost(node) + sum([costs[c] for c in children]), _MAX_COST))
        if _is_decision(node) or not self._decisions.isdisjoint(children):
            self._decisions.add(number)
        return number


def _is_decision(node: Expr) -> bool:
    return isinstance(node, nodes.Compare | nodes.Select) or (isinstance(node, nodes.Binary) and node.op in _ORDERED)


def _own_cost(node: Expr) -> int:
    if isinstance(node, nodes.Const | nodes.Var):
        return _LEAF_COST
    if isinstance(node, nodes.Binary | nodes.Compare | nodes.Unary):
        return _OP_COST[node.op]
    return _OTHER_COST


def _constant_payload(node: nodes.Const) -> object:
    value = node.value
    return value if isinstance(value, int) else repr(value)  # repr tells -0.0 from 0.0, and NaN equals NaN


def _structure_of_extension(node: Expr) -> object:
    """Node classes of this layer carry all they have in their operands; those of higher layers count by identity."""
    return None if type(node).__module__ == nodes.__name__ else id(node)


_PAYLOADS = traverse.ByKind[Callable[[Any], object]](
    {
        nodes.Expr: _structure_of_extension,
        nodes.Var: id,
        nodes.Const: _constant_payload,
        nodes.Unary: lambda e: e.op,
        nodes.Binary: lambda e: e.op,
        nodes.Compare: lambda e: e.op,
        nodes.HorizontalReduce: lambda e: e.op,
        nodes.Load: lambda e: (id(e.buffer), e.mask is None),
        nodes.AddressOf: lambda e: id(e.buffer),
        nodes.Shuffle: lambda e: (len(e.vectors), e.indices),
        nodes.Lookup: lambda e: (e.dtype, repr(e.table)),
        nodes.Call: lambda e: e.op,
    }
)
"""What tells apart nodes of one class with equal operands. Buffers and variables count by identity."""
