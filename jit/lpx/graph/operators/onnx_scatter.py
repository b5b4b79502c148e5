"""Scatter with a reduction: elements at places that are data combine with what is there."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import cast

from lpx import te
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, is_empty, operands
from lpx.graph.operators.gathering import from_front

_COMBINE: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": operator.add,
    "mul": operator.mul,
    "min": build.minimum,
    "max": build.maximum,
}


def _define_scatter_reduce(inputs: Inputs, attrs: Attrs) -> Outputs:
    """The first operand with elements of the second combined into it (`reduction`: add, mul, min, max).

    The other operands, which broadcast, index the leading axes; the second operand has the shape that the gather there
    would give. Equal places combine one after another.
    """
    x, new, *places = operands(inputs)
    combine = _COMBINE[cast("str", attrs["reduction"])]
    common = shapes.broadcast_shapes([p.shape for p in places])

    def copy(*i: Expr) -> Expr:
        return x[i]

    def place(*i: Expr) -> tuple[Expr, ...]:
        head = i[: len(common)]
        picked = [from_front(shapes.read_broadcast(p, head, common), x.shape[axis]) for axis, p in enumerate(places)]
        return (*picked, *i[len(common) :])

    base = te.compute(x.shape, copy, name="scattered")
    if is_empty(new.shape):
        return (base,)

    def value(*i: Expr) -> Expr:
        return combine(base[place(*i)], new[i])

    return (te.update(base, value, new.shape, place, ordered=True),)


register(Operator("scatter_reduce", "opaque", _define_scatter_reduce))
