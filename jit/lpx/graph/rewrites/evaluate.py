"""Evaluating graphs of constants, by the operators' own definitions.

Small ones, such as arithmetic on shapes, run in the reference interpreter; large ones, such as transposed weights, are
compiled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx import te
from lpx.graph import operators, shapes
from lpx.graph.executable import compile_graph
from lpx.graph.nodes import Graph, Value
from lpx.graph.operator import AttrValue
from lpx.ir.interpreter import interpret
from lpx.ir.nodes import Function
from lpx.records import replace
from lpx.runtime import arrays as generic
from lpx.target import Target

Array = NDArray[Any]
INTERPRETED_ELEMENTS = 2048
"""An operator with no more elements than this, operands and results together, is interpreted."""

_LOWERED: dict[object, Function] = {}


def is_small(inputs: Sequence[Value | None], outputs: Sequence[Value]) -> bool:
    """Whether an operator is cheaper to interpret than to compile."""
    return sum(size_of(v) for v in (*inputs, *outputs) if v is not None) <= INTERPRETED_ELEMENTS


def size_of(value: Value) -> int:
    """The number of elements of a static value."""
    return prod(shapes.static(value.shape, "a constant"))


def interpret_operator(
    name: str, inputs: Sequence[Array | None], attrs: Mapping[str, AttrValue], outputs: Sequence[Value]
) -> tuple[Array, ...]:
    """The results of one operator on arrays; `outputs` are values of their types.

    Raises: what running the operator raises (RuntimeCheckError, ...).
    """
    types = tuple(None if x is None else (x.dtype.name, x.shape) for x in inputs)
    key = (name, types, tuple(sorted((k, repr(v)) for k, v in attrs.items())))
    if key not in _LOWERED:
        _LOWERED[key] = _lower(name, inputs, attrs)
    results = tuple(np.zeros(shapes.static(v.shape, "a constant"), v.dtype.to_numpy()) for v in outputs)
    interpret(_LOWERED[key], [*(x for x in inputs if x is not None), *results])
    return results


def _lower(name: str, inputs: Sequence[Array | None], attrs: Mapping[str, AttrValue]) -> Function:
    operands = [
        None if x is None else te.placeholder(x.shape, x.dtype.name, name=f"x{k}") for k, x in enumerate(inputs)
    ]
    defined = operators.lookup(name).define(operands, attrs)
    return te.lower(list(defined), [x for x in operands if x is not None], name=name)


def run_constants(graph: Graph, target: Target) -> tuple[Array, ...]:
    """The outputs of a graph that reads no input, compiled for `target` (this machine) and run once."""
    executable = compile_graph(replace(graph, inputs=()), target)
    made: Any = generic.call(executable.specialisation, (), {})
    return (made,) if len(graph.outputs) == 1 else made
