"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from lpx import te
from lpx.expr.nodes import Expr, Var
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, flag, operands

Reduce = Callable[[Expr, Sequence[Var]], Expr]


def reduce_axes(x: te.Tensor, axes: Sequence[int]) -> tuple[list[Var], Callable[[Sequence[Expr]], tuple[Expr, ...]]]:
    """Reduce axes over `axes` of `x`, and the index of `x` at a position of the kept axes."""
    reduced: dict[int, Var] = {a: te.reduce_axis(x.shape[a], name=f"r{a}") for a in axes}

    def index(kept: Sequence[Expr]) -> tuple[Expr, ...]:
        queue = iter(kept)
        return tuple(reduced[a] if a in reduced else next(queue) for a in range(x.rank))

    return list(reduced.values()), index


def result_shape(x: te.Tensor, axes: Sequence[int], keep: bool) -> tuple[shapes.Dim, ...]:
    """The shape of a reduction's result."""
    return tuple(1 if a in axes else d for a, d in enumerate(x.shape) if keep or a not in axes)


def reduced(x: te.Tensor, axes: Sequence[int], keep: bool, combine: Reduce, name: str) -> te.Tensor:
    """`combine` (te.sum and the like) over `axes` of `x`; `x` itself over no axes.

    Axes kept with extent 1 are put back by a copy, which costs nothing once it is inlined: the reduction itself has
    only the axes it needs, by which default schedules know rows.
    """
    if not axes:
        return x
    axis_list, index = reduce_axes(x, axes)

    def at(*i: Expr) -> Expr:
        return combine(x[index(i)], axis_list)

    def kept(*i: Expr) -> Expr:
        return total[tuple(k for a, k in enumerate(i) if a not in axes)]

    total = te.compute(result_shape(x, axes, False), at, name=name)
    return te.compute(result_shape(x, axes, True), kept, name=f"{name}_kept") if keep else total


def _copied(x: te.Tensor, name: str) -> te.Tensor:
    def at(*i: Expr) -> Expr:
        return x[i]

    return te.compute(x.shape, at, name=name)


def _reduction(name: str, combine: Reduce) -> Operator:
    def define(inputs: Inputs, attrs: Attrs) -> Outputs:
        (x,) = operands(inputs)
        axes = shapes.normalize_axes(cast("tuple[int, ...] | None", attrs["axes"]), x.rank)
        if not axes:
            return (_copied(x, name),)
        return (reduced(x, axes, flag(attrs, "keepdims"), combine, name),)

    return Operator(name, "reduction", define)


for _name, _combine in {
    "reduce_sum": te.sum,
    "reduce_prod": te.prod,
    "reduce_max": te.max,
    "reduce_min": te.min,
    "reduce_any": te.any,
    "reduce_all": te.all,
}.items():
    register(_reduction(_name, _combine))
