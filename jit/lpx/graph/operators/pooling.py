"""Windows over the spatial axes of x[N, C, spatial...]: maxima and means."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lpx import te
from lpx.expr import build
from lpx.expr.nodes import Expr, Var
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.contraction import accumulator, finish, window_count
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, flag, ints, operands
from lpx.graph.operators.movement import pad


def _windows(x: te.Tensor, attrs: Attrs, fill: Expr) -> tuple[te.Tensor, list[shapes.Dim]]:
    kernel, strides, dilations = ints(attrs, "kernel"), ints(attrs, "strides"), ints(attrs, "dilations")
    padded = pad(x, (0, 0, *ints(attrs, "pads_before")), (0, 0, *ints(attrs, "pads_after")), fill)
    sizes = [
        window_count(d, k, s, dil) for d, k, s, dil in zip(padded.shape[2:], kernel, strides, dilations, strict=True)
    ]
    return padded, sizes


def _taps(attrs: Attrs) -> list[Var]:
    return [te.reduce_axis(k, name=f"k{n}") for n, k in enumerate(ints(attrs, "kernel"))]


def _places(spatial: Sequence[Expr], taps: Sequence[Var], attrs: Attrs) -> list[Expr]:
    strides, dilations = ints(attrs, "strides"), ints(attrs, "dilations")
    return [p * s + t * d for p, s, t, d in zip(spatial, strides, taps, dilations, strict=True)]


def _define_max_pool(inputs: Inputs, attrs: Attrs) -> Outputs:
    """Window maxima; padding never wins."""
    (x,) = operands(inputs)
    lowest = build.const(-math.inf if x.dtype.is_float else x.dtype.min_value, x.dtype)
    padded, sizes = _windows(x, attrs, lowest)
    taps = _taps(attrs)

    def at(n: Expr, c: Expr, *spatial: Expr) -> Expr:
        return te.max(padded[(n, c, *_places(spatial, taps, attrs))], taps)

    return (te.compute((*x.shape[:2], *sizes), at, name="max_pool"),)


def _define_avg_pool(inputs: Inputs, attrs: Attrs) -> Outputs:
    """Window means.

    A window's divisor is the number of its taps inside the input, or inside input and padding when
    `count_padding`; `pads_after` may reach past the declared padding `counted_after` (ceil mode), which never counts.
    """
    (x,) = operands(inputs)
    padded, sizes = _windows(x, attrs, build.const(0, x.dtype))
    taps = _taps(attrs)
    wide = accumulator(x.dtype)

    def window_sum(n: Expr, c: Expr, *spatial: Expr) -> Expr:
        return te.sum(te.cast(padded[(n, c, *_places(spatial, taps, attrs))], wide), taps)

    sums = te.compute((*x.shape[:2], *sizes), window_sum, name="window_sum")

    def mean(n: Expr, c: Expr, *spatial: Expr) -> Expr:
        taps_inside: Expr = build.const(1, "int64")
        for axis, place in enumerate(spatial):
            taps_inside = taps_inside * _taps_inside(x, attrs, axis, place)
        return sums[(n, c, *spatial)] / build.cast(taps_inside, wide)

    return (finish(te.compute(sums.shape, mean, name="avg_pool"), x.dtype),)


def _taps_inside(x: te.Tensor, attrs: Attrs, axis: int, place: Expr) -> Expr:
    """How many taps of the window at `place` count along one spatial axis."""
    before, after = ints(attrs, "pads_before")[axis], ints(attrs, "counted_after")[axis]
    low, high = (-before, after) if flag(attrs, "count_padding") else (0, 0)
    dilation = ints(attrs, "dilations")[axis]
    start = place * ints(attrs, "strides")[axis] - before
    end = build.as_expr(x.shape[2 + axis]) + high
    first = build.maximum((low - start + (dilation - 1)) // dilation, 0)
    last = build.minimum((end - start + (dilation - 1)) // dilation, ints(attrs, "kernel")[axis])
    return last - first


register(Operator("max_pool", "reduction", _define_max_pool))
register(Operator("avg_pool", "reduction", _define_avg_pool))
