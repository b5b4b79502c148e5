"""Operators that pick, place and join elements at positions known when compiled: slice, concatenate, pad, update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from lpx import te
from lpx.errors import ShapeError
from lpx.expr import build
from lpx.expr.nodes import Expr
from lpx.graph import shapes
from lpx.graph.operator import Operator, register
from lpx.graph.operators.definition import Attrs, Inputs, Outputs, empty, ints, is_empty, operands
from lpx.graph.shapes import Dim


def _define_slice(inputs: Inputs, attrs: Attrs) -> Outputs:
    """`starts`, `steps`, `sizes` per axis: output i is input start + i * step, all in range.

    On a symbolic axis, which may be empty, that is not provable but tested at each element.
    """
    (x,) = operands(inputs)
    starts, steps = cast("tuple[Dim, ...]", attrs["starts"]), ints(attrs, "steps")
    sizes = cast("tuple[Dim, ...]", attrs["sizes"])
    if is_empty(sizes):
        return (empty(sizes, x.dtype, "slice"),)

    def at(*i: Expr) -> Expr:
        places = [_position(index, start, step) for index, start, step in zip(i, starts, steps, strict=True)]
        value = x[tuple(places)]
        for place, extent, start, size in zip(places, x.shape, starts, sizes, strict=True):
            whole = shapes.same_dim(size, extent)
            if not (isinstance(extent, int) or whole) and not (isinstance(start, int) and start == 0):
                value = build.select(place < extent, value, build.const(0, x.dtype))
        return value

    return (te.compute(sizes, at, name="slice"),)


def _position(index: Expr, start: Dim, step: int) -> Expr:
    scaled = index if step == 1 else index * step
    return scaled if isinstance(start, int) and start == 0 else scaled + start


def _define_concat(inputs: Inputs, attrs: Attrs) -> Outputs:
    axis = cast("int", attrs["axis"])
    given = operands(inputs)
    for part in given:
        _check_other_axes(given[0], part, axis)
    shape: list[Dim] = list(given[0].shape)
    shape[axis] = shapes.total([p.shape[axis] for p in given])
    parts = [p for p in given if not is_empty(p.shape)]
    if not parts:
        return (empty(shape, given[0].dtype, "concat"),)
    ends = [shapes.total([p.shape[axis] for p in parts[: k + 1]]) for k in range(len(parts))]
    starts: list[Dim] = [0, *ends[:-1]]

    def at(*i: Expr) -> Expr:
        def read(part: te.Tensor, start: Dim) -> Expr:
            return part[tuple(_position(index, -start, 1) if a == axis else index for a, index in enumerate(i))]

        value = read(parts[-1], starts[-1])
        for part, start, end in reversed(list(zip(parts[:-1], starts[:-1], ends[:-1], strict=True))):
            value = build.select(i[axis] < end, read(part, start), value)
        return value

    return (te.compute(shape, at, name="concat"),)


def _check_other_axes(first: te.Tensor, part: te.Tensor, axis: int) -> None:
    same_rank = first.rank == part.rank
    if same_rank and all(
        shapes.same_dim(d, e) for a, (d, e) in enumerate(zip(first.shape, part.shape, strict=True)) if a != axis
    ):
        return
    raise ShapeError(
        f"cannot concatenate {shapes.shape_text(first.shape)} and {shapes.shape_text(part.shape)} on axis {axis}",
        hint="all other axes must have equal extents",
    )


def _define_pad(inputs: Inputs, attrs: Attrs) -> Outputs:
    """Constant padding: `before`, `after` per axis (not negative); the second operand is the 0-d pad value."""
    x, fill = operands(inputs)
    return (pad(x, ints(attrs, "before"), ints(attrs, "after"), fill[()]),)


def pad(x: te.Tensor, before: Sequence[int], after: Sequence[int], fill: Expr) -> te.Tensor:
    """`x` with `fill` around it; itself when nothing is added."""
    if not any(before) and not any(after):
        return x
    shape = [shapes.total([d, b + a]) for d, b, a in zip(x.shape, before, after, strict=True)]

    def at(*i: Expr) -> Expr:
        inside: Expr | None = None
        for index, extent, low, high in zip(i, x.shape, before, after, strict=True):
            tests = ([index >= low] if low else []) + ([index < extent + low] if high else [])
            for test in tests:
                inside = test if inside is None else inside & test
        if inside is None or is_empty(x.shape):
            return fill
        return build.select(inside, x[tuple(_position(k, -low, 1) for k, low in zip(i, before, strict=True))], fill)

    return te.compute(shape, at, name="pad")


def _define_update_slice(inputs: Inputs, attrs: Attrs) -> Outputs:
    """The first operand with elements at `start + i * step` (step not 0) replaced by those of the second."""
    x, new = operands(inputs)
    starts, steps = cast("tuple[Dim, ...]", attrs["starts"]), ints(attrs, "steps")

    def at(*i: Expr) -> Expr:
        inside: Expr = build.const(True)
        source: list[Expr] = []
        for index, start, step, size in zip(i, starts, steps, new.shape, strict=True):
            distance = index - start if step > 0 else build.as_expr(start) - index
            position = distance if abs(step) == 1 else distance // abs(step)
            tests = [distance >= 0, position < size, *([] if abs(step) == 1 else [distance % abs(step) == 0])]
            for test in tests:
                inside = inside & test
            source.append(position)
        return build.select(inside, new[tuple(source)], x[i])

    return (te.compute(x.shape, at, name="update_slice"),)


def _define_arange(_: Inputs, attrs: Attrs) -> Outputs:
    """`start + i * step` for i below `size`, in the dtype given."""
    size, dtype = cast("Dim", attrs["size"]), cast("str", attrs["dtype"])
    start, step = (build.const(attrs[k], dtype) for k in ("start", "step"))

    def at(i: Expr) -> Expr:
        return start + build.cast(i, dtype) * step

    return (te.compute((size,), at, name="arange"),)


for _name, _define in {
    "slice": _define_slice,
    "concat": _define_concat,
    "pad": _define_pad,
    "update_slice": _define_update_slice,
    "arange": _define_arange,
}.items():
    register(Operator(_name, "injective", _define))
