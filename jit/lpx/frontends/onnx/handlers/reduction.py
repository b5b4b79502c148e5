"""Reductions over axes, and where extremes lie."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from lpx import dtypes
from lpx.frontends.onnx.context import Context, Operand
from lpx.frontends.onnx.handlers.elementwise import cast
from lpx.frontends.onnx.handlers.registry import Call, handles
from lpx.frontends.onnx.handlers.shape import axes_of
from lpx.graph import shapes

Axes = tuple[int, ...]


@handles("ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum",
         "ReduceLogSumExp", "ReduceMax", "ReduceMin")  # fmt: skip
def reduce(ctx: Context, call: Call) -> Operand:
    """A reduction over the axes named, or over all. Sums of narrow floats are kept in float32."""
    x = call.input(0)
    given = axes_of(ctx, call, 1, 13 if call.op == "ReduceSum" else 18)
    keep = call.attrs.flag("keepdims", True)
    no_op = call.attrs.flag("noop_with_empty_axes")
    if not given:
        if no_op:
            return _map_only(ctx, call.op, x)
        given = None
    axes = shapes.normalize_axes(given, x.rank)
    if call.op in ("ReduceMax", "ReduceMin"):
        return _extreme(ctx, call.op, x, axes, keep)
    wide = wider(x)
    return cast(ctx, _FORMULAS[call.op](ctx, cast(ctx, x, wide), axes, keep), x.dtype)


def wider(x: Operand) -> dtypes.DType:
    """The dtype in which sums over an operand are kept."""
    return dtypes.float32 if x.dtype.is_float and x.dtype.bits < 32 else x.dtype


def _map_only(ctx: Context, op: str, x: Operand) -> Operand:
    """What a reduction over no axis is: each element by itself."""
    if op in ("ReduceMax", "ReduceMin"):
        return x
    return cast(ctx, _FORMULAS[op](ctx, cast(ctx, x, wider(x)), (), True), x.dtype)


def _extreme(ctx: Context, op: str, x: Operand, axes: Axes, keep: bool) -> Operand:
    if x.dtype.is_bool:
        return ctx.add("reduce_any" if op == "ReduceMax" else "reduce_all", x, axes=axes, keepdims=keep)
    if 0 in (x.shape[a] for a in axes):
        low, high = (-np.inf, np.inf) if x.dtype.is_float else (x.dtype.min_value, x.dtype.max_value)
        shape = tuple(1 if a in axes else d for a, d in enumerate(x.shape) if keep or a not in axes)
        return ctx.add("full", shape=shape, value=low if op == "ReduceMax" else high, dtype=x.dtype.name)
    return ctx.add("reduce_max" if op == "ReduceMax" else "reduce_min", x, axes=axes, keepdims=keep)


def total(ctx: Context, x: Operand, axes: Axes, keep: bool) -> Operand:
    """The sum over axes."""
    return ctx.add("reduce_sum", x, axes=axes, keepdims=keep)


def average(ctx: Context, x: Operand, axes: Axes, keep: bool) -> Operand:
    """The mean over axes; that of integers truncates."""
    count = ctx.number(prod(x.shape[a] for a in axes), x.dtype)
    return ctx.add("div" if x.dtype.is_float else "truncdiv", total(ctx, x, axes, keep), count)


def _product(ctx: Context, x: Operand, axes: Axes, keep: bool) -> Operand:
    return ctx.add("reduce_prod", x, axes=axes, keepdims=keep)


def _l1(ctx: Context, x: Operand, axes: Axes, keep: bool) -> Operand:
    return total(ctx, ctx.add("abs", x) if x.dtype.kind != "uint" else x, axes, keep)


def _sum_square(ctx: Context, x: Operand, axes: Axes, keep: bool) -> Operand:
    return total(ctx, ctx.add("mul", x, x), axes, keep)


def _l2(ctx: Context, x: Operand, axes: Axes, keep: bool) -> Operand:
    return _in_floats(ctx, "sqrt", _sum_square(ctx, x, axes, keep))


def _log_sum(ctx: Context, x: Operand, axes: Axes, keep: bool) -> Operand:
    return _in_floats(ctx, "log", total(ctx, x, axes, keep))


def _log_sum_exp(ctx: Context, x: Operand, axes: Axes, keep: bool) -> Operand:
    """log(sum(exp(x - m))) + m, with m the maximum where that is finite, else 0."""
    if not x.dtype.is_float:
        return cast(ctx, _log_sum_exp(ctx, cast(ctx, x, dtypes.float64), axes, keep), x.dtype)
    largest = _extreme(ctx, "ReduceMax", x, axes, True)
    finite = ctx.add("where", ctx.add("isfinite", largest), largest, ctx.number(0, x.dtype))
    sums = total(ctx, ctx.add("exp", ctx.add("sub", x, finite)), axes, True)
    result = ctx.add("add", ctx.add("log", sums), finite)
    return (
        result if keep else ctx.add("reshape", result, shape=tuple(d for a, d in enumerate(x.shape) if a not in axes))
    )


def _in_floats(ctx: Context, name: str, x: Operand) -> Operand:
    """A function of floats applied to any dtype: integers go through float64 and are truncated."""
    if x.dtype.is_float:
        return ctx.add(name, x)
    return cast(ctx, ctx.add(name, cast(ctx, x, dtypes.float64)), x.dtype)


_FORMULAS: dict[str, Callable[[Context, Operand, Axes, bool], Operand]] = {
    "ReduceSum": total,
    "ReduceMean": average,
    "ReduceProd": _product,
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceSumSquare": _sum_square,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
}


@handles("ArgMax", "ArgMin")
def arg_extreme(ctx: Context, call: Call) -> Operand:
    """The position of the extreme along an axis: the first one, or with `select_last_index` the last."""
    x = call.input(0)
    axis = shapes.normalize_axis(call.attrs.integer("axis", 0), x.rank)
    keep, last = call.attrs.flag("keepdims", True), call.attrs.flag("select_last_index")
    name = call.op.lower()
    if not last:
        return ctx.add(name, x, axis=axis, keepdims=keep)
    flip = {axis: (x.shape[axis] - 1, -1)}
    backwards = ctx.add(
        "slice",
        x,
        starts=tuple(flip.get(a, (0, 1))[0] for a in range(x.rank)),
        steps=tuple(flip.get(a, (0, 1))[1] for a in range(x.rank)),
        sizes=x.shape,
    )
    found = ctx.add(name, backwards, axis=axis, keepdims=keep)
    return ctx.add("sub", ctx.number(x.shape[axis] - 1, dtypes.int64), found)


@handles("CumSum", "CumProd")
def cumulative(ctx: Context, call: Call) -> Operand:
    """Running sums or products along an axis."""
    x, name = call.input(0), call.op.lower()
    axis = shapes.normalize_axis(ctx.integer(call.input(1), f"the axis of {call.op}"), x.rank)
    exclusive, reverse = call.attrs.flag("exclusive"), call.attrs.flag("reverse")
    wide = wider(x)
    return cast(ctx, ctx.add(name, cast(ctx, x, wide), axis=axis, exclusive=exclusive, reverse=reverse), x.dtype)


@handles("Hardmax")
def hard_max(ctx: Context, call: Call) -> Operand:
    """1 at the first maximum along an axis, else 0."""
    x = call.input(0)
    axis = shapes.normalize_axis(call.attrs.integer("axis", -1 if call.version >= 13 else 1), x.rank)
    rows = x if call.version >= 13 else ctx.add("reshape", x, shape=(prod(x.shape[:axis]), prod(x.shape[axis:])))
    axis = axis if call.version >= 13 else 1
    best = ctx.add("argmax", rows, axis=axis, keepdims=True)
    positions = ctx.constant(np.arange(rows.shape[axis], dtype=np.int64).reshape(-1, *(1,) * (rows.rank - axis - 1)))
    hot = ctx.add("eq", best, positions)
    result = ctx.add("where", hot, ctx.number(1, x.dtype), ctx.number(0, x.dtype))
    return ctx.add("reshape", result, shape=x.shape)
