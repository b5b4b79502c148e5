"""Running sums, products and extremes along an axis."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import cast

from lpx import te
from lpx.dtypes import DType
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, empty, flag, is_empty, operands

Combine = Callable[[Expr, Expr], Expr]


def _running(name: str, combine: Combine, identity: Callable[[DType], float]) -> Operator:
    def define(inputs: Inputs, attrs: Attrs) -> Outputs:
        """Combinations along `axis`; `exclusive` leaves out the element itself, `reverse` runs from the end."""
        (x,) = operands(inputs)
        axis = shapes.normalize_axis(cast("int", attrs["axis"]), x.rank)
        if is_empty(x.shape):
            return (empty(x.shape, x.dtype, name),)
        start = build.const(identity(x.dtype), x.dtype)
        others = tuple(d for a, d in enumerate(x.shape) if a != axis)
        reverse = flag(attrs, "reverse")
        steps = _by_steps(x, axis, others)
        values = te.scan(
            x.shape[axis], (others, _constantly(start)), _step(steps, others, combine), keep="all", reverse=reverse
        )
        if axis == 0 and not flag(attrs, "exclusive"):
            return (values,)
        extent = build.as_expr(x.shape[axis])

        def at(*i: Expr) -> Expr:
            t, rest = i[axis], (*i[:axis], *i[axis + 1 :])
            if not flag(attrs, "exclusive"):
                return values[(t, *rest)]
            started, previous = (t < extent - 1, t + 1) if reverse else (t > 0, t - 1)
            return build.select(started, values[(previous, *rest)], start)

        return (te.compute(x.shape, at, name=name),)

    return Operator(name, "opaque", define)


def _constantly(value: Expr) -> Callable[..., Expr]:
    def at(*_: Expr) -> Expr:
        return value

    return at


def _by_steps(x: te.Tensor, axis: int, others: Sequence[te.Dim]) -> te.Tensor:
    """`x` with the axis of the scan first: what one step reads lies side by side."""

    def at(t: Expr, *i: Expr) -> Expr:
        return x[(*i[:axis], t, *i[axis:])]

    return te.compute((x.shape[axis], *others), at, name="steps")


def _step(x: te.Tensor, others: Sequence[te.Dim], combine: Combine) -> Callable[[Expr, te.Tensor], te.Tensor]:
    def step(t: Expr, state: te.Tensor) -> te.Tensor:
        def at(*i: Expr) -> Expr:
            return combine(state[i], x[(t, *i)])

        return te.compute(others, at, name="running")

    return step


register(_running("cumsum", operator.add, lambda _: 0))
register(_running("cumprod", operator.mul, lambda _: 1))
