"""What handlers work with: operands, whose elements may be known, and the graph being built."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpx.dtypes import DType
from lpx.errors import ModelError, UnsupportedError
from lpx.graph import shapes
from lpx.graph.builder import GraphBuilder
from lpx.graph.nodes import Graph, Value
from lpx.graph.operator import AttrValue
from lpx.graph.rewrites import evaluate
from lpx.records import record
from lpx.target import Target

Array = NDArray[Any]
_MAX_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@record(eq=False)
class Operand:
    """A tensor of the model.

    `array` holds its elements where they are known; `inputs` names the inputs it depends on.
    """

    value: Value
    array: Array | None
    inputs: frozenset[str]

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self.value.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return shapes.static(self.value.shape, "a model")

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.value.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)


class NeedsValues(Exception):  # noqa: N818 (a request to the caller, not an error)
    """Importing needs the elements of these inputs: shapes, or a branch taken, depend on them."""

    def __init__(self, inputs: frozenset[str], why: str) -> None:
        super().__init__(why)
        self.inputs = inputs
        self.why = why


class Context:
    """Builds the graph of one model for given input shapes."""

    def __init__(self, name: str, target: Target) -> None:
        self.target = target
        self._builder = GraphBuilder(name)
        self._operand: dict[Value, Operand] = {}

    def input(self, dtype: DType, shape: Sequence[int], name: str) -> Operand:
        """A new input of the graph."""
        return Operand(self._builder.input(dtype, shape, name), None, frozenset({name}))

    def constant(self, array: Array) -> Operand:
        """A tensor with known elements."""
        return Operand(self._builder.constant(array), array, frozenset())

    def number(self, value: float, dtype: DType) -> Operand:
        """A constant of rank 0."""
        return self.constant(np.asarray(value, dtype.to_numpy()))

    def add(self, name: str, *inputs: Operand | None, **attrs: AttrValue) -> Operand:
        """Use a graph operator that has one output; it is evaluated now where its operands are known and small."""
        (result,) = self.add_multi(name, inputs, attrs)
        return result

    def add_multi(
        self, name: str, inputs: Sequence[Operand | None], attrs: Mapping[str, AttrValue]
    ) -> tuple[Operand, ...]:
        """Use a graph operator."""
        values = [None if x is None else x.value for x in inputs]
        outputs = self._builder.add_multi(name, values, attrs)
        for value in outputs:
            _check_size(value)
        given = [None if x is None else x.array for x in inputs]
        known = all(x is None or x.array is not None for x in inputs)
        if known and evaluate.is_small(values, outputs):
            return tuple(self.constant(a) for a in evaluate.interpret_operator(name, given, attrs, outputs))
        depends = frozenset[str]().union(*(x.inputs for x in inputs if x is not None))
        return tuple(Operand(value, None, depends) for value in outputs)

    def array(self, x: Operand, what: str) -> Array:
        """The elements of an operand that must be known now; `what` says what for.

        Raises: NeedsValues when they depend on inputs.
        """
        if x.array is not None:
            return x.array
        if x.inputs:
            raise NeedsValues(x.inputs, what)
        (array,) = evaluate.run_constants(self._builder.finish([x.value]), self.target)
        return array

    def integers(self, x: Operand, what: str) -> tuple[int, ...]:
        """The elements of a rank-1 (or rank-0) operand of integers, known now."""
        array = self.array(x, what)
        if array.ndim > 1 or array.dtype.kind not in "iu":
            raise ModelError(f"{what} must be a list of integers, not {x.value.type_text}")
        return tuple(int(v) for v in array.reshape(-1))

    def integer(self, x: Operand, what: str) -> int:
        """The one element of an operand of integers, known now."""
        found = self.integers(x, what)
        if len(found) != 1:
            raise ModelError(f"{what} must be one integer, not {x.value.type_text}")
        return found[0]

    def finish(self, outputs: Sequence[Operand]) -> Graph:
        """The graph of the outputs, each a value of its own that a node makes."""
        taken = set(self._builder.sources)
        values: list[Value] = []
        for x in outputs:
            value = x.value if x.value not in taken else self._builder.add("identity", [x.value])
            taken.add(value)
            values.append(value)
        return self._builder.finish(values)


def _check_size(value: Value) -> None:
    size = prod(shapes.static(value.shape, "a model")) * value.dtype.itemsize
    if size > _MAX_BYTES:
        raise UnsupportedError(f"{value.type_text} takes {size} bytes, more than the memory of this machine")
