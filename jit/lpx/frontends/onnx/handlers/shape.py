"""Operators that make, reshape and move tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from lpx import dtypes
from lpx.errors import ModelError, UnsupportedError
from lpx.frontends.onnx import tensors
from lpx.frontends.onnx.context import Context, Operand
from lpx.frontends.onnx.handlers.registry import Call, handles
from lpx.graph import shapes


@handles("Constant")
def constant(ctx: Context, call: Call) -> Operand:
    """A tensor stored in the node."""
    attrs = call.attrs
    if "value" in attrs:
        return ctx.constant(attrs.tensor("value"))
    if "value_int" in attrs:
        return ctx.constant(np.asarray(attrs.integer("value_int"), np.int64))
    if "value_ints" in attrs:
        return ctx.constant(np.asarray(attrs.integers("value_ints"), np.int64))
    if "value_float" in attrs:
        return ctx.constant(np.asarray(attrs.number("value_float"), np.float32))
    if "value_floats" in attrs:
        return ctx.constant(np.asarray(attrs.numbers("value_floats"), np.float32))
    raise UnsupportedError("Constant without a dense numeric value", hint="give it the attribute value")


@handles("ConstantOfShape")
def constant_of_shape(ctx: Context, call: Call) -> Operand:
    """One value everywhere."""
    shape = extents(ctx, call.input(0), "the shape of ConstantOfShape")
    value = call.attrs.tensor("value") if "value" in call.attrs else np.zeros(1, np.float32)
    if value.size != 1:
        raise ModelError(f"ConstantOfShape has a value of {value.size} elements")
    return ctx.add("broadcast", ctx.constant(value.reshape(())), shape=shape)


def extents(ctx: Context, x: Operand, what: str) -> tuple[int, ...]:
    """A shape that an operand holds.

    Raises: ModelError when an extent is negative.
    """
    found = ctx.integers(x, what)
    if any(d < 0 for d in found):
        raise ModelError(f"{what} is {found}, which has a negative extent")
    return found


@handles("Shape")
def shape_of(ctx: Context, call: Call) -> Operand:
    """The extents, from `start` to `end`."""
    x = call.input(0)
    start, end = call.attrs.integer("start", 0), call.attrs.integer("end", x.rank)
    return ctx.constant(np.asarray(x.shape[slice(start, end)], np.int64))


@handles("Size")
def size_of(ctx: Context, call: Call) -> Operand:
    """The number of elements."""
    return ctx.constant(np.asarray(call.input(0).size, np.int64))


@handles("Reshape")
def reshape(ctx: Context, call: Call) -> Operand:
    """0 keeps an extent (unless `allowzero`), -1 is what is left."""
    x = call.input(0)
    if call.version < 5:
        call.attrs.ignore("consumed_inputs")
        wanted = call.attrs.integers("shape")
    else:
        wanted = ctx.integers(call.input(1), "the shape of Reshape")
    allow_zero = call.attrs.flag("allowzero")
    if any(d == 0 and axis >= x.rank for axis, d in enumerate(wanted)) and not allow_zero:
        raise ModelError(f"cannot reshape {x.value.type_text} to {wanted}: 0 keeps an extent that is not there")
    shape = [x.shape[axis] if d == 0 and not allow_zero else d for axis, d in enumerate(wanted)]
    return ctx.add("reshape", x, shape=_fill_in(shape, x, wanted))


def _fill_in(shape: Sequence[int], x: Operand, wanted: Sequence[int]) -> tuple[int, ...]:
    rest = prod(d for d in shape if d != -1)
    unknown = shape.count(-1)
    if unknown > 1 or any(d < -1 for d in shape) or (unknown and (not rest or x.size % rest)):
        raise ModelError(f"cannot reshape {x.value.type_text} to {tuple(wanted)}")
    return tuple(x.size // rest if d == -1 else d for d in shape)


@handles("Flatten")
def flatten(ctx: Context, call: Call) -> Operand:
    """Two dimensions, split at `axis`."""
    x = call.input(0)
    axis = call.attrs.integer("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise ModelError(f"axis {axis} is out of range for {x.value.type_text}")
    axis = axis + x.rank if axis < 0 else axis
    return ctx.add("reshape", x, shape=(prod(x.shape[:axis]), prod(x.shape[axis:])))


def axes_of(ctx: Context, call: Call, position: int, since: int) -> tuple[int, ...] | None:
    """The axes an operator works on: an attribute before version `since`, an operand from there on. None: not given."""
    if call.version < since:
        return call.attrs.integers("axes") if "axes" in call.attrs else None
    given = call.optional(position)
    return None if given is None else ctx.integers(given, f"the axes of {call.op}")


@handles("Squeeze")
def squeeze(ctx: Context, call: Call) -> Operand:
    """Drop dimensions of extent 1: those named, or all."""
    x = call.input(0)
    given = axes_of(ctx, call, 1, 13)
    if given is None:
        return ctx.add("reshape", x, shape=tuple(d for d in x.shape if d != 1))
    axes = shapes.normalize_axes(given, x.rank)
    if any(x.shape[a] != 1 for a in axes):
        raise ModelError(f"cannot squeeze axes {given} of {x.value.type_text}: an extent is not 1")
    return ctx.add("reshape", x, shape=tuple(d for a, d in enumerate(x.shape) if a not in axes))


@handles("Unsqueeze")
def unsqueeze(ctx: Context, call: Call) -> Operand:
    """Insert dimensions of extent 1 at positions of the result."""
    x = call.input(0)
    given = axes_of(ctx, call, 1, 13)
    if given is None:
        raise ModelError("Unsqueeze without axes")
    return insert_axes(ctx, x, given)


def insert_axes(ctx: Context, x: Operand, axes: Sequence[int]) -> Operand:
    """`x` with dimensions of extent 1 at these positions of the result."""
    rank = x.rank + len(axes)
    places = shapes.normalize_axes(tuple(axes), rank)
    rest = iter(x.shape)
    return ctx.add("reshape", x, shape=tuple(1 if a in places else next(rest) for a in range(rank)))


@handles("Transpose")
def transpose(ctx: Context, call: Call) -> Operand:
    """Permute dimensions; reverse them by default."""
    x = call.input(0)
    return ctx.add("transpose", x, axes=call.attrs.integers("perm", tuple(reversed(range(x.rank)))))


@handles("Expand")
def expand(ctx: Context, call: Call) -> Operand:
    """Broadcast both ways against a shape."""
    x = call.input(0)
    wanted = extents(ctx, call.input(1), "the shape of Expand")
    return ctx.add("broadcast", x, shape=shapes.broadcast_shapes([x.shape, wanted]))


@handles("Tile")
def tile(ctx: Context, call: Call) -> Operand:
    """Repeat along each dimension."""
    x = call.input(0)
    if call.version < 6:
        axis = shapes.normalize_axis(ctx.integer(call.input(2), "the axis of Tile"), x.rank)
        count = ctx.integer(call.input(1), "the number of tiles")
        repeats = tuple(count if a == axis else 1 for a in range(x.rank))
    else:
        repeats = extents(ctx, call.input(1), "the repeats of Tile")
    if len(repeats) != x.rank:
        raise ModelError(f"Tile has {len(repeats)} repeats for {x.value.type_text}")
    return repeat(ctx, x, repeats)


def repeat(ctx: Context, x: Operand, repeats: Sequence[int]) -> Operand:
    """`x` laid side by side, `repeats[axis]` times."""
    lifted = tuple(e for d in x.shape for e in (1, d))
    spread = tuple(e for r, d in zip(repeats, x.shape, strict=True) for e in (r, d))
    wide = ctx.add("broadcast", ctx.add("reshape", x, shape=lifted), shape=spread)
    return ctx.add("reshape", wide, shape=tuple(r * d for r, d in zip(repeats, x.shape, strict=True)))


@handles("Concat")
def concat(ctx: Context, call: Call) -> Operand:
    """Join along an axis."""
    parts = call.given
    default = 1 if call.version < 4 else None
    axis = shapes.normalize_axis(call.attrs.integer("axis", default), parts[0].rank)
    return join(ctx, parts, axis)


def join(ctx: Context, parts: Sequence[Operand], axis: int) -> Operand:
    """`parts` one after another along `axis`; empty ones are left out."""
    if len({p.rank for p in parts}) != 1:
        raise ModelError(f"cannot join {', '.join(p.value.type_text for p in parts)}: ranks differ")
    filled = [p for p in parts if p.shape[axis]] or parts[:1]
    return filled[0] if len(filled) == 1 else ctx.add("concat", *filled, axis=axis)


@handles("Split")
def split(ctx: Context, call: Call) -> list[Operand]:
    """Parts along an axis, of given sizes or equal ones (the last one smaller)."""
    x = call.input(0)
    axis = shapes.normalize_axis(call.attrs.integer("axis", 0), x.rank)
    parts = _split_sizes(ctx, call, x.shape[axis])
    if sum(parts) != x.shape[axis] or any(p < 0 for p in parts):
        raise ModelError(f"parts of {tuple(parts)} do not make up axis {axis} of {x.value.type_text}")
    starts = np.cumsum([0, *parts]).tolist()
    return [take_slice(ctx, x, {axis: (start, 1, size)}) for start, size in zip(starts, parts, strict=False)]


def _split_sizes(ctx: Context, call: Call, extent: int) -> Sequence[int]:
    given = call.optional(1)
    if given is not None:
        return ctx.integers(given, "the sizes of Split")
    if "split" in call.attrs:
        return call.attrs.integers("split")
    count = call.attrs.integer("num_outputs", len(call.outputs))
    if count < 1:
        raise ModelError(f"Split into {count} outputs")
    size = -(-extent // count)
    if call.version < 18 and extent % count:
        raise ModelError(f"an extent of {extent} does not split into {count} equal parts")
    return [max(min(size, extent - k * size), 0) for k in range(count)]


@handles("Slice")
def slice_(ctx: Context, call: Call) -> Operand:
    """Python's slicing along some axes; ends past the data are clamped."""
    x = call.input(0)
    if call.version < 10:
        starts, ends = call.attrs.integers("starts"), call.attrs.integers("ends")
        axes = call.attrs.integers("axes", tuple(range(len(starts))))
        steps: tuple[int, ...] = (1,) * len(starts)
    else:
        starts, ends = (ctx.integers(call.input(k), "the range of Slice") for k in (1, 2))
        given_axes, given_steps = call.optional(3), call.optional(4)
        axes = tuple(range(len(starts))) if given_axes is None else ctx.integers(given_axes, "the axes of Slice")
        steps = (1,) * len(starts) if given_steps is None else ctx.integers(given_steps, "the steps of Slice")
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ModelError("starts, ends, axes and steps of Slice are not equally many")
    axes = tuple(shapes.normalize_axis(a, x.rank) for a in axes)
    if len(set(axes)) != len(axes):
        raise ModelError(f"Slice names an axis twice: {axes}")
    ranges = {
        a: clamp_range(start, end, step, x.shape[a])
        for a, start, end, step in zip(axes, starts, ends, steps, strict=True)
    }
    return take_slice(ctx, x, ranges)


