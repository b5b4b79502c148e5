"""The graph IR: typed values, operator nodes, graphs.

A graph is a list of nodes in an order in which they can run. Values are identities; a name is a hint. Dimensions are
Python ints, or index expressions over symbolic extents.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from numpy.typing import NDArray

from lpx.dtypes import DType
from lpx.expr.nodes import Expr
from lpx.graph.operator import AttrValue, Operator
from lpx.records import record
from lpx.source import Span

Dim = int | Expr
Shape = tuple[Dim, ...]


@record(eq=False)
class Value:
    """One tensor of a graph."""

    dtype: DType
    shape: Shape
    name: str = ""

    @property
    def type_text(self) -> str:
        """Dtype and shape, as in `float32[3, n]`."""
        return f"{self.dtype}[{', '.join(str(d) for d in self.shape)}]"


@record(eq=False)
class Node:
    """One use of an operator. An input is None where an optional operand is not given."""

    operator: Operator
    inputs: tuple[Value | None, ...]
    attrs: Mapping[str, AttrValue]
    outputs: tuple[Value, ...]
    span: Span | None = None


@record(eq=False)
class Graph:
    """Inputs, nodes in running order, outputs, and the constants they use."""

    name: str
    inputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Value, ...]
    constants: Mapping[Value, NDArray[Any]] = field(default_factory=dict[Value, NDArray[Any]])

    def __str__(self) -> str:
        return print_graph(self)

    def producers(self) -> dict[Value, Node]:
        """The node that makes each value; inputs and constants have none."""
        return {value: node for node in self.nodes for value in node.outputs}

    def users(self) -> dict[Value, list[Node]]:
        """The nodes that read each value, each node once."""
        found: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(v for v in node.inputs if v is not None):
                found.setdefault(value, []).append(node)
        return found


def print_graph(graph: Graph) -> str:
    """The graph as text, the same for equal graphs: constants appear by digest."""
    names: dict[Value, str] = {}

    def name_of(value: Value | None) -> str:
        return "none" if value is None else names.setdefault(value, f"%{len(names)}")

    inputs = ", ".join(f"{name_of(v)}: {v.type_text}" for v in graph.inputs)
    lines = [f"graph {graph.name}({inputs}) {{"]
    for value, array in graph.constants.items():
        lines.append(f"  {name_of(value)} = constant {digest(array)} : {value.type_text}")
    for node in graph.nodes:
        operands = ", ".join(name_of(v) for v in node.inputs)
        attrs = "".join(f", {k}={node.attrs[k]!r}" for k in sorted(node.attrs))
        results = ", ".join(name_of(v) for v in node.outputs)
        types = ", ".join(v.type_text for v in node.outputs)
        lines.append(f"  {results} = {node.operator.name}({operands}{attrs}) : {types}")
    lines.append(f"  return {', '.join(name_of(v) for v in graph.outputs)}")
    return "\n".join([*lines, "}"]) + "\n"


def digest(array: NDArray[Any]) -> str:
    """A hash of an array's elements; shape and dtype are in the type."""
    return hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest()
