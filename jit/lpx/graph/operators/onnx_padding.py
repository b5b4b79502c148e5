"""Padding that repeats the data: edges, reflections, periods."""

from __future__ import annotations

from typing import cast

from lpx import te
from lpx.errors import ShapeError
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, ints, operands


def _define_pad_repeating(inputs: Inputs, attrs: Attrs) -> Outputs:
    """`before`, `after` per axis (not negative); `mode` as in numpy.pad: edge, reflect, wrap.

    Reflections go back and forth as often as needed.
    """
    (x,) = operands(inputs)
    before, after, mode = ints(attrs, "before"), ints(attrs, "after"), cast("str", attrs["mode"])
    extents = shapes.static(x.shape, "padding that repeats")
    if any(not d and b + a for d, b, a in zip(extents, before, after, strict=True)):
        raise ShapeError(f"an axis without elements cannot be padded by repeating: {shapes.shape_text(extents)}")
    shape = [d + b + a for d, b, a in zip(extents, before, after, strict=True)]

    def at(*i: Expr) -> Expr:
        places = [
            _source(k - b, d, mode) if b or a else k for k, d, b, a in zip(i, extents, before, after, strict=True)
        ]
        return x[tuple(places)]

    return (te.compute(shape, at, name="pad"),)


def _source(place: Expr, extent: int, mode: str) -> Expr:
    """Where the element at `place`, counted from the first of the data, comes from."""
    last = extent - 1
    if mode == "edge" or not last:
        return build.minimum(build.maximum(place, 0), last)
    if mode == "wrap":
        return place % extent
    folded = place % (2 * last)
    return build.minimum(build.minimum(folded, 2 * last - folded), last)


register(Operator("pad_repeating", "injective", _define_pad_repeating))
