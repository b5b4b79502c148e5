"""Operators that move elements: reshape, transpose, slice, concatenate, pad, gather."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import cast

from lpx import te
from lpx.errors import ShapeError
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.graph import shapes
from lpx.graph.operator import AttrValue, Operator, register
from lpx.graph.shapes import Dim

Inputs = Sequence[te.Tensor | None]
Attrs = Mapping[str, AttrValue]
Outputs = Sequence[te.Tensor]


def ints(attrs: Attrs, name: str) -> tuple[int, ...]:
    """An attribute that is a tuple of ints."""
    return cast("tuple[int, ...]", attrs[name])


def operands(inputs: Inputs) -> list[te.Tensor]:
    """The operands that are given."""
    return [x for x in inputs if x is not None]


def reshape_groups(old: Sequence[Dim], new: Sequence[Dim]) -> list[tuple[range, range]]:
    """Split a reshape into the finest runs of axes that hold the same number of elements.

    (4, 6, 5) -> (24, 5) gives [(0:2, 0:1), (2:3, 1:2)]. Symbolic extents must stand opposite an equal extent.

    Raises: ShapeError when the numbers of elements differ.
    """
    groups: list[tuple[range, range]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        first_i, first_j = i, j
        if i < len(old) and j < len(new) and shapes.same_dim(old[i], new[j]):
            i, j = i + 1, j + 1
        else:
            i, j = _grow(old, new, i, j)
        groups.append((range(first_i, i), range(first_j, j)))
    return groups


def _grow(old: Sequence[Dim], new: Sequence[Dim], i: int, j: int) -> tuple[int, int]:
    left = right = 1
    begin_i, begin_j = i, j
    while True:
        if left <= right and i < len(old) and not (left == right and j > begin_j and i > begin_i):
            left, i = left * _static(old[i], old, new), i + 1
        elif j < len(new):
            right, j = right * _static(new[j], old, new), j + 1
        else:
            i, j = len(old), len(new)
            left, right = (prod(_static(d, old, new) for d in s) for s in (old[begin_i:], new[begin_j:]))
            if left != right:
                raise _reshape_error(old, new)
            return i, j
        if left == right and (i > begin_i or j > begin_j) and not _followed_by_ones(old, new, i, j):
            return i, j


def _followed_by_ones(old: Sequence[Dim], new: Sequence[Dim], i: int, j: int) -> bool:
    """Whether only one side has axes left, all of extent 1, which then belong to the last group."""
    rest = (*old[i:], *new[j:])
    one_sided = i == len(old) or j == len(new)
    return one_sided and bool(rest) and all(isinstance(d, int) and d == 1 for d in rest)


def _static(extent: Dim, old: Sequence[Dim], new: Sequence[Dim]) -> int:
    if isinstance(extent, int):
        return extent
    raise _reshape_error(old, new)


def _reshape_error(old: Sequence[Dim], new: Sequence[Dim]) -> ShapeError:
    return ShapeError(
        f"cannot reshape {shapes.shape_text(old)} to {shapes.shape_text(new)}",
        hint="both must hold the same number of elements; a symbolic extent must be kept as a dimension of its own",
    )


def _define_reshape(inputs: Inputs, attrs: Attrs) -> Outputs:
    (x,) = operands(inputs)
    old, new = shapes.dims(x.shape), shapes.dims(cast("tuple[Dim, ...]", attrs["shape"]))
    groups = reshape_groups(old, new)

    def at(*indices: Expr) -> Expr:
        source: list[Expr] = []
        for old_axes, new_axes in groups:
            source.extend(_unflatten(_flatten([indices[a] for a in new_axes], new, new_axes), old, old_axes))
        return x[tuple(source)]

    return (te.compute(new, at, name="reshape"),)


def _flatten(indices: Sequence[Expr], shape: Sequence[Dim], axes: range) -> Expr:
    flat: Expr = build.const(0, "int64")
    for position, (index, axis) in enumerate(zip(indices, axes, strict=True)):
        flat = index if position == 0 else flat * build.as_expr(shape[axis]) + index
    return flat


def _unflatten(flat: Expr, shape: Sequence[Dim], axes: range) -> list[Expr]:
    if len(axes) == 1:
        return [flat]
    found: list[Expr] = []
    for axis in reversed(axes):
        extent = build.as_expr(shape[axis])
        found.append(flat % extent if axis != axes[0] else flat)
        flat = flat // extent
    return list(reversed(found))


def _define_transpose(inputs: Inputs, attrs: Attrs) -> Outputs:
    (x,) = operands(inputs)
    axes = ints(attrs, "axes")
    if sorted(axes) != list(range(len(x.shape))):
        raise ShapeError(f"axes {axes} are not a permutation of the {len(x.shape)} dimension(s)")
    inverse = [axes.index(a) for a in range(len(axes))]
    shape = tuple(x.shape[a] for a in axes)
    return (te.compute(shape, lambda *i: x[tuple(i[a] for a in inverse)], name="transpose"),)


def _define_broadcast(inputs: Inputs, attrs: Attrs) -> Outputs:
    (x,) = operands(inputs)
    shape = shapes.dims(cast("tuple[Dim, ...]", attrs["shape"]))
    common = shapes.broadcast_shapes([x.shape, shape])
    if len(common) != len(shape) or not all(shapes.same_dim(a, b) for a, b in zip(common, shape, strict=True)):
        raise ShapeError(f"{shapes.shape_text(x.shape)} does not broadcast to {shapes.shape_text(shape)}")
    return (te.compute(shape, lambda *i: shapes.read_broadcast(x, i, shape), name="broadcast"),)


def _define_slice(inputs: Inputs, attrs: Attrs) -> Outputs:
    """`starts`, `steps`, `sizes` per axis: output i is input start + i * step, all proved in range."""
    (x,) = operands(inputs)
    starts, steps = ints(attrs, "starts"), ints(attrs, "steps")
    sizes = cast("tuple[Dim, ...]", attrs["sizes"])

    def at(*indices: Expr) -> Expr:
        return x[tuple(_position(i, start, step) for i, start, step in zip(indices, starts, steps, strict=True))]

    return (te.compute(sizes, at, name="slice"),)


def _position(index: Expr, start: int, step: int) -> Expr:
    scaled = index if step == 1 else index * step
    return scaled if start == 0 else scaled + start


def _define_concat(inputs: Inputs, attrs: Attrs) -> Outputs:
    parts = operands(inputs)
    axis = cast("int", attrs["axis"])
    extents = [build.as_expr(p.shape[axis]) for p in parts]
    for part in parts:
        for a, (d, e) in enumerate(zip(shapes.dims(part.shape), shapes.dims(parts[0].shape), strict=True)):
            if a != axis and not shapes.same_dim(d, e):
                raise ShapeError(
                    f"cannot concatenate {shapes.shape_text(parts[0].shape)} and {shapes.shape_text(part.shape)} on {axis}"
                )
    total = extents[0]
    starts: list[Expr] = [build.const(0, "int64")]
    for extent in extents[1:]:
        starts.append(total)
        total = total + extent
    shape = list(parts[0].shape)
    shape[axis] = sum_dims([shapes.dim(p.shape[axis]) for p in parts])

    def at(*indices: Expr) -> Expr:
        def read(part: te.Tensor, start: Expr) -> Expr:
            return part[tuple(i - start if a == axis else i for a, i in enumerate(indices))]

        value = read(parts[-1], starts[-1])
        for part, start, following in reversed(list(zip(parts[:-1], starts[:-1], starts[1:], strict=True))):
            value = build.select(indices[axis] < following, read(part, start), value)
        return value

    return (te.compute(shape, at, name="concat"),)


def sum_dims(extents: Sequence[Dim]) -> Dim:
    """The sum of extents, an int where all are."""
    total = extents[0]
    for extent in extents[1:]:
        total = total + extent
    return total


def _define_pad(inputs: Inputs, attrs: Attrs) -> Outputs:
    """Constant padding: `before`, `after` per axis (not negative); the second operand is the 0-d pad value."""
    x, fill = operands(inputs)
    before, after = ints(attrs, "before"), ints(attrs, "after")
    return (pad(x, before, after, fill[()]),)


def pad(x: te.Tensor, before: Sequence[int], after: Sequence[int], fill: Expr) -> te.Tensor:
    """`x` with `fill` around it; itself when nothing is added."""
    if not any(before) and not any(after):
        return x
    shape = [sum_dims([shapes.dim(d), b + a]) for d, b, a in zip(x.shape, before, after, strict=True)]

    def at(*indices: Expr) -> Expr:
        inside: Expr | None = None
        for index, extent, low, high in zip(indices, x.shape, before, after, strict=True):
            tests = ([index >= low] if low else []) + ([index < extent + low] if high else [])
            for test in tests:
                inside = test if inside is None else inside & test
        value = x[tuple(i - low if low else i for i, low in zip(indices, before, strict=True))]
        return value if inside is None else build.select(inside, value, fill)

    return te.compute(shape, at, name="pad")


def _define_take(inputs: Inputs, attrs: Attrs) -> Outputs:
    """Elements of the first operand at the indices of the second, along `axis`; negative indices count from the end."""
    x, where = operands(inputs)
    axis = cast("int", attrs["axis"])
    extent = build.as_expr(x.shape[axis])
    shape = (*x.shape[:axis], *where.shape, *x.shape[axis + 1 :])
    rank = len(where.shape)

    def at(*indices: Expr) -> Expr:
        picked = build.cast(where[tuple(indices[axis : axis + rank])], "int64")
        wrapped = build.select(picked < 0, picked + extent, picked)
        return x[(*indices[:axis], wrapped, *indices[axis + rank :])]

    return (te.compute(shape, at, name="take"),)


def _define_update_slice(inputs: Inputs, attrs: Attrs) -> Outputs:
    """The first operand with elements at `start + i * step` (step not 0) replaced by those of the second."""
    x, new = operands(inputs)
    starts, steps = ints(attrs, "starts"), ints(attrs, "steps")

    def at(*indices: Expr) -> Expr:
        inside: Expr = build.const(True)
        source: list[Expr] = []
        for index, start, step, size in zip(indices, starts, steps, shapes.dims(new.shape), strict=True):
            distance = index - start if step > 0 else build.const(start) - index
            position = distance // abs(step)
            tests = [distance >= 0, position < size, *([] if abs(step) == 1 else [distance % abs(step) == 0])]
            for test in tests:
                inside = inside & test
            source.append(position)
        return build.select(inside, new[tuple(source)], x[indices])

    return (te.compute(x.shape, at, name="update_slice"),)


def _define_arange(_: Inputs, attrs: Attrs) -> Outputs:
    """`start + i * step` for i below `size`, in the dtype given."""
    size, dtype = cast("Dim", attrs["size"]), cast("str", attrs["dtype"])
    start, step = (build.const(attrs[k], dtype) for k in ("start", "step"))
    return (te.compute((size,), lambda i: start + build.cast(i, dtype) * step, name="arange"),)


for _name, _function in {
    "reshape": _define_reshape,
    "transpose": _define_transpose,
    "broadcast": _define_broadcast,
    "slice": _define_slice,
    "concat": _define_concat,
    "pad": _define_pad,
    "take": _define_take,
    "update_slice": _define_update_slice,
    "arange": _define_arange,
}.items():
    register(Operator(_name, "injective", _function))
