"""Pairs of elements turned by angles."""

from __future__ import annotations

from typing import cast

from lpx import te
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.contraction import accumulator
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, operands


def _define_rotate_pairs(inputs: Inputs, attrs: Attrs) -> Outputs:
    """(a cos - b sin, a sin + b cos) for the pairs (a, b) along `axis`, of extent 2, in float32 or wider, rounded once.

    The second and third operands are cosines and sines, which broadcast to the first; along `axis` they have extent 1.
    """
    x, cos, sin = operands(inputs)
    axis, wide = cast("int", attrs["axis"]), accumulator(x.dtype)

    def at(*i: Expr) -> Expr:
        own, other = (build.cast(x[(*i[:axis], place, *i[axis + 1 :])], wide) for place in (i[axis], 1 - i[axis]))
        c, s = (build.cast(shapes.read_broadcast(t, i, x.shape), wide) for t in (cos, sin))
        return build.cast(own * c + other * build.select(i[axis] < 1, -s, s), x.dtype)

    return (te.compute(x.shape, at, name="rotate_pairs"),)


register(Operator("rotate_pairs", "injective", _define_rotate_pairs))
