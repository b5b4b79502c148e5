"""Resampling an axis: each output element is a weighted sum of a few input elements."""

from __future__ import annotations

from typing import cast

from lpx import te
from lpx.expr import build
from lpx.expr.nodes import Expr, Var
from lpx.graph.operator import Operator, register
from lpx.graph.operators.contraction import accumulator, finish
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, operands


def _define_resample(inputs: Inputs, attrs: Attrs) -> Outputs:
    """out[.., i, ..] = sum over k of weights[i, k] * x[.., places[i, k], ..] along `axis`.

    `places` are int64 and clamped to the axis; `weights` have the dtype of the sum (float32 or wider).
    """
    x, places, weights = operands(inputs)
    axis = cast("int", attrs["axis"])
    wide = accumulator(x.dtype)
    tap: Var = te.reduce_axis(places.shape[1], name="tap")
    last = build.as_expr(x.shape[axis]) - 1

    def at(*i: Expr) -> Expr:
        place = build.minimum(build.maximum(places[i[axis], tap], 0), last)
        return te.sum(te.cast(x[(*i[:axis], place, *i[axis + 1 :])], wide) * weights[i[axis], tap], [tap])

    shape = (*x.shape[:axis], places.shape[0], *x.shape[axis + 1 :])
    return (finish(te.compute(shape, at, name="resample"), x.dtype),)


register(Operator("resample", "reduction", _define_resample))
