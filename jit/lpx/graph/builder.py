"""Building graphs: typed values in, nodes with inferred output types out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx import dtypes, te
from lpx.errors import InternalError
from lpx.expr.nodes import Expr
from lpx.graph import operators, shapes
from lpx.graph.nodes import Dim, Graph, Node, Value
from lpx.graph.operator import AttrValue, Operator
from lpx.source import capture

_INFERRED: dict[object, tuple[tuple[dtypes.DType, tuple[Dim, ...]], ...]] = {}


class GraphBuilder:
    """Collects nodes in order; `finish` gives the graph with what the outputs need."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._inputs: list[Value] = []
        self._nodes: list[Node] = []
        self._constants: dict[Value, NDArray[Any]] = {}
        self._scalars: dict[tuple[str, str], Value] = {}

    @property
    def sources(self) -> set[Value]:
        """The values no node makes: inputs and constants."""
        return {*self._inputs, *self._constants}

    def input(self, dtype: dtypes.DType, shape: Sequence[Dim], name: str) -> Value:
        """A new input of the graph."""
        value = Value(dtype, shapes.dims(shape), name)
        self._inputs.append(value)
        return value

    def constant(self, array: NDArray[Any], name: str = "") -> Value:
        """A constant. One element becomes a number in the code of whoever uses it."""
        dtype = dtypes.parse(array.dtype)
        if array.ndim == 0:
            return self._scalar(array, dtype)
        value = Value(dtype, array.shape, name)
        self._constants[value] = np.ascontiguousarray(array)
        return value

    def _scalar(self, array: NDArray[Any], dtype: dtypes.DType) -> Value:
        key = (dtype.name, array.tobytes().hex())
        if key not in self._scalars:
            number = array.astype(np.float64).item() if dtype.is_float else array.item()
            self._scalars[key] = self.add("full", (), shape=(), value=number, dtype=dtype.name)
        return self._scalars[key]

    def add(self, name: str, inputs: Sequence[Value | None], **attrs: AttrValue) -> Value:
        """Use an operator that has one output."""
        (value,) = self.add_multi(name, inputs, attrs)
        return value

    def add_multi(self, name: str, inputs: Sequence[Value | None], attrs: Mapping[str, AttrValue]) -> tuple[Value, ...]:
        """Use an operator; its output types follow from its definition.

        Raises: what the definition raises for operands it does not take (ShapeError, DTypeError, ...).
        """
        row = operators.lookup(name)
        outputs = tuple(Value(dtype, shape) for dtype, shape in infer(row, inputs, attrs))
        self._nodes.append(Node(row, tuple(inputs), dict(attrs), outputs, capture()))
        return outputs

    def finish(self, outputs: Sequence[Value]) -> Graph:
        """The graph that computes `outputs`; nodes and constants they do not need are left out."""
        needed = set(outputs)
        kept: list[Node] = []
        for node in reversed(self._nodes):
            if not needed.isdisjoint(node.outputs):
                kept.append(node)
                needed.update(v for v in node.inputs if v is not None)
        constants = {v: a for v, a in self._constants.items() if v in needed}
        return Graph(self.name, tuple(self._inputs), tuple(reversed(kept)), tuple(outputs), constants)


def infer(
    row: Operator, inputs: Sequence[Value | None], attrs: Mapping[str, AttrValue]
) -> tuple[tuple[dtypes.DType, tuple[Dim, ...]], ...]:
    """Dtypes and shapes of an operator's outputs, by defining it on placeholders."""
    if any(_holds_symbol(v) for v in attrs.values()):  # their text does not identify symbols
        return _infer(row, inputs, attrs)
    types = tuple(None if v is None else (v.dtype, v.shape) for v in inputs)
    key = (row.name, types, tuple(sorted((k, repr(v)) for k, v in attrs.items())))
    if key not in _INFERRED:
        _INFERRED[key] = _infer(row, inputs, attrs)
    return _INFERRED[key]


def _infer(
    row: Operator, inputs: Sequence[Value | None], attrs: Mapping[str, AttrValue]
) -> tuple[tuple[dtypes.DType, tuple[Dim, ...]], ...]:
    operands = [None if v is None else te.placeholder(v.shape, v.dtype, name=f"x{k}") for k, v in enumerate(inputs)]
    return tuple((t.dtype, shapes.dims(t.shape)) for t in row.define(operands, attrs))


def _holds_symbol(attr: AttrValue) -> bool:
    return any(isinstance(e, Expr) for e in (attr if isinstance(attr, tuple) else (attr,)))


def define_graph(graph: Graph) -> dict[Value, te.Tensor]:
    """Tensor expressions of every value of a graph, each reading its producers' tensors.

    Inputs and constants become placeholders.
    """
    tensors: dict[Value, te.Tensor] = {}
    for value in (*graph.inputs, *graph.constants):
        tensors[value] = te.placeholder(value.shape, value.dtype, name=value.name or f"c{len(tensors)}")
    for node in graph.nodes:
        defined = node.operator.define([None if v is None else tensors[v] for v in node.inputs], node.attrs)
        if len(defined) != len(node.outputs):
            raise InternalError(f"{node.operator.name} gave {len(defined)} outputs for {len(node.outputs)}")
        tensors.update(zip(node.outputs, defined, strict=True))
    return tensors
