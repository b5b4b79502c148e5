"""Reductions over axes, positions of extremes, running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from lpx import te
from lpx.expr import build
from lpx.expr.nodes import Expr, Var
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.movement import Attrs, Inputs, Outputs, operands

Reduce = Callable[..., Expr]


def reduce_axes(x: te.Tensor, axes: Sequence[int]) -> tuple[list[Var], Callable[[Sequence[Expr]], tuple[Expr, ...]]]:
    """Reduce axes over `axes` of `x`, and the index of `x` at a position of the kept axes."""
    reduced = {a: te.reduce_axis(x.shape[a], name=f"r{a}") for a in axes}

    def index(kept: Sequence[Expr]) -> tuple[Expr, ...]:
        queue = iter(kept)
        return tuple(reduced[a] if a in reduced else next(queue) for a in range(len(x.shape)))

    return list(reduced.values()), index


def keep_dims(x: te.Tensor, axes: Sequence[int], keep: bool) -> tuple[shapes.Dim, ...]:
    """The shape of a reduction's result."""
    return tuple(1 if a in axes else d for a, d in enumerate(shapes.dims(x.shape)) if keep or a not in axes)


def reduced(x: te.Tensor, axes: Sequence[int], keep: bool, combine: Reduce, name: str) -> te.Tensor:
    """`combine` (te.sum and the like) over `axes` of `x`.

    Kept axes of extent 1 are put back by a copy of their own, which costs nothing once it is inlined, so that the
    reduction itself has only the axes it needs.
    """
    if not axes:
        return te.compute(x.shape, lambda *i: x[i], name=name)
    axis_list, index = reduce_axes(x, axes)
    total = te.compute(keep_dims(x, axes, False), lambda *i: combine(x[index(i)], axis=axis_list), name=name)
    if not keep:
        return total

    def kept(*i: Expr) -> Expr:
        return total[tuple(e for a, e in enumerate(i) if a not in axes)]

    return te.compute(keep_dims(x, axes, True), kept, name=f"{name}_kept")


def _register(name: str, combine: Reduce) -> None:
    def define(inputs: Inputs, attrs: Attrs) -> Outputs:
        (x,) = operands(inputs)
        axes = shapes.normalize_axes(cast("tuple[int, ...] | None", attrs["axes"]), len(x.shape))
        return (reduced(x, axes, bool(attrs["keepdims"]), combine, name),)

    register(Operator(name, "reduction", define))


for _name, _combine in {
    "reduce_sum": te.sum,
    "reduce_prod": te.prod,
    "reduce_max": te.max,
    "reduce_min": te.min,
    "reduce_any": te.any,
    "reduce_all": te.all,
}.items():
    _register(_name, _combine)


def _register_arg(name: str, extreme: Reduce) -> None:
    def define(inputs: Inputs, attrs: Attrs) -> Outputs:
        """The first position of the extreme along one `axis`, int64; NaN counts as the extreme."""
        (x,) = operands(inputs)
        axis = shapes.normalize_axis(cast("int", attrs["axis"]), len(x.shape))
        (reduce_axis,), index = reduce_axes(x, (axis,))

        def at(*indices: Expr) -> Expr | tuple[Expr, ...]:
            kept = [i for a, i in enumerate(indices) if a != axis] if attrs["keepdims"] else indices
            return extreme(x[index(kept)], axis=reduce_axis)

        found = te.compute(keep_dims(x, (axis,), bool(attrs["keepdims"])), at, name=name)
        return (found[0] if isinstance(found, tuple) else found,)

    register(Operator(name, "reduction", define))


_register_arg("argmax", te.argmax)
_register_arg("argmin", te.argmin)


def _define_cumsum(inputs: Inputs, attrs: Attrs) -> Outputs:
    """Running sums along `axis`; `exclusive` leaves out the element itself, `reverse` runs from the end."""
    (x,) = operands(inputs)
    axis = shapes.normalize_axis(cast("int", attrs["axis"]), len(x.shape))
    extent = build.as_expr(x.shape[axis])
    others = tuple(d for a, d in enumerate(x.shape) if a != axis)
    exclusive, reverse = bool(attrs["exclusive"]), bool(attrs["reverse"])

    def element(t: Expr, indices: Sequence[Expr]) -> Expr:
        return x[(*indices[:axis], t, *indices[axis:])]

    def step(t: Expr, total: te.Tensor) -> te.Tensor:
        return te.compute(others, lambda *i: total[i] + element(t, i), name="running")

    zero = te.compute(others, lambda *_: build.const(0, x.dtype), name="zero")
    trajectory = te.scan(extent, [zero], step, keep="all", reverse=reverse)
    sums = trajectory[0] if isinstance(trajectory, tuple) else trajectory

    def at(*indices: Expr) -> Expr:
        t, rest = indices[axis], [i for a, i in enumerate(indices) if a != axis]
        if not exclusive:
            return sums[(t, *rest)]
        started = t < extent - 1 if reverse else t > 0
        return build.select(started, sums[(t + 1 if reverse else t - 1, *rest)], build.const(0, x.dtype))

    return (te.compute(x.shape, at, name="cumsum"),)


register(Operator("cumsum", "opaque", _define_cumsum))
