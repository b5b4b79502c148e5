"""Operators that read or write elements at computed places."""

from __future__ import annotations

from lpx import dtypes
from lpx.errors import ModelError, UnsupportedError
from lpx.frontends.onnx.context import Context, Operand
from lpx.frontends.onnx.handlers.elementwise import cast
from lpx.frontends.onnx.handlers.registry import Call, handles
from lpx.frontends.onnx.handlers.shape import take_slice
from lpx.graph import shapes


@handles("Gather")
def gather(ctx: Context, call: Call) -> Operand:
    """Slices at indices along one axis; negative indices count from the end."""
    x = call.input(0)
    axis = shapes.normalize_axis(call.attrs.integer("axis", 0), x.rank)
    return ctx.add("gather", x, call.input(1), axes=(axis,))


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
    shape = (*indices.shape[:axis], 1, *indices.shape[axis:])
    lifted = ctx.add("reshape", places, shape=shape)
    counted = _positions_along(ctx, (*shape[:axis], extent, *shape[axis + 1 :]), axis)
    off, on = (
        ctx.add("reshape", ctx.add("slice", values, starts=(k,), steps=(1,), sizes=(1,)), shape=()) for k in (0, 1)
    )
    return ctx.add("where", ctx.add("eq", lifted, counted), on, off)


@handles("GatherElements")
def gather_elements(ctx: Context, call: Call) -> Operand:
    """Elements along one axis, at an index for each element of the result."""
    x, places = call.input(0), call.input(1)
    axis = shapes.normalize_axis(call.attrs.integer("axis", 0), x.rank)
    return ctx.add("take_along", _cut_to(ctx, x, places, axis), places, axis=axis)


def _cut_to(ctx: Context, x: Operand, places: Operand, axis: int) -> Operand:
    """`x` without what lies past the indices' extents on other axes than `axis`."""
    if places.rank != x.rank:
        raise ModelError(f"indices {places.value.type_text} and data {x.value.type_text} differ in rank")
    sizes = tuple(d if a == axis else min(d, e) for a, (d, e) in enumerate(zip(x.shape, places.shape, strict=True)))
    if sizes == x.shape:
        return x
    return ctx.add("slice", x, starts=(0,) * x.rank, steps=(1,) * x.rank, sizes=sizes)


@handles("GatherND")
def gather_nd(ctx: Context, call: Call) -> Operand:
    """Slices of x at index tuples, which are the last axis of the indices; `batch_dims` leading axes go along."""
    x, places, batch = call.input(0), call.input(1), call.attrs.integer("batch_dims", 0)
    count = _tuple_length(x, places, batch)
    columns = [*_batch_positions(ctx, places, batch), *_columns(ctx, places)]
    return ctx.add("gather", x, *columns, axes=tuple(range(batch + count)))


def _tuple_length(x: Operand, places: Operand, batch: int) -> int:
    count = places.shape[-1] if places.rank else 0
    if not 0 <= batch < min(x.rank, places.rank) or not 1 <= count <= x.rank - batch:
        raise ModelError(f"indices {places.value.type_text} do not fit data {x.value.type_text}")
    return count


def _columns(ctx: Context, places: Operand) -> list[Operand]:
    """The indices of each axis: slices of the last axis, which is dropped."""
    shape = places.shape[:-1]
    return [
        ctx.add(
            "reshape",
            ctx.add("slice", places, starts=(*(0,) * len(shape), k), steps=(1,) * places.rank, sizes=(*shape, 1)),
            shape=shape,
        )
        for k in range(places.shape[-1])
    ]


def _batch_positions(ctx: Context, places: Operand, batch: int) -> list[Operand]:
    return [_positions_along(ctx, places.shape[:-1], axis) for axis in range(batch)]


def _positions_along(ctx: Context, shape: tuple[int, ...], axis: int) -> Operand:
    """0, 1, ... along one axis of a shape; the other axes have extent 1."""
    counted = ctx.add("arange", start=0, step=1, size=shape[axis], dtype="int64")
    return ctx.add("reshape", counted, shape=tuple(d if a == axis else 1 for a, d in enumerate(shape)))


@handles("ScatterND")
def scatter_nd(ctx: Context, call: Call) -> Operand:
    """Slices replaced, or combined, at index tuples."""
    x, places, new = call.input(0), call.input(1), call.input(2)
    _tuple_length(x, places, 0)
    return _scatter(ctx, call, x, new, _columns(ctx, places))


@handles("ScatterElements", "Scatter")
def scatter_elements(ctx: Context, call: Call) -> Operand:
    """Elements replaced, or combined, at an index along one axis for each of them."""
    x, places, new = call.input(0), call.input(1), call.input(2)
    axis = shapes.normalize_axis(call.attrs.integer("axis", 0), x.rank)
    if places.shape != new.shape or places.rank != x.rank:
        raise ModelError(
            f"data {x.value.type_text}, indices {places.value.type_text} and updates {new.value.type_text} do not fit"
        )
    columns = [places if a == axis else _positions_along(ctx, places.shape, a) for a in range(x.rank)]
    return _scatter(ctx, call, x, new, columns)


def _scatter(ctx: Context, call: Call, x: Operand, new: Operand, columns: list[Operand]) -> Operand:
    reduction = call.attrs.text("reduction", "none", legal=("none", "add", "mul", "min", "max"))
    if reduction == "none":
        return ctx.add("scatter", x, new, *columns)
    if x.dtype.is_bool:
        raise UnsupportedError("a scatter of bool with a reduction")
    return ctx.add("scatter_reduce", x, new, *columns, reduction=reduction)


@handles("TopK")
def top_k(ctx: Context, call: Call) -> tuple[Operand, Operand]:
    """The k largest (or smallest) elements along an axis, sorted, and where they are."""
    x = call.input(0)
    k = call.attrs.integer("k") if call.version < 10 else ctx.integer(call.input(1), "k of TopK")
    axis = shapes.normalize_axis(call.attrs.integer("axis", -1), x.rank)
    call.attrs.ignore("sorted")
    if not 0 <= k <= x.shape[axis]:
        raise ModelError(f"TopK of {k} of {x.shape[axis]} elements")
    values, order = ctx.add_multi("sort", (x,), {"axis": axis, "descending": call.attrs.flag("largest", True)})
    ranges = {axis: (0, 1, k)}
    return take_slice(ctx, values, ranges), take_slice(ctx, order, ranges)


@handles("ReverseSequence")
def reverse_sequence(ctx: Context, call: Call) -> Operand:
    """The first `sequence_lens[b]` elements of each sequence, backwards; the rest as it is."""
    x, lengths = call.input(0), cast(ctx, call.input(1), dtypes.int64)
    time = shapes.normalize_axis(call.attrs.integer("time_axis", 0), x.rank)
    batch = shapes.normalize_axis(call.attrs.integer("batch_axis", 1), x.rank)
    if time == batch or x.rank < 2:
        raise ModelError(f"time axis {time} and batch axis {batch} of {x.value.type_text}")
    step = _positions_along(ctx, x.shape, time)
    length = ctx.add("reshape", lengths, shape=tuple(d if a == batch else 1 for a, d in enumerate(x.shape)))
    mirrored = ctx.add("sub", ctx.add("sub", length, ctx.number(1, dtypes.int64)), step)
    places = ctx.add("where", ctx.add("lt", step, length), mirrored, step)
    return ctx.add("take_along", x, places, axis=time)