def clamp_range(start: int, end: int, step: int, extent: int) -> tuple[int, int, int]:
    """First position, step and number of elements of `start:end:step` in an extent, as Slice counts.

    Negative positions count from the end. For a negative step an end of the most negative integer is "before the
    first".
    """
    if step == 0:
        raise ModelError("Slice with a step of 0")
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    first = min(max(start + extent if start < 0 else start, 0 if step > 0 else low), high)
    last = min(max(end + extent if end < 0 else end, low), high)
    distance = last - first
    return first, step, max(-(-distance // step) if step > 0 else -(distance // -step), 0)


def take_slice(ctx: Context, x: Operand, ranges: dict[int, tuple[int, int, int]]) -> Operand:
    """Elements `start + i * step` for `size` values of i, along each axis in `ranges` (axis -> start, step, size)."""
    full = [ranges.get(a, (0, 1, d)) for a, d in enumerate(x.shape)]
    if all(r == (0, 1, d) for r, d in zip(full, x.shape, strict=True)):
        return x
    starts, steps, sizes = zip(*full, strict=True)
    if 0 in sizes:
        return ctx.add("full", shape=sizes, value=0, dtype=x.dtype.name)
    return ctx.add("slice", x, starts=starts, steps=steps, sizes=sizes)


@handles("Range")
def arange(ctx: Context, call: Call) -> Operand:
    """From start up to limit by delta."""
    start, limit, delta = (ctx.array(call.input(k), "the bounds of Range").item() for k in range(3))
    if delta == 0:
        raise ModelError("Range with a delta of 0")
    exact = isinstance(start, int)
    size = -((start - limit) // delta) if exact else int(np.ceil((limit - start) / delta))
    return ctx.add("arange", start=start, step=delta, size=max(size, 0), dtype=call.input(0).dtype.name)


@handles("Trilu")
def triangle(ctx: Context, call: Call) -> Operand:
    """The upper or lower triangle of the last two dimensions; zero elsewhere."""
    x, k = call.input(0), call.optional(1)
    diagonal = 0 if k is None else ctx.integer(k, "the diagonal of Trilu")
    rows, columns = _positions(ctx, x.shape[-2], 1), _positions(ctx, x.shape[-1], 0)
    moved = ctx.add("add", rows, ctx.number(diagonal, dtypes.int64))
    kept = ctx.add("le", moved, columns) if call.attrs.flag("upper", True) else ctx.add("le", columns, moved)
    return ctx.add("where", kept, x, ctx.number(0, x.dtype))


@handles("EyeLike")
def eye_like(ctx: Context, call: Call) -> Operand:
    """Ones on a diagonal."""
    x, diagonal = call.input(0), call.attrs.integer("k", 0)
    code = call.attrs.integer("dtype", tensors.code_of(x.dtype))
    dtype = tensors.dtype_of(code, "attribute dtype of EyeLike")
    rows, columns = _positions(ctx, x.shape[0], 1), _positions(ctx, x.shape[1], 0)
    hot = ctx.add("eq", ctx.add("add", rows, ctx.number(diagonal, dtypes.int64)), columns)
    return ctx.add("where", hot, ctx.number(1, dtype), ctx.number(0, dtype))


def _positions(ctx: Context, extent: int, trailing: int) -> Operand:
    positions = ctx.add("arange", start=0, step=1, size=extent, dtype="int64")
    return ctx.add("reshape", positions, shape=(extent, *(1,) * trailing))


@handles("DepthToSpace")
def depth_to_space(ctx: Context, call: Call) -> Operand:
    """Blocks of channels become blocks of pixels."""
    x, block = call.input(0), call.attrs.integer("blocksize")
    mode = call.attrs.text("mode", "DCR", legal=("DCR", "CRD"))
    n, c, h, w = _image(x)
    if block < 1 or c % (block * block):
        raise ModelError(f"blocks of {block} do not fit {c} channels")
    depth = c // (block * block)
    if mode == "DCR":
        lifted, order = (n, block, block, depth, h, w), (0, 3, 4, 1, 5, 2)
    else:
        lifted, order = (n, depth, block, block, h, w), (0, 1, 4, 2, 5, 3)
    moved = ctx.add("transpose", ctx.add("reshape", x, shape=lifted), axes=order)
    return ctx.add("reshape", moved, shape=(n, depth, h * block, w * block))


@handles("SpaceToDepth")
def space_to_depth(ctx: Context, call: Call) -> Operand:
    """Blocks of pixels become blocks of channels."""
    x, block = call.input(0), call.attrs.integer("blocksize")
    n, c, h, w = _image(x)
    if block < 1 or h % block or w % block:
        raise ModelError(f"blocks of {block} do not fit {x.value.type_text}")
    mode = call.attrs.text("mode", "DCR", legal=("DCR", "CRD"))
    lifted = ctx.add("reshape", x, shape=(n, c, h // block, block, w // block, block))
    moved = ctx.add("transpose", lifted, axes=(0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return ctx.add("reshape", moved, shape=(n, c * block * block, h // block, w // block))


def _image(x: Operand) -> tuple[int, int, int, int]:
    if x.rank != 4:
        raise ModelError(f"{x.value.type_text} is no [N, C, H, W]")
    n, c, h, w = x.shape
    return n, c, h, w
