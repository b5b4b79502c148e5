"""Operators that read or write elements at computed places."""

from __future__ import annotations

from lpx import dtypes
from lpx.errors import ModelError
from lpx.frontends.onnx.context import Context, Operand
from lpx.frontends.onnx.handlers.elementwise import cast
from lpx.frontends.onnx.handlers.registry import Call, handles
from lpx.graph import shapes


@handles("Gather")
def gather(ctx: Context, call: Call) -> Operand:
    """Slices at indices along one axis; negative indices count from the end."""
    x = call.input(0)
    axis = shapes.normalize_axis(call.attrs.integer("axis", 0), x.rank)
    return ctx.add("take", x, call.input(1), axis=axis)


@handles("OneHot")
def one_hot(ctx: Context, call: Call) -> Operand:
    """`values[1]` where the new axis meets an index, else `values[0]`; an index out of range meets nothing."""
    indices, depth, values = call.input(0), call.input(1), call.input(2)
    extent = int(ctx.array(depth, "the depth of OneHot").reshape(-1)[0])
    if extent < 1:
        raise ModelError(f"OneHot with a depth of {extent}")
    axis = shapes.normalize_axis(call.attrs.integer("axis", -1), indices.rank + 1)
    places = cast(ctx, indices, dtypes.int64)
    wrapped = ctx.add("add", places, ctx.number(extent, dtypes.int64))
    places = ctx.add("where", ctx.add("lt", places, ctx.number(0, dtypes.int64)), wrapped, places)
    lifted = ctx.add("reshape", places, shape=(*indices.shape[:axis], 1, *indices.shape[axis:]))
    counted = ctx.add("arange", start=0, step=1, size=extent, dtype="int64")
    counted = ctx.add("reshape", counted, shape=(extent, *(1,) * (indices.rank - axis)))
    off, on = (
        ctx.add("reshape", ctx.add("slice", values, starts=(k,), steps=(1,), sizes=(1,)), shape=()) for k in (0, 1)
    )
    return ctx.add("where", ctx.add("eq", lifted, counted), on, off)
