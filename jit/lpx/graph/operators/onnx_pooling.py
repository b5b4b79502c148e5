"""Where the maxima of pooling windows lie."""

from __future__ import annotations

import math

from lpx import te
from lpx.expr import build
from lpx.expr.nodes import Expr, Var
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.contraction import window_count
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, flag, ints, operands
from lpx.graph.operators.movement import pad


def _define_max_pool_indices(inputs: Inputs, attrs: Attrs) -> Outputs:
    """The position in the whole of x[N, C, spatial...] of each window's first maximum, int64.

    Positions count in row-major order, or with `column_major` the spatial axes the other way round.
    """
    (x,) = operands(inputs)
    kernel, strides, dilations = (ints(attrs, n) for n in ("kernel", "strides", "dilations"))
    before, after = ints(attrs, "pads_before"), ints(attrs, "pads_after")
    lowest = build.const(-math.inf if x.dtype.is_float else x.dtype.min_value, x.dtype)
    padded = pad(x, (0, 0, *before), (0, 0, *after), lowest)
    extents = shapes.static(x.shape, "max_pool_indices")
    sizes = [
        window_count(d, k, s, dil) for d, k, s, dil in zip(padded.shape[2:], kernel, strides, dilations, strict=True)
    ]
    tap: Var = te.reduce_axis(math.prod(kernel), name="tap")

    def read(n: Expr, c: Expr, *spatial: Expr) -> Expr:
        steps = _unravel(tap, kernel)
        return padded[(n, c, *(p * s + t * d for p, s, t, d in zip(spatial, strides, steps, dilations, strict=True)))]

    def first(*i: Expr) -> Expr:
        return te.argmax(read(*i), tap)[0]

    best = te.compute((*x.shape[:2], *sizes), first, name="best")

    def position(n: Expr, c: Expr, *spatial: Expr) -> Expr:
        steps = _unravel(best[(n, c, *spatial)], kernel)
        places = [p * s + t * d - b for p, s, t, d, b in zip(spatial, strides, steps, dilations, before, strict=True)]
        inner, order = extents[2:], range(len(places))
        flat: Expr = n * extents[1] + c
        flat = flat * math.prod(inner)
        stride = 1
        for a in order if flag(attrs, "column_major") else reversed(order):
            flat = flat + places[a] * stride
            stride *= inner[a]
        return flat

    return (te.compute(best.shape, position, name="max_pool_indices"),)


def _unravel(flat: Expr, shape: tuple[int, ...]) -> list[Expr]:
    found: list[Expr] = []
    for extent in reversed(shape[1:]):
        found.append(flat % extent)
        flat = flat // extent
    return [flat, *reversed(found)]


register(Operator("max_pool_indices", "opaque", _define_max_pool_indices))
