"""Sorting along an axis by ranks: each element's place is the number of elements that go before it."""

from __future__ import annotations

from typing import cast

from lpx import te
from lpx.expr import build
from lpx.expr.nodes import Expr, Var
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, empty, flag, is_empty, operands


def _define_sort(inputs: Inputs, attrs: Attrs) -> Outputs:
    """Elements along `axis` in rising (or `descending`) order, and where they were, int64.

    Equal elements keep their order; NaN counts as larger than everything. Takes extent squared comparisons.
    """
    (x,) = operands(inputs)
    axis, descending = cast("int", attrs["axis"]), flag(attrs, "descending")
    if is_empty(x.shape):
        return empty(x.shape, x.dtype, "sorted"), empty(x.shape, "int64", "order")
    (extent,) = shapes.static(x.shape[axis : axis + 1], "a sort")
    other: Var = te.reduce_axis(extent, name="other")

    def rank(*i: Expr) -> Expr:
        rival, own = x[(*i[:axis], other, *i[axis + 1 :])], x[i]
        first = _is_less(own, rival) if descending else _is_less(rival, own)
        last = _is_less(rival, own) if descending else _is_less(own, rival)
        tie = ~first & ~last & (other < i[axis])
        return te.sum(build.cast(first | tie, "int64"), [other])

    ranks = te.compute(x.shape, rank, name="ranks")

    def zero(*_: Expr) -> Expr:
        return build.const(0, "int64")

    def position(*i: Expr) -> Expr:
        return i[axis]

    def place(*i: Expr) -> tuple[Expr, ...]:
        return (*i[:axis], te.clip(ranks[i], 0, extent - 1), *i[axis + 1 :])

    order = te.update(te.compute(x.shape, zero, name="order"), position, x.shape, place, ordered=True)

    def element(*i: Expr) -> Expr:
        return x[(*i[:axis], te.clip(order[i], 0, extent - 1), *i[axis + 1 :])]

    return te.compute(x.shape, element, name="sorted"), order


def _is_less(a: Expr, b: Expr) -> Expr:
    """a < b, with NaN above everything."""
    less = a < b
    if not a.dtype.is_float:
        return less
    return less | (build.call("isnan", b) & ~build.call("isnan", a))


register(Operator("sort", "opaque", _define_sort))
