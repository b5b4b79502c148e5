"""Positions of extremes along an axis: argmax and argmin.

Pairs of position and value are carried along in one pass. In a long row the extreme of each chunk is found first, by
itself, and only the first chunk that holds the extreme of all is searched for its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from lpx import dtypes, te
from lpx.expr import build
from lpx.expr.nodes import Expr, Var
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, empty, flag, is_empty, operands
from lpx.graph.operators.reduction import reduce_axes, result_shape
from lpx.records import record

Pair = Callable[[Expr, Var, str], tuple[Expr, Expr]]
Reduce = Callable[[Expr, Var], Expr]
Row = Callable[[Sequence[Expr], Expr], Expr]
"""The element at some place of the row at an index."""

CHUNK = 1024
"""Elements of a chunk of a row."""

MIN_CHUNKS = 16
"""Chunks from which on a row is long."""


@record
class _Extreme:
    """How an extreme is found: alone, and with its position; `worst` is the value that every other one beats."""

    name: str
    reduce: Reduce
    pair: Pair
    worst: Callable[[dtypes.DType], float]

    def define(self, inputs: Inputs, attrs: Attrs) -> Outputs:
        """The first position of the extreme along one `axis`, int64; NaN counts as the extreme."""
        (x,) = operands(inputs)
        axis = shapes.normalize_axis(cast("int", attrs["axis"]), x.rank)
        shape = result_shape(x, (axis,), flag(attrs, "keepdims"))
        if is_empty(shape):
            return (empty(shape, "int64", self.name),)
        extent = x.shape[axis]
        if axis == x.rank - 1 and isinstance(extent, int) and MIN_CHUNKS * CHUNK <= extent <= dtypes.int32.max_value:
            positions = self._by_chunks(x, extent)
        else:
            positions = self._with_values(x, axis)

        def wide(*i: Expr) -> Expr:
            kept = [k for a, k in enumerate(i) if a != axis] if flag(attrs, "keepdims") else i
            return te.cast(positions[tuple(kept)], "int64")

        return (te.compute(shape, wide, name=self.name),)

    def _with_values(self, x: te.Tensor, axis: int) -> te.Tensor:
        """One pass over pairs. Positions are int32 where that is wide enough: a vector holds twice as many."""
        (reduce_axis,), index = reduce_axes(x, (axis,))
        extent = x.shape[axis]
        dtype = "int32" if isinstance(extent, int) and extent <= dtypes.int32.max_value else "int64"

        def at(*i: Expr) -> Expr:
            return self.pair(x[index(i)], reduce_axis, dtype)[0]

        return te.compute(result_shape(x, (axis,), False), at, name=f"{self.name}_position")

    def _by_chunks(self, x: te.Tensor, extent: int) -> te.Tensor:
        """Positions in long rows."""
        rows, count = x.shape[:-1], -(-extent // CHUNK)

        def in_chunk(i: Sequence[Expr], chunk: Expr, r: Expr) -> Expr:
            place = chunk * CHUNK + r
            value = x[(*i, place)]
            return te.where(place < extent, value, self.worst(x.dtype)) if extent % CHUNK else value

        r = te.reduce_axis(CHUNK, name="r")

        def extreme(*i: Expr) -> Expr:
            return self.reduce(in_chunk(i[:-1], i[-1], r), r)

        chunks = te.compute((*rows, count), extreme, name=f"{self.name}_chunks")
        chosen = self._first(lambda i, r: chunks[(*i, r)], rows, count, f"{self.name}_chunk")

        def in_chosen(i: Sequence[Expr], r: Expr) -> Expr:
            return in_chunk(i, te.clip(te.cast(chosen[tuple(i)], dtypes.index), 0, count - 1), r)

        within = self._first(in_chosen, rows, CHUNK, f"{self.name}_within")

        def at(*i: Expr) -> Expr:
            return chosen[i] * CHUNK + within[i]

        return te.compute(rows, at, name=f"{self.name}_position")

    def _first(self, row: Row, rows: Sequence[shapes.Dim], extent: int, name: str) -> te.Tensor:
        """The first position in each row that holds the row's extreme, or NaN if any does; int32."""
        r, p = te.reduce_axis(extent, name="r"), te.reduce_axis(extent, name="p")

        def extreme(*i: Expr) -> Expr:
            return self.reduce(row(i, r), r)

        extremes = te.compute(rows, extreme, name=f"{name}_value")

        def place(*i: Expr) -> Expr:
            value = row(i, p)
            holds = build.compare("eq", value, extremes[i])
            if value.dtype.is_float:
                holds = holds | build.call("isnan", value)
            return te.min(te.where(holds, te.cast(p, "int32"), dtypes.int32.max_value), axis=p)

        return te.compute(rows, place, name=f"{name}_place")


def _lowest(dtype: dtypes.DType) -> float:
    return float("-inf") if dtype.is_float else dtype.min_value


def _highest(dtype: dtypes.DType) -> float:
    return float("inf") if dtype.is_float else dtype.max_value


for _extreme in (
    _Extreme("argmax", te.max, te.argmax, _lowest),
    _Extreme("argmin", te.min, te.argmin, _highest),
):
    register(Operator(_extreme.name, "reduction", _extreme.define))
